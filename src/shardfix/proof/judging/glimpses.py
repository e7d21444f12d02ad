"""What shows although not all is seen: passes left early, streams of unknown content, the loaders' own words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from shardfix.wording import plural

from .faults import ENOUGH, Fault, Quota, duplicate_fault, in_epoch, per_rank_batch, quota, readers_of, some
from .ledger import Ledger
from .seen import PLAIN, Seen


def cut_faults(seen: Seen, number: int, ledger: Ledger) -> list[Fault]:
    """What a pass shows that was not read to its end: who reads the same."""
    reads = seen.reads(number)
    if len(reads) < 2:
        return []
    free = nothing_shards(seen)
    if free:
        steps = plural(max(len(rank.epochs[number]) for rank in seen.run.ranks), "step")
        return [Fault("unsharded", "disjoint", f"{free} (left after {steps})")]
    if seen.built.replacement or (seen.reference is not None and seen.reference.replacement):
        return []
    if seen.reference is None:
        return stream_faults(seen, number, ledger)
    if seen.built.shard is None and not seen.built.sharder and len(reads[0]) > 1 and all_same(reads):
        text = f"every rank reads the same {len(reads[0])} samples{in_epoch(number)}"
        return [Fault("unsharded", "disjoint", text)]
    once = 1
    if seen.reference.exact:
        once = max(Counter(seen.reference.epochs[0]).values(), default=1)
    counts = Counter(index for read in reads for index in read)
    too_often = {index: count - once for index, count in counts.items() if count > once}
    rule = quota(seen.reference, seen.run.declared, seen.run.world, per_rank_batch(seen.run))
    if sum(too_often.values()) <= rule.padding:
        return []
    readers = readers_of(reads)
    shared = sorted(index for index in too_often if readers[index] > 1)
    return [duplicate_fault(reads, number, too_often, shared, 0, rule)]


def nothing_shards(seen: Seen) -> str:
    """Where only torch's own parts stand between the dataset and every rank, so that each would read it all."""
    built = [row.reader.built for row in seen.rows.rows]
    if any(one.kind != "map" or one.sampler not in PLAIN or one.shard or one.sharder for one in built):
        return ""
    if any(one.dispatched for one in built) or seen.holdings != "same":
        return ""
    lengths = {(one.samples, one.subset, one.draws) for one in built}
    digests = {one.subset_digest for one in built}
    first = built[0]
    if len(lengths) > 1 or len(digests) > 1 or first.draws is None:
        return ""
    if first.subset != first.samples and "" in digests:
        return ""
    return f"nothing shards it: on every rank {first.sampler} draws all {first.draws} samples"


def stream_faults(seen: Seen, number: int, ledger: Ledger) -> list[Fault]:
    """What streams show where one process was not seen: who reads the same. What they hold is not known."""
    reads = seen.reads(number)
    counts = Counter(index for read in reads for index in read)
    if not counts:
        return []
    copied = worker_copies(seen, reads)
    if copied:
        return [copied]
    if len(reads) < 2:
        return []
    if len(reads[0]) > 1 and all(Counter(read) == Counter(reads[0]) for read in reads):
        text = f"every rank reads the same {len(reads[0])} items{in_epoch(number)}"
        return [Fault("unsharded", "disjoint", text)]
    readers = readers_of(reads)
    shared = sorted(index for index in counts if readers[index] > 1)
    extra = sum(counts[index] - 1 for index in shared)
    longest = max(map(len, reads))
    allowed = stream_padding(seen)
    if extra <= allowed:
        return []
    within = any(count > 1 for read in reads for count in Counter(read).values())
    if within or extra * 4 < longest:
        text = f"{plural(len(shared), 'item')} of the ranks are equal; they may be so in the data"
        ledger.leave_open("disjoint", text)
        return []
    too_often = {index: counts[index] - 1 for index in shared}
    return [duplicate_fault(reads, number, too_often, shared, 0, Quota(longest, allowed, 0))]


def worker_copies(seen: Seen, reads: Sequence[Sequence[int]]) -> Fault | None:
    """Every item as often as there are workers: each of these yields the whole stream."""
    copies = seen.built.workers
    counts = [count for read in reads for count in Counter(read).values()]
    if not seen.stream or copies < 2 or len(counts) < 3 or any(count % copies for count in counts):
        return None
    text = f"each of {copies} workers yields the whole stream: rank 0 reads {some(reads[0])}"
    return Fault("worker-copies", "disjoint", text)


def stream_padding(seen: Seen) -> int:
    """How many items accelerate may repeat to fill the last step."""
    if not seen.built.sharder.startswith("accelerate"):
        return 0
    world = len(seen.rows.rows)
    return world - 1 if seen.run.declared.dispatched else world * per_rank_batch(seen.run) - 1


def differs_from_run_to_run(seen: Seen, reads: Sequence[Sequence[int]]) -> bool:
    """Whether a stream yields other items in each program, so that one process's say nothing of the ranks'."""
    if not seen.stream or seen.reference is None or not seen.reference.epochs:
        return False
    known = {index for epoch in seen.reference.epochs for index in epoch}
    read = {index for of_rank in reads for index in of_rank}
    return bool(read) and len(read & known) * 2 <= len(read)


def shards_of_own_subsets(seen: Seen) -> bool:
    """Whether every rank takes its part of a subset of its own, which shows even where no two parts meet."""
    subsets = {subset for subset in seen.clues.subsets if subset}
    sharded = bool(seen.clues.sharder) or any(shard and shard[0] > 1 for shard in seen.clues.shards)
    read = any(batch for rank in seen.run.ranks for epoch in rank.epochs for batch in epoch)
    return len(subsets) > 1 and sharded and read


def own_subsets_fault(seen: Seen) -> Fault:
    """What such subsets are: the parts of a whole that are sharded again, or draws of their own."""
    lengths = [row.reader.built.subset or 0 for row in seen.rows.rows]
    samples = seen.built.samples or 0
    if sum(lengths) < samples + len(lengths):
        text = f"rank 0's subset holds {lengths[0]} of {samples} samples, and its loader is sharded again"
        return Fault("sharded-twice", "covered", f"sharded twice: {text}")
    return Fault(
        "per-rank-subset", "covered", f"each rank shards a subset of its own, {lengths[0]} of {samples} samples"
    )


def draws_a_part(seen: Seen) -> str:
    """A sampler of the program's own that draws fewer than there are: a choice of samples, or one rank's part?

    Empty where that is no question: one process told it, or the ranks together read everything.
    """
    built, whole = seen.built, seen.built.subset
    if not seen.run.declared.own_sampler or seen.alone is not None or seen.stream:
        return ""
    if whole is None or built.draws is None or built.draws >= whole or built.replacement:
        return ""
    if seen.whole and len({index for read in seen.reads(seen.whole[0]) for index in read}) >= whole:
        return ""
    return f"{built.sampler or 'its sampler'} draws {built.draws} of {whole} samples on a rank"


def parts_of_parts(seen: Seen) -> Fault | None:
    """Where accelerate shards what a sampler has dealt out already: every rank's batches stay within one part.

    A sampler that makes a choice of samples would have its batches dealt out in turn, whatever is in them, so that with
    two samples or more to a batch no rank keeps to one remainder, or to one stretch, of the numbers.
    """
    world, built = len(seen.rows.rows), seen.built
    whole, draws = built.subset or 0, built.draws or 0
    if world < 2 or built.sharder != "accelerate" or not draws_a_part(seen) or not seen.whole:
        return None
    about_a_share = whole - world < draws * world < whole + world * (built.batch_size or 1)
    reads = [{index for number in seen.whole for index in seen.reads(number)[row]} for row in range(world)]
    if not about_a_share or (built.batch_size or 1) < 2 or min(map(len, reads)) < 4:
        return None
    first = seen.reads(seen.whole[0])
    left = whole - len({index for read in first for index in read})
    by_remainder = [{index % world for index in of_row} for of_row in reads]
    by_stretch = [{index // -(-whole // world) for index in of_row} for of_row in reads]
    for parts in (by_remainder, by_stretch):
        if all(len(of_row) == 1 for of_row in parts) and len(set().union(*parts)) == world:
            text = f"sharded twice: {draws_a_part(seen)}, its own part, and accelerate shards these again"
            never = f"{left} of {whole} samples are never read; rank 0 reads {some(first[0])}"
            return Fault("sharded-twice", "covered", f"{text}: {never}")
    return None


def frozen_by_its_word(seen: Seen) -> Fault | None:
    """A shuffled sampler that says it is at the same epoch in every pass, and reads the same: needs no eight draws."""
    built, told = seen.built, {epoch for of_rank in seen.clues.epochs for epoch in of_rank}
    if built.sampler != "DistributedSampler" or not built.shuffled or len(told) != 1 or None in told:
        return None
    if len(seen.whole) < 2:
        return None
    first, second = (seen.reads(number) for number in seen.whole[:2])
    if first != second or min(map(len, first)) < 2:
        return None
    text = f"epoch {seen.whole[1]} repeats epoch {seen.whole[0]}'s order: rank 0 reads {some(first[0])} in both"
    return Fault("frozen-epoch", "epochs", text)


def frozen_stream(seen: Seen) -> Fault | None:
    """A stream that is to be told the epoch, and yields the same in the same order in every pass."""
    if not seen.stream or not seen.built.shuffled or len(seen.whole) < 2:
        return None
    first = seen.reads(seen.whole[0])
    if min(len(set(read)) for read in first) < ENOUGH or any(seen.reads(number) != first for number in seen.whole[1:]):
        return None
    text = f"epoch {seen.whole[1]} repeats epoch {seen.whole[0]}'s order: rank 0 reads {some(first[0])} in both"
    told = {epoch for of_rank in seen.clues.epochs for epoch in of_rank if epoch is not None}
    if seen.built.workers and len(told) > 1:
        text += "; set_epoch does not reach its workers, which persist"
    return Fault("frozen-epoch", "epochs", text)


def other_contents(seen: Seen) -> str:
    """Why equal ids may not be equal data: the first steps yield something else on each rank."""
    if all(row.reader.built.data_digest for row in seen.rows.rows) or seen.samples_alone is not None:
        return ""  # the datasets are known to be the same
    firsts = [row.reader.passes[0] for row in seen.rows.rows]
    if not all(one.contents for one in firsts) or any(one.batches[:1] != firsts[0].batches[:1] for one in firsts):
        return ""
    if len({one.contents[0] for one in firsts}) == 1:
        return ""
    return "but what these ids yield differs: a dataset of each rank's own, or random transforms"


def all_same(reads: Sequence[Sequence[int]]) -> bool:
    return all(list(read) == list(reads[0]) for read in reads)
