"""The statements of a file, in the blocks in which they stand."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from shardfix.rewrite.edits import Span
from shardfix.rewrite.layout import BLANK, Layout


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """A statement; ``span`` begins at its first decorator, if it has one."""

    node: ast.stmt
    span: Span
    block: Block
    index: int


@dataclass(eq=False)
class Block:
    """The statements that share an indent. ``owner`` is the compound statement around them, None for the module."""

    owner: Statement | None
    layout: Layout = field(repr=False)
    statements: list[Statement] = field(default_factory=list)

    @cached_property
    def is_one_line(self) -> bool:
        """Whether the block follows its colon on the same line (``if x: y``)."""
        start = self.statements[0].span.start
        line = self.layout.line_of(start)
        return self.owner is not None and bool(self.layout.text[self.layout.starts[line] : start].strip(BLANK))

    @cached_property
    def indent(self) -> str:
        if self.is_one_line:
            assert self.owner is not None
            return self.owner.block.indent + unit(self.layout, self.owner)
        return self.layout.indent(self.layout.line_of(self.statements[0].span.start))

    def is_joined(self, index: int) -> bool:
        """Whether the statement at ``index`` follows the one before it on the same line, after a semicolon."""
        if not 0 < index < len(self.statements):
            return False
        line_of = self.layout.line_of
        return line_of(self.statements[index - 1].span.end) == line_of(self.statements[index].span.start)

    def chain(self, index: int) -> range:
        """Indices of the statements joined with the one at ``index`` by semicolons, itself included."""
        first = last = index
        while self.is_joined(first):
            first -= 1
        while self.is_joined(last + 1):
            last += 1
        return range(first, last + 1)


@dataclass(frozen=True, slots=True)
class Tree:
    """All statements of a file, found by their spans."""

    layout: Layout
    module: ast.Module
    root: Block
    by_span: dict[Span, Statement]

    def statement(self, span: Span) -> Statement:
        """The statement with this span (with or without its decorators).

        Raises:
            EditError: there is none.
        """
        found = self.by_span.get(span)
        if found is None:
            self.layout.fail(span.start, "no statement begins and ends where the edit says")
        return found

    def body(self, statement: Statement) -> Block | None:
        """The ``body`` of a compound statement."""
        body = getattr(statement.node, "body", None)
        return self.by_span[_span(self.layout, body[0])].block if body else None

    def outermost(self, statement: Statement) -> Statement:
        """The statement at module level that holds this one, or is it."""
        while statement.block.owner is not None:
            statement = statement.block.owner
        return statement


def parse(text: str) -> ast.Module:
    """``ast.parse`` that warns of nothing (old code is full of invalid escapes).

    Raises:
        ValueError: it does not parse.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (SyntaxError, RecursionError, MemoryError) as error:
            line = getattr(error, "lineno", None)
            raise ValueError(
                f"does not parse: {error}" + (f" (line {line})" if line and "line" not in str(error) else "")
            ) from error


def read_tree(layout: Layout) -> Tree:
    """Find the statements of a text.

    Raises:
        EditError: it does not parse.
    """
    try:
        module = parse(layout.text)
    except ValueError as error:
        layout.fail(0, f"the file {error}")
    root = Block(None, layout)
    by_span: dict[Span, Statement] = {}
    pending = [(root, module.body)]
    while pending:
        block, nodes = pending.pop()
        for index, node in enumerate(nodes):
            span = _span(layout, node)
            statement = Statement(node, span, block, index)
            block.statements.append(statement)
            by_span[span] = statement
            if decorators := getattr(node, "decorator_list", None):
                assert decorators
                by_span[Span(layout.offset(node.lineno, node.col_offset), span.end)] = statement
            pending += ((Block(statement, layout), suite) for suite in suites(node))
    return Tree(layout, module, root, by_span)


def suites(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks of a compound statement."""
    for name in ("body", "orelse", "finalbody"):
        if suite := getattr(node, name, None):
            yield suite
    for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield part.body


def unit(layout: Layout, near: Statement | None = None) -> str:
    """What one level of indent is: here, else where the file first has one, else four spaces."""
    inner = next(suites(near.node), None) if near else None
    if near and inner:
        outer, deeper = near.block.indent, layout.indent(inner[0].lineno - 1)
        if deeper.startswith(outer) and len(deeper) > len(outer):
            return deeper[len(outer) :]
    while near and near.block.owner is not None:
        outer, deeper = near.block.owner.block.indent, near.block.indent
        if not near.block.is_one_line and deeper.startswith(outer) and len(deeper) > len(outer):
            return deeper[len(outer) :]
        near = near.block.owner
    for line, following in zip(range(len(layout.starts)), range(1, len(layout.starts)), strict=False):
        if layout.line(line).rstrip().endswith(":") and not layout.is_blank(following):
            outer, deeper = layout.indent(line), layout.indent(following)
            if deeper.startswith(outer) and len(deeper) > len(outer):
                return deeper[len(outer) :]
    return "    "


def _span(layout: Layout, node: ast.stmt) -> Span:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    end = layout.offset(node.end_lineno, node.end_col_offset)
    decorators = getattr(node, "decorator_list", None)
    if not decorators:
        return Span(layout.offset(node.lineno, node.col_offset), end)
    first = layout.offset(decorators[0].lineno, decorators[0].col_offset)
    return Span(layout.text.rindex("@", 0, first), end)
