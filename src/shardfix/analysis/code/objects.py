"""Where the value of an attribute or of a module's variable is read: in other methods, classes and files."""

from __future__ import annotations

import ast

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.calling import derived_classes
from shardfix.analysis.code.module import Module

_LOADS = 400  # an attribute that is read more often is not looked for on every object that has one of its name


def family(module: Module, cls: ast.ClassDef) -> set[ast.ClassDef]:
    """A class with those that it derives from, those that derive from it, and what these derive from besides: their
    ``self`` may be one object."""
    derived = derived_classes(module, cls)
    return {*module.lineage(cls), *(member for other in derived for member in module.lineage(other))}


def attribute_loads(module: Module, attribute: str) -> list[ast.Attribute]:
    """The loads of an attribute by its name, in every file."""
    if module.project is None:
        return module.attribute_loads.get(attribute, [])
    return module.project.loads_named(attribute)


def crowded(module: Module, attribute: str) -> bool:
    """Whether so many loads have an attribute's name that those on other objects are looked for in its file only."""
    return len(attribute_loads(module, attribute)) > _LOADS


def self_loads(module: Module, cls: ast.ClassDef, attribute: str) -> list[ast.Attribute]:
    """The loads of ``self.attribute`` in a class and its family."""
    relatives = family(module, cls)
    loads = attribute_loads(module, attribute)
    mine = [n for n in loads if isinstance(n.value, ast.Name) and n.value.id == "self"]
    return [n for n in mine if module.class_of(n) in relatives]


def instance_loads(module: Module, cls: ast.ClassDef, attribute: str) -> list[ast.Attribute]:
    """The loads of ``x.attribute`` where ``x`` is an instance of a class or of one that derives from it."""
    relatives = {cls, *derived_classes(module, cls)}
    own = module.home(cls)
    loads = own.attribute_loads.get(attribute, []) if crowded(own, attribute) else attribute_loads(own, attribute)
    others = [n for n in loads if not (isinstance(n.value, ast.Name) and n.value.id in ("self", "cls"))]
    return [n for n in others if not relatives.isdisjoint(module.instances(n.value))]


def constructed_somewhere(module: Module, cls: ast.ClassDef) -> bool:
    """Whether a call in the project makes an instance of just this class."""
    named = module.project.calls_named({cls.name}) if module.project is not None else module.calls
    return any(cls in module.home(c).project_classes(c.func) for c in named)


def imported_loads(module: Module, d: Definition) -> list[ast.expr]:
    """The loads, in other files, of a variable that a module binds at its top level."""
    own = module.home(d.scope)
    if not isinstance(d.scope, ast.Module) or "." in d.key or own.project is None:
        return []
    if d not in own.bindings.exit_of(d.scope).get(d.key, frozenset()):
        return []
    qualified = f"{own.name}.{d.key}"
    found = [
        n for o in own.project.imported_as(qualified) if own.home(o.scope) is not own for n in own.bindings.readers(o)
    ]
    loads: list[ast.expr] = [n for n in attribute_loads(own, d.key) if own.home(n) is not own]
    return found + [n for n in loads if qualified in own.home(n).qualify(n)]


def named_fields(module: Module, call: ast.Call) -> list[str] | None:
    """The fields of the named tuple that a call makes (``Loaders = namedtuple("Loaders", "train val")``), or of a
    namespace; None for any other call."""
    if not module.callee(call).isdisjoint(_NAMESPACES):
        return []
    found = list(module.bindings.reaching(call.func))
    found += [d for name in sorted(module.qualify(call.func)) for d in module.named(name)]
    for d in found:
        if not module.is_call(d.value, "collections.namedtuple"):
            continue
        given = d.value.args[1:2] if isinstance(d.value, ast.Call) else []
        for fields in given:
            if isinstance(fields, ast.Constant) and isinstance(fields.value, str):
                return fields.value.replace(",", " ").split()
            if isinstance(fields, (ast.List, ast.Tuple)):
                return [str(e.value) for e in fields.elts if isinstance(e, ast.Constant)]
    return None


_NAMESPACES = frozenset({"types.SimpleNamespace", "argparse.Namespace"})


def field_of(module: Module, cls: ast.ClassDef, call: ast.Call, argument: ast.AST) -> str:
    """The attribute under which a class without ``__init__`` (a data class, a named tuple) keeps an argument; empty if
    none is seen."""
    for keyword in call.keywords:
        if keyword is argument or keyword.value is argument:
            return keyword.arg or ""
    names = [
        s.target.id
        for c in reversed(module.lineage(cls))
        for s in c.body
        if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)
    ]
    plain = not any(isinstance(a, ast.Starred) for a in call.args)
    position = next((i for i, a in enumerate(call.args) if a is argument), len(names))
    return names[position] if plain and position < len(names) else ""
