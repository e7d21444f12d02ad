"""Which cause the evidence points at: what the loaders say of themselves, and the pattern of what they read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from shardfix.proof.model import Observation
from shardfix.wording import join

from .causes import place_of
from .faults import ENOUGH, Fault, visits

_OVERLAPPING = {"overlap", "per-rank-seed", "missing", "foreign", "repeats", "unsharded", "sharded-twice"}


@dataclass(frozen=True, slots=True)
class Clues:
    """What the loaders of the ranks say of themselves, one entry a rank; ``epochs``: pass by pass."""

    shards: tuple[tuple[int, int] | None, ...] = ()
    seeds: tuple[int | None, ...] = ()
    epochs: tuple[tuple[int | None, ...], ...] = ()
    subsets: tuple[str, ...] = ()
    sharder: str = ""
    dispatched: bool = False
    sampler: str = ""
    own_sampler: bool = False
    shuffled: bool | None = None
    stream: bool = False
    samples: int | None = None
    subset: int | None = None


def explained(found: Iterable[Fault], run: Observation, clues: Clues | None = None) -> list[Fault]:
    """The faults with their causes, the root first: what was read, and what the loaders say, tells it."""
    clues = clues or Clues()
    named = [explain(fault, run, clues) for fault in found]
    return sorted(named, key=lambda fault: place_of(fault.code))


def explain(fault: Fault, run: Observation, clues: Clues) -> Fault:
    """One fault, under the cause that the evidence points at; its text opens with that."""
    if fault.code == "frozen-epoch":
        told = [epoch for of_rank in clues.epochs for epoch in of_rank]
        if len(set(told)) == 1 and told[0] is not None:
            stuck = f"; its sampler stays at epoch {told[0]}: set_epoch is never called"
            return replace(fault, text=fault.text + stuck)
        return fault
    if fault.code not in _OVERLAPPING or run.world == 1:
        return fault
    if fault.code == "per-rank-seed" and clues.stream:  # nothing draws from a permutation there
        return Fault("overlap", fault.condition, f"ranks overlap: {without_its_cause(fault)}")
    code, why = why_so(fault, run, clues)
    if not code:
        return fault
    return Fault(code, fault.condition, f"{why}: {without_its_cause(fault)}")


def without_its_cause(fault: Fault) -> str:
    """A fault's text less the cause that it opened with."""
    for opening in ("sharded twice: ", "ranks overlap, their seeds or epochs differ: ", "ranks overlap: "):
        if fault.text.startswith(opening):
            return fault.text.removeprefix(opening)
    return fault.text


Why = tuple[str, str]  # the code of a cause, and its words; both empty where the clue says nothing


def why_so(fault: Fault, run: Observation, clues: Clues) -> Why:
    """The cause and its words, from the surest clue to the mere pattern; empty where the fault says all."""
    for tell in (by_subset, by_shard, by_epoch, by_seed, by_pattern):
        found = tell(fault, run, clues)
        if found[0]:
            return found
    return "", ""


def by_subset(fault: Fault, run: Observation, clues: Clues) -> Why:
    """The ranks hold different subsets: their digests say so, or together they read more than one subset has."""
    apart = len(set(clues.subsets)) > 1 or strangers_to_the_subset(run, clues)
    if apart and (any(clues.shards) or clues.sharder or overlaps(run)):
        of = f" of the {clues.samples} samples" if clues.samples else ""
        return "per-rank-subset", f"the ranks hold different subsets{of}, drawn with per-rank seeds"
    return "", ""


def by_shard(fault: Fault, run: Observation, clues: Clues) -> Why:
    """What the samplers say that they divide by, and whose part each takes."""
    shards = [shard for shard in clues.shards if shard is not None]
    if len(shards) < run.world:
        return ("dispatched-part", "rank 0 dispatches one part of the data") if sent_a_part(fault, clues) else ("", "")
    counts, own = {shard[0] for shard in shards}, [shard[1] for shard in shards]
    divided = max(counts)
    if divided > 1 and clues.dispatched:
        return "dispatched-part", f"rank 0 dispatches what its sampler gives it, one part of {divided}"
    if divided > 1 and clues.sharder == "accelerate":
        return "sharded-twice", f"sharded twice: by {clues.sampler or 'its sampler'} and by accelerate"
    if counts == {1}:
        return ("unsharded", "num_replicas is 1") if fault.code == "unsharded" else ("", "")
    if counts == {divided} and divided != run.world:
        return "wrong-replicas", f"num_replicas is {divided} where {run.world} ranks read"
    if len(set(own)) < run.world:
        twin = next(rank for rank, part in enumerate(own) if part in own[:rank])
        return "wrong-rank", f"rank {twin} reads {part_of(own[twin], own.index(own[twin]))}"
    return "", ""


def sent_a_part(fault: Fault, clues: Clues) -> bool:
    return clues.dispatched and fault.code == "sharded-twice"


def by_epoch(fault: Fault, run: Observation, clues: Clues) -> Why:
    """Samplers that are not at the same epoch, by their own words or because only some repeat their order."""
    if clues.shuffled is False:
        return "", ""  # in order, the epoch makes no difference
    stale = stale_epoch(clues)
    if stale:
        return "stale-epoch-on-one-rank", stale
    repeating = repeaters(run)
    if 0 < len(repeating) < run.world and sum(map(bool, clues.shards)) == run.world:
        others = [f"rank {rank}" for rank in range(run.world) if rank not in repeating]
        text = f"set_epoch reached {join(others)} only, rank {repeating[0]} repeats its order"
        return "stale-epoch-on-one-rank", text
    return "", ""


def by_seed(fault: Fault, run: Observation, clues: Clues) -> Why:
    """Samplers that are seeded differently; where they are not, subsets that are."""
    seeds = [seed for seed in clues.seeds if seed is not None]
    if clues.own_sampler or fault.code == "unsharded":
        return "", ""
    if len(seeds) == run.world and len(set(seeds)) > 1:
        other = next(rank for rank, seed in enumerate(seeds) if seed != seeds[0])
        text = f"the seeds differ, rank 0 draws with {seeds[0]}, rank {other} with {seeds[other]}"
        return "per-rank-seed", text
    alike = clues.shuffled is False or len(seeds) == run.world
    sharded = sum(map(bool, clues.shards)) == run.world
    if sharded and alike and clues.subset is not None and clues.subset != clues.samples:
        return "per-rank-subset", f"the ranks hold different subsets of the {clues.samples} samples"
    return "", ""


def by_pattern(fault: Fault, run: Observation, clues: Clues) -> Why:
    """What the reads alone show: a stride, another's part, another permutation."""
    if fault.code in ("missing", "sharded-twice") and not clues.shards:
        stride = common_stride(run)
        if stride and stride != run.world:
            return "wrong-replicas", f"rank r reads r, r+{stride}, .. where {run.world} ranks read"
    if fault.code not in ("overlap", "per-rank-seed", "missing"):
        return "", ""
    first = visits(run.ranks[0], 0)
    twins = [rank.rank for rank in run.ranks[1:] if first and visits(rank, 0) == first]
    if twins:
        return "wrong-rank", f"rank {twins[0]} reads rank 0's part"
    if clues.sharder and not clues.stream and overlaps(run):
        who = clues.sampler or "the sampler"
        return "unsynced-rng", f"the ranks drew from different permutations, {who}'s random state differs"
    if fault.code == "missing" and overlaps(run) and clues.shards:
        return "per-rank-seed", "the ranks drew from different permutations"
    return "", ""


def part_of(part: int, rank: int) -> str:
    return f"rank {rank}'s part" if part == rank else f"part {part}, as rank {rank} does"


def overlaps(run: Observation) -> bool:
    seen: set[int] = set()
    for rank in run.ranks:
        mine = set(visits(rank, 0))
        if seen & mine:
            return True
        seen |= mine
    return False


def repeaters(run: Observation) -> list[int]:
    """The ranks that read the same order in every one of several passes."""
    found = []
    for number, rank in enumerate(run.ranks):
        orders = {tuple(visits(rank, epoch)) for epoch in range(len(rank.epochs))}
        if len(rank.epochs) > 1 and len(orders) == 1 and len(orders.pop()) >= ENOUGH:
            found.append(number)
    return found


def strangers_to_the_subset(run: Observation, clues: Clues) -> bool:
    """Whether the ranks together read more different samples than one subset has."""
    if clues.subset is None or clues.samples is None or clues.subset >= clues.samples:
        return False
    if len({subset for subset in clues.subsets if subset}) == 1:
        return False
    read = {index for rank in run.ranks for epoch in range(len(rank.epochs)) for index in visits(rank, epoch)}
    return len(read) > clues.subset


def stale_epoch(clues: Clues) -> str:
    """The first pass in which the ranks' samplers are at different epochs, in words."""
    for number, epochs in enumerate(zip(*clues.epochs, strict=False)):
        if None in epochs or len(set(epochs)) == 1:
            continue
        most = max(epoch or 0 for epoch in epochs)
        ahead = [f"rank {rank}" for rank, epoch in enumerate(epochs) if epoch == most]
        behind = next(rank for rank, epoch in enumerate(epochs) if epoch != most)
        if len(ahead) * 2 <= len(epochs):
            reach = f"set_epoch reached {join(ahead)} only"
        else:
            reach = f"set_epoch did not reach rank {behind}"
        return f"{reach}, in pass {number} rank {behind}'s sampler is at epoch {epochs[behind]}, not {most}"
    return ""


def common_stride(run: Observation) -> int:
    """n where every rank r reads r, r+n, r+2n, ..; else 0."""
    strides = set()
    for rank in run.ranks:
        read = visits(rank, 0)
        if len(read) < 3 or read[0] != rank.rank:
            return 0
        strides |= {two - one for one, two in pairwise(read[:-1])}  # the last may be padding
    return strides.pop() if len(strides) == 1 else 0
