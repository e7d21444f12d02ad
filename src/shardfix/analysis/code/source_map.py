"""Positions: from the (line, UTF-8 column) of ast to character offsets and back."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from typing import cast

from shardfix.analysis.code.old_names import as_written
from shardfix.analysis.code.tree import home
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

    def span(self, node: ast.AST) -> Span:
        """The span of a node; a decorated definition starts at its first decorator, a comprehension is placed by what
        it iterates. It is a span of the node's own file."""
        own = self._of(node)
        if own is not self:
            return own.span(node)
        node = _placed(node)
        line, column = node.lineno, node.col_offset
        decorators: list[ast.expr] = getattr(node, "decorator_list", [])
        start = self.offset(line, column)
        if decorators:
            first = min(decorators, key=lambda d: (d.lineno, d.col_offset))
            start = self.text.rindex("@", 0, self.offset(first.lineno, first.col_offset) + 1)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return Span(start, self.offset(node.end_lineno, node.end_col_offset))

    def source(self, node: ast.AST) -> str:
        """The text of a node as written."""
        span = self.span(node)
        return self._of(node).text[span.start : span.end]

    def location(self, node: ast.AST) -> Location:
        """Where a node starts, as users are told it."""
        own = self._of(node)
        if own is not self:
            return own.location(node)
        node = _placed(node)
        return self.at(self.offset(node.lineno, node.col_offset))

    def at(self, offset: int) -> Location:
        """Where a character offset is, as users are told it."""
        line = bisect_right(self.starts, offset)
        return Location(self.path, line, offset - self.starts[line - 1] + 1)

    def _of(self, node: ast.AST) -> SourceMap:
        """The map of the file that a node belongs to."""
        own = home(node, None)
        return own.source if own is not None else self

    def line_text(self, line: int) -> str:
        """The text of a 1-based line, without its newline, stripped."""
        end = self.starts[line] if line < len(self.starts) else len(self.text)
        return as_written(self.text[self.starts[line - 1] : end].strip())


_Placed = ast.expr | ast.stmt | ast.keyword | ast.arg | ast.alias | ast.excepthandler


def _placed(node: ast.AST) -> _Placed:
    """The node itself, or the part of it that has a position: ast gives none to some of its nodes."""
    if isinstance(node, ast.comprehension):
        return node.iter
    if isinstance(node, ast.match_case):
        return _placed(node.pattern)
    if isinstance(node, ast.withitem):
        return node.context_expr
    if not hasattr(node, "lineno"):
        child = next((c for c in ast.walk(node) if hasattr(c, "lineno")), None)
        if child is None:
            raise ValueError(f"a {type(node).__name__} has no place in the source")
        node = child
    return cast("_Placed", node)
