"""Whether ``DistributedDataParallel`` sends anything in a later step of a loop than the first.

It sends the buffers of its model (those of BatchNorm, say) in a forward, whatever the mode of the model. Without
gradients it does so in the first forward only (torch 2.13: ``require_forward_param_sync``), so that ranks which make
other numbers of steps don't wait for each other, if each makes one; with gradients in every forward, and they do.
"""

from __future__ import annotations

import ast

from shardfix.analysis.code.calling import only_called
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name

DDP = "torch.nn.parallel.DistributedDataParallel"
_OFF = frozenset(
    {"torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad", "torch.autograd.grad_mode.no_grad"}
)
_DEPTH = 3  # callers that are asked whether they turn gradients off
_Function = (ast.FunctionDef, ast.AsyncFunctionDef)
# What a call in a loop may stand in and still be run in each step.
_EACH_STEP = (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.With, ast.withitem, ast.expr, ast.keyword)
_SOMETIMES = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def sends_later(module: Module, call: ast.Call | None, loop: ast.For) -> str:
    """Why a model in DistributedDataParallel, run by a call in a loop, may wait in a later step; empty if it does not.

    Args:
        call: None where it is run in a function that the loop calls.
    """
    name = "DistributedDataParallel"
    if call is None or not _in_each_step(module.home(call), call, loop):
        return f"the model in {name} is not seen to be run in each step"
    if not gradless(module.home(call), call):
        return f"{name} sends its buffers in each forward with gradients, and they are not seen to be off"
    return ""


def _in_each_step(module: Module, call: ast.Call, loop: ast.For) -> bool:
    for outer in module.around(call):
        if outer is loop:
            return call not in set(ast.walk(loop.iter))
        if isinstance(outer, _SOMETIMES) or not isinstance(outer, _EACH_STEP):
            return False
    return False


def gradless(module: Module, node: ast.AST, depth: int = 0) -> bool:
    """Whether gradients are off where a node is run: by a ``with`` or a decorator around it, or around each call."""
    for outer in module.around(node):
        if isinstance(outer, ast.With) and any(_turns_off(module, item.context_expr) for item in outer.items):
            return not _turns_on(outer)
        if isinstance(outer, (*_Function, ast.Lambda)):
            if any(_turns_off(module, d) for d in getattr(outer, "decorator_list", ())):
                return not _turns_on(outer)
            calls = module.callers(outer) if depth < _DEPTH else []
            sure = bool(calls) and isinstance(outer, _Function) and only_called(module, outer)
            return sure and all(gradless(module.home(c), c, depth + 1) for c in calls)
    return False


def _turns_on(block: ast.AST) -> bool:
    """Whether something within a block turns gradients on again, for the rest of it or a part."""
    names = (n for n in ast.walk(block) if isinstance(n, (ast.Name, ast.Attribute)))
    return any(last_name(n) in ("enable_grad", "set_grad_enabled") for n in names)


def _turns_off(module: Module, node: ast.expr) -> bool:
    called = node.func if isinstance(node, ast.Call) else node
    if isinstance(node, ast.Call) and (node.args or node.keywords):
        return False  # `inference_mode(False)`
    return bool(module.qualify(called)) and module.qualify(called) <= _OFF


__all__ = ["DDP", "gradless", "sends_later"]
