"""What puts the ranks' values together by the program's own means: torch's collectives and those of an Accelerator."""

from __future__ import annotations

import ast
from collections.abc import Callable

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.programs.accelerators import is_accelerator
from shardfix.proof.metrics.known import Known
from shardfix.proof.recipes.choices import text_of
from shardfix.proof.recipes.regime import call, dotted

_IN_PLACE = frozenset({"all_reduce", "reduce", "broadcast"})
_INTO = frozenset({"all_gather", "all_gather_object", "all_gather_into_tensor", "broadcast_object_list"})
_OF_ACCELERATOR = frozenset({"gather", "gather_for_metrics", "reduce", "pad_across_processes", "gather_object"})
_WAITS = frozenset({"barrier", "monitored_barrier", "wait_for_everyone", "synchronize"})
_OPERATIONS = frozenset({"SUM", "MAX", "MIN", "PRODUCT", "AVG"})

Translate = Callable[[ast.expr], ast.expr]


def is_collective(module: Module, node: ast.Call) -> bool:
    """Whether a call puts values of all ranks together, in a way that can be run as it is written."""
    return bool(_of_torch(module, node, _IN_PLACE | _INTO)) or _of_accelerator(module, node, _OF_ACCELERATOR)


def only_waits(module: Module, node: ast.Call) -> bool:
    """Whether a call only waits for the other ranks."""
    return bool(_of_torch(module, node, _WAITS)) or _of_accelerator(module, node, _WAITS)


def collective(known: Known, node: ast.Call, value: Translate) -> ast.Call:
    """The call as it is run.

    Raises:
        Stop: it is of some ranks only, or does not wait for its result.
    """
    last = _of_torch(known.module, node, _IN_PLACE | _INTO)
    if not last and not known.accelerate:
        raise known.stop(f"`{text_of(node.func)}` is of an Accelerator that is not seen", node)
    function = dotted(f"dist.{last}" if last else f"accelerator.{last_name(node.func)}")
    keywords: dict[str, ast.expr] = {}
    for k in node.keywords:
        if k.arg is None or (k.arg in ("group", "async_op") and not _is_nothing(k.value)):
            raise known.stop(f"`{text_of(node)}` is not one sum of all ranks that is waited for", node)
        if k.arg not in ("group", "async_op", "device"):
            keywords[k.arg] = _operation(known.module, k.value) or value(k.value)
    args = [_operation(known.module, a) or value(a) for a in node.args]
    return call(function, *args, **keywords)


def _of_torch(module: Module, node: ast.Call, names: frozenset[str]) -> str:
    for q in module.callee(node):
        head, _, last = q.rpartition(".")
        if head in ("torch.distributed", "torch.distributed.distributed_c10d") and last in names:
            return last
    return ""


def _of_accelerator(module: Module, node: ast.Call, names: frozenset[str]) -> bool:
    function = node.func
    return isinstance(function, ast.Attribute) and function.attr in names and is_accelerator(module, function.value)


def _operation(module: Module, node: ast.expr) -> ast.expr | None:
    """``dist.ReduceOp.SUM``"""
    if not isinstance(node, ast.Attribute) or node.attr not in _OPERATIONS:
        return None
    found = any(q.startswith("torch.distributed.") for q in module.qualify(node))
    return dotted(f"dist.ReduceOp.{node.attr}") if found else None


def _is_nothing(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value


__all__ = ["collective", "is_collective", "only_waits"]
