"""What becomes of a value: its uses, and how it came to each."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
from typing import Literal

UseKind = Literal[
    "prepare",
    "iterate",
    "next",
    "attribute",
    "argument",
    "handed",
    "escape",
    "returned",
    "length",
    "sanitize",
    "unpadded",
    "discarded",
]
Selector = int | str
ANY = "*"
ITERATOR = "~"


@dataclass(frozen=True, eq=False, slots=True)
class Use:
    """One use of the value.

    Args:
        kind: what happens to it; ``argument`` of a call that is not seen into, ``handed`` to one that is followed.
        node: the loop, call, attribute or other node that uses it; it may stand in another file.
        value: the expression that stands for the value there.
        prepared: the ``prepare`` call it went through before, if any.
        calls: the calls through whose parameters it came here, outermost first.
    """

    kind: UseKind
    node: ast.AST
    value: ast.expr
    prepared: ast.Call | None
    calls: tuple[ast.Call, ...]
    state: State = field(repr=False)

    @property
    def via(self) -> tuple[ast.expr, ...]:
        """The expressions that stood for the value on its way here, from the construction on."""
        found: list[ast.expr] = []
        state: State | None = self.state
        while state is not None:
            found.append(state.node)
            state = state.before
        return tuple(dict.fromkeys(reversed(found)))


@dataclass(frozen=True, eq=False)
class Flow:
    """All uses of a value in the project.

    Args:
        uses: what becomes of it, in the order in which it is found.
        aliases: the expressions that stand for it.
        bounded: whether it goes through more code than is followed.
        lost: the qualified names of what it is handed to that no parsed file of the project defines.
    """

    uses: tuple[Use, ...]
    aliases: frozenset[ast.expr]
    bounded: bool = False
    lost: frozenset[str] = frozenset()

    def of(self, *kinds: UseKind) -> list[Use]:
        """The uses of some kinds."""
        return [u for u in self.uses if u.kind in kinds]


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """An expression, how the value is got at from it (``loaders["train"]``), and how it came there."""

    node: ast.expr
    access: tuple[Selector, ...] = ()
    prepared: ast.Call | None = None
    calls: tuple[ast.Call, ...] = ()
    before: State | None = field(default=None, repr=False)

    def at(self, node: ast.expr, access: tuple[Selector, ...] | None = None) -> State:
        """The value at the next expression on its way."""
        return State(node, self.access if access is None else access, self.prepared, self.calls, self)

    def held(self, access: tuple[Selector, ...]) -> State:
        """The value at the same expression, got at otherwise."""
        return replace(self, access=access)
