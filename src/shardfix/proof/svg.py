"""Draw the shard maps of one loader as elements of an SVG picture: rows of ranks, a legend, and all of it in words."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from .model import ShardMap
from .shardmap import Tally, heading, repeats, row_names, summary, tally

WIDTH = 880
PAD = 24
GAP = 30
LINE = 19
LETTERS = 112  # of a line of words

# of the ranks: told apart by brightness too, so that a grey print and colour-blind eyes keep them apart
OF_RANKS = ("#3b6fd4", "#e0952b", "#2a9d78", "#a05bd0", "#1f9bb8", "#86a51f", "#cf5a9b", "#8a7b6a")
LIGHT = {"#e0952b", "#2a9d78", "#1f9bb8", "#86a51f"}  # that carry dark numbers


@dataclass(frozen=True, slots=True)
class Picture:
    """One loader to be drawn: what the original reads (``None`` where there is none) and what the result does, or the
    loader that was watched; the verdict with its cause, and what else is said of it in plain text."""

    title: str
    before: ShardMap | None
    after: ShardMap | None
    verdict: str = ""
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Card:
    """A picture as it is drawn: its elements, where it ends, and the same in words, for those who do not see it."""

    parts: list[str]
    end: float
    says: str


@dataclass(frozen=True, slots=True)
class Grid:
    """How the columns of a panel are laid out: cells of ``size`` by ``height``, each of ``step`` samples."""

    size: float
    height: int
    per_band: int
    step: int
    numbered: bool


@dataclass(slots=True)
class Panel:
    """One map as it is drawn: its elements, its height, and what its legend has to explain."""

    parts: list[str]
    height: float
    signs: set[str]


def draw_card(picture: Picture, top: float) -> Card:
    """The maps before and after, one above the other, so that a sample stands in the same column of both.

    Args:
        picture: at least one of its maps is there.
        top: where the card begins; all of it is within ``WIDTH``.
    """
    shown = [(name, shards) for name, shards in (("before", picture.before), ("after", picture.after)) if shards]
    if len(shown) == 2 and picture.before == picture.after:
        shown = [("before and after", shown[0][1])]
    elif picture.before is None:
        shown = [("", shown[0][1])]
    names = max((row_names(shards) for _, shards in shown), key=len)
    left = PAD + 18 + 7 * max(map(len, [*names, "more than once"]))
    orders = any(repeats(shards) for _, shards in shown)
    parts: list[str] = []
    y = top + PAD + 14
    for line in textwrap.wrap(xml_text(picture.title), 88) or [""]:
        parts.append(text(PAD, y, line, "title"))
        y += 23
    if picture.verdict:
        parts.append(text(PAD, y, picture.verdict, f"head {picture.verdict.partition(':')[0]}"))
        y += LINE
    for words in picture.words:
        for line in textwrap.wrap(xml_text(words), 120):
            parts.append(text(PAD, y, line, "soft"))
            y += LINE
    y += 5
    signs: set[str] = set()
    for name, shards in shown:
        panel = draw_panel(name, shards, left, y, orders)
        parts += panel.parts
        signs |= panel.signs
        y += panel.height + GAP
    y -= GAP - 14
    legend, height = draw_legend(names, signs, y)
    parts += legend
    end = round(y + height + PAD - 8)
    parts.insert(
        0,
        f'<rect class="paper" x="0.5" y="{top + 0.5:g}" width="{WIDTH - 1}" height="{end - top - 1:g}" rx="10"/>',
    )
    told = (picture.verdict, *(describe(name, shards) for name, shards in shown))
    return Card(parts, end, "; ".join(filter(None, told)))


def describe(name: str, shards: ShardMap) -> str:
    """A map in words, for those who do not see it."""
    counted = tally(shards)
    lines = [line for _, line in summary(shards, counted, 200)]
    return f"{name + ': ' if name else ''}{heading(shards)}: {'; '.join(lines)}"


# --- a panel ---


def grid_for(columns: int, room: float) -> Grid:
    """Numbers where there is room, then smaller cells, then up to three bands, then several samples to a cell."""
    if columns * 18 <= room:
        return Grid(18, 18, max(1, columns), 1, numbered=True)
    if columns * 9 <= room:
        return Grid(9, 16, columns, 1, numbered=False)
    per_band = int(room // 9)
    if columns <= 3 * per_band:
        return Grid(9, 14, per_band, 1, numbered=False)
    cells = int(room // 5)
    step = -(-columns // cells)
    return Grid(5, 18, cells, step, numbered=False)


def draw_panel(name: str, shards: ShardMap, left: float, top: float, orders: bool) -> Panel:
    counted = tally(shards)
    grid = grid_for(len(counted.columns), WIDTH - PAD - left)
    panel = Panel([], 0, set())
    y = top + 12
    if name:
        panel.parts.append(
            f'<text x="{PAD}" y="{y:g}"><tspan class="head">{escape(name)}</tspan>'
            f'<tspan class="soft" dx="8">{escape(xml_text(heading(shards)))}</tspan></text>'
        )
    else:
        panel.parts.append(text(PAD, y, heading(shards), "soft"))
    y += 12
    stretches = [counted.columns[start : start + grid.step] for start in range(0, len(counted.columns), grid.step)]
    if grid.step > 1:
        y += 8
        panel.parts.append(text(left, y, f"each cell is {grid.step} samples, filled by how many are read", "soft"))
        y += 4
    for start in range(0, len(stretches), grid.per_band):
        y = draw_band(panel, shards, counted, grid, stretches[start : start + grid.per_band], left, y + 6)
    y += LINE
    words = [(bad, line) for bad, line in summary(shards, counted, LETTERS)]
    if orders:
        for epoch, order in enumerate(shards.orders):
            same = order in shards.orders[:epoch]
            line = f"rank 0, epoch {epoch}: {' '.join(map(str, order))} ..{' (again)' if same else ''}"
            words.append((same, line))
    for bad, line in words:
        for piece in textwrap.wrap(line, LETTERS):
            panel.parts.append(text(left, y, piece, "bad" if bad else "soft"))
            y += LINE
    panel.height = y - LINE + 4 - top
    return panel


def draw_band(
    panel: Panel,
    shards: ShardMap,
    counted: Tally,
    grid: Grid,
    stretches: Sequence[Sequence[int]],
    left: float,
    y: float,
) -> float:
    """Some columns of all rows, and below them what became of each; the y where they end."""
    inner = grid.size - (2 if grid.size > 12 else 1)
    if not grid.numbered:
        y += 8
        for place, stretch in enumerate(stretches):
            if place % 10 == 0 and (len(stretches) - place > 3 or place == 0):
                panel.parts.append(text(left + place * grid.size + inner / 2, y, str(stretch[0]), "tick"))
        y += 5
    wrong = counted.wrong
    for rank, name in enumerate(row_names(shards)):
        count = counted.counts[rank]
        panel.parts.append(text(PAD, y + grid.height / 2 + 4, name, ""))
        colour = OF_RANKS[rank % len(OF_RANKS)]
        if not grid.numbered:
            panel.parts.append(cell(left, y, len(stretches) * grid.size - 1, grid.height - 2, "hole"))
        for place, stretch in enumerate(stretches):
            x = left + place * grid.size
            read = sum(1 for index in stretch if count[index])
            if not read:
                if grid.numbered:
                    panel.parts.append(cell(x, y, inner, grid.height - 2, "hole"))
                continue
            opacity = "" if read == len(stretch) else f' fill-opacity="{0.25 + 0.75 * read / len(stretch):.2f}"'
            panel.parts.append(cell(x, y, inner, grid.height - 2, "", f' fill="{colour}"{opacity}'))
            if grid.numbered:
                kind = "number on-light" if colour in LIGHT else "number"
                panel.parts.append(text(x + inner / 2, y + grid.height / 2 + 2, str(stretch[0]), kind))
            if grid.step > 1:
                continue  # a ring would cover the cell; the rows below say how many are wrong
            if any(index in wrong and counted.totals[index] > 1 and count[index] for index in stretch):
                panel.parts.append(cell(x + 1, y + 1, inner - 2, grid.height - 4, "ring"))
        y += grid.height + 1
    return draw_outcome(panel, counted, grid, stretches, left, y + 4)


def draw_outcome(
    panel: Panel, counted: Tally, grid: Grid, stretches: Sequence[Sequence[int]], left: float, y: float
) -> float:
    """The row of all ranks together: read once, padded, twice, never."""
    if grid.step > 1 and counted.wrong:
        return draw_parts(panel, counted, grid, stretches, left, y)
    inner = grid.size - (2 if grid.size > 12 else 1)
    height = grid.height - 2
    panel.parts.append(text(PAD, y + grid.height / 2 + 4, "together", "soft"))
    wrong, unread = counted.wrong, set(counted.unread)
    once: list[int] = []  # neighbours that are read once are one line
    for place, stretch in enumerate([*stretches, ()]):
        x = left + place * grid.size
        if once and (not stretch or not all(counted.totals[index] == 1 and index not in wrong for index in stretch)):
            panel.parts.append(
                cell(left + once[0] * grid.size, y + height / 2 - 1, len(once) * grid.size - 2, 2, "once")
            )
            once = []
        if not stretch:
            break
        if any(index in unread and not counted.dropping for index in stretch):
            panel.signs.add("never")
            panel.parts.append(cell(x + 0.5, y + 0.5, inner - 1, height - 1, "never"))
        elif any(index in wrong for index in stretch):
            panel.signs.add("extra")
            panel.parts.append(cell(x, y + height / 2 - 3, inner, 6, "extra"))
        elif all(index in unread for index in stretch):
            panel.signs.add("dropped")
            panel.parts.append(cell(x, y, inner, height, "hole"))
        elif any(counted.totals[index] > 1 for index in stretch):
            panel.signs.add("padding")
            panel.parts.append(cell(x + 0.75, y + height / 2 - 3, inner - 1.5, 6, "padding"))
        else:
            panel.signs.add("once")
            once.append(place)
    return y + grid.height


def draw_parts(
    panel: Panel, counted: Tally, grid: Grid, stretches: Sequence[Sequence[int]], left: float, y: float
) -> float:
    """Of large sets: what part of each stretch is read more than once, and what part never, as bars."""
    wrong = counted.wrong
    never = set() if counted.dropping else set(counted.unread)
    for words, indices in (("more than once", wrong - never), ("never read", never)):
        if not indices:
            continue
        height = grid.height - 2
        panel.parts.append(text(PAD, y + grid.height / 2 + 4, words, "soft bad"))
        panel.parts.append(cell(left, y, len(stretches) * grid.size - 1, height, "hole"))
        for place, stretch in enumerate(stretches):
            part = sum(1 for index in stretch if index in indices) / len(stretch)
            if part:
                bar = max(1.5, round(part * height, 1))
                panel.parts.append(cell(left + place * grid.size, y + height - bar, grid.size - 1, bar, "extra"))
        y += grid.height + 3
    return y


# --- the legend ---

_SIGNS = {
    "once": "read once",
    "padding": "padding: read again to fill up",
    "extra": "read more than once",
    "never": "never read",
    "dropped": "left out by drop_last",
}


def draw_legend(names: Sequence[str], signs: set[str], y: float) -> tuple[list[str], float]:
    """What the colours and the marks of the row ``together`` mean, in as many lines as it takes."""
    parts = [f'<path d="M{PAD} {y:g}H{WIDTH - PAD}" stroke="var(--rule)"/>']
    x, y = float(PAD), y + 24
    entries = [("", name, OF_RANKS[rank % len(OF_RANKS)]) for rank, name in enumerate(names)]
    entries += [(sign, words, "") for sign, words in _SIGNS.items() if sign in signs]
    first = y
    for sign, words, colour in entries:
        length = 22 + 6.6 * len(words) + 16
        if x + length > WIDTH - PAD:
            x, y = float(PAD), y + LINE + 3
        shape = {"once": (5, 2), "padding": (3.5, 6), "extra": (3, 6)}.get(sign, (0, 12))
        extra = f' fill="{colour}"' if colour else ""
        parts.append(cell(x, y - 10 + shape[0], 12, shape[1], sign if sign != "dropped" else "hole", extra))
        parts.append(text(x + 18, y, words, "soft"))
        x += length
    return parts, 24 + y - first


# --- elements ---


def cell(x: float, y: float, width: float, height: float, kind: str, more: str = "") -> str:
    style = f' class="{kind}"' if kind else ""
    return (
        f'<rect{style} x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{min(2.5, width / 4):g}"{more}/>'
    )


def text(x: float, y: float, words: str, kind: str) -> str:
    style = f" class={quoteattr(kind)}" if kind else ""
    return f'<text{style} x="{x:g}" y="{y:g}">{escape(xml_text(words))}</text>'


_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def xml_text(words: str) -> str:
    """Text that XML can hold: what it can't is written as an escape."""
    return _NOT_XML.sub(lambda hit: f"\\u{ord(hit[0]):04x}", words)
