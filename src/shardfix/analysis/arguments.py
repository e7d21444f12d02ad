"""What a call is given: its arguments bound to the real signature, the items of a visible ``**dict`` among them."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardfix.analysis.names import SIGNATURES

if TYPE_CHECKING:
    from shardfix.analysis.module import Module

_DEPTH = 8  # how many assignments a dict is followed back


@dataclass(frozen=True, slots=True)
class Argument:
    """A value bound to a parameter: by keyword, by position, or as an item of a visible ``**dict``."""

    name: str
    value: ast.expr
    keyword: bool
    position: int | None = None
    from_dict: bool = False


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a call bound to the real signature; ``opaque`` names what could not be seen."""

    bound: dict[str, Argument]
    opaque: str = ""

    def value(self, name: str) -> ast.expr | None:
        """The expression bound to a parameter, or None."""
        argument = self.bound.get(name)
        return argument.value if argument else None


def bind(module: Module, call: ast.Call, signature: str) -> Arguments:
    """A call's arguments bound to a signature of ``names.SIGNATURES``."""
    order = SIGNATURES[signature]
    bound: dict[str, Argument] = {}
    opaque = ""
    for i, value in enumerate(call.args):
        if isinstance(value, ast.Starred) or i >= len(order):
            opaque = module.source.source(value)
            break
        bound[order[i]] = Argument(order[i], value, keyword=False, position=i)
    for keyword in call.keywords:
        if keyword.arg is not None:
            bound[keyword.arg] = Argument(keyword.arg, keyword.value, keyword=True)
            continue
        items = dict_items(module, keyword.value)
        if items is None:
            opaque = "**" + module.source.source(keyword.value)
            continue
        for name, values in items.items():
            if name not in bound:
                bound[name] = Argument(name, values[-1], keyword=False, from_dict=True)
            if len(values) > 1 and name in ("sampler", "shuffle", "batch_sampler", "dataset"):
                opaque = f"**{module.source.source(keyword.value)} (several values of {name!r})"
    return Arguments(bound, opaque)


def dict_items(module: Module, node: ast.expr, depth: int = 0) -> dict[str, list[ast.expr]] | None:
    """The items of a dict whose making is visible in this file, each key with every value; None if it is not."""
    if depth > _DEPTH:
        return None
    if isinstance(node, ast.Dict):
        found: dict[str, list[ast.expr]] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                inner = dict_items(module, value, depth + 1)
                if inner is None:
                    return None
                _extend(found, inner)
            elif isinstance(key, ast.Constant) and isinstance(key.value, str):
                found.setdefault(key.value, []).append(value)
            else:
                return None
        return found
    if isinstance(node, ast.Call) and "builtins.dict" in module.callee(node) and not node.args:
        found = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                inner = dict_items(module, keyword.value, depth + 1)
                if inner is None:
                    return None
                _extend(found, inner)
            else:
                found.setdefault(keyword.arg, []).append(keyword.value)
        return found
    if isinstance(node, ast.IfExp):
        return _union(dict_items(module, node.body, depth + 1), dict_items(module, node.orelse, depth + 1))
    if isinstance(node, ast.Name):
        return _dict_variable(module, node, depth)
    return None


def _dict_variable(module: Module, node: ast.Name, depth: int) -> dict[str, list[ast.expr]] | None:
    definitions = module.bindings.reaching(node)
    if not definitions:
        return None
    found: dict[str, list[ast.expr]] = {}
    for d in definitions:
        if d.kind != "assign" or d.value is None or d.index is not None:
            return None
        items = dict_items(module, d.value, depth + 1)
        if items is None:
            return None
        _extend(found, items)
        for use in module.bindings.readers(d):
            parent = module.parents[use]
            if isinstance(parent, ast.Attribute) and isinstance(module.parents[parent], ast.Call):
                call = module.parents[parent]
                assert isinstance(call, ast.Call)
                if parent.attr == "update":
                    more: dict[str, list[ast.expr]] | None = {}
                    for argument in call.args:
                        more = _union(more, dict_items(module, argument, depth + 1))
                    for keyword in call.keywords:
                        more = None if keyword.arg is None else _union(more, {keyword.arg: [keyword.value]})
                    if more is None:
                        return None
                    _extend(found, more)
                elif parent.attr not in ("get", "copy", "items", "keys", "values"):
                    return None
            elif isinstance(parent, ast.Subscript) and isinstance(parent.ctx, ast.Store):
                key = parent.slice
                statement = module.parents[parent]
                if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
                    return None
                if not isinstance(statement, ast.Assign):
                    return None
                found.setdefault(key.value, []).append(statement.value)
    return found


def _extend(found: dict[str, list[ast.expr]], more: dict[str, list[ast.expr]]) -> None:
    for key, values in more.items():
        found.setdefault(key, []).extend(values)


def _union(
    a: dict[str, list[ast.expr]] | None, b: dict[str, list[ast.expr]] | None
) -> dict[str, list[ast.expr]] | None:
    if a is None or b is None:
        return None
    found = {k: list(v) for k, v in a.items()}
    _extend(found, b)
    return found
