"""Items between commas, a call's arguments or an import's names: take one out, put one in, keep the layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from shardfix.rewrite.layout import BLANK, NEWLINE, comments_of, is_directive


@dataclass(frozen=True, slots=True)
class Item:
    """One item. ``gap`` is the white space and comments up to the next item or the closing bracket."""

    name: str
    text: str
    comma: str
    """The comma with what stands before it; empty where there is none."""
    gap: str
    value_at: int = 0
    """Where in ``text`` the value begins (``keyword=`` comes before it)."""


@dataclass(frozen=True, slots=True)
class Listing:
    """``head`` ends with the opening bracket, if there is one; ``lead`` is the gap after it."""

    head: str
    lead: str
    items: tuple[Item, ...]
    tail: str

    def code(self) -> str:
        return self.head + self.lead + "".join(i.text + i.comma + i.gap for i in self.items) + self.tail

    def find(self, name: str) -> int | None:
        return next((index for index, item in enumerate(self.items) if item.name == name), None)

    def gap_before(self, index: int) -> str:
        return self.items[index - 1].gap if index else self.lead


@dataclass(frozen=True, slots=True)
class _Gap:
    """A gap taken apart: the rest of the first line, whole lines, the indent of the last one."""

    first: str
    newline: str
    lines: tuple[str, ...]
    last: str

    @property
    def comment(self) -> str:
        return self.first.strip() if "#" in self.first else ""

    @property
    def has_comments(self) -> bool:
        return "#" in self.first or any("#" in line for line in self.lines)


def _read_gap(text: str) -> _Gap:
    breaks = list(NEWLINE.finditer(text))
    if not breaks:
        return _Gap(text, "", (), "")
    starts = [found.end() for found in breaks]
    lines = tuple(text[a:b] for a, b in pairwise(starts))
    return _Gap(text[: breaks[0].start()], breaks[0][0], lines, text[starts[-1] :])


def with_gap_before(listing: Listing, index: int, gap: str) -> Listing:
    """The listing with another gap in front of an item (or of the closing bracket)."""
    if index == 0:
        return replace(listing, lead=gap)
    return with_item(listing, index - 1, replace(listing.items[index - 1], gap=gap))


def with_item(listing: Listing, index: int, item: Item) -> Listing:
    """The listing with an item exchanged."""
    return replace(listing, items=(*listing.items[:index], item, *listing.items[index + 1 :]))


def exchange(listing: Listing, index: int, item: Item, *, newline: str, indent: str) -> Listing:
    """Put another text in the place of an item; comments that the old text held go above it."""
    old = listing.items[index]
    orphans = _orphans(old.text, kept=item.text)
    listing = with_item(listing, index, item)
    if not orphans:
        return listing
    gap = _read_gap(listing.gap_before(index))
    margin = gap.last if gap.newline else indent
    lines = "".join(margin + comment + (gap.newline or newline) for comment in orphans)
    above = gap.first.rstrip(BLANK) + (gap.newline or newline) + "".join(gap.lines) + lines + margin
    return with_gap_before(listing, index, above)


def drop(listing: Listing, index: int, *, newline: str, indent: str) -> Listing:
    """Take an item out.

    Lines that only held the item vanish, its comments stay, and a trailing comma is kept where there was one.
    ``indent`` is where an own-line comment goes in a listing that has no line of its own yet.
    """
    gone = listing.items[index]
    first, last = index == 0, index == len(listing.items) - 1
    orphans = _orphans(gone.text + gone.comma)
    gap = _join(listing.gap_before(index), gone.gap, orphans, first=first, last=last, newline=newline, indent=indent)
    listing = with_gap_before(listing, index, gap)
    if last and not first and not gone.comma:
        before = listing.items[index - 1]
        comma = before.comma[:-1] if "#" in before.comma else ""
        listing = with_item(listing, index - 1, replace(before, comma=comma))
    return replace(listing, items=listing.items[:index] + listing.items[index + 1 :])


def _orphans(text: str, kept: str = "") -> list[str]:
    if "#" not in text:
        return []
    stays = comments_of(kept)
    return [comment for comment in comments_of(text) if comment not in stays and not is_directive(comment)]


def _join(
    before: str, after: str, orphans: Sequence[str], *, first: bool, last: bool, newline: str, indent: str
) -> str:
    """The one gap that remains of the two around a dropped item."""
    b, a = _read_gap(before), _read_gap(after)
    if orphans or (b.newline and a.newline):
        own = [*orphans, *([a.comment] if a.comment and not is_directive(a.comment) else [])]
        margin = b.last if b.newline else (a.last if a.newline and not last else indent)
        end = b.newline or a.newline or newline
        lines = [*b.lines, *(margin + comment + end for comment in own), *a.lines]
        while first and lines and not lines[0].strip():
            lines.pop(0)
        while last and lines and not lines[-1].strip():
            lines.pop()
        if (
            not own
            and b.lines
            and a.lines
            and not b.lines[-1].strip()
            and not a.lines[0].strip()
            and b.lines[-1] in lines
        ):
            lines.remove(b.lines[-1])
        if first and last and not b.comment and not lines:
            return ""
        return b.first.rstrip(BLANK) * bool(b.newline) + end + "".join(lines) + (a.last if a.newline else margin)
    if b.newline:
        return before if not last or b.has_comments else after
    if a.newline:
        if not first or a.has_comments:
            return after
        return "" if last else before
    return ("" if first else after) if last else before


def put(listing: Listing, index: int, item: Item, *, newline: str, indent: str) -> Listing:
    """Put an item in before the one at ``index`` (at the end if there is none).

    It gets a line of its own where its neighbours have one, and the trailing comma that the last item has.
    """
    items = listing.items
    if not items:
        lead = _read_gap(listing.lead)
        if not lead.newline:
            return replace(listing, items=(replace(item, comma="", gap=""),))
        listing = replace(listing, lead=lead.first + lead.newline + "".join(lead.lines) + indent)
        return replace(listing, items=(replace(item, comma=",", gap=lead.newline + lead.last),))
    if index < len(items):
        return _put_before(listing, index, item)
    before, style = items[-1], _read_gap(listing.gap_before(len(items) - 1))
    rest = _read_gap(before.gap)
    gap, after = " ", before.gap
    if style.newline and not style.first.endswith("\\"):
        gap = (rest.first if rest.newline else "") + style.newline + style.last
        after = rest.newline + "".join(rest.lines) + rest.last if rest.newline else before.gap
    new = replace(item, comma=before.comma[-1:], gap=after)
    return replace(listing, items=(*items[:-1], replace(before, comma=before.comma or ",", gap=gap), new))


def _put_before(listing: Listing, index: int, item: Item) -> Listing:
    items, before = listing.items, listing.gap_before(index)
    gap = _read_gap(before)
    if gap.newline and not gap.first.endswith("\\"):
        listing = with_gap_before(listing, index, gap.first + gap.newline + gap.last)
        after = gap.newline + "".join(gap.lines) + gap.last
    else:
        follows = _read_gap(items[0].gap) if index == 0 and len(items) > 1 else gap
        after = follows.newline + follows.last if follows.newline and not follows.first.endswith("\\") else " "
    new = replace(item, comma=",", gap=after)
    items = listing.items
    return replace(listing, items=(*items[:index], new, *items[index:]))
