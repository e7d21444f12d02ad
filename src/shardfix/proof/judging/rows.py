"""Who reads a loader: a row for each shard, ranks of one model-parallel group in one row, and their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shardfix.proof.observed import Built, Observed, Pass, Reader
from shardfix.wording import join


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


def full_batch(reader: Reader) -> int | None:
    """The size of a batch that another one follows, so that it is a full one."""
    return next((len(seen.batches[0]) for seen in reader.passes if len(seen.batches) > 1), None)


# --- in words ---


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
