"""What a value may be on the way by which its function was entered: parameters are what that call gives them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.calling import argument_of, arguments_given, default_of
from shardfix.analysis.code.module import Module
from shardfix.analysis.loaders.branches import conditions

_Function = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEPTH = 3  # names that a literal is followed through

Path = tuple[int | str, ...]  # the items that are taken of a value, the outermost first


@dataclass(frozen=True, slots=True)
class Value:
    """A value to look at.

    Args:
        via: the calls that led into the function it stands in, the last one last: they say what its parameters are.
        path: which item of it is meant.
    """

    module: Module
    node: ast.expr
    via: tuple[ast.Call, ...] = ()
    path: Path = ()


def passed(module: Module, d: Definition, via: tuple[ast.Call, ...]) -> Iterator[Value]:
    """What a parameter is given: by the call that led here, where one did, else by each that the project makes."""
    function = d.scope
    if not isinstance(function, _Function) or not isinstance(d.node, ast.arg):
        return
    if via:
        call = via[-1]
        where = module.home(call)
        if function in where.called_functions(call):
            yield from _argument(where, function, call, d.key, via[:-1])
            return
        made = where.project_classes(call.func)
        lineage = [m for cls in made for m in module.lineage(cls)]
        if function.name == "__init__" and module.parents[function] in lineage:
            for inner in module.callers(function):  # super().__init__(files) of a derived class
                if module.home(inner).class_of(inner) in lineage:
                    yield from _argument(module.home(inner), function, inner, d.key, via)
            return
    for call, given in arguments_given(module, d):
        if given is not None:
            yield Value(module.home(call), given)


def _argument(
    where: Module, function: ast.AST, call: ast.Call, name: str, via: tuple[ast.Call, ...]
) -> Iterator[Value]:
    assert isinstance(function, _Function)
    given = argument_of(where, function, call, name)
    if given is not None:
        yield Value(where, given, via)
        return
    default = default_of(function, name)
    opaque = any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords)
    if default is not None and not opaque:
        yield Value(where.home(function), default)


def may_run(module: Module, node: ast.AST, via: tuple[ast.Call, ...]) -> bool:
    """Whether a place may run where its function's parameters are what the call gives: not one under ``if train:`` of a
    dataset that is made with ``train=False``."""
    return all(_outcome(module, test, via) in (None, holds) for test, holds in conditions(module, node) if via)


def _outcome(module: Module, test: ast.expr, via: tuple[ast.Call, ...]) -> bool | None:
    """What a condition on one parameter is, where the call gives it a literal."""
    compared = isinstance(test, ast.Compare) and len(test.ops) == 1
    name = test.left if isinstance(test, ast.Compare) else test
    if not isinstance(name, (ast.Name, ast.Attribute)):
        return None
    given = _literals(module, name, via, 0)
    if len(given) != 1:
        return None
    (held,) = given
    if not compared:
        return bool(held)
    assert isinstance(test, ast.Compare)
    op, right = test.ops[0], test.comparators[0]
    if isinstance(right, ast.Constant) and isinstance(op, (ast.Eq, ast.Is)):
        return held == right.value
    if isinstance(right, ast.Constant) and isinstance(op, (ast.NotEq, ast.IsNot)):
        return held != right.value
    if isinstance(right, (ast.Tuple, ast.List, ast.Set)) and isinstance(op, ast.In):
        if all(isinstance(e, ast.Constant) for e in right.elts):
            return held in [e.value for e in right.elts if isinstance(e, ast.Constant)]
    return None


def _literals(module: Module, node: ast.expr, via: tuple[ast.Call, ...], depth: int) -> set[object]:
    """The literals that a name may be; an Ellipsis stands for anything else."""
    if isinstance(node, ast.Constant):
        return {node.value}
    if not isinstance(node, (ast.Name, ast.Attribute)) or depth > _DEPTH:
        return {...}
    found: set[object] = set()
    for where, d in definitions(module, node):
        if d.kind == "parameter" and via:
            given = list(passed(where, d, via))
            found |= {x for v in given for x in _literals(v.module, v.node, v.via, depth + 1)} or {..., ""}
        elif d.kind == "assign" and d.value is not None and d.index is None:
            found |= _literals(where, d.value, via, depth + 1)
        else:
            found |= {..., ""}
    return found if ... not in found else {..., ""}


def definitions(module: Module, node: ast.Name | ast.Attribute) -> list[tuple[Module, Definition]]:
    found = list(module.bindings.reaching(node))
    if not found and isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        cls = module.class_of(node)
        for member in module.lineage(cls) if cls is not None else ():
            found += module.attribute_values(member, node.attr)
    outside = [o for d in found if d.kind == "import" for q in sorted(module.qualify(node)) for o in module.named(q)]
    kept = [d for d in found if d.kind not in ("import", "function", "class")]
    return [(module.home(d.node), d) for d in (*kept, *(d for d in outside if d.kind == "assign"))]
