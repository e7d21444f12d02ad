"""What an evaluation keeps of its loop, more than counts of what it has done, and whether that goes out of sight."""

from __future__ import annotations

import ast

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of
from shardfix.analysis.code.objects import imported_loads
from shardfix.analysis.code.own import own_calls
from shardfix.analysis.code.tree import returns_of
from shardfix.analysis.loops.accumulation import accumulated, mentions, names_bound
from shardfix.analysis.metrics.reread import opened_by_all
from shardfix.analysis.programs.processes import handed_on, is_rank

_Function = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEPTH = 3  # callers of callers that give back what they are given


def keeps_a_result(module: Module, loop: ast.AST) -> bool:
    """Whether a loop keeps anything of its samples: more than how many steps it made, which tells nothing of them, and
    the lines that it writes to a file of each rank's own. A count under a condition on the batch is a result."""
    here = module.home(loop)
    if any(_writes_for_all(here, call) for call in own_calls(loop)):
        return bool(accumulated(loop))
    names = names_bound(here, loop)
    return any(
        not (isinstance(s.added, ast.Constant) and _each_time(here, s.target, loop, names)) for s in accumulated(loop)
    )


def _each_time(module: Module, node: ast.AST, loop: ast.AST, names: set[str]) -> bool:
    """Whether a place is under no condition on what the loop binds."""
    for outer in module.around(node):
        if outer is loop:
            return True
        if isinstance(outer, ast.If) and mentions(outer.test, names):
            return False
    return False


def _writes_for_all(module: Module, call: ast.Call) -> bool:
    """Whether a call writes to a file that every rank opens under one name."""
    files = [k.value for k in call.keywords if k.arg == "file"]
    if isinstance(call.func, ast.Attribute) and call.func.attr in ("write", "writelines", "writerow", "writerows"):
        files.append(call.func.value)
    elif isinstance(call.func, ast.Attribute) and call.func.attr == "dump":
        files += arguments_of(call)[1:2]
    paths = [path for f in files if (path := opened_by_all(module, f)) is not None]
    return any(not _tells_rank(module, path) for path in paths)


def _tells_rank(module: Module, path: ast.expr) -> bool:
    """Whether a path is made with the rank: ``name += f"_{rank}"`` before it is opened."""
    left: list[ast.AST] = [path]
    seen: set[ast.AST] = set()
    while left:
        node = left.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, ast.expr) and is_rank(node):
            return True
        left += ast.iter_child_nodes(node)
        if isinstance(node, (ast.Name, ast.Attribute)):
            left += [d.value for d in module.bindings.reaching(node) if d.value is not None]
    return False


def out_of_sight(module: Module, function: ast.AST, depth: int = 0) -> ast.AST | None:
    """Where a function that gives back an evaluation's result is handed on by its name (``metrics[name](..)``), so that
    what is made of the result is not seen; also one that gives back what it calls. None where all of it is seen."""
    if not isinstance(function, _Function) or not returns_of(function):
        return None
    own = module.home(function)
    if handed_on(own, function):
        for d in own.bindings.definitions_at(function, function.name):
            for use in [*own.bindings.readers(d), *imported_loads(own, d)]:
                parent = module.parents[use]
                if not (isinstance(parent, ast.Call) and parent.func is use):
                    return use
    for call in module.callers(function) if depth < _DEPTH else ():
        outer = module.scope(call)
        found = out_of_sight(module, outer, depth + 1) if any(call in ast.walk(v) for v in returns_of(outer)) else None
        if found is not None:
            return found
    return None
