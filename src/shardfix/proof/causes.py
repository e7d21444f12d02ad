"""Why a loader is wrong: every cause as data, and which one the evidence points at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from .faults import ENOUGH, Fault, join, visits
from .model import Observation


@dataclass(frozen=True, slots=True)
class Cause:
    """``code`` is stable; ``means`` says in one sentence what is so, ``remedy`` what to do about it."""

    code: str
    means: str
    remedy: str


_ALL = (
    # --- of a loader, the likeliest root first ---
    Cause(
        "per-rank-subset",
        "The ranks read different subsets of the data.",
        "draw the subset alike on every rank: random_split(..., generator=torch.Generator().manual_seed(SEED))",
    ),
    Cause(
        "worker-copies",
        "Each worker of a stream yields the whole stream.",
        "split the stream by torch.utils.data.get_worker_info() in its __iter__, or use num_workers=0",
    ),
    Cause(
        "replica-differs",
        "Ranks of one model-parallel group read different data.",
        "shard by the data-parallel size and rank, so that the ranks of one model-parallel group read the same",
    ),
    Cause(
        "dispatched-part",
        "Rank 0 dispatches its own part of the data: what the other ranks' parts hold is never read.",
        "let rank 0 read everything (no split by rank in the data), or prepare with dispatch_batches=False",
    ),
    Cause(
        "sharded-twice",
        "The loader is sharded by rank twice, so that each epoch leaves most of the other shards out.",
        "remove the DistributedSampler, or whatever else splits by rank, from the loader that is prepared",
    ),
    Cause(
        "wrong-replicas",
        "The sampler divides by another number than that of the ranks that read.",
        "let num_replicas be the number of data-parallel ranks (leave it out where that is the world)",
    ),
    Cause(
        "wrong-rank",
        "Several ranks read the same rank's part.",
        "give the sampler this process's own rank (the global one, not the local one), or leave rank= out",
    ),
    Cause(
        "stale-epoch-on-one-rank",
        "The samplers of the ranks are not at the same epoch, so that they draw from different permutations.",
        "call set_epoch(epoch) on every rank, outside any main-process branch",
    ),
    Cause(
        "per-rank-seed",
        "The samplers of the ranks are seeded differently, so that they draw from different permutations.",
        "give the sampler the same seed= on every rank",
    ),
    Cause(
        "unsynced-rng",
        "The sampler draws from a random state that no one keeps alike on the ranks.",
        "give the sampler an attribute generator (accelerate keeps that in step), or seed it alike on every rank",
    ),
    Cause(
        "unsharded",
        "Every rank reads everything.",
        "give it a DistributedSampler, or hand it to accelerator.prepare() and iterate the result",
    ),
    Cause(
        "part-only",
        "Only some ranks read a loader that is sharded for more of them, so that they see a part of the data.",
        "read it on every rank and reduce, or build it without sharding for the rank that reads it",
    ),
    Cause(
        "foreign",
        "Samples are read that one process never reads.",
        "see which dataset or subset the ranks hold",
    ),
    Cause(
        "overlap",
        "Ranks share samples, more than padding accounts for.",
        "let one sampler deal the samples out: DistributedSampler, or accelerator.prepare()",
    ),
    Cause(
        "repeats",
        "One rank reads samples more than once in an epoch.",
        "see what the sampler or the dataset yields on that rank",
    ),
    Cause(
        "missing",
        "Samples are never read, and no drop_last accounts for them.",
        "let one sampler deal the samples out: DistributedSampler, or accelerator.prepare()",
    ),
    Cause(
        "draws",
        "A rank does not make its share of the draws.",
        "divide num_samples by the number of ranks, or let accelerator.prepare() shard the draws",
    ),
    Cause(
        "padding",
        "Samples are read twice, so that all ranks have the same number, where none may be.",
        "take padded samples out of what is counted (gather_for_metrics, by index), or allow the padding",
    ),
    Cause(
        "uneven",
        "The ranks make different numbers of steps, so that the first collective beyond the shorter one hangs.",
        "pad or drop to the same number on every rank (DistributedSampler does), or use Join",
    ),
    Cause(
        "no-steps",
        "No rank makes a step where one process does.",
        "use a larger dataset, a smaller batch, or no drop_last",
    ),
    Cause(
        "frozen-epoch",
        "A shuffled loader has the same order in every epoch.",
        "call sampler.set_epoch(epoch) at the head of the epoch loop",
    ),
    Cause(
        "unshuffled",
        "A loader that shuffles in one process reads in order on several.",
        "keep the shuffle: DistributedSampler(..., shuffle=True)",
    ),
    Cause(
        "reordered",
        "A loader that reads in order in one process reads in another order on several.",
        "see what the framework made of its sampler: Lightning shuffles a plain training loader",
    ),
    Cause(
        "shuffled-eval",
        "A loader that should read in order is shuffled.",
        "DistributedSampler(..., shuffle=False)",
    ),
    Cause(
        "batch-size",
        "A rank's batches are not of the size that the program gave.",
        "see what the framework made of batch_sampler=: give batch_size= and sampler= instead",
    ),
    Cause(
        "changed",
        "The rewritten loader differs from the original in more than its sharding.",
        "leave this change out (shardfix migrate --ignore CODE) and report it",
    ),
    # --- of a run ---
    Cause(
        "raises",
        "A rank raised an exception.",
        "see that rank's own traceback; the other ranks only lost their peer",
    ),
    Cause(
        "died", "A rank's process was ended by a signal.", "see what that rank did last; out of memory is the commonest"
    ),
    Cause(
        "exits",
        "A rank left the program while others were still running.",
        "let every rank take the same way to the end",
    ),
    Cause(
        "hang",
        "The ranks wait for one another: a collective that not all of them reach.",
        "see where each rank stood: the same collective has to be called on every rank",
    ),
    Cause(
        "no-loader",
        "The program made no loader that could be watched.",
        "see whether its arguments lead to the training loop at all",
    ),
    Cause(
        "never-read",
        "The loader was made but never read.",
        "let the run come as far as that loader, or name its factory: shardfix verify --loader pkg.mod:fn",
    ),
)

CAUSES = {cause.code: cause for cause in _ALL}
_ROOTS = {code: place for place, code in enumerate(CAUSES)}
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
    samples: int | None = None
    subset: int | None = None


def explained(found: Iterable[Fault], run: Observation, clues: Clues | None = None) -> list[Fault]:
    """The faults with their causes, the root first: what was read, and what the loaders say, tells it."""
    clues = clues or Clues()
    named = [explain(fault, run, clues) for fault in found]
    return sorted(named, key=lambda fault: _ROOTS.get(fault.code, len(_ROOTS)))


def root(codes: Iterable[str]) -> str:
    """The one of several causes that brings the others about; empty for none."""
    return min(codes, key=lambda code: _ROOTS.get(code, len(_ROOTS)), default="")


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
    code, why = why_so(fault, run, clues)
    if not code:
        return fault
    return Fault(code, fault.condition, f"{why}: {without_its_cause(fault)}" if why else fault.text)


def without_its_cause(fault: Fault) -> str:
    """A fault's text less the cause that it opened with."""
    for opening in ("sharded twice: ", "ranks overlap, their seeds or epochs differ: ", "ranks overlap: "):
        if fault.text.startswith(opening):
            return fault.text.removeprefix(opening)
    return fault.text


def why_so(fault: Fault, run: Observation, clues: Clues) -> tuple[str, str]:
    """The cause and its words, from the surest clue to the mere pattern; empty where the fault says all."""
    world = run.world
    shards = [shard for shard in clues.shards if shard is not None]
    apart = len(set(clues.subsets)) > 1 or strangers_to_the_subset(run, clues)
    if apart and (shards or clues.sharder or overlaps(run)):
        of = f" of the {clues.samples} samples" if clues.samples else ""
        return "per-rank-subset", f"the ranks hold different subsets{of}, drawn with per-rank seeds"
    if len(shards) == world:
        counts = {shard[0] for shard in shards}
        divided = max(counts)
        if divided > 1 and clues.dispatched:
            return "dispatched-part", f"rank 0 dispatches what its sampler gives it, one part of {divided}"
        if divided > 1 and clues.sharder == "accelerate":
            return "sharded-twice", f"sharded twice: by {clues.sampler or 'its sampler'} and by accelerate"
        if counts == {1} and fault.code == "unsharded":
            return "unsharded", "num_replicas is 1"
        if counts == {divided} and divided != world:
            return "wrong-replicas", f"num_replicas is {divided} where {world} ranks read"
        own = [shard[1] for shard in shards]
        if len(set(own)) < world:
            twin = next(rank for rank, part in enumerate(own) if part in own[:rank])
            return "wrong-rank", f"rank {twin} reads {part_of(own[twin], own.index(own[twin]))}"
    stale = stale_epoch(clues) if clues.shuffled is not False else ""  # in order, the epoch makes no difference
    if stale:
        return "stale-epoch-on-one-rank", stale
    repeating = repeaters(run) if clues.shuffled is not False else []
    if 0 < len(repeating) < world and len(shards) == world:
        others = [f"rank {rank}" for rank in range(world) if rank not in repeating]
        text = f"set_epoch reached {join(others)} only, rank {repeating[0]} repeats its order"
        return "stale-epoch-on-one-rank", text
    seeds = [seed for seed in clues.seeds if seed is not None]
    if len(seeds) == world and len(set(seeds)) > 1 and not clues.own_sampler:
        other = next(rank for rank, seed in enumerate(seeds) if seed != seeds[0])
        text = f"the seeds differ, rank 0 draws with {seeds[0]}, rank {other} with {seeds[other]}"
        return "per-rank-seed", text
    alike = clues.shuffled is False or (len(seeds) == world and len(set(seeds)) == 1)
    if len(shards) == world and alike and clues.subset is not None and clues.subset != clues.samples:
        return "per-rank-subset", f"the ranks hold different subsets of the {clues.samples} samples"
    if fault.code == "sharded-twice" and clues.dispatched:
        return "dispatched-part", "rank 0 dispatches one part of the data"
    if fault.code in ("missing", "sharded-twice") and not clues.shards:
        stride = common_stride(run)
        if stride and stride != world:
            return "wrong-replicas", f"rank r reads r, r+{stride}, .. where {world} ranks read"
    if fault.code in ("overlap", "per-rank-seed", "missing"):
        first = visits(run.ranks[0], 0)
        twins = [rank.rank for rank in run.ranks[1:] if first and visits(rank, 0) == first]
        if twins:
            return "wrong-rank", f"rank {twins[0]} reads rank 0's part"
        if clues.sharder and fault.code != "missing":
            who = clues.sampler or "the sampler"
            return "unsynced-rng", f"the ranks drew from different permutations, {who}'s random state differs"
        if clues.sharder and len({frozenset(visits(r, 0)) for r in run.ranks}) == world and overlaps(run):
            return "unsynced-rng", ""
        if fault.code == "missing" and overlaps(run) and len(seeds) < world and clues.shards:
            return "per-rank-seed", ""
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
