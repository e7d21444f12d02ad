"""Epoch loops: which loop drives a loader, what counts its epochs, and who already tells a sampler the epoch."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from shardfix.analysis.flow import Flow, Use, last_name
from shardfix.analysis.module import Module

_RANGES = frozenset({"range", "trange", "count", "tnrange"})
_WRAPPERS = frozenset({"tqdm", "tqdm_notebook", "track", "progress_bar", "master_bar", "iter", "list", "Progbar"})
_MAX_CALLERS = 5


@dataclass(frozen=True, eq=False)
class EpochLoop:
    """A loop over epochs.

    Args:
        loop: the ``for`` or ``while`` statement.
        counter: source of the expression that is the epoch inside the body; empty where the target is ``_``, alone or
            beside the index of an enumerated range.
        inside: the node in the loop's body through which the loader is reached (the batch loop or a call).
        use: the iteration that the loop drives.
    """

    loop: ast.For | ast.AsyncFor | ast.While
    counter: str
    inside: ast.AST
    use: Use


@dataclass(frozen=True, eq=False)
class EpochLoops:
    """The epoch loops that drive a loader; ``rebuilt`` if it is built anew in its loop; ``why`` if none is known."""

    loops: tuple[EpochLoop, ...] = ()
    rebuilt: bool = False
    why: str = ""


def is_epoch_iterable(module: Module, node: ast.expr, depth: int = 0) -> bool:
    """Whether an expression counts: ``range``, ``trange``, ``count``, a progress bar over one, a name for one."""
    if depth > 6:
        return False
    if isinstance(node, ast.Call):
        name = last_name(node.func)
        if name in _RANGES:
            return True
        if (name in _WRAPPERS or name == "enumerate") and node.args:
            return is_epoch_iterable(module, node.args[0], depth + 1)
        return False
    if isinstance(node, (ast.Name, ast.Attribute)):
        definitions = [d for d in module.bindings.reaching(node) if d.value is not node]
        values = [d.value for d in definitions if d.kind == "assign" and d.index is None and d.value is not None]
        return (
            bool(values)
            and len(values) == len(definitions)
            and all(is_epoch_iterable(module, v, depth + 1) for v in values)
        )
    return False


def is_enumerated(module: Module, node: ast.expr, depth: int = 0) -> bool:
    """Whether the items of an iterable are (index, item) pairs."""
    if isinstance(node, ast.Call):
        name = last_name(node.func)
        if name == "enumerate":
            return True
        return bool(name in _WRAPPERS and node.args and depth < 6 and is_enumerated(module, node.args[0], depth + 1))
    if isinstance(node, ast.Name) and depth < 6:
        return any(
            d.value is not None and is_enumerated(module, d.value, depth + 1) for d in module.bindings.reaching(node)
        )
    return False


def _named_epoch(counter: str) -> bool:
    return "epoch" in counter.lower() or counter.rsplit(".", 1)[-1] in ("ep", "_epoch", "e")


def counter_of(module: Module, loop: ast.For | ast.AsyncFor | ast.While) -> str | None:
    """The source of the loop's epoch counter, ``""`` for ``_``, None if the loop does not count."""
    if isinstance(loop, ast.While):
        return _while_counter(module, loop)
    target = loop.target
    if not is_epoch_iterable(module, loop.iter):
        if (
            isinstance(target, ast.Name)
            and _named_epoch(target.id)
            and isinstance(loop.iter, (ast.Name, ast.Attribute))
        ):
            return None
        return None
    if isinstance(target, ast.Tuple) and is_enumerated(module, loop.iter):
        index, item = target.elts[0], target.elts[-1]
        if isinstance(item, ast.Name) and not item.id.startswith("_"):
            return item.id
        if not _counts_from_zero(module, loop.iter):
            return "" if isinstance(item, ast.Name) and item.id == "_" else None
        return index.id if isinstance(index, ast.Name) and not index.id.startswith("_") else None
    if isinstance(target, ast.Name):
        return "" if target.id == "_" else target.id
    if isinstance(target, ast.Attribute):
        return module.source.source(target)
    return None


def _counts_from_zero(module: Module, node: ast.expr, depth: int = 0) -> bool:
    """Whether the index of an enumerated range is the item too: the range starts at zero."""
    if isinstance(node, ast.Name) and depth < 6:
        values = [d.value for d in module.bindings.reaching(node)]
        return bool(values) and all(v is not None and _counts_from_zero(module, v, depth + 1) for v in values)
    if not isinstance(node, ast.Call) or depth > 6 or any(isinstance(a, ast.Starred) for a in node.args):
        return False
    if last_name(node.func) not in _RANGES:
        return bool(node.args) and _counts_from_zero(module, node.args[0], depth + 1)
    return len(node.args) < 2 or (isinstance(node.args[0], ast.Constant) and node.args[0].value == 0)


def _while_counter(module: Module, loop: ast.While) -> str | None:
    """``while epoch < n`` with ``epoch += 1`` last in the body: the counter's value at the top of the body."""
    if not isinstance(loop.test, ast.Compare):
        return None
    counter = module.source.source(loop.test.left)
    for s in loop.body:
        if isinstance(s, ast.AugAssign) and module.source.source(s.target) == counter and isinstance(s.op, ast.Add):
            return counter if _named_epoch(counter) else None
    return None


def _enclosing_loops(module: Module, node: ast.AST) -> list[tuple[ast.For | ast.AsyncFor | ast.While, ast.AST]]:
    found: list[tuple[ast.For | ast.AsyncFor | ast.While, ast.AST]] = []
    for outer in module.around(node):
        if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            break
        if isinstance(outer, (ast.For, ast.AsyncFor, ast.While)):
            found.append((outer, node))
    return found


def _contains(module: Module, outer: ast.AST, node: ast.AST) -> bool:
    return node is outer or any(n is outer for n in module.around(node))


def epoch_loops(module: Module, construction: ast.expr, flow: Flow) -> EpochLoops:
    """The loops over epochs around every iteration of a loader, found through callers in the same file."""
    iterations = flow.of("iterate")
    if not iterations:
        if flow.of("next"):
            return EpochLoops(why="next-driven")
        return EpochLoops(why="no-iteration")
    found: list[EpochLoop] = []
    rebuilt = False
    missing = False
    for use in iterations:
        result = _outward(module, construction, use.node, use, 0)
        if result == "rebuilt":
            rebuilt = True
        elif isinstance(result, str):
            if result == "ambiguous":
                return EpochLoops(why="ambiguous")
            missing = True
        else:
            found.extend(loop for loop in result if all(loop.loop is not f.loop for f in found))
    if rebuilt:
        return EpochLoops(tuple(found), rebuilt=True)
    if found:
        return EpochLoops(tuple(found))
    return EpochLoops(why="no-epoch-loop" if missing else "no-iteration")


def _makers(module: Module, construction: ast.AST, depth: int = 0) -> list[ast.Call]:
    """The calls that lead to a construction: of its function, and of the functions that call that."""
    function = module.function(construction)
    if function is None or depth > 3:
        return []
    calls = module.callers(function)
    return [*calls, *(c for call in calls for c in _makers(module, call, depth + 1))]


def _outward(module: Module, construction: ast.expr, node: ast.AST, use: Use, depth: int) -> list[EpochLoop] | str:
    loops = [(loop, inside) for loop, inside in _enclosing_loops(module, node) if loop is not node]
    counting: list[EpochLoop] = []
    for loop, _ in loops:
        if _contains(module, loop, construction) or any(
            _contains(module, loop, c) for c in _makers(module, construction)
        ):
            if counting:
                break
            counter = counter_of(module, loop)
            if counter is not None and (counter == "" or _named_epoch(counter)):
                return "rebuilt"
            break
        counter = counter_of(module, loop)
        if counter is not None:
            counting.append(EpochLoop(loop, counter, node, use))
    if len(counting) > 1:
        named = [c for c in counting if _named_epoch(c.counter)]
        if len(named) != 1:
            return "ambiguous"
        counting = named
    if counting:
        return counting
    function = module.function(node)
    if function is None or depth > 4:
        return "none"
    if _contains(module, function, construction):
        # The loader is local to this function: a loop around a call of it builds the loader anew each time.
        return "none"
    callers = [c for c in use.calls if module.called_function(c) is function] or module.callers(function)
    results = [_outward(module, construction, call, use, depth + 1) for call in callers[:_MAX_CALLERS]]
    loops_found = [loop for r in results if isinstance(r, list) for loop in r]
    if loops_found:
        return loops_found
    return next((r for r in results if isinstance(r, str) and r != "none"), "none")


@dataclass(frozen=True, eq=False)
class SetEpoch:
    """A call that tells an epoch: ``receiver.set_epoch(e)``, or ``getattr(receiver, "set_epoch", ...)(e)``."""

    call: ast.Call
    receiver: ast.expr
    argument: ast.expr | None


def set_epoch_calls(module: Module) -> list[SetEpoch]:
    """Every ``set_epoch`` call of a module, the ``getattr`` form included."""
    found: list[SetEpoch] = []
    for call in module.calls:
        func = call.func
        argument = call.args[0] if call.args else next((k.value for k in call.keywords), None)
        if isinstance(func, ast.Attribute) and func.attr == "set_epoch":
            found.append(SetEpoch(call, func.value, argument))
        elif isinstance(func, ast.Call) and last_name(func.func) == "getattr" and len(func.args) > 1:
            name = func.args[1]
            if isinstance(name, ast.Constant) and name.value == "set_epoch":
                found.append(SetEpoch(call, func.args[0], argument))
    return found


def tells(module: Module, call: SetEpoch, loader: Flow, sampler: Flow | None) -> bool:
    """Whether a ``set_epoch`` call reaches a loader or its sampler, also by a name for ``loader.sampler``."""
    receivers = [call.receiver]
    if isinstance(call.receiver, ast.Name):
        definitions = module.bindings.reaching(call.receiver)
        receivers += [d.value for d in definitions if d.kind == "assign" and d.value is not None and d.index is None]
    return any(_reaches(receiver, loader, sampler) for receiver in receivers)


def _reaches(receiver: ast.expr, loader: Flow, sampler: Flow | None) -> bool:
    if sampler is not None and receiver in sampler.aliases:
        return True
    while isinstance(receiver, ast.Attribute) and receiver.attr in ("sampler", "batch_sampler"):
        receiver = receiver.value
        if receiver in loader.aliases:
            return True
    return receiver in loader.aliases
