"""Whether an evaluation drops the samples that its sampler repeats: the ranks' results are merged by sample."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.code.own import own_calls, own_nodes
from shardfix.analysis.loops.accumulation import (
    accumulated,
    left_over,
    mentions,
    names_bound,
    root_of,
    stores_in,
    told_by,
)
from shardfix.analysis.loops.exactness import GATHERS, derived
from shardfix.analysis.model import Evidence

_DEPTH = 4  # functions that are looked into, one called by the other
_CLOCKS = frozenset({"time", "perf_counter", "monotonic", "process_time", "elapsed_time", "default_timer"})
_FILLS = frozenset({"append", "extend"})
_ONCE = frozenset({"set", "frozenset", "dict"})


def merged_by_sample(module: Module, loops: Sequence[ast.AST]) -> Evidence | None:
    """The line that merges what loops over a sharded loader keep, so that a sample which two ranks had counts once:
    numpy's ``unique`` by index, a dict or a set of what was gathered. None where anything that outlives a loop is not
    merged so, but for what only measures time."""
    found: Evidence | None = None
    for loop in loops:
        here = module.home(loop)
        for name in _kept(here, loop):
            merging = _merging(here, loop, name) if name else None
            if merging is None:
                return None
            found = found or merging
    return found


def _kept(module: Module, loop: ast.AST) -> Iterator[str]:
    """The names of what outlives a loop and is no time; an empty one where it has none."""
    over, inside = left_over(module, loop), names_bound(module, loop)
    timed: dict[str, bool] = {}
    for call in own_calls(loop):
        if isinstance(call.func, ast.Attribute) and not isinstance(call.func.value, ast.Call):
            name = root_of(call.func.value)
            timed[name] = timed.get(name, True) and all(_is_time(module, a, 0) for a in arguments_of(call))
    for name in (*(root_of(s.target) for s in accumulated(loop)), *told_by(module, loop)):
        if name in inside and name not in over:
            continue  # made anew for each batch
        if name == "?":
            yield ""
        elif not timed.get(name, False):
            yield name
    yield from (root_of(n.targets[0]) for n in stores_in(module, loop))
    for d in module.bindings.definitions:
        if d.key in over and d.key in inside and d.statement is not loop and any(n is d.node for n in own_nodes(loop)):
            if d.value is None or not _is_time(module, d.value, 0):
                yield d.key


def _is_time(module: Module, node: ast.expr, depth: int) -> bool:
    """Whether a value is only of clocks and constants: ``time.time() - start``."""
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.BinOp):
        return _is_time(module, node.left, depth) and _is_time(module, node.right, depth)
    if isinstance(node, ast.Call):
        return last_name(node.func) in _CLOCKS
    if isinstance(node, ast.Name) and depth < _DEPTH:
        reaching = module.bindings.reaching(node)
        values = [d.value if d.kind in ("assign", "augmented") and d.index is None else None for d in reaching]
        return bool(values) and all(v is not None and _is_time(module, v, depth + 1) for v in values)
    return False


def _merging(module: Module, loop: ast.AST, name: str) -> Evidence | None:
    """Where what a name holds is merged by sample, behind a loop."""
    last = getattr(loop, "end_lineno", 0)
    for call in own_calls(module.scope(loop)):
        if call.lineno <= last:
            continue
        own = isinstance(call.func, ast.Attribute) and root_of(call.func.value) == name
        if not own and not any(mentions(a, {name}) for a in arguments_of(call)):
            continue
        found = next((e for f in _reached(module, call) if (e := _merges(module.home(f), f)) is not None), None)
        if found is not None:
            return found
    return None


def _reached(module: Module, call: ast.Call) -> list[ast.AST]:
    """The functions of the project that a call runs, those that they call included."""
    found: list[ast.AST] = list(module.called_functions(call))
    newest = found
    for _ in range(_DEPTH):
        newest = [f for n in newest for c in own_calls(n) for f in module.called_functions(c) if f not in found]
        found += newest
    return found


def _merges(module: Module, function: ast.AST) -> Evidence | None:
    """Where a function merges what it gathers, so that what is there twice is kept once."""
    body: list[ast.stmt] = getattr(function, "body", [])
    gathers = [c for c in own_calls(function) if last_name(c.func) in GATHERS]
    if not gathers:
        return None
    outputs: set[str] = set()
    for call in gathers:
        statement = module.statement(call)
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if isinstance(statement, ast.For):  # for part in all_gather(parts)
            targets = [statement.target]
        outputs |= {root_of(n) for t in targets for n in ast.walk(t) if isinstance(n, (ast.Name, ast.Attribute))}
        outputs |= {root_of(call.args[0])} if len(call.args) > 1 else set()
    gathered = _made_of(body, outputs - {""})
    once = next((n for s in body for n in ast.walk(s) if _keeps_once(module, n, gathered, body)), None)
    return module.evidence(once) if once is not None else None


def _made_of(body: list[ast.stmt], names: set[str]) -> set[str]:
    """The names that hold what some hold, what is filled with it included."""
    found = derived(body, names)
    fills = [n for s in body for n in ast.walk(s) if isinstance(n, ast.Call) and last_name(n.func) in _FILLS]
    while True:
        told = (n for n in fills if any(mentions(a, found) for a in n.args))
        more = derived(body, found | {root_of(n.func.value) for n in told if isinstance(n.func, ast.Attribute)} - {""})
        if more == found:
            return found
        found = more


def _keeps_once(module: Module, node: ast.AST, gathered: set[str], body: list[ast.stmt]) -> bool:
    if isinstance(node, ast.DictComp):
        counted = any(isinstance(n, ast.Call) and last_name(n.func) == "enumerate" for n in ast.walk(node))
        return not counted and any(mentions(g.iter, gathered) for g in node.generators)
    if not (isinstance(node, ast.Call) and any(mentions(a, gathered) for a in arguments_of(node))):
        return False
    if last_name(node.func) == "unique":
        return _taken_by_index(module, node, body)
    if last_name(node.func) == "update" and isinstance(node.func, ast.Attribute):
        return _is_dict(module, node.func.value) and any(isinstance(n, ast.For) for n in module.around(node))
    counted = any(isinstance(n, ast.Call) and last_name(n.func) == "enumerate" for n in ast.walk(node))
    return isinstance(node.func, ast.Name) and node.func.id in _ONCE and not counted


def _taken_by_index(module: Module, call: ast.Call, body: list[ast.stmt]) -> bool:
    """``ids, index = unique(ids, return_index=True)``, and results that are taken by that index."""
    told = any(k.arg == "return_index" and isinstance(k.value, ast.Constant) and k.value.value for k in call.keywords)
    statement = module.statement(call)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if not told or not (isinstance(target, ast.Tuple) and len(target.elts) > 1):
        return False
    index = root_of(target.elts[1])
    names = derived(body, {index})
    items = (n for s in body for n in ast.walk(s) if isinstance(n, ast.Subscript))
    in_turn = {
        t.id
        for s in body
        for n in ast.walk(s)
        if isinstance(n, ast.comprehension) and mentions(n.iter, names)
        for t in ast.walk(n.target)
        if isinstance(t, ast.Name)
    }
    return any(mentions(n.slice, names | in_turn) for n in items)


def _is_dict(module: Module, node: ast.expr) -> bool:
    values = [d.value for d in module.bindings.reaching(node)]
    return bool(values) and all(
        isinstance(v, (ast.Dict, ast.DictComp)) or (isinstance(v, ast.Call) and last_name(v.func) in _ONCE)
        for v in values
    )
