"""What a project puts under a name anywhere: the settings of a program may hold the rank by many ways."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.metrics.going_by_rank import goes_by_rank

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
    _found: dict[str, list[Put]] = field(default_factory=dict)

    def _of(self, name: str) -> list[Put]:
        if name not in self._found:
            written = name.replace("_", "[_-]")
            word = re.compile(rf"(?<![A-Za-z0-9_]){written}(?![A-Za-z0-9_])")
            files = [m for m in self.module.fellows if word.search(m.text) or "setattr(" in m.text]
            self._found[name] = [put for m in files for put in _stores(m, name)]
        return self._found[name]

    def by_rank(self, name: str) -> bool:
        """Whether anything that goes by the rank is put under a name."""
        return any(goes_by_rank(self.module, put.value) for put in self._of(name))

    def settings(self, name: str) -> list[ast.expr]:
        """What is put under a name of an object of settings."""
        return [p.value for p in self._of(name) if p.owner is not None and is_settings(p.owner) and not p.item]

    def items(self, key: str) -> list[ast.expr]:
        """What is put under a key of settings."""
        return [p.value for p in self._of(key) if p.owner is not None and is_settings(p.owner) and p.item]

    def values(self, name: str) -> list[ast.expr]:
        """What is put under a name of any object."""
        return [p.value for p in self._of(name) if p.owner is not None]

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


def is_settings(node: ast.expr) -> bool:
    """Whether an object is one of settings by its name: ``args``, ``self.cfg``, ``vars(args)``."""
    return bool(_SETTINGS.search(ast.unparse(node).rstrip(")")))


def _stores(module: Module, name: str) -> Iterator[Put]:
    """What is put under a name, in what."""
    flag = re.compile(rf"-*{re.escape(name)}")
    for n in ast.walk(module.tree):
        if isinstance(n, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and n.value is not None:
            targets = n.targets if isinstance(n, ast.Assign) else [n.target]
            for target, value in (pair for t in targets for pair in _pairs(t, n.value)):
                if isinstance(target, ast.Attribute) and target.attr == name:
                    yield Put(value, target.value)
                elif isinstance(target, ast.Subscript) and _is_text(target.slice, name):
                    yield Put(value, target.value, item=True)
        elif isinstance(n, ast.Call):
            yield from (Put(k.value) for k in n.keywords if k.arg == name)
            if last_name(n.func) in ("setattr", "__setattr__") and len(n.args) == 3:
                if _is_text(n.args[1], name):
                    yield Put(n.args[2], n.args[0])
                elif not isinstance(n.args[1], ast.Constant):
                    yield Put(n.args[2])  # under any name
            elif last_name(n.func) in ("add_argument", "option", "DEFINE_bool", "DEFINE_boolean", "DEFINE_integer"):
                flags = [a.value for a in n.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
                dest = next((k.value for k in n.keywords if k.arg == "dest"), None)
                named = any(flag.fullmatch(f.replace("-", "_").lstrip("_")) for f in flags)
                if named or (dest is not None and _is_text(dest, name)):
                    yield from (Put(a) for a in arguments_of(n))
        elif isinstance(n, ast.Dict):
            yield from (Put(v) for k, v in zip(n.keys, n.values, strict=True) if k is not None and _is_text(k, name))


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(target, (ast.Tuple, ast.List)):
        values = (
            value.elts if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts) else None
        )
        for i, t in enumerate(target.elts):
            yield from _pairs(t, values[i] if values is not None else value)
    else:
        yield target, value


def _is_text(node: ast.expr, text: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == text


__all__ = ["Put", "Stored", "is_settings"]
