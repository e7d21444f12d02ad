"""The way of a loader, step by step: built, named, kept, handed on, prepared, read, and who counts its epochs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.loaders.flow import Use, UseKind
from shardfix.analysis.model import Step
from shardfix.analysis.programs.processes import main_process_guard
from shardfix.analysis.sites import Site

# Ends of a way, the telling ones first: a way that was shown is not shown again.
_ENDS: tuple[UseKind, ...] = ("prepare", "iterate", "next", "argument", "returned", "escape", "discarded", "length")
_Step = tuple[ast.AST, str]


def chain(site: Site) -> tuple[Step, ...]:
    """Every line that a loader passes from its construction to what reads it, each once and with what happens there."""
    module = site.module
    lines: dict[tuple[str, int], list[str]] = {}
    places: dict[tuple[str, int], ast.AST] = {}
    for node, what in _steps(site):
        location = module.location(node)
        key = (location.path, location.line)
        places.setdefault(key, node)
        said = lines.setdefault(key, [])
        if what not in said:
            said.append(what)
    found: list[Step] = []
    for key, said in lines.items():
        evidence = module.evidence(places[key])
        found.append(Step(evidence.location, evidence.text.strip(), "; ".join(said)))
    return tuple(found)


def _steps(site: Site) -> Iterator[_Step]:
    module, flow = site.module, site.flow
    prepares = {use.node for use in flow.of("prepare")}  # each says of itself that it gets the loader
    yield site.call, "the loader is built"
    for arm in (*site.arms, *site.batch_arms):
        if isinstance(arm.node, ast.Call):
            yield arm.node, f"its sampler: {module.source.source(arm.node.func)}"
    for answer in site.answers.all():
        if answer.question in site.heeded and answer.comment:
            yield site.call, f"told: {answer.question}={answer.word} ({answer.where})"
    for use in sorted(flow.uses, key=lambda u: _ENDS.index(u.kind) if u.kind in _ENDS else len(_ENDS)):
        if use.kind in _ENDS:
            yield from (step for step in _way(module, use) if step[0] not in prepares)
            yield from _end(site, use)
    for told in site.told:
        yield told.call, "the epoch is told"
    if not flow.of("iterate", "next", "argument", "returned", "escape"):
        yield site.call, "nothing is seen to read it"
    if flow.bounded:
        yield site.call, "it goes through more code than is followed"


def _way(module: Module, use: Use) -> Iterator[_Step]:
    """What happens from each expression that stands for the loader to the next."""
    for node, following in pairwise(use.via):
        yield from _passed(module, node, following)


def _passed(module: Module, node: ast.expr, following: ast.expr) -> Iterator[_Step]:
    outer: ast.AST = module.parents[node]
    while isinstance(outer, (ast.keyword, ast.Starred)):
        outer = module.parents[outer]
    if isinstance(outer, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
        yield outer, _kept(module, outer, following)
    elif isinstance(outer, (ast.Tuple, ast.List, ast.Set, ast.Dict)):
        yield node, f"an item of a {type(outer).__name__.lower()}{_key(module, outer, node)}"
    elif isinstance(outer, (ast.Return, ast.Yield)):
        function = module.function(outer)
        yield outer, f"{'returned' if isinstance(outer, ast.Return) else 'yielded'} by {_called(function)}"
        yield following, f"what {_called(function)} gives"
    elif isinstance(outer, (ast.For, ast.AsyncFor)):
        yield outer, f"taken in turn as `{module.home(outer).source.source(outer.target)}`"
    elif isinstance(outer, ast.Subscript):
        yield outer, "taken out"
    elif isinstance(outer, ast.Call):
        yield from _handed(module, outer, following)


def _handed(module: Module, call: ast.Call, following: ast.expr) -> Iterator[_Step]:
    name = module.home(call).source.source(call.func)
    if following is call:
        yield call, f"passed through {name}()"
        return
    inside = module.function(following)
    if inside is not None and inside in module.called_functions(call):
        yield call, f"handed to {name}()"
        yield inside, f"its parameter `{_parameter(module, following)}`"
    else:
        yield call, f"put in by {name}()"


def _parameter(module: Module, reader: ast.expr) -> str:
    return next((d.key for d in module.bindings.reaching(reader) if d.kind == "parameter"), "")


def _kept(module: Module, statement: ast.AST, reader: ast.expr) -> str:
    """Under what an assignment keeps the loader: the name that is read next, else all that it assigns to."""
    mine = sorted({d.key for d in module.bindings.reaching(reader) if d.statement is statement})
    if mine:
        return f"{'kept in' if '.' in mine[0] else 'named'} `{mine[0]}`"
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", statement)]
    return f"kept in `{' = '.join(module.home(t).source.source(t) for t in targets)}`"


def _key(module: Module, container: ast.expr, item: ast.expr) -> str:
    if not isinstance(container, ast.Dict):
        return ""
    key = next((k for k, v in zip(container.keys, container.values, strict=True) if v is item), None)
    return f", under {module.home(key).source.source(key)}" if key is not None else ""


def _called(function: ast.AST | None) -> str:
    return f"{getattr(function, 'name', 'a lambda')}()"


def _end(site: Site, use: Use) -> Iterator[_Step]:
    """What a use does, the condition that lets one process in only, and the loop over epochs around a reading loop."""
    module = site.module
    # The `for` in a comprehension has no place of its own.
    place = use.node if hasattr(use.node, "lineno") else use.value
    prepared = ", as prepare() gave it" if use.prepared is not None else ""
    if use.kind == "prepare":
        assert isinstance(use.node, ast.Call)
        yield place, f"{module.home(use.node).source.source(use.node.func)}() gets it"
        return
    if use.kind in ("argument", "escape"):
        callee = last_name(use.node.func) if isinstance(use.node, ast.Call) else ""
        if callee == "len":
            yield place, "its length is read"
            return
        yield place, f"handed to {callee}(), which is not seen into" if callee else "goes where it is not followed"
        return
    words = {
        "iterate": f"read{prepared}",
        "next": f"read by next(){prepared}",
        "returned": f"returned by {_called(use.node)} to callers that are not seen",
        "discarded": f"not used any further{prepared}",
        "length": "its length is read",
    }
    yield place, words[use.kind]
    if use.kind not in ("iterate", "next"):
        return
    for node in (use.node, *use.calls):
        guard = main_process_guard(module, node)
        if guard is not None:
            yield guard, "only one process comes here"
    for loop in site.epoch_loops.loops:
        if loop.use is use:
            yield (
                loop.loop,
                f"the loop over epochs, counted by `{loop.counter}`"
                if loop.counter
                else ("the loop over epochs, which names no counter"),
            )
