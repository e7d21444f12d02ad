"""Bring what was watched into the judge's form: samples by number, one run of the ranks, what there was to read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Literal

from shardfix.proof.model import Declared, Observation, RankRun
from shardfix.proof.observed import Built, Item, Observed, Pass, Reader

from .clues import Clues
from .faults import Reference, visits
from .rows import Rows, rows_of

Holdings = Literal["same", "parts", "unlike"]

# samplers that draw what they are given, on every rank: only what stands around them can shard
PLAIN = {"SequentialSampler", "RandomSampler", "SubsetRandomSampler", "WeightedRandomSampler"}
TORCHS = {*PLAIN, "DistributedSampler", "SeedableRandomSampler", "BatchSampler", ""}


@dataclass(frozen=True, slots=True)
class Seen:
    """One loader as the judge takes it.

    ``run`` holds the rows as ranks and their passes as epochs. ``reference`` is ``None`` where it is not known what
    there was to read. ``alone`` is the reader of one process, where that can be compared by number, ``samples_alone``
    the length of its dataset. ``by_hand`` counts the samples of the ranks' own subsets together, where these are how
    the program shards, else 0. ``whole`` are the passes that came to their end on every rank. ``redrawn``: one process
    held a subset of its own, as large as the ranks', so that what it read says nothing of theirs.
    """

    rows: Rows
    run: Observation
    clues: Clues
    reference: Reference | None
    holdings: Holdings
    alone: Reader | None
    samples_alone: int | None
    by_hand: int
    whole: tuple[int, ...]
    redrawn: bool = False

    @property
    def built(self) -> Built:
        return self.rows.built

    @property
    def stream(self) -> bool:
        return self.built.kind == "stream"

    def reads(self, number: int) -> list[list[int]]:
        """What each row read in a pass."""
        return [visits(rank, number) for rank in self.run.ranks]


def seen_of(observed: Observed, role: str) -> Seen:
    """A watched loader, of which at least one rank began a pass, as the judge takes it."""
    rows = rows_of(observed)
    one_process = usable(observed.alone)
    redrawn = one_process is not None and is_redrawn(rows, one_process.built)
    if redrawn:
        one_process = None
    holdings = holdings_of(rows, one_process)
    own_ids = ids_are_own(rows, one_process)
    samples_alone = one_process.built.samples if one_process is not None else None
    rows, alone = numbers_of(rows, one_process)
    run = observation_of(rows, rows.built.samples or 0)
    reference = reference_of(rows, alone, role, own_ids=own_ids)
    by_hand = 0
    if reference is not None and not reference.epochs and not reference.replacement:
        by_hand = split_by_hand(rows, run, holdings)
        if by_hand:
            reference = replace(reference, draws=by_hand, distinct=None)
    whole = tuple(number for number in range(rows.passes) if rows.complete(number))
    return Seen(rows, run, clues_of(rows), reference, holdings, alone, samples_alone, by_hand, whole, redrawn)


def usable(alone: Reader | None) -> Reader | None:
    """The reader of one process, where it read anything, and not one part of several even there."""
    if alone is None or not alone.passes or (alone.built.shard or (1, 0))[0] > 1:
        return None
    return alone


def is_redrawn(rows: Rows, alone: Built) -> bool:
    """Whether all ranks hold one subset and one process another one of the same size: a split that no seed fixes."""
    digests = {row.reader.built.subset_digest for row in rows.rows}
    sizes = {row.reader.built.subset for row in rows.rows}
    known = bool(alone.subset_digest) and "" not in digests
    return known and len(digests) == 1 and sizes == {alone.subset} and alone.subset_digest not in digests


# --- samples by number ---


def numbers_of(rows: Rows, alone: Reader | None) -> tuple[Rows, Reader | None]:
    """The same with samples as numbers: ids stay, digests are counted in the order in which they are first seen.

    Equal ids of ranks that hold parts of their own are different samples; what one process reads can't be matched then.
    """
    own_data = ids_are_own(rows, alone)
    readers = [row.reader for row in rows.rows]
    if not own_data and all(
        type(item) is int for reader in [*readers, *([alone] if alone else [])] for item in items(reader)
    ):
        return rows, alone
    numbers: dict[tuple[str, Item], int] = {}

    def own(place: int) -> str:
        return str(place) if own_data else ""

    def number(data: str, item: Item) -> int:
        return numbers.setdefault((data, item), len(numbers))

    if alone is not None and not own_data:
        for seen in alone.passes:
            for batch in seen.batches:
                for item in batch:
                    number("", item)
    for place in range(rows.passes):
        for step in range(max(len(item.batches) for item in rows.of(place))):
            for at, row in enumerate(rows.rows):
                batches = row.reader.passes[place].batches
                for item in batches[step] if step < len(batches) else ():
                    number(own(at), item)

    def renumbered(reader: Reader, data: str) -> Reader:
        return replace(
            reader,
            passes=tuple(
                replace(seen, batches=tuple(tuple(number(data, item) for item in batch) for batch in seen.batches))
                for seen in reader.passes
            ),
        )

    renamed = tuple(replace(row, reader=renumbered(row.reader, own(at))) for at, row in enumerate(rows.rows))
    return replace(rows, rows=renamed), None if own_data or alone is None else renumbered(alone, "")


def items(reader: Reader) -> list[Item]:
    return [item for seen in reader.passes for batch in seen.batches for item in batch]


def holdings_of(rows: Rows, alone: Reader | None) -> Holdings:
    """What the ranks' datasets are to one another.

    ``same``: ids mean the same everywhere. ``parts``: they are smaller than that of one process, or unequal, so each
    rank has its own ids. ``unlike``: as large as that of one process, or not to be compared with it, but of other
    content: drawn at random by each rank, or a part for each.
    """
    if declared_of(rows.built).dispatched or rows.built.kind == "stream" or len(rows.rows) < 2:
        return "same"
    built = [row.reader.built for row in rows.rows]
    lengths = {one.samples for one in built}
    if None not in lengths and (
        len(lengths) > 1 or (alone is not None and alone.built.samples not in (None, *lengths))
    ):
        return "parts"
    digests = [one.data_digest for one in built]
    return "unlike" if all(digests) and len(set(digests)) > 1 else "same"


def ids_are_own(rows: Rows, alone: Reader | None) -> bool:
    """Whether an id means another sample on every rank: nothing shards, so that each reads a dataset of its own."""
    holdings = holdings_of(rows, alone)
    by_chance = holdings == "unlike" and alone is not None and alone.built.samples == rows.built.samples
    return holdings != "same" and not by_chance and not is_sharded(rows)


def is_sharded(rows: Rows) -> bool:
    """Whether something between the dataset and the ranks splits by rank, or may."""
    built = [row.reader.built for row in rows.rows]
    return any(one.sharder or (one.shard or (1, 0))[0] > 1 or one.sampler not in PLAIN for one in built)


# --- what there is to read ---


def observation_of(rows: Rows, size: int) -> Observation:
    """The rows as one run of the judge, its passes as epochs."""
    return Observation(
        variant="after",
        world=len(rows.rows),
        grouped=True,
        size=size,
        unknown=(),
        ranks=tuple(
            RankRun(number, tuple(as_numbers(seen) for seen in row.reader.passes[: rows.passes]))
            for number, row in enumerate(rows.rows)
        ),
        declared=declared_of(rows.built),
    )


def as_numbers(seen: Pass) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(item for item in batch if isinstance(item, int)) for batch in seen.batches)


def declared_of(built: Built) -> Declared:
    return Declared(
        batch_size=built.batch_size,
        drop_last=built.drop_last,
        sampler=built.sampler,
        draws=built.draws,
        shuffled=built.shuffled,
        replacement=built.replacement,
        sampler_drop_last=built.sampler_drop_last,
        prepared=built.sharder.startswith("accelerate"),
        even=built.even_batches,
        dispatched=built.dispatched or built.sharder == "accelerate-dispatcher",
        own_sampler=built.sampler not in TORCHS and built.shard is None,
    )


def clues_of(rows: Rows) -> Clues:
    built = [row.reader.built for row in rows.rows]
    dispatched = declared_of(rows.built).dispatched
    if dispatched:
        built = built[:1] * len(built)  # what the other ranks hold is not read
    return Clues(
        shards=tuple(one.shard for one in built) if any(one.shard for one in built) else (),
        seeds=tuple(one.seed for one in built),
        epochs=tuple(tuple(seen.epoch for seen in row.reader.passes[: rows.passes]) for row in rows.rows),
        subsets=tuple(one.subset_digest for one in built),
        sharder=rows.built.sharder.removesuffix("-dispatcher"),
        dispatched=dispatched,
        sampler=rows.built.sampler,
        own_sampler=declared_of(rows.built).own_sampler,
        shuffled=rows.built.shuffled,
        stream=rows.built.kind == "stream",
        samples=rows.built.samples,
        subset=rows.built.subset,
    )


def draws_of(built: Built, world: int) -> int | None:
    """What one process would draw; a sampler that splits by rank may count its padding, or its own share only."""
    of = built.subset if built.subset is not None else built.samples
    if built.draws is None:
        return None if built.manual else of  # a batch sampler of the program's own need not have a length
    if of is None:
        return built.draws
    shards = max(1, built.shard[0]) if built.shard is not None else 1
    share, whole = -(-of // shards), of // shards
    if built.shard is not None and built.draws in (of, share, whole, share * shards, whole * shards):
        return of
    splits = declared_of(built).own_sampler and not built.sharder and built.draws < of
    if splits and of - world < built.draws * world < of + world * (built.batch_size or 1):
        return of
    return built.draws


def reference_of(rows: Rows, alone: Reader | None, role: str, *, own_ids: bool = False) -> Reference | None:
    """What is to be read in a pass: what one process visits, else what the loader says of itself; ``None``: unknown."""
    built = rows.built
    seen = tuple(as_numbers(item) for item in alone.passes if item.complete) if alone is not None else ()
    if own_ids or holdings_of(rows, alone) == "parts":
        seen = ()
    evaluates = role == "eval" and built.sampler == "DistributedSampler" and not built.sharder
    if seen and alone is not None:
        return reference_of_alone(alone.built, built, seen, evaluates)
    draws = draws_of(built, len(rows.rows))
    of = built.subset if built.subset is not None else built.samples
    if draws is not None and of is not None and draws < of and built.shard is not None and not built.replacement:
        # a wrapper around a sampler that draws less than there is counts its own padding too
        drawn = len({index for seen in rows.of(0) for batch in seen.batches for index in batch})
        draws = drawn if draws - built.shard[0] < drawn < draws and rows.complete(0) else draws
    if built.kind == "stream" or draws is None:
        return None
    subset = built.subset if built.subset is not None else built.samples
    whole = subset is not None and subset == built.samples and not own_ids
    everything = tuple(range(draws)) if whole and draws == subset else ()
    shuffled = built.shuffled
    if shuffled is None:
        shuffled = False if evaluates else several_orders(rows)
    exact = bool(everything) and not (built.drop_last or built.sampler_drop_last or built.replacement)
    if evaluates and everything:
        shuffled = False
    ordered = everything if not shuffled and (built.shuffled is not None or evaluates) else ()
    return Reference(
        epochs=(everything,) if exact else (),
        steps=-(-draws // (built.batch_size or 1)),
        draws=draws,
        shuffled=shuffled,
        order=ordered,
        exact=exact,
        replacement=built.replacement,
        drop_last=built.drop_last,
        sampler_drop_last=built.sampler_drop_last,
        distinct=None if built.replacement else min(draws, subset) if built.drop_last and subset == draws else subset,
    )


def reference_of_alone(
    built: Built, shared: Built, seen: tuple[tuple[tuple[int, ...], ...], ...], evaluates: bool
) -> Reference:
    """``built`` is what the loader says of itself in one process, ``shared`` what it says on the ranks."""
    epochs = tuple(tuple(index for batch in epoch for index in batch) for epoch in seen)
    same_samples = all(Counter(epoch) == Counter(epochs[0]) for epoch in epochs)
    told = draws_of(built, 1)
    drop_last = built.drop_last or shared.drop_last
    draws = told if told is not None and built.drop_last and told >= len(epochs[0]) else len(epochs[0])
    shuffled = built.shuffled if built.shuffled is not None else any(epoch != epochs[0] for epoch in epochs)
    if evaluates:
        shuffled = False
    order = () if shuffled or built.kind == "stream" else tuple(sorted(epochs[0])) if evaluates else epochs[0]
    if built.drop_last and not shuffled and order == tuple(range(len(order))):
        order = tuple(range(draws))  # one process leaves out another tail than the ranks do
    return Reference(
        epochs=epochs,
        steps=len(seen[0]),
        draws=draws,
        shuffled=shuffled,
        order=order,
        exact=same_samples and not drop_last and not shared.sampler_drop_last,
        replacement=built.replacement,
        drop_last=drop_last,
        sampler_drop_last=built.sampler_drop_last or shared.sampler_drop_last,
        distinct=draws if drop_last and same_samples and not built.replacement else None,
    )


def several_orders(rows: Rows) -> bool:
    first = rows.rows[0].reader.passes
    return any(seen.batches[: len(first[0].batches)] != first[0].batches[: len(seen.batches)] for seen in first[1:])


def split_by_hand(rows: Rows, run: Observation, holdings: Holdings) -> int:
    """How many samples the ranks' subsets hold together where every rank has one of its own and nothing else shards."""
    built = [row.reader.built for row in rows.rows]
    if len(built) < 2 or any(one.shard or one.sharder for one in built) or not rows.passes:
        return 0
    own = [one.subset if one.subset is not None else one.samples for one in built]
    reads = [set(visits(rank, 0)) for rank in run.ranks]
    if None in own or sum(map(len, reads)) != len(set().union(*reads)):
        return 0
    # ranks that read all of their subsets and meet nowhere have different ones, whether that is said or not
    differ = len({one.subset_digest for one in built}) > 1 or len(set(own)) > 1 or own == list(map(len, reads))
    return sum(length or 0 for length in own) if differ or holdings != "same" else 0
