"""What stands for a model, a loss and a meter where an evaluation is run for its proof; its text runs in each rank.

A batch is a tensor of dataset indices, and every value is decided by these: the same samples give the same value
however they are batched, and other samples give another one. Names in capitals can't be names of the user's program.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from typing import Any

READ: list[list[int]] = []


def BATCHES(loader: Any) -> Iterator[Any]:
    """The loader's batches, the indices in them written down."""
    for batch in loader:
        READ.append([int(index) for index in batch])
        yield batch


def OF(name: str, index: int) -> int:
    """A small whole number for one sample; ``name`` tells the values of one loop apart."""
    return zlib.crc32(f"{name} {index}".encode()) % 7


def ROWS(name: str, batch: Any) -> list[int]:
    """A number for each sample, as a list."""
    return [OF(name, int(index)) for index in batch]


def COUNT(batch: Any) -> int:
    """How many samples the batch holds."""
    return len(batch)


def HITS(name: str, batch: Any) -> int:
    """A whole number for each sample, summed over the batch."""
    return sum(ROWS(name, batch))


def SUM(name: str, batch: Any) -> float:
    """A fraction for each sample, summed over the batch."""
    return sum(row / 7 for row in ROWS(name, batch))


def MEAN(name: str, batch: Any) -> float:
    """The mean of the batch's fractions, as a loss gives it."""
    return SUM(name, batch) / len(batch)


def TENSOR(value: Any) -> Any:
    """A value as a tensor, for statements that call its methods."""
    import torch

    return torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)


def ARRAY(value: Any) -> Any:
    """A value as one of numpy's."""
    import numpy

    return numpy.array(value)


def CALL(name: str, *values: Any) -> list[Any]:
    """A function that is not run: what it is given decides what it gives."""
    return [name, *values]


class METER:
    """A running average, as projects write them: sum, count, avg and the last value."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.val: Any = 0
        self.avg: Any = 0
        self.sum: Any = 0
        self.count: Any = 0

    def update(self, val: Any, n: Any = 1) -> None:
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count


def TOLD(values: dict[str, Any]) -> dict[str, Any]:
    """What came out, ready for JSON: values by name, and the indices of each batch that was read."""
    return {"values": {name: PLAIN(value) for name, value in values.items()}, "read": READ}


def PLAIN(value: Any) -> Any:
    """A value in JSON's types; tensors and arrays with their type."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(value, torch.Tensor):
        return [f"{value.dtype} tensor", PLAIN(value.tolist())]
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return [f"{value.dtype} array", PLAIN(value.tolist())]
    if isinstance(value, METER):
        return {"sum": PLAIN(value.sum), "count": PLAIN(value.count), "avg": PLAIN(value.avg)}
    if isinstance(value, dict):
        return {str(key): PLAIN(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [PLAIN(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else f"{type(value).__name__}"
