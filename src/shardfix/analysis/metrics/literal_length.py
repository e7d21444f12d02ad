"""How many samples a dataset has, where its construction says so in numbers."""

from __future__ import annotations

import ast

from shardfix.analysis.code.module import Module

_SUBSET = ("torch.utils.data.Subset", "torch.utils.data.dataset.Subset")
_DEPTH = 4  # assignments that a dataset is followed back through


def literal_length(module: Module, dataset: ast.expr | None, depth: int = 0) -> int | None:
    """``Subset(data, range(24))``, ``range(24)``, ``list(range(24))``, a list display; None where it is not written."""
    if dataset is None or depth > _DEPTH:
        return None
    if isinstance(dataset, ast.Name):
        made = list(module.bindings.reaching(dataset))
        plain = len(made) == 1 and made[0].kind == "assign" and made[0].index is None
        return literal_length(module.home(made[0].scope), made[0].value, depth + 1) if plain else None
    if isinstance(dataset, (ast.List, ast.Tuple)):
        return None if any(isinstance(e, ast.Starred) for e in dataset.elts) else len(dataset.elts)
    if not isinstance(dataset, ast.Call):
        return None
    callee = module.callee(dataset)
    if callee & set(_SUBSET):
        given = [*dataset.args[1:2], *(k.value for k in dataset.keywords if k.arg == "indices")]
        return literal_length(module, given[0], depth + 1) if given else None
    if callee & {"builtins.list", "builtins.tuple"} and len(dataset.args) == 1:
        return literal_length(module, dataset.args[0], depth + 1)
    if "builtins.range" in callee and not dataset.keywords:
        ends = [a.value for a in dataset.args if isinstance(a, ast.Constant) and type(a.value) is int]
        if len(ends) == len(dataset.args) and 1 <= len(ends) <= 3 and ends[2:] != [0]:
            return len(range(*ends))
    return None


__all__ = ["literal_length"]
