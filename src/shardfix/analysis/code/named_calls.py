"""Whether a call runs a function or method that the user names in the settings."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from shardfix.analysis.code.instances import Kind, is_a
from shardfix.analysis.code.module import Module


def is_named_call(module: Module, call: ast.Call, names: Iterable[str]) -> bool:
    """Whether a call runs one of the functions named: ``wrap``, ``engine.wrap``, ``Engine.wrap``.

    A name may leave out the packages in front. One without a dot holds for every function and method of that name; a
    dotted one for a method where the object's class is seen, as the method of that class or of one that it derives
    from. A class that is not the project's own is named in full, as it is imported.
    """
    module = module.home(call)
    names = tuple(names)
    if any(_ends(name, wanted) for wanted in names for name in module.callee(call)):
        return True
    func = call.func
    wanted_here = [n for n in names if isinstance(func, ast.Attribute) and n.rpartition(".")[2] == func.attr]
    if not isinstance(func, ast.Attribute) or not wanted_here:
        return False
    if any("." not in name for name in wanted_here):
        return True
    if any(_ends(name, wanted) for name in _methods(module, func) for wanted in wanted_here):
        return True
    classes = frozenset(name.rpartition(".")[0] for name in wanted_here)
    return is_a(module, func.value, Kind(classes, "", frozenset()))


def _ends(name: str, wanted: str) -> bool:
    return name == wanted or name.endswith("." + wanted)


def _methods(module: Module, func: ast.Attribute) -> Iterator[str]:
    """The qualified names that a method has by the classes of its object."""
    for cls in module.instances(func.value):
        for member in module.lineage(cls):
            yield f"{module.home(member).name}.{member.name}.{func.attr}"
        for base in module.bases(cls):
            yield f"{base}.{func.attr}"
