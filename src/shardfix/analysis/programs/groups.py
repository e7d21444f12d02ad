"""Whether a process group is sure to exist where a loader is built, and which condition of the project tells."""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import DISTRIBUTED_SAMPLER, GROUP_MAKERS
from shardfix.analysis.model import Evidence
from shardfix.analysis.programs.processes import distributed_test, main_process_guard
from shardfix.analysis.programs.together import together

_DEPTH = 4
_MAKERS = frozenset(name.rpartition(".")[2] for name in GROUP_MAKERS)


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


def group_at(module: Module, node: ast.AST) -> Group:
    """When the process group exists at ``node``: every path to it must pass ``init_process_group`` first."""
    inits = _inits(module)
    shown = _shown_by_sampler(module, node)
    if shown is not None:
        return shown
    if not inits or _destroyed(module, node):
        return Group("unknown")
    return _before(module, node, inits, 0)


def alone_at(module: Module, node: ast.AST) -> ast.expr | None:
    """The condition because of which a node is run by one process: the main one, or one that makes no group."""
    return main_process_guard(module, node) or _without_group(module, node)


def _without_group(module: Module, node: ast.AST) -> ast.expr | None:
    """The condition around a place in whose other arm the process group is made, in the same function: the place is
    one process's (``if n_gpus > 1: init_process_group(..)``, and the ``else`` of a second ``if n_gpus > 1``)."""
    arms = [
        outer
        for inner, outer in pairwise((node, *module.around(node)))
        if isinstance(outer, ast.If) and any(inner is s for s in outer.orelse)
    ]
    if not arms:
        return None
    home, function = module.home(node), module.function(node)
    for call in _inits(module):
        if module.home(call) is not home or module.function(call) is not function:
            continue
        for inner, outer in pairwise((call, *home.around(call))):
            if isinstance(outer, ast.If) and any(inner is s for s in outer.body):
                found = next((arm.test for arm in arms if _same(home, arm.test, outer.test)), None)
                if found is not None:
                    return found
    return None


def _same(module: Module, a: ast.expr, b: ast.expr) -> bool:
    """Whether two conditions are written alike, of names that hold the same in both places."""
    if a is b:
        return True
    if ast.dump(a) != ast.dump(b):
        return False
    names = [[n for n in ast.walk(t) if isinstance(n, ast.Name)] for t in (a, b)]
    reaching = module.bindings.reaching
    return all(frozenset(reaching(x)) == frozenset(reaching(y)) for x, y in zip(*names, strict=True))


def _shown_by_sampler(module: Module, node: ast.AST) -> Group | None:
    """The group is there where a DistributedSampler that asks it for the rank was built before, always."""
    module, function = module.home(node), module.function(node)
    for call in module.calls:
        if module.function(call) is not function or DISTRIBUTED_SAMPLER not in module.callee(call):
            continue
        arguments = module.arguments(call, DISTRIBUTED_SAMPLER)
        if arguments.opaque or arguments.value("num_replicas") is not None or arguments.value("rank") is not None:
            continue
        around = module.around(call)
        if any(isinstance(n, (ast.IfExp, ast.BoolOp, ast.Lambda, ast.comprehension)) for n in around):
            continue
        statement = module.statement(call)
        before = module.statement(node) is not statement and statement.lineno < module.statement(node).lineno
        if before and _dominates(module, call, node, module.evidence(call), direct=True) == Group(
            "always", evidence=module.evidence(call)
        ):
            return Group("always", evidence=module.evidence(call))
    return None


def _destroyed(module: Module, node: ast.AST) -> bool:
    """Whether the group is destroyed before a place, in its function."""
    module, function = module.home(node), module.function(node)
    for call in module.calls:
        if "torch.distributed.destroy_process_group" in module.callee(call) and module.function(call) is function:
            if _dominates(module, call, node, module.evidence(call)) is not None:
                return True
    return False


def _inits(module: Module) -> dict[ast.AST, Evidence]:
    """The calls in the project that make the process group, or run a function that makes it, each with the line that
    makes it."""
    named = module.project.calls_named(_MAKERS) if module.project is not None else module.calls
    found: dict[ast.AST, Evidence] = {
        call: module.evidence(call) for call in named if not GROUP_MAKERS.isdisjoint(module.callee(call))
    }
    newest = list(found)
    for _ in range(_DEPTH):
        functions = {f: found[n] for n in newest if (f := module.function(n)) is not None}
        newest = [call for f in functions for call in module.callers(f) if call not in found]
        for f, evidence in functions.items():
            for call in module.callers(f):
                found.setdefault(call, evidence)
    return found


def _before(module: Module, node: ast.AST, inits: dict[ast.AST, Evidence], depth: int) -> Group:
    function = module.function(node)
    best: Group | None = None
    for init, evidence in inits.items():
        if module.function(init) is not function or init is node:
            continue  # the call that leads here: what it runs before is asked of the function that it runs
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
    groups = [
        _handed_over(module, c, _from_elsewhere(module, function, c, inits, _before(module, c, inits, depth + 1)))
        for c in callers
    ]
    if any(g.exists == "unknown" for g in groups):
        return Group("unknown")
    if _used_elsewhere(module, function):
        return Group("optional", evidence=groups[0].evidence)
    if all(g.exists == "always" for g in groups):
        return groups[0]
    # The condition was read in another function; at the place itself it may be out of scope.
    return Group("optional", _same_condition(module, node, groups), groups[0].evidence)


def _from_elsewhere(
    module: Module, function: ast.AST, call: ast.Call, inits: Collection[ast.AST], group: Group
) -> Group:
    """What a caller in another file says: one that never makes a group runs the function in one process."""
    here = module.home(call)
    if here is module.home(function) or group.exists != "unknown" or any(module.home(n) is here for n in inits):
        return group
    return Group("optional")


def _used_elsewhere(module: Module, function: ast.AST) -> bool:
    """Whether another file of the project imports a function, or the class it is a method of: it may run there in one
    process."""
    outer = [n for n in (function, *module.around(function)) if not isinstance(n, ast.Module)][-1]
    name = getattr(outer, "name", "")
    qualified = f"{module.name}.{name}"
    for other in module.fellows:
        if other is module or not name:
            continue
        for d in other.bindings.definitions:
            if d.kind == "import" and d.module.endswith(name) and qualified in other.resolve(d.module):
                return True
        if any(qualified in other.qualify(load) for load in other.attribute_loads.get(name, ())):
            return True
    return False


def _same_condition(module: Module, node: ast.AST, groups: list[Group]) -> str:
    conditions = {g.condition for g in groups}
    if len(conditions) != 1:
        return ""
    condition = conditions.pop()
    return condition if condition and _visible(module, condition, node) else ""


def _handed_over(module: Module, call: ast.Call, group: Group) -> Group:
    """A group's condition as the called function may write it: its names are global, or passed under the same name."""
    if not group.condition:
        return group
    function = module.called_function(call)
    there = module.home(function) if function is not None else module
    module = module.home(call)
    for name in _names(group.condition):
        bound = [d for d in there.bindings.definitions if d.key == name and d.scope is function]
        passed = [
            a
            for a in [*call.args, *(k.value for k in call.keywords)]
            if isinstance(a, ast.Name) and a.id == name and getattr(module.parameter_for(call, a), "arg", "") == name
        ]
        inner = function is not None and module.function(call) is module.function(function)
        outer = (
            not bound
            and there is module
            and (inner or any(d.key == name and d.scope is module.tree for d in module.bindings.definitions))
        )
        here = module.function(call)
        shadowed = any(d.key == name and d.scope is here for d in module.bindings.definitions) and not inner
        if not ((passed and len(bound) == 1) or (outer and not shadowed)):
            return Group(group.exists, "", group.evidence)
    return group


def _names(condition: str) -> set[str]:
    return {n.id for n in ast.walk(ast.parse(condition, mode="eval")) if isinstance(n, ast.Name)}


def _unchanged(module: Module, test: ast.expr, node: ast.AST) -> bool:
    """Whether nothing is bound to a condition's names between it and a later place of the same function."""
    written = {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
    written |= {module.source.source(n) for n in ast.walk(test) if isinstance(n, ast.Attribute)}
    module, here = module.home(test), module.function(test)
    first, last = getattr(test, "lineno", 0), getattr(module.statement(node), "lineno", 0)
    return not any(
        d.key in written and d.scope is (here or module.tree) and first < getattr(d.statement, "lineno", 0) < last
        for d in module.bindings.definitions
    )


def _visible(module: Module, condition: str, node: ast.AST) -> bool:
    """Whether the names of a condition are read, or are parameters, in the function around a place."""
    module, function = module.home(node), module.function(node)
    if function is None:
        return False
    names = _names(condition)
    bound = {d.key for d in module.bindings.definitions if d.scope is function or d.scope is module.tree}
    return names <= bound


def _dominates(module: Module, init: ast.AST, node: ast.AST, evidence: Evidence, direct: bool = False) -> Group | None:
    """Whether ``init`` runs before ``node`` in the same function, always or under one condition.

    Args:
        direct: ``init`` itself shows the group; else it may be a call of a function that makes it.
    """
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
        elif isinstance(parent, ast.Try):
            goes_on = any(not isinstance(h.body[-1], (ast.Raise, ast.Return)) for h in parent.handlers)
            unclear = unclear or (statement not in parent.finalbody and goes_on)
        elif isinstance(parent, (ast.With, ast.AsyncWith)):
            pass
        elif isinstance(parent, (ast.For, ast.While, ast.ExceptHandler, ast.match_case)):
            unclear = True
        elif isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)):
            return None
        statement = parent
    if not tests and not unclear:
        # The group is made inside a helper: whether it makes it in every run can't be seen from the call.
        target = module.called_function(init) if isinstance(init, ast.Call) else None
        direct = direct or (
            isinstance(init, ast.Call)
            and any(q.startswith("torch.distributed.") or q in GROUP_MAKERS for q in module.callee(init))
        )
        if direct or (target is not None and _always_inside(module, target)):
            return Group("always", evidence=evidence)
        return Group("optional", evidence=evidence)
    if len(tests) == 1 and not unclear and not isinstance(tests[0], ast.UnaryOp):
        simple = not any(isinstance(n, ast.NamedExpr) for n in ast.walk(tests[0]))
        condition = module.source.source(tests[0])
        if distributed_test(tests[0]) is True and simple and "\n" not in condition:
            if _unchanged(module, tests[0], node):
                return Group("optional", condition, evidence)
    return Group("optional", evidence=evidence)


def _always_inside(module: Module, function: ast.AST, depth: int = 0) -> bool:
    """Whether a helper calls ``init_process_group`` as a plain statement of its body, or another helper that does."""
    for statement in getattr(function, "body", []):
        if isinstance(statement, (ast.Expr, ast.Assign)) and isinstance(statement.value, ast.Call):
            if not GROUP_MAKERS.isdisjoint(module.callee(statement.value)):
                return True
            inner = module.called_functions(statement.value) if depth < _DEPTH else []
            if len(inner) == 1 and _always_inside(module, inner[0], depth + 1):
                return True
        if any(isinstance(n, ast.Return) for n in ast.walk(statement)):
            return False
    return False


def made_in_the_program(module: Module) -> bool:
    """Whether anything in the files that run together with a file makes the process group."""
    files = together(module)
    return any(module.home(call) in files for call in _inits(module))
