"""Means over the batches of one rank alone, in a prepared evaluation: averaged over the batches of all ranks."""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass

from shardfix.codemods._mending import EVALUATION, is_ours, other_loaders

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.code.spelling import below_imports
from shardfix.analysis.loaders.flow import Use
from shardfix.analysis.loops.evaluation import is_reduction
from shardfix.analysis.metrics.entries import is_number
from shardfix.analysis.metrics.inside import has_part_of_others, made_of_other_ranks
from shardfix.analysis.metrics.model import Accumulator, Metric
from shardfix.analysis.metrics.understanding import understand
from shardfix.analysis.metrics.values import Values
from shardfix.analysis.model import Change
from shardfix.analysis.ranks.coming import stays_away
from shardfix.analysis.sites import Site
from shardfix.rewrite.edits import AddImport, Edit, InsertStatements, WrapExpression

_TITLE = "average over the batches of all ranks"
_SUMS = ("batch-mean", "opaque")
_AROUND = frozenset({"float", "max", "int"})


@dataclass(frozen=True, eq=False, slots=True)
class OwnMeans:
    """What a prepared loop adds up on each rank alone.

    Args:
        left: the statements that add to it, by name, in the source's order.
        averaged: of these, what is divided by a number of batches and can be put together from all ranks.
    """

    left: dict[str, ast.AST]
    averaged: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()


def own_means(site: Site) -> OwnMeans:
    """The numbers that each rank adds up for itself in the loops over a prepared loader, and the edits that put those
    together which the program divides by a number of batches: ``eval_loss / steps``, ``eval_loss / len(loader)``."""
    left: dict[str, ast.AST] = {}
    averaged: list[str] = []
    edits: list[Edit] = []
    found = site.evaluation
    guarded = found.guard is not None or found.sometimes is not None or found.positional is not None
    for use in site.flow.of("iterate"):
        if use.prepared is None or not isinstance(use.node, ast.For):
            continue
        module = site.module.home(use.node)
        metric = understand(site.module, use, site.flow, examples=False)
        if metric is None:
            continue
        given = made_of_other_ranks(module, metric.loop)
        own = [a for a in metric.accumulators if not has_part_of_others(module, a.write, given)]
        left.update({a.name: a.write for a in own})
        sums = [] if guarded or _taken(module) else _averaged(module, metric, own)
        if not sums or not _all_come(site, module, use, metric.loop):
            continue
        names = [a.name for a in own if a in sums or a.kind == "steps"]
        listed = ", ".join(names)
        averaged += names
        edits.append(InsertStatements(*module.place(metric.loop), "after", (f"{listed} = reduced({listed})",)))
        edits += [WrapExpression(*module.place(steps), "reduced(", ")") for steps in metric.steps]
        edits.append(AddImport(module.path, EVALUATION, "reduced", below_imports(module)))
    return OwnMeans(left, tuple(averaged), tuple(edits))


def averaged_over_ranks(site: Site, gathered: Change | None) -> Change | None:
    """The change that puts the means over batches together from all ranks; None where there are none that can be.

    Args:
        gathered: what becomes of the gathers in the same loops, which is part of it then.
    """
    found = own_means(site)
    if not found.edits or not site.options.unsafe:
        return None
    first = found.averaged[0]
    return Change(
        site.location,
        "reduce_eval_metrics",
        ("SHD509", *(gathered.codes if gathered else ())),
        "unsafe",
        f"{gathered.title}, and average over the batches of all ranks" if gathered else _TITLE,
        (*(gathered.edits if gathered else ()), *found.edits),
        reason=(
            f"line {_line(found.left[first])}: `{first}` adds up one value for each batch, and the mean of these over "
            "all ranks still counts the samples again that prepare() repeats to fill the last batches"
        ),
        consequences=(
            "every rank gets the mean over the batches of all ranks; until now each had that of its own batches",
            "every rank must come to the end of the loop, where the sums are put together",
            *(["what is gathered counts the last batch's own samples only, as in one process"] if gathered else []),
            *left_alone(found, found.averaged),
        ),
        evidence=(
            *(gathered.evidence if gathered else ()),
            *(site.module.home(found.left[name]).evidence(found.left[name]) for name in found.averaged),
        ),
        otherwise=gathered,
    )


def left_alone(found: OwnMeans, mended: Collection[str] = ()) -> list[str]:
    """In words which numbers stay those of each rank's own batches."""
    named = [f"`{name}` (line {_line(write)})" for name, write in found.left.items() if name not in mended]
    if not named:
        return []
    stay = f"{', '.join(named)} {'stays' if len(named) == 1 else 'stay'} each rank's own"
    more = "; --unsafe averages over the batches of all ranks (SHD509)" if found.edits and not mended else ""
    return [stay + more]


def right_but_for(site: Site, why: str) -> str:
    """Why a prepared evaluation is right as it is, and which numbers are each rank's own where that can be mended."""
    found = own_means(site)
    return "; ".join([why or "prepare() shards it", *left_alone(found)]) if found.edits else why


def _averaged(module: Module, metric: Metric, own: list[Accumulator]) -> list[Accumulator]:
    """The sums with one number for each batch that are divided by a number of batches wherever they are read."""
    values = Values(module, metric.loop, metric.loop)
    sums = [a for a in own if a.kind in _SUMS and a.name.isidentifier() and is_number(values, _added(a.write))]
    steps = {a.name for a in own if a.kind == "steps" and a.name.isidentifier()}
    sums = [a for a in sums if _is_mean(module, metric, a, steps)]
    concerned = {a.name for a in sums} | steps
    for obstacle in metric.obstacles:
        behind = getattr(obstacle.node, "lineno", 0) > metric.loop.lineno  # before it, each begins for itself
        if behind and _mentions(obstacle.node, concerned):
            return []
    return [] if any(isinstance(n, (ast.Return, ast.Yield, ast.YieldFrom)) for n in ast.walk(metric.loop)) else sums


def _added(statement: ast.AST) -> ast.expr | None:
    return statement.value if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add) else None


def _is_mean(module: Module, metric: Metric, sum_: Accumulator, steps: Collection[str]) -> bool:
    """Whether each read of a sum behind its loop is the numerator over a number of batches."""
    loop, name = metric.loop, sum_.name
    inside = set(ast.walk(loop))
    made = [d for d in module.bindings.definitions if d.key == name and module.scope(d.node) is module.scope(loop)]
    reads = {r for d in made for r in module.bindings.readers(d) if r not in inside}
    divided = False
    for read in sorted(reads, key=lambda r: (r.lineno, r.col_offset)):
        outer = module.parents.get(read)
        statement = module.statement(read)
        if read.lineno <= (loop.end_lineno or 0) or module.scope(read) is not module.scope(loop):
            return False
        if isinstance(statement, ast.AugAssign) and statement.target is read:
            return False
        if not isinstance(outer, ast.BinOp) or not isinstance(outer.op, ast.Div) or outer.left is not read:
            return False
        if not _counts_batches(metric, outer.right, steps):
            return False
        divided = True
    return divided


def _counts_batches(metric: Metric, node: ast.expr, steps: Collection[str]) -> bool:
    if node in metric.steps:
        return True
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and last_name(node.func) in _AROUND:
        return any(_counts_batches(metric, a, steps) for a in node.args) and all(
            isinstance(a, ast.Constant) or _counts_batches(metric, a, steps) for a in node.args
        )
    return isinstance(node, ast.Name) and node.id in steps


def _all_come(site: Site, module: Module, use: Use, loop: ast.For) -> bool:
    """Whether every rank comes to the end of the loop: those that gather in it wait for each other anyway."""
    if any(_waits(module, s) for s in loop.body):
        return True
    if any(True for _ in other_loaders(site)):
        return False
    return stays_away(module, loop, use.calls, site.flow.aliases) is None


def _waits(module: Module, statement: ast.stmt) -> bool:
    """Whether a statement of the loop combines the ranks' values in each pass, whatever the batch."""
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        return any(_waits(module, s) for s in statement.body)
    simple = isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr))
    return simple and any(isinstance(n, ast.Call) and is_reduction(module, n) for n in ast.walk(statement))


def _mentions(node: ast.AST, names: Collection[str]) -> bool:
    return any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(node))


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)


def _taken(module: Module) -> bool:
    """Whether the name of what puts sums together means something else in a file."""
    return any(
        d.key == "reduced" and not (d.kind == "import" and is_ours(d.module)) for d in module.bindings.definitions
    )


__all__ = ["OwnMeans", "averaged_over_ranks", "left_alone", "own_means", "right_but_for"]
