"""Whether an evaluation is wrapped in a function of the project that combines what it returns across ranks."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.code.objects import imported_loads
from shardfix.analysis.code.tree import walk

_Function = (ast.FunctionDef, ast.AsyncFunctionDef)
Combines = Callable[[Module, ast.Call], bool]


def combined_by_wrapper(module: Module, function: ast.AST, combines: Combines) -> ast.AST | None:
    """The call by which a decorator of a function, or what it is handed to by its name, combines what it returns.

    Args:
        combines: whether a call combines values across ranks, itself or in the functions that it runs.
    """
    for wrapper in _wrappers(module, function):
        where = module.home(wrapper)
        for inner in (n for n in ast.walk(wrapper) if isinstance(n, (*_Function, ast.Lambda))):
            found = _combined(where, wrapper, inner, combines)
            if found is not None:
                return found
    return None


def _wrappers(module: Module, function: ast.AST) -> Iterator[ast.AST]:
    """The functions, and classes with ``__call__``, that decorate a function or are given it."""
    if not isinstance(function, _Function):
        return
    own = module.home(function)
    named = [d.func if isinstance(d, ast.Call) else d for d in function.decorator_list]
    for d in own.bindings.definitions_at(function, function.name):
        for use in [*own.bindings.readers(d), *imported_loads(own, d)]:
            parent = module.parents[use]
            if isinstance(parent, ast.Call) and use in parent.args:
                named.append(parent.func)
    for node in named:
        where = module.home(node)
        yield from where.project_classes(node)
        bound = [*where.bindings.reaching(node), *(d for q in sorted(where.qualify(node)) for d in where.named(q))]
        yield from (d.node for d in bound if isinstance(d.node, _Function))


def _combined(module: Module, wrapper: ast.AST, inner: ast.AST, combines: Combines) -> ast.AST | None:
    """The call that is given what the wrapped function returned."""
    wrapped = _parameters(wrapper)
    body = [inner.body] if isinstance(inner, ast.Lambda) else getattr(inner, "body", [])
    nodes = [n for s in body for n in (s, *walk(s))]
    calls = [n for n in nodes if isinstance(n, ast.Call) and ast.unparse(n.func) in wrapped]
    results: set[str] = set()

    def holds(node: ast.AST) -> bool:
        return any(
            n in calls or (isinstance(n, (ast.Name, ast.Attribute)) and ast.unparse(n) in results)
            for n in ast.walk(node)
        )

    for _ in range(4):  # names of names of names
        for n in nodes:
            if isinstance(n, ast.Assign) and holds(n.value):
                results |= {ast.unparse(t) for target in n.targets for t in _names(target)}
            elif isinstance(n, (ast.For, ast.comprehension)) and holds(n.iter):
                results |= {ast.unparse(t) for t in _names(n.target)}
            elif isinstance(n, ast.Call) and last_name(n.func) in ("append", "extend") and any(map(holds, n.args)):
                results |= {ast.unparse(t) for t in _names(n.func)[:1]}
    given = (n for n in nodes if isinstance(n, ast.Call) and n not in calls and any(map(holds, arguments_of(n))))
    return next((n for n in given if combines(module, n)), None) if calls else None


def _parameters(wrapper: ast.AST) -> set[str]:
    """How a wrapper calls what it wraps: a parameter of it, or of a function in it; an attribute of a class."""
    functions = [n for n in ast.walk(wrapper) if isinstance(n, _Function)]
    names = {a.arg for f in functions for a in (*f.args.posonlyargs, *f.args.args)} - {"self", "cls"}
    if isinstance(wrapper, ast.ClassDef):
        names |= {f"self.{name}" for name in names}
        stored = (n for n in ast.walk(wrapper) if isinstance(n, ast.Assign))
        names |= {ast.unparse(t) for n in stored if ast.unparse(n.value) in names for t in n.targets}
    return names


def _names(node: ast.AST) -> list[ast.expr]:
    return [n for n in ast.walk(node) if isinstance(n, (ast.Name, ast.Attribute))]
