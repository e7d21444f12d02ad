"""Which functions of the project a call runs, and which calls run a function: across its files, methods included."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.kept_functions import is_kept_call, kept
from shardfix.analysis.code.names import last_name
from shardfix.analysis.code.tree import returns_of

if TYPE_CHECKING:
    from shardfix.analysis.code.module import Module

Function = ast.FunctionDef | ast.AsyncFunctionDef
_DEPTH = 5  # steps back from an object to what made it


def called_functions(module: Module, call: ast.Call, depth: int = 0, *, passed: bool = True) -> list[Function]:
    """The functions and methods that a call may run: what its file shows first, then overrides in derived classes.

    Args:
        passed: whether a method of a parameter is looked for in what the callers give to the parameter.
    """
    func = call.func
    found: list[Function] = []
    if isinstance(func, ast.Name):
        definitions = sorted(module.bindings.reaching(func), key=lambda d: getattr(d.node, "lineno", 0))
        found = [f for d in definitions for f in _run(module, d)]
    elif isinstance(func, ast.Attribute):
        for cls in instance_classes(module, func.value, depth, passed=passed):
            found += _methods(module, cls, func.attr, overrides=_is_self(func.value))
        for cls in module.project_classes(func.value):  # Base.__init__(self, ..), Factory.make(..)
            found += _methods(module, cls, func.attr, overrides=False)
    elif is_kept_call(call):
        return list(dict.fromkeys(f for d in kept(module, func) for f in _run(module, d)))
    if not found:
        found = [f for name in sorted(module.qualify(func)) for d in module.named(name) for f in _run(module, d)]
    return list(dict.fromkeys(found))


def _run(module: Module, d: Definition) -> list[Function]:
    """What runs where the function or class is called that a definition binds."""
    if d.kind == "function" and isinstance(d.node, Function):
        return [d.node]
    if d.kind == "class" and isinstance(d.node, ast.ClassDef):
        return _methods(module, d.node, "__init__", overrides=False)
    return []


def _methods(module: Module, cls: ast.ClassDef, name: str, *, overrides: bool) -> list[Function]:
    own = module.method(cls, name)
    found = [own] if own is not None else []
    if overrides:
        for derived in derived_classes(module, cls):
            found += [s for s in derived.body if isinstance(s, Function) and s.name == name]
    return found


def derived_classes(module: Module, cls: ast.ClassDef) -> list[ast.ClassDef]:
    """The classes of the project that derive from a class."""
    return module.project.derived(cls) if module.project is not None else []


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def instance_classes(module: Module, node: ast.expr, depth: int = 0, *, passed: bool = True) -> list[ast.ClassDef]:
    """The classes of the project of which the value of an expression is an instance, as far as it is seen.

    Empty where one of the things that the value may be is not seen, so that no answer is taken for the whole.
    """
    found = list(_classes(module, node, depth, passed))
    return [] if None in found else list(dict.fromkeys(c for c in found if c is not None))


def _classes(module: Module, node: ast.expr, depth: int, passed: bool) -> Iterator[ast.ClassDef | None]:
    module = module.home(node)
    if depth > _DEPTH:
        yield None
    elif isinstance(node, ast.Call):
        yield from _made_by(module, node, depth, passed)
    elif isinstance(node, ast.Name) and _is_self(node) and module.class_of(node) is not None:
        yield module.class_of(node)
    elif isinstance(node, (ast.Name, ast.Attribute)):
        definitions = list(module.bindings.reaching(node))
        if not definitions and isinstance(node, ast.Attribute):
            for cls in instance_classes(module, node.value, depth + 1, passed=passed):
                for member in module.lineage(cls):
                    definitions += module.attribute_values(member, node.attr)
        if not definitions:
            definitions = [d for name in module.qualify(node) for d in module.named(name) if d.kind == "assign"]
        for d in definitions:
            if not (isinstance(d.value, ast.Constant) and d.value.value is None):
                yield from _bound(module, d, depth, passed)
        if not definitions:
            yield None
    elif isinstance(node, ast.IfExp):
        yield from _classes(module, node.body, depth + 1, passed)
        yield from _classes(module, node.orelse, depth + 1, passed)
    else:
        yield None


def _bound(module: Module, d: Definition, depth: int, passed: bool) -> Iterator[ast.ClassDef | None]:
    """The classes of what a definition binds."""
    if d.kind == "assign" and d.value is not None and d.index is None:
        yield from _classes(module, d.value, depth + 1, passed)
    elif d.kind == "import":
        defined = [o for name in module.home(d.node).resolve(d.module) for o in module.named(name) if o is not d]
        for other in defined:
            yield from _bound(module, other, depth + 1, passed)
        if not defined:
            yield None
    elif d.kind == "parameter" and isinstance(d.node, ast.arg):
        annotation = d.node.annotation
        annotated = module.project_classes(annotation) if annotation is not None else []
        if annotated:
            yield from annotated
        elif passed:
            yield from _passed(module, d, depth)
        else:
            yield None
    else:
        yield None


def _passed(module: Module, d: Definition, depth: int) -> Iterator[ast.ClassDef | None]:
    """The classes of what the callers of a function give to its parameter."""
    function = d.scope
    # Callers by name: a method whose caller is known by a parameter of its own would ask this question again.
    calls = module.callers(function, passed=False) if isinstance(function, Function) and depth < 2 else []
    given = [argument_of(module, function, call, d.key) for call in calls if isinstance(function, Function)]
    for value in given:
        if value is None:
            yield None
        else:
            yield from _classes(module, value, depth + 1, False)
    if not given:
        yield None


def _made_by(module: Module, call: ast.Call, depth: int, passed: bool) -> Iterator[ast.ClassDef | None]:
    if isinstance(call.func, ast.Name) and call.func.id == "super":
        cls = module.class_of(call)
        yield from module.lineage(cls)[1:2] if cls is not None else (None,)
        return
    classes = module.project_classes(call.func)
    yield from classes
    if classes:
        return
    functions = called_functions(module, call, depth + 1, passed=passed) if depth < _DEPTH else []
    for function in functions:
        for value in returns_of(function):
            yield from _classes(module, value, depth + 1, passed)
    if not functions:
        yield None


def argument_of(module: Module, function: Function, call: ast.Call, name: str) -> ast.expr | None:
    """What a call of a function gives to one of its parameters; None where that is not written out."""
    for value in [*call.args, *(k.value for k in call.keywords)]:
        bound = module.parameter_of(function, call, value)
        if bound is not None and bound.arg == name:
            return value
    return None


def arguments_given(module: Module, parameter: Definition) -> list[tuple[ast.Call, ast.expr | None]]:
    """Each call of a parameter's function, and what it gives to the parameter, as ``argument_of`` says it."""
    function = parameter.scope
    if not isinstance(function, Function):
        return []
    return [(c, argument_of(module, function, c, parameter.key)) for c in module.callers(function)]


def only_called(module: Module, function: Function) -> bool:
    """Whether a function is called wherever the project names it, so that its callers are all that run it."""
    calls = {call.func for call in module.callers(function)}
    own = module.home(function)
    for d in own.bindings.definitions_at(function, function.name):
        if any(use not in calls for use in own.bindings.readers(d)):
            return False
    method = isinstance(module.parents[function], ast.ClassDef)
    for other in module.fellows:
        for load in other.attribute_loads.get(function.name, ()):
            if load not in calls and (method or f"{own.name}.{function.name}" in other.qualify(load)):
                return False
        for d in other.bindings.definitions if not method and other is not own else ():
            if d.kind == "import" and d.module.endswith(f".{function.name}"):
                if any(use not in calls for use in other.bindings.readers(d)):
                    return False
    return True


def default_of(function: Function, name: str) -> ast.expr | None:
    """The default of a parameter, or None."""
    a = function.args
    positional = [*a.posonlyargs, *a.args]
    first = len(positional) - len(a.defaults)
    pairs = [*zip(positional[first:], a.defaults, strict=True), *zip(a.kwonlyargs, a.kw_defaults, strict=True)]
    return next((default for arg, default in pairs if arg.arg == name), None)


def callers(module: Module, function: ast.AST, *, passed: bool = True) -> list[ast.Call]:
    """The calls that run a function, in the order of files and lines."""
    if not isinstance(function, Function):
        return []
    cls = module.parents[function]
    names = {function.name}
    if function.name in ("__init__", "__call__") and isinstance(cls, ast.ClassDef):
        names |= {cls.name, *(c.name for c in derived_classes(module, cls))}
    if module.project is None or not isinstance(cls, (ast.Module, ast.ClassDef)):
        candidates = [c for c in module.calls if last_name(c.func) in names]
    else:
        candidates = module.project.calls_named(names)
    if isinstance(cls, ast.Module):
        named = [c for c in candidates if _is_of_file(module, c, function)]
        unnamed = module.project.calls_named({""}) if module.project is not None else module.calls
        return [*named, *(c for c in unnamed if is_kept_call(c) and function in module.called_functions(c))]
    return [c for c in candidates if function in module.called_functions(c, passed=passed)]


def _is_of_file(module: Module, call: ast.Call, function: Function) -> bool:
    """Whether a call is of a function at the top level of a file: by its name, or through the module it is in."""
    if isinstance(call.func, ast.Name):
        return function in module.called_functions(call)
    return f"{module.name}.{function.name}" in module.qualify(call.func)
