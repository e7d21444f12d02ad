"""A branch of an ``if`` that loses all its statements goes; where it was the first, the condition turns round."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from dataclasses import dataclass

from shardfix.rewrite.blocks import Block
from shardfix.rewrite.edits import Span
from shardfix.rewrite.layout import BLANK, Layout
from shardfix.rewrite.patches import Patch

_ELSE = re.compile(r"else[ \t]*:[ \t\r\n]*")
_TURNED = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}


@dataclass(frozen=True, slots=True)
class Branch:
    """The lines that go with an emptied branch (``last`` is exclusive), and the patches of the ``if`` above it."""

    first: int
    last: int
    patches: tuple[Patch, ...]


def emptied_branch(block: Block, dropped: Collection[ast.stmt]) -> Branch | None:
    """What goes with a branch that is emptied; None where a ``pass`` is to stand in it: it is no branch of an ``if``
    with a plain ``else``, the other one is emptied too, or comments stand there, which have no other place."""
    owner, layout = block.owner, block.layout
    if owner is None or not isinstance(owner.node, ast.If) or not owner.node.orelse:
        return None
    node, statements = owner.node, block.statements
    is_first = statements[0].node is node.body[0]
    if all(other in dropped for other in (node.orelse if is_first else node.body)):
        return None
    start = layout.offset(node.orelse[0].lineno, node.orelse[0].col_offset)
    line = layout.line_of(layout.offset(*_end(node.body[-1]))) + 1
    while line < len(layout.starts) and layout.is_blank(line):
        line += 1
    if line >= layout.line_of(start) or not _ELSE.fullmatch(layout.line(line).lstrip(BLANK)):
        return None  # an elif, one line, a comment
    first_of_body = layout.line_of(layout.offset(node.body[0].lineno, node.body[0].col_offset))
    if first_of_body <= layout.line_of(layout.offset(*_end(node.test))):
        return None
    if not is_first:
        gone = Branch(line, layout.line_of(statements[-1].span.end) + 1, ())
    else:
        header = layout.line_of(layout.offset(*_end(node.test))) + 1
        gone = Branch(header, line + 1, tuple(_turned(layout, node.test)))
    last = layout.line_span(gone.last - 1).end
    return None if layout.comments_in(layout.starts[gone.first], last) else gone


def _turned(layout: Layout, test: ast.expr) -> list[Patch]:
    """The patches that make a condition its opposite."""
    start, end = layout.offset(test.lineno, test.col_offset), layout.offset(*_end(test))
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        after = start + len("not")
        while layout.text[after] in BLANK:
            after += 1
        if layout.text[after] not in "\\\r\n#":
            return [Patch(Span(start, after), "")]
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in _TURNED:
        old, new = _TURNED[type(test.ops[0])]
        between = Span(layout.offset(*_end(test.left)), _start(layout, test.comparators[0]))
        if " ".join(layout.text[between.start : between.end].split()) == old:
            return [Patch(between, f" {new} ")]
    if isinstance(test, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
        return [Patch(Span(start, start), "not ")]
    return [Patch(Span(start, start), "not ("), Patch(Span(end, end), ")")]


def _start(layout: Layout, node: ast.expr) -> int:
    return layout.offset(node.lineno, node.col_offset)


def _end(node: ast.expr | ast.stmt) -> tuple[int, int]:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return node.end_lineno, node.end_col_offset
