"""What is wrong with one run: compare what the ranks read with what there was to read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from shardfix.proof.model import Declared, Observation, RankRun
from shardfix.wording import join, plural

ENOUGH = 8  # draws a rank: with fewer, two right shuffles may well be equal


@dataclass(frozen=True, slots=True)
class Fault:
    """``code`` is the cause, ``condition`` the one of ``CONDITIONS`` that it breaks, ``text`` a plain sentence."""

    code: str
    condition: str
    text: str


@dataclass(frozen=True, slots=True)
class Reference:
    """What is to be read in one epoch: the visits of one process, epoch by epoch, and the rules that hold.

    ``epochs`` is empty where one process was not seen and what it would visit is not known by number.
    ``draws`` is the number that the sampler draws, a ``drop_last`` tail included. ``shuffled`` says what the order
    should be, ``order`` gives it for a loader that is not shuffled. ``exact`` is false where every epoch may visit
    other samples (a ``drop_last`` tail, a sample of the samples): then numbers are compared, not identities, and
    ``distinct`` bounds how many different samples there are, if that is known.
    """

    epochs: tuple[tuple[int, ...], ...]
    steps: int
    draws: int
    shuffled: bool
    order: tuple[int, ...]
    exact: bool
    replacement: bool = False
    drop_last: bool = False
    sampler_drop_last: bool = False
    distinct: int | None = None


@dataclass(frozen=True, slots=True)
class Quota:
    """The owner's rule in numbers: visits of each rank, visits of all that are padding, samples left out.

    ``per_rank`` is the largest share; ``shares`` holds all of them where they differ.
    """

    per_rank: int
    padding: int
    dropped: int
    shares: tuple[int, ...] = ()

    def share(self, rank: int) -> int:
        return self.shares[rank] if self.shares else self.per_rank


def quota(reference: Reference, declared: Declared, world: int, batch: int) -> Quota:
    """Measured rules: DistributedSampler draws ceil(M/W) a rank (floor with drop_last), accelerate ceil(M/(W*B))*B.

    With ``even_batches=False`` accelerate deals whole batches out and fills none; its dispatcher fills the last step to
    a multiple of the ranks only (accelerate/data_loader.py, 0.30 to 1.15).
    """
    draws = reference.draws
    if world == 1:
        kept = draws // batch * batch if reference.drop_last else draws
        return Quota(kept, 0, draws - kept)
    if declared.prepared and declared.batch_size is None and not declared.dispatched:
        # batches of any size, dealt out as they are: the first ones again where the last round is short
        return Quota(-(-draws // world), (world - 1) * batch if declared.even else 0, 0)
    if declared.prepared:
        rounds, rest = divmod(draws, world * batch)
        if reference.drop_last or not rest:
            return Quota(rounds * batch, 0, rest)
        if declared.dispatched:
            last = -(-rest // world)
            return Quota(rounds * batch + last, last * world - rest, 0)
        if not declared.even:
            shares = tuple(rounds * batch + min(batch, max(0, rest - batch * rank)) for rank in range(world))
            return Quota(max(shares), 0, 0, shares)
        return Quota((rounds + 1) * batch, world * batch - rest, 0)
    drawn = draws // world if reference.sampler_drop_last else -(-draws // world)
    per_rank = drawn // batch * batch if reference.drop_last else drawn
    padding = max(0, drawn * world - draws)
    if declared.own_sampler and not reference.drop_last:
        padding = max(padding, -(-draws // (world * batch)) * world * batch - draws)
    dropping = reference.drop_last or reference.sampler_drop_last
    return Quota(per_rank, padding, max(0, draws - per_rank * world + padding) if dropping else 0)


def visits(run: RankRun, epoch: int) -> list[int]:
    """What a rank read in one epoch, in order."""
    return [index for batch in run.epochs[epoch] for index in batch]


def broken(run: Observation) -> Fault | None:
    """The fault of a run that did not come to its end, if so: the first rank that raised, hung or died."""
    for rank in run.ranks:
        if rank.error and not lost_its_peer(rank.error, run):
            return Fault("raises", "same steps", f"rank {rank.rank} raises {rank.error}")
    for rank in run.ranks:
        if rank.stopped.startswith("the process"):
            return Fault("died", "same steps", f"rank {rank.rank} died: {rank.stopped}")
    for rank in run.ranks:
        if rank.stopped:
            return Fault("hang", "same steps", f"hangs: rank {rank.rank} stopped {rank.stopped}")
    return None


def lost_its_peer(error: str, run: Observation) -> bool:
    """Whether an error only says that another rank is gone."""
    return error.startswith(("RuntimeError", "DistBackendError")) and any(rank.stopped for rank in run.ranks)


def faults(run: Observation, reference: Reference) -> list[Fault]:
    """Everything that is wrong with a run, one fault a cause, the first epoch that shows it.

    A single process (``run.world`` 1) is judged by the same rules: one rank that reads everything.
    """
    stop = broken(run)
    if stop is not None:
        return [stop]
    found: dict[str, Fault] = {}
    for epoch in range(min(len(rank.epochs) for rank in run.ranks)):
        reads = [visits(rank, epoch) for rank in run.ranks]
        for fault in (*steps_faults(run, epoch, reference), *share_faults(run, epoch, reads, reference)):
            found.setdefault(fault.code, fault)
    for fault in order_faults(run, reference):
        found.setdefault(fault.code, fault)
    return list(found.values())


def per_rank_batch(run: Observation) -> int:
    longest = max((len(batch) for rank in run.ranks for epoch in rank.epochs for batch in epoch), default=0)
    if run.declared.prepared and longest:
        return longest  # accelerate fills every batch; with split_batches it is a part of what is declared
    return run.declared.batch_size or longest or 1


def steps_faults(run: Observation, epoch: int, reference: Reference) -> Iterable[Fault]:
    steps = [len(rank.epochs[epoch]) for rank in run.ranks]
    for rank, count in enumerate(steps):
        if count != steps[0]:
            text = f"rank {rank} makes {plural(count, 'step')}, rank 0 makes {steps[0]}{in_epoch(epoch)}"
            yield Fault("uneven", "same steps", f"{text}: the job would hang")
            return
    if steps[0] == 0 and reference.steps > 0 and not (reference.drop_last or reference.sampler_drop_last):
        yield Fault("no-steps", "same steps", f"no rank makes a step where the original makes {reference.steps}")


def share_faults(run: Observation, epoch: int, reads: Sequence[Sequence[int]], reference: Reference) -> Iterable[Fault]:
    """Read too often, or not at all."""
    rule = quota(reference, run.declared, run.world, per_rank_batch(run))
    whole = Counter(reference.epochs[min(epoch, len(reference.epochs) - 1)] if reference.epochs else ())
    alone = sum(whole.values()) if reference.epochs else quota(reference, run.declared, 1, per_rank_batch(run)).per_rank
    if run.world > 1 and alone > rule.per_rank and all(len(read) >= alone for read in reads):
        if reference.replacement or not reference.exact:
            same = all(len(read) == alone for read in reads)
        else:
            same = all(Counter(read) == whole for read in reads)
        if same:
            text = f"every rank reads all {alone} samples{in_epoch(epoch)}"
            if reference.replacement:
                text = f"every rank makes all {alone} draws{in_epoch(epoch)}"
            yield Fault("unsharded", "disjoint", text)
            return
    if reference.replacement:
        for rank, read in enumerate(reads):
            if len(read) != rule.share(rank):
                share = rule.share(rank)
                text = f"rank {rank} makes {plural(len(read), 'draw')} where its share is {share}{in_epoch(epoch)}"
                yield Fault("draws", "covered", text)
                return
        return
    counts = Counter(index for read in reads for index in read)
    # a sampler that draws more than there is draws each as often as it must
    once = max(whole.values(), default=-(-reference.draws // (reference.distinct or reference.draws or 1)) or 1)
    allowed = whole if reference.exact else dict.fromkeys(counts, once)
    too_often = {
        index: count - allowed.get(index, 0) for index, count in counts.items() if count > allowed.get(index, 0)
    }
    foreign = sorted(index for index in too_often if index not in allowed)
    too_often = {index: extra for index, extra in too_often.items() if index in allowed}
    if reference.distinct is not None:
        known = {index for visited in reference.epochs for index in visited}
        strangers = sorted(counts.keys() - known)
        foreign += strangers[max(0, reference.distinct - len(known)) :]
    if reference.exact:
        missing = sorted(index for index in whole if index not in counts)
    else:
        missing = []
    left_out = len(missing) if reference.exact else max(0, reference.draws // once - len(counts) - rule.dropped)
    readers = readers_of(reads)
    shared = sorted(index for index in too_often if readers[index] > 1)
    smaller = share_of_a_share(run, reference)
    twice = run.world > 1 and left_out > 0 and len(shared) < run.world
    twice = twice and max(map(len, reads)) <= smaller < rule.per_rank
    if sum(too_often.values()) > rule.padding and not twice:
        yield duplicate_fault(reads, epoch, too_often, shared, left_out, rule)
    if foreign:
        yield Fault("foreign", "covered", f"{samples(foreign)} read that the original never reads{in_epoch(epoch)}")
    if left_out:
        if twice:  # what two ranks share is the inner sampler's padding
            reading = f"; rank 0 reads {some(reads[0])}" if reads[0] else ""
            text = f"sharded twice: {left_out} of {reference.draws} samples are never read{reading}{in_epoch(epoch)}"
            yield Fault("sharded-twice", "covered", text)
        elif not (shared and sum(too_often.values()) > rule.padding):
            what = f"{samples(missing)} never read" if missing else f"{left_out} samples too many are left out"
            yield Fault("missing", "covered", f"{what}{in_epoch(epoch)}")
        else:
            what = samples(missing) + " never read" if missing else f"{left_out} samples are never read"
            yield Fault("per-rank-seed", "covered", f"{what}{in_epoch(epoch)}")


def readers_of(reads: Sequence[Sequence[int]]) -> Counter[int]:
    """How many ranks read each sample."""
    return Counter(index for read in reads for index in set(read))


def duplicate_fault(
    reads: Sequence[Sequence[int]],
    epoch: int,
    too_often: dict[int, int],
    shared: Sequence[int],
    left_out: int,
    rule: Quota,
) -> Fault:
    number = sum(too_often.values())
    padding = f"; padding accounts for {rule.padding}" if rule.padding else ""
    if shared:
        first = shared[0]
        by = [f"rank {rank}" for rank, read in enumerate(reads) if first in read]
        text = f"sample {first} is read by {join(by)} ({plural(number, 'visit')} too many{padding}){in_epoch(epoch)}"
        if left_out:
            return Fault("per-rank-seed", "disjoint", f"ranks overlap, their seeds or epochs differ: {text}")
        return Fault("overlap", "disjoint", f"ranks overlap: {text}")
    first = min(too_often)
    rank = next(rank for rank, read in enumerate(reads) if first in read)
    return Fault("repeats", "disjoint", f"rank {rank} reads sample {first} more than once{padding}{in_epoch(epoch)}")


def share_of_a_share(run: Observation, reference: Reference) -> int:
    """The visits of a rank whose share has been divided once more."""
    share = -(-reference.draws // run.world)
    batch = per_rank_batch(run)
    if run.declared.prepared:
        return -(-share // (run.world * batch)) * batch
    return -(-share // run.world)


def order_faults(run: Observation, reference: Reference) -> Iterable[Fault]:
    epochs = min(len(rank.epochs) for rank in run.ranks)
    reads = [[visits(rank, epoch) for epoch in range(epochs)] for rank in run.ranks]
    if not all(len(set(read)) >= ENOUGH for rank in reads for read in rank):
        return
    if reference.shuffled:
        for rank, of_rank in enumerate(reads):
            for one, two in combinations(range(epochs), 2):
                if of_rank[one] == of_rank[two]:
                    if of_rank[one] == sorted(of_rank[one]):
                        yield Fault(
                            "unshuffled", "epochs", f"rank {rank} reads in ascending order; the original shuffles"
                        )
                    else:
                        text = (
                            f"epoch {two} repeats epoch {one}'s order: rank {rank} reads {some(of_rank[one])} in both"
                        )
                        yield Fault("frozen-epoch", "epochs", text)
                    return
        return
    position = {index: place for place, index in enumerate(reference.order)}
    if len(position) != len(reference.order):
        return  # a sample that is there twice has no one place
    padded = quota(reference, run.declared, run.world, per_rank_batch(run)).padding > 0
    for rank, of_rank in enumerate(reads):
        for epoch, read in enumerate(of_rank):
            places = [position[index] for index in read if index in position]
            # a set below the batch is gone round more than once
            wraps = 1 + len(places) // max(1, len(position)) if padded else 0
            if sum(two < one for one, two in pairwise(places)) > wraps:
                text = f"rank {rank} reads {some(read)}{in_epoch(epoch)}, out of order"
                yield Fault("shuffled-eval", "epochs", text)
                return


def in_epoch(epoch: int) -> str:
    return f" in epoch {epoch}" if epoch else ""


def some(indices: Sequence[int]) -> str:
    return f"[{', '.join(map(str, indices[:6]))}{', ..' if len(indices) > 6 else ''}]"


def samples(indices: Sequence[int]) -> str:
    if len(indices) == 1:
        return f"sample {indices[0]} is"
    return f"samples {some(indices)} ({len(indices)}) are"
