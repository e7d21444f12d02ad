"""Put statements under a condition, and take an ``if`` away from around its body: lines move in or out by one level."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

from shardfix.rewrite.blocks import Block, Statement, Tree, parse, unit
from shardfix.rewrite.edits import GuardStatements, LiftGuard, Span
from shardfix.rewrite.layout import NEWLINE, Layout, is_directive
from shardfix.rewrite.patches import Patch


@dataclass(frozen=True, slots=True)
class Moved:
    """Lines that move in or out: by how many levels, and what one level is there."""

    levels: dict[int, int] = field(default_factory=dict)
    steps: dict[int, str] = field(default_factory=dict)


def guard_patches(
    tree: Tree, guards: Sequence[GuardStatements], lifts: Sequence[LiftGuard]
) -> tuple[list[Patch], Moved]:
    """The patches that write conditions and take conditions away, and the lines that move with them.

    Raises:
        EditError: statements that share a line, or an ``if`` that has another branch.
    """
    layout = tree.layout
    moved = Moved()
    patches: list[Patch] = []
    for lift in lifts:
        outer = tree.statement(lift.statement)
        body = _body_of(tree, outer, lift.other)
        if lift.other and not any(g.test == lift.test and g.last == body.statements[-1].span for g in guards):
            patches.append(Patch(_else_of(layout, outer, body), f"if {lift.other}"))
        if body.is_one_line:
            patches.append(Patch(Span(outer.span.start, body.statements[0].span.start), ""))
            continue
        header = _header(layout, outer, body)
        newline = layout.newline(header[0])
        beside = layout.comments_in(layout.starts[header[0]], _start(layout, header[1]))
        above = "".join(outer.block.indent + comment + newline for comment in beside if not is_directive(comment))
        patches.append(Patch(Span(layout.starts[header[0]], _start(layout, header[1])), above))
        _shift(layout, range(header[1], _last(body) + 1), -1, _step(tree, outer, body), moved)
    for guard in guards:
        first, last = tree.statement(guard.first), tree.statement(guard.last)
        block = first.block
        if last.block is not block or last.index < first.index:
            layout.fail(guard.first.start, "the statements to put under a condition are not in one block")
        if any(block.is_joined(i) for i in range(first.index, last.index + 2)) or block.is_one_line:
            layout.fail(guard.first.start, "a statement that is to stand under a condition shares its line")
        top = _with_comments(layout, first)
        _shift(layout, range(top, _below(layout, last)), 1, unit(layout, first), moved)
        lifted = any(_covers(lift.statement, first.span) for lift in lifts)
        margin = layout.indent(layout.line_of(first.span.start))
        if lifted:
            margin = margin.removesuffix(unit(layout, block.owner))
        header_line = f"{margin}if {guard.test}:{layout.newline(top)}"
        patches.append(Patch(Span(layout.starts[top], layout.starts[top]), header_line))
    return patches, moved


def move_lines(tree: Tree, patches: Sequence[Patch], moved: Moved) -> list[Patch]:
    """Patches with the lines that move: within new text as well as in what no patch touches.

    Raises:
        EditError: a line is not indented like the rest of its block.
    """
    layout = tree.layout
    inside = _within_strings(tree.module, layout.text)
    result: list[Patch] = []
    written: set[int] = set()
    for patch in patches:
        if patch.span.start < patch.span.end:
            written.update(_lines_begun(layout, patch.span))
            patch = _moved_text(layout, patch, moved)
        result.append(patch)
    for line, level in moved.levels.items():
        if not level or layout.is_blank(line) or line in inside or line in written:
            continue
        start, step = layout.starts[line], moved.steps[line]
        if level > 0:
            result.append(Patch(Span(start, start), step * level))
            continue
        if not layout.line(line).startswith(step):
            layout.fail(start, "a line here is not indented like the rest of its block")
        result.append(Patch(Span(start, start + len(step)), ""))
    return result


def _lines_begun(layout: Layout, span: Span) -> range:
    """The lines whose first character a stretch holds."""
    first = layout.line_of(span.start)
    return range(first + (layout.starts[first] < span.start), layout.line_of(span.end - 1) + 1)


def _moved_text(layout: Layout, patch: Patch, moved: Moved) -> Patch:
    """A patch whose new lines move as those do that it replaces."""
    begun = _lines_begun(layout, patch.span)
    whole = layout.starts[layout.line_of(patch.span.start)] == patch.span.start
    line = layout.line_of(patch.span.start)
    if whole:
        line = next((n for n in reversed(begun) if not layout.is_blank(n)), line)
    level = moved.levels.get(line, 0)
    if not level or not patch.text:
        return patch
    step, inside = moved.steps[line], _text_lines(patch.text)
    lines = patch.text.splitlines(keepends=True)
    for number, text in enumerate(lines):
        if number in inside or not text.strip() or not (number or whole):
            continue
        if level < 0 and not text.startswith(step):
            layout.fail(patch.span.start, "a line here is not indented like the rest of its block")
        lines[number] = step * level + text if level > 0 else text.removeprefix(step)
    return Patch(patch.span, "".join(lines))


def _text_lines(source: str) -> set[int]:
    """The lines of an expression or a statement that begin inside of a text."""
    for form in (f"({source}\n)", source):
        try:
            return _within_strings(parse(form), form)
        except ValueError:
            continue
    return set()


def lifted_patch(tree: Tree, lifts: Sequence[LiftGuard], patch: Patch) -> Patch:
    """A patch that puts lines into the body of an ``if`` that is taken away, with those lines out by one level."""
    for lift in lifts:
        outer = tree.statement(lift.statement)
        body = _body_of(tree, outer, lift.other)
        end = tree.layout.line_span(_last(body)).end
        if patch.span.start != patch.span.end or not outer.span.start < patch.span.start <= end or body.is_one_line:
            continue
        lines = patch.text.splitlines(keepends=True)
        if not lines or not all(line.startswith(body.indent) for line in lines):
            continue
        step = _step(tree, outer, body)
        patch = Patch(patch.span, "".join(line.removeprefix(step) for line in lines))
    return patch


def _else_of(layout: Layout, outer: Statement, body: Block) -> Span:
    """The word `else` of an `if`."""
    assert isinstance(outer.node, ast.If)
    first = layout.offset(outer.node.orelse[0].lineno, outer.node.orelse[0].col_offset)
    lines = range(layout.line_of(first), layout.line_of(body.statements[-1].span.end), -1)
    line = next(n for n in lines if layout.line(n).lstrip().startswith("else"))
    start = layout.starts[line] + len(layout.indent(line))
    return Span(start, start + len("else"))


def _body_of(tree: Tree, outer: Statement, other: str) -> Block:
    node = outer.node
    elif_ = tree.layout.text.startswith("elif", outer.span.start)
    body = tree.body(outer)
    if not isinstance(node, ast.If) or (node.orelse and not other) or elif_ or body is None:
        tree.layout.fail(outer.span.start, "only an `if` without another branch can be taken away")
    return body


def _header(layout: Layout, outer: Statement, body: Block) -> tuple[int, int]:
    """The lines of the condition: the first, and the first that is no longer of it."""
    first, inner = layout.line_of(outer.span.start), layout.line_of(body.statements[0].span.start)
    assert isinstance(outer.node, ast.If)
    test_end = layout.offset(outer.node.test.end_lineno or 1, outer.node.test.end_col_offset or 0)
    colon = layout.text.index(":", test_end)
    after = layout.line_of(colon) + 1
    return first, min(after, inner)


def _start(layout: Layout, line: int) -> int:
    return layout.starts[line] if line < len(layout.starts) else len(layout.text)


def _last(body: Block) -> int:
    """The last line of a block, the comments at its end included."""
    return _below(body.layout, body.statements[-1]) - 1


def _below(layout: Layout, statement: Statement) -> int:
    """The line after a statement and the comments in its own block behind it."""
    line = layout.line_of(statement.span.end) + 1
    margin, look = len(statement.block.indent), line
    last = statement.index == len(statement.block.statements) - 1
    while look < len(layout.starts) and (layout.is_blank(look) or layout.is_comment(look)):
        if layout.is_comment(look):
            deep = len(layout.indent(look))
            if deep < margin or (deep == margin and not (last and statement.block.owner is not None)):
                break
            line = look + 1
        look += 1
    return line


def _with_comments(layout: Layout, statement: Statement) -> int:
    """The first line of a statement with the comments right above it."""
    line = layout.line_of(statement.span.start)
    while line > 0 and layout.is_comment(line - 1) and layout.indent(line - 1) == statement.block.indent:
        line -= 1
    return line


def _step(tree: Tree, outer: Statement, body: Block) -> str:
    return body.indent.removeprefix(outer.block.indent) or unit(tree.layout, outer)


def _shift(layout: Layout, lines: range, by: int, step: str, moved: Moved) -> None:
    for line in lines:
        moved.levels[line] = moved.levels.get(line, 0) + by
        if moved.levels[line] and moved.steps.setdefault(line, step) != step:
            layout.fail(layout.starts[line], "blocks here are indented in different ways")


def _within_strings(module: ast.Module, source: str) -> set[int]:
    """The lines that begin inside of a text, which must stay as they are; not those between texts that are joined."""
    found: set[int] = set()
    written: list[str] | None = None
    for node in ast.walk(module):
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes))):
            lines = range(node.lineno, node.end_lineno or node.lineno)
            if not lines:
                continue
            written = NEWLINE.split(source) if written is None else written
            text = "\n".join(written[line] for line in (node.lineno - 1, *lines))
            if '"""' in text or "'''" in text or "\\\n" in text:
                found.update(lines)
    return found


def _covers(outer: Span, inner: Span) -> bool:
    return outer.start < inner.start and inner.end <= outer.end
