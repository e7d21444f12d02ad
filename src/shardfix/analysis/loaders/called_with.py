"""What a function comes to by what one call gives it: its parameters' values, and which lines that leaves out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.calling import Function, argument_of, default_of
from shardfix.analysis.code.module import Module


@dataclass(frozen=True, slots=True)
class Run:
    """A function that one of its calls runs."""

    function: Function
    call: ast.Call


Runs = tuple[Run, ...]  # the outermost first


def given(module: Module, d: Definition, runs: Runs) -> tuple[ast.expr, Runs] | None:
    """What a parameter is given by the run of its function, and the runs in which that is to be read; None where no run
    of it is known, or what it gives is not written out."""
    if d.kind != "parameter":
        return None
    place = next((i for i in range(len(runs) - 1, -1, -1) if runs[i].function is d.scope), None)
    if place is None:
        return None
    run = runs[place]
    if any(isinstance(a, ast.Starred) for a in run.call.args) or any(k.arg is None for k in run.call.keywords):
        return None
    value = argument_of(module.home(run.call), run.function, run.call, d.key)
    if value is not None:
        return value, runs[:place]
    default = default_of(run.function, d.key)
    return (default, ()) if default is not None else None


def settled(module: Module, node: ast.expr, runs: Runs) -> ast.expr:
    """An expression, or in the place of a parameter alone what it is given."""
    module = module.home(node)
    bound = module.bindings.reaching(node) if isinstance(node, ast.Name) else frozenset()
    if len(bound) != 1:
        return node
    found = given(module, next(iter(bound)), runs)
    return node if found is None else settled(module, *found)


def decided(module: Module, test: ast.expr, runs: Runs) -> bool | None:
    """The outcome of a condition, where what a function is given settles it."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = decided(module, test.operand, runs)
        return None if inner is None else not inner
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        left, right = settled(module, test.left, runs), settled(module, test.comparators[0], runs)
        if isinstance(left, ast.Constant) and isinstance(right, ast.Constant):
            same = type(left.value) is type(right.value) and left.value == right.value
            if isinstance(test.ops[0], (ast.Eq, ast.Is)):
                return same
            if isinstance(test.ops[0], (ast.NotEq, ast.IsNot)):
                return not same
        return None
    value = settled(module, test, runs)
    return bool(value.value) if isinstance(value, ast.Constant) else None


def left_out(module: Module, node: ast.AST, runs: Runs) -> bool:
    """Whether a line of a function is never reached in a run: it stands in an arm that the call does not take, or
    behind one that it takes and that returns."""
    module = module.home(node)
    function = module.function(node)
    if function is None or all(run.function is not function for run in runs):
        return False
    inner: ast.AST = node
    for outer in module.around(node):
        if isinstance(outer, ast.If) and inner is not outer.test:
            outcome = decided(module, outer.test, runs)
            if outcome is not None and inner in (outer.orelse if outcome else outer.body):
                return True
        if isinstance(outer, ast.IfExp) and inner is not outer.test:
            outcome = decided(module, outer.test, runs)
            if outcome is not None and inner is (outer.orelse if outcome else outer.body):
                return True
        if isinstance(inner, ast.stmt):
            block = module.block(inner)
            for before in block[: block.index(inner)] if inner in block else ():
                if isinstance(before, ast.If) and _returns(before, decided(module, before.test, runs)):
                    return True
        if outer is function:
            return False
        inner = outer
    return False


def _returns(branching: ast.If, outcome: bool | None) -> bool:
    taken = branching.body if outcome is True else branching.orelse if outcome is False else []
    return bool(taken) and isinstance(taken[-1], (ast.Return, ast.Raise))


def undecided(module: Module, function: Function, node: ast.AST, runs: Runs) -> Iterator[ast.expr]:
    """The conditions of a function that choose whether a line of it is reached, and that its call does not settle."""
    inner: ast.AST = node
    for outer in module.around(node):
        if isinstance(outer, (ast.If, ast.IfExp)) and inner is not outer.test:
            if decided(module, outer.test, runs) is None:
                yield outer.test
        if isinstance(inner, ast.stmt):
            block = module.block(inner)
            for before in block[: block.index(inner)] if inner in block else ():
                leaves = isinstance(before, ast.If) and any(isinstance(n, ast.Return) for n in ast.walk(before))
                if leaves and isinstance(before, ast.If) and decided(module, before.test, runs) is None:
                    yield before.test
        if outer is function:
            return
        inner = outer


__all__ = ["Run", "Runs", "decided", "given", "left_out", "settled", "undecided"]
