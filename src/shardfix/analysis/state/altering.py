"""Whether what an evaluation loop calls changes an object from outside the loop, or keeps something of its own."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from shardfix.analysis.code.bindings import parameters
from shardfix.analysis.code.calling import Function, default_of
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.state.called import runs
from shardfix.analysis.state.mutations import changed_by, is_definition, is_function, root_name
from shardfix.analysis.state.sharing import HOLDS, IS, MUTABLE, Sharing, sharing_of

if TYPE_CHECKING:
    from shardfix.analysis.metrics.values import Values

_AVERAGES = ("update",)  # of averaging objects, which are looked at where they are told
_MODELS = ("forward", "__call__")
_CONSTRUCTORS = ("__init__", "__new__", "__post_init__")
_SHOWS = frozenset({"write"})  # of what a logger of the project holds: a file of texts
_ADVANCES = re.compile(
    r"^(next|read|readlines?|draw|tick|advance|increment|recv|poll|shift|dequeue|take)(_|$)|^readline"
)
_DEPTH = 4


def alters(values: Values, call: ast.Call, is_local: Callable[[ast.expr], bool]) -> bool:
    """Whether what a call runs adds to an object from outside the loop.

    Args:
        is_local: whether the object behind an expression is made anew in each pass of the loop.
    """
    module = values.module
    for cls in module.instances(call.func):
        asked = module.method(cls, "__call__")
        if asked is not None and module.method(cls, "forward") is None and changes(module, asked, {"self": IS}):
            return True
    found = runs(module, call)
    if not any(run.named for run in found):
        found += [r for r in runs(module, call, passed=True) if getattr(r.function, "name", "") in _MODELS]
    for run in found:
        function, name = run.function, getattr(run.function, "name", "")
        if name in _AVERAGES:
            continue
        if name in _MODELS:
            if changes(module, function, {"self": IS}, stores=False):
                return True
            continue
        given = _given(values, call, function, is_local) if run.named else {}
        if run.handed and any(_is_outside(values, a, is_local) for a in arguments_of(call)):
            given = {a.arg: IS for a in parameters(function)}  # `reduce(keep, labels, rows)`
        given.update(dict.fromkeys(run.held, IS))
        if changes(module, function, given):
            return True
    return False


def _given(
    values: Values, call: ast.Call, function: Function | ast.Lambda, is_local: Callable[[ast.expr], bool]
) -> dict[str, int]:
    """What of a function's parameters is from outside the loop, or holds something that is."""
    module = values.module
    given: dict[str, int] = {}
    if isinstance(function, ast.Lambda):
        return given
    method = isinstance(call.func, ast.Attribute) and module.is_method(function)
    if method and isinstance(call.func, ast.Attribute) and function.name not in _CONSTRUCTORS:
        bound_to_class = bool(module.project_classes(call.func.value))
        if bound_to_class or not is_local(call.func.value):
            given.update({a.arg: IS for a in parameters(function)[:1]})
    for argument in arguments_of(call):
        kind = 0
        if isinstance(argument, (ast.Name, ast.Attribute)):
            kind = IS if _is_outside(values, argument, is_local) else 0
        elif not isinstance(argument, ast.Constant):
            inner = (n for n in ast.walk(argument) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
            display = isinstance(argument, (ast.List, ast.Tuple, ast.Dict, ast.Set, ast.Starred, ast.IfExp, ast.BoolOp))
            kind = HOLDS if display and any(_is_outside(values, n, is_local) for n in inner) else 0
        bound = module.parameter_of(function, call, argument)
        rest = [a.arg for a in (function.args.vararg, function.args.kwarg) if a is not None]
        for name in [bound.arg] if bound is not None else rest:
            given[name] = max(given.get(name, 0), kind if bound is not None else min(kind, HOLDS))
    return given


def _is_outside(values: Values, node: ast.expr, is_local: Callable[[ast.expr], bool]) -> bool:
    """Whether an argument is an object from outside the loop: no function, class or module."""
    if not isinstance(node, (ast.Name, ast.Attribute)) or is_local(node) or values.of(node).kind != "constant":
        return False
    root = root_name(node)
    return root is None or not is_definition(values.module, root)


def alters_argument(module: Module, call: ast.Call, function: Function, argument: ast.expr) -> bool:
    """Whether a function of the project changes, in place, what a call gives it as one argument."""
    if function.name in (*_MODELS, *_AVERAGES, *_CONSTRUCTORS):
        return False
    parameter = module.parameter_of(function, call, argument)
    return parameter is not None and changes(module, function, {parameter.arg: IS})


def changes_within(module: Module, call: ast.Call, is_local: Callable[[ast.expr], bool]) -> bool:
    """Whether a call within an expression changes an object from outside the loop: ``n = h.index_add_(0, y, x)``."""
    if last_name(call.func) == "write" and _is_shown(module, call):
        return False
    if isinstance(call.func, ast.Attribute) and _ADVANCES.search(call.func.attr) and not arguments_of(call):
        root = root_name(call.func.value)
        if root is not None and not is_function(module, call.func) and not module.instances(call.func.value):
            return not is_local(call.func.value)  # a stream gives the next line, whoever asks
    return any(not is_local(c.object) for c in changed_by(module, call))


def _is_shown(module: Module, call: ast.Call) -> bool:
    """``sys.stdout.write(..)``, ``tqdm.write(..)``"""
    names = module.callee(call)
    return any(q.startswith(("sys.std", "tqdm.", "builtins.")) for q in names)


def hooked(module: Module, loop: ast.AST) -> ast.Call | None:
    """A hook that the function of a loop gives to a model, which is told of every batch."""
    scope = module.scope(loop)
    for call in module.calls:
        name = last_name(call.func)
        if name.startswith("register_") and name.endswith("hook") and module.scope(call) is scope:
            return call
    return None


def changes(
    module: Module, function: Function | ast.Lambda, given: dict[str, int], depth: int = 0, *, stores: bool = True
) -> bool:
    """Whether a function changes an object that it is given from outside the loop, or one that is not its own.

    Args:
        given: what of its parameters is from outside the loop, or holds something that is.
        stores: whether an attribute that is set anew counts.
    """
    asked = (tuple(sorted((name, kind) for name, kind in given.items() if kind)), stores)
    answers: dict[object, bool] = function.__dict__.setdefault("_changes", {})
    if asked not in answers:
        answers[asked] = False  # of one that calls itself
        answers[asked] = _changes(module.home(function), function, given, depth, stores)
    return answers[asked]


def _changes(home: Module, function: Function | ast.Lambda, given: dict[str, int], depth: int, stores: bool) -> bool:
    known = dict(given)
    for parameter in parameters(function):  # `def note(y, seen=[])`: one list for all calls
        default = default_of(function, parameter.arg) if not isinstance(function, ast.Lambda) else None
        if isinstance(default, MUTABLE) and parameter.arg not in known:
            known[parameter.arg] = IS
    sharing = sharing_of(home, function, known, depth)
    for n in ast.walk(function):
        if isinstance(n, (ast.Global, ast.Nonlocal)):
            return True
        if any(
            _counts(home, n, c.object) and sharing.changes_another_s(c.object)
            for c in changed_by(home, n)
            if stores or not c.stored
        ):
            return True
        if isinstance(n, ast.Call) and depth < _DEPTH and _hands_on(sharing, home, n, function, depth, stores):
            return True
    return False


def _counts(module: Module, node: ast.AST, changed: ast.expr) -> bool:
    """Whether a change counts: what a logger writes to a file of its own is read by nobody."""
    if isinstance(node, ast.Call) and last_name(node.func) in _SHOWS:
        root = root_name(changed)
        return root is not None and root.id != "self" and not _is_shown(module, node)
    return True


def _hands_on(
    sharing: Sharing, module: Module, call: ast.Call, function: Function | ast.Lambda, depth: int, stores: bool
) -> bool:
    """Whether a function that another one calls changes what that hands on to it, or what is neither's own."""
    for run in runs(module, call):
        inner = run.function
        if inner is function or isinstance(inner, ast.Lambda) or inner.name in _MODELS:
            continue
        given: dict[str, int] = {}
        for argument in arguments_of(call) if run.named else ():
            bound = module.parameter_of(inner, call, argument)
            rest = [a.arg for a in (inner.args.vararg, inner.args.kwarg) if a is not None]
            for name in [bound.arg] if bound is not None else rest:
                given[name] = max(given.get(name, 0), sharing.of(argument))
        if isinstance(call.func, ast.Attribute) and run.named and inner.name not in _CONSTRUCTORS:
            receiver = call.func.value
            kind = IS if module.project_classes(receiver) else sharing.of(receiver)
            if isinstance(receiver, ast.Call) and last_name(receiver.func) == "super":
                kind = sharing.known.get("self", 0)
            if module.is_method(inner):
                given.update({a.arg: max(kind, given.get(a.arg, 0)) for a in parameters(inner)[:1]})
        if changes(module, inner, given, depth + 1, stores=stores):
            return True
    return False


__all__ = ["alters", "alters_argument", "changes", "changes_within", "hooked"]
