"""What is seen to go by the rank: expressions that are made of it, and conditions that ask for it."""

from __future__ import annotations

import ast
import re

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.programs.processes import distributed_test, is_main_test, is_rank

_DEPTH = 4  # names of names
# What is told a device or a rank and is alike in all else: tensors that are moved, wrapped models, sharded loaders.
_PLACED = re.compile(r"^(to|cuda|device|set_device|DDP|DistributedDataParallel|DistributedSampler|FSDP)$")
_DEVICES = ("map_location", "device", "disable", "sampler", "batch_sampler", "generator", "worker_init_fn")


def goes_by_rank(module: Module, node: ast.AST, depth: int = 0) -> bool:
    """Whether an expression is made of the rank, through the names in it as well; but for the device it lies on."""
    if isinstance(node, ast.expr) and not isinstance(node, (ast.BoolOp, ast.IfExp)):
        if distributed_test(node) is not None:
            return False
        if is_rank(node) or is_main_test(node):
            return True
    if isinstance(node, ast.Name) and depth < _DEPTH:
        found = module.home(node).bindings.reaching(node)
        values = [d.value for d in found if d.value is not None and (d.kind == "loop" or _is_whole(d))]
        return any(goes_by_rank(module, v, depth + 1) for v in values)
    if isinstance(node, ast.Attribute):
        return goes_by_rank(module, node.value, depth + 1) if depth < _DEPTH else False
    if isinstance(node, ast.Lambda) or (isinstance(node, ast.keyword) and node.arg in _DEVICES):
        return False
    if isinstance(node, ast.Call) and _PLACED.search(last_name(node.func)):
        return isinstance(node.func, ast.Attribute) and goes_by_rank(module, node.func.value, depth)
    return any(
        goes_by_rank(module, n, depth) for n in ast.iter_child_nodes(node) if not isinstance(n, ast.expr_context)
    )


def _is_whole(d: Definition) -> bool:
    return d.kind == "assign" and d.index is None


def differs(module: Module, test: ast.expr, depth: int = 0) -> bool:
    """Whether a condition itself asks for the rank: plainly, or by a name that stands for the question."""
    if not isinstance(test, (ast.BoolOp, ast.IfExp)) and distributed_test(test) is not None:
        return False
    if is_main_test(test) or is_rank(test):
        return True
    if isinstance(test, (ast.BoolOp, ast.UnaryOp, ast.Compare, ast.BinOp, ast.IfExp, ast.NamedExpr)):
        return any(differs(module, n, depth) for n in ast.iter_child_nodes(test) if isinstance(n, ast.expr))
    if (
        isinstance(test, ast.Call)
        and isinstance(test.func, ast.Name)
        and test.func.id in ("range", "min", "max", "bool", "int")
    ):
        return any(differs(module, n, depth) for n in test.args)
    if isinstance(test, ast.Subscript):
        return differs(module, test.value, depth) or any(
            differs(module, n, depth) for n in ast.iter_child_nodes(test.slice) if isinstance(n, ast.expr)
        )
    if isinstance(test, ast.Name) and depth < _DEPTH:
        found = module.home(test).bindings.reaching(test)
        values = [d.value for d in found if d.kind == "assign" and d.value is not None and d.index is None]
        return bool(values) and len(values) == len(found) and all(differs(module, v, depth + 1) for v in values)
    return False


__all__ = ["differs", "goes_by_rank"]
