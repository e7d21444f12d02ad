"""Statements without what nobody reads: a stand-in that decides nothing need not be believed."""

from __future__ import annotations

import ast

from shardfix.analysis.code.names import last_name

_PURE = frozenset({"MODEL", "NUMBER", "ANY_ROWS", "UNSURE", "SEVERAL", "LAYERS", "CALLED", "FIELD", "float"})
_READ = frozenset({"item", "detach", "cpu", "numpy", "mean", "sum", "float", "tolist"})


def pruned(statements: list[ast.stmt]) -> list[ast.stmt]:
    """The statements without assignments of stand-ins to names that are not read."""
    left = len(_nodes(statements)) + 1
    while len(_nodes(statements)) < left:
        left = len(_nodes(statements))
        read = {n.id for n in _nodes(statements) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        statements = _without(statements, read)
    return statements


def _nodes(statements: list[ast.stmt]) -> list[ast.AST]:
    return [n for s in statements for n in ast.walk(s)]


def _without(block: list[ast.stmt], read: set[str]) -> list[ast.stmt]:
    kept: list[ast.stmt] = []
    for s in block:
        if isinstance(s, ast.Assign) and _is_unread(s, read):
            continue
        for field in ("body", "orelse"):
            inner = getattr(s, field, None)
            if isinstance(inner, list) and inner:
                left = _without(inner, read)
                if left != inner:
                    setattr(s, field, left or ([ast.Pass()] if field == "body" else []))
        kept.append(s)
    return kept


def _is_unread(s: ast.Assign, read: set[str]) -> bool:
    return all(isinstance(t, ast.Name) and t.id not in read for t in s.targets) and _is_pure(s.value)


def _is_pure(value: ast.expr) -> bool:
    """Whether an expression is made of stand-ins, so that nothing else happens in it."""
    calls = [n for n in ast.walk(value) if isinstance(n, ast.Call)]
    return bool(calls) and all(
        n.func.id in _PURE if isinstance(n.func, ast.Name) else last_name(n.func) in _READ for n in calls
    )


__all__ = ["pruned"]
