"""Take statements out of a file and put statements in, line by line."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from shardfix.rewrite.blocks import Block, Statement, Tree, unit
from shardfix.rewrite.branches import emptied_branch
from shardfix.rewrite.edits import InsertStatements, Span
from shardfix.rewrite.layout import BLANK, Layout, is_directive
from shardfix.rewrite.patches import Patch


@dataclass(slots=True)
class _Slot:
    """The lines that go between two statements of a block (or before its first, after its last)."""

    after: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)
    before: list[str] = field(default_factory=list)

    def all(self) -> list[str]:
        return [*self.after, *self.body, *self.before]


def edit_statements(tree: Tree, drops: Sequence[Statement], inserts: Sequence[InsertStatements]) -> list[Patch]:
    """The patches that remove ``drops`` and put in ``inserts``.

    Args:
        tree: of a text that ends with a newline.
        drops: none inside another one.
        inserts: none anchored inside a dropped statement.
    """
    slots = _slots(tree, inserts)
    blocks = {id(statement.block): statement.block for statement in drops}
    gone = {id(statement) for statement in drops}
    nodes = {statement.node for statement in drops}
    regions: list[_Region] = []
    patches: list[Patch] = []
    for block in blocks.values():
        filled = any(owner is block for owner, _ in slots)
        for patch in _drop_from(block, gone, nodes, filled):
            if isinstance(patch, _Region):
                regions.append(patch)
            else:
                patches.append(patch)
    for block, places in _by_block(slots):
        patches += _insert_into(block, places)
    occupied = {patch.span.start for patch in patches if patch.span.start == patch.span.end}
    patches += _close_up(tree.layout, regions, occupied)
    return patches


# Dropping


@dataclass(frozen=True, slots=True, order=True)
class _Region:
    """Whole lines that go (``last`` is exclusive), and what takes their place."""

    first: int
    last: int
    text: str
    opens_block: bool


def _drop_from(block: Block, gone: set[int], dropped: set[ast.stmt], filled: bool) -> Iterator[Patch | _Region]:
    layout, statements = block.layout, block.statements
    doomed = [statement.index for statement in statements if id(statement) in gone]
    emptied = len(doomed) == len(statements) and block.owner is not None and not filled and not _is_elif(statements[0])
    branch = emptied_branch(block, dropped) if emptied else None
    if branch is not None:
        yield from branch.patches
        yield _Region(branch.first, branch.last, "", opens_block=bool(branch.patches))
        return
    seen = -1
    for index in doomed:
        if index <= seen:
            continue
        chain = block.chain(index)
        seen = chain[-1]
        kept = [other for other in chain if id(statements[other]) not in gone]
        if kept:
            yield from _thin_out(block, chain, kept)
            continue
        start, end = statements[chain[0]].span.start, statements[chain[-1]].span.end
        if block.is_one_line:
            if any(not is_directive(comment) for comment in layout.comments_in(start, end)):
                layout.fail(start, "a comment inside this statement has no other place to go; remove it by hand")
            yield Patch(Span(start, end), "pass")
            continue
        first, last = layout.line_of(start), layout.line_of(end) + 1
        indent, newline = layout.indent(first), layout.newline(first)
        comments = layout.comments_in(start, layout.line_span(last - 1).end)
        lines = [comment for comment in comments if not is_directive(comment)]
        if emptied and doomed[-1] in chain:
            lines.append("pass")
        opens = chain[0] == 0 and block.owner is not None and not layout.is_comment(first - 1)
        yield _Region(first, last, "".join(indent + line + newline for line in lines), opens)


def _thin_out(block: Block, chain: range, kept: list[int]) -> Iterator[Patch]:
    """Remove some of the statements that share a line."""
    layout, statements = block.layout, block.statements
    index = chain[0]
    while index <= chain[-1]:
        if index in kept:
            index += 1
            continue
        following = next((other for other in kept if other > index), None)
        if following is not None:
            span = Span(statements[index].span.start, statements[following].span.start)
        else:
            end = statements[chain[-1]].span.end
            rest = layout.text[end : layout.line_span(layout.line_of(end)).end].lstrip(BLANK)
            if rest.startswith(";"):
                end = layout.text.index(";", end) + 1
            span = Span(statements[index - 1].span.end, end)
        if any(not is_directive(comment) for comment in layout.comments_in(span.start, span.end)):
            layout.fail(span.start, "a comment inside this statement has no other place to go; remove it by hand")
        yield Patch(span, "")
        index = chain[-1] + 1 if following is None else following


def _is_elif(statement: Statement) -> bool:
    return statement.block.layout.text.startswith("elif", statement.span.start)


def _close_up(layout: Layout, regions: list[_Region], occupied: set[int]) -> Iterator[Patch]:
    """Patches for dropped lines, with the blank lines around them brought down to what stood there before or after."""
    regions = sorted(regions)
    index = 0
    while index < len(regions):
        run = [regions[index]]
        while not run[-1].text and index + len(run) < len(regions):
            following = regions[index + len(run)]
            gap = range(run[-1].last, following.first)
            if (
                following.text
                or not all(layout.is_blank(line) for line in gap)
                or _is_occupied(layout, run[-1], occupied)
            ):
                break
            run.append(following)
        index += len(run)
        first, last = run[0].first, run[-1].last
        text = "".join(region.text for region in run)
        if not text and not any(_is_occupied(layout, region, occupied) for region in run):
            above, below = _blanks(layout, first - 1, -1), _blanks(layout, last, 1)
            between = [b.first - a.last for a, b in pairwise(run)]
            at_end = last + below >= len(layout.starts)
            if at_end:
                first, last = first - above, last + below
            elif run[0].opens_block or first - above == 0:
                first, last = first - (above if first - above == 0 else 0), last + below
            else:
                last += min(above, below)
                if not above and not below and any(between):
                    last = run[-1].last
                    text = layout.newline(run[0].last)
        start, end = (
            layout.starts[first] if first < len(layout.starts) else len(layout.text),
            layout.line_span(last - 1).end,
        )
        yield Patch(Span(start, end), text)


def _is_occupied(layout: Layout, region: _Region, occupied: set[int]) -> bool:
    """Whether something is put in at the edge of dropped lines, so that no hole is left."""
    return layout.starts[region.first] in occupied or layout.line_span(region.last - 1).end in occupied


def _blanks(layout: Layout, line: int, step: int) -> int:
    count = 0
    while 0 <= line + count * step < len(layout.starts) and layout.is_blank(line + count * step):
        count += 1
    return count


# Inserting


def _slots(tree: Tree, inserts: Sequence[InsertStatements]) -> dict[tuple[Block, int], _Slot]:
    slots: dict[tuple[Block, int], _Slot] = {}
    for edit in inserts:
        anchor = tree.statement(edit.anchor)
        if edit.where == "body":
            block = tree.body(anchor)
            if block is None:
                tree.layout.fail(edit.anchor.start, "the statement has no body to insert into")
            index, kind = (1, "after") if _has_docstring(block) else (0, "body")
        else:
            block = anchor.block
            if _is_elif(anchor):
                tree.layout.fail(edit.anchor.start, "nothing can be inserted before or after an `elif`")
            index, kind = (anchor.index, "before") if edit.where == "before" else (anchor.index + 1, "after")
        slot = slots.setdefault((block, index), _Slot())
        {"after": slot.after, "body": slot.body, "before": slot.before}[kind].extend(
            _indented(line, block.indent, unit(tree.layout, block.statements[0])) for line in edit.lines
        )
    return slots


def _has_docstring(block: Block) -> bool:
    first = block.statements[0].node
    return (
        block.owner is not None
        and isinstance(block.owner.node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        and isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    )


def _indented(line: str, indent: str, step: str) -> str:
    content = line.lstrip(" ")
    levels, rest = divmod(len(line) - len(content), 4)
    return indent + step * levels + " " * rest + content if content else ""


def _by_block(slots: Mapping[tuple[Block, int], _Slot]) -> list[tuple[Block, dict[int, _Slot]]]:
    grouped: dict[int, tuple[Block, dict[int, _Slot]]] = {}
    for (block, index), slot in slots.items():
        grouped.setdefault(id(block), (block, {}))[1][index] = slot
    return list(grouped.values())


def _insert_into(block: Block, places: dict[int, _Slot]) -> Iterator[Patch]:
    layout, statements = block.layout, block.statements
    newline = layout.newline(layout.line_of(statements[0].span.start))
    if block.is_one_line:
        start = statements[0].span.start
        colon = len(layout.text[:start].rstrip(BLANK))
        lines = places.pop(0).all() if 0 in places else []
        yield Patch(Span(colon, start), newline + "".join(line + newline for line in lines) + block.indent)
    for index, slot in sorted(places.items()):
        if block.is_joined(index):
            span = Span(statements[index - 1].span.end, statements[index].span.start)
            yield Patch(span, newline + "".join(line + newline for line in slot.all()) + block.indent)
            continue
        for lines, offset in (
            (slot.after, _below(statements[index - 1]) if slot.after else 0),
            (slot.body, _top(block) if slot.body else 0),
            (slot.before, layout.starts[layout.line_of(statements[index].span.start)] if slot.before else 0),
        ):
            if lines:
                ending = layout.newline(max(layout.line_of(offset) - (offset > 0), 0))
                yield Patch(Span(offset, offset), "".join(line + ending for line in lines))


def _top(block: Block) -> int:
    """The line after the block's header: what stands first in a body goes above the comments on the rest of it."""
    layout = block.layout
    line = layout.line_of(block.statements[0].span.start)
    while line > 0 and (layout.is_blank(line - 1) or layout.is_comment(line - 1)):
        line -= 1
    return layout.starts[line]


def _below(statement: Statement) -> int:
    """The line after a statement and the comments that belong into its own block."""
    layout = statement.block.layout
    line = layout.line_of(statement.span.end) + 1
    margin = len(statement.block.indent)
    look = line
    while look < len(layout.starts) and (layout.is_blank(look) or layout.is_comment(look)):
        if layout.is_comment(look):
            if len(layout.indent(look)) <= margin:
                break
            line = look + 1
        look += 1
    return layout.starts[line] if line < len(layout.starts) else len(layout.text)
