"""What real loaders read, by the arithmetic of torch's DistributedSampler and accelerate's shards, for many sizes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from shardfix.proof.observed import Built, Item, Observed, Pass, Reader

Order = Callable[[int, int], Sequence[int]]  # rank, epoch -> what the sampler draws on that rank
Batches = Sequence[Sequence[int]]


def permuted(size: int, seed: int) -> list[int]:
    return random.Random(seed).sample(range(size), size)


def distributed(order: Sequence[int], rank: int, world: int, drop_last: bool = False) -> list[int]:
    """torch's DistributedSampler (torch/utils/data/distributed.py): pad from the front or drop, then deal out."""
    drawn = list(order)
    if drop_last and len(drawn) % world:
        drawn = drawn[: len(drawn) // world * world]
    elif drawn:
        while len(drawn) % world:
            drawn += drawn[: world - len(drawn) % world]
    return drawn[rank::world]


def batched(indices: Iterable[int], size: int, drop_last: bool = False) -> list[list[int]]:
    drawn = list(indices)
    cut = [drawn[start : start + size] for start in range(0, len(drawn), size)]
    return [batch for batch in cut if len(batch) == size or not drop_last]


def shard(
    batches: Batches, size: int, rank: int, world: int, *, drop_last: bool = False, even: bool = True
) -> list[list[int]]:
    """accelerate's BatchSamplerShard without split_batches (accelerate/data_loader.py, 1.15)."""
    mine: list[list[int]] = []
    kept: list[int] | None = None
    initial: list[int] = []
    batch: list[int] = []
    place = 0
    for place, found in enumerate(batches):
        batch = list(found)
        if not drop_last and place < world:
            initial += batch
        if place % world == rank:
            kept = batch
        if place % world == world - 1 and len(batch) == size:
            assert kept is not None
            mine.append(kept)
            kept = None
    if drop_last or not initial:
        return mine
    if not even:
        return [*mine, kept] if kept else mine
    if kept and len(kept) == size:
        mine.append(kept)
    while len(initial) < world * size:
        initial += initial
    if len(batch) == size:
        batch = []
        place += 1
    start = 0
    while place % world or batch:
        end = start + size - len(batch)
        batch = batch + initial[start:end]
        if place % world == rank:
            mine.append(batch)
        start = end
        batch = []
        place += 1
    return mine


def split(
    batches: Batches, size: int, rank: int, world: int, *, drop_last: bool = False, even: bool = True
) -> list[list[int]]:
    """accelerate's BatchSamplerShard with split_batches: ``size`` is that of all ranks together."""
    part = size // world
    mine = [list(batch[part * rank : part * (rank + 1)]) for batch in batches if len(batch) == size]
    if drop_last or not batches or len(batches[-1]) == size:
        return mine
    batch, initial = list(batches[-1]), list(batches[0])
    if even:
        while len(initial) < size:
            initial += initial
        batch += initial
        mine.append(batch[part * rank : part * (rank + 1)])
    elif len(batch) > part * rank:
        mine.append(batch[part * rank : part * (rank + 1)])
    return mine


def dispatched(batches: Batches, rank: int, world: int, *, drop_last: bool = False) -> list[list[int]]:
    """accelerate's DataLoaderDispatcher: rounds of ``world`` batches, the last filled to a multiple of the ranks."""
    mine = []
    first: list[int] = []
    for start in range(0, len(batches), world):
        joint = [index for batch in batches[start : start + world] for index in batch]
        if drop_last and len(batches) - start < world:
            break
        first = first or joint[:world]
        last = start + world >= len(batches)
        share = len(joint) // world
        if last and not drop_last and len(joint) % world:
            joint += first
            share += 1
        mine.append(joint[rank * share : (rank + 1) * share])
    return mine


@dataclass(frozen=True, slots=True)
class Case:
    """A loader on several ranks: what each reads in each of three passes, and what it says of itself."""

    reads: tuple[tuple[Batches, ...], ...]  # rank, pass, batches
    built: tuple[Built, ...]
    epochs: tuple[tuple[int | None, ...], ...] = ()  # rank, pass -> what its sampler says its epoch is

    def observed(self, **more: object) -> Observed:
        readers = []
        for rank, (own, passes) in enumerate(zip(self.built, self.reads, strict=True)):
            told = self.epochs[rank] if self.epochs else (None,) * len(passes)
            seen = (Pass(tuple(map(tuple, batches)), True, at) for at, batches in zip(told, passes, strict=True))
            readers.append(Reader(rank, own, tuple(seen)))
        return replace(Observed("train.py:7", len(readers), tuple(readers)), **more)


def watched(
    read: Callable[[int, int], Batches], built: Built | Callable[[int], Built], world: int, passes: int = 3
) -> Case:
    """A case from what rank and epoch read; ``built`` may differ by rank."""
    own = built if callable(built) else lambda rank: built
    return Case(
        tuple(tuple(read(rank, epoch) for epoch in range(passes)) for rank in range(world)),
        tuple(own(rank) for rank in range(world)),
    )


def built(size: int, batch: int, *, shuffled: bool | None = False, **more: object) -> Built:
    sampler = "RandomSampler" if shuffled else "SequentialSampler"
    plain = Built(samples=size, subset=size, draws=size, sampler=sampler, shuffled=shuffled, batch_size=batch)
    return replace(plain, **more)


def alone(batches: Callable[[int], Sequence[Sequence[Item]]], of: Built, passes: int = 3) -> Reader:
    """The same loader in one process."""
    seen = tuple(Pass(tuple(tuple(batch) for batch in batches(epoch)), True) for epoch in range(passes))
    return Reader(0, of, seen)
