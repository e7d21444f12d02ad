"""Whether all ranks have a value where one has it: ``x is None``, the truth of an object."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from shardfix.analysis.code.names import last_name
from shardfix.analysis.ranks.alike_bound import reached, set_within
from shardfix.analysis.ranks.alike_names import (
    DEPTH,
    ITSELF,
)
from shardfix.analysis.ranks.steps import steps

if TYPE_CHECKING:
    from shardfix.analysis.ranks.alike import Alike


def is_there(alike: Alike, node: ast.expr, depth: int) -> bool:
    """Whether all ranks have a value where one has it: ``x is None``."""
    if isinstance(node, ast.Attribute) and node.attr == "gpu":
        return True  # given by the launcher to all or none
    return has(alike, node, depth)


def has(alike: Alike, node: ast.expr, depth: int, *, truth: bool = False) -> bool:
    """Whether all ranks have a value where one has it; with ``truth`` whether it holds on all or on none."""
    if depth > DEPTH:
        return False
    if isinstance(node, ast.IfExp):
        return (
            alike.value(node.test, depth)
            and has(alike, node.body, depth + 1, truth=truth)
            and has(alike, node.orelse, depth + 1, truth=truth)
        )
    if isinstance(node, ast.Call):
        home = alike.module.home(node)
        if home.project_classes(node.func) or last_name(node.func)[:1].isupper():
            return True  # an object that is made
        if isinstance(node.func, ast.Attribute) and node.func.attr in ITSELF:
            return has(alike, node.func.value, depth + 1, truth=truth)
        functions = home.called_functions(node)
        returns = [n for f in functions for n in ast.walk(f) if isinstance(n, ast.Return)]
        if returns and all(_has_returned(alike, n, depth + 1) for n in returns):
            return True
    if isinstance(node, (ast.List, ast.Tuple, ast.Dict, ast.Set)):
        return not truth
    if isinstance(node, ast.Name) and node not in alike.assumed:
        found = alike.definitions(node)
        plain = [d for d in found if d.kind == "assign" and d.index is None and d.value is not None]
        if found and len(plain) == len(found) and not set_within(alike, node, found):
            where = all(reached(alike, d, node, depth + 1) for d in plain)
            return where and all(has(alike, d.value, depth + 1, truth=truth) for d in plain if d.value is not None)
    return alike.value(node, depth)


def _has_returned(alike: Alike, node: ast.Return, depth: int) -> bool:
    home = alike.module.home(node)
    there = isinstance(node.value, ast.Call) and has(alike, node.value, depth)
    return there and all(alike.step(s, depth) for s in steps(home, node))


__all__ = ["has", "is_there"]
