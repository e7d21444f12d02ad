"""Positions: from the (line, UTF-8 column) of ast to character offsets and back."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right

from shardfix.analysis.model import Location
from shardfix.rewrite.edits import Span

_NEWLINE = re.compile(r"\r\n|\r|\n")


class SourceMap:
    """Line starts of one decoded text; lines end where ast ends them (``\\r\\n``, ``\\r``, ``\\n``)."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self.starts = [0, *(m.end() for m in _NEWLINE.finditer(text))]
        self._ascii = text.isascii()

    def offset(self, line: int, column: int) -> int:
        """The character offset of ast's 1-based ``line`` and UTF-8 byte ``column``."""
        start = self.starts[line - 1]
        if self._ascii:
            return start + column
        end = self.starts[line] if line < len(self.starts) else len(self.text)
        return start + len(self.text[start:end].encode("utf-8", "surrogatepass")[:column].decode("utf-8", "replace"))

    def span(self, node: ast.expr | ast.stmt | ast.keyword | ast.arg | ast.alias | ast.excepthandler) -> Span:
        """The span of a node; a decorated definition starts at its first decorator."""
        line, column = node.lineno, node.col_offset
        decorators: list[ast.expr] = getattr(node, "decorator_list", [])
        start = self.offset(line, column)
        if decorators:
            first = min(decorators, key=lambda d: (d.lineno, d.col_offset))
            start = self.text.rindex("@", 0, self.offset(first.lineno, first.col_offset) + 1)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return Span(start, self.offset(node.end_lineno, node.end_col_offset))

    def source(self, node: ast.expr | ast.stmt | ast.keyword | ast.arg) -> str:
        """The text of a node as written."""
        span = self.span(node)
        return self.text[span.start : span.end]

    def location(self, node: ast.expr | ast.stmt | ast.keyword | ast.arg | ast.alias) -> Location:
        """Where a node starts, as users are told it."""
        return self.at(self.offset(node.lineno, node.col_offset))

    def at(self, offset: int) -> Location:
        """Where a character offset is, as users are told it."""
        line = bisect_right(self.starts, offset)
        return Location(self.path, line, offset - self.starts[line - 1] + 1)

    def line_text(self, line: int) -> str:
        """The text of a 1-based line, without its newline, stripped."""
        end = self.starts[line] if line < len(self.starts) else len(self.text)
        return self.text[self.starts[line - 1] : end].strip()
