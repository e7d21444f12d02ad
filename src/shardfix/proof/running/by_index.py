"""Read what a loader draws through the loader's own iteration, with stand-ins for its data: no sample is fetched.

A DataLoader's dataset is put behind one whose items are their own indices, and its collating behind one that makes a
tensor of them, so that samplers, batch samplers, accelerate's shards and its dispatcher (which slices and broadcasts
tensors) do just what they do otherwise. A stream is read for real, and what it yields is told by digests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..watching.observe.shardfix_observe.built import built
from ..watching.observe.shardfix_observe.digests import digest
from ..watching.observe.shardfix_observe.recorder import ATTRIBUTE
from ..watching.observe.shardfix_observe.samples import BaseIds, items_of

Item = Any  # int | str, as observed.Item
PREPARED = ("DataLoaderShard", "DataLoaderDispatcher")
INDEX, DIGEST = 0, 1
IN_THIS_PROCESS = {"num_workers": 0, "persistent_workers": False, "prefetch_factor": None, "timeout": 0}


class ByIndex:
    """A map-style dataset whose items are the keys that it is asked for; all else is the real one's."""

    __getitems__ = None  # the real one's would fetch

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __getitem__(self, key: Any) -> Any:
        return key

    def __len__(self) -> int:
        return len(self.dataset)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["dataset"], name)


def inner(loader: Any) -> Any:
    """The DataLoader inside accelerate's object."""
    of = getattr(loader, "base_dataloader", None)
    return loader if of is None else of  # by no truth value: that of a loader is its length


def said_of(loader: Any, world: int, manual: bool) -> dict[str, Any]:
    """What a loader says of itself (``observed.Built``)."""
    prepared = type(loader).__name__ in PREPARED
    sharder = "accelerate" if prepared and world > 1 else ""
    wrapper = loader if prepared else None
    said = built(inner(loader), BaseIds(loader.dataset), manual, sharder, wrapper, world)
    return {**said, "shuffled": True} if said["kind"] == "stream" and shuffles(loader.dataset) else said


def shuffles(stream: Any) -> bool:
    """Whether a stream listens to the epoch, which is of use only if its order depends on that."""
    inside = getattr(stream, "dataset", stream)  # accelerate's shard listens too, for its dataset
    if getattr(inside, "_shuffling", True) is None:
        return False  # of huggingface/datasets, which listens in any case
    return callable(getattr(inside, "set_epoch", None))


def epoch_of(loader: Any) -> int | None:
    """The epoch that a loader's sampler counts, if it does."""
    if isinstance(getattr(loader, "iteration", None), int):
        return int(loader.iteration)
    batches = getattr(inner(loader), "batch_sampler", None)
    for source in (getattr(loader, "sampler", None), getattr(batches, "sampler", None), batches):
        epoch = getattr(source, "epoch", None)
        if isinstance(epoch, int):
            return epoch
    return None


def reader(loader: Any) -> Callable[[], Iterator[list[Item]]] | None:
    """How to read a loader by index, pass by pass; ``None`` where only its real data shows what it reads.

    That is so for a class with an iteration of its own, which may look into the batches or skip some.
    """
    of = inner(loader)
    if not iterates_as_known(loader) or not iterates_as_known(of):
        return None
    if of._dataset_kind != 0:
        replace(of, "collate_fn", digests_of)
        base = None
    else:
        dataset = of.dataset
        base = BaseIds(dataset)
        batched = of._auto_collation

        def indices_of(keys: Any) -> Any:
            return rows(items_of(keys, batched, lambda: len(dataset)))

        replace(of, "dataset", ByIndex(dataset))
        replace(of, "collate_fn", indices_of)
        for name, value in IN_THIS_PROCESS.items():
            replace(of, name, value)

    def read() -> Iterator[list[Item]]:
        for one in (loader, of):
            one.__dict__.pop(ATTRIBUTE, None)  # nobody else needs to watch it
        for batch in loader:
            pairs = batch.tolist()
            yield [base.of(value) if kind == INDEX and base else f"{value:014x}" for kind, value in pairs]

    return read


def iterates_as_known(loader: Any) -> bool:
    """Whether a loader iterates as torch's or accelerate's classes do."""
    from torch.utils.data import DataLoader

    iterate = type(loader).__iter__
    return iterate is DataLoader.__iter__ or iterate.__module__.split(".")[0] in ("torch", "accelerate")


def replace(loader: Any, name: str, value: Any) -> None:
    object.__setattr__(loader, name, value)  # DataLoader refuses to have its dataset set


def digests_of(samples: Any) -> Any:
    """The collating of a stream: a row for each sample of a batch, or for what it yields where it is not batched."""
    return rows([digest(sample) for sample in (samples if isinstance(samples, (list, tuple)) else [samples])])


def rows(items: list[Item]) -> Any:
    """A tensor with a row (kind, value) for each item."""
    import torch

    pairs = [(INDEX, item) if isinstance(item, int) else (DIGEST, number_of(item)) for item in items]
    return torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2)


def number_of(item: str) -> int:
    """A digest as a number that fits a tensor."""
    return int(digest(item)[:14], 16)
