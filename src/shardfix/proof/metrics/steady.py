"""What a loop over batches works out anew, or once, of what its batches do not decide: the same in each turn."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from shardfix.analysis.code.bindings import Definition
from shardfix.proof.metrics.granted import of_batches
from shardfix.proof.metrics.loop import Loop

_MODES = frozenset({"eval", "train"})  # methods that change no value of their object


def steady(loop: Loop, inside: Sequence[ast.AST]) -> dict[str, list[ast.expr]]:
    """The names that are given a value in the loop which is the same in each turn, and their values there.

    No batch decides it, and nothing that is counted; the name is given it in each turn before it is read, or in the
    first one (``if x is None: x = ..``), and is not read behind the loop.
    """
    moving = _moving(loop, inside)
    values: dict[str, list[ast.expr]] = {}
    for n in inside:
        if isinstance(n, ast.Assign):
            for t in n.targets:
                if isinstance(t, ast.Name) and t.id not in moving:
                    values.setdefault(t.id, []).append(n.value)
    return {text: given for text, given in values.items() if _is_steady(loop, text, inside)}


def _moving(loop: Loop, inside: Sequence[ast.AST]) -> set[str]:
    """The names that the batches or their number may decide, or that are changed in any way but by an assignment."""
    target = loop.node.target
    found = of_batches(loop.module, loop.node) | {w.name for w in loop.writes}
    found |= {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
    for n in inside:
        if isinstance(n, (ast.AugAssign, ast.For, ast.NamedExpr)):
            found |= {m.id for m in ast.walk(n.target) if isinstance(m, ast.Name)}
        elif isinstance(n, ast.withitem) and n.optional_vars is not None:
            found |= {m.id for m in ast.walk(n.optional_vars) if isinstance(m, ast.Name)}
        elif isinstance(n, (ast.Subscript, ast.Attribute)) and not isinstance(n.ctx, ast.Load):
            found |= {m.id for m in ast.walk(n.value) if isinstance(m, ast.Name)}
        elif isinstance(n, ast.Expr) and isinstance(n.value, ast.Call) and isinstance(n.value.func, ast.Attribute):
            if n.value.func.attr not in _MODES:
                found |= {m.id for m in ast.walk(n.value.func.value) if isinstance(m, ast.Name)}
    before = -1
    while len(found) > before:
        before = len(found)
        for n in inside:
            if isinstance(n, ast.Assign) and any(isinstance(m, ast.Name) and m.id in found for m in ast.walk(n.value)):
                found |= {m.id for t in n.targets for m in ast.walk(t) if isinstance(m, ast.Name)}
    return found


def _is_steady(loop: Loop, text: str, inside: Sequence[ast.AST]) -> bool:
    loads = [n for n in ast.walk(loop.module.scope(loop.node)) if _is_load(n, text)]
    for n in loads:
        found = list(loop.module.bindings.reaching(n))  # type: ignore[arg-type]
        within = [d for d in found if d.node in loop.inside]
        if n not in loop.inside and within:
            return False
        if n in loop.inside and not (len(found) == len(within) == 1 or _is_once(loop, found, within)):
            return False
    return bool(loads)


def _is_once(loop: Loop, found: Sequence[Definition], within: Sequence[Definition]) -> bool:
    """Whether a name is None until the one assignment under ``if x is None:`` in the loop."""
    outside = [d for d in found if d not in within]
    if len(within) != 1 or not all(isinstance(d.value, ast.Constant) and d.value.value is None for d in outside):
        return False
    (d,) = within
    tests = [o.test for o in loop.module.around(d.statement) if isinstance(o, ast.If) and o in loop.inside]
    return any(ast.unparse(test) == f"{d.key} is None" for test in tests)


def _is_load(n: ast.AST, text: str) -> bool:
    return isinstance(n, ast.Name) and n.id == text and isinstance(n.ctx, ast.Load)


__all__ = ["steady"]
