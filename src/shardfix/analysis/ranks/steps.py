"""The steps of the way to a node within its function: what must be alike on all ranks, and what is not known to be."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal
from weakref import WeakKeyDictionary

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.code.tree import calls_within, children, walk
from shardfix.analysis.programs.processes import distributed_test
from shardfix.analysis.ranks.ending import EndKind, end_of, gives_up, may_end, sets_a_timer

_Function = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_Loop = (ast.For, ast.AsyncFor, ast.While)
_Comprehension = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# What is evaluated as a whole, each part of it once.
_WHOLE = (
    *(ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Raise, ast.Delete, ast.Call, ast.keyword),
    *(ast.Starred, ast.Attribute, ast.Subscript, ast.Slice, ast.BinOp, ast.UnaryOp, ast.Tuple, ast.List, ast.Set),
    *(ast.Dict, ast.JoinedStr, ast.FormattedValue, ast.NamedExpr),
)
_TAKES_ALL = frozenset({"list", "tuple", "set", "dict", "sorted", "sum", "max", "min", "mean", "fsum", "join", "array"})
# Contexts in which every rank does what it does without them: none waits, and none gets over an exception.
_CONTEXTS = frozenset(
    {
        "no_grad",
        "inference_mode",
        "enable_grad",
        "set_grad_enabled",
        "autocast",
        "open",
        "tqdm",
        "trange",
        "nullcontext",
    }
    | {"profile", "record_function", "Profiler", "profiler", "timer", "Timer", "timeit", "catch_warnings", "closing"}
    | {"redirect_stdout", "redirect_stderr", "device", "no_sync", "Progress", "progress_bar", "SummaryWriter", "Pool"}
    | {"TemporaryDirectory", "NamedTemporaryFile", "set_default_dtype", "average_parameters", "sdp_kernel", "stream"}
    | {"sdpa_kernel", "logging_redirect_tqdm", "detect_anomaly", "set_detect_anomaly", "fork_rng", "emit_nvtx", "range"}
    | {"ema_scope", "ThreadPoolExecutor", "ProcessPoolExecutor", "deterministic_algorithms", "disable_progress_bar"}
)
_WAITS = re.compile(r"barrier|all_reduce|all_gather|broadcast|wait_for|rank|main_process|is_master")
_WAITING = ("barrier", "wait_for_everyone")
CAUGHT = "what is raised on one rank is caught here, and that rank goes on while the others wait for it"


@dataclass(frozen=True, eq=False, slots=True)
class Step:
    """One thing that the way to a node goes through.

    Args:
        kind: ``test``: its truth must be alike on all ranks; ``turns``: it must have as many items on all; ``dies``: a
            condition under which a program ends, which may not go by the rank; ``unknown``: nothing makes it alike.
    """

    node: ast.AST
    kind: Literal["test", "turns", "dies", "unknown"]
    why: str = ""


def steps(module: Module, node: ast.AST) -> Iterator[Step]:
    """The steps of one function that the way to a node goes through, from the inside out."""
    previous: ast.AST = node
    for outer in module.around(node):
        if isinstance(previous, ast.stmt):
            yield from _beside(module, previous, outer)
        if isinstance(outer, (*_Function, ast.Module)):
            return
        yield from _through(module, outer, previous)
        previous = outer


def _through(module: Module, outer: ast.AST, previous: ast.AST) -> Iterator[Step]:
    """What leads from a node to one directly within it."""
    if isinstance(outer, (ast.If, ast.IfExp)):
        if previous is not outer.test:
            yield Step(outer.test, "test")
    elif isinstance(outer, ast.While):
        if previous is not outer.test:
            yield Step(outer.test, "test")
        if previous in outer.orelse:
            yield from _leaving(module, outer.body, turns=True)
    elif isinstance(outer, ast.For):
        if previous is not outer.iter:
            yield Step(outer, "turns")
        if previous in outer.orelse:
            yield from _leaving(module, outer.body, turns=True)
    elif isinstance(outer, ast.BoolOp):
        for value in outer.values[: next((i for i, v in enumerate(outer.values) if v is previous), 0)]:
            yield Step(value, "test")
    elif isinstance(outer, ast.Compare):
        for value in outer.comparators[:-1] if previous in outer.comparators[1:] else ():
            yield Step(value, "test")
    elif isinstance(outer, _Comprehension):
        yield from _comprehension(module, outer, previous)
    elif isinstance(outer, ast.comprehension):
        pass  # said with what it is part of
    elif isinstance(outer, ast.With):
        inside = outer.items if previous in outer.body else outer.items[: _index(outer.items, previous)]
        for item in inside:
            yield from _context(module, item.context_expr, outer)
    elif isinstance(outer, ast.withitem):
        pass
    elif isinstance(outer, ast.Try) or type(outer).__name__ == "TryStar":
        yield from _tried(module, outer, previous)
    elif isinstance(outer, ast.ExceptHandler):
        yield Step(outer, "unknown", "it is where one rank comes to that an exception is raised on")
    elif isinstance(outer, ast.Match):
        if previous is not outer.subject:
            yield Step(outer.subject, "test")
            yield from (Step(c.guard, "test") for c in outer.cases if c.guard is not None)
    elif isinstance(outer, ast.match_case):
        pass
    elif isinstance(outer, ast.Assert):
        if previous is not outer.test:
            yield Step(outer, "unknown", "the message of an assertion is made where that fails only")
    elif isinstance(outer, (ast.Yield, ast.YieldFrom, ast.Await)):
        pass  # said of the function
    elif not isinstance(outer, _WHOLE):
        what = type(outer).__name__
        yield Step(outer, "unknown", f"whether all ranks come through this statement ({what}) is not known")


def _index(items: list[ast.withitem], item: ast.AST) -> int:
    return next((i for i, other in enumerate(items) if other is item), len(items))


def _comprehension(module: Module, outer: ast.expr, previous: ast.AST) -> Iterator[Step]:
    generators: list[ast.comprehension] = getattr(outer, "generators", [])
    if generators and previous is generators[0] and len(generators) == 1 and not generators[0].ifs:
        return  # what it goes over, once
    for generator in generators:
        yield Step(generator, "turns")
        yield from (Step(test, "test") for test in generator.ifs)
    if isinstance(outer, ast.GeneratorExp):
        call = module.parents.get(outer)
        if not (isinstance(call, ast.Call) and last_name(call.func) in _TAKES_ALL):
            yield Step(outer, "unknown", "how much of a generator each rank takes is not seen")


# -- contexts and exceptions --------------------------------------------------------------------------------------


def _context(module: Module, entered: ast.expr, statement: ast.AST) -> Iterator[Step]:
    if isinstance(entered, ast.Call) and last_name(entered.func) == "suppress":
        yield Step(statement, "unknown", CAUGHT)
    elif not _is_known(module, entered, 0):
        text = " ".join(ast.unparse(entered).split())[:60]
        yield Step(entered, "unknown", f"what `with {text}` does on each rank is not known: some may wait in it")


def _is_known(module: Module, entered: ast.expr, depth: int) -> bool:
    """Whether a context neither keeps a rank waiting nor gets over an exception."""
    if depth > 3:
        return False
    if isinstance(entered, ast.IfExp):
        return _is_known(module, entered.body, depth) and _is_known(module, entered.orelse, depth)
    if isinstance(entered, (ast.Name, ast.Attribute)):
        found = [d.value for d in module.bindings.reaching(entered)]
        if not found and isinstance(entered, ast.Attribute):
            cls = module.class_of(entered)
            found = [d.value for d in module.attribute_values(cls, entered.attr)] if cls is not None else []
        return bool(found) and all(v is not None and _is_known(module, v, depth + 1) for v in found)
    if not isinstance(entered, ast.Call):
        return False
    functions = module.called_functions(entered)
    classes = module.project_classes(entered.func)
    if classes:
        return all(_class_is_plain(c) for c in classes)
    if functions:
        return all(_function_is_plain(module, f) for f in functions)
    if last_name(entered.func) in _CONTEXTS:
        return True
    made = [d.value for d in module.bindings.reaching(entered.func)]  # amp_autocast = torch.cuda.amp.autocast
    return bool(made) and all(v is not None and _stands_for(v) for v in made)


def _stands_for(node: ast.expr) -> bool:
    if isinstance(node, ast.IfExp):
        return _stands_for(node.body) and _stands_for(node.orelse)
    if isinstance(node, ast.Call) and last_name(node.func) == "partial" and node.args:
        return _stands_for(node.args[0])
    if isinstance(node, ast.Lambda):
        return isinstance(node.body, ast.Call) and last_name(node.body.func) in _CONTEXTS
    return last_name(node) in _CONTEXTS


def _class_is_plain(cls: ast.ClassDef) -> bool:
    methods = [s for s in cls.body if isinstance(s, ast.FunctionDef) and s.name in ("__enter__", "__exit__")]
    leave = [s for s in methods if s.name == "__exit__"]
    gets_over = [n for s in leave for n in ast.walk(s) if isinstance(n, ast.Return) and not _is_falsy(n.value)]
    return len(methods) == 2 and not gets_over and not _WAITS.search(ast.unparse(cls))


def _is_falsy(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and not value.value)


def _function_is_plain(module: Module, function: ast.AST) -> bool:
    decorators = [last_name(d) for d in getattr(function, "decorator_list", [])]
    called = [f for n in ast.walk(function) if isinstance(n, ast.Call) for f in module.called_functions(n)]
    if decorators != ["contextmanager"] or any(_WAITS.search(ast.unparse(f)) for f in (function, *called)):
        return False
    return not any(isinstance(n, ast.ExceptHandler) and not gives_up(n) for n in ast.walk(function))


def _tried(module: Module, outer: ast.AST, previous: ast.AST) -> Iterator[Step]:
    handlers: list[ast.ExceptHandler] = getattr(outer, "handlers", [])
    if previous in getattr(outer, "body", []) or previous in getattr(outer, "orelse", []):
        inside = module.function(outer) is not None
        goes_on = inside or (isinstance(outer, ast.stmt) and outer in module.block(outer)[:-1])
        found = next((h for h in handlers if not gives_up(h)), None) if goes_on else None
        if found is not None:
            yield Step(found, "unknown", CAUGHT)
    elif previous in getattr(outer, "finalbody", []) and handlers:
        yield Step(outer, "unknown", "it is run where an exception is raised on one rank as well")


# -- what stands before, and behind in a loop ---------------------------------------------------------------------


def _beside(module: Module, statement: ast.stmt, outer: ast.AST) -> Iterator[Step]:
    """What of the block of a statement keeps a rank from it: statements before it, and in a loop those behind it."""
    block = module.block(statement)
    place = block.index(statement) if statement in block else 0
    yield from _leaving(module, block[:place], turns=True)
    if isinstance(outer, _Loop) and statement in outer.body:
        behind = [*block[place + 1 :], *([statement] if place < len(block) else [])]
        yield from _leaving(module, behind, turns=False)
    yield from (step for s in block[:place] for step in _ended_within(module, s))
    waits = [s for s in block[:place] if _waits_by_rank(module, s)]
    if len(waits) % 2 and any(_waits_by_rank(module, s) for s in block[place + 1 :]):
        yield Step(waits[-1], "unknown", "ranks wait for one another here, and the others come to the evaluation first")


def _ended_within(module: Module, statement: ast.stmt) -> Iterator[Step]:
    """The conditions under which a function that a statement calls ends the program, and not for a failure."""
    if isinstance(statement, (*_Function, ast.ClassDef)):
        return
    for call in calls_within(statement):
        if sets_a_timer(module, call):
            yield Step(call, "unknown", "what comes after a time comes to each rank in another place")
        ends = [e for f in module.called_functions(call) if (e := _ends_in(module.home(f), f)) is not None]
        way = _up_to(module, call, statement) if ends else None
        if way is not None:
            yield from (step for found in (way, *ends) for step in found)


# What is asked about is known to end nothing by itself.
_ENDS: WeakKeyDictionary[Module, dict[ast.AST, list[Step] | None]] = WeakKeyDictionary()


def _ends_in(home: Module, function: ast.AST) -> list[Step] | None:
    """The conditions under which a function or what it calls ends the program; None where nothing in it does."""
    known = _ENDS.setdefault(home, {})
    if function in known or not may_end(home):
        return known.get(function)
    known[function] = None
    found: list[Step] | None = None
    for n in walk(function):
        if isinstance(n, (ast.Raise, ast.Call)) and home.function(n) is function:
            within: list[list[Step]] = []
            if end_of(home, n) == "leaves":
                within = [[]]
            elif isinstance(n, ast.Call):
                within = [e for f in home.called_functions(n) if (e := _ends_in(home.home(f), f)) is not None]
            if within:
                found = [*(found or []), *steps(home, n), *(step for steps_ in within for step in steps_)]
    known[function] = found
    return found


def ends_inside(module: Module, loop: ast.AST) -> ast.AST | None:
    """What in a loop ends the rank that comes to it without a failure."""
    for n in walk(loop):
        if isinstance(n, (ast.Raise, ast.Call)) and end_of(module, n) == "leaves":
            return n
        called = module.called_functions(n) if isinstance(n, ast.Call) else []
        if any(_ends_in(module.home(f), f) is not None for f in called):
            return n
    return None


def _up_to(module: Module, call: ast.Call, statement: ast.AST) -> list[Step] | None:
    """What leads to a call within a statement; None where it is not run there."""
    found: list[Step] = []
    previous: ast.AST = call
    for outer in module.around(call):
        if isinstance(outer, (*_Function, ast.ClassDef)):
            return found if outer is statement else None
        found += _through(module, outer, previous)
        if outer is statement:
            break
        previous = outer
    return found


def _waits_by_rank(module: Module, statement: ast.stmt) -> bool:
    """Whether ranks wait for others in a statement by a condition on the rank: there, or in a function it calls."""
    if isinstance(statement, ast.If):
        return _is_barrier(statement)
    return any(
        isinstance(n, ast.If) and _is_barrier(n)
        for f in _called(module, statement)
        if any(word in module.home(f).text for word in _WAITING)  # few files name what waits
        for n in walk(f)
    )


def _called(module: Module, statement: ast.stmt) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions of the project that a plain statement calls."""
    if not isinstance(statement, (ast.Expr, ast.Assign)):
        return []
    return [f for n in calls_within(statement) for f in module.called_functions(n)]


def _is_barrier(statement: ast.If) -> bool:
    waits = any(last_name(c.func) in _WAITING for c in calls_within(statement))
    parts = statement.test.values if isinstance(statement.test, ast.BoolOp) else [statement.test]
    return waits and any(distributed_test(p) is None and "is_available" not in ast.unparse(p) for p in parts)


def _leaving(module: Module, statements: Iterable[ast.stmt], *, turns: bool) -> Iterator[Step]:
    """The conditions under which statements go no further, or go to the next turn.

    Args:
        turns: whether to go on to the next turn leaves what is asked for.
    """
    for s in statements:
        yield from _leavers(module, s, [], loops=0, turns=turns)


def _leavers(module: Module, node: ast.AST, way: list[Step], *, loops: int, turns: bool) -> Iterator[Step]:
    """What leads to each statement within a node that goes no further.

    Args:
        way: what leads to the node.
        loops: the loops around it that are within what is asked of.
    """
    for call in (c for head in _heads(node) for c in calls_within(head)):
        end = end_of(module, call)
        inside = _up_to(module, call, node) if end != "goes on" else None
        if inside is not None:
            yield from _ended([*way, *inside], end)
    if isinstance(node, _Function):
        return
    returns = isinstance(node, ast.Return)
    stops = (isinstance(node, ast.Break) and not loops) or (turns and isinstance(node, ast.Continue) and not loops)
    if returns or stops:
        yield from way
    elif isinstance(node, ast.Assert):
        yield from _ended([*way, Step(node.test, "test")], "fails")
    elif isinstance(node, ast.Raise):
        yield from _ended(way, end_of(module, node))
    elif isinstance(node, ast.If):
        for s in (*node.body, *node.orelse):
            yield from _leavers(module, s, [*way, Step(node.test, "test")], loops=loops, turns=turns)
    elif isinstance(node, _Loop):
        asked = Step(node.test, "test") if isinstance(node, ast.While) else Step(node, "turns")
        for s in node.body:
            yield from _leavers(module, s, [*way, asked], loops=loops + 1, turns=turns)
        whole = [*way, asked, *(_leaving(module, node.body, turns=False) if node.orelse else ())]
        for s in node.orelse:
            yield from _leavers(module, s, whole, loops=loops, turns=turns)
    elif isinstance(node, ast.ExceptHandler):
        why = "where an exception is raised on one rank only, that rank goes no further here"
        for s in node.body:
            yield from _leavers(module, s, [*way, Step(node, "unknown", why)], loops=loops, turns=turns)
    elif isinstance(node, ast.Match):
        for case in node.cases:
            tests = [Step(node.subject, "test"), *([Step(case.guard, "test")] if case.guard is not None else [])]
            for s in case.body:
                yield from _leavers(module, s, [*way, *tests], loops=loops, turns=turns)
    else:
        for child in children(node):
            if isinstance(child, (ast.stmt, ast.ExceptHandler)):
                yield from _leavers(module, child, way, loops=loops, turns=turns)


def _heads(node: ast.AST) -> tuple[ast.AST, ...]:
    """What a statement itself evaluates, without the statements in it."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return (*node.decorator_list, *node.args.defaults, *(d for d in node.args.kw_defaults if d is not None))
    if isinstance(node, (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign)):
        return (node,)
    return tuple(n for n in children(node) if isinstance(n, (ast.expr, ast.withitem)))


def _ended(way: list[Step], end: EndKind) -> Iterator[Step]:
    """What is asked of the way to an end: at a failure, what started the ranks ends them all."""
    if end == "fails":
        yield from (Step(s.node, "dies") for s in way if s.kind == "test")
    else:
        yield from way


__all__ = ["CAUGHT", "Step", "ends_inside", "steps"]
