"""Whether a call runs the same function on all ranks: what it is called by stands for the same one on each."""

from __future__ import annotations

import ast

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.calling import argument_of
from shardfix.analysis.ranks.alike import Alike
from shardfix.analysis.ranks.alike_bound import reached
from shardfix.analysis.ranks.going_by_rank import goes_by_rank

_DEPTH = 6


def runs_the_same(alike: Alike, call: ast.Call) -> bool:
    """Whether what a call calls, and the class of the object whose method it is, is the same on all ranks."""
    return _same(alike, call.func, 0)


def _same(alike: Alike, node: ast.expr, depth: int) -> bool:
    module = alike.module.home(node)
    if depth > _DEPTH or node in alike.assumed:
        return depth <= _DEPTH
    if isinstance(node, ast.Call):
        return _same(alike, node.func, depth + 1)
    if isinstance(node, ast.IfExp):
        both = (node.body, node.orelse)
        return alike.value(node.test) and all(_same(alike, n, depth + 1) for n in both)
    if isinstance(node, ast.BoolOp):
        return all(alike.value(n) for n in node.values[:-1]) and _same(alike, node.values[-1], depth + 1)
    if isinstance(node, ast.Subscript):
        return alike.value(node.slice) and not goes_by_rank(module, node.value)
    if isinstance(node, ast.Name):
        return all(_bound(alike, d, node, depth) for d in module.bindings.reaching(node))
    if isinstance(node, ast.Attribute):
        return _attribute(alike, node, depth)
    return not goes_by_rank(module, node)


def _attribute(alike: Alike, node: ast.Attribute, depth: int) -> bool:
    module = alike.module.home(node)
    own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
    cls = module.class_of(node) if own else None
    for member in module.lineage(cls) if cls is not None else ():
        for d in module.attribute_values(member, node.attr):
            if not _bound(alike, d, node, depth):
                return False
    return own or _same(alike, node.value, depth + 1)


def _bound(alike: Alike, d: Definition, reader: ast.expr, depth: int) -> bool:
    """Whether a definition is made by all ranks or none, and what it binds is the same."""
    if d.node in alike.open:
        return True
    alike.open.add(d.node)
    try:
        if d.kind == "parameter":
            return _given(alike, d, depth)
        if not reached(alike, d, reader, 0):
            return False
        if d.kind == "import":
            home = alike.module.home(d.node)
            return all(_bound(alike, o, reader, depth + 1) for name in home.resolve(d.module) for o in home.named(name))
        if d.kind == "assign" and d.value is not None:
            return _same(alike, d.value, depth + 1)
        return d.value is None or not goes_by_rank(alike.module, d.value)
    finally:
        alike.open.discard(d.node)


def _given(alike: Alike, d: Definition, depth: int) -> bool:
    if not isinstance(d.scope, (ast.FunctionDef, ast.AsyncFunctionDef)) or d.key in ("self", "cls"):
        return True
    module = alike.module.home(d.scope)
    given = [argument_of(module, d.scope, call, d.key) for call in module.callers(d.scope)]
    return all(g is None or _same(alike, g, depth + 1) for g in given)


__all__ = ["runs_the_same"]
