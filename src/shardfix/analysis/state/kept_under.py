"""What objects of some classes may hold under an attribute: by their methods, by what made them, set from elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.calling import Function
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.code.objects import family, field_of
from shardfix.analysis.programs.together import together
from shardfix.analysis.state.stored import Stored, is_settings

_DEPTH = 4  # calls of calls


@dataclass(frozen=True, eq=False, slots=True)
class Kept:
    """A value under an attribute.

    Args:
        node: the expression; of what is not seen the node that says so.
        definition: what binds it, where it may be an item of what is assigned.
    """

    node: ast.AST
    definition: Definition | None = None


def kept_under(module: Module, classes: Collection[ast.ClassDef], attribute: str) -> Iterator[Kept]:
    """All that objects of these classes, and of what derives from them, may hold under an attribute."""
    relatives = {member for cls in classes for member in family(module, cls)}
    nothing = True
    for cls in relatives:
        for d in module.attribute_values(cls, attribute):
            nothing = False
            yield Kept(d.node, d)
        for kept in _of_body(module, cls, attribute):
            nothing = False
            yield kept
    for value in (*Stored(module).outside(attribute, list(relatives)), *_by_any_name(module, relatives)):
        nothing = False
        yield Kept(value)
    if nothing:
        yield Kept(next(iter(classes)))


def _of_body(module: Module, cls: ast.ClassDef, attribute: str) -> Iterator[Kept]:
    """What a class itself says of an attribute: a value, a field of a data class, a property."""
    home = module.home(cls)
    for s in cls.body:
        if isinstance(s, ast.Assign) and any(isinstance(t, ast.Name) and t.id == attribute for t in s.targets):
            yield Kept(s.value)
        elif isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name) and s.target.id == attribute:
            if s.value is not None:
                yield Kept(s.value)
            named = home.project.calls_named({cls.name}) if home.project is not None else home.calls
            for call in (c for c in named if cls in home.home(c).project_classes(c.func)):
                given = [a for a in (*call.args, *call.keywords) if field_of(home, cls, call, a) == attribute]
                yield from (Kept(g.value if isinstance(g, ast.keyword) else g) for g in given)
                if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
                    yield Kept(call.func)
        elif isinstance(s, Function) and s.name == "__getattribute__":
            yield Kept(s)
        elif isinstance(s, Function) and s.name == attribute:
            plain = any(last_name(d) in ("property", "cached_property") for d in s.decorator_list)
            back = [n for n in ast.walk(s) if isinstance(n, ast.Return) and home.function(n) is s]
            yield from (Kept(n.value if n.value is not None and plain else s) for n in back)


def _by_any_name(module: Module, classes: Collection[ast.ClassDef]) -> Iterator[ast.AST]:
    """What is put into objects of these classes under a name that is not written out: ``setattr(object, name, value)``,
    ``object.__dict__.update(values)``."""
    for m in together(module):
        for call in m.calls if "setattr" in m.text else ():
            if last_name(call.func) in ("setattr", "__setattr__") and len(call.args) == 3:
                owner, name, value = call.args
                if not isinstance(name, ast.Constant) and _may_be(m, owner, classes):
                    yield value
        for inside, owner in _insides(m) if "__dict__" in m.text or "vars(" in m.text else ():
            outer = m.parents[inside]
            told_by = m.parents[outer]
            given = arguments_of(told_by) if isinstance(told_by, ast.Call) else []
            told = (
                isinstance(outer, ast.Attribute) and outer.attr == "update" and not all(is_settings(g) for g in given)
            )
            stored = isinstance(outer, ast.Subscript) and not isinstance(outer.ctx, ast.Load)
            if (told or stored) and _may_be(m, owner, classes):
                yield m.statement(inside)


def _insides(module: Module) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Where all that an object holds is read as a dict, and the object."""
    yield from ((load, load.value) for load in module.attribute_loads.get("__dict__", ()))
    yield from ((c, c.args[0]) for c in module.calls if last_name(c.func) == "vars" and len(c.args) == 1)


def _may_be(module: Module, owner: ast.expr, classes: Collection[ast.ClassDef]) -> bool:
    """Whether an object may be of one of these classes."""
    if is_settings(owner):
        return False
    own = module.class_of(owner) if isinstance(owner, ast.Name) and owner.id in ("self", "cls") else None
    seen = [own] if own is not None else module.instances(owner)
    return not seen or bool(set(seen) & set(classes))


def runs(module: Module, call: ast.Call, function: ast.AST, depth: int = 0) -> bool:
    """Whether a call may run a function of the project: itself, or what it calls; what is not seen may."""
    functions = module.home(call).called_functions(call)
    if function in functions:
        return True
    if not functions:
        return isinstance(call.func, ast.Attribute) and call.func.attr == getattr(function, "name", "")
    return depth < _DEPTH and any(
        runs(module, c, function, depth + 1)
        for f in functions
        for c in module.home(f).calls
        if module.home(f).function(c) is f
    )


__all__ = ["Kept", "kept_under", "runs"]
