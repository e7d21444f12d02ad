"""Epoch loops: which loop drives a loader, what counts its epochs, and who already tells a sampler the epoch."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.loaders.flow import Flow, Use, follow
from shardfix.analysis.loops.counters import Loop, counter_of, is_enumerated, is_epoch_iterable, named_epoch
from shardfix.analysis.programs.unit_tests import is_unit_test

_MAX_CALLERS = 5
_DEPTH = 4


@dataclass(frozen=True, eq=False)
class EpochLoop:
    """A loop over epochs.

    Args:
        loop: the ``for`` or ``while`` statement.
        counter: source of the expression that is the epoch inside the body; empty where the target is ``_``, alone or
            beside the index of an enumerated range.
        inside: the node in the loop's body through which the loader is reached (the batch loop or a call).
        use: the iteration that the loop drives.
        calls: how the loop's body comes to the iteration, outermost first: calls, or for an ``__iter__`` what is
            iterated.
        built: what builds the loader anew in each pass: its construction, or the call that leads there. None where it
            is built before the loop.
    """

    loop: Loop
    counter: str
    inside: ast.AST
    use: Use
    calls: tuple[ast.expr, ...] = ()
    built: ast.expr | None = None


@dataclass(frozen=True, eq=False)
class EpochLoops:
    """The epoch loops that drive a loader; ``rebuilding`` those in which it is built anew; ``why`` if none is known."""

    loops: tuple[EpochLoop, ...] = ()
    rebuilding: tuple[EpochLoop, ...] = ()
    why: str = ""

    @property
    def rebuilt(self) -> bool:
        """Whether the loader is built anew in each epoch."""
        return bool(self.rebuilding)


def epoch_loops(module: Module, construction: ast.expr, flow: Flow) -> EpochLoops:
    """The loops over epochs around every pass over a loader, found through the callers of the functions around it."""
    iterations = flow.of("iterate")
    if not iterations:
        if not flow.of("next"):
            return EpochLoops(why="no-iteration")
        iterations = _started(module, flow)
        if not iterations:
            return EpochLoops(why="next-driven")
    if not is_unit_test(module):
        iterations = [u for u in iterations if not is_unit_test(module.home(u.node))] or iterations
    driven = not flow.of("iterate")
    found: list[EpochLoop] = []
    rebuilding: list[EpochLoop] = []
    missing = False
    for use in iterations:
        result = _outward(module, construction, flow, use.node, use, ())
        if isinstance(result, str):
            if result == "ambiguous":
                return EpochLoops(why="ambiguous")
            if driven or result == "endless":
                return EpochLoops(why="next-driven")
            missing = True
            continue
        for loop in result:
            known = rebuilding if loop.built is not None else found
            if all(loop.loop is not other.loop for other in known):
                known.append(loop)
    if rebuilding:
        return EpochLoops(tuple(found), tuple(rebuilding))
    if found:
        return EpochLoops(tuple(found))
    return EpochLoops(why="no-epoch-loop" if missing else "no-iteration")


def _started(module: Module, flow: Flow) -> list[Use]:
    """The passes over a loader that next() reads: where ``iter(loader)`` stands, each as a use of its own.

    Empty where some pass starts as another ends (``except StopIteration``), or is begun for its first batch only.
    """
    found: list[Use] = []
    for alias in sorted(flow.aliases, key=lambda n: (n.lineno, n.col_offset)):
        made = module.parents.get(alias)
        if not isinstance(made, ast.Call) or alias not in made.args or last_name(made.func) not in _STARTS:
            continue
        outer = module.parents[made]
        if last_name(made.func) == "cycle" or (isinstance(outer, ast.Call) and last_name(outer.func) == "next"):
            return []
        if any(isinstance(n, ast.ExceptHandler) for n in module.around(made)):
            return []
        taken = next((u for u in flow.of("next") if alias in u.via), None)
        if taken is not None:
            found.append(replace(taken, node=made, value=alias))
    return found


_STARTS = frozenset({"iter", "enumerate", "zip", "cycle", "islice", "tqdm"})


def refills(module: Module, flow: Flow) -> list[tuple[ast.ExceptHandler, ast.Assign]]:
    """``it = iter(loader)`` in the branch that a loader's end leads to: where one pass ends and the next begins."""
    found: list[tuple[ast.ExceptHandler, ast.Assign]] = []
    for alias in sorted(flow.aliases, key=lambda n: (n.lineno, n.col_offset)):
        made = module.parents.get(alias)
        if not isinstance(made, ast.Call) or made.args != [alias] or last_name(made.func) != "iter":
            continue
        statement = module.parents[made]
        handler = module.parents.get(statement)
        if isinstance(statement, ast.Assign) and isinstance(handler, ast.ExceptHandler) and handler.type is not None:
            if last_name(handler.type) == "StopIteration":
                found.append((handler, statement))
    return found


# --- from a pass over the loader outwards ---


def _enclosing_loops(module: Module, node: ast.AST) -> list[Loop]:
    found: list[Loop] = []
    inner = node
    for outer in module.around(node):
        if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            break
        if isinstance(outer, (ast.For, ast.AsyncFor, ast.While)) and inner is not getattr(outer, "iter", None):
            found.append(outer)
        inner = outer
    return found


def _contains(module: Module, outer: ast.AST, node: ast.AST) -> bool:
    return node is outer or any(n is outer for n in module.around(node))


def _makers(module: Module, construction: ast.AST, depth: int = 0) -> list[ast.Call]:
    """The calls that lead to a construction: of its function, and of the functions that call that."""
    function = module.function(construction)
    if function is None or depth > _DEPTH - 1:
        return []
    calls = module.callers(function)
    return [*calls, *(c for call in calls for c in _makers(module, call, depth + 1))]


def _outward(
    module: Module, construction: ast.expr, flow: Flow, node: ast.AST, use: Use, calls: tuple[ast.expr, ...]
) -> list[EpochLoop] | str:
    counting: list[EpochLoop] = []
    loops = [loop for loop in _enclosing_loops(module, node) if loop is not node]
    for i, loop in enumerate(loops):
        builders = [b for b in (construction, *_makers(module, construction)) if _contains(module, loop, b)]
        if builders and not counting:
            return _anew(module, loops[i:], use, node, builders[-1])
        if builders:
            break
        counter = counter_of(module, loop)
        if counter is not None:
            counting.append(EpochLoop(loop, counter, node, use, calls))
    if len(counting) > 1:
        named = [c for c in counting if named_epoch(c.counter)]
        if len(named) != 1:
            return "ambiguous"
        counting = named
    if counting:
        return counting
    if _endless(module, loops, use):
        return "endless"
    function = module.function(node)
    if function is None or len(calls) > _DEPTH:
        return "none"
    if _contains(module, function, construction):
        # The loader is local to this function: a loop around a call of it builds the loader anew each time.
        return _called_anew(module, function, use, 0)
    callers = _ways_in(module, function, flow, use)
    results = [_outward(module, construction, flow, call, use, (call, *calls)) for call in callers[:_MAX_CALLERS]]
    loops_found = [loop for r in results if isinstance(r, list) for loop in r]
    if loops_found:
        return loops_found
    return next((r for r in results if isinstance(r, str) and r != "none"), "none")


def _ways_in(module: Module, function: ast.AST, flow: Flow, use: Use) -> Sequence[ast.expr]:
    """What runs the function in which a loader is read: the calls that hand the loader in, where one does."""
    callers = module.callers(function)
    handing = [c for c in use.calls if module.called_function(c) is function]
    if handing:
        values = [(c, v) for c in callers for v in (*c.args, *(k.value for k in c.keywords))]
        handing += [c for c, value in values if value in flow.aliases and c not in handing]
    return handing or callers or _iterated(module, function, use)


def _endless(module: Module, loops: list[Loop], use: Use) -> bool:
    """Whether a generator gives the batches of one pass after another without end: who takes them sees no epochs."""
    endless = any(isinstance(n, ast.While) and isinstance(n.test, ast.Constant) and n.test.value for n in loops)
    body: list[ast.stmt] = getattr(use.node, "body", [])
    return endless and any(isinstance(n, ast.Yield) for s in body if isinstance(body, list) for n in ast.walk(s))


def _iterated(module: Module, function: ast.AST, use: Use) -> list[ast.expr]:
    """What is iterated where the ``__iter__`` of a class around the loader runs."""
    if getattr(function, "name", "") != "__iter__":
        return []
    cls = module.class_of(function)
    made = [c for c in use.calls if cls is not None and _builds(module, c, cls)]
    found = [u for call in made for u in follow(module, call).of("iterate") if u.node is not use.node]
    return [u.value for u in found if isinstance(u.node, (ast.For, ast.AsyncFor))]


def _builds(module: Module, call: ast.Call, cls: ast.ClassDef) -> bool:
    function = module.called_function(call)
    return function is not None and function.name == "__init__" and module.class_of(function) is cls


def _anew(module: Module, loops: Sequence[Loop], use: Use, inside: ast.AST, builder: ast.expr) -> list[EpochLoop] | str:
    """The loop over epochs among loops that all build the loader anew: the one that counts, and is called so."""
    found: list[EpochLoop] = []
    for loop in loops:
        counter = counter_of(module, loop)
        if counter is not None and (counter == "" or named_epoch(counter)):
            found.append(EpochLoop(loop, counter, inside, use, built=builder))
    return found if len(found) == 1 else "none"


def _called_anew(module: Module, function: ast.AST, use: Use, depth: int) -> list[EpochLoop] | str:
    """The loops over epochs that call a function which builds a loader and reads it."""
    found: list[EpochLoop] = []
    for call in module.callers(function)[:_MAX_CALLERS]:
        loops = _enclosing_loops(module, call)
        outer = module.function(call)
        inner = _anew(module, loops, use, call, call) if loops else "none"
        if isinstance(inner, str) and not loops and outer is not None and depth < _DEPTH:
            inner = _called_anew(module, outer, use, depth + 1)
        if isinstance(inner, list):
            found += inner
    return found or "none"


# --- who tells the epoch ---


@dataclass(frozen=True, eq=False)
class SetEpoch:
    """A call that tells an epoch: ``receiver.set_epoch(e)``, or ``getattr(receiver, "set_epoch", ...)(e)``."""

    call: ast.Call
    receiver: ast.expr
    argument: ast.expr | None


_CALLS: WeakKeyDictionary[Module, list[SetEpoch]] = WeakKeyDictionary()


def set_epoch_calls(module: Module) -> list[SetEpoch]:
    """Every ``set_epoch`` call of a module's project, the ``getattr`` form included."""
    return [call for fellow in module.fellows for call in _calls_of(fellow)]


def _calls_of(module: Module) -> list[SetEpoch]:
    known = _CALLS.get(module)
    if known is None:
        known = _CALLS[module] = (
            [t for c in module.calls if (t := _told(c)) is not None] if _NAME in module.text else []
        )
    return known


def _told(call: ast.Call) -> SetEpoch | None:
    func = call.func
    argument = call.args[0] if call.args else next((k.value for k in call.keywords), None)
    if isinstance(func, ast.Attribute) and func.attr == _NAME:
        return SetEpoch(call, func.value, argument)
    if isinstance(func, ast.Call) and last_name(func.func) == "getattr" and len(func.args) > 1:
        name = func.args[1]
        if isinstance(name, ast.Constant) and name.value == _NAME:
            return SetEpoch(call, func.args[0], argument)
    return None


_NAME = "set_epoch"


def tells(module: Module, call: SetEpoch, loader: Flow, sampler: Flow | None) -> bool:
    """Whether a ``set_epoch`` call reaches a loader or its sampler, also by a name for ``loader.sampler``, or by an
    object that holds one of them and passes the epoch on."""
    receivers = [call.receiver]
    if isinstance(call.receiver, ast.Name):
        definitions = module.bindings.reaching(call.receiver)
        values = [d.value for d in definitions if d.kind == "assign" and d.value is not None and d.index is None]
        receivers += [side for value in values for side in _sides(value)]
    if any(_reaches(receiver, loader, sampler) for receiver in receivers):
        return True
    return _passed_on(module, call, loader, sampler)


def _sides(value: ast.expr) -> list[ast.expr]:
    """What a conditional expression may be."""
    return [*_sides(value.body), *_sides(value.orelse)] if isinstance(value, ast.IfExp) else [value]


def _reaches(receiver: ast.expr, loader: Flow, sampler: Flow | None) -> bool:
    if sampler is not None and receiver in sampler.aliases:
        return True
    while isinstance(receiver, ast.Attribute) and receiver.attr in ("sampler", "batch_sampler"):
        receiver = receiver.value
        if receiver in loader.aliases:
            return True
    return receiver in loader.aliases


def _passed_on(module: Module, call: SetEpoch, loader: Flow, sampler: Flow | None) -> bool:
    """Whether the receiver is an object made with the loader or sampler, of a class whose set_epoch tells one that it
    holds (``DataInfo(loader, sampler)``)."""
    given = [u for flow in (loader, sampler) if flow is not None for u in flow.of("argument", "handed")]
    for use in given:
        made = use.node
        if not isinstance(made, ast.Call) or use.value not in (*made.args, *(k.value for k in made.keywords)):
            continue
        methods = [module.method(cls, _NAME) for cls in module.project_classes(made.func)]
        if not any(_tells_its_own(n) for method in methods if method is not None for n in ast.walk(method)):
            continue
        if call.receiver in follow(module, made).aliases:
            return True
    return False


def _tells_its_own(node: ast.AST) -> bool:
    """``self.sampler.set_epoch(..)``"""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "set_epoch"):
        return False
    root = node.func.value
    while isinstance(root, ast.Attribute):
        root = root.value
    return isinstance(root, ast.Name) and root.id == "self"


def untold(module: Module, loops: Sequence[EpochLoop], told: Sequence[SetEpoch]) -> list[EpochLoop]:
    """Those of a loader's loops that tell no epoch, where each of the calls is in one of the others: all epochs of
    such a loop have the order that the other one left behind."""
    known = {loop.loop for loop in loops}
    telling = [loops_around(module, call.call) & known for call in told]
    if len(loops) < 2 or not all(telling):
        return []  # where one call is made is not known: it may be anywhere
    return [loop for loop in loops if not any(loop.loop in around for around in telling)]


def loops_around(module: Module, node: ast.AST, depth: int = 0) -> set[ast.AST]:
    """The loops in which a node runs, those around the calls of its function included."""
    found: set[ast.AST] = {n for n in module.around(node) if isinstance(n, (ast.For, ast.AsyncFor, ast.While))}
    function = module.function(node)
    for call in module.callers(function) if function is not None and depth < _DEPTH else ():
        found |= loops_around(module, call, depth + 1)
    return found


__all__ = [
    "EpochLoop",
    "EpochLoops",
    "SetEpoch",
    "counter_of",
    "epoch_loops",
    "is_enumerated",
    "is_epoch_iterable",
    "loops_around",
    "refills",
    "set_epoch_calls",
    "tells",
    "untold",
]
