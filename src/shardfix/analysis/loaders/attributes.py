"""Which loads of an attribute get the value that was put there: not what is assigned or prepared in its place."""

from __future__ import annotations

import ast

from shardfix.analysis.code.calling import derived_classes
from shardfix.analysis.code.module import Module, attribute_key
from shardfix.analysis.code.objects import constructed_somewhere, family
from shardfix.analysis.loaders.rebinding import always_before
from shardfix.analysis.programs.accelerators import is_prepare


def stands(module: Module, target: ast.Attribute) -> bool:
    """Whether a method's end leaves in ``self.x`` what is assigned to it."""
    method = module.function(target)
    key = f"self.{target.attr}"
    if method is None:
        return False
    standing = module.bindings.exit_of(method).get(key, frozenset())
    return not standing or any(d in standing for d in module.bindings.definitions_at(target, key))


def prepared_later(
    module: Module,
    cls: ast.ClassDef,
    attribute: str,
    prepare_functions: tuple[str, ...],
    target: ast.Attribute | None = None,
) -> list[ast.AST]:
    """The calls that prepare an attribute of a class's instances and put what they return in its place.

    None where a class that is made does not inherit any of them: on its instances the raw value stays.

    Args:
        prepare_functions: the names of the functions of the project that prepare loaders.
        target: where the raw value is assigned.
    """
    of_target = module.bindings.definitions_at(target, attribute_key(target) or "") if target is not None else ()
    found: dict[ast.AST, ast.ClassDef] = {}
    for member in family(module, cls):
        for d in module.attribute_values(member, attribute):
            if d not in of_target and module.function(d.node) is not None:
                if _prepares(module, d.value, attribute, prepare_functions):
                    found[d.value] = member  # type: ignore[index]
    for d in module.project.stores_named(attribute) if module.project is not None else ():
        if d not in of_target and isinstance(d.node, ast.Attribute):
            if _prepares(module, d.value, attribute, prepare_functions) and cls in module.instances(d.node.value):
                found[d.value] = cls  # type: ignore[index]
    made = [c for c in (cls, *derived_classes(module, cls)) if constructed_somewhere(module, c)]
    if any(found.values()) and not all(set(found.values()) & set(module.lineage(c)) for c in made):
        return []
    return list(found)


def _prepares(module: Module, value: ast.expr | None, attribute: str, prepare_functions: tuple[str, ...]) -> bool:
    """Whether a value is what prepare() makes of an attribute of this name."""
    if not isinstance(value, ast.Call) or not is_prepare(module.home(value), value, prepare_functions):
        return False
    return any(isinstance(a, ast.Attribute) and a.attr == attribute for a in value.args)


def still_raw(module: Module, load: ast.expr, prepares: list[ast.AST]) -> bool:
    """Whether a load gets the raw value, where calls prepare it: it is their argument, or stands before one."""
    function = module.function(load)
    before = [p for p in prepares if module.function(p) is function and load.lineno < getattr(p, "lineno", 0)]
    return not prepares or module.parents[load] in prepares or bool(before)


def replaced_before(module: Module, load: ast.Attribute) -> bool:
    """Whether an attribute is assigned anew on every path to a load."""
    statements = [d.statement for d in module.bindings.reaching(load)]
    return any(isinstance(s, ast.stmt) and always_before(module, s, load) for s in statements)


__all__ = ["prepared_later", "replaced_before", "stands", "still_raw"]
