"""Whether a process group is sure to exist where a loader is built, and which condition of the project tells."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Literal

from shardfix.analysis.model import Evidence
from shardfix.analysis.module import Module
from shardfix.analysis.processes import distributed_test
from shardfix.analysis.regimes import ProgramRegimes

_DEPTH = 4


@dataclass(frozen=True, slots=True)
class Group:
    """When the process group exists at a place.

    Args:
        exists: ``always``, ``optional`` (only in a multi-process run), or ``unknown`` (may be made later, or never).
        condition: the project's own condition that tells, valid at the place; empty if it has none there.
        evidence: the line that makes the group.
    """

    exists: Literal["always", "optional", "unknown"]
    condition: str = ""
    evidence: Evidence | None = None


def group_at(module: Module, node: ast.AST, regimes: ProgramRegimes) -> Group:
    """When the process group exists at ``node``: every path to it must pass ``init_process_group`` first."""
    points = [r for r in regimes.own if r.what == "init" and r.owner == "ddp" and _in(module, r.node)]
    inits = {r.node: r.evidence for r in points}
    for _ in range(_DEPTH):  # a call of a function that makes the group makes it too
        for call in module.calls:
            target = module.called_function(call)
            if call in inits or target is None:
                continue
            for made in list(inits):
                if module.function(made) is target:
                    inits[call] = inits[made]
    if not inits:
        return Group("unknown")
    return _before(module, node, inits, 0)


def _in(module: Module, node: ast.AST) -> bool:
    return node in module.parents


def _before(module: Module, node: ast.AST, inits: dict[ast.AST, Evidence], depth: int) -> Group:
    function = module.function(node)
    best: Group | None = None
    for init, evidence in inits.items():
        if module.function(init) is not function:
            continue
        found = _dominates(module, init, node, evidence)
        if found is not None and (best is None or found.exists == "always"):
            best = found
    if best is not None:
        return best
    if function is None or depth >= _DEPTH:
        return Group("unknown")
    callers = module.callers(function)
    if not callers:
        return Group("unknown")
    groups = [_before(module, call, inits, depth + 1) for call in callers]
    if any(g.exists == "unknown" for g in groups):
        return Group("unknown")
    if all(g.exists == "always" for g in groups):
        return groups[0]
    # The condition was read in another function; at the place itself it may be out of scope.
    return Group("optional", _same_condition(module, node, groups), groups[0].evidence)


def _same_condition(module: Module, node: ast.AST, groups: list[Group]) -> str:
    conditions = {g.condition for g in groups}
    if len(conditions) != 1:
        return ""
    condition = conditions.pop()
    return condition if condition and _visible(module, condition, node) else ""


def _visible(module: Module, condition: str, node: ast.AST) -> bool:
    """Whether the names of a condition are read, or are parameters, in the function around a place."""
    function = module.function(node)
    if function is None:
        return False
    names = {n.id for n in ast.walk(ast.parse(condition, mode="eval")) if isinstance(n, ast.Name)}
    bound = {d.key for d in module.bindings.definitions if d.scope is function or d.scope is module.tree}
    return names <= bound


def _dominates(module: Module, init: ast.AST, node: ast.AST, evidence: Evidence) -> Group | None:
    """Whether ``init`` runs before ``node`` in the same function, always or under one condition."""
    chain = [node, *module.around(node)]
    statement: ast.AST = module.statement(init)
    tests: list[ast.expr] = []
    unclear = False
    while True:
        parent = module.parents.get(statement)
        if parent is None:
            return None
        block = module.block(statement) if isinstance(statement, ast.stmt) else []
        mine = next((s for s in block if s in chain), None)
        if mine is not None:
            if block.index(mine) < block.index(statement):  # type: ignore[arg-type]
                return None
            break
        if isinstance(parent, ast.If):
            tests.append(parent.test if statement in parent.body else ast.UnaryOp(ast.Not(), parent.test))
            if parent in chain:
                return None  # the other branch of the same condition
        elif isinstance(parent, (ast.Try, ast.With, ast.AsyncWith)):
            pass
        elif isinstance(parent, (ast.For, ast.While)):
            unclear = True
        elif isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)):
            return None
        statement = parent
    if not tests and not unclear:
        # The group is made inside a helper: whether it makes it in every run can't be seen from the call.
        target = module.called_function(init) if isinstance(init, ast.Call) else None
        direct = isinstance(init, ast.Call) and any(q.startswith("torch.distributed.") for q in module.callee(init))
        if direct or (target is not None and _always_inside(module, target)):
            return Group("always", evidence=evidence)
        return Group("optional", evidence=evidence)
    if len(tests) == 1 and not unclear and not isinstance(tests[0], ast.UnaryOp):
        if distributed_test(tests[0]) is True:
            return Group("optional", module.source.source(tests[0]), evidence)
    return Group("optional", evidence=evidence)


def _always_inside(module: Module, function: ast.AST) -> bool:
    """Whether a helper of this file calls ``init_process_group`` as a plain statement of its body."""
    for statement in getattr(function, "body", []):
        if isinstance(statement, (ast.Expr, ast.Assign)) and isinstance(statement.value, ast.Call):
            if "torch.distributed.init_process_group" in module.callee(statement.value):
                return True
        if any(isinstance(n, ast.Return) for n in ast.walk(statement)):
            return False
    return False
