"""What a loader says of itself: the fields of ``shardfix.proof.observed.Built``."""

from __future__ import annotations

import sys
from typing import Any

from .digests import digest
from .samples import BaseIds

HELD = 1 << 24  # bytes of a dataset that is in memory, of which a digest is taken


def built(loader: Any, ids: BaseIds, manual: bool, sharder: str, wrapper: Any = None, world: int = 1) -> dict[str, Any]:
    """The fields of ``Built`` that differ from their defaults.

    Args:
        loader: the DataLoader itself.
        manual: the program gave a sampler or batch sampler.
        sharder: the library that made this loader of the program's own.
        wrapper: accelerate's object around it, as it is iterated.
    """
    data = sys.modules["torch.utils.data"]
    batches, shard_of_batches = _unwrapped(loader)
    source = loader if batches is None else batches
    sampler = getattr(source, "sampler", None)
    if isinstance(sampler, data.BatchSampler):  # sampler=BatchSampler(..), batch_size=None
        source, sampler = sampler, getattr(sampler, "sampler", None)
    dispatched = type(wrapper).__name__ == "DataLoaderDispatcher"
    stream = loader._dataset_kind != 0
    parts = getattr(shard_of_batches, "num_processes", world if dispatched else 1)
    split = bool(getattr(shard_of_batches if shard_of_batches is not None else wrapper, "split_batches", False))
    batch_size = getattr(source, "batch_size", None)
    if split and isinstance(batch_size, int):
        batch_size //= parts
    return {
        "kind": "stream" if stream else "map",
        "samples": None if stream else ids.samples,
        "subset": None if stream else ids.subset,
        "draws": None if stream else _draws(sampler),
        "sampler": "" if stream or sampler is None else type(_inner(sampler)).__name__,
        "shard": _shard(sampler),
        "manual": manual,
        "shuffled": _stream_shuffled(loader.dataset) if stream else _shuffled(sampler, data),
        "replacement": bool(getattr(sampler, "replacement", False)),
        "batch_size": batch_size if isinstance(batch_size, int) else None,
        "drop_last": bool(getattr(source, "drop_last", False)),
        "sampler_drop_last": _shard(sampler) is not None and bool(getattr(sampler, "drop_last", False)),
        "seed": _seed(sampler),
        "workers": loader.num_workers,
        "sharder": "accelerate-dispatcher" if dispatched else sharder,
        "split_batches": split,
        "even_batches": bool(getattr(shard_of_batches, "even_batches", True)),
        "dispatched": dispatched,
        "subset_digest": "" if stream else ids.digest(),
        "data_digest": _data_digest(loader.dataset, data),
    }


def _unwrapped(loader: Any) -> tuple[Any, Any]:
    """The program's own batch sampler inside accelerate's, and accelerate's that takes a rank's batches."""
    shard = None
    batches: Any = getattr(loader, "batch_sampler", None)
    if batches is None and hasattr(getattr(loader, "sampler", None), "batch_sampler"):
        batches = loader.sampler  # a sampler that yields batches, prepared
    while getattr(batches, "batch_sampler", None) is not None:
        if hasattr(batches, "process_index"):
            shard = batches
        batches = batches.batch_sampler
    return batches, shard


def _inner(sampler: Any) -> Any:
    """The sampler inside Lightning's wrapper, whose own is a dataset of what that yields."""
    if type(sampler).__name__ in ("DistributedSamplerWrapper", "UnrepeatedDistributedSamplerWrapper"):
        return getattr(getattr(sampler, "dataset", None), "_sampler", sampler)
    return sampler


def _draws(sampler: Any) -> int | None:
    try:
        drawn = len(sampler)
    except Exception:
        return None
    shard = _shard(sampler)
    return drawn * shard[0] if shard is not None else drawn


def _shard(sampler: Any) -> tuple[int, int] | None:
    parts, own = getattr(sampler, "num_replicas", None), getattr(sampler, "rank", None)
    return (parts, own) if isinstance(parts, int) and isinstance(own, int) else None


def _shuffled(sampler: Any, data: Any) -> bool | None:
    inner = _inner(sampler)
    if inner is not sampler:
        return _shuffled(inner, data)
    if isinstance(getattr(sampler, "shuffle", None), bool):
        return bool(sampler.shuffle)
    if isinstance(sampler, (data.RandomSampler, data.SubsetRandomSampler, data.WeightedRandomSampler)):
        return True
    return False if isinstance(sampler, data.SequentialSampler) else None


def _stream_shuffled(dataset: Any) -> bool | None:
    """A stream that is to be told the epoch shuffles by it; a dataset of Hugging Face, which always can be, says so."""
    inside = getattr(dataset, "dataset", dataset)  # accelerate's shard can be told too, for what it shards
    if hasattr(inside, "_shuffling"):
        return inside._shuffling is not None
    return True if callable(getattr(inside, "set_epoch", None)) else None


def _seed(sampler: Any) -> int | None:
    seed = getattr(sampler, "seed", getattr(sampler, "initial_seed", None))
    return seed if isinstance(seed, int) else None


def _data_digest(dataset: Any, data: Any) -> str:
    """Of a dataset that is in memory anyway; nothing is read for it."""
    while isinstance(dataset, data.Subset):
        dataset = dataset.dataset
    if isinstance(dataset, data.TensorDataset):
        if sum(tensor.numel() * tensor.element_size() for tensor in dataset.tensors) <= HELD:
            return digest(list(dataset.tensors))
    return ""
