"""Functions that a program keeps in a dict or a list and calls from there: ``MAKERS[args.data]["train"](args)``."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.dict_uses import may_change

if TYPE_CHECKING:
    from shardfix.analysis.code.module import Module

_Key = object
_ANY = object()  # a key that is not written out
_DEPTH = 5


def is_kept_call(call: ast.Call) -> bool:
    """Whether a call may be of a function that is kept: of an item of something."""
    func = call.func
    if isinstance(func, ast.Subscript):
        return True
    return isinstance(func, ast.Call) and isinstance(func.func, ast.Attribute) and func.func.attr == "get"


def kept(module: Module, func: ast.expr) -> list[Definition]:
    """The functions and classes that an item of a dict or a list may be; none where one of its items is not seen to be
    such a one, or where what is in it is not seen."""
    found = _held(module, func, (), 0)
    if found is None:
        return []
    leaves: list[Definition] = []
    for value in found:
        if isinstance(value, ast.Constant) and value.value is None:
            continue  # it can't be called
        own = module.home(value)
        bound = list(own.bindings.reaching(value)) if isinstance(value, ast.Name) else []
        if not bound or any(d.kind == "import" for d in bound):
            bound = [d for name in sorted(own.qualify(value)) for d in own.named(name)]
        if not bound or any(d.kind not in ("function", "class") for d in bound):
            return []
        leaves += bound
    return list(dict.fromkeys(leaves))


def _held(module: Module, node: ast.expr, keys: tuple[_Key, ...], depth: int) -> list[ast.expr] | None:
    """What an expression's items may be under keys, one within the other; None where that is not seen."""
    module = module.home(node)
    if depth > _DEPTH:
        return None
    if isinstance(node, ast.Subscript):
        return _held(module, node.value, (_key(node.slice), *keys), depth + 1)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
        return _held(module, node.func.value, (_key(node.args[0]), *keys), depth + 1)
    if isinstance(node, ast.Dict) and keys:
        if any(k is None for k in node.keys):
            return None
        chosen = [v for k, v in zip(node.keys, node.values, strict=True) if k is not None and _may_be(_key(k), keys[0])]
        return _within(module, chosen, keys[1:], depth)
    if isinstance(node, (ast.List, ast.Tuple)) and keys:
        if any(isinstance(e, ast.Starred) for e in node.elts):
            return None
        chosen = [e for i, e in enumerate(node.elts) if not isinstance(keys[0], int) or i == keys[0] or keys[0] < 0]
        return _within(module, chosen, keys[1:], depth)
    if isinstance(node, (ast.Name, ast.Attribute)) and keys:
        bound = list(module.bindings.reaching(node))
        if not bound or any(d.kind == "import" for d in bound):
            bound = [d for name in sorted(module.qualify(node)) for d in module.named(name)]
        parts = [_of_name(module.home(d.node), d, keys, depth) for d in bound]
        return _joined(parts)
    return None


def _of_name(module: Module, d: Definition, keys: tuple[_Key, ...], depth: int) -> list[ast.expr] | None:
    """What a variable of a file holds under keys: what it is made with, and what is stored by its name."""
    if d.kind != "assign" or d.value is None or d.index is not None:
        return None
    parts = [_held(module, d.value, keys, depth + 1)]
    for use in (*module.bindings.readers(d), *_imported(module, d)):
        own = module.home(use)
        item = own.parents[use]
        if isinstance(item, ast.Subscript) and item.value is use and not isinstance(item.ctx, ast.Load):
            statement = own.parents[item]
            if not isinstance(statement, ast.Assign):
                return None
            if _may_be(_key(item.slice), keys[0]):
                parts.append(_within(own, [statement.value], keys[1:], depth))
        elif isinstance(item, ast.Subscript) and item.value is use:
            outer = own.parents[item]
            if isinstance(outer, ast.Subscript) and not isinstance(outer.ctx, ast.Load):
                return None  # D["a"]["train"] = ..
        elif may_change(own, use) and not isinstance(own.parents[item], ast.keyword):
            return None
    return _joined(parts)


def _imported(module: Module, d: Definition) -> list[ast.expr]:
    """The reads of a top-level variable in the files that import it by its name."""
    if module.project is None or not isinstance(d.scope, ast.Module):
        return []
    others = module.project.imported_as(f"{module.name}.{d.key}")
    return [use for other in others for use in module.home(other.scope).bindings.readers(other)]


def _within(module: Module, values: list[ast.expr], keys: tuple[_Key, ...], depth: int) -> list[ast.expr] | None:
    return values if not keys or not values else _joined([_held(module, v, keys, depth + 1) for v in values])


def _joined(parts: Iterable[list[ast.expr] | None]) -> list[ast.expr] | None:
    known = list(parts)
    if not known or any(part is None for part in known):
        return None
    return [value for part in known if part is not None for value in part]


def _key(node: ast.expr) -> _Key:
    return node.value if isinstance(node, ast.Constant) else _ANY


def _may_be(one: _Key, other: _Key) -> bool:
    return one is _ANY or other is _ANY or one == other


__all__ = ["is_kept_call", "kept"]
