"""Whether what a call gives is the same on all ranks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.loops.evaluation import gives_all_the_same
from shardfix.analysis.ranks.alike_bound import kept
from shardfix.analysis.ranks.alike_held import put_alike, schedules, unchanged
from shardfix.analysis.ranks.alike_names import (
    DEPTH,
    DRAWN,
    LOOKS,
    OF_FILES,
    OF_ONE_PROCESS,
    PLAIN,
    PURE,
    READS,
)
from shardfix.analysis.ranks.going_by_rank import goes_by_rank
from shardfix.analysis.ranks.running import what_runs
from shardfix.analysis.ranks.steps import steps

if TYPE_CHECKING:
    from shardfix.analysis.ranks.alike import Alike


def called(alike: Alike, call: ast.Call, depth: int) -> bool:
    """Whether what a call gives is alike."""
    home = alike.module.home(call)
    name = last_name(call.func)
    given = arguments_of(call)
    functions = home.called_functions(call)
    if gives_all_the_same(home, call):
        return True
    if home.project_classes(call.func):
        return all(alike.value(a, depth) for a in given)
    if functions:
        return all(f in alike.open or gives(alike, f, depth) for f in functions)
    if name == "len":
        return all(_length(alike, a, depth) for a in call.args)
    if name in LOOKS:
        return not any(goes_by_rank(home, a) for a in given)
    if name in READS:
        return not any(goes_by_rank(home, n) for n in call.args[:1])
    if name in OF_FILES:
        return bool(given) and all(isinstance(a, ast.Attribute) and alike.value(a, depth) for a in given)
    if name in ("getenv", "get") and ast.unparse(call.func) in (
        "os.getenv",
        "os.environ.get",
        "environ.get",
        "getenv",
    ):
        keys = [str(a.value) for a in given[:1] if isinstance(a, ast.Constant)]
        return bool(keys) and not OF_ONE_PROCESS.search(keys[0]) and put_alike(alike, keys[0], depth)
    if name == "get_last_lr":
        return schedules(alike, home, depth)
    if name == "vars":
        return all(alike.value(a, depth) for a in given)
    if name == "hasattr":
        asked = [a.value for a in given[1:2] if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        return bool(asked) and not goes_by_rank(home, given[0]) and put_alike(alike, asked[0], depth)
    receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
    roots = {q.partition(".")[0] for q in home.callee(call)}
    if roots and roots <= PURE:
        drawn = any(DRAWN.search(q) for q in home.callee(call))
        return not drawn and all(alike.value(k, depth) for k in _but_device(alike, call))
    if name in PLAIN and (receiver is None or alike.value(receiver, depth)):
        return all(alike.value(a, depth) for a in _but_device(alike, call))
    return False


def _but_device(alike: Alike, call: ast.Call) -> Iterator[ast.expr]:
    """What a call is given, without the device that a value lies on."""
    if last_name(call.func) in ("to", "cuda", "cpu"):
        return
    yield from call.args
    yield from (k.value for k in call.keywords if k.arg not in ("device", "disable"))


def _length(alike: Alike, node: ast.expr, depth: int) -> bool:
    if goes_by_rank(alike.module, node):
        return False
    if isinstance(node, ast.Attribute):
        return not alike.stored.by_rank(node.attr) and unchanged(alike, node, depth, values=False)
    return not isinstance(node, ast.Name) or all(
        kept(alike, d, node, depth, values=False) for d in alike.definitions(node)
    )


def gives(alike: Alike, function: ast.FunctionDef | ast.AsyncFunctionDef, depth: int) -> bool:
    """Whether a project function gives what is alike."""
    home = alike.module.home(function)
    runs = what_runs(home, function)
    if depth > DEPTH or (runs.unseen is not None and not isinstance(runs.unseen.node, ast.FunctionDef)):
        return False
    inside = [n for n in ast.walk(function) if home.function(n) is function]
    if any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in inside):
        return False
    given = [n for n in inside if isinstance(n, ast.Return) and n.value is not None]
    alike.open.add(function)
    try:
        return bool(given) and all(
            n.value is not None and alike.value(n.value, depth) and all(alike.step(s, depth) for s in steps(home, n))
            for n in given
        )
    finally:
        alike.open.discard(function)


__all__ = ["called", "gives"]
