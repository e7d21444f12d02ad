"""Whether the samples that are evaluated are drawn at random: by every rank for itself, unless all are seeded alike."""

from __future__ import annotations

import ast

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.calling import arguments_given
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.code.tree import returns_of
from shardfix.analysis.loaders.generators import seeds_alike
from shardfix.analysis.loaders.random_calls import Family, family_of
from shardfix.analysis.metrics.model import Obstacle

_DEPTH = 4
_SPLITS = {"torch.utils.data.random_split": "generator", "sklearn.model_selection.train_test_split": "random_state"}


def drawn_anew(module: Module, dataset: ast.expr | None) -> Obstacle | None:
    """The draw that makes a dataset another one on each rank; None where none is seen, or all are seeded alike."""
    return _drawn(module, dataset, 0) if dataset is not None else None


def _drawn(module: Module, node: ast.expr, depth: int) -> Obstacle | None:
    module = module.home(node)
    for n in ast.walk(node):
        if isinstance(n, ast.Call):
            family = _family(module, n)
            if family is not None and not _seeded(module, family):
                return Obstacle(
                    n, f"`{last_name(n.func)}` draws other samples on each rank, unless all are seeded alike"
                )
            found = _in_function(module, n, depth) if depth < _DEPTH else None
            if found is not None:
                return found
    if depth >= _DEPTH:
        return None
    for n in ast.walk(node):
        if not isinstance(n, (ast.Name, ast.Attribute)):
            continue
        for d in _definitions(module, n):
            given = [d.value] if d.kind == "assign" else _given(module, d)
            values = [v for v in given if v is not None]
            found = next((f for v in values if (f := _drawn(module, v, depth + 1)) is not None), None)
            if found is None and (not values or isinstance(n, ast.Name)):
                found = _shuffled(module, d)
            if found is not None:
                return found
    return None


def _in_function(module: Module, call: ast.Call, depth: int) -> Obstacle | None:
    """A draw in what a function of the project returns: ``load()``, which returns ``random.sample(lines, 20)``."""
    for function in module.called_functions(call, passed=False):
        for value in returns_of(function):
            found = _drawn(module, value, depth + 1)
            if found is not None:
                return found
    return None


def _given(module: Module, d: Definition) -> list[ast.expr | None]:
    return [value for _, value in arguments_given(module, d)] if d.kind == "parameter" else []


def _definitions(module: Module, node: ast.expr) -> list[Definition]:
    found = list(module.bindings.reaching(node))
    cls = module.class_of(node)
    own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    if not found and own and cls is not None and isinstance(node, ast.Attribute):
        found = module.attribute_values(cls, node.attr)
    return found


def _shuffled(module: Module, d: Definition) -> Obstacle | None:
    """``random.shuffle(indices)``"""
    for reader in module.bindings.readers(d):
        call = module.parents.get(reader)
        if isinstance(call, ast.Call) and last_name(call.func) == "shuffle" and reader in call.args:
            family = _family(module, call)
            if family is not None and not _seeded(module, family):
                return Obstacle(call, "`shuffle` gives each rank another order, unless all are seeded alike")
    return None


def _seeded(module: Module, family: Family) -> bool:
    return any(seeds_alike(m, family) for m in module.fellows)


def _family(module: Module, call: ast.Call) -> Family | None:
    """The library from whose own generator a call draws; None where it is given one, or draws nothing."""
    names = module.callee(call)
    for name, seeded in _SPLITS.items():
        if name in names:
            given = any(k.arg in (seeded, None) for k in call.keywords)
            return None if given else ("torch" if name.startswith("torch") else "numpy")
    if not arguments_of(call) or any(k.arg == "generator" for k in call.keywords):
        return None
    return family_of(names, picks=True)


__all__ = ["drawn_anew"]
