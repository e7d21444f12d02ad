"""What ends a loop over a loader before all its samples are read, and what would do the same on any number of ranks."""

from __future__ import annotations

import ast

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.loops.epochs import is_enumerated

_CUTS = frozenset({"islice", "takewhile"})
_STOPS = _CUTS | {"zip", "zip_longest", "dropwhile", "cycle", "sample"}
_MORE = (ast.Gt, ast.GtE, ast.Eq)
_LESS = (ast.Lt, ast.LtE, ast.Eq)
INSTEAD = (
    "; it ends after the n samples of some batches: a loader of `Subset(dataset, range(n))` does that on any number of "
    "ranks, with no `break`"
)


def reads_a_part(loop: ast.AST) -> bool:
    """Whether a loop may leave samples out: it is left, passes over some, or reads as far as something else goes."""
    if any(isinstance(n, (ast.Break, ast.Return, ast.Continue)) for n in ast.walk(loop)):
        return True
    iterable = getattr(loop, "iter", None)
    return iterable is not None and any(
        isinstance(n, ast.Call) and last_name(n.func) in _STOPS for n in ast.walk(iterable)
    )


def left_early(loop: ast.AST) -> ast.AST | None:
    """What ends a loop before all batches are read: a break or return of it, or an iterable that is cut off."""
    iterable = getattr(loop, "iter", None)
    for n in ast.walk(iterable) if iterable is not None else ():
        if isinstance(n, ast.Call) and last_name(n.func) in _CUTS:
            return n
    left: list[ast.AST] = list(getattr(loop, "body", ()))
    while left:
        node = left.pop(0)
        if isinstance(node, (ast.Break, ast.Return)):
            return node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        inside = ast.iter_child_nodes(node)
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            left += [n for n in ast.walk(node) if isinstance(n, ast.Return)]
        else:
            left += inside
    return None


def instead_of(module: Module, loop: ast.For, leaving: ast.stmt) -> str:
    """What to do instead of a ``break`` by the number of steps or samples so far; empty where it goes by another thing.

    The number that is counted to must be there before the loop. With batches of B samples, a loop that is left in its
    step s (from 1 on) has read ``n = s * B`` of them, or all that there are.
    """
    outer = module.parents.get(leaving)
    if not isinstance(leaving, ast.Break) or not isinstance(outer, ast.If) or leaving not in outer.body:
        return ""
    test = outer.test
    tests = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    counting = [t for t in tests if _counts(module, loop, t)]
    fixed = [t for t in tests if t not in counting and _is_fixed(module, loop, t)]
    return INSTEAD if counting and len(counting) + len(fixed) == len(tests) else ""


def _counts(module: Module, loop: ast.For, test: ast.expr) -> bool:
    """``i >= 10``, ``len(preds) >= args.most``, ``10 == step + 1``"""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return False
    left, right = test.left, test.comparators[0]
    if isinstance(test.ops[0], _MORE) and _is_count(module, loop, left) and _is_fixed(module, loop, right):
        return True
    return isinstance(test.ops[0], _LESS) and _is_count(module, loop, right) and _is_fixed(module, loop, left)


def _is_count(module: Module, loop: ast.For, node: ast.expr) -> bool:
    """Whether an expression counts the steps so far, or the items that they gathered."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        return _is_count(module, loop, node.left) and _is_fixed(module, loop, node.right)
    inside = set(ast.walk(loop))
    if isinstance(node, ast.Call) and last_name(node.func) == "len" and len(node.args) == 1:
        return isinstance(node.args[0], ast.Name) and _is_fixed(module, loop, node.args[0])  # a list from before
    if not isinstance(node, ast.Name):
        return False
    made = [d for d in module.bindings.reaching(node) if d.node in inside]
    steps = [d for d in made if d.statement is loop and d.index == 0 and is_enumerated(module, loop.iter)]
    added = [d for d in made if isinstance(d.statement, ast.AugAssign) and isinstance(d.statement.op, ast.Add)]
    return bool(made) and len(steps) + len(added) == len(made)


def _is_fixed(module: Module, loop: ast.For, node: ast.expr) -> bool:
    """Whether nothing in an expression is bound in the loop."""
    inside = set(ast.walk(loop))
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
    return not any(d.node in inside for n in names for d in module.bindings.reaching(n))


__all__ = ["INSTEAD", "instead_of", "left_early", "reads_a_part"]
