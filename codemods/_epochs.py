"""The edits that tell a sampler the epoch: in its epoch loop, behind what builds it anew, where one pass ends."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from itertools import takewhile

from shardfix.codemods._in_vain import asks_for_another
from shardfix.codemods._receivers import bound_within, receiver

from shardfix.analysis.code.bindings import attribute_key
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.spelling import free_name, spell_distributed_sampler
from shardfix.analysis.loops.counters import counted_up
from shardfix.analysis.loops.epochs import EpochLoop, loops_around, refills
from shardfix.analysis.loops.evaluation import evaluates
from shardfix.analysis.sites import Site
from shardfix.rewrite.edits import Edit, InsertStatements, ReplaceExpression

_COUNTERS = ("epoch", "epoch_index", "epoch_number")


@dataclass(frozen=True, slots=True)
class Untold:
    """Why the epoch can't be told: the refusal's code, in words what it is here where its title says less, and what to
    write where that can be said better than in general."""

    code: str
    why: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Sampler:
    """The sampler that is to be told.

    Args:
        variable: what holds it where the loader is built; empty if nothing does.
        guard: ``""`` where it is always a DistributedSampler, ``"none"`` where it may be None, ``"kind"`` where it may
            be another sampler.
        class_name: how the file spells DistributedSampler.
        is_new: the variable is made by this change, so no other assignment can stand in the way.
    """

    variable: str
    guard: str
    class_name: str
    is_new: bool = False


def tell_epoch(
    site: Site, sampler: str, guard: str, class_name: str, *, sampler_is_new: bool = False
) -> list[Edit] | Untold:
    """The edits that call ``set_epoch`` first in each epoch loop of a site, or why there are none.

    Args:
        sampler, guard, class_name, sampler_is_new: see Sampler.
    """
    loops = site.epoch_loops
    told = Sampler(sampler, guard, class_name, sampler_is_new)
    paired = _paired(site)
    if paired is not None:
        return paired
    if loops.rebuilt:
        if loops.loops:
            return Untold("SHD924", "the loader is built anew in one loop over epochs and kept in another")
        return _all([_behind(site, loop, told) for loop in loops.rebuilding])
    if not loops.loops:
        if _built_in_a_loop(site):
            return Untold("SHD924", "the loader is built anew in each turn of a loop")
        if loops.why == "next-driven":
            return _at_the_end(site, told)
        return Untold({"ambiguous": "SHD910"}.get(loops.why, "SHD909"))
    training = [loop for loop in loops.loops if not evaluates(site.module, loop.use.node)]
    if site.role != "eval" and not training:
        return Untold("SHD909", "the epoch loop only evaluates on this loader")
    calls = [call for call in site.told if not asks_for_another(site.module, call)]
    telling = {loop for call in calls for loop in loops_around(site.module, call.call)}
    untold = [loop for loop in (loops.loops if site.role == "eval" else training) if loop.loop not in telling]
    return _all([tell_in(site, loop, told) for loop in untold])


def _all(parts: list[list[Edit] | Untold]) -> list[Edit] | Untold:
    """The edits of all parts, each once, or the first reason why one has none."""
    edits: list[Edit] = []
    for part in parts:
        if isinstance(part, Untold):
            return part
        edits.extend(e for e in part if e not in edits)
    return edits


def tell_in(site: Site, loop: EpochLoop, sampler: Sampler) -> list[Edit] | Untold:
    """The edits that tell the epoch at the top of one loop."""
    home = site.module.home(loop.loop)
    counter, renamed = _counter(site, loop)
    if counter is None:
        return Untold("SHD910")
    found = receiver(site, loop, sampler.variable, sampler_is_new=sampler.is_new)
    if found is None:
        beside = _before_batches(site, loop, sampler, counter)
        if beside is not None:
            return [*renamed, *beside]
        where = f"line {loop.loop.lineno}" if home is site.module else f"{home.path}:{loop.loop.lineno}"
        return Untold("SHD909", f"the epoch loop in {where} is seen, but no name at its start for this sampler")
    lines = _lines(site, found.source, sampler, loop.loop, counter, found.sure, found.asked)
    if isinstance(lines, Untold):
        return lines
    told, imports = lines
    span = home.source.span(loop.loop)
    return [*imports, *renamed, InsertStatements(home.path, span, "body", told)]


def _before_batches(site: Site, loop: EpochLoop, sampler: Sampler, counter: str) -> list[Edit] | None:
    """The edits that tell the epoch right before the batches are read, where what is read gets its name in the epoch
    loop: whatever it is then, it is asked what its sampler is."""
    home, batches = site.module.home(loop.loop), loop.use.node
    if loop.inside is not batches or not isinstance(batches, ast.For) or site.batch_arms:
        return None
    named = [n for n in ast.walk(batches.iter) if n in site.flow.aliases and isinstance(n, ast.expr)]
    spelled = _spelled(site, sampler.class_name, batches)
    if len(named) != 1 or not _repeatable(named[0]) or spelled is None:
        return None
    if not isinstance(named[0], ast.Subscript) and not bound_within(site.module, named[0], loop):
        return None  # it stands at the loop's start too, and may be something else on some path
    source = home.source.source(named[0])
    lines = (
        f'if isinstance(getattr({source}, "sampler", None), {spelled[0]}):',
        f"    {source}.sampler.set_epoch({counter})",
    )
    return [*spelled[1], InsertStatements(home.path, home.source.span(batches), "before", lines)]


def _repeatable(node: ast.expr) -> bool:
    """Whether an expression is a name, or an attribute or item of one, which is the same when it is read again."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, (ast.Constant, ast.Name)) and _repeatable(node.value)
    return isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and _repeatable(node.value))


def _lines(
    site: Site, source: str, sampler: Sampler, place: ast.AST, counter: str, sure: bool, asked: str = ""
) -> tuple[tuple[str, ...], tuple[Edit, ...]] | Untold:
    """``source.set_epoch(counter)``, guarded where the sampler may be something else, and the import that needs."""
    call = f"{source}.set_epoch({counter})"
    if sampler.guard == "none" and source == sampler.variable:
        return (f"if {source} is not None:", f"    {call}"), ()
    if not sampler.guard and sure:
        return (call,), ()
    spelled = _spelled(site, sampler.class_name, place)
    if spelled is None:
        return Untold("SHD910", f"the name {sampler.class_name} means nothing in the epoch loop, or something else")
    return (f"if isinstance({asked or source}, {spelled[0]}):", f"    {call}"), spelled[1]


def _spelled(site: Site, class_name: str, place: ast.AST) -> tuple[str, tuple[Edit, ...]] | None:
    """How the class is named at a place: as where it is used, or anew where that name is another function's."""
    home = site.module.home(place)
    root = class_name.partition(".")[0]
    scopes = {home.tree, *home.around(place)}
    if home is site.module and any(d.key == root and d.scope in scopes for d in home.bindings.definitions):
        return class_name, ()
    if home is site.module:
        return spell_distributed_sampler(home, site.call, (place,))
    made = next((n for n in ast.walk(place) if isinstance(n, ast.Call)), None)
    return spell_distributed_sampler(home, made) if made is not None else None


# --- the counter ---


def _counter(site: Site, loop: EpochLoop) -> tuple[str | None, list[Edit]]:
    """The loop's counter; where it is ``_`` and nothing reads it, a free name and the edit that binds it."""
    home = site.module.home(loop.loop)
    if loop.counter:
        return (None if _is_rebound(home, loop) else loop.counter), []
    target = loop.loop.target if not isinstance(loop.loop, ast.While) else None
    if isinstance(target, ast.Tuple):
        target = target.elts[-1]  # (index, _) of an enumerated range
    if not isinstance(target, ast.Name):
        return None, []
    definitions = home.bindings.definitions_at(target, target.id)
    if any(home.bindings.readers(d) for d in definitions):
        return None, []
    name = free_name(home, loop.loop, _COUNTERS)
    if name is None:
        return None, []
    return name, [ReplaceExpression(home.path, home.source.span(target), name)]


def _is_rebound(home: Module, loop: EpochLoop) -> bool:
    """Whether the body of a ``for`` gives the counter another value (``epoch += start``): at its top it is another. One
    that is counted on by a number (``epoch += 1``) differs from pass to pass at the top as well."""
    if isinstance(loop.loop, ast.While):
        return False
    scope = home.scope(loop.loop)
    return any(
        d.key == loop.counter
        and d.scope is scope
        and d.statement is not loop.loop
        and loop.loop in home.around(d.statement)
        and not _counts_on(d.statement)
        for d in home.bindings.definitions
    )


def _counts_on(statement: ast.AST) -> bool:
    return isinstance(statement, ast.stmt) and counted_up(statement) is not None


# --- behind what builds the loader in each pass ---


def _behind(site: Site, loop: EpochLoop, sampler: Sampler) -> list[Edit] | Untold:
    """The edits that tell the epoch right behind what builds the loader anew in each pass of a loop."""
    module, built = site.module, loop.built
    counter, renamed = _counter(site, loop)
    if counter is None:
        return Untold("SHD910")
    assert built is not None
    if built is site.call:
        made = _behind_construction(site, sampler, counter)
        return made if isinstance(made, Untold) else [*renamed, *made]
    handed = given_epoch(site, loop)
    if handed:
        return _behind_construction(site, sampler, handed)
    named = _assigned(site, built)
    if named is None:
        return Untold("SHD924", _unnamed(site, built))
    home = module.home(built)
    inner = "batch_sampler.sampler" if site.batch_arms else "sampler"
    if any(b.kind != "batch" for b in site.batch_arms):
        return Untold("SHD924")
    lines = _lines(site, f"{named}.{inner}", sampler, loop.loop, counter, True)
    if isinstance(lines, Untold):
        return lines
    insert = InsertStatements(home.path, home.source.span(home.statement(built)), "after", lines[0])
    return [*lines[1], *renamed, insert]


def _unnamed(site: Site, built: ast.expr) -> str:
    function = site.module.function(site.call)
    if isinstance(built, ast.Call) and function is site.module.called_function(built):
        name = getattr(function, "name", "")
        return f"{name}() builds the loader anew in each epoch; in line {built.lineno} it is not given the epoch"
    return f"the loader is built anew in each epoch, by line {built.lineno}"


_COMPREHENSIONS = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _upwards(site: Site) -> list[ast.AST]:
    """The expressions around a loader's construction."""
    return list(takewhile(lambda n: not isinstance(n, ast.stmt), site.module.around(site.call)))


def _behind_construction(site: Site, sampler: Sampler, counter: str) -> list[Edit] | Untold:
    module, statement = site.module, site.module.statement(site.call)
    read = any(statement in (u.node, *module.around(u.node)) for u in site.flow.of("iterate", "next"))
    inline = read or not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is not site.call
    if inline:
        if not sampler.is_new or any(isinstance(n, _COMPREHENSIONS) for n in _upwards(site)):
            return Untold("SHD924", "the loader is built where it is read, anew in each epoch")
        # The sampler's own statement comes before this one: it is told right behind that.
        told = _lines(site, sampler.variable, sampler, statement, counter, True)
        if isinstance(told, Untold):
            return told
        return [*told[1], InsertStatements(module.path, module.source.span(statement), "before", told[0])]
    source = sampler.variable
    if not source:
        if not isinstance(site.target, (ast.Name, ast.Attribute)) or any(b.kind != "batch" for b in site.batch_arms):
            return Untold("SHD924")
        source = module.source.source(site.target) + (".batch_sampler.sampler" if site.batch_arms else ".sampler")
    lines = _lines(site, source, sampler, statement, counter, True)
    if isinstance(lines, Untold):
        return lines
    return [*lines[1], InsertStatements(module.path, module.source.span(statement), "after", lines[0])]


def given_epoch(site: Site, loop: EpochLoop) -> str:
    """The parameter by which the function that builds the loader is given the epoch; empty if it is not."""
    module, function = site.module, site.module.function(site.call)
    call, counter = loop.built, loop.counter
    if (
        not counter
        or not isinstance(call, ast.Call)
        or function is None
        or module.called_function(call) is not function
    ):
        return ""
    if len(module.callers(function)) != 1:
        return ""
    for value in (*call.args, *(k.value for k in call.keywords)):
        parameter = module.parameter_for(call, value)
        if parameter is not None and module.source.source(value) == counter:
            bound = [d for d in module.bindings.definitions if d.scope is function and d.key == parameter.arg]
            return parameter.arg if len(bound) == 1 else ""
    return ""


def _assigned(site: Site, call: ast.expr) -> str | None:
    """The one name that a statement gives to the loader which a call in it returns, and to nothing else."""
    module = site.module
    home, statement = module.home(call), module.statement(call)
    function = module.called_function(call) if isinstance(call, ast.Call) else None
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or function is None:
        return None
    returned = [n for n in ast.walk(function) if isinstance(n, ast.Return) and module.function(n) is function]
    if function is not module.function(site.call) or len(returned) != 1 or not _returns_one(site, returned[0]):
        return None
    target = statement.targets[0]
    found: list[str] = []
    for element in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
        key = element.id if isinstance(element, ast.Name) else attribute_key(element) or ""
        readers = [r for d in home.bindings.definitions_at(element, key) for r in home.bindings.readers(d)]
        if readers and any(r in site.flow.aliases for r in readers):
            found.append(module.source.source(element))
    return found[0] if len(found) == 1 else None


def _returns_one(site: Site, statement: ast.Return) -> bool:
    """Whether a function returns this loader and no other in its place."""
    module = site.module
    for node in ast.walk(statement):
        if node is site.call:
            return True
        if isinstance(node, ast.Name) and node in site.flow.aliases:
            return all(d.value is site.call for d in module.bindings.reaching(node))
    return False


# --- where one pass ends ---


def _at_the_end(site: Site, sampler: Sampler) -> list[Edit] | Untold:
    """The edits that tell the epoch where the loader is started anew after its end, if that is counted there."""
    module = site.module
    found = refills(module, site.flow)
    if len(found) != 1:
        return Untold("SHD911", remedy=_generator_remedy(site))
    handler, statement = found[0]
    made = statement.value
    assert isinstance(made, ast.Call)
    loader = module.source.source(made.args[0])
    source, sure = f"{loader}.sampler", len(module.bindings.reaching(made.args[0])) == 1
    here = module.function(site.call) or module.tree
    if sampler.variable and here is (module.function(statement) or module.tree):
        mine = set(site.distributed_definitions)
        bound = [d for d in module.bindings.definitions if d.scope is here and d.key == sampler.variable]
        if sampler.is_new or all(d in mine for d in bound):
            source, sure = sampler.variable, True
    counter = _counted_before(module, handler, statement)
    if not counter:
        line = f"`epoch += 1` and `{source}.set_epoch(epoch)` before line {statement.lineno}, with `epoch = 0` above"
        return Untold("SHD911", remedy=f"count the passes: {line} the loop")
    if not sure or site.batch_arms:
        return Untold("SHD911")
    lines = _lines(site, source, sampler, statement, counter, sure)
    if isinstance(lines, Untold):
        return lines
    return [*lines[1], InsertStatements(module.path, module.source.span(statement), "before", lines[0])]


def _counted_before(module: Module, handler: ast.ExceptHandler, statement: ast.stmt) -> str:
    """What counts the passes before the next one starts: from zero or more, so that no two get one number."""
    found: list[str] = []
    for earlier in handler.body[: handler.body.index(statement)]:
        target = counted_up(earlier)
        if not isinstance(target, ast.Name):
            continue
        scope = module.function(target) or module.tree
        others = [d for d in module.bindings.definitions if d.key == target.id and d.scope is scope]
        starts = [d.value for d in others if d.statement is not earlier]
        if starts and all(isinstance(v, ast.Constant) and type(v.value) is int and v.value >= 0 for v in starts):
            found.append(target.id)
    return found[0] if len(found) == 1 else ""


def _generator_remedy(site: Site) -> str:
    """What to write where a generator gives one pass after another."""
    module = site.module
    for use in site.flow.of("iterate"):
        for outer in module.around(use.node):
            if isinstance(outer, ast.While) and isinstance(outer.test, ast.Constant):
                name = module.source.source(use.value)
                return (
                    f"in line {outer.lineno} write `for epoch in itertools.count():` for `{_head(module, outer)}`, and "
                    f"`{name}.sampler.set_epoch(epoch)` first in it"
                )
    return ""


def _head(module: Module, loop: ast.While) -> str:
    return f"while {module.source.source(loop.test)}:"


# --- loaders read in pairs ---


def _paired(site: Site) -> Untold | None:
    """Why a loader that is to be sharded can't be beside another one: samplers of one seed draw one permutation, so
    batches that met by chance would meet in every epoch."""
    if "distributed" in site.kinds or site.batch_arms or not _shuffles(site):
        return None
    module = site.module
    for use in site.flow.of("iterate"):
        iterable = getattr(use.node, "iter", None)
        zips = [n for n in ast.walk(iterable) if _is_zip(n)] if isinstance(iterable, ast.expr) else []
        for other in site.siblings:
            if other is site or other.kind != "torch" or "distributed" in other.kinds or not _shuffles(other):
                continue
            if any(n in other.flow.aliases for made in zips for n in ast.walk(made)):
                pair, line = other.call.lineno, module.location(use.node).line
                return Untold("SHD933", f"it is read in pairs with the loader of line {pair}, in line {line}")
    return None


def _is_zip(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("zip", "zip_longest")


def _shuffles(site: Site) -> bool:
    shuffle = site.arguments.value("shuffle")
    plain = shuffle is not None and not (isinstance(shuffle, ast.Constant) and not shuffle.value)
    return plain or "random" in site.kinds


# --- loaders that are read once ---


def is_read_once(site: Site) -> bool:
    """Whether a loader is surely read once a run: no loop but its own is around what builds and what reads it."""
    if not site.read_once or _built_in_a_loop(site):
        return False
    return not any(_repeated(site.module, use.node) for use in site.flow.of("iterate"))


def _built_in_a_loop(site: Site) -> bool:
    return bool(site.flow.of("iterate")) and _repeated(site.module, site.call, by_calls=False)


def _repeated(module: Module, node: ast.AST, depth: int = 0, *, by_calls: bool = True) -> bool:
    """Whether a node stands in a loop, or in a function that is called in one, or more than once, or nowhere here."""
    inner = node
    for outer in module.around(node):
        if isinstance(outer, (ast.For, ast.AsyncFor, ast.While)) and inner is not getattr(outer, "iter", None):
            return True
        generators: list[ast.comprehension] = getattr(outer, "generators", [])
        if generators and inner is not generators[0]:
            return True  # evaluated for each item of a comprehension
        if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            calls = module.callers(outer)
            if depth > 4 or (by_calls and len(calls) != 1):
                return by_calls
            return any(_repeated(module, call, depth + 1, by_calls=by_calls) for call in calls)
        inner = outer
    return False
