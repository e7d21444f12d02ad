"""What in a loop is made of other ranks' values, where ranks combine them for each batch."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of
from shardfix.analysis.loops.evaluation import is_reduction


def made_of_other_ranks(module: Module, loop: ast.For) -> set[str]:
    """The names in a loop in which there may be something of other ranks: what is given to a collective as well, which
    may change it in place."""
    names: set[str] = set()
    for _ in range(3):  # names of names of names
        for s in (n for n in ast.walk(loop) if isinstance(n, ast.stmt) and n is not loop):
            if isinstance(s, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and has_part_of_others(module, s.value, names):
                targets = s.targets if isinstance(s, ast.Assign) else [s.target]
                names |= {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
            elif isinstance(s, ast.Expr) and isinstance(s.value, ast.Call):
                names |= {n.id for a in _told(module, s.value, names) for n in ast.walk(a) if isinstance(n, ast.Name)}
    return names


def has_part_of_others(module: Module, node: ast.AST | None, names: Collection[str]) -> bool:
    """Whether other ranks may have a part in a node: it gathers, is handed on to a function that does, or reads it."""
    for n in ast.walk(node) if node is not None else ():
        if isinstance(n, ast.Name) and n.id in names and isinstance(n.ctx, ast.Load):
            return True
        if isinstance(n, ast.Call) and _combines(module, n):
            return True
    return False


def _told(module: Module, call: ast.Call, names: Collection[str]) -> list[ast.expr]:
    """What a call for its own sake puts other ranks' values into: the arguments of a collective, the object that is
    told of such a value (``top1.update(reduced)``)."""
    if _combines(module, call):
        return arguments_of(call)
    given = any(has_part_of_others(module, a, names) for a in arguments_of(call))
    return [call.func.value] if given and isinstance(call.func, ast.Attribute) else []


def _combines(module: Module, call: ast.Call) -> bool:
    return is_reduction(module, call) or any(_reduces(module, call))


def _reduces(module: Module, call: ast.Call) -> Iterator[bool]:
    for function in module.called_functions(call):
        home = module.home(function)
        yield any(isinstance(n, ast.Call) and is_reduction(home, n) for n in ast.walk(function))


__all__ = ["has_part_of_others", "made_of_other_ranks"]
