"""What an evaluation loop does with its results besides gathering them: it shows them, logs them, runs the clock."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.metrics.values import Values

# What shows or logs what has been reached so far, and leaves nothing behind that a metric reads.
_SHOWS = frozenset(
    {"set_description", "set_description_str", "set_postfix", "set_postfix_str"}
    | {"synchronize", "empty_cache", "manual_seed"}
)
_LOGS = frozenset({"info", "debug", "warning", "error", "log", "add_scalar", "add_scalars", "display"})
_LOGGERS = re.compile(r"log|writer|wandb|experiment|tensorboard|summary|progress|accelerator|console|neptune|mlflow|tb")
_MODES = frozenset({"eval", "train", "zero_grad"})
_BARS = re.compile(r"(^|[._])(\w*_)?(p|prog|progress|t|tq)?bar\d?$|progress|tqdm")
_TIMERS = re.compile(r"timer|(batch|data|iter|end|elapsed)_?time")
_OF_BARS = frozenset({"update", "write", "close", "display", "refresh", "tic", "toc", "start"})


def shows(values: Values, call: ast.Call) -> bool:
    """Whether a call, whose result nobody takes, shows or logs something."""
    name, module = last_name(call.func), values.module
    if name in _SHOWS or (name in _MODES and not arguments_of(call)):
        return True
    if name == "print" or any(q == "builtins.print" for q in module.callee(call)):
        files = (ast.unparse(k.value) for k in call.keywords if k.arg == "file")
        return all(f in ("sys.stderr", "sys.stdout", "None") for f in files)
    if any(q in ("gc.collect",) or q.startswith(("logging.", "torch.cuda.")) for q in module.callee(call)):
        return True
    if not isinstance(call.func, ast.Attribute):
        return name in _LOGS and bool(module.called_functions(call))  # which is looked into
    receiver = ast.unparse(call.func.value).lower()
    own = bool(module.instances(call.func.value))  # of a class that is looked into
    if name in _LOGS:
        return own or bool(_LOGGERS.search(receiver))
    if name not in _OF_BARS:
        return False
    given = arguments_of(call)
    timed = not given or any(values.of(a).kind == "time" for a in given)
    if _TIMERS.search(receiver) and timed:
        return True
    return bool(_BARS.search(receiver)) and (timed or not own)


def only_shows(values: Values, body: Sequence[ast.stmt]) -> bool:
    """Whether statements do nothing but show or log."""
    for s in body:
        shown = isinstance(s, ast.Expr) and isinstance(s.value, ast.Call) and shows(values, s.value)
        inner = [*s.body, *s.orelse] if isinstance(s, (ast.If, ast.For)) else None
        if not (shown or isinstance(s, ast.Pass) or (inner is not None and only_shows(values, inner))):
            return False
    return True


__all__ = ["only_shows", "shows"]
