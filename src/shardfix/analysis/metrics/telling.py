"""Objects of which nothing is seen, that a loop tells of its batches by a call within an expression.

A statement that is such a call is refused for what the object may keep. Where its result is taken, it is a model or a
criterion as a rule; where nobody reads that, or the object is asked behind the loop, it is told for its own sake.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of
from shardfix.analysis.loops.accumulation import mentions
from shardfix.analysis.metrics.model import Obstacle
from shardfix.analysis.metrics.mutations import root_name
from shardfix.analysis.metrics.networks import gives_rows
from shardfix.analysis.metrics.plain_calls import is_plain_method, of_library

_MODES = frozenset(
    {"train", "eval", "cpu", "cuda", "half", "float", "parameters", "named_parameters", "state_dict", "zero_grad"}
    | {
        "modules",
        "children",
        "buffers",
        "close",
        "finish",
        "flush",
        "reset",
        "clear",
        "keys",
        "values",
        "items",
        "join",
    }
)
_SHOWS = frozenset({"print", "str", "repr", "format", "vars", "float", "int", "len", "list", "dict", "sum"})
_TIMERS = re.compile(r"time|tic|toc|bar|tqdm|progress|log|writer|wandb|synchronize|zero_grad|cache|optim|sched|scaler")


def told(module: Module, statement: ast.stmt, bound: set[str], is_local: Callable[[ast.expr], bool]) -> ast.Call | None:
    """A call of a statement, no call itself, that is made for what it does: nobody takes what it gives.

    Args:
        bound: what the loop binds.
        is_local: whether the object behind an expression is made anew in each pass of the loop.
    """
    for call in _for_itself(module, statement):
        if isinstance(call.func, ast.Attribute) and _is_unseen(module, call, call.func.value, bound, is_local):
            if not is_plain_method(call) and not gives_rows(module, call):
                return call
    return None


def _for_itself(module: Module, s: ast.stmt) -> list[ast.Call]:
    """The calls of a statement of which only their truth is taken, or what nobody reads."""
    if isinstance(s, (ast.If, ast.While, ast.Assert)):
        return _calls(s.test)
    if isinstance(s, (ast.With, ast.AsyncWith)):
        return [c for item in s.items for c in _calls(item.context_expr)]
    if isinstance(s, ast.Assign) and all(isinstance(t, ast.Name) for t in s.targets):
        made = [d for d in module.bindings.definitions if d.statement is s]
        return [] if any(module.bindings.readers(d) for d in made) else _calls(s.value)
    return []


def _calls(node: ast.AST) -> list[ast.Call]:
    return [n for n in ast.walk(node) if isinstance(n, ast.Call)]


def _is_unseen(
    module: Module, call: ast.Call, owner: ast.expr, bound: set[str] | None, is_local: Callable[[ast.expr], bool]
) -> bool:
    """Whether a call tells an object from outside the loop, of which no class is seen, of the batch.

    Args:
        bound: what the loop binds, of which something must be told; None where the call alone tells.
    """
    root = root_name(owner)
    if root is None or is_local(owner):
        return False
    if bound is not None and not any(mentions(a, bound) for a in arguments_of(call)):
        return False
    if of_library(module.callee(call)) or module.called_functions(call) or module.instances(owner):
        return False
    found = module.bindings.reaching(root)
    return not any(d.kind in ("import", "function", "class") for d in found)


def asked_behind(
    module: Module, loop: ast.For, bound: set[str], is_local: Callable[[ast.expr], bool]
) -> Obstacle | None:
    """Where an object is asked for something behind a loop that has told it of its batches."""
    called: set[str] = set()
    told: set[str] = set()
    for call in (n for s in loop.body for n in _calls(s)):
        owner = call.func.value if isinstance(call.func, ast.Attribute) else call.func
        alone = isinstance(module.parents.get(call), ast.Expr) and isinstance(call.func, ast.Attribute)
        if not isinstance(owner, (ast.Name, ast.Attribute)) or is_plain_method(call) or gives_rows(module, call):
            continue
        if _is_unseen(module, call, owner, None if alone else bound, is_local) and not _TIMERS.search(_text(call)):
            (called if owner is call.func or alone else told).add(ast.unparse(owner))
    for n in ast.walk(module.scope(loop)) if called or told else ():
        if not isinstance(n, (ast.Name, ast.Attribute)) or n.lineno <= (loop.end_lineno or loop.lineno):
            continue
        owner_text, asks = ast.unparse(n), _asks(module, n)
        if (owner_text in called and asks) or (owner_text in told and asks == "method"):
            why = f"`{owner_text}` is told of the batches, and what it keeps is not followed"
            return Obstacle(module.statement(n), why)
    return None


def _text(call: ast.Call) -> str:
    return ast.unparse(call.func).lower()


def _asks(module: Module, node: ast.Name | ast.Attribute) -> str:
    """How an object is asked for what it keeps: by a method that is given nothing, or by being read; empty if not."""
    outer = module.parents.get(node)
    if not isinstance(node.ctx, ast.Load):
        return ""
    if isinstance(outer, ast.Attribute):
        call = module.parents.get(outer)
        if not isinstance(call, ast.Call) or call.func is not outer:
            return "attribute" if isinstance(outer.ctx, ast.Load) else ""
        asked = outer.attr not in _MODES and not arguments_of(call) and not module.called_functions(call)
        return "method" if asked else ""
    if isinstance(outer, ast.Call):
        shown = outer.func is not node and isinstance(outer.func, ast.Name) and outer.func.id in _SHOWS
        return "read" if shown else ""
    return "read" if not isinstance(outer, (ast.keyword, ast.Compare, ast.If)) else ""


__all__ = ["asked_behind", "told"]
