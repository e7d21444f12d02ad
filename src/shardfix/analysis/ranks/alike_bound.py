"""What a name stands for on each rank: whether all bind it alike, and do the same to the object it holds."""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.calling import argument_of, default_of
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.programs.processes import is_rank
from shardfix.analysis.ranks.alike_names import (
    AGREED,
    CHANGES,
    COUNTERS,
    DEPTH,
    DISPLAY,
    LIBRARIES,
    MADE,
    PLAIN,
    PURE,
    SETTINGS,
    SHOWS,
)
from shardfix.analysis.ranks.launching import is_command
from shardfix.analysis.ranks.running import what_runs
from shardfix.analysis.ranks.steps import steps

if TYPE_CHECKING:
    from shardfix.analysis.ranks.alike import Alike

_Def = (ast.FunctionDef, ast.AsyncFunctionDef)


def named(alike: Alike, node: ast.Name, depth: int) -> bool:
    """Whether what a name stands for is alike."""
    found = alike.definitions(node)
    if not found:
        return hasattr(builtins, node.id) or node.id == "__file__"
    if _made_alike(alike, node):
        return True
    if set_within(alike, node, found):
        return False
    return all(defined(alike, d, node, depth) and kept(alike, d, node, depth) for d in found)


def set_within(alike: Alike, node: ast.Name, found: list[Definition]) -> bool:
    """Whether a function within sets a name of the one around it, where it is not seen when."""
    home = alike.module.home(node)
    scopes = [d.scope for d in found]
    return "nonlocal" in home.text and any(
        isinstance(n, ast.Nonlocal) and node.id in n.names and any(s in home.around(n) for s in scopes)
        for s in scopes
        for n in ast.walk(s)
    )


def _made_alike(alike: Alike, node: ast.Name) -> bool:
    """Whether the ranks agree on a value before it is read: it is reduced, or sent from one to all."""
    home = alike.module.home(node)
    for d in home.bindings.reaching(node):
        for use in home.bindings.readers(d):
            call = home.parents[use]
            if not (isinstance(call, ast.Call) and call.args and use in (call.args[0], *call.args[1:2])):
                continue
            between = getattr(d.node, "lineno", 0) <= call.lineno < node.lineno
            agreed = last_name(call.func) in AGREED and home.scope(call) is home.scope(node)
            alone = len(home.bindings.reaching(node)) == 1 and isinstance(home.parents[call], ast.Expr)
            if agreed and between and alone and alike_here(alike, home, call, 0):
                return True
    return False


def defined(alike: Alike, d: Definition, reader: ast.AST, depth: int) -> bool:
    """Whether what a definition binds is alike, where all ranks that come to its reader make it or none does."""
    if d.node in alike.open or depth > DEPTH:
        return d.node in alike.open
    if d.kind in ("function", "class"):
        return True
    alike.open.add(d.node)
    try:
        if d.kind == "import":
            return _imported(alike, d, reader, depth)
        if d.kind == "parameter":
            return _given(alike, d, depth)
        if not alike.loops.isdisjoint(alike.module.around(d.statement)):
            return True  # reduced behind the loop
        if d.value is None or not reached(alike, d, reader, depth):
            return False
        if d.kind == "loop":
            return _item_of(alike, d, reader, depth)
        return d.kind in ("assign", "augmented") and alike.value(d.value, depth)
    finally:
        alike.open.discard(d.node)


def _item_of(alike: Alike, d: Definition, reader: ast.AST, depth: int) -> bool:
    """Whether what a loop takes is alike: its count is, in each turn."""
    assert d.value is not None
    enumerated = isinstance(d.value, ast.Call) and last_name(d.value.func) == "enumerate"
    if enumerated and d.index == 0 and d.statement in alike.module.around(reader):
        return True
    return alike.value(d.value, depth)


def _imported(alike: Alike, d: Definition, reader: ast.AST, depth: int) -> bool:
    own = alike.module.named(next(iter(alike.module.home(d.node).resolve(d.module)), d.module))
    if own:
        return all(defined(alike, n, reader, depth + 1) for n in own)
    whole = isinstance(d.statement, ast.Import)
    known = whole or d.module.partition(".")[0] in LIBRARIES or bool(SETTINGS.search(d.key))
    return known and reached(alike, d, reader, depth)


def _given(alike: Alike, d: Definition, depth: int) -> bool:
    """Whether all that callers give to a parameter is alike, its default included."""
    scope = d.scope
    if d.key in ("self", "cls"):
        return True
    if not isinstance(scope, _Def) or is_rank(ast.Name(d.key, ast.Load())):
        return False
    home = alike.module.home(scope)
    if is_command(home, scope):
        return not alike.stored.by_rank(d.key)  # of the command line
    runs = what_runs(home, scope)
    starts = {start.call: start for start in runs.starts}
    calls = [c for c in runs.calls if isinstance(c, ast.Call) and c not in starts]
    by_name = bool(SETTINGS.search(d.key) or (COUNTERS.search(d.key) and runs.launched))
    unwritten = bool(runs.launched and not starts) or runs.unseen is not None or not (calls or starts)
    if unwritten and not by_name:
        return False
    for start in starts.values():
        told = start.argument(scope, d.key)
        if (told is None and not by_name) or (told is not None and not alike.value(told, depth)):
            return False
    for call in calls:
        given = argument_of(home, scope, call, d.key)
        if given is None:
            opened = any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords)
            default = default_of(scope, d.key)
            if not by_name and (opened or default is None or not alike.value(default, depth)):
                return False
        elif not alike.value(given, depth):
            return False
    return True


def reached(alike: Alike, d: Definition, reader: ast.AST, depth: int) -> bool:
    """Whether all ranks that come to a reader make a definition or none does."""
    home = alike.module.home(d.node)
    scope, mine = home.scope(d.statement), alike.module.home(reader)
    if isinstance(d.statement, ast.expr):  # of a comprehension
        return True
    common = {s.node for s in steps(mine, mine.statement(reader))} if mine is home else set()
    if not all(alike.step(s, depth) for s in steps(home, d.statement) if s.node not in common):
        return False
    if isinstance(scope, (ast.Module, ast.Lambda)) or scope in (mine.scope(reader), *mine.around(reader)):
        return True
    constructor = isinstance(scope, _Def) and scope.name == "__init__"
    return constructor or alike.comes(d.statement, depth)


def kept(alike: Alike, d: Definition, reader: ast.AST, depth: int, *, values: bool = True) -> bool:
    """Whether an object that a name holds is changed alike on all ranks, or not at all."""
    value = d.value if d.kind == "assign" and d.index is None else None
    made = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in MADE
    if (not isinstance(value, DISPLAY) and not made) or d.node in alike.open:
        return True
    home = alike.module.home(d.node)
    alike.open.add(d.node)
    try:
        return all(used(alike, home, use, depth, values) for use in home.bindings.readers(d))
    finally:
        alike.open.discard(d.node)


def used(alike: Alike, home: Module, use: ast.expr, depth: int, values: bool) -> bool:
    """Whether all ranks do the same to an object where it is read, or nothing."""
    outer = home.parents[use]
    call = home.parents.get(outer)
    if not alike.loops.isdisjoint(home.around(use)):
        return True
    if isinstance(outer, ast.Subscript) and isinstance(outer.ctx, (ast.Store, ast.Del)):
        stored = getattr(home.statement(use), "value", None)
        same = not values or stored is None or (isinstance(stored, ast.expr) and alike.value(stored, depth))
        return same and alike.value(outer.slice, depth) and alike_here(alike, home, use, depth)
    if isinstance(outer, ast.Attribute) and isinstance(call, ast.Call) and call.func is outer:
        if outer.attr not in CHANGES:
            return True
        same = not values or all(alike.value(a, depth) for a in arguments_of(call))
        return same and alike_here(alike, home, use, depth)
    if isinstance(outer, (ast.Assign, ast.Attribute, ast.AugAssign, ast.Delete)):
        return False
    if isinstance(outer, (ast.Call, ast.keyword, ast.Starred)):
        whole = outer if isinstance(outer, ast.Call) else call
        name = last_name(whole.func) if isinstance(whole, ast.Call) else ""
        root = {q.partition(".")[0] for q in home.callee(whole)} if isinstance(whole, ast.Call) else set()
        if isinstance(whole, ast.Call) and any("torch.distributed" in q for q in home.callee(whole)):
            return name in AGREED
        return name in PLAIN or name in SHOWS or (bool(root) and root <= {*PURE, "builtins", "logging", "wandb"})
    return True


def alike_here(alike: Alike, home: Module, node: ast.AST, depth: int) -> bool:
    """Whether all ranks come to a node or none does, within its function."""
    return all(alike.step(s, depth) for s in steps(home, home.statement(node)))


__all__ = ["alike_here", "defined", "kept", "named", "reached", "set_within", "used"]
