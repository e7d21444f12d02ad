"""Calls of ``set_epoch`` that give no epoch an order of its own: of one number, too late, on another loader."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from shardfix.codemods._findings import refuse

from shardfix.analysis.code.calling import argument_of
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import SAMPLER_KINDS, last_name
from shardfix.analysis.loops.counters import Loop
from shardfix.analysis.loops.epochs import EpochLoop, SetEpoch
from shardfix.analysis.loops.evaluation import evaluates
from shardfix.analysis.loops.makings import makings
from shardfix.analysis.loops.spoken import role_of_name
from shardfix.analysis.model import Finding
from shardfix.analysis.programs.processes import distributed_test, every_guard, is_main_test, is_not_main_test
from shardfix.analysis.sites import Site

_DEPTH = 4


def told_in_vain(site: Site) -> Finding | None:
    """A sampler that each call of ``set_epoch`` tells one number for good, too late, or on some ranks only."""
    module = site.module
    loops = {loop.loop: loop for loop in (*site.epoch_loops.loops, *site.epoch_loops.rebuilding)}
    if not loops:
        return None
    why = [_too_early(site, t) or _vain(site, t, loops) for t in site.told]
    if not why or not all(why):
        return None
    return Finding(
        "SHD403",
        site.location,
        why[0],
        (module.evidence(site.told[0].call), module.evidence(next(iter(loops)))),
        "call it on every rank, first in the loop over epochs, with the loop's counter",
    )


def told_another(site: Site, told: Sequence[SetEpoch]) -> Finding | None:
    """Another loader of the same factory is told the epoch, and the one that an epoch loop reads is not."""
    module = site.module
    arms = [
        a.node for a in (*site.arms, *(i for b in site.batch_arms for i in b.inner)) if isinstance(a.node, ast.Call)
    ]
    if any(_is_one_of_several(module, n) for n in (site.call, *arms)):
        return None  # a call of the factory may make another loader than this
    training = {
        loop.use.node
        for loop in (*site.epoch_loops.loops, *site.epoch_loops.rebuilding)
        if not evaluates(module, loop.use.node)
    }
    for made in makings(module, site.call, arms):
        read = [u.node for u in made.flow.of("iterate") if u.node in training]
        if not read or made.is_told(module, told) or _is_to_evaluate(module, made.node):
            continue
        return Finding(
            "SHD403",
            site.location,
            "set_epoch is called on another loader than the one that is read: each has a sampler of its own",
            (module.evidence(told[0].call), module.evidence(made.node)),
            "make the loader once, in a variable, and tell and read that one; where there are several, tell each",
        )
    return None


def _is_one_of_several(module: Module, node: ast.expr) -> bool:
    """Whether a condition chooses what is made, other than one that asks whether there are several processes."""
    tests = [n.test for n in module.around(node) if isinstance(n, (ast.If, ast.IfExp))]
    return any(distributed_test(test) is None for test in tests)


def _is_to_evaluate(module: Module, making: ast.expr) -> bool:
    """Whether a call that makes a loader, or what its result is named, says that it is to evaluate."""
    statement = module.statement(making)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    words = [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
    words += [n.attr for t in targets for n in ast.walk(t) if isinstance(n, ast.Attribute)]
    words += [str(n.value) for n in ast.walk(statement) if isinstance(n, ast.Constant)]
    words += [n.id for n in ast.walk(making) if isinstance(n, ast.Name)]
    return any(role_of_name(word) == "eval" for word in words)


def _vain(site: Site, told: SetEpoch, loops: Mapping[Loop, EpochLoop]) -> str:
    """Why one call of ``set_epoch`` does not give each epoch an order of its own on all ranks; empty if it may."""
    module = site.module
    reads = {g for u in site.flow.of("iterate") for g in every_guard(module, u.node)}
    guards = every_guard(module, told.call)
    function = module.function(told.call)
    calls = module.callers(function) if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) else []
    guards = [None if g is not None and _in_both_arms(module, g, calls) else g for g in guards]
    if all(g is not None and g not in reads and _asks_for_main(module, g) for g in guards):
        return _SOME_RANKS
    return _too_few(site, told.call, told.argument, loops, 0)


def _in_both_arms(module: Module, test: ast.expr, calls: Sequence[ast.Call]) -> bool:
    """Whether each arm of a condition runs one of the calls, so that all ranks come to what they call."""
    condition = module.parents[test]
    if not isinstance(condition, ast.If) or not condition.orelse:
        return False
    arms = ({n for s in arm for n in ast.walk(s)} for arm in (condition.body, condition.orelse))
    return all(any(c in arm for c in calls) for arm in arms)


def _asks_for_main(module: Module, guard: ast.expr) -> bool:
    if distributed_test(guard) is not None:
        return False
    decorates = guard in getattr(module.parents[guard], "decorator_list", ())
    return decorates or is_main_test(guard) or is_not_main_test(guard)


def _too_few(
    site: Site, place: ast.Call, argument: ast.expr | None, loops: Mapping[Loop, EpochLoop], depth: int
) -> str:
    """Why the epochs are not all told, by a call of ``set_epoch`` or one that leads there, whichever way it runs."""
    module = site.module
    around = list(module.around(place))
    outer = next((loop for loop in loops if loop in around), None)
    if isinstance(argument, ast.Constant):
        return _ONE_NUMBER
    if outer is None:
        function = module.function(place)
        if function in {module.function(loop) for loop in loops}:
            return _ONE_NUMBER
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) or depth >= _DEPTH:
            return ""
        ways = [
            _too_few(site, call, _given(module, function, call, argument), loops, depth + 1)
            for call in module.callers(function)
        ]
        return ways[0] if ways and all(ways) else ""
    uses = [u.node for u in site.flow.of("iterate") if outer in module.around(u.node)]
    if any(use in around for use in uses):
        return "set_epoch is called within the loop over batches, whose order stands by then"
    for test in (n.test for n in around[: around.index(outer)] if isinstance(n, ast.If)):
        shared = any(module.parents[test] in module.around(use) for use in uses)
        if not shared and _asks_for_main(module, test) and not _in_both_arms(module, test, _alike(module, place)):
            return _SOME_RANKS
        once = isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq)
        if once and isinstance(test, ast.Compare) and argument is not None:
            if ast.dump(test.left) == ast.dump(argument) and isinstance(test.comparators[0], ast.Constant):
                return _ONE_NUMBER
    if isinstance(argument, ast.Name):
        definitions = module.bindings.reaching(argument)
        if definitions and not any(outer in (d.statement, *module.around(d.statement)) for d in definitions):
            return _ONE_NUMBER
        line = max(module.location(n).line for n in (*uses, loops[outer].inside))
        if argument.id == loops[outer].counter and place.lineno > line and isinstance(outer, ast.For):
            return "set_epoch is called behind the epoch's batches, so the second epoch repeats the first one's order"
    return ""


def _alike(module: Module, place: ast.Call) -> list[ast.Call]:
    """The calls that run what a call runs, this one among them."""
    return [place, *(call for f in module.called_functions(place) for call in module.callers(f))]


def _given(
    module: Module, function: ast.FunctionDef | ast.AsyncFunctionDef, call: ast.Call, argument: ast.expr | None
) -> ast.expr | None:
    """What a call gives to the parameter that a function tells as the epoch; None where that is not seen."""
    bound = module.bindings.reaching(argument) if isinstance(argument, ast.Name) else frozenset()
    if isinstance(argument, ast.Name) and bound and all(d.kind == "parameter" and d.scope is function for d in bound):
        return argument_of(module, function, call, argument.id)
    return None


def _too_early(site: Site, told: SetEpoch) -> str:
    """Whether a call tells the sampler of the epoch before, where each epoch builds its own."""
    module = site.module
    arms = [a.node for a in (*site.arms, *(i for b in site.batch_arms for i in b.inner)) if a.kind == "distributed"]
    around = list(module.around(told.call))
    for loop in site.epoch_loops.rebuilding:
        if loop.built is site.call and loop.loop in around and arms:
            if all(loop.loop in module.around(n) and n.lineno > told.call.lineno for n in arms):
                return "set_epoch is called before the epoch's own sampler is built, which stays at epoch 0"
    return ""


_SOME_RANKS = "set_epoch is called on some ranks only: the ranks cut different permutations, so shards overlap"
_ONE_NUMBER = "set_epoch is told one number for all epochs, so every epoch repeats the order of the first"


def asks_for_another(module: Module, told: SetEpoch) -> bool:
    """Whether a call of ``set_epoch`` stands under a condition that no DistributedSampler meets: ``if
    isinstance(loader.sampler, RandomSampler): loader.sampler.set_epoch(e)``."""
    inner: ast.AST = told.call
    for outer in module.around(told.call):
        if isinstance(outer, ast.If) and inner in outer.body:
            tests = outer.test.values if isinstance(outer.test, ast.BoolOp) else [outer.test]
            every = not isinstance(outer.test, ast.BoolOp) or isinstance(outer.test.op, ast.And)
            if every and any(_is_of_another(module, test, told.receiver) for test in tests):
                return True
        if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return False
        inner = outer
    return False


def _is_of_another(module: Module, test: ast.expr, receiver: ast.expr) -> bool:
    if not isinstance(test, ast.Call) or last_name(test.func) != "isinstance" or len(test.args) != 2:
        return False
    asked, classes = test.args
    if ast.dump(asked) != ast.dump(receiver):
        return False
    home = module.home(test)
    kinds = [
        {SAMPLER_KINDS.get(name, "distributed") for name in home.qualify(cls) or ("",)}
        for cls in (classes.elts if isinstance(classes, ast.Tuple) else [classes])
    ]
    return not any("distributed" in found for found in kinds)


def may_run(site: Site, told: SetEpoch) -> bool:
    """Whether a call of ``set_epoch`` may run: not where it is in a method that nothing calls or speaks of, of a class
    whose other methods are called."""
    module = site.module
    function = module.function(told.call)
    cls = module.parents[function] if function is not None else None
    if not isinstance(function, ast.FunctionDef) or not isinstance(cls, ast.ClassDef) or function.decorator_list:
        return True
    if module.callers(function) or function.name.startswith("__"):
        return True
    reading = {module.function(use.node) for use in site.flow.of("iterate")} - {None, function}
    calls = [c for f in reading if f is not None for c in module.callers(f)]
    if not any(module.function(c) is not function for c in calls):
        return True  # nothing else here runs the loop either: a library's class
    if any(not module.project_classes(base) for member in module.lineage(cls) for base in member.bases):
        return True  # a base of a library may call it
    return any(_speaks_of(fellow, function) for fellow in module.fellows)


def _speaks_of(module: Module, function: ast.FunctionDef) -> bool:
    """Whether a file may run a method: by its name on an object that is not known, by a string, by a computed name."""
    for load in module.attribute_loads.get(function.name, []):
        if function not in module.around(load) and not module.instances(load.value):
            return True
    if "getattr" not in module.text and f'"{function.name}"' not in module.text:
        return f"'{function.name}'" in module.text
    return True


def never_run(site: Site, told: SetEpoch) -> Finding:
    module = site.module
    name = getattr(module.function(told.call), "name", "")
    return refuse(
        site,
        "SHD920",
        instead=f"set_epoch is called in {name}(), which nothing here calls",
        evidence=(module.evidence(told.call),),
    )
