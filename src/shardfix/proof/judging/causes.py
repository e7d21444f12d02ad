"""Why a loader is wrong: every cause as data, the likeliest root first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


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
        "The loader is sharded by rank twice: each rank reads a share of its share, and the rest is never read.",
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
        "give it a DistributedSampler (a stream: a split by rank), or hand it to accelerator.prepare() and iterate "
        "the result",
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
    Cause(
        "other-metric",
        "What the evaluation shows on several ranks is not what it shows in one process.",
        "sum the counts of all ranks behind the loop, and leave out the samples that are read twice: shardfix migrate",
    ),
    # --- of a run ---
    Cause(
        "raises",
        "A rank raised an exception.",
        "see the traceback of the rank that is named; others only lost their peer, or raised the same",
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
        "out-of-time",
        "The run was not over when its time was, though its ranks went on.",
        "give it more time (--timeout), or less to do (--epochs, --max-batches)",
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


def place_of(code: str) -> int:
    """The place of a cause among the likeliest roots."""
    return _ROOTS.get(code, len(_ROOTS))


def root(codes: Iterable[str]) -> str:
    """The one of several causes that brings the others about; empty for none."""
    return min(codes, key=place_of, default="")
