"""Whether an evaluation can be shared out together with its metric, and what puts the ranks' parts together."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

from shardfix.codemods._by_hand import divided_among
from shardfix.codemods._each_step import left_apart, scaled
from shardfix.codemods._sharding import changes, dealt_tasks

from shardfix.analysis.code.module import Module, is_false
from shardfix.analysis.code.names import DISTRIBUTED_SAMPLER
from shardfix.analysis.code.spelling import below_imports
from shardfix.analysis.loaders.items import drawn
from shardfix.analysis.metrics.collation import gives_lists, may_pad
from shardfix.analysis.metrics.lengths import measured, shown
from shardfix.analysis.metrics.model import Accumulator, Metric
from shardfix.analysis.metrics.ordering import by_order
from shardfix.analysis.metrics.reread import reread
from shardfix.analysis.metrics.single import takes_one, understand_single
from shardfix.analysis.metrics.splits import drawn_anew
from shardfix.analysis.metrics.summing import summed
from shardfix.analysis.metrics.twice import reduced_later
from shardfix.analysis.metrics.understanding import understand
from shardfix.analysis.model import Evidence, Location
from shardfix.analysis.programs.groups import group_at
from shardfix.analysis.programs.processes import is_world_size
from shardfix.analysis.programs.started import buffers_apart
from shardfix.analysis.ranks.coming import stays_away
from shardfix.analysis.sites import Site
from shardfix.analysis.state.origins import Origin, origins
from shardfix.rewrite.edits import AddImport, Edit, InsertStatements, WrapExpression

EVALUATION = "shardfix_evaluation"
NAMES = ("unpadded", "reduced", "in_order", "of_all_batches", "all_here")


@dataclass(frozen=True, eq=False, slots=True)
class Hindrance:
    """Why a metric can't be put together again: the statement that is not understood.

    Args:
        alone: whether it asks for the rank, so that not all ranks evaluate at all.
    """

    why: str
    evidence: Evidence
    alone: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Mended:
    """The edits behind the loops over a loader.

    Args:
        loops: the loops; other loaders that they go over are to be shared out too.
        inexact: why the value is not quite that of one process; empty where it is.
        doubts: why it may not be put together at all, or not from the right samples; empty where it is.
    """

    loops: tuple[ast.For, ...]
    edits: tuple[Edit, ...]
    inexact: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    doubts: tuple[str, ...] = ()


# The rule that puts a metric together asks, and so does each refusal that says why it is not: once is enough.
_KNOWN: WeakKeyDictionary[Site, dict[frozenset[ast.AST], Mended | Hindrance]] = WeakKeyDictionary()


def mended(
    site: Site, lifted: frozenset[ast.expr] = frozenset(), reduced: frozenset[ast.AST] = frozenset()
) -> Mended | Hindrance:
    """How the metric of every loop over a loader is put together from the ranks' parts.

    Args:
        lifted: conditions on the rank that are taken away.
        reduced: loops over other loaders, behind which their metrics are put together.
    """
    known = _KNOWN.setdefault(site, {})
    if lifted | reduced not in known:
        known[lifted | reduced] = _mended(site, lifted, reduced)
    return known[lifted | reduced]


def _mended(site: Site, lifted: frozenset[ast.expr], reduced: frozenset[ast.AST]) -> Mended | Hindrance:
    if site.role != "eval":
        return Hindrance("it is not seen to evaluate", site.module.evidence(site.call))
    if site.ownership.started_by == "horovod":
        return Hindrance("Horovod's ranks have no process group of torch to put it together by", site.owner_evidence[0])
    hindered = _loader(site)
    if hindered is not None:
        return hindered
    loops: list[ast.For] = []
    edits: list[Edit] = []
    inexact: list[str] = []
    doubts: list[str] = []
    settled: list[ast.expr] = []
    evidence: list[Evidence] = []
    collate, one = site.arguments.value("collate_fn"), takes_one(site.arguments.value("batch_size"))
    examples, uneven = gives_lists(site.module, collate), may_pad(site.module, collate)
    for use in site.flow.of("iterate"):
        module = site.module.home(use.node)
        if one:
            metric = understand_single(site.module, use, site.flow, examples=examples)
        else:
            metric = understand(site.module, use, site.flow, examples=examples, uneven=uneven)
        if metric is None:
            return Hindrance("a comprehension goes over the batches", module.evidence(use.node))
        if metric.obstacles:
            first = metric.obstacles[0]
            return Hindrance(first.why, module.home(first.node).evidence(first.node))
        taken = _taken(module)
        if taken is not None:
            return taken
        if metric.loop in loops:
            continue
        loops.append(metric.loop)
        tasks = dealt_tasks(site, use)
        if tasks is not None:
            why = "each rank is dealt other items of this loop, so that their parts would be of different evaluations"
            return Hindrance(why, module.home(tasks).evidence(tasks), alone=True)
        away = stays_away(module, metric.loop, use.calls, site.flow.aliases, lifted, reduced)
        if away is not None and away.certain:
            return Hindrance(away.why, module.home(away.node).evidence(away.node), alone=True)
        if away is not None:
            doubts.append(f"{_place(site, away.node)}: {away.why}")
        edits += left_apart(module, metric)
        doubts += [f"{_place(site, other.node)}: {other.why}" for other in scaled(module, metric)]
        evidence += [module.evidence(call) for call in metric.averaged]
        if site.evaluation.reduction is not None and not metric.averaged:
            found = summed(module, metric, sharded="distributed" in site.kinds)
            if found.why is not None and metric.accumulators:
                return Hindrance(found.why.why, module.evidence(found.why.node))
            evidence += [module.evidence(a.write) for a in found.combined]
            if not found.alone:
                continue
            metric = replace(metric, accumulators=found.alone)
        later = reduced_later(
            module, metric.loop, [a.name for a in metric.accumulators], sharded="distributed" in site.kinds
        )
        if later is not None:
            return Hindrance(later.why, module.home(later.node).evidence(later.node))
        among = divided_among(module, metric.loop, [a.name for a in metric.accumulators])
        if among is not None:
            return Hindrance("it reckons with the number of processes already", module.home(among).evidence(among))
        behind = _behind(module, metric)
        if isinstance(behind, Hindrance):
            return behind
        edits += behind
        for again in reread(module, metric.loop):
            if again.statement is not None and not lifted:
                edits += [InsertStatements(*module.place(again.statement), "after", ("all_here()",))]
                edits += [_imported(module, "all_here")]
                continue
            path = ast.unparse(again.path)
            written = f"each rank writes `{path}`, which line {_line(again.reader)} may read while another writes it"
            doubts.append(f"line {_line(again.writer)}: {written}")
        settled += metric.steps
        inexact += [f"line {_line(a.write)}: {a.why}" for a in metric.accumulators if a.why]
        inexact += [f"line {_line(s)}: it divides by the number of batches" for s in metric.steps if not one]
        evidence += [module.evidence(a.write) for a in metric.accumulators]
        listed = [a.name for a in metric.accumulators if a.kind in ("samples", "batches")]
        ordered = by_order(module, metric.loop, listed) if listed and _shuffles(site) else None
        if ordered is not None:
            why = f"{ordered.why}, which the original shuffles: they come in the dataset's order now"
            doubts.append(f"line {_line(ordered.node)}: {why}")
    if site.ownership.started_by == "deepspeed" and "distributed" not in site.kinds:
        apart = buffers_apart(site.module)
        doubts += [f"{apart} names batch norm, whose running means DeepSpeed leaves to each rank"] if apart else []
    moving = changes(site)
    if moving is not None:
        return Hindrance(moving.why, site.module.home(moving.node).evidence(moving.node))
    for random in (drawn_anew(site.module, site.dataset), drawn(site.module, site.dataset)):
        if random is not None:
            doubts.append(f"line {_line(random.node)}: {random.why}")
    read = measured(site.module, site.flow, settled)
    if read is not None:
        return Hindrance(read.why, site.module.home(read.node).evidence(read.node))
    if not loops:
        return Hindrance("no loop over it is seen", site.module.evidence(site.call))
    if not edits and not evidence:
        return Hindrance(
            "nothing is seen that the loop gathers under a name and that is read behind it",
            site.module.evidence(loops[0]),
        )
    return Mended(tuple(loops), tuple(edits), tuple(inexact), tuple(evidence), tuple(doubts))


def hindrance(site: Site) -> tuple[str, tuple[Evidence, ...]]:
    """Why a metric is not put together from the ranks' parts, and the line; nothing where it is."""
    found = mended(site)
    if isinstance(found, Hindrance) and site.ownership.started_by == "horovod":
        return found.why, (found.evidence,)
    if isinstance(found, Hindrance):
        return f"{_at(site, found.evidence.location)} is not understood: {found.why}", (found.evidence,)
    if found.doubts:
        return f"it is not sure: {found.doubts[0]}", found.evidence
    if found.inexact:
        return f"its value would not be quite that of one process ({found.inexact[0]})", found.evidence
    others = [site.module.home(other.chosen).evidence(other.chosen) for other in other_loaders(site)]
    if others:
        where = others[0].location
        return f"its loop may also go over another loader ({where.path}:{where.line})", tuple(others[:1])
    return "", ()


def without_padding(site: Site) -> list[Edit]:
    """``loader = unpadded(loader)`` right behind the construction."""
    module = site.module
    uneven = ", uneven=True" if takes_one(site.arguments.value("batch_size")) else ""
    if site.form in ("name", "attribute", "subscript") and site.target is not None:
        target = module.source.source(site.target)
        line = f"{target} = unpadded({target}{uneven})"
        edit: Edit = InsertStatements(*module.place(module.statement(site.call)), "after", (line,))
    else:
        edit = WrapExpression(*module.place(site.call), "unpadded(", f"{uneven})")
    return [edit, _imported(module, "unpadded")]


def other_loaders(site: Site) -> Iterator[Origin]:
    """What else the loops over a loader may go over: what other callers give, other assignments, items, attributes."""
    for use in site.flow.of("iterate"):
        yield from origins(site.module, use.state, site.call, site.options.prepare_functions)


# -- the loader -----------------------------------------------------------------------------------------------


def _loader(site: Site) -> Hindrance | None:
    """What makes a loader one whose padding can't be left out."""
    module = site.module
    size = site.arguments.value("batch_size")
    if isinstance(size, ast.Constant) and size.value is None:
        return Hindrance("its samples come without batches", module.evidence(size))
    last = site.arguments.value("drop_last")
    if last is not None and not is_false(last):
        return Hindrance("which samples drop_last leaves out depends on the number of ranks", module.evidence(last))
    if site.flow.of("next"):
        return Hindrance("single batches are taken of it", module.evidence(site.flow.of("next")[0].node))
    read = {u.node for u in site.flow.of("iterate")}
    for use in site.flow.of("argument", "escape"):
        if use.node not in read and module.parents.get(use.node) not in read:
            return Hindrance("it goes where it is not followed", module.home(use.node).evidence(use.node))
    sizes = [
        u.node for u in site.flow.of("attribute") if isinstance(u.node, ast.Attribute) and u.node.attr == "dataset"
    ]
    if "subset-random" in site.kinds and sizes:
        return Hindrance("its dataset becomes the part that the sampler draws from", module.evidence(sizes[0]))
    for arm in site.arms:
        alone = _without_group(site, arm.node) if arm.kind == "distributed" and isinstance(arm.node, ast.Call) else None
        if alone is not None:
            why = "no process group is seen to be made before the loop: the ranks' parts would not be put together"
            return Hindrance(why, module.home(alone).evidence(alone))
        shares = arm.arguments.value("num_replicas") if arm.kind == "distributed" and arm.arguments else None
        if shares is not None and not _of_all_ranks(module, shares):
            why = "its sampler is not seen to share the samples among all ranks"
            return Hindrance(why, module.evidence(arm.node))
        drawn = [name for name in ("num_samples", "replacement") if arm.constant(name) not in (None, False)]
        if arm.kind == "random" and drawn:
            why = f"its sampler draws some of the samples (`{drawn[0]}`), and they would all be evaluated"
            return Hindrance(why, module.evidence(arm.node))
        for use in site.sampler_flow(arm).of("length"):
            if isinstance(use.node, ast.expr) and shown(module, use.node):
                continue
            return Hindrance("the sampler's length becomes that of one rank's part", module.evidence(use.node))
    return None


def _of_all_ranks(module: Module, shares: ast.expr, depth: int = 0) -> bool:
    """Whether a number is that of all ranks, by its name or by what it is made of; None is."""
    if is_world_size(shares) or (isinstance(shares, ast.Constant) and shares.value is None):
        return True
    if isinstance(shares, ast.IfExp):
        return _of_all_ranks(module, shares.body, depth) or _of_all_ranks(module, shares.orelse, depth)
    if not isinstance(shares, (ast.Name, ast.Attribute)) or depth > 3:
        return False
    home = module.home(shares)
    made = [d.value for d in home.bindings.reaching(shares)]
    return bool(made) and all(v is None or _of_all_ranks(home, v, depth + 1) for v in made)


def _shuffles(site: Site) -> bool:
    """Whether the loader reads in another order each time, as it is."""
    shuffle = site.arguments.value("shuffle")
    return bool(site.kinds & {"random", "subset-random"}) or (shuffle is not None and not is_false(shuffle))


def _without_group(site: Site, sampler: ast.Call) -> ast.AST | None:
    """The loop over a loader to which no process group is seen to be made, where the sampler is told its rank.

    It may be built before the group: padding is left out by what it is told, and the group is used behind the loop. One
    that is not told its rank asks the group for it.
    """
    told = site.module.arguments(sampler, DISTRIBUTED_SAMPLER)
    asks = told.value("num_replicas") is None or told.value("rank") is None
    if asks or all(group_at(site.module, n).exists != "unknown" for n in (sampler, site.call)):
        return None
    loops = [use.node for use in site.flow.of("iterate")]
    return next((n for n in loops if group_at(site.module.home(n), n).exists == "unknown"), None)


# -- behind the loop ------------------------------------------------------------------------------------------


def _behind(module: Module, metric: Metric) -> list[Edit] | Hindrance:
    place = module.place(metric.loop)
    lines: list[str] = []
    sums = [a.name for a in metric.accumulators if a.kind in ("sum", "steps", "batch-mean", "opaque")]
    names = set()
    if sums:
        listed = ", ".join(dict.fromkeys(sums))
        lines.append(f"{listed} = reduced({listed})")
        names.add("reduced")
    for accumulator in metric.accumulators:
        lines += _of_meter(accumulator)
        if accumulator.kind == "meter" and accumulator.meter and not accumulator.meter.method:
            names.add("reduced")
        if accumulator.kind in ("samples", "batches"):
            if not metric.loader:
                return Hindrance("the loader has no name where it is iterated", module.evidence(metric.loop))
            lines.append(f"{accumulator.name} = in_order({accumulator.name}, {metric.loader})")
            names.add("in_order")
        elif accumulator.kind == "by-batch":
            lines.append(f"{accumulator.name} = of_all_batches({accumulator.name})")
            names.add("of_all_batches")
    edits: list[Edit] = [InsertStatements(*place, "after", tuple(lines))] if lines else []
    for steps in metric.steps:
        edits.append(WrapExpression(*module.place(steps), "reduced(", ")"))
        names.add("reduced")
    return [*edits, *(_imported(module, name) for name in NAMES if name in names)]


def _of_meter(accumulator: Accumulator) -> list[str]:
    meter, name = accumulator.meter, accumulator.name
    if accumulator.kind != "meter" or meter is None:
        return []
    if meter.method:
        return [f"{name}.{meter.method}()"]
    both = f"{name}.{meter.sum}, {name}.{meter.count}"
    lines = [f"{both} = reduced({both})"]
    if meter.average:
        lines.append(f"{name}.{meter.average} = {name}.{meter.sum} / {name}.{meter.count}")
    return lines


def _imported(module: Module, name: str) -> Edit:
    return AddImport(module.path, EVALUATION, name, below_imports(module))


def _taken(module: Module) -> Hindrance | None:
    """A name of ours that means something else in a file."""
    for d in module.bindings.definitions:
        if d.key in NAMES and not (d.kind == "import" and is_ours(d.module)):
            return Hindrance(f"the name {d.key} is taken", module.evidence(d.statement))
    return None


def is_ours(imported: str) -> bool:
    """Whether an import is of the functions that keep a metric whole."""
    head, _, name = imported.rpartition(".")
    return name in NAMES and head.rpartition(".")[2] in (EVALUATION, "evaluation")


def _place(site: Site, node: ast.AST) -> str:
    return _at(site, site.module.home(node).location(node))


def _at(site: Site, where: Location) -> str:
    """A line of the loader's own file, or one of another."""
    return f"line {where.line}" if where.path == site.location.path else f"{where.path}:{where.line}"


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)


__all__ = ["EVALUATION", "Hindrance", "Mended", "hindrance", "is_ours", "mended", "other_loaders", "without_padding"]
