"""Bring what was watched into the judge's form: a row for each shard, samples by number, what there was to read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from .causes import Clues
from .faults import Reference, join
from .model import Declared, Observation, RankRun
from .observed import Built, Item, Observed, Pass, Reader

Holdings = Literal["same", "parts", "unlike"]

# samplers that draw what they are given, on every rank: only what stands around them can shard
PLAIN = {"SequentialSampler", "RandomSampler", "SubsetRandomSampler", "WeightedRandomSampler"}
TORCHS = {*PLAIN, "DistributedSampler", "SeedableRandomSampler", "BatchSampler", ""}


@dataclass(frozen=True, slots=True)
class Row:
    """One shard: the ranks that should read it, and the reader that stands for them."""

    name: str
    ranks: tuple[int, ...]
    reader: Reader


@dataclass(frozen=True, slots=True)
class Rows:
    """The shards of a loader. ``differs`` says which ranks of one row read different data, if so."""

    rows: tuple[Row, ...]
    differs: str = ""

    @property
    def built(self) -> Built:
        return self.rows[0].reader.built

    @property
    def passes(self) -> int:
        return min(len(row.reader.passes) for row in self.rows)

    def of(self, number: int) -> list[Pass]:
        return [row.reader.passes[number] for row in self.rows]

    def complete(self, number: int) -> bool:
        return all(item.complete for item in self.of(number))


def reading(observed: Observed) -> list[Reader]:
    """The ranks that began a pass, in order."""
    return sorted((reader for reader in observed.readers if reader.passes), key=lambda reader: reader.rank)


def rows_of(observed: Observed) -> Rows:
    """A row for each reading rank, or for each data-parallel rank where those are fewer.

    Which ranks share a model is not told: a sampler of the right number of shards says it, else the ranks that read
    the same do (neighbours, as in Megatron and in a mesh whose last dimension is the model's; or every n-th rank).
    """
    readers = reading(observed)
    shards = observed.replicas or len(readers)
    if shards >= len(readers) or len(readers) % shards:
        return Rows(tuple(Row(f"rank {reader.rank}", (reader.rank,), reader) for reader in readers))
    size = len(readers) // shards
    said = [reader.built.shard for reader in readers]
    groupings = [
        [readers[start : start + size] for start in range(0, len(readers), size)],
        [readers[start::shards] for start in range(shards)],
    ]
    own = [shard[1] for shard in said if shard is not None and shard[0] == shards]
    if len(own) == len(readers) and all(count == size for count in Counter(own).values()):
        groupings = [[[r for r, part in zip(readers, own, strict=True) if part == number] for number in sorted({*own})]]
    agreeing = next((groups for groups in groupings if all(map(alike, groups))), None)
    groups = agreeing or groupings[0]
    rows = tuple(
        Row(f"data-parallel rank {number}", tuple(reader.rank for reader in group), group[0])
        for number, group in enumerate(groups)
    )
    return Rows(rows, "" if agreeing else difference(groups))


def alike(group: Sequence[Reader]) -> bool:
    """Whether ranks read the same, as far as both were seen."""
    first = group[0].passes
    return all(
        one.batches[: len(two.batches)] == two.batches[: len(one.batches)]
        for reader in group[1:]
        for one, two in zip(first, reader.passes, strict=False)
    )


def difference(groups: Sequence[Sequence[Reader]]) -> str:
    for group in groups:
        for other in group[1:]:
            if not alike([group[0], other]):
                one, two = group[0].rank, other.rank
                return f"ranks {one} and {two} belong to one model-parallel group but read different data"
    return ""


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
        samples=rows.built.samples,
        subset=rows.built.subset,
    )


def draws_of(built: Built, world: int) -> int | None:
    """What one process would draw; a sampler that splits by rank may count its padding, or its own share only."""
    of = built.subset if built.subset is not None else built.samples
    if of is None or built.draws is None:
        return built.draws if built.draws is not None else of
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


def names_of(rows: Rows) -> Mapping[int, str]:
    """How the rows are called, where that is not ``rank`` and their number."""
    names = {number: row.name for number, row in enumerate(rows.rows)}
    return {} if all(name == f"rank {number}" for number, name in names.items()) else names


def who_reads(observed: Observed, rows: Rows) -> str:
    """``read by ranks 0 and 1, 3 passes``."""
    ranks = [rank for row in rows.rows for rank in row.ranks]
    passes = [len(reader.passes) for reader in reading(observed)]
    low, high = min(passes), max(passes)
    times = f"{low} pass{'es' if low != 1 else ''}" if low == high else f"{low} to {high} passes"
    who = f"rank {ranks[0]} only" if len(ranks) == 1 and observed.world > 1 else named(sorted(ranks))
    if observed.world == 1:
        return f"read by one process, {times}"
    return f"read by {who} of {observed.world}, {times}"


def named(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > 3 and list(ranks) == list(range(ranks[0], ranks[-1] + 1)):
        return f"ranks {ranks[0]} to {ranks[-1]}"
    return f"ranks {join([str(rank) for rank in ranks])}"
