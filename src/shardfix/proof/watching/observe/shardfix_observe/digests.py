"""A short digest of whatever a dataset yields: equal content, equal digest, in every process."""

from __future__ import annotations

import hashlib
import pickle
import sys
from typing import Any

DEPTH = 12


def digest(item: Any) -> str:
    """16 hexadecimal digits that stand for an item's content."""
    state = hashlib.blake2b(digest_size=8)
    _feed(state, item, 0)
    return state.hexdigest()


def _feed(state: Any, item: Any, depth: int) -> None:
    torch = sys.modules.get("torch")
    numpy = sys.modules.get("numpy")
    state.update(type(item).__name__.encode() + b":")
    if depth > DEPTH:
        return
    if isinstance(item, (str, int, float, complex, bool, type(None))):
        state.update(repr(item).encode("utf-8", "surrogatepass"))
    elif isinstance(item, (bytes, bytearray)):
        state.update(bytes(item))
    elif torch is not None and isinstance(item, torch.Tensor):
        _feed_tensor(state, item)
    elif numpy is not None and isinstance(item, numpy.ndarray) and item.dtype != object:
        state.update(f"{item.dtype}{item.shape}".encode() + item.tobytes())
    elif isinstance(item, dict):
        for key, value in item.items():
            _feed(state, key, depth + 1)
            _feed(state, value, depth + 1)
    elif isinstance(item, (list, tuple)):
        state.update(str(len(item)).encode())
        for value in item:
            _feed(state, value, depth + 1)
    elif type(item).__module__.startswith("PIL.") and hasattr(item, "tobytes"):
        state.update(f"{item.mode}{item.size}".encode() + item.tobytes())
    elif hasattr(item, "data") and hasattr(item, "keys"):  # transformers' BatchEncoding and the like
        _feed(state, dict(item), depth + 1)
    else:
        try:
            state.update(pickle.dumps(item, protocol=4))
        except Exception:
            _feed(state, getattr(item, "__dict__", None), depth + 1)
    state.update(b";")


def _feed_tensor(state: Any, tensor: Any) -> None:
    state.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
    tensor = tensor.detach()
    try:
        if tensor.is_sparse or tensor.is_quantized:
            state.update(repr(tensor).encode())
        else:
            import torch

            state.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    except Exception:
        state.update(repr(tensor.tolist()).encode())
