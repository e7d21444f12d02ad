"""Whether what a program does with a dict, by a name of it, may change what it holds."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from shardfix.analysis.code.bindings import Definition

if TYPE_CHECKING:
    from shardfix.analysis.code.module import Module

_READING = frozenset({"get", "copy", "items", "keys", "values"})
_HARMLESS = frozenset(
    {
        "print",
        "len",
        "isinstance",
        "dict",
        "str",
        "repr",
        "sorted",
        "list",
        "copy",
        "deepcopy",
        "dumps",
        "info",
        "debug",
    }
)


def is_changed(module: Module, d: Definition) -> bool:
    """Whether a dict is changed by a name of it; giving it another name is none."""
    return any(
        may_change(module, use) and not isinstance(module.parents[use], ast.Assign)
        for use in module.bindings.readers(d)
    )


def may_change(module: Module, use: ast.expr) -> bool:
    """Whether a read of a dict may change it: all but unpacking it, asking it and handing it to what only reads."""
    parent = module.parents[use]
    if isinstance(parent, ast.keyword):
        if parent.arg is None:
            return False
        call = module.parents[parent]
        return not (isinstance(call, ast.Call) and _only_reads(module, call, use, 0))
    if isinstance(parent, ast.Dict):
        return not any(k is None and v is use for k, v in zip(parent.keys, parent.values, strict=True))
    if isinstance(parent, ast.Attribute):
        called = isinstance(module.parents[parent], ast.Call)
        return not (called and parent.attr in _READING)
    if isinstance(parent, ast.Subscript):
        return not isinstance(parent.ctx, ast.Load)
    if isinstance(parent, ast.Call) and use in parent.args:
        return not _only_reads(module, parent, use, 0)
    return not isinstance(parent, (ast.Compare, ast.BoolOp, ast.If, ast.IfExp, ast.BinOp, ast.FormattedValue, ast.For))


def _only_reads(module: Module, call: ast.Call, use: ast.expr, depth: int) -> bool:
    """Whether a call leaves a dict that it is given as it is."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name in _HARMLESS or (name == "update" and isinstance(call.func, ast.Attribute)):
        return True
    functions = module.called_functions(call)
    if not functions or depth > 2:
        return False
    for function in functions:
        parameter = module.parameter_of(function, call, use)
        own = module.home(function)
        if parameter is None:
            return False
        for d in own.bindings.definitions_at(parameter, parameter.arg):
            for reader in own.bindings.readers(d):
                if may_change(own, reader):
                    return False
    return True
