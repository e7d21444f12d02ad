"""What an evaluation loop does with its results besides gathering them: it shows them, logs them, runs the clock."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.metrics.values import Values

# What shows or logs what has been reached so far, and leaves nothing behind that a metric reads.
_SHOWS = frozenset(
    {"print", "info", "debug", "warning", "error", "log", "add_scalar", "add_scalars", "display"}
    | {"set_description", "set_description_str", "set_postfix", "set_postfix_str"}
    | {"synchronize", "empty_cache", "collect", "manual_seed"}
)
_MODES = frozenset({"eval", "train", "zero_grad"})
_BARS = re.compile(r"bar|progress|tqdm|timer|(batch|data|iter|end|elapsed)_?time")
_OF_BARS = frozenset({"update", "write", "close", "display", "refresh", "tic", "toc", "start"})


def shows(values: Values, call: ast.Call) -> bool:
    """Whether a call, whose result nobody takes, shows or logs something."""
    name = last_name(call.func)
    if name in _SHOWS or (name in _MODES and not arguments_of(call)):
        return True
    receiver = ast.unparse(call.func.value).lower() if isinstance(call.func, ast.Attribute) else ""
    if _BARS.search(receiver) and name in _OF_BARS:
        given = arguments_of(call)
        timed = not given or any(values.of(a).kind == "time" for a in given)
        return timed or any(word in receiver for word in ("bar", "progress", "tqdm"))
    return any(q.startswith(("logging.", "builtins.print", "torch.cuda.")) for q in values.module.callee(call))


def only_shows(values: Values, body: Sequence[ast.stmt]) -> bool:
    """Whether statements do nothing but show or log."""
    for s in body:
        shown = isinstance(s, ast.Expr) and isinstance(s.value, ast.Call) and shows(values, s.value)
        inner = [*s.body, *s.orelse] if isinstance(s, (ast.If, ast.For)) else None
        if not (shown or isinstance(s, ast.Pass) or (inner is not None and only_shows(values, inner))):
            return False
    return True


__all__ = ["only_shows", "shows"]
