"""Carry out edits on one file's text: every character outside the edited spans stays as it is."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from posixpath import basename

from shardfix.rewrite.blocks import Statement, Tree, parse, read_tree
from shardfix.rewrite.calls import KeywordEdit, edit_call, parse_expression
from shardfix.rewrite.edits import (
    AddImport,
    CreateFile,
    DropImport,
    DropKeyword,
    DropStatement,
    Edit,
    InsertStatements,
    ReplaceExpression,
    SetKeyword,
    Span,
    WrapExpression,
)
from shardfix.rewrite.imports import edit_import, place_imports, unused_imports
from shardfix.rewrite.layout import NEWLINE, EditError, Layout, read_layout
from shardfix.rewrite.statements import Patch, edit_statements

__all__ = ["Applied", "EditError", "Patch", "apply", "splice"]


@dataclass(frozen=True, slots=True)
class Applied:
    """The edited text, and the patches to the original text that make it, in order and disjoint."""

    text: str
    patches: tuple[Patch, ...]

    @property
    def touched(self) -> tuple[Span, ...]:
        """The stretches of the original text that were replaced (empty where text was only put in)."""
        return tuple(patch.span for patch in self.patches)


def apply(text: str, edits: Sequence[Edit], *, path: str) -> Applied:
    """Carry out the edits of one file.

    Args:
        text: the decoded source without byte order mark, its newlines as they are in the file.
        edits: all of this file; their spans are offsets into ``text``. ``CreateFile`` is left to the caller.
        path: for messages, and because an ``__init__.py`` keeps its imports.

    Raises:
        EditError: an edit does not fit the text, or two of them contradict each other.
    """
    wanted = [edit for edit in dict.fromkeys(edits) if not isinstance(edit, CreateFile)]
    if not wanted:
        return Applied(text, ())
    is_closed = text.endswith(("\n", "\r"))
    layout = read_layout(path, text)
    if stray := next((edit for edit in wanted if edit.path != path), None):
        layout.fail(0, f"an edit of {stray.path} was handed over with this file's")
    if text and not is_closed:
        layout = read_layout(path, text + layout.newline(len(layout.starts) - 1))
    tree = read_tree(layout)
    patches = _patches(tree, wanted)
    if text and not is_closed:
        patches = _without_last_newline(text, layout.text, patches)
    patches = [trimmed for patch in patches if (trimmed := _trim(text, patch)) is not None]
    return Applied(splice(text, patches), tuple(patches))


def splice(text: str, patches: Sequence[Patch]) -> str:
    """The text with patches made; they are in order and disjoint."""
    parts, at = [], 0
    for patch in patches:
        parts += [text[at : patch.span.start], patch.text]
        at = patch.span.end
    return "".join([*parts, text[at:]])


def _patches(tree: Tree, edits: Sequence[Edit]) -> list[Patch]:
    layout = tree.layout
    dropped = _dropped(tree, [edit for edit in edits if isinstance(edit, DropStatement)])
    inserts = [
        edit
        for edit in edits
        if isinstance(edit, InsertStatements) and not _is_swallowed(tree, edit.anchor, dropped, edit.where)
    ]
    expressions = _expression_patches(
        layout,
        [
            edit
            for edit in edits
            if isinstance(edit, (DropKeyword, SetKeyword, ReplaceExpression, WrapExpression))
            and not any(_covers(statement.span, _span_of(edit)) for statement in dropped)
        ],
    )
    _check_brackets(layout, [edit for edit in edits if isinstance(edit, ReplaceExpression)])
    leaving = [edit.name for edit in edits if isinstance(edit, DropImport)]
    coming = [edit for edit in edits if isinstance(edit, AddImport)]
    if not leaving and not coming:
        return _in_order(layout, [*expressions, *edit_statements(tree, dropped, inserts)])

    gone: dict[int, tuple[Statement, set[str]]] = {}
    if leaving and basename(layout.path.replace("\\", "/")) != "__init__.py":
        interim = splice(layout.text, _in_order(layout, [*expressions, *edit_statements(tree, dropped, inserts)]))
        try:
            module = parse(interim)
        except ValueError as error:
            layout.fail(0, f"with these edits the file {error}")
        keep = {edit.name for edit in coming}
        for statement, name in unused_imports(tree, module, read_layout(layout.path, interim), set(leaving) - keep):
            if not any(_covers(other.span, statement.span) for other in dropped):
                gone.setdefault(id(statement), (statement, set()))[1].add(name)
    whole = [statement for statement, names in gone.values() if _names(statement) <= names]
    ids = {id(statement) for statement in (*dropped, *whole)}
    extended, new_lines, top = place_imports(tree, coming, ids)
    changed: dict[int, _ImportChange] = {}
    for statement, names in gone.values():
        if id(statement) not in ids:
            changed.setdefault(id(statement), _ImportChange(statement)).dropped |= names
    for statement, name in extended:
        changed.setdefault(id(statement), _ImportChange(statement)).added.append(name)
    patches = [*expressions, *(_change_import(layout, change) for change in changed.values())]
    patches += edit_statements(tree, [*dropped, *whole], [*inserts, *new_lines])
    if top:
        patches.append(Patch(Span(len(layout.text), len(layout.text)), top))
    return _in_order(layout, patches)


# Statements


def _dropped(tree: Tree, edits: Sequence[DropStatement]) -> list[Statement]:
    """The statements to remove, without those inside another one."""
    found = {id(statement): statement for edit in edits for statement in [tree.statement(edit.span)]}
    return [
        statement
        for statement in found.values()
        if not any(other is not statement and _covers(other.span, statement.span) for other in found.values())
    ]


def _is_swallowed(tree: Tree, anchor: Span, dropped: Sequence[Statement], where: str) -> bool:
    """Whether an insertion goes with a removed statement; one before or after that statement itself does not."""
    statement = tree.statement(anchor)
    return any(_covers(other.span, statement.span) and (other is not statement or where == "body") for other in dropped)


def _covers(outer: Span, inner: Span) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end


# Expressions

# What keeps together wherever it stands.
_ATOMS = (ast.Name, ast.Constant, ast.Call, ast.Attribute, ast.Subscript, ast.List, ast.Dict, ast.Set)


@dataclass(slots=True)
class _Place:
    """The edits of one expression, and the edited expressions inside it."""

    span: Span
    calls: list[KeywordEdit] = field(default_factory=list)
    wraps: list[WrapExpression] = field(default_factory=list)
    replacement: str | None = None
    inner: list[_Place] = field(default_factory=list)


_ExpressionEdit = DropKeyword | SetKeyword | ReplaceExpression | WrapExpression


def _span_of(edit: _ExpressionEdit) -> Span:
    return edit.call if isinstance(edit, (DropKeyword, SetKeyword)) else edit.span


def _expression_patches(layout: Layout, edits: Sequence[_ExpressionEdit]) -> list[Patch]:
    places: dict[Span, _Place] = {}
    for edit in edits:
        span = _span_of(edit)
        if not 0 <= span.start < span.end <= len(layout.text):
            layout.fail(max(0, min(span.start, len(layout.text))), "the edit's span is not in the file")
        place = places.setdefault(span, _Place(span))
        if isinstance(edit, WrapExpression):
            place.wraps.append(edit)
        elif isinstance(edit, ReplaceExpression):
            if place.replacement not in (None, edit.source):
                layout.fail(span.start, "two edits replace this expression by different ones")
            place.replacement = edit.source
        else:
            place.calls.append(edit)
    roots: list[_Place] = []
    stack: list[_Place] = []
    for place in sorted(places.values(), key=lambda place: (place.span.start, -place.span.end)):
        while stack and stack[-1].span.end <= place.span.start:
            stack.pop()
        if stack and place.span.end > stack[-1].span.end:
            layout.fail(place.span.start, "two edits overlap here without one being inside the other")
        (stack[-1].inner if stack else roots).append(place)
        stack.append(place)
    return [Patch(place.span, _render(layout, place)) for place in roots]


def _render(layout: Layout, place: _Place) -> str:
    start, end = place.span.start, place.span.end
    original = layout.text[start:end]
    line = layout.line_of(start)
    try:
        if place.replacement is not None:
            if place.inner or place.calls:
                raise ValueError("another edit lies inside this expression, which is replaced")
            if layout.comments_in(start, end):
                raise ValueError("the expression holds a comment that would be lost; edit it by hand")
            result = place.replacement
        else:
            inner = [
                Patch(Span(child.span.start - start, child.span.end - start), _render(layout, child))
                for child in place.inner
            ]
            result = splice(original, inner)
        if place.calls:
            result = edit_call(
                result,
                place.calls,
                newline=layout.newline(line),
                indent=layout.indent(line) + "    ",
                original=original,
            )
        for wrap in place.wraps:
            result = wrap.before + _bracketed(result) + wrap.after
        if place.wraps or place.replacement is not None:
            parse_expression(result)
    except ValueError as error:
        layout.fail(start, str(error))
    return result


def _check_brackets(layout: Layout, edits: Sequence[ReplaceExpression]) -> None:
    """See that every new expression is one in its new place too (``a or b`` behind ``not`` is not)."""
    loose = [edit for edit in edits if (node := _parsed(edit.source)) and not isinstance(node, _ATOMS)]
    if not loose:
        return
    loose.sort(key=lambda edit: edit.span)
    wanted: dict[Span, ReplaceExpression] = {}
    shift = 0
    for edit in loose:
        start = edit.span.start + shift
        wanted[Span(start, start + len(edit.source))] = edit
        shift += len(edit.source) - (edit.span.end - edit.span.start)
    result = read_layout(layout.path, splice(layout.text, [Patch(edit.span, edit.source) for edit in loose]))
    try:
        module = parse(result.text)
    except ValueError as error:
        layout.fail(loose[0].span.start, f"with the new expression the file {error}")
    lines = {result.line_of(span.start) + 1 for span in wanted}
    for node in ast.walk(module):
        if isinstance(node, ast.expr) and node.lineno in lines:
            end = result.offset(node.end_lineno or node.lineno, node.end_col_offset or 0)
            wanted.pop(Span(result.offset(node.lineno, node.col_offset), end), None)
    for edit in wanted.values():
        layout.fail(edit.span.start, "the new expression needs brackets here")


def _parsed(expression: str) -> ast.expr | None:
    """The expression, None if it is none."""
    try:
        return ast.parse(f"({expression})", mode="eval").body
    except SyntaxError:
        return None


def _bracketed(expression: str) -> str:
    """An expression as it can be a call's only argument."""
    node = ast.parse(f"({expression})", mode="eval").body
    if isinstance(node, (ast.Tuple, ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.GeneratorExp)):
        return f"({expression})"
    return expression


# Imports


@dataclass(slots=True)
class _ImportChange:
    statement: Statement
    dropped: set[str] = field(default_factory=set)
    added: list[str] = field(default_factory=list)


def _names(statement: Statement) -> set[str]:
    assert isinstance(statement.node, (ast.Import, ast.ImportFrom))
    return {alias.asname or alias.name.partition(".")[0] for alias in statement.node.names}


def _change_import(layout: Layout, change: _ImportChange) -> Patch:
    span = change.statement.span
    line = layout.line_of(span.start)
    try:
        text = edit_import(
            layout.text[span.start : span.end],
            change.dropped,
            change.added,
            newline=layout.newline(line),
            indent=layout.indent(line) + "    ",
        )
    except ValueError as error:
        layout.fail(span.start, str(error))
    return Patch(span, text)


# Patches


def _in_order(layout: Layout, patches: Sequence[Patch]) -> list[Patch]:
    """The patches by place; those put in at one place keep their order."""
    ordered = sorted(patches, key=lambda patch: patch.span)
    for before, after in pairwise(ordered):
        if after.span.start < before.span.end:
            layout.fail(after.span.start, "two edits overlap here without one being inside the other")
    return ordered


def _trim(text: str, patch: Patch) -> Patch | None:
    """The patch without what stays the same at its ends; None if nothing changes."""
    old, new = text[patch.span.start : patch.span.end], patch.text
    if old == new:
        return None
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    span = Span(patch.span.start + head, patch.span.end - tail)
    return Patch(span, new[head : len(new) - tail])


def _common(a: str, b: str) -> int:
    return next((index for index, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _without_last_newline(text: str, closed: str, patches: list[Patch]) -> list[Patch]:
    """Patches to the text as it is, from patches to ``closed``, the same text with a newline at its end."""
    tail: list[Patch] = []
    while patches and patches[-1].span.end == (tail[0].span.start if tail else len(closed)):
        tail.insert(0, patches[-1])
        patches = patches[:-1]
    if not tail:
        return patches
    start, new = tail[0].span.start, "".join(patch.text for patch in tail)
    ending = closed[len(text) :]
    if start == len(closed):
        return [*patches, Patch(Span(len(text), len(text)), ending + new[: -len(ending)])]
    if new:
        return [*patches, Patch(Span(start, len(text)), new.removesuffix(ending))]
    breaks = [found.start() for found in NEWLINE.finditer(text, 0, start)]
    return [*patches, Patch(Span(breaks[-1] if breaks and start else 0, len(text)), "")]
