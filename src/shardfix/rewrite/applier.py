"""Carry out edits on one file's text: every character outside the edited spans stays as it is."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from posixpath import basename

from shardfix.rewrite.blocks import Statement, Tree, parse, read_tree
from shardfix.rewrite.edits import (
    AddImport,
    CreateFile,
    DropImport,
    DropKeyword,
    DropStatement,
    Edit,
    GuardStatements,
    InsertStatements,
    LiftGuard,
    ReplaceExpression,
    SetKeyword,
    Span,
    WrapExpression,
)
from shardfix.rewrite.expressions import check_brackets, expression_patches, span_of
from shardfix.rewrite.guards import Moved, guard_patches, lifted_patch, move_lines
from shardfix.rewrite.imports import edit_import, place_imports, unused_imports
from shardfix.rewrite.layout import NEWLINE, EditError, Layout, read_layout
from shardfix.rewrite.patches import Patch, splice
from shardfix.rewrite.statements import edit_statements

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


def _patches(tree: Tree, edits: Sequence[Edit]) -> list[Patch]:
    layout = tree.layout
    dropped = _dropped(tree, [edit for edit in edits if isinstance(edit, DropStatement)])
    inserts = [
        edit
        for edit in edits
        if isinstance(edit, InsertStatements) and not _is_swallowed(tree, edit.anchor, dropped, edit.where)
    ]
    standing = [
        edit
        for edit in edits
        if isinstance(edit, (DropKeyword, SetKeyword, ReplaceExpression, WrapExpression))
        and not any(_covers(statement.span, span_of(edit)) for statement in dropped)
    ]
    expressions = expression_patches(layout, standing)
    check_brackets(layout, [edit for edit in standing if isinstance(edit, ReplaceExpression)])
    guards = [edit for edit in edits if isinstance(edit, GuardStatements)]
    lifts = [edit for edit in edits if isinstance(edit, LiftGuard)]
    around, moved = guard_patches(tree, guards, lifts) if guards or lifts else ([], Moved())

    def in_order(patches: Sequence[Patch]) -> list[Patch]:
        return _in_order(layout, move_lines(tree, patches, moved) if moved.levels else patches)

    def placed(drops: Sequence[Statement], lines: Sequence[InsertStatements]) -> list[Patch]:
        # What is put in before a statement goes above the condition that comes to stand around it.
        return [*(lifted_patch(tree, lifts, patch) for patch in edit_statements(tree, drops, lines)), *around]

    leaving = [edit.name for edit in edits if isinstance(edit, DropImport)]
    coming = [edit for edit in edits if isinstance(edit, AddImport)]
    if not leaving and not coming:
        return in_order([*expressions, *placed(dropped, inserts)])

    gone: dict[int, tuple[Statement, set[str]]] = {}
    if leaving and basename(layout.path.replace("\\", "/")) != "__init__.py":
        interim = splice(layout.text, in_order([*expressions, *placed(dropped, inserts)]))
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
    patches += placed([*dropped, *whole], [*inserts, *new_lines])
    if top:
        patches.append(Patch(Span(len(layout.text), len(layout.text)), top))
    return in_order(patches)


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
