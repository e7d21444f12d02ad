"""Where a construction stands: the conditions that must hold to come there, and its twin in the other arm of one."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import DATA_LOADER, last_name
from shardfix.analysis.programs.processes import distributed_test

if TYPE_CHECKING:
    from shardfix.proof.recipes.slice import Slicer


def reach(slicer: Slicer) -> None:
    """The conditions around the construction are taken as they must be for it to run."""
    previous: ast.AST = slicer.anchor
    for outer in slicer.module.around(slicer.anchor):
        if isinstance(previous, ast.stmt):
            _after_leaving(slicer, previous)
        if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            break
        if isinstance(outer, ast.If) and previous is not outer.test:
            inside = previous in outer.body
            _branch(slicer, outer, inside)
        elif isinstance(outer, ast.IfExp) and previous is not outer.test:
            slicer.assume(outer.test, previous is outer.body)
        previous = outer


def _branch(slicer: Slicer, node: ast.If, inside: bool) -> None:
    outcome = distributed_test(node.test)
    if outcome is None:
        slicer.assume(node.test, inside)
        return
    twin = _twin(slicer, node.orelse if inside else node.body)
    if twin is not None:
        slicer.twins[node] = twin
        slicer.calls.append(twin)
    elif isinstance(node.test, ast.BoolOp):
        slicer.assume(node.test, inside)
    elif outcome is inside:
        slicer.several = True
    else:
        slicer.stop("the loader is built only where there is one process: there is nothing to shard", node.test)


def _after_leaving(slicer: Slicer, statement: ast.stmt) -> None:
    block = slicer.module.block(statement)
    for earlier in block[: block.index(statement)] if statement in block else []:
        if not isinstance(earlier, ast.If) or earlier.orelse or isinstance(earlier.test, ast.BoolOp):
            continue
        leaves = isinstance(earlier.body[-1], (ast.Return, ast.Raise))
        outcome = distributed_test(earlier.test) if leaves else None
        if outcome is True:
            slicer.stop("the loader is built only where there is one process: there is nothing to shard", earlier)
        slicer.several = slicer.several or outcome is False


def _twin(slicer: Slicer, block: list[ast.stmt]) -> ast.Call | None:
    """The construction that the other arm of a regime condition gives the same name."""
    m = slicer.module
    statement = m.statement(slicer.anchor)
    found = []
    for other in block:
        if type(other) is not type(statement) or not isinstance(other, (ast.Assign, ast.Return)):
            continue
        made = _construction(m, other.value)
        same = isinstance(other, ast.Return) or (
            isinstance(statement, ast.Assign)
            and [ast.dump(t) for t in other.targets] == [ast.dump(t) for t in statement.targets]
        )
        if made is not None and same:
            found.append(made)
    return found[0] if len(found) == 1 else None


def _construction(module: Module, node: ast.expr | None) -> ast.Call | None:
    """The loader construction that an expression is, a sanitizer around it looked through."""
    while isinstance(node, ast.Call) and last_name(node.func) == "sanitize" and node.args:
        node = node.args[0]
    return node if isinstance(node, ast.Call) and DATA_LOADER in module.callee(node) else None


__all__ = ["reach"]
