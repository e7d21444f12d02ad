"""What a loop over a loader leaves behind: sums, lists, stores, names that outlive it, objects that are told."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name

_GROWS = frozenset({"append", "extend", "update", "add_batch"})
_BARS = re.compile(r"bar|progress|tqdm|timer|meter_?time")
PLACES = frozenset({"index_copy_", "index_put_", "scatter_"})
_QUIET = frozenset(
    {"eval", "train", "zero_grad", "set_description", "set_postfix", "info", "debug", "warning", "wait", "synchronize"}
)


@dataclass(frozen=True, eq=False, slots=True)
class Sum:
    """What a loop accumulates (``n += x``, ``n = n + x``, ``l.append(x)``, a comprehension), and what it adds."""

    target: ast.expr
    added: ast.expr


def accumulated(loop: ast.AST) -> list[Sum]:
    """What a loop over a loader accumulates."""
    found: list[Sum] = []
    if isinstance(loop, ast.comprehension):
        return [Sum(loop.iter, loop.iter)]
    for node in (n for s in getattr(loop, "body", []) for n in ast.walk(s)):
        if isinstance(node, ast.AugAssign):
            found.append(Sum(node.target, node.value))
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, ast.BinOp):
            target = node.targets[0]
            if any(same_source(target, n) for n in ast.walk(node.value)):
                found.append(Sum(target, node.value))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _GROWS:
            if not _BARS.search(ast.unparse(node.func.value).lower()):
                found.append(Sum(node.func.value, node.args[0] if node.args else node))
    return found


def left_over(module: Module, loop: ast.AST) -> set[str]:
    """The names that a loop binds and that are read after it, and the attributes that it sets."""
    inside = set(ast.walk(loop))
    found: set[str] = set()
    mine = [d for d in module.home(loop).bindings.definitions if d.node in inside]
    names = {d.key for d in mine}
    for d in mine:
        base, dot, _ = d.key.partition(".")
        if (dot and base not in names) or any(r not in inside for r in module.bindings.readers(d)):
            found.add(d.key)
    return found


def told_by(module: Module, loop: ast.AST) -> set[str]:
    """What is told of the batches by calls whose result nobody takes: a metric object, a function that may collect."""
    found: set[str] = set()
    names = names_bound(module, loop)
    for node in (n for s in getattr(loop, "body", []) for n in ast.walk(s)):
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
            continue
        call = node.value
        name = last_name(call.func)
        outside = any(q.startswith(("torch.", "builtins.", "logging.")) for q in module.callee(call))
        if outside or name in _QUIET | PLACES | _GROWS or not any(mentions(a, names) for a in arguments_of(call)):
            continue
        receiver = root_of(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        if not _BARS.search(receiver.lower()) and receiver.partition(".")[0] not in names:
            found.add(receiver or "?")
    return found


def stores_in(module: Module, loop: ast.AST) -> list[ast.Assign]:
    """The assignments to an item of something that outlives the batch."""
    names = names_bound(module, loop)
    return [
        n
        for n in ast.walk(loop)
        if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Subscript) and root_of(n.targets[0]) not in names
    ]


def names_bound(module: Module, loop: ast.AST) -> set[str]:
    """The names that a loop binds, its target's included."""
    inside = set(ast.walk(loop))
    return {d.key for d in module.home(loop).bindings.definitions if d.node in inside}


def root_of(node: ast.expr) -> str:
    """``preds`` for ``preds[name]``; ``self.preds`` whole."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""


def same_source(a: ast.AST, b: ast.AST) -> bool:
    """Whether two expressions are written alike."""
    return isinstance(a, ast.expr) and isinstance(b, ast.expr) and ast.unparse(a) == ast.unparse(b)


def mentions(node: ast.AST, names: set[str]) -> bool:
    """Whether some name or attribute is read in a node."""
    return any(isinstance(n, (ast.Name, ast.Attribute)) and ast.unparse(n) in names for n in ast.walk(node))
