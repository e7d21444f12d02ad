"""What of the statements of an evaluation reaches a value that is compared: the rest may be anything."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shardfix.analysis.code.names import last_name

_PAIRWISE = frozenset({"reduced", "CALLED"})  # each of several targets is of one argument, or name, alone
# Calls that make a new value, which holds nothing that could be changed by it.
_NEW = frozenset(
    {"MODEL", "NUMBER", "ANY_ROWS", "UNSURE", "SEVERAL", "LAYERS", "CALLED", "float", "int", "len", "round"}
)
# Calls that change nothing of what they are given.
_PURE = _NEW | {"torch", "numpy", "math", "reduced", "in_order", "of_all_batches"}
_READS = frozenset({"item", "mean", "sum", "tolist", "numpy", "detach", "cpu", "float", "size", "argmax"})
_NUMBERS = (ast.Div, ast.Sub, ast.FloorDiv, ast.Mod, ast.Pow)  # what they give holds nothing of what they are given


@dataclass(frozen=True)
class _Flow:
    """One part of a statement: the names whose value it may decide (None: what is run), and what decides that.

    ``changed``: the names of what it may change in place, so under all names that it has; ``deep``: or of what these
    hold. ``replaces``: whether the names are given the value itself.
    """

    into: frozenset[str] | None
    value: ast.AST
    changed: frozenset[str] = frozenset()
    deep: bool = False
    replaces: bool = False


def reaching(statements: Sequence[ast.stmt]) -> set[ast.AST]:
    """The nodes of the statements that may decide what is kept in ``VALUES``, or which statements are run.

    Names count wherever they stand: what is not among these nodes decides nothing, in whatever order it is run.
    """
    flows = [flow for s in statements for flow in _flows(s)]
    same: dict[str, set[str]] = {}
    held: dict[str, set[str]] = {}
    for flow in flows:
        for text in flow.into or ():
            held.setdefault(text, set()).update(_held(flow.value))
            if flow.replaces:
                same.setdefault(text, set()).update(_same(flow.value))
    found: set[ast.AST] = set()
    wanted: set[str] = {"VALUES"}
    before = -1
    while len(found) > before:
        before = len(found)
        for flow in flows:
            changed = _with_sources(flow.changed, held if flow.deep else same)
            if flow.into is None or (flow.into | changed) & wanted:
                found |= set(ast.walk(flow.value))
                wanted |= _names(flow.value)
    return found


def _names(node: ast.AST) -> frozenset[str]:
    """The names in some code, but for those of stand-ins."""
    return frozenset({n.id for n in ast.walk(node) if isinstance(n, ast.Name) and n.id not in _PURE})


def _held(value: ast.AST) -> frozenset[str]:
    """The names of what a value may be, or hold."""
    if isinstance(value, (ast.Compare, ast.Constant)) or (
        isinstance(value, ast.Call) and last_name(value.func) in _NEW
    ):
        return frozenset()
    return frozenset() if isinstance(value, ast.BinOp) and isinstance(value.op, _NUMBERS) else _names(value)


def _same(value: ast.AST) -> frozenset[str]:
    """The names of what a value may be itself, or a view of it."""
    container = (ast.List, ast.Tuple, ast.Dict, ast.Set, ast.ListComp, ast.BinOp)
    return frozenset() if isinstance(value, container) else _held(value)


def _with_sources(names: frozenset[str], taken: dict[str, set[str]]) -> frozenset[str]:
    """The names, and those of what they were taken from."""
    found, left = set(names), list(names)
    while left:
        new = taken.get(left.pop(), set()) - found
        found |= new
        left += new
    return frozenset(found)


def _flows(s: ast.stmt) -> Iterator[_Flow]:
    if isinstance(s, ast.Assign) and len(s.targets) == 1:
        yield from _assigned(s.targets[0], s.value)
    elif isinstance(s, ast.AugAssign):
        yield from _kept_in(s.target, s.value)
    elif isinstance(s, ast.Expr) and isinstance(s.value, ast.Call) and isinstance(s.value.func, ast.Attribute):
        yield from _kept_in(s.value.func, s.value)
    elif isinstance(s, ast.If):
        yield _Flow(None, s.test)
        for inner in (*s.body, *s.orelse):
            yield from _flows(inner)
    elif isinstance(s, ast.For):
        yield _Flow(None, s.iter)
        yield from _assigned(s.target, s.iter)
        for inner in (*s.body, *s.orelse):
            yield from _flows(inner)
    else:
        yield _Flow(None, s)


def _assigned(target: ast.expr, value: ast.expr) -> Iterator[_Flow]:
    pairs = _pairs(target, value)
    if pairs is not None:
        for one, part in pairs:
            yield from _assigned(one, part)
    elif isinstance(target, (ast.Tuple, ast.List)):
        for one in target.elts:
            yield from _assigned(one, value)
    elif isinstance(target, ast.Name):
        yield _Flow(frozenset({target.id}), value, _changed(value), True, replaces=True)
    else:
        yield from _kept_in(target, value)


def _kept_in(target: ast.expr, value: ast.expr) -> Iterator[_Flow]:
    """What changes a name's value in place: that itself, or what it holds."""
    root, steps, keys = target, 0, []
    while isinstance(root, (ast.Attribute, ast.Subscript, ast.Starred)):
        keys += [root.slice] if isinstance(root, ast.Subscript) else []
        root, steps = root.value, steps + 1
    into = frozenset({root.id}) if isinstance(root, ast.Name) else None
    for part in (value, *keys):
        yield _Flow(into, part, into or frozenset(), steps > 1)
        yield _Flow(frozenset(), part, _changed(part), True)


def _changed(value: ast.expr) -> frozenset[str]:
    """The names of what something that is called in an expression may change: what it is given, or called on."""
    calls = [n for n in ast.walk(value) if isinstance(n, ast.Call) and not _is_pure(n)]
    return frozenset().union(*(_names(n) for n in calls))


def _is_pure(node: ast.Call) -> bool:
    """Whether a call is of a stand-in, of a function that makes a new value, or of a method that does."""
    function: ast.expr = node.func
    if any(k.arg in (None, "out") for k in node.keywords) or last_name(function).endswith("_"):
        return False
    if isinstance(function, ast.Attribute) and function.attr in _READS:
        return True
    while isinstance(function, (ast.Attribute, ast.Call)):
        function = function.value if isinstance(function, ast.Attribute) else function.func
    return isinstance(function, ast.Name) and function.id in _PURE


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]] | None:
    """Targets and what decides each of them, where these go together one by one."""
    if not isinstance(target, (ast.Tuple, ast.List)) or not isinstance(value, ast.Call):
        return None
    if not isinstance(value.func, ast.Name) or value.func.id not in _PAIRWISE or value.keywords:
        return None
    given = value.args
    if value.func.id == "CALLED" and isinstance(given[-1], ast.Tuple):
        given = [ast.Tuple([given[0], n], ast.Load()) for n in given[-1].elts]
    if len(given) != len(target.elts) or any(isinstance(a, ast.Starred) for a in given):
        return None
    return list(zip(target.elts, given, strict=True))


__all__ = ["reaching"]
