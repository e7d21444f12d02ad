"""What an attribute that a loop adds to begins with: set by a method right before it, or where its object is made."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name

_Functions = (ast.FunctionDef, ast.AsyncFunctionDef)


def begun_before(module: Module, loop: ast.For, target: ast.expr) -> ast.expr | None:
    """The value of ``acc.correct`` right before a loop, after ``acc = Acc()`` or ``acc.reset()`` in the same block with
    nothing between that mentions the object; None where that is not seen."""
    if not isinstance(target, ast.Attribute) or not isinstance(target.value, ast.Name):
        return None
    base, attribute = target.value.id, target.attr
    for statement in _before(module, loop):
        call = _call(statement, base)
        if call is not None and isinstance(statement, ast.Assign):
            classes = module.project_classes(call.func)
            plain = len(classes) == 1 and not call.args and not call.keywords
            return _made_with(module, classes[0], attribute) if plain else None
        if call is not None:
            methods = list(module.called_functions(call))
            if len(methods) != 1 or module.home(methods[0]).class_of(methods[0]) is None:
                return None
            if _knows(methods[0], attribute):
                return _set_by(methods[0], attribute)
            if _passes_itself_on(methods[0]):
                return None
        elif any(isinstance(n, ast.Name) and n.id == base for n in ast.walk(statement)):
            if any(isinstance(n, ast.Attribute) and n.attr == attribute for n in ast.walk(statement)):
                return None
            if base != "self" or _reaches(module, statement):
                return None
    return None


def _before(module: Module, loop: ast.For) -> Iterator[ast.stmt]:
    """The statements before a loop in its block, the nearest first; those around a ``with`` that it stands in too."""
    node: ast.AST = loop
    while True:
        outer = module.parents.get(node)
        body = getattr(outer, "body", None)
        if not isinstance(node, ast.stmt) or not isinstance(body, list) or node not in body:
            return
        yield from reversed(body[: body.index(node)])
        if not isinstance(outer, (ast.With, ast.AsyncWith)):
            return
        node = outer


def _call(statement: ast.stmt, base: str) -> ast.Call | None:
    """``base = Class(..)``, ``base.method(..)``"""
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
        return statement.value if [ast.unparse(t) for t in statement.targets] == [base] else None
    value = statement.value if isinstance(statement, ast.Expr) else None
    method = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute)
    if method and isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        return value if ast.unparse(value.func.value) == base else None
    return None


def _made_with(module: Module, cls: ast.ClassDef, attribute: str) -> ast.expr | None:
    """What a new object has, without arguments: set in ``__init__``, or the default of a dataclass's field."""
    home = module.home(cls)
    if len(home.lineage(cls)) > 1 or cls.bases or cls.keywords:
        return None
    first = home.method(cls, "__init__")
    if first is not None:
        if not cls.decorator_list and _knows(first, attribute):
            return _set_by(first, attribute)
        called = [n for n in ast.walk(first) if isinstance(n, ast.Call)]
        resets = [m for c in called for m in home.called_functions(c) if _knows(m, attribute)]
        return _set_by(resets[0], attribute) if len(resets) == 1 and not cls.decorator_list else None
    told = [d.func if isinstance(d, ast.Call) else d for d in cls.decorator_list]
    if [last_name(d) for d in told] != ["dataclass"] or home.method(cls, "__post_init__") is not None:
        return None
    fields = [s for s in cls.body if isinstance(s, ast.AnnAssign) and ast.unparse(s.target) == attribute]
    default = fields[0].value if len(fields) == 1 else None
    return default if isinstance(default, ast.Constant) else None


def _set_by(method: ast.AST, attribute: str) -> ast.expr | None:
    """What a method sets an attribute to, whatever it is told: in one statement of its own, and nowhere else."""
    own = f"self.{attribute}"
    found: list[ast.expr] = []
    for statement in getattr(method, "body", []):
        if isinstance(statement, ast.Return):
            break
        if isinstance(statement, ast.Assign) and any(ast.unparse(t) == own for t in statement.targets):
            single = len(statement.targets) == 1 or isinstance(statement.value, ast.Constant)
            found += [statement.value] if single else []
    mentioned = [n for n in ast.walk(method) if isinstance(n, ast.Attribute) and ast.unparse(n) == own]
    return found[0] if len(found) == len(mentioned) == 1 else None


def _knows(method: ast.AST, attribute: str) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr == attribute for n in ast.walk(method))


def _passes_itself_on(method: ast.AST) -> bool:
    """Whether a method hands its object on, or calls another one of its methods."""
    inner = [n for n in ast.walk(method) if isinstance(n, ast.Call)]
    return any(isinstance(n, ast.Name) and n.id == "self" for c in inner for n in ast.walk(c))


def _reaches(module: Module, statement: ast.stmt) -> bool:
    """Whether a statement may do something with the object itself, rather than with what it holds: call a method of it
    that is not seen to leave the attributes alone, or hand it on."""
    for n in ast.walk(statement):
        if isinstance(n, ast.Call):
            owner = n.func.value if isinstance(n.func, ast.Attribute) else None
            if isinstance(owner, ast.Name) and owner.id == "self":
                return True
            given = [*n.args, *(k.value for k in n.keywords)]
            if any(isinstance(a, ast.Name) and a.id == "self" for a in given):
                return True
    return False


__all__ = ["begun_before"]
