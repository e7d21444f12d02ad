"""Lists with one number for each batch: what such a number is, and whether all that is made of them is a sum."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TYPE_CHECKING

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.metrics.quantities import CONSTANT, UNKNOWN, Value, operated

if TYPE_CHECKING:
    from shardfix.analysis.metrics.values import Values

_NUMBERS = frozenset({"item", "float", "int", "mean", "sum"})
_MOVES = frozenset({"detach", "cpu", "cuda", "clone", "numpy", "double", "to", "data"})
_ARRAYS = frozenset({"array", "asarray", "tensor", "as_tensor", "stack", "list", "tuple", "Tensor", "FloatTensor"})
_KEPT = frozenset({"item", "float", "cpu", "cuda", "numpy", "double", "to", "detach"})
_HOPS = 4


def added_by(statement: ast.stmt) -> ast.expr | None:
    """What ``x.append(e)`` adds; None for another statement."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return call.args[0] if isinstance(call, ast.Call) and len(call.args) == 1 else None


def is_number(values: Values, node: ast.expr | None, depth: int = 0) -> bool:
    """Whether an expression is seen to be one number for the batch, or a tuple of such."""
    if node is None or depth > _HOPS:
        return False
    kind = values.of(node).kind
    if kind in ("sum", "count", "mean"):
        return True
    if isinstance(node, ast.Tuple):
        return bool(node.elts) and all(is_number(values, e, depth + 1) for e in node.elts)
    if kind in ("samples", "elements", "transposed", "output", "batch", "examples", "step", "constant"):
        return False
    if isinstance(node, ast.Call):
        name = last_name(node.func)
        if name in _NUMBERS and not any(k.arg in ("dim", "axis") for k in node.keywords):
            return len(node.args) <= int(isinstance(node.func, ast.Name))
        if isinstance(node.func, ast.Attribute) and name in _MOVES:
            return is_number(values, node.func.value, depth + 1)
        return False
    if isinstance(node, ast.BinOp):
        sides = [s for s in (node.left, node.right) if not isinstance(s, ast.Constant)]
        return bool(sides) and all(is_number(values, s, depth + 1) for s in sides)
    if isinstance(node, ast.Attribute) and node.attr == "loss":
        return True  # the models of transformers give it so
    if isinstance(node, ast.Name):
        made = [d for d in values.module.bindings.reaching(node) if d.node in values.inside]
        whole = [d.value for d in made if d.value is not None and d.index is None]
        if whole and len(whole) == len(made) and all(is_number(values, v, depth + 1) for v in whole):
            return True
        return bool(made) and "loss" in node.id.lower()
    return False


def only_summed(module: Module, loop: ast.For, entries: Mapping[str, Value]) -> bool:
    """Whether all that is read of some lists behind a loop is sums over samples: of sums over the batches' samples, of
    means times the batches' sizes."""
    end = loop.end_lineno or loop.lineno
    scope = module.scope(loop)
    nodes = [n for n in ast.walk(scope) if getattr(n, "lineno", 0) > end]
    totals = [n for n in nodes if isinstance(n, ast.Call) and _is_total(n, entries)]
    covered = {n for t in totals for n in ast.walk(t)}
    reads = [n for n in nodes if isinstance(n, (ast.Name, ast.Attribute)) and ast.unparse(n) in entries]
    return bool(reads) and all(n in covered for n in reads if isinstance(n.ctx, ast.Load))


def _is_total(call: ast.Call, entries: Mapping[str, Value]) -> bool:
    name = last_name(call.func)
    if name == "average" and len(call.args) == 1 and [k.arg for k in call.keywords] == ["weights"]:
        weights = _entry(call.keywords[0].value, entries)
        return weights.kind == "count" and operated(ast.Mult(), _entry(call.args[0], entries), weights).kind == "sum"
    if name not in ("sum", "fsum") or call.keywords:
        return False
    given = call.args[0] if len(call.args) == 1 else None
    if given is None and isinstance(call.func, ast.Attribute) and not call.args:
        given = call.func.value
    return given is not None and _entry(given, entries).kind in ("sum", "count")


def _entry(node: ast.expr, entries: Mapping[str, Value]) -> Value:
    """What each item of a list is."""
    text = ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""
    if text in entries:
        return entries[text]
    if isinstance(node, ast.Call):
        inner = node.func.value if isinstance(node.func, ast.Attribute) and last_name(node.func) in _KEPT else None
        if inner is None and last_name(node.func) in _ARRAYS and len(node.args) == 1:
            inner = node.args[0]
        return _entry(inner, entries) if inner is not None else UNKNOWN
    if isinstance(node, ast.BinOp):
        sides = [CONSTANT if isinstance(s, ast.Constant) else _entry(s, entries) for s in (node.left, node.right)]
        return operated(node.op, *sides)
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)) and len(node.generators) == 1 and not node.generators[0].ifs:
        over, target = node.generators[0].iter, node.generators[0].target
        if isinstance(over, ast.Call) and last_name(over.func) == "zip":
            item = Value("items", tuple(_entry(a, entries) for a in over.args))
        else:
            item = _entry(over, entries)
        bound: dict[str, Value] = {}
        if isinstance(target, ast.Name):
            bound[target.id] = item
        elif isinstance(target, ast.Tuple):
            bound = {e.id: item.item(i) for i, e in enumerate(target.elts) if isinstance(e, ast.Name)}
        return _of_item(node.elt, bound)
    return UNKNOWN


def _of_item(node: ast.expr, bound: Mapping[str, Value]) -> Value:
    """What is made of one item of a list."""
    if isinstance(node, ast.Constant):
        return CONSTANT
    if isinstance(node, ast.Name):
        return bound.get(node.id, UNKNOWN)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and type(node.slice.value) is int:
        return _of_item(node.value, bound).item(node.slice.value)
    if isinstance(node, ast.BinOp):
        return operated(node.op, _of_item(node.left, bound), _of_item(node.right, bound))
    if isinstance(node, ast.Call) and last_name(node.func) in _KEPT:
        inner = node.func.value if isinstance(node.func, ast.Attribute) else node.args[0] if node.args else None
        return _of_item(inner, bound) if inner is not None else UNKNOWN
    return UNKNOWN


__all__ = ["added_by", "is_number", "only_summed"]
