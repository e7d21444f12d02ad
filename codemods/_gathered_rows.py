"""Results of a prepared evaluation that one rank alone has: gathered where its metric is told of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.metrics.collation import may_pad
from shardfix.analysis.metrics.gathering import Gathering
from shardfix.analysis.metrics.values import Values
from shardfix.analysis.model import Change
from shardfix.analysis.programs.regimes import is_accelerator
from shardfix.analysis.ranks.coming import stays_away
from shardfix.analysis.sites import Site
from shardfix.rewrite.edits import Edit, InsertStatements, WrapExpression

_LOADS = frozenset({"load_metric", "load", "combine"})  # of evaluate, and of datasets before it
_ROWS = ("samples", "output")
_TELLS = frozenset({"add_batch"})


def gathered_rows(site: Site) -> Change | None:
    """``predictions = accelerator.gather_for_metrics(predictions)`` before the metric is told of them, in a loop whose
    results nothing gathers; None where more than that is kept, or what it is told is not one row for each sample."""
    uses = site.flow.of("iterate")
    found = site.evaluation
    if len(uses) != 1 or site.role != "eval" or uses[0].prepared is None or found.guard is not None:
        return None
    if found.reduction is not None or found.gathers is not None or found.sometimes is not None:
        return None
    loop, module = uses[0].node, site.module.home(uses[0].node)
    if not isinstance(loop, ast.For) or module.home(uses[0].prepared) is not module:
        return None
    prepare = uses[0].prepared.func
    if not isinstance(prepare, ast.Attribute) or module.scope(uses[0].prepared) is not module.scope(loop):
        return None
    values = Values(module, loop, loop)
    gathering = Gathering(module, loop, values)
    told = [s for s in loop.body if _tells(module, s)]
    others = [o for o in gathering.obstacles if o.node not in told]
    if not told or others or gathering.writes or not is_accelerator(module, prepare.value):
        return None
    accelerator = module.source.source(prepare.value)
    padded = may_pad(site.module, site.arguments.value("collate_fn"))
    edits: list[Edit] = []
    named: dict[str, ast.expr] = {}
    for s in told:
        for row in _rows(s):
            if values.of(row).kind not in _ROWS or (padded and not _is_list(module, row)):
                return None
            if isinstance(row, ast.Name):
                named.setdefault(row.id, row)
            else:
                edits.append(WrapExpression(*module.place(row), f"{accelerator}.gather_for_metrics(", ")"))
    lines = tuple(_line(accelerator, name, objects=_is_list(module, row)) for name, row in named.items())
    if lines:
        edits.append(InsertStatements(*module.place(told[0]), "before", lines))
    away = stays_away(module, loop, uses[0].calls, site.flow.aliases)
    if away is not None and not site.options.unsafe:
        return None
    return Change(
        site.location,
        "reduce_eval_metrics",
        ("SHD508",),
        "unsafe" if away is not None else "safe",
        "tell the metric of the samples of all ranks",
        tuple(edits),
        reason=f"line {getattr(away.node, 'lineno', 0)}: {away.why}" if away is not None else "",
        consequences=(
            "every rank gets the whole metric, of each sample once; until now each had that of its own part",
            *(("gather_for_metrics(.., use_gather_object=True) needs accelerate 0.31",) if _objects(lines) else ()),
        ),
        evidence=tuple(module.evidence(s) for s in told),
    )


def _objects(lines: tuple[str, ...]) -> bool:
    return any("use_gather_object" in line for line in lines)


def _line(accelerator: str, name: str, *, objects: bool) -> str:
    more = ", use_gather_object=True" if objects else ""
    return f"{name} = {accelerator}.gather_for_metrics({name}{more})"


def _tells(module: Module, s: ast.stmt) -> bool:
    """``metric.add_batch(predictions=.., references=..)``, for a metric that is loaded outside of the loop."""
    call = s.value if isinstance(s, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr not in _TELLS:
        return False
    made = [d.value for d in module.bindings.reaching(call.func.value)]
    return bool(made) and all(isinstance(m, ast.Call) and last_name(m.func) in _LOADS for m in made)


def _rows(s: ast.stmt) -> Iterator[ast.expr]:
    if isinstance(s, ast.Expr) and isinstance(s.value, ast.Call):
        yield from arguments_of(s.value)


def _is_list(module: Module, row: ast.expr) -> bool:
    """Whether rows are in a list, by how it is made: here, or in a function of the project that fills it."""
    made = module.bindings.reaching(row) if isinstance(row, ast.Name) else ()
    return bool(made) and all(d.value is not None and _makes_list(module, d.value, d.index) for d in made)


def _makes_list(module: Module, value: ast.expr, index: int | None) -> bool:
    if isinstance(value, (ast.List, ast.ListComp)):
        return index is None
    if not isinstance(value, ast.Call):
        return False
    if last_name(value.func) in ("tolist", "list", "batch_decode"):
        return index is None
    functions = module.called_functions(value)
    returned = [
        (module.home(f), n.value) for f in functions for n in ast.walk(f) if isinstance(n, ast.Return) and n.value
    ]
    return bool(returned) and all(_is_part_list(home, given, index) for home, given in returned)


def _is_part_list(home: Module, given: ast.expr, index: int | None) -> bool:
    if index is not None:
        if not isinstance(given, (ast.Tuple, ast.List)) or not 0 <= index < len(given.elts):
            return False
        given = given.elts[index]
    return isinstance(given, (ast.List, ast.ListComp)) or _is_list(home, given)


__all__ = ["gathered_rows"]
