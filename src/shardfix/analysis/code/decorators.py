"""Whether the callers of a decorated function get what it returns: a decorator may put something else around that."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from shardfix.analysis.code.bindings import FunctionNode

if TYPE_CHECKING:
    from shardfix.analysis.code.module import Module

_Def = ast.FunctionDef | ast.AsyncFunctionDef


def gives_its_result(module: Module, function: ast.AST) -> bool:
    """Whether each decorator of a function hands on what it returns.

    A decorator of the project is read; one of a library is taken for one that does (caches, timers, registries).
    """
    return all(_hands_on(module.home(d), d) for d in getattr(function, "decorator_list", []))


def _hands_on(module: Module, decorator: ast.expr) -> bool:
    if isinstance(decorator, ast.Call):
        if module.project_classes(decorator.func):
            return False
        return all(_makes_one(module, f) for f in module.called_functions(decorator))
    if module.project_classes(decorator):
        return False
    return all(_is_plain(module, f) for f in _functions(module, decorator))


def _functions(module: Module, node: ast.expr) -> list[_Def]:
    found = list(module.bindings.reaching(node))
    found += [d for name in sorted(module.qualify(node)) for d in module.named(name)]
    return [d.node for d in found if isinstance(d.node, _Def)]


def _makes_one(module: Module, function: _Def) -> bool:
    """``register("name")``: whether what it returns are decorators that hand on."""
    results = [_local(module, value) for value in _returned(module, function)]
    return bool(results) and all(made is not None and _is_plain(module, made) for made in results)


def _is_plain(module: Module, function: FunctionNode) -> bool:
    """Whether a decorator returns the function that it is given, or one that returns what that one returns."""
    own = [a.arg for a in (*function.args.posonlyargs, *function.args.args) if a.arg not in ("self", "cls")]
    if not own:
        return False
    for value in _returned(module, function):
        inner = _local(module, value)
        if isinstance(value, ast.Name) and inner is None and value.id == own[0]:
            continue
        results = [v for v in _returned(module, inner) if not isinstance(v, ast.Constant)] if inner is not None else []
        if not results or not all(_is_its_call(module, v, own[0]) for v in results):
            return False
    return True


def _local(module: Module, value: ast.expr) -> FunctionNode | None:
    """The function that a name or lambda stands for within a function."""
    if isinstance(value, ast.Lambda):
        return value
    bound = module.bindings.reaching(value) if isinstance(value, ast.Name) else frozenset()
    nodes = [d.node for d in bound]
    return nodes[0] if len(nodes) == 1 and isinstance(nodes[0], _Def) else None


def _returned(module: Module, function: FunctionNode) -> list[ast.expr]:
    if isinstance(function, ast.Lambda):
        return [function.body]
    returns = (n for n in ast.walk(function) if isinstance(n, ast.Return) and module.function(n) is function)
    return [n.value for n in returns if n.value is not None]


def _is_its_call(module: Module, value: ast.expr, name: str) -> bool:
    """``f(*args, **kwargs)``, or a variable that holds it."""
    if isinstance(value, ast.Await):
        value = value.value
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == name
    bound = module.bindings.reaching(value) if isinstance(value, ast.Name) else frozenset()
    values = [d.value for d in bound if d.kind == "assign" and d.index is None and d.value is not None]
    return (
        bool(bound)
        and len(values) == len(bound)
        and all(not isinstance(v, ast.Name) and _is_its_call(module, v, name) for v in values)
    )
