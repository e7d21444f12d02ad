"""Rows that a loop changes in place after they are made: what that leaves of them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.names import last_name
from shardfix.analysis.metrics.methods import applied
from shardfix.analysis.metrics.quantities import ROWS, Value, unknown

if TYPE_CHECKING:
    from shardfix.analysis.metrics.values import Values

_MOVES = frozenset(
    {"reverse", "sort", "remove", "insert", "clear", "append", "extend", "add", "discard", "update", "appendleft"}
    | {"difference_update", "intersection_update", "subtract", "put", "fill", "itemset", "partition", "resize"}
)
_TAKES = frozenset({"pop", "popitem", "setdefault", "popleft"})
_STORED = ("samples", "constant", "output", "sample")


def changed(values: Values, made: Definition, value: Value) -> Value:
    """A value once more, or unknown if a statement changes it so that its rows are no longer those of the samples.

    Args:
        made: the definition that gives the value.
    """
    if made.node not in values.inside or value.kind in ("unknown", "time", "sum", "count", "mean", "part", "step"):
        return value
    for reader in values.module.bindings.readers(made):
        if reader not in values.inside:
            continue
        hidden = _changed(values, reader, value)
        if hidden is not None:
            return unknown(hidden)
    return value


def _changed(values: Values, reader: ast.expr, value: Value) -> ast.AST | None:
    """What a read of a name does to its value: the statement that is not followed, None where nothing is."""
    parents = values.module.parents
    outer = parents.get(reader)
    if isinstance(outer, ast.Subscript) and outer.value is reader and not isinstance(outer.ctx, ast.Load):
        return None if _stores_apart(values, outer, value) else outer
    if isinstance(outer, ast.Call) and last_name(outer.func) == "shuffle" and reader in outer.args:
        return outer
    call = parents.get(outer) if isinstance(outer, ast.Attribute) else None
    if not isinstance(outer, ast.Attribute) or not isinstance(call, ast.Call) or call.func is not outer:
        return None
    name = outer.attr
    alone = isinstance(parents.get(call), ast.Expr)
    if value.kind in ("batch", "list"):
        return call if alone and name in ("clear", "popitem", "reverse", "sort", "insert", "remove") else None
    if name in _TAKES or (alone and name in _MOVES):
        return call
    if name.endswith("_") and not name.startswith("_") and value.kind in ROWS:
        found = applied(values, name, value, call, call.args)
        return call if found is None or found.kind not in ROWS else None
    return None


def _stores_apart(values: Values, target: ast.Subscript, value: Value) -> bool:
    """Whether a store changes each sample by itself: where a mask of rows says so, in the same columns of all, or
    under a name in a batch."""
    statement = values.module.statement(target)
    if isinstance(statement, ast.Delete):
        return value.kind == "batch"
    given = getattr(statement, "value", None)
    kind = values.of(given).kind if isinstance(given, ast.expr) else "unknown"
    index = target.slice
    if value.kind == "batch":
        return isinstance(index, ast.Constant) and isinstance(index.value, str) and kind in _STORED
    if value.kind == "sample":
        return kind in ("sample", "constant") and values.of(index).kind in ("sample", "constant")
    if value.kind == "constant":
        return kind == "constant" and values.of(index).kind == "constant"
    if isinstance(index, ast.Tuple) and index.elts and isinstance(index.elts[0], ast.Slice):
        whole = not any(ast.iter_child_nodes(index.elts[0]))
        fixed = all(isinstance(e, ast.Slice) or values.of(e).kind == "constant" for e in index.elts[1:])
        return whole and fixed and kind in ("samples", "output", "constant")
    mask = values.of(index) if not isinstance(index, (ast.Slice, ast.Tuple)) else unknown(index)
    return mask.kind == "samples" and mask.whole and kind == "constant"


def is_list(values: Values, node: ast.expr) -> bool:
    """Whether rows are in a list, of which operators make another list."""
    if isinstance(node, (ast.List, ast.ListComp)):
        return True
    if isinstance(node, ast.Call):
        return last_name(node.func) in ("tolist", "list")
    if not isinstance(node, ast.Name):
        return False
    made = values.module.bindings.reaching(node)
    return any(d.kind == "assign" and d.index is None and d.value is not None and _listed(d.value) for d in made)


def _listed(node: ast.expr) -> bool:
    made = isinstance(node, ast.Call) and last_name(node.func) in ("tolist", "list")
    return made or isinstance(node, (ast.List, ast.ListComp))


__all__ = ["changed", "is_list"]
