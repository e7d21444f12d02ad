"""Objects of which nothing is seen, that a loop tells of its batches by a call within an expression.

A statement that is such a call is refused for what the object may keep. Where its result is taken, it is a model or a
criterion as a rule; where nobody reads that, or the object is asked behind the loop, it is told for its own sake.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from shardfix.analysis.code.calling import arguments_given
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.loops.accumulation import mentions
from shardfix.analysis.metrics.model import Obstacle
from shardfix.analysis.metrics.networks import gives_rows
from shardfix.analysis.metrics.reread import writes_a_file
from shardfix.analysis.state.mutations import is_change, is_definition, root_name
from shardfix.analysis.state.plain_calls import is_plain_method, of_library

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
_SAVES = frozenset({"dump", "save", "savez", "savetxt", "write_text", "write_bytes", "writerow", "writerows"})
_TIMERS = re.compile(
    r"time|clock|tic|toc|bar|tqdm|progress|log|writer|wandb|synchronize|zero_grad|cache|optim|sched|scaler"
)


def moves_a_clock(call: ast.Call) -> bool:
    """``args.clock.update()``: time goes by on each rank."""
    return not arguments_of(call) and _TIMERS.search(_text(call)) is not None


def told(module: Module, statement: ast.stmt, bound: set[str], is_local: Callable[[ast.expr], bool]) -> ast.Call | None:
    """A call of a statement, no call itself, that is made for what it does: nobody takes what it gives.

    Args:
        bound: what the loop binds.
        is_local: whether the object behind an expression is made anew in each pass of the loop.
    """
    made = _calls(statement) if isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign)) else []
    for call in made:
        if last_name(call.func) in _SAVES or writes_a_file(module, call):
            return call
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
    return not is_definition(module, root)


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
        if owner is not call.func and is_change(last_name(call.func)):
            continue  # which is told where it is changed
        if _is_unseen(module, call, owner, None if alone else bound, is_local) and not _TIMERS.search(_text(call)):
            (called if owner is call.func or alone else told).add(ast.unparse(owner))
    end = loop.end_lineno or loop.lineno
    found = _asked(module, module.scope(loop), end, called, told) if called or told else None
    for home, scope, line, name in _given(module, loop, called):
        found = found or _asked(home, scope, line, {name}, set())
    if found is None:
        return None
    why = f"`{ast.unparse(found)}` is told of the batches, and what it keeps is not followed"
    home = module.home(found)
    return (
        Obstacle(home.statement(found), why) if home is module else Obstacle(loop, f"{home.path}:{found.lineno}: {why}")
    )


def _asked(module: Module, scope: ast.AST, line: int, called: set[str], told: set[str]) -> ast.expr | None:
    """Where a scope asks, below a line, one of these objects for what it keeps."""
    for n in ast.walk(scope):
        if isinstance(n, (ast.Name, ast.Attribute)) and n.lineno > line:
            owner, asks = ast.unparse(n), _asks(module, n)
            if (owner in called and asks) or (owner in told and asks == "method"):
                return n
    return None


def _given(module: Module, loop: ast.For, owners: set[str]) -> Iterator[tuple[Module, ast.AST, int, str]]:
    """Where callers of a loop's function go on with what they have given it: the scope, the line, the name."""
    for d in module.bindings.definitions if owners else ():
        if d.kind == "parameter" and d.key in owners and d.scope is module.scope(loop):
            for call, given in arguments_given(module, d):
                if isinstance(given, (ast.Name, ast.Attribute)):
                    home = module.home(call)
                    yield home, home.scope(call), call.lineno, ast.unparse(given)


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


__all__ = ["asked_behind", "moves_a_clock", "told"]
