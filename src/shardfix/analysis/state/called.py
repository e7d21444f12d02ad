"""Which functions of the project a call runs, also where it does not name them: constructors, what wraps a function,
what a function has made, what is handed on to be called."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from shardfix.analysis.code.bindings import parameters
from shardfix.analysis.code.calling import Function, arguments_given
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.code.tree import returns_of
from shardfix.analysis.state.mutations import CHANGES, is_function

_CONSTRUCTORS = ("__new__", "__post_init__")


@dataclass(frozen=True, eq=False, slots=True)
class Run:
    """A function that a call runs.

    Args:
        named: whether the call's arguments are the function's; else anything may be given to it.
        held: the parameters that are bound once for all calls: ``partial(keep, rows)``, ``add = meter.add``.
        handed: whether the call is given the function, and with it what the function may be given.
    """

    function: Function | ast.Lambda
    named: bool = True
    held: tuple[str, ...] = ()
    handed: bool = False


def runs(module: Module, call: ast.Call, *, passed: bool = False) -> list[Run]:
    """The functions that a call runs, each once."""
    own = module.home(call)
    found = [Run(f) for f in own.called_functions(call, passed=passed)]
    found += [Run(f) for cls in own.project_classes(call.func) for f in _constructors(own, cls)]
    found += [Run(f, named=False) for run in list(found) for f in wrapping(own, run.function)]
    found += _stood_for(own, call.func)
    found += [replace(run, named=False, handed=True) for a in arguments_of(call) for run in _handed(own, a)]
    return list({run.function: run for run in reversed(found)}.values())


def _constructors(module: Module, cls: ast.ClassDef) -> Iterator[Function]:
    for name in _CONSTRUCTORS:
        method = module.method(cls, name)
        if method is not None:
            yield method


def wrapping(module: Module, function: Function | ast.Lambda) -> Iterator[Function | ast.Lambda]:
    """What runs in a function's place: the functions in its decorators, where they are the project's."""
    for decorator in getattr(function, "decorator_list", ()):
        home = module.home(function)
        named = decorator.func if isinstance(decorator, ast.Call) else decorator
        for outer in functions_named(home, named):
            yield from _within(outer)
        for cls in home.project_classes(named):
            yield from (m for m in (home.method(cls, "__call__"),) if m is not None)


def _stood_for(module: Module, func: ast.expr) -> Iterator[Run]:
    """What a name stands for, or an item of what it does, that is not the function's own name."""
    if isinstance(func, ast.Lambda):
        yield Run(func, named=False)
    if isinstance(func, ast.Call) and last_name(func.func) == "getattr" and len(func.args) > 1:
        owner, name = func.args[0], func.args[1]
        if isinstance(name, ast.Constant):
            methods = (module.method(cls, str(name.value)) for cls in module.instances(owner))
            yield from (Run(m, held=tuple(a.arg for a in parameters(m)[:1])) for m in methods if m is not None)
    while isinstance(func, ast.Subscript):
        func = func.value
    for d in module.bindings.reaching(func) if isinstance(func, (ast.Name, ast.Attribute)) else ():
        if d.kind == "parameter":
            given = arguments_given(module, d)
            yield from (run for call, a in given if a is not None for run in _handed(module.home(call), a))
        elif d.value is not None and d.kind in ("assign", "loop"):
            yield from _value(module.home(d.value), d.value, whole=d.kind == "assign")


def _value(module: Module, value: ast.expr, *, whole: bool = True) -> Iterator[Run]:
    """The functions that a value is, holds, or is made by; of one that is gone through, those that it holds."""
    if isinstance(value, ast.Lambda):
        yield Run(value, named=False)
    elif isinstance(value, (ast.List, ast.Tuple, ast.Set)):
        yield from (run for e in value.elts for run in _handed(module, e))
    elif isinstance(value, ast.Dict):
        yield from (run for e in value.values for run in _handed(module, e))
    elif isinstance(value, (ast.Name, ast.Attribute)) and whole:
        yield from _handed(module, value)
    elif isinstance(value, ast.Name):
        for d in module.bindings.reaching(value):
            if isinstance(d.value, (ast.List, ast.Tuple, ast.Set, ast.Dict)):
                yield from _value(module.home(d.value), d.value)
    elif isinstance(value, ast.Call):
        for outer in module.called_functions(value, passed=False):
            if any(isinstance(r, (ast.Name, ast.Lambda, ast.Tuple, ast.Dict, ast.List)) for r in returns_of(outer)):
                yield from (Run(f, named=False) for f in _within(outer))
        if last_name(value.func) in ("partial", "vmap", "compile"):
            for run in (run for a in value.args[:1] for run in _handed(module, a)):
                names = [a.arg for a in parameters(run.function)[: len(value.args) - 1]]
                held = (*run.held, *names, *(k.arg for k in value.keywords if k.arg))
                yield replace(run, named=False, held=held)


def _within(function: ast.AST) -> Iterator[Function | ast.Lambda]:
    for n in ast.walk(function):
        if n is not function and isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield n


def _handed(module: Module, node: ast.expr) -> Iterator[Run]:
    """The functions of the project that an expression stands for."""
    if isinstance(node, ast.Starred):
        node = node.value
    if isinstance(node, ast.Lambda):
        yield Run(node, named=False)
    elif isinstance(node, (ast.Name, ast.Attribute)):
        yield from (Run(f) for f in functions_named(module, node))
    if not isinstance(node, ast.Attribute):
        return
    for cls in module.instances(node.value):
        method = module.method(cls, node.attr)
        if method is not None and "property" not in {last_name(d) for d in method.decorator_list}:
            yield Run(method, held=tuple(a.arg for a in parameters(method)[:1]))


def handed_on(module: Module, loop: ast.AST) -> ast.Attribute | None:
    """A method that changes its object, put under a name or handed on to be called: ``add = rows.append``."""
    scopes = (module.scope(loop), module.tree)
    for name in sorted(CHANGES):
        for load in module.attribute_loads.get(name, ()):
            outer = module.parents.get(load)
            called = isinstance(outer, ast.Attribute) or (isinstance(outer, ast.Call) and outer.func is load)
            if not called and not is_function(module, load) and module.scope(load) in scopes:
                return load
    return None


def functions_named(module: Module, node: ast.expr) -> list[Function]:
    """The functions of the project that a name stands for."""
    own = module.home(node)
    found = [d.node for d in own.bindings.reaching(node)] if isinstance(node, (ast.Name, ast.Attribute)) else []
    found += [d.node for name in own.qualify(node) for d in own.named(name) if d.kind == "function"]
    return list(dict.fromkeys(f for f in found if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef))))


__all__ = ["Run", "functions_named", "handed_on", "runs", "wrapping"]
