"""Draw who reads what: ranks x samples as plain text, before and after, so that a fault shows at one glance."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from shardfix.wording import plural

from .model import Proof, ShardMap

MOST_BANDS = 3
NARROW = 32
BAD, TITLE, FAINT = "bold red", "bold", "dim"
OF_RANKS = ("cyan", "yellow", "magenta", "blue", "green", "bright_cyan", "bright_yellow", "bright_magenta")
_CODES = {
    BAD: "31",
    TITLE: "1",
    FAINT: "2",
    **dict(zip(OF_RANKS, ("36", "33", "35", "34", "32", "96", "93", "95"), strict=True)),
}

Piece = tuple[str, str]  # text, style as rich calls it
Line = list[Piece]


@dataclass(frozen=True, slots=True)
class Tally:
    """A map in numbers: how often each rank reads each sample, and which samples are out of order.

    ``fine`` says that repeated visits are no more than padding, in nobody's stead. ``wrong`` holds the samples to
    point at: those of a fault, or the holes.
    """

    counts: tuple[Counter[int], ...]
    totals: Counter[int]
    columns: tuple[int, ...]
    shared: tuple[int, ...]
    own_twice: tuple[int, ...]
    unread: tuple[int, ...]
    dropping: bool
    foreign: tuple[int, ...]
    fine: bool

    @property
    def wrong(self) -> set[int]:
        holes = set() if self.dropping else set(self.unread)
        return holes if self.fine else {*holes, *self.shared, *self.own_twice, *self.foreign}

    @property
    def everywhere(self) -> bool:
        """Whether every rank reads the same, though that is no padding."""
        return bool(self.totals) and not self.fine and all(count.keys() == self.totals.keys() for count in self.counts)


def tally(shards: ShardMap) -> Tally:
    """Count a map out."""
    counts = tuple(Counter(index for batch in batches for index in batch) for batches in shards.ranks)
    totals = sum(counts, Counter[int]())
    expected = set(shards.expected)
    unread = tuple(index for index in shards.expected if not totals[index])
    dropping = len(unread) <= shards.dropped
    readers = Counter(index for count in counts for index in count)
    twice = sorted(index for index, total in totals.items() if total > 1)
    extra = sum(totals[index] - 1 for index in twice)
    return Tally(
        counts=counts,
        totals=totals,
        columns=tuple(sorted(expected | totals.keys())),
        shared=tuple(index for index in twice if readers[index] > 1),
        own_twice=tuple(index for index in twice if readers[index] == 1),
        unread=unread,
        dropping=dropping,
        foreign=tuple(sorted(totals.keys() - expected)),
        fine=dropping and extra <= shards.padding,
    )


# --- whole pictures ---


def draw_proof(proof: Proof, *, width: int = 80, color: bool = False) -> str:
    """The maps of a proof, the original over the result; empty where neither ran. Lines fit in ``width`` columns."""
    return as_text(picture(proof, width=width), color)


def draw(shards: ShardMap, *, title: str = "", width: int = 80, color: bool = False, orders: bool = False) -> str:
    """One map as text; ``map_lines`` says how it looks."""
    return as_text(map_lines(shards, title=title, width=width, orders=orders), color)


def picture(proof: Proof, *, width: int = 80) -> list[Line]:
    """The maps of a proof as lines of styled pieces."""
    shown = titled(proof)
    orders = any(repeats(shards) for _, shards in shown)
    lines: list[Line] = []
    for title, shards in shown:
        if lines:
            lines.append([])
        lines += map_lines(shards, title=title, width=width, orders=orders)
    return lines


def titled(proof: Proof) -> list[tuple[str, ShardMap]]:
    """The maps that a proof has, each with its title; one where both are the same."""
    shown = [(name, shards) for name, shards in (("before", proof.map_before), ("after", proof.map_after)) if shards]
    if len(shown) == 2 and proof.map_before == proof.map_after:
        return [("before and after", shown[0][1])]
    if len(shown) == 1 and proof.map_before is None:
        return [("", shown[0][1])]
    return shown


def as_text(lines: Sequence[Line], color: bool) -> str:
    return "\n".join("".join(paint(text, style, color) for text, style in line).rstrip() for line in lines)


def paint(text: str, style: str, color: bool) -> str:
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if color and style and text.strip() else text


# --- one map ---


def map_lines(shards: ShardMap, *, title: str = "", width: int = 80, orders: bool = False) -> list[Line]:
    """A row for each rank, a column for each sample, below it who reads twice and what nobody reads.

    Samples are shown by number where they fit in ``width``, else one character each: ``#`` read once, a digit how
    often, ``.`` not read by this rank. Where even that takes more than a few bands, the first band stands for the
    detail, and below it each character stands for several samples: ``#`` all of them read, a digit the tenths, ``.``
    none. ``orders`` adds the first samples of rank 0 in each epoch.
    """
    counted = tally(shards)
    columns = counted.columns
    labels = labels_of(shards, width)
    label = len(labels[0])
    cell = len(str(columns[-1])) + 1 if columns else 2
    numbered = label + cell * len(columns) - 1 <= width
    lines = wrapped(f"{title}: {heading(shards)}" if title else heading(shards), TITLE, width)
    room = max(1, width - label)
    per_band = len(columns) if numbered else room // 10 * 10 or room
    bands = [columns[start : start + per_band] for start in range(0, len(columns), per_band)] if columns else []
    if len(bands) > MOST_BANDS:
        lines += wrapped(f"the first {per_band}:", "", width)
        lines += band_lines(counted, labels, bands[0], 0)
        lines += overview(counted, labels, room, width)
    else:
        for band in bands:
            lines += band_lines(counted, labels, band, cell - 1 if numbered else 0)
    for bad, line in summary(shards, counted, width):
        lines += wrapped(line, BAD if bad else "", width)
    if orders:
        for epoch, order in enumerate(shards.orders):
            same = " (again)" if order in shards.orders[:epoch] else ""
            text = f"rank 0, epoch {epoch}: {' '.join(map(str, order))} ..{same}"
            lines += wrapped(text, BAD if same else "", width)
    return lines


def heading(shards: ShardMap) -> str:
    rows = shards.names[0].rsplit(" ", 1)[0] if shards.names else "rank"
    things = "item" if shards.stream else "sample"
    epoch = f"epoch {shards.epoch}" if shards.epoch else "one epoch"
    return f"{plural(len(shards.ranks), rows)}, {plural(shards.size, things)}, {epoch}"


def row_names(shards: ShardMap) -> list[str]:
    return list(shards.names) or [f"rank {rank}" for rank in range(len(shards.ranks))]


def labels_of(shards: ShardMap, width: int) -> list[str]:
    """What stands before each row, all of one length; only the rank's number where there is little room."""
    names = row_names(shards)
    if width < NARROW:
        names = [name.rsplit(" ", 1)[-1] for name in names]
    longest = max(map(len, names), default=0)
    return [f"{name:{longest}} | " for name in names]


def wrapped(text: str, style: str, width: int) -> list[Line]:
    return [[(line, style)] for line in textwrap.wrap(text, max(8, width), break_on_hyphens=False) or [""]]


def band_lines(counted: Tally, labels: Sequence[str], band: Sequence[int], digits: int) -> list[Line]:
    """Some columns of all rows; ``digits`` is the width of a number, 0 for one character each."""
    lines: list[Line] = []
    if not digits:
        lines.append([(f"{'':{len(labels[0])}}{ruler(band)}", FAINT)])
    wrong = counted.wrong
    for rank, count in enumerate(counted.counts):
        line: Line = [(labels[rank], "")]
        for place, index in enumerate(band):
            style = BAD if index in wrong else of_rank(rank) if count[index] else FAINT
            gap = " " if digits and place else ""
            join(line, gap + draw_cell(index, count[index], digits), style)
        lines.append(line)
    return lines


def join(line: Line, text: str, style: str) -> None:
    """Add a piece, as part of the last one where that looks the same."""
    if len(line) > 1 and line[-1][1] == style:
        line[-1] = (line[-1][0] + text, style)
    else:
        line.append((text, style))


def of_rank(rank: int) -> str:
    return OF_RANKS[rank % len(OF_RANKS)]


def draw_cell(index: int, count: int, digits: int) -> str:
    if digits:
        return f"{index if count else '.':>{digits}}"
    return "." if not count else "#" if count == 1 else str(min(count, 9))


def ruler(band: Sequence[int]) -> str:
    """The number of every tenth column, written from that column on."""
    text = ""
    for place, index in enumerate(band):
        if place % 10 == 0 and place + len(str(index)) <= max(len(band), 2):
            text = f"{text:{place}}{index}"
    return text


def overview(counted: Tally, labels: Sequence[str], room: int, width: int) -> list[Line]:
    """All columns in one band: what part of each stretch of samples a rank reads, and what is read twice or never."""
    columns = counted.columns
    step = -(-len(columns) // room)
    stretches = [columns[start : start + step] for start in range(0, len(columns), step)]
    lines = wrapped(f"all {len(columns)}, {step} to a character (# all of them, 1-9 tenths, . none):", "", width)
    for rank, count in enumerate(counted.counts):
        line: Line = [(labels[rank], "")]
        for stretch in stretches:
            part = tenths(sum(1 for index in stretch if count[index]), len(stretch))
            join(line, part, FAINT if part == "." else of_rank(rank))
        lines.append(line)
    for name, indices in (("twice", {*counted.shared, *counted.own_twice}), ("never", {*counted.unread})):
        if not indices or (name == "twice" and counted.fine) or (name == "never" and counted.dropping):
            continue
        label = f"{name[: len(labels[0]) - 3]:{len(labels[0]) - 3}} | "
        parts = "".join(tenths(sum(1 for index in stretch if index in indices), len(stretch)) for stretch in stretches)
        lines.append([(label, ""), (parts, BAD)])
    return lines


def tenths(part: int, whole: int) -> str:
    """``#`` for all, ``.`` for none, else the tenths, at least 1."""
    if not part:
        return "."
    return "#" if part == whole else str(max(1, min(9, round(10 * part / whole))))


def repeats(shards: ShardMap) -> bool:
    return len(shards.orders) > len(set(shards.orders))


# --- in words ---


def summary(shards: ShardMap, counted: Tally, width: int) -> list[tuple[bool, str]]:
    """The lines below a map, with whether each is bad news."""
    lines: list[tuple[bool, str]] = []
    things = "items" if shards.stream else "samples"
    everyone = "both ranks" if len(shards.ranks) == 2 else "several ranks"
    if counted.everywhere and len(shards.ranks) > 1:
        what = "the same" if counted.unread and not counted.dropping else "all"
        lines.append((True, f"every rank reads {what} {len(counted.totals)} {things}"))
    else:
        note = "padding, " if counted.fine else ""
        if counted.shared:
            lines.append((not counted.fine, listed(f"{note}read by {everyone}", counted.shared, width)))
        if counted.own_twice:
            text = listed(f"{note}read more than once by one rank", counted.own_twice, width)
            lines.append((not counted.fine, text))
    if counted.unread:
        what = "left out by drop_last" if counted.dropping else "never read"
        lines.append((not counted.dropping, listed(what, counted.unread, width)))
    if counted.foreign:
        lines.append((True, listed("not to be read at all", counted.foreign, width)))
    if counted.totals and not lines:
        lines.append((False, f"every {things[:-1]} is read once: no overlap, nothing missed"))
    steps = [len(batches) for batches in shards.ranks]
    if len(set(steps)) > 1:
        names = row_names(shards)
        lines.append((True, "steps: " + ", ".join(f"{names[rank]} {count}" for rank, count in enumerate(steps))))
    return lines


def listed(what: str, indices: Sequence[int], width: int) -> str:
    """``never read: 1 3 5 .. (12)``, cut to the width."""
    text = f"{what}:"
    end = f" .. ({len(indices)})"
    for place, index in enumerate(indices):
        if place and len(text) + len(f" {index}") + len(end) > width:
            return text + end
        text += f" {index}"
        if place == 11 and len(indices) > 16:
            return text + end
    return f"{text} ({len(indices)})" if len(indices) > 3 else text
