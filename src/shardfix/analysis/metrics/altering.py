"""Whether what an evaluation loop calls changes an object from outside the loop, or keeps something of its own."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from shardfix.analysis.code.bindings import parameters
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name

if TYPE_CHECKING:
    from shardfix.analysis.metrics.values import Values

_CHANGES = frozenset(
    {"append", "extend", "update", "add", "insert", "setdefault", "pop", "add_batch", "put", "put_nowait", "appendleft"}
    | {"extendleft", "popleft", "push", "clear", "remove", "discard", "write", "writerow", "writelines"}
    | {"__next__", "send"}
)
_GIVEN = frozenset({"at", "heappush", "heappushpop", "heapreplace", "heappop", "insort", "insort_left", "insort_right"})
_HARMLESS = frozenset({"requires_grad_", "clear", "write"})  # on a bar, a cache, a tensor of no pass: nothing is kept
_ELSEWHERE = ("__init__", "update")  # averaging objects, which are looked at
_MODELS = ("forward", "__call__")
_DEPTH = 4
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def alters(values: Values, call: ast.Call, is_local: Callable[[ast.expr], bool]) -> bool:
    """Whether what a call runs adds to an object from outside the loop.

    Args:
        is_local: whether the object behind an expression is made anew in each pass of the loop.
    """
    module = values.module
    for body in _lambdas(module, call):
        if any(_changed(module, n, set(), {a.arg for a in parameters(body)}) for n in ast.walk(body.body)):
            return True
    for cls in module.instances(call.func):
        asked = module.method(cls, "__call__")
        if asked is not None and module.method(cls, "forward") is None and _changes(module, asked, {"self"}, 0):
            return True
    functions = module.called_functions(call, passed=False) or [
        f for f in module.called_functions(call) if f.name in _MODELS
    ]
    for function in functions:
        if function.name in _ELSEWHERE:
            continue
        if function.name in _MODELS:
            if _changes(module, function, {"self"}, 0, stores=False):
                return True
            continue
        kept = {"self"} if isinstance(call.func, ast.Attribute) and not is_local(call.func.value) else set()
        for argument in arguments_of(call):
            parameter = module.parameter_of(function, call, argument)
            outside = isinstance(argument, (ast.Name, ast.Attribute)) and not is_local(argument)
            if parameter is not None and outside and values.of(argument).kind == "constant":
                kept.add(parameter.arg)
        if _changes(module, function, kept, 0):
            return True
    return False


def alters_argument(module: Module, call: ast.Call, function: _Function, argument: ast.expr) -> bool:
    """Whether a function of the project changes, in place, what a call gives it as one argument."""
    if function.name in (*_MODELS, *_ELSEWHERE):
        return False
    parameter = module.parameter_of(function, call, argument)
    return parameter is not None and _changes(module, function, {parameter.arg}, 0)


def changes_within(module: Module, call: ast.Call, is_local: Callable[[ast.expr], bool]) -> bool:
    """Whether a call within an expression changes an object from outside the loop: ``n = h.index_add_(0, y, x)``."""
    name = last_name(call.func)
    if isinstance(call.func, ast.Name) and name == "next" and call.args:
        return not is_local(call.args[0])
    if not isinstance(call.func, ast.Attribute) or name in _HARMLESS or _is_imported(module, call.func.value):
        return False
    return _is_change(name) and not is_local(call.func.value)


def hooked(module: Module, loop: ast.AST) -> ast.Call | None:
    """A hook that the function of a loop gives to a model, which is told of every batch."""
    scope = module.scope(loop)
    for call in module.calls:
        name = last_name(call.func)
        if name.startswith("register_") and name.endswith("hook") and module.scope(call) is scope:
            return call
    return None


def counted_by_a_model(module: Module, loop: ast.For) -> ast.Attribute | None:
    """The read behind a loop of what a model of the project adds up in its ``forward``, or a dataset item by item."""
    end = loop.end_lineno or loop.lineno
    reads = [
        n
        for n in ast.walk(module.scope(loop))
        if isinstance(n, ast.Attribute) and n.lineno > end and isinstance(n.ctx, ast.Load)
    ]
    reads = [n for n in reads if not isinstance(module.parents.get(n), (ast.Call, ast.Attribute))]
    wanted = {n.attr for n in reads}
    added: set[str] = set()
    for m in module.fellows if wanted else ():
        kept = {a for a in wanted if f"self.{a}" in m.text}
        for forward in (f for f in m.functions if f.name in (*_MODELS, "__getitem__")) if kept else ():
            own = {a.arg for a in parameters(forward)}
            for n in ast.walk(forward):
                if isinstance(n, (ast.AugAssign, ast.Call)) and _changed(m, n, {"self"}, own):
                    target = n.target if isinstance(n, ast.AugAssign) else n.func
                    added |= {a.attr for a in ast.walk(target) if isinstance(a, ast.Attribute)} & kept
    return next((n for n in reads if n.attr in added), None)


def _lambdas(module: Module, call: ast.Call) -> Iterator[ast.Lambda]:
    if isinstance(call.func, ast.Lambda):
        yield call.func
    elif isinstance(call.func, ast.Name):
        yield from (d.value for d in module.bindings.reaching(call.func) if isinstance(d.value, ast.Lambda))


def _is_change(name: str) -> bool:
    return name in _CHANGES or (name.endswith("_") and not name.endswith("__") and len(name) > 1)


def _is_imported(module: Module, node: ast.expr) -> bool:
    root = _root(node)
    return root is not None and any(d.kind in ("import", "class") for d in module.bindings.reaching(root))


def _changes(module: Module, function: _Function, kept: set[str], depth: int, *, stores: bool = True) -> bool:
    """Whether a function changes one of the objects that these names of it stand for, or one that is not its own.

    Args:
        stores: whether an attribute that is set anew counts.
    """
    home = module.home(function)
    own = {a.arg for a in parameters(function)} | {
        n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    kept = set(kept)
    for n in ast.walk(function):  # other names of the same objects
        if isinstance(n, ast.Assign) and isinstance(n.value, (ast.Name, ast.Attribute, ast.Subscript)):
            if _base(n.value) in kept:
                kept |= {t.id for t in n.targets if isinstance(t, ast.Name)}
        elif isinstance(n, ast.For):
            over: ast.expr = n.iter
            while isinstance(over, ast.Call) and isinstance(over.func, ast.Attribute):
                over = over.func.value
            if _base(over) in kept:  # its items: `for p in model.parameters()`
                kept |= {t.id for t in ast.walk(n.target) if isinstance(t, ast.Name)}
    for n in ast.walk(function):
        if _changed(home, n, kept, own, stores=stores):
            return True
        if isinstance(n, ast.Call) and depth < _DEPTH and kept:
            for inner in home.called_functions(n, passed=False):
                if inner is function or inner.name in (*_MODELS, "__init__"):
                    continue
                given = {
                    p.arg
                    for a in arguments_of(n)
                    if _base(a) in kept and (p := home.parameter_of(inner, n, a)) is not None
                }
                if isinstance(n.func, ast.Attribute) and _base(n.func.value) in kept:
                    given.add("self")
                if given and _changes(home, inner, given, depth + 1, stores=stores):
                    return True
    return False


def _changed(module: Module, node: ast.AST, kept: set[str], own: set[str], *, stores: bool = True) -> bool:
    """Whether one node changes an object of one of these names, or one of a name that is not the function's own."""
    if isinstance(node, (ast.Global, ast.Nonlocal)):
        return True
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign) and stores:
        targets = [t for t in node.targets if isinstance(t, (ast.Subscript, ast.Attribute))]
    elif isinstance(node, ast.AugAssign):
        targets = [node.target]
    elif isinstance(node, ast.Call):
        name = last_name(node.func)
        if isinstance(node.func, ast.Attribute) and _is_change(name) and name not in _HARMLESS:
            targets = [node.func.value]
        elif name in _GIVEN:
            targets = list(node.args[:1])
    for target in targets:
        base = _base(target)
        if base in kept:
            return True
        if base and base not in own and not _is_imported(module, target):
            return True
    return False


def _root(node: ast.expr) -> ast.Name | None:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node if isinstance(node, ast.Name) else None


def _base(node: ast.expr) -> str:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super":
        return "self"
    root = _root(node)
    return root.id if root is not None else ""


__all__ = ["alters", "alters_argument", "changes_within", "counted_by_a_model", "hooked"]
