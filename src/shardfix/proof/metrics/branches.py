"""What names hold that only one arm of a condition gives a value, where it is the other arm that is run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeGuard

from shardfix.proof.metrics.expressions import Outside, is_unknown
from shardfix.proof.metrics.known import Known
from shardfix.proof.recipes.choices import text_of
from shardfix.proof.recipes.slice import assign


def held_before(
    known: Known, outside: Outside, s: ast.If, after: Mapping[str, str], arms: Sequence[Sequence[ast.stmt]]
) -> list[ast.stmt]:
    """The assignments of what is held before a condition by the names that one of its arms alone gives a value.

    A name that is global, or of an object, is there; one that nothing was assigned to is not, as in the program.

    Args:
        known: as it was before the condition. ``after``: what is tracked behind it.
        arms: what is run in each.
    """
    stored = [{n.id for a in arm for n in ast.walk(a) if _is_stored(n)} for arm in arms]
    found: list[ast.stmt] = []
    for text, variable in after.items():
        if text in known.tracked or all(variable in names for names in stored):
            continue
        value = _held(known, outside, s, text)
        if value is not None:
            found.append(assign(variable, value))
    return found


def _held(known: Known, outside: Outside, s: ast.If, text: str) -> ast.expr | None:
    """What a name holds before a condition; None where it holds nothing, or nobody reads it."""
    module = known.module
    function = module.scope(s)
    own = {n for block in (s.body, s.orelse) for inner in block for n in ast.walk(inner)}
    loads = [n for n in _loads(function) if ast.unparse(n) == text and n not in own]
    around = module.bindings.environment(s.test, function) or {}
    found = [d for d in around.get(text, ()) if d.node not in own and d.statement not in own]
    if not loads or not (found or isinstance(loads[0], ast.Attribute) or _is_global(function, text)):
        return None
    values = [d.value for d in found if d.kind == "assign" and d.index is None]
    if len(found) == 1 and values and isinstance(values[0], ast.Constant):
        return values[0]
    value = outside.value(loads[0])
    width = next((len(t.elts) for t in _given(s, text) if isinstance(t, ast.Tuple)), 0)
    if width and is_unknown(value):
        known.stand_ins[text_of(loads[0])] = f"{width} numbers"
        return ast.Tuple([value] * width, ast.Load())
    return value


def _loads(function: ast.AST) -> Iterator[ast.Name | ast.Attribute]:
    for n in ast.walk(function):
        if isinstance(n, (ast.Name, ast.Attribute)) and isinstance(n.ctx, ast.Load):
            yield n


def _given(s: ast.If, text: str) -> Iterator[ast.expr]:
    """What the arms assign to a name."""
    for n in ast.walk(s):
        if isinstance(n, ast.Assign) and any(ast.unparse(t) == text for t in n.targets):
            yield n.value


def _is_global(function: ast.AST, text: str) -> bool:
    return any(isinstance(n, (ast.Global, ast.Nonlocal)) and text in n.names for n in ast.walk(function))


def _is_stored(n: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)


__all__ = ["held_before"]
