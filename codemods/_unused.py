"""Statements that only make what a removal takes away: found together, since removals may share them."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from shardfix.analysis.bindings import Definition
from shardfix.analysis.module import Module


@dataclass(frozen=True, eq=False)
class Taken:
    """What one removal takes away: nodes that will be gone, and the assignments its sampler came through."""

    nodes: frozenset[ast.AST]
    definitions: tuple[Definition, ...]


@dataclass(frozen=True, eq=False)
class Unused:
    """A statement that nothing needs once the removals of these numbers are all made."""

    statement: ast.stmt
    needs: frozenset[int]


def unused_statements(module: Module, removals: Sequence[Taken]) -> list[Unused]:
    """The assignments that nothing reads any more, and the ``if`` blocks that hold nothing else."""
    dead = _dead_assignments(module, removals)
    found: dict[ast.stmt, frozenset[int]] = {}
    for statement in dead:
        top: ast.stmt = statement
        needs = dead[statement]
        outer = module.parents[top]
        while isinstance(outer, ast.If) and _holds_only(outer, dead, found):
            for inner in ast.walk(outer):
                needs |= dead.get(inner, frozenset()) if isinstance(inner, ast.stmt) else frozenset()
            top, outer = outer, module.parents[outer]
        found[top] = found.get(top, frozenset()) | needs
    return [Unused(statement, needs) for statement, needs in found.items()]


def _dead_assignments(module: Module, removals: Sequence[Taken]) -> dict[ast.stmt, frozenset[int]]:
    """Each assignment of which every reader is gone, with the removals that took its readers."""
    gone: set[ast.AST] = set().union(*(r.nodes for r in removals))
    statements = {
        d.statement: frozenset(
            i for i, r in enumerate(removals) if any(o.statement is d.statement for o in r.definitions)
        )
        for r in removals
        for d in r.definitions
        if isinstance(d.statement, (ast.Assign, ast.AnnAssign))
    }
    readers = {
        s: [use for d in module.bindings.definitions if d.statement is s for use in module.bindings.readers(d)]
        for s in statements
    }
    dead: dict[ast.stmt, frozenset[int]] = {}
    while True:  # one dead assignment may have been the last reader of another
        more = [s for s in statements if s not in dead and all(use in gone for use in readers[s])]
        if not more:
            return dead
        for statement in more:
            assert isinstance(statement, ast.stmt)
            dead[statement] = statements[statement]
            gone.update(ast.walk(statement))


def _holds_only(block: ast.If, dead: dict[ast.stmt, frozenset[int]], found: dict[ast.stmt, frozenset[int]]) -> bool:
    """Whether an ``if`` holds nothing but dead assignments (and ``if`` blocks of such)."""
    return all(
        s in dead or s in found or (isinstance(s, ast.If) and _holds_only(s, dead, found))
        for s in [*block.body, *block.orelse]
    )
