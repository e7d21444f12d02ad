"""The edits that let every rank into an evaluation that the main process ran alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from weakref import WeakKeyDictionary

from shardfix.codemods._findings import divided
from shardfix.codemods._mending import EVALUATION, Hindrance, mended, other_loaders

from shardfix.analysis.code.calling import argument_of
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.spelling import below_imports, free_name, spell_distributed_package
from shardfix.analysis.loops.conditions import Guard, turned
from shardfix.analysis.loops.dividing import Closed
from shardfix.analysis.loops.letting_in import Kept, LetIn, Wait, let_in
from shardfix.analysis.model import Evidence, Location
from shardfix.analysis.programs.groups import group_at
from shardfix.analysis.ranks.coming import stays_away
from shardfix.analysis.sites import Site
from shardfix.rewrite.edits import (
    AddImport,
    DropStatement,
    Edit,
    GuardStatements,
    InsertStatements,
    LiftGuard,
    ReplaceExpression,
    SetKeyword,
    WrapExpression,
)

_DEPTH = 6
_Functions = (ast.FunctionDef, ast.AsyncFunctionDef)


# The rule asks for each loader and for those of one condition together, and so does each refusal: once is enough.
_KNOWN: WeakKeyDictionary[Site, dict[tuple[Location, ...], LetIn | Hindrance]] = WeakKeyDictionary()


def let_all_in(sites: Sequence[Site]) -> LetIn | Hindrance:
    """How all ranks are let into the evaluations over some loaders, or the statement that stands in the way."""
    known, asked = _KNOWN.setdefault(sites[0], {}), tuple(s.location for s in sites)
    if asked not in known:
        known[asked] = _let_all_in(sites)
    return known[asked]


def _let_all_in(sites: Sequence[Site]) -> LetIn | Hindrance:
    module = sites[0].module
    found = let_in(module, [(s.flow, s.call) for s in sites])
    if isinstance(found, Closed):
        return Hindrance(found.why, module.home(found.node).evidence(found.node))
    for site in sites:
        for use in site.flow.of("iterate"):
            home = module.home(use.node)
            away = stays_away(home, use.node, use.calls, site.flow.aliases, found.lifted)
            if away is not None:
                return Hindrance(away.why, home.home(away.node).evidence(away.node))
        metric = mended(site, found.lifted)
        if isinstance(metric, Hindrance):
            return metric
        for edit in metric.edits:
            kept = next((k for k in found.kept if isinstance(edit, WrapExpression) and _covers(k, edit)), None)
            if kept is not None:
                why = "it shows a number of batches, which all ranks would have to put together"
                return Hindrance(why, kept.module.evidence(kept.first))
        if metric.doubts:
            return Hindrance(metric.doubts[0].partition(": ")[2], metric.evidence[0])
    return found


def _covers(kept: Kept, edit: WrapExpression) -> bool:
    """Whether an edit that all ranks must do together stands in what one process alone does."""
    path, first = kept.module.place(kept.first)
    last = kept.module.place(kept.last)[1]
    return edit.path == path and first.start <= edit.span.start and edit.span.end <= last.end


def unfit(site: Site) -> str:
    """Why an evaluation that one rank runs is not one that can be shared out at all; empty where it may be."""
    found = site.evaluation
    if site.ownership.started_by == "horovod":
        return "Horovod's ranks have no process group of torch to put it together by"
    dealt = site.batch_arms or site.kinds & {"weighted", "custom", "parameter", "unknown"} or site.own_shares
    if dealt or any(a.kind == "distributed" and a.constant("drop_last") is True for a in site.arms):
        return "its sampler draws in a way of its own"
    if not found.functions:
        return "no loop over it is seen"
    if found.positional is not None:
        return _at(found.positional, "goes by the order of the loader")
    if found.gathers is not None:
        return _at(found.gathers, "gathers through an Accelerator")
    if found.reduction is not None:
        return _at(found.reduction, "combines something of all ranks, where one comes alone now")
    if site.answers.metric is not None:
        return "what it does with its metric is said in a comment"
    again = divided(site)
    return _at(again, "divides the length by the processes") if again is not None else ""


def _at(evidence: Evidence, what: str) -> str:
    return f"line {evidence.location.line} {what}"


def is_offered(site: Site) -> bool:
    """Whether ``--unsafe`` lets all ranks into an evaluation that one rank runs."""
    return not unfit(site) and isinstance(_let_in(site), LetIn)


def _let_in(site: Site) -> LetIn | Hindrance:
    """How all ranks are let in, the other loaders that its loops go over understood as well."""
    for other in other_loaders(site):
        home = site.module.home(other.chosen)
        sibling = next((s for s in site.siblings if s is not site and other.node in s.flow.aliases), None)
        if sibling is None or unfit(sibling) or isinstance(let_all_in([sibling]), Hindrance):
            return Hindrance("its loop may also go over another loader", home.evidence(other.chosen))
    return let_all_in([site])


def offer(site: Site) -> str:
    """What ``--unsafe`` does with an evaluation that one rank runs, or why it leaves it so; as a clause."""
    why = unfit(site)
    if not why:
        found = _let_in(site)
        if isinstance(found, LetIn):
            return "`--unsafe` lets all ranks evaluate a part each"
        where = found.evidence.location
        place = f"line {where.line}" if where.path == site.location.path else f"{where.path}:{where.line}"
        why = f"{place}: {found.why}"
    return f"the other ranks are not let in, {why}" if why.startswith("line") else f"the other ranks stay out: {why}"


def edits_of(found: LetIn) -> list[Edit] | Hindrance:
    """The edits that take the conditions away and leave under them what one process goes on doing alone."""
    edits: list[Edit] = []
    # Where nothing is left to all ranks but a call that goes before it, the condition stays around the rest.
    stay = {g.statement: w for g in found.guards for _, w in found.wrapped if _only(g, w)}
    for guard in found.guards:
        module = guard.module
        if guard.statement in stay:
            continue
        if guard.early:
            edits.append(DropStatement(*module.place(guard.statement)))
        elif guard.rest:
            edits.append(ReplaceExpression(*module.place(guard.statement.test), guard.rest))
        else:
            other = _others(guard, guard.alone) if guard.statement.orelse else ""
            edits.append(LiftGuard(*module.place(guard.statement), guard.alone, other))
    for kept in (k for k in found.kept if not any(k.first is w for w in stay.values())):
        test = _alone(kept.module, kept.first, kept.guard)
        if test is None:
            return Hindrance("how to ask for the rank is not seen here", kept.module.evidence(kept.first))
        edits += test[1]
        path, first = kept.module.place(kept.first)
        edits.append(GuardStatements(path, first, kept.module.place(kept.last)[1], test[0]))
    for call, statement in found.wrapped:
        module = found.guards[0].module.home(statement)
        name = free_name(module, statement, ("metric", "result", "evaluated"))
        if name is None or "#" in module.source.source(call):
            return Hindrance("no free name for what the evaluation gives", module.evidence(statement))
        anchor = next((g for g, w in stay.items() if w is statement), statement)
        edits.append(InsertStatements(*module.place(anchor), "before", (f"{name} = {ast.unparse(call)}",)))
        edits.append(ReplaceExpression(*module.place(call), name))
    for call, guard in found.bars:
        module = guard.module.home(call)
        test = _alone(module, call, guard)
        if test is None:
            return Hindrance("how to ask for the rank is not seen here", module.evidence(call))
        edits += test[1]
        edits.append(SetKeyword(*module.place(call), "disable", _others(guard, test[0])))
    for module, statement, name in found.unset:
        block = module.block(statement)
        if statement is block[0]:
            return Hindrance("nothing stands in front of what one process alone makes", module.evidence(statement))
        # Behind what is before, since a condition goes above the comments of what it is put around.
        ahead = block[block.index(statement) - 1]
        edits.append(InsertStatements(*module.place(ahead), "after", (f"{name} = None",)))
    for wait in found.waits:
        waiting = _waiting(wait)
        if waiting is None:
            return Hindrance("how to ask for the rank is not seen here", wait.module.evidence(wait.statement))
        edits += waiting
    return list(dict.fromkeys(edits))


def _waiting(wait: Wait) -> list[Edit] | None:
    """The lines by which ranks wait for files before a statement."""
    module, place = wait.module, wait.module.place(wait.statement)
    imported = AddImport(module.path, EVALUATION, "all_here", below_imports(module))
    if not wait.first:
        return [InsertStatements(*place, "before", ("all_here()",)), imported]
    test, package = _alone(module, wait.statement, wait.guard), spell_distributed_package(module, wait.statement)
    if test is None or package is None:
        return None
    # Both waits are one: all_here() is met at the same line by all ranks, torch's own need not be.
    name, imports = package
    others, alone = _others(wait.guard, test[0]), test[0]
    if group_at(module, wait.statement).exists != "always":
        alone = f"{name}.is_initialized() and {f'({alone})' if ' or ' in alone or ' if ' in alone else alone}"
    before = InsertStatements(*place, "before", (f"if {others}:", f"    {name}.barrier()"))
    after = InsertStatements(*place, "after", (f"if {alone}:", f"    {name}.barrier()"))
    return [*test[1], *imports, before, after]


def _only(guard: Guard, statement: ast.stmt) -> bool:
    """Whether a statement is all that stands under a condition, which asks for the rank only."""
    return not guard.early and not guard.rest and guard.statement.body == [statement]


def _others(guard: Guard, alone: str) -> str:
    """The condition of all other ranks."""
    if alone == guard.alone and len(guard.tests) == 1:
        test = guard.tests[0]
        return " ".join(guard.module.source.source(test).split()) if guard.early else turned(guard.module, test)
    if alone != guard.alone:
        first, either, last = alone.rpartition(" or ")
        return (f"{first.removeprefix('not ')} and " if either else "") + last.replace("== 0", "!= 0")
    return f"not ({alone})"


def _alone(module: Module, place: ast.AST, guard: Guard) -> tuple[str, list[Edit]] | None:
    """The condition of the process that goes on alone, as it is written at a place, and what that needs."""
    scope, own = module.scope(place), guard.module.scope(guard.statement)
    if scope is own or (isinstance(scope, _Functions) and _means_the_same(module, scope, guard, 0)):
        return guard.alone, []
    package = spell_distributed_package(module, place)
    if package is None:
        return None
    name, edits = package
    test = f"{name}.get_rank() == 0"
    if group_at(module, place).exists != "always":
        test = f"not {name}.is_initialized() or {test}"
    return test, list(edits)


def _means_the_same(module: Module, function: ast.AST, guard: Guard, depth: int) -> bool:
    """Whether the names of a condition mean in a function what they mean where the condition stands."""
    own = guard.module.scope(guard.statement)
    if function is own:
        return True
    if depth > _DEPTH or not isinstance(function, _Functions):
        return False
    calls = module.callers(function)
    for n in _names(guard):
        found = guard.module.bindings.reaching(n)
        if not found:
            continue  # a builtin
        bound = any(d.key == n.id and d.scope is function for d in module.bindings.definitions)
        if all(d.scope is guard.module.tree for d in found):
            if bound or module.home(function) is not guard.module:
                return False
        elif n.id == "self":
            if module.class_of(function) is not guard.module.class_of(guard.statement):
                return False
        else:
            given = [argument_of(module, function, c, n.id) for c in calls]
            if not calls or not all(isinstance(g, ast.Name) and g.id == n.id for g in given):
                return False
            if not all(_means_the_same(module.home(c), module.scope(c), guard, depth + 1) for c in calls):
                return False
    return True


def _names(guard: Guard) -> Iterator[ast.Name]:
    for test in guard.tests:
        for n in ast.walk(test):
            if isinstance(n, ast.Name):
                yield n


__all__ = ["edits_of", "is_offered", "let_all_in", "offer", "unfit"]
