"""What a project puts under a name anywhere: the settings of a program may hold the rank by many ways."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.programs.together import together
from shardfix.analysis.ranks.going_by_rank import goes_by_rank

_SETTINGS = re.compile(
    r"(?i)(^|[._(])(args?|arguments|cfgs?|configs?|conf|opts?|options?|flags|hparams|hps?|params|settings)$"
)


@dataclass(frozen=True, eq=False, slots=True)
class Put:
    """A value that is put under a name.

    Args:
        owner: the object that it is put in; None for keywords, keys of a dict and options of the command line.
        item: whether it is an item, not an attribute.
    """

    value: ast.expr
    owner: ast.expr | None = None
    item: bool = False


@dataclass
class Stored:
    """What a project puts under a name: as an attribute, a keyword, a key or a default of the command line."""

    module: Module

    def _of(self, name: str) -> list[Put]:
        return [put for m in together(self.module) for put in (*_puts(m).get(name, ()), *_puts(m).get("", ()))]

    def by_rank(self, name: str) -> bool:
        """Whether anything that goes by the rank is put under a name."""
        return any(goes_by_rank(self.module, put.value) for put in self._of(name))

    def settings(self, name: str) -> list[ast.expr]:
        """What is put under a name of an object of settings."""
        return [p.value for p in self._of(name) if p.owner is not None and not p.item and self._may_be(p.owner)]

    def _may_be(self, owner: ast.expr) -> bool:
        """Whether an object may be one of settings: by its name, or as what a function is given."""
        if is_settings(owner):
            return True
        if not isinstance(owner, ast.Name) or owner.id in ("self", "cls"):
            return False
        home = self.module.home(owner)
        found = home.bindings.reaching(owner)
        return bool(found) and all(d.kind == "parameter" for d in found) and not home.instances(owner)

    def items(self, key: str) -> list[ast.expr]:
        """What is put under a key of settings."""
        return [p.value for p in self._of(key) if p.owner is not None and is_settings(p.owner) and p.item]

    def values(self, name: str) -> list[ast.expr]:
        """What is put under a name of any object."""
        return [p.value for p in self._of(name) if p.owner is not None]

    def loads(self, name: str) -> list[ast.Attribute]:
        """Where an attribute of this name is read."""
        return [load for m in together(self.module) for load in m.attribute_loads.get(name, ())]

    def of_file(self, name: str, home: Module) -> list[ast.expr]:
        """What is put under a name of a file otherwise than by its name: ``globals()["x"] = ..``, ``module.x = ..``"""
        owned = [p for p in self._of(name) if p.owner is not None]
        found = [p.value for p in owned if p.owner is not None and _is_file(self.module.home(p.owner), p.owner, home)]
        for call in home.calls if "globals()" in home.text else ():
            func = call.func
            if isinstance(func, ast.Attribute) and func.attr == "update" and _is_file(home, func.value, home):
                found += [*call.args, *(k.value for k in call.keywords if k.arg in (name, None))]
        return found

    def outside(self, name: str, classes: list[ast.ClassDef]) -> list[ast.expr]:
        """What is put under a name of objects that may be of these classes, but by their own methods."""
        puts = [p for p in self._of(name) if p.owner is not None and not p.item and ast.unparse(p.owner) != "self"]
        found = []
        for put in puts:
            assert put.owner is not None
            seen = self.module.home(put.owner).instances(put.owner)
            if not is_settings(put.owner) and (not seen or set(seen) & set(classes)):
                found.append(put.value)
        return found


def _is_file(module: Module, owner: ast.expr, home: Module) -> bool:
    if module is home and isinstance(owner, ast.Call):
        return last_name(owner.func) in ("globals", "vars") and not owner.args
    return home.name in module.qualify(owner) and isinstance(owner, (ast.Name, ast.Attribute))


def is_settings(node: ast.expr) -> bool:
    """Whether an object is one of settings by its name: ``args``, ``self.cfg``, ``vars(args)``, ``args.__dict__``."""
    return bool(_SETTINGS.search(ast.unparse(node).rstrip(")").removesuffix(".__dict__")))


_KNOWN: WeakKeyDictionary[Module, dict[str, list[Put]]] = WeakKeyDictionary()  # a file is asked for many names


def _puts(module: Module) -> dict[str, list[Put]]:
    """What a file puts under each name; what it may put under any is under none."""
    known = _KNOWN.get(module)
    if known is None:
        known = _KNOWN[module] = {}
        for n in ast.walk(module.tree):
            for name, put in _put_by(n):
                known.setdefault(name, []).append(put)
    return known


def _put_by(n: ast.AST) -> Iterator[tuple[str, Put]]:
    if isinstance(n, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and n.value is not None:
        targets = n.targets if isinstance(n, ast.Assign) else [n.target]
        for target, value in (pair for t in targets for pair in _pairs(t, n.value)):
            if isinstance(target, ast.Attribute):
                yield target.attr, Put(value, target.value)
            elif isinstance(target, ast.Subscript):
                yield from ((key, Put(value, target.value, item=True)) for key in _text(target.slice))
    elif isinstance(n, (ast.For, ast.AsyncFor, ast.withitem)):
        bound, given = (n.optional_vars, n.context_expr) if isinstance(n, ast.withitem) else (n.target, n.iter)
        inside = ast.walk(bound) if bound is not None else ()
        yield from ((t.attr, Put(given, t.value)) for t in inside if isinstance(t, ast.Attribute) and _is_set(t))
    elif isinstance(n, ast.Call):
        yield from ((k.arg, Put(k.value)) for k in n.keywords if k.arg)
        if isinstance(n.func, ast.Attribute) and n.func.attr == "update" and is_settings(n.func.value):
            yield from (("", Put(a)) for a in n.args)
        if last_name(n.func) in ("setattr", "__setattr__") and len(n.args) == 3:
            if not isinstance(n.args[1], ast.Constant):
                yield "", Put(n.args[2])
            yield from ((key, Put(n.args[2], n.args[0])) for key in _text(n.args[1]))
        elif last_name(n.func) in ("add_argument", "option", "DEFINE_bool", "DEFINE_boolean", "DEFINE_integer"):
            named = [key.lstrip("-").replace("-", "_") for a in n.args for key in _text(a)]
            named += [key for k in n.keywords if k.arg == "dest" for key in _text(k.value)]
            yield from ((key, Put(a)) for key in named for a in arguments_of(n))
    elif isinstance(n, ast.Dict):
        yield from ((key, Put(v)) for k, v in zip(n.keys, n.values, strict=True) if k is not None for key in _text(k))


def _is_set(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store)


def _text(node: ast.expr) -> list[str]:
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(target, (ast.Tuple, ast.List)):
        values = (
            value.elts if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts) else None
        )
        for i, t in enumerate(target.elts):
            yield from _pairs(t, values[i] if values is not None else value)
    else:
        yield target, value


__all__ = ["Put", "Stored", "is_settings"]
