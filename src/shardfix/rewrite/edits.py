"""Edits: the small steps, as data, that a codemod plans and the applier carries out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A stretch of a file: character offsets into its decoded text, end exclusive, byte order mark not counted."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class DropKeyword:
    """Remove a keyword argument from a call, or an item by its key from a dict display; comments beside it survive."""

    path: str
    call: Span
    name: str


@dataclass(frozen=True, slots=True)
class SetKeyword:
    """Give a call's keyword a value.

    An existing keyword of that name keeps its place and comments. A new one takes the place of the keyword
    ``replacing`` (which goes), else it comes last before any ``**kwargs``. ``positional`` is the index at which
    the call passes the parameter by position, if it does: then only the value changes.
    """

    path: str
    call: Span
    name: str
    value: str
    replacing: str | None = None
    positional: int | None = None


@dataclass(frozen=True, slots=True)
class ReplaceExpression:
    """Put another expression in the place of one; comments inside the old one make the edit fail."""

    path: str
    span: Span
    source: str


@dataclass(frozen=True, slots=True)
class WrapExpression:
    """Put text around an expression, which itself may be edited further (``sanitize(`` ... ``)``)."""

    path: str
    span: Span
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class DropStatement:
    """Remove a statement; comments on and above it survive.

    A branch of an ``if`` that is left empty goes, and the condition turns round where that was the first of two; any
    other block that is left empty gets ``pass``.
    """

    path: str
    span: Span


@dataclass(frozen=True, slots=True)
class InsertStatements:
    """Put statements before or after a statement, or first into the body of a compound statement.

    ``lines`` are dedented source lines; the applier adds the block's indentation and the file's newline.
    """

    path: str
    anchor: Span
    where: Literal["before", "after", "body"]
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GuardStatements:
    """Put a run of statements of one block under ``if test:``; comments right above the first come along."""

    path: str
    first: Span
    last: Span
    test: str


@dataclass(frozen=True, slots=True)
class LiftGuard:
    """Take an ``if`` away from around its body, which moves out by one level.

    ``other`` is the condition of its other branch, if it has one, and ``test`` its own as it is put around statements
    of the body again: the branch stays an ``else`` of the last of these where that is the last of the body.
    """

    path: str
    statement: Span
    test: str = ""
    other: str = ""


@dataclass(frozen=True, slots=True)
class AddImport:
    """Bind a name at module level by ``from module import name`` (``import module`` where name is empty).

    It extends or stands beside the file's torch imports, after the docstring and every ``__future__`` import.
    ``beside`` is the import statement after which it is best placed, ``apart`` whether a blank line sets it off from
    that, as a module of the project's own is from others. A name already imported so is left alone.
    """

    path: str
    module: str
    name: str = ""
    beside: Span | None = None
    apart: bool = False


@dataclass(frozen=True, slots=True)
class DropImport:
    """Remove the import that binds a name if nothing in the resulting file uses the name any more."""

    path: str
    name: str


@dataclass(frozen=True, slots=True)
class CreateFile:
    """Make a new file; one that already holds just this content is left alone."""

    path: str
    content: str


Edit = (
    DropKeyword
    | SetKeyword
    | ReplaceExpression
    | WrapExpression
    | DropStatement
    | InsertStatements
    | GuardStatements
    | LiftGuard
    | AddImport
    | DropImport
    | CreateFile
)
