"""Where the lines, newlines, indents and comments of a source text are."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import NoReturn

from shardfix.rewrite.edits import Span

NEWLINE = re.compile(r"\r\n|\r|\n")
# A comment, or a string that may hold a `#`. Same-quote nesting inside an f-string (3.12) is read as several strings,
# which keeps the count of quotes even, so the reading is in step again after it.
_COMMENT_OR_STRING = re.compile(
    r"""(?P<comment>\#[^\r\n]*)"""
    r'''|"""(?:[^\\]|\\.)*?"""'''
    r"""|'''(?:[^\\]|\\.)*?'''"""
    r'''|"(?:[^"\\\r\n]|\\(?:\r\n|.))*"'''
    r"""|'(?:[^'\\\r\n]|\\(?:\r\n|.))*'""",
    re.DOTALL,
)
_DIRECTIVE = re.compile(
    r"(?:\#\s*(?:"
    r"noqa(?::\s*[A-Za-z]+[0-9]*(?:[\s,]+[A-Z]+[0-9]+)*)?"
    r"|type:\s*[^#\s][^#]*|(?:pylint|pyright|mypy|flake8|isort|ruff|fmt|yapf):\s*[^#\s][^#]*"
    r"|nosec\b[^#]*|pragma:\s*no\s*cover"
    r")\s*)+"
)
# What str.strip would also take (such as \x1c or a no-break space) is not white space to Python's tokenizer.
BLANK = " \t\f"


class EditError(Exception):
    """An edit can't be carried out as planned; the file stays as it was.

    ``line`` and ``column`` are 1-based, the column counts characters.
    """

    def __init__(self, path: str, line: int, column: int, reason: str) -> None:
        super().__init__(path, line, column, reason)
        self.path, self.line, self.column, self.reason = path, line, column, reason

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Layout:
    """A source text and the places in it; build it with :func:`read_layout`."""

    path: str
    text: str
    starts: tuple[int, ...]
    """Offset of the first character of every line."""
    comments: tuple[Span, ...]

    def line_of(self, offset: int) -> int:
        """Index (from 0) of the line that holds an offset."""
        return bisect_right(self.starts, offset) - 1

    def line_span(self, line: int) -> Span:
        """The line with its newline."""
        end = self.starts[line + 1] if line + 1 < len(self.starts) else len(self.text)
        return Span(self.starts[line], end)

    def line(self, line: int) -> str:
        span = self.line_span(line)
        return self.text[span.start : span.end]

    def is_blank(self, line: int) -> bool:
        return not self.line(line).strip(BLANK + "\r\n")

    def is_comment(self, line: int) -> bool:
        return self.line(line).lstrip(BLANK).startswith("#")

    def indent(self, line: int) -> str:
        text = self.line(line)
        return text[: len(text) - len(text.lstrip(BLANK))]

    def newline(self, line: int) -> str:
        """The newline that ends a line, else that of its nearest neighbour, else ``\\n``."""
        for near in (*range(line, -1, -1), *range(line + 1, len(self.starts))):
            if found := NEWLINE.search(self.line(near)):
                return found[0]
        return "\n"

    def offset(self, lineno: int, byte_column: int) -> int:
        """Offset of a position as ``ast`` gives it (line from 1, column in UTF-8 bytes)."""
        line = self.line(lineno - 1)
        columns = byte_column if line.isascii() else len(line.encode()[:byte_column].decode())
        return self.starts[lineno - 1] + columns

    def comments_in(self, start: int, end: int) -> list[str]:
        """Texts of the comments that begin in a stretch."""
        first = bisect_right(self.comments, Span(start, start))
        found = []
        for comment in self.comments[first:]:
            if comment.start >= end:
                break
            found.append(self.text[comment.start : comment.end])
        return found

    def fail(self, offset: int, reason: str) -> NoReturn:
        line = self.line_of(offset)
        raise EditError(self.path, line + 1, offset - self.starts[line] + 1, reason)


def read_layout(path: str, text: str) -> Layout:
    """Find the lines and comments of a text. A newline is what Python takes for one: LF, CRLF or a lone CR."""
    starts = [0, *(found.end() for found in NEWLINE.finditer(text))]
    if len(starts) > 1 and starts[-1] == len(text):
        starts.pop()
    return Layout(path, text, tuple(starts), tuple(comment_spans(text)))


def comment_spans(text: str) -> list[Span]:
    """Where the comments are, without the white space behind them."""
    found = []
    for match in _COMMENT_OR_STRING.finditer(text):
        if comment := match["comment"]:
            found.append(Span(match.start(), match.start() + len(comment.rstrip())))
    return found


def comments_of(text: str) -> list[str]:
    """The comments of a text, in order."""
    return [text[span.start : span.end] for span in comment_spans(text)]


def is_directive(comment: str) -> bool:
    """Whether a comment only speaks to a tool about its own line (``# noqa``, ``# type:``), so that it goes with it."""
    return _DIRECTIVE.fullmatch(comment) is not None
