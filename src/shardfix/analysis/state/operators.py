"""Methods that no call of a loop names, and that it runs all the same: properties, and what operators are made of."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from shardfix.analysis.code.bindings import parameters
from shardfix.analysis.code.calling import Function
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.metrics.model import Obstacle
from shardfix.analysis.state.altering import changes
from shardfix.analysis.state.sharing import IS

_NAMED = frozenset({"__call__", "__init__", "__new__", "__post_init__", "__init_subclass__", "__class_getitem__"})
_ATTRIBUTES = frozenset({"__getattr__", "__getattribute__", "__setattr__", "__delattr__"})
_ITERATORS = frozenset({"iter", "map", "zip", "filter", "enumerate", "reversed"})
_CONTEXTS = frozenset({"__enter__", "__exit__", "__aenter__", "__aexit__"})


def changed_by_an_operator(module: Module, loop: ast.For, is_local: Callable[[ast.expr], bool]) -> Obstacle | None:
    """Where a loop runs a method of the project without naming it that changes what outlives the batch."""
    for statement in loop.body:
        for n in ast.walk(statement):
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and _is_iterator(module, loop, n):
                return Obstacle(module.statement(n), f"`{n.id}` goes on from where the batch before has left it")
            if isinstance(n, (ast.Name, ast.Attribute)) and isinstance(n.ctx, ast.Load):
                for cls in module.instances(n):
                    method = _run(module, n, cls, own=is_local(n))
                    if method is not None:
                        what = f"`{ast.unparse(n)}`, whose `{method.name}` it runs, changes or keeps something by that"
                        return Obstacle(module.statement(n), what)
    return None


def _is_iterator(module: Module, loop: ast.For, node: ast.Name) -> bool:
    """Whether a name stands for what gives each item once, made before a loop."""
    inside = set(ast.walk(loop))
    made = [d.value for d in module.bindings.reaching(node) if d.node not in inside and d.kind == "assign"]
    return any(
        isinstance(v, ast.GeneratorExp)
        or (isinstance(v, ast.Call) and isinstance(v.func, ast.Name) and v.func.id in _ITERATORS)
        or (isinstance(v, ast.Call) and any(q.startswith("itertools.") for q in module.callee(v)))
        for v in made
    )


def _run(module: Module, node: ast.expr, cls: ast.ClassDef, *, own: bool) -> Function | None:
    """The method of a class that changes something and that a use of an object of it runs."""
    outer = module.parents.get(node)
    for method in _methods(module, cls):
        if _is_run(method, node, outer) and changes(module, method, _given(method, own=own)):
            return method
    return None


def _given(method: Function, *, own: bool) -> dict[str, int]:
    return {} if own else {a.arg: IS for a in parameters(method)[:1]}


def _methods(module: Module, cls: ast.ClassDef) -> Iterator[Function]:
    """The dunder methods and properties of a class, and those of the descriptors that it has."""
    for member in module.lineage(cls):
        for s in member.body:
            if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef)):
                if _is_dunder(s.name) or _is_property(s):
                    yield s
            elif isinstance(s, ast.Assign) and isinstance(s.value, ast.Call):
                for kind in module.home(member).project_classes(s.value.func):
                    own = module.home(kind)
                    yield from (m for name in ("__get__", "__set__") if (m := own.method(kind, name)) is not None)


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__") and name not in _NAMED


def _is_property(method: Function) -> bool:
    names = {last_name(d.func if isinstance(d, ast.Call) else d) for d in method.decorator_list}
    return bool(names & {"property", "cached_property", "setter", "getter", "abstractproperty"})


def _is_run(method: Function, node: ast.expr, outer: ast.AST | None) -> bool:
    """Whether a place where an object stands runs one of its methods."""
    if _is_property(method):
        return isinstance(outer, ast.Attribute) and outer.attr == method.name
    if method.name in _ATTRIBUTES or method.name in ("__get__", "__set__"):
        return isinstance(outer, ast.Attribute)
    if method.name in _CONTEXTS:
        return isinstance(outer, ast.withitem)
    if method.name == "__del__":
        return True
    return not isinstance(outer, (ast.Attribute, ast.Assign)) and not (
        isinstance(outer, ast.Call) and outer.func is node
    )


__all__ = ["changed_by_an_operator"]
