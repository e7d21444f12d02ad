"""Write lines to a stream: plain, or in colour on a terminal; what the user's files hold is shown, never obeyed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

_NEW_FILE = re.compile(r"@@ -0,0 \+1,(\d+) @@")
_LONG_FILE = 60


@dataclass(frozen=True, slots=True)
class Styled:
    """A piece of a line with the name of its colour or weight (as rich calls them).

    ``whole``: it is never folded, as a command that someone copies.
    """

    text: str
    style: str
    whole: bool = False


Piece = str | Styled


class Page:
    """Lines as they gather, each in pieces; control characters are made visible as they come in."""

    def __init__(self) -> None:
        self.lines: list[tuple[Styled, ...]] = []

    def line(self, *pieces: Piece) -> None:
        """Add a line; a newline within a piece is shown as ``\\n``."""
        styled = (Styled(piece, "") if isinstance(piece, str) else piece for piece in pieces)
        self.lines.append(tuple(Styled(visible(piece.text), piece.style, piece.whole) for piece in styled))

    def blank(self) -> None:
        """Add an empty line, unless there is one or nothing stands above it."""
        if self.lines and self.lines[-1]:
            self.lines.append(())

    def plain(self) -> str:
        """The page without colour."""
        return "".join("".join(piece.text for piece in line).rstrip() + "\n" for line in self.lines)


def visible(text: str) -> str:
    """Text that does nothing to a terminal: control, direction and undecodable characters are written as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode("ascii") for c in text)


def wants_colour(stream: TextIO) -> bool:
    """Whether to colour what goes to a stream: only a terminal, unless `NO_COLOR` or `FORCE_COLOR` say otherwise."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def width_of(stream: TextIO) -> int:
    """Columns to fill: those of the terminal, at most 120; 80 where there is none."""
    if not stream.isatty():
        return 80
    try:
        return max(40, min(120, os.get_terminal_size(stream.fileno()).columns))
    except OSError:
        return 80


def emit(page: Page, stream: TextIO, *, colour: bool | None = None) -> None:
    """Write a page. ``colour`` None: as the stream and the environment say. On a terminal, long lines are folded."""
    if stream.isatty():
        page = _folded(page, width_of(stream))
    _write(page, stream, wants_colour(stream) if colour is None else colour)


def _write(page: Page, stream: TextIO, colour: bool) -> None:
    if not colour:
        stream.write(page.plain())
        stream.flush()
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, force_terminal=True, highlight=False, soft_wrap=True, markup=False, emoji=False)
    for line in page.lines:
        text = Text()
        for piece in line:
            text.append(piece.text, piece.style or None)
        console.print(text, soft_wrap=True)
    stream.flush()


def _folded(page: Page, width: int) -> Page:
    """The page with its long lines folded; the lines of a diff are not passed through here."""
    from shardfix.report.folding import folds

    folded = Page()
    for line in page.lines:
        ends = [sum(len(piece.text) for piece in line[: at + 1]) for at in range(len(line))]
        parts = [(end - len(piece.text), end, piece) for piece, end in zip(line, ends, strict=True)]
        text = "".join(piece.text for piece in line)
        whole = [(start, end) for start, end, piece in parts if piece.whole]
        for indent, start, end in folds(text, width, whole):
            pieces = [Styled(" " * indent, "")] if indent else []
            for begin, stop, piece in parts:
                if begin < end and start < stop:
                    pieces.append(Styled(text[max(begin, start) : min(stop, end)], piece.style))
            folded.lines.append(tuple(pieces))
    return folded


def emit_diff(diff: bytes, stream: TextIO) -> None:
    """Write a diff: the very bytes, so that `git apply` takes them; readable and in colour on a terminal.

    On a terminal a long new file is one line, so that it does not push the changes out of sight. `FORCE_COLOR` does
    not count here: a coloured diff in a pipe can't be applied.
    """
    if not stream.isatty():
        stream.flush()
        stream.buffer.write(diff)
        stream.buffer.flush()
        return
    page = Page()
    for raw in _shortened(diff.decode("utf-8", "surrogateescape").split("\n")[:-1]):
        page.line(Styled(raw.removesuffix("\r"), _diff_style(raw)))
    _write(page, stream, not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb")


def _shortened(lines: Sequence[str]) -> Iterator[str]:
    """The lines of a diff without the content of long new files (the run-time check has 500 lines)."""
    left = 0
    for line in lines:
        new_file = _NEW_FILE.match(line)
        if new_file and int(new_file[1]) > _LONG_FILE:
            left = int(new_file[1])
            yield f"({left} lines of a new file are not shown on a terminal; they are in a pipe and in --patch FILE)"
        elif left:
            left -= 1
        else:
            yield line


def _diff_style(line: str) -> str:
    if line.startswith(("diff ", "--- ", "+++ ", "new file", "index ")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")


def table(page: Page, head: Sequence[str], rows: Iterable[Sequence[Piece]]) -> None:
    """Add a table, its columns as wide as what they hold."""
    body = [[cell if isinstance(cell, Styled) else Styled(cell, "") for cell in row] for row in rows]
    everything = [[Styled(name, "bold") for name in head], *body]
    widths = [max(len(visible(row[column].text)) for row in everything) for column in range(len(head))]
    for row in everything:
        pieces: list[Piece] = []
        for cell, width in zip(row, widths, strict=True):
            pieces += [cell, " " * (width - len(visible(cell.text)) + 2)]
        page.line(*pieces[:-1])
