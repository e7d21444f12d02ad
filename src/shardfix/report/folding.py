"""Fold long lines at the width of a terminal, what follows standing under what it belongs to; nothing is cut."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

HANG = 2  # columns that the rest of a folded line stands further to the right
_LEAST = 24  # columns that are left for the rest, however deep a line stands
_COLUMN = re.compile(r" *[a-z][a-z ]{,20}?  +(?=\S)")  # a label in words, up to the column of what it labels


def folds(text: str, width: int, whole: Sequence[tuple[int, int]] = ()) -> Iterator[tuple[int, int, int]]:
    """The pieces that a line is folded into, each with its columns of indentation, its start and its end.

    Args:
        text: one line.
        width: columns that each piece should keep to, its indentation included.
        whole: parts (start, end) that are never broken, as a command that is to be copied; they may be too long.
    """
    if len(text) <= width:
        yield 0, 0, len(text)
        return
    indent = len(text) - len(text.lstrip(" "))
    column = _COLUMN.match(text)
    hang = column.end() if column and column.end() <= width - _LEAST else max(0, min(indent + HANG, width - _LEAST))
    start, room, before = 0, width, 0
    while len(text) - start > room:
        cut = _place(text, start + (indent if not start else 0), start + room, whole)
        if cut is None:
            break
        yield before, start, len(text[start:cut].rstrip(" ")) + start
        start = cut
        before, room = hang, width - hang
    yield before, start, len(text)


def _place(text: str, start: int, end: int, whole: Sequence[tuple[int, int]]) -> int | None:
    """Where the next piece begins: behind the last space before ``end``, else behind the first one after it."""
    spaces = [
        hit.end()
        for hit in re.finditer(r" +", text)
        if hit.start() > start and not any(one < hit.end() and hit.start() < other for one, other in whole)
    ]
    fitting = [place for place in spaces if len(text[:place].rstrip(" ")) <= end]
    later = [place for place in spaces if place not in fitting and place < len(text)]
    return fitting[-1] if fitting else later[0] if later else None
