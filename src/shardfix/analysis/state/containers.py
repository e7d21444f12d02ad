"""What a list, a dict or a named tuple holds under a key: what it is made with, and what is put into it later."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.loaders.flow import follow
from shardfix.analysis.loaders.uses import ANY, Selector

DISPLAYS = (ast.Tuple, ast.List, ast.Set, ast.Dict)
Access = tuple[Selector, ...]
_ADDS = frozenset({"append", "add", "appendleft"})
_MOVES = frozenset({"insert", "pop", "remove", "sort", "reverse", "clear", "appendleft", "extendleft", "rotate"})
_SETS = frozenset({"__setitem__", "__setattr__", "__ior__", "__iadd__", "popitem", "move_to_end"})
_INSIDE = ("__dict__", "_asdict")  # of a namespace: its items by their names


def items(made: ast.expr, access: Access) -> Iterator[tuple[ast.expr, Access]]:
    """What a display or ``dict(..)`` holds at a place, and how the value is got at from that."""
    first, rest = access[0], access[1:]
    if isinstance(made, ast.Dict):
        for key, value in zip(made.keys, made.values, strict=True):
            if key is None:
                yield value, access
            elif ANY in (first, known := _known(key)) or known == first:
                yield value, rest
    elif isinstance(made, ast.Call):
        yield from ((a, access) for a in made.args)
        for k in made.keywords:
            if k.arg is None:
                yield k.value, access
            elif first in (ANY, k.arg):
                yield k.value, rest
    elif isinstance(made, (ast.Tuple, ast.List, ast.Set)):
        moved = any(isinstance(e, ast.Starred) for e in made.elts)
        for i, value in enumerate(made.elts):
            if isinstance(value, ast.Starred):
                yield value.value, (ANY, *rest)
            elif moved or first in (i, ANY) or (isinstance(first, int) and first == i - len(made.elts)):
                yield value, rest


def _known(key: ast.expr) -> Selector:
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, (str, int)) else ANY


def changes(module: Module, made: ast.expr, access: Access) -> Iterator[tuple[ast.expr | None, Access]]:
    """What is put at a place of a container wherever it goes; None where what is there then is not seen."""
    for alias in follow(module, made).aliases:
        home = module.home(alias)
        outer = home.parents[alias]
        if isinstance(outer, ast.Subscript) and outer.value is alias:
            yield from _put(home, outer, _known(outer.slice), isinstance(outer.slice, ast.Slice), access)
        elif isinstance(outer, ast.Attribute):
            call = home.parents[outer]
            if outer.attr in _INSIDE:
                if not isinstance(call, ast.Subscript) or not isinstance(call.ctx, ast.Load):
                    yield None, ()
            elif isinstance(call, ast.Call) and call.func is outer:
                yield from _told(call, made, access)
            else:
                yield from _put(home, outer, f".{outer.attr}", False, access)
        elif isinstance(outer, ast.Call) and last_name(outer.func) in ("setattr", "vars", "setitem"):
            yield from _set(outer, access)


def _put(
    home: Module, target: ast.Subscript | ast.Attribute, key: Selector, several: bool, access: Access
) -> Iterator[tuple[ast.expr | None, Access]]:
    """``container[key] = value``, ``namespace.name = value``"""
    if isinstance(target.ctx, ast.Load):
        return
    statement = home.statement(target)
    plain = isinstance(statement, ast.Assign) and target in statement.targets and not several
    if isinstance(target.ctx, ast.Del):
        if isinstance(access[0], int) or several:
            yield None, ()
    elif several or ANY in (key, access[0]) or key == access[0]:
        yield (statement.value, access[1:]) if plain and isinstance(statement, ast.Assign) else (None, ())


def _told(call: ast.Call, made: ast.expr, access: Access) -> Iterator[tuple[ast.expr | None, Access]]:
    """``container.append(value)``, ``container.update(..)``"""
    name, first, rest = last_name(call.func), access[0], access[1:]
    listed = isinstance(made, (ast.List, ast.Tuple))
    length = len(made.elts) if isinstance(made, (ast.List, ast.Tuple)) else 0
    behind = first == ANY or not listed or (isinstance(first, int) and not 0 <= first < length)
    if name in _SETS or (name in _MOVES and (isinstance(first, int) or name == "insert")):
        yield None, ()
    elif name in _ADDS and behind:
        yield from ((a, rest) for a in call.args)
    elif name == "extend" and behind:
        yield from ((a, (ANY, *rest)) for a in call.args)
    elif name == "update":
        yield from items(call, access)
    elif name == "setdefault" and len(call.args) == 2 and (ANY in (first, key := _known(call.args[0])) or key == first):
        yield call.args[1], rest


def _set(call: ast.Call, access: Access) -> Iterator[tuple[ast.expr | None, Access]]:
    """``setattr(namespace, name, value)``; what is done with ``vars(namespace)`` is not followed."""
    if last_name(call.func) == "vars" or len(call.args) != 3:
        yield None, ()
        return
    name = _known(call.args[1])
    if name == ANY or access[0] in (ANY, f".{name}", name):
        yield call.args[2], access[1:]


__all__ = ["DISPLAYS", "changes", "items"]
