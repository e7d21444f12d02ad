"""Whether a project function changes an object that it is given, or keeps something of its own."""

from __future__ import annotations

import ast
from collections.abc import Callable

from shardfix.analysis.code.names import arguments_of
from shardfix.analysis.metrics.values import Values

_CHANGES = frozenset({"append", "extend", "update", "add", "insert", "setdefault", "pop", "add_batch"})
_ELSEWHERE = ("__init__", "forward", "__call__", "update")  # models, and averaging objects, which are looked at


def alters(values: Values, call: ast.Call, is_local: Callable[[ast.expr], bool]) -> bool:
    """Whether what a call runs adds to an object from outside the loop.

    Args:
        is_local: whether the object behind an expression is made anew in each pass of the loop.
    """
    module = values.module
    functions = module.called_functions(call, passed=False)
    if len(functions) != 1 or functions[0].name in _ELSEWHERE:
        return False
    function = functions[0]
    kept = {"self"} if isinstance(call.func, ast.Attribute) and not is_local(call.func.value) else set()
    for argument in arguments_of(call):
        parameter = module.parameter_of(function, call, argument)
        outside = isinstance(argument, (ast.Name, ast.Attribute)) and not is_local(argument)
        if parameter is not None and outside and values.of(argument).kind == "constant":
            kept.add(parameter.arg)
    return any(_changes(n, kept) for n in ast.walk(function))


def _changes(node: ast.AST, names: set[str]) -> bool:
    """Whether a statement changes an object of one of these names."""
    if isinstance(node, (ast.Global, ast.Nonlocal)):
        return True
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = [t for t in node.targets if isinstance(t, (ast.Subscript, ast.Attribute))]
    elif isinstance(node, ast.AugAssign):
        targets = [node.target]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
        targets = [node.func.value]
    return any(_base(t) in names for t in targets)


def _base(node: ast.expr) -> str:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


__all__ = ["alters"]
