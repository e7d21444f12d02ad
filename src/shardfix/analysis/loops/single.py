"""Whether only runs of one process come to a place: by the conditions around it that ask for how many there are."""

from __future__ import annotations

import ast

from shardfix.analysis.code.module import Module
from shardfix.analysis.programs.processes import distributed_test, leaves

_Functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def of_one_process(module: Module, node: ast.AST) -> bool:
    """Whether no run of several processes comes to a place, by what its own function shows: ``if local_rank == -1``."""
    previous: ast.AST = node
    for outer in module.around(node):
        if isinstance(previous, ast.stmt):
            block = module.block(previous)
            before = block[: block.index(previous)] if previous in block else []
            left = [s for s in before if isinstance(s, ast.If) and leaves(s.body)]
            if any(distributed_test(s.test) is True for s in left):
                return True
        if isinstance(outer, ast.If) and previous is not outer.test:
            if previous not in outer.body:
                if distributed_test(outer.test) is True:
                    return True
            elif any(distributed_test(t) is False for t in _parts(outer.test)):
                return True
        if isinstance(outer, _Functions):
            return False
        previous = outer
    return False


def _parts(test: ast.expr) -> list[ast.expr]:
    """What must all hold for a condition to hold."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return [p for v in test.values for p in _parts(v)]
    return [test]


__all__ = ["of_one_process"]
