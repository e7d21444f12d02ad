"""Draw who reads what: ranks x samples as plain text, before and after, so that a fault shows at one glance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from .model import Proof, ShardMap

MOST_BANDS = 3
RED, BOLD, DIM, RESET = "\x1b[31m", "\x1b[1m", "\x1b[2m", "\x1b[0m"
RANK_COLORS = ("\x1b[36m", "\x1b[33m", "\x1b[35m", "\x1b[34m")


def draw_proof(proof: Proof, *, width: int = 80, color: bool = False) -> str:
    """The maps of a proof, the original over the result; empty where neither ran. Lines fit in ``width`` columns."""
    shown = [(name, shards) for name, shards in (("before", proof.map_before), ("after", proof.map_after)) if shards]
    if len(shown) == 2 and proof.map_before == proof.map_after:
        shown = [("before and after", shown[0][1])]
    elif len(shown) == 1 and proof.map_before is None:
        shown = [("", shown[0][1])]
    orders = any(repeats(shards) for _, shards in shown)
    parts = [draw(shards, title=name, width=width, color=color, orders=orders) for name, shards in shown]
    return "\n\n".join(parts)


def draw(shards: ShardMap, *, title: str = "", width: int = 80, color: bool = False, orders: bool = False) -> str:
    """One map: a row for each rank, a column for each sample, below it who reads twice and what nobody reads.

    Samples are shown by number where they fit in ``width``, else one character each: ``#`` read once, a digit how
    often, ``.`` not read by this rank. ``orders`` adds the first samples of rank 0 in each epoch.
    """
    counts = [Counter(index for batch in batches for index in batch) for batches in shards.ranks]
    columns = sorted({*shards.expected, *(index for count in counts for index in count)})
    totals = sum(counts, Counter[int]())
    wrong = {index for index in columns if totals[index] != 1}
    if is_padding(shards, totals):
        wrong = set(holes(shards, totals))
    label = len(f"rank {shards.world - 1}") + 3
    cell = len(str(columns[-1])) + 1 if columns else 2
    numbered = label + cell * len(columns) - 1 <= width
    heading = f"{shards.world} ranks, {shards.size} samples, one epoch"
    lines = [paint(f"{title}: {heading}" if title else heading, BOLD, color)]
    per_band = len(columns) if numbered else max(10, (width - label) // 10 * 10)
    bands = [columns[start : start + per_band] for start in range(0, len(columns), per_band)] if columns else []
    for band in bands[:MOST_BANDS]:
        if not numbered:
            lines.append(f"{'':{label}}{ruler(band)}".rstrip())
        for rank, count in enumerate(counts):
            cells = [draw_cell(index, count[index], cell - 1 if numbered else 0) for index in band]
            if color:
                own = RANK_COLORS[rank % len(RANK_COLORS)]
                cells = [
                    paint_cell(text, index, count[index], wrong, own) for text, index in zip(cells, band, strict=True)
                ]
            lines.append(f"{f'rank {rank}':{label - 3}} | {(' ' if numbered else '').join(cells)}".rstrip())
    if len(bands) > MOST_BANDS:
        lines.append(f"{'':{label}}.. and {len(columns) - MOST_BANDS * per_band} more samples")
    lines += [paint(line, RED, color) if bad else line for bad, line in summary(shards, counts, totals, width)]
    if orders:
        for epoch, order in enumerate(shards.orders):
            same = " (again)" if order in shards.orders[:epoch] else ""
            text = f"rank 0, epoch {epoch}: {' '.join(map(str, order))} ..{same}"
            lines.append(paint(text, RED, color) if same else text)
    return "\n".join(lines)


def draw_cell(index: int, count: int, digits: int) -> str:
    if digits:
        return f"{index if count else '.':>{digits}}"
    return "." if not count else "#" if count == 1 else str(min(count, 9))


def paint_cell(text: str, index: int, count: int, wrong: set[int], own: str) -> str:
    if not count:
        return paint(text, RED if index in wrong else DIM, True)
    return paint(text, RED if index in wrong else own, True)


def paint(text: str, code: str, color: bool) -> str:
    return f"{code}{text}{RESET}" if color else text


def ruler(band: Sequence[int]) -> str:
    """The number of every tenth column, written from that column on."""
    text = ""
    for place, index in enumerate(band):
        if place % 10 == 0 and place + len(str(index)) <= max(len(band), 2):
            text = f"{text:{place}}{index}"
    return text


def is_padding(shards: ShardMap, totals: Counter[int]) -> bool:
    """Whether the repeated visits are no more than the owner's rule adds, and in nobody's stead."""
    if holes(shards, totals):
        return False
    return sum(count - 1 for count in totals.values() if count > 1) <= shards.padding


def holes(shards: ShardMap, totals: Counter[int]) -> list[int]:
    """The samples that nobody reads and no ``drop_last`` accounts for."""
    unread = [index for index in shards.expected if not totals[index]]
    return unread if len(unread) > shards.dropped else []


def repeats(shards: ShardMap) -> bool:
    return len(shards.orders) > len(set(shards.orders))


def summary(
    shards: ShardMap, counts: Sequence[Counter[int]], totals: Counter[int], width: int
) -> list[tuple[bool, str]]:
    """The lines below a map, with whether each is bad news."""
    lines: list[tuple[bool, str]] = []
    shared = [index for index in sorted(totals) if sum(index in count for count in counts) > 1]
    own_twice = [index for index in sorted(totals) if totals[index] > 1 and index not in shared]
    everyone = "both ranks" if shards.world == 2 else "several ranks"
    if totals and all(count.keys() == totals.keys() for count in counts) and not is_padding(shards, totals):
        lines.append((True, f"every rank reads all {len(totals)} samples"))
    else:
        fine = is_padding(shards, totals)
        note = "padding, " if fine else ""
        if shared:
            lines.append((not fine, listed(f"{note}read by {everyone}", shared, width)))
        if own_twice:
            lines.append((not fine, listed(f"{note}read more than once by one rank", own_twice, width)))
    unread = [index for index in shards.expected if not totals[index]]
    if unread:
        bad = bool(holes(shards, totals))
        lines.append((bad, listed("never read" if bad else "left out by drop_last", unread, width)))
    foreign = sorted(totals.keys() - set(shards.expected))
    if foreign:
        lines.append((True, listed("not to be read at all", foreign, width)))
    if totals and not lines:
        lines.append((False, "every sample is read once: no overlap, nothing missed"))
    steps = [len(batches) for batches in shards.ranks]
    if len(set(steps)) > 1:
        lines.append((True, "steps: " + ", ".join(f"rank {rank} {count}" for rank, count in enumerate(steps))))
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
