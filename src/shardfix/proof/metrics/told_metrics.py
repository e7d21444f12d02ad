"""Metrics of the library evaluate, which are told of rows and work out a number of all of them when they are asked."""

from __future__ import annotations

import ast

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import is_none

_MADE_BY = frozenset({"evaluate.load", "evaluate.combine", "datasets.load_metric"})
TELLS = frozenset({"add_batch", "add"})


def told_metrics(module: Module, loop: ast.AST) -> list[str]:
    """The metrics that a loop tells of its batches, as they are written."""
    found: dict[str, None] = {}
    for n in ast.walk(loop):
        if not isinstance(n, ast.Call) or not isinstance(n.func, ast.Attribute) or n.func.attr not in TELLS:
            continue
        receiver = n.func.value
        made = list(module.bindings.reaching(receiver)) if isinstance(receiver, (ast.Name, ast.Attribute)) else []
        # None before the condition under which it is made: where it is told of rows, it is there
        values = [d.value for d in made if d.kind == "assign" and d.index is None and not is_none(d.value)]
        if values and all(isinstance(v, ast.Call) and module.callee(v) & _MADE_BY for v in values):
            found[ast.unparse(receiver)] = None
    return list(found)


__all__ = ["TELLS", "told_metrics"]
