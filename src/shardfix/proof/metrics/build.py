"""Who builds what is run: the evaluations of a loader, from the source as it was and as it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.loaders.flow import Use
from shardfix.analysis.metrics.collation import gives_lists
from shardfix.analysis.metrics.model import Metric
from shardfix.analysis.metrics.understanding import understand
from shardfix.analysis.sites import Site
from shardfix.proof.metrics.evaluated import Evaluated, evaluated
from shardfix.proof.metrics.model import Evaluation, MetricRecipe
from shardfix.proof.model import Group, StandIn
from shardfix.proof.recipes.choices import Choices, text_of
from shardfix.proof.recipes.recipe import Sliced, group_of, program
from shardfix.proof.stop import Stop, Unproven

_WEIGHTED = ("batch-mean", "opaque", "steps")


def metric_recipes(before: Site, after: Site, *, unsafe: bool = True) -> list[MetricRecipe] | Unproven:
    """A recipe for each loop over a loader, or why there is none.

    Args:
        before, after: the site in the original and in the rewritten source.
        unsafe: whether the change is offered as one after which means over batches may differ.
    """
    # batches that 2 and 3 ranks may divide: of one sample, they can't be shared
    choices = Choices(split=True, everyone=True)
    built: list[str] = []
    guarded = False
    for site in (before, after):
        sliced = program(site, choices)
        if isinstance(sliced, Unproven):
            return sliced
        built.append(_build(sliced))
        guarded = guarded or (site is before and sliced.guarded)
    if _is_unpadded(after):
        built[1] += "\nloader = unpadded(loader)"
    found: list[MetricRecipe] = []
    old, new = list(_loops(before)), list(_loops(after))
    if not old or len(old) != len(new):
        return Unproven("the loop that evaluates is not found again in the rewritten source", before.location)
    for one, other in zip(old, new, strict=True):
        examples = gives_lists(before.module, before.arguments.value("collate_fn"))
        metric = understand(before.module, one, before.flow, examples=examples)
        if metric is None or not metric.accumulators:
            what = (
                "a comprehension goes over the batches" if metric is None else "nothing that the loop gathers is seen"
            )
            return Unproven(what, before.module.home(one.node).location(one.node))
        collated = before.arguments.value("collate_fn")
        apart = [] if collated is None or examples else [f"`{text_of(collated)}` puts samples together each by itself"]
        common = (str(before.location), built, group_of(before, guarded), unsafe, tuple(apart))
        sides = ((before, one), (after, other))
        try:
            rows: MetricRecipe | Stop = _recipe(sides, metric, examples, *common, rows=True)
        except Stop as stop:
            rows = stop
        try:
            replaced: MetricRecipe | Stop = _recipe(sides, metric, examples, *common, rows=False)
        except Stop as stop:
            replaced = stop
        if isinstance(rows, MetricRecipe):
            otherwise = replaced if isinstance(replaced, MetricRecipe) else None
            found.append(replace(rows, otherwise=otherwise))
        elif isinstance(replaced, MetricRecipe):
            why = f"the loop is not run as it is written: {rows.unproven}"
            found.append(replace(replaced, assumed=(why, *replaced.assumed)))
        else:
            return rows.unproven
    return found


def _recipe(
    sides: Sequence[tuple[Site, Use]],
    metric: Metric,
    examples: bool,
    site: str,
    built: Sequence[str],
    group: Group,
    unsafe: bool,
    apart: tuple[str, ...],
    *,
    rows: bool,
) -> MetricRecipe:
    """The recipe of one loop.

    Raises:
        Stop: something of it is not understood.
    """
    first, second = (_evaluated(side, use, metric, examples, rows) for side, use in sides)
    if len(first.kept) != len(second.kept):
        where = sides[0][0].location
        raise Stop("what is made of the metric is not found again in the rewritten source", where)
    names = _named(first)
    stand_ins = {**first.stand_ins, **second.stand_ins}
    weighted = [name for name, (_, drifts) in zip(names, first.kept, strict=True) if drifts and unsafe]
    return MetricRecipe(
        site,
        Evaluation(built[0], _with_names(first, names)),
        Evaluation(built[1], _with_names(second, names)),
        tuple(StandIn(text, value) for text, value in stand_ins.items()),
        tuple(weighted),
        group,
        tuple(dict.fromkeys((*first.assumed, *second.assumed, *apart))),
        first.told,
        rows=rows,
    )


def _build(sliced: Sliced) -> str:
    unknown = dict.fromkeys(sliced.unknown, False)
    return (f"UNKNOWN.update({unknown!r})\n" if unknown else "") + sliced.program.build


def _loops(site: Site) -> Iterator[Use]:
    """One use for each loop over the loader."""
    seen: set[ast.AST] = set()
    for use in site.flow.of("iterate"):
        if use.node not in seen:
            seen.add(use.node)
            yield use


def _evaluated(site: Site, use: Use, metric: Metric, examples: bool, rows: bool) -> Evaluated:
    loop = use.node
    assert isinstance(loop, ast.For)
    module = site.module.home(loop)
    scope = module.scope(loop)
    own = [ast.unparse(use.value)] if isinstance(use.value, (ast.Name, ast.Attribute)) else []
    loaders = dict.fromkeys((*own, *_written(site, module, scope)))
    return evaluated(
        module,
        loop,
        list(loaders),
        _dataset(site, module, scope),
        [a.name for a in metric.accumulators],
        [a.name for a in metric.accumulators if a.kind in _WEIGHTED or a.why],
        examples,
        rows,
        lambda other: (_written(site, module, other), _dataset(site, module, other)),
    )


def _written(site: Site, module: Module, scope: ast.AST) -> list[str]:
    """How the loader is written in one function of a file."""
    aliases = [a for a in site.flow.aliases if module.home(a) is module and module.scope(a) is scope]
    return list(dict.fromkeys(ast.unparse(a) for a in aliases if isinstance(a, (ast.Name, ast.Attribute))))


def _dataset(site: Site, module: Module, scope: ast.AST) -> str:
    """How the loader's dataset is written in one function of a file; empty where it is not known there."""
    near = site.module is module and module.scope(site.call) is scope
    return ast.unparse(site.dataset) if near and site.dataset is not None else ""


def _is_unpadded(site: Site) -> bool:
    """Whether the padding is taken out of a loader where it is built: around the construction, or right behind it."""
    module = site.module
    for outer in module.around(site.call):
        if isinstance(outer, ast.Call) and last_name(outer.func) == "unpadded":
            return True
        if isinstance(outer, ast.stmt):
            break
    target = ast.unparse(site.target) if site.target is not None else ""
    calls = [c for c in module.calls if last_name(c.func) == "unpadded" and len(c.args) == 1]
    return any(
        target and ast.unparse(c.args[0]) == target and module.scope(c) is module.scope(site.call) for c in calls
    )


def _named(first: Evaluated) -> list[str]:
    """The texts of the kept values, told apart where two are alike."""
    names: list[str] = []
    for text, _ in first.kept:
        name, n = text, 1
        while name in names:
            n += 1
            name = f"{text} ({n})"
        names.append(name)
    return names


def _with_names(made: Evaluated, names: list[str]) -> str:
    text = made.statements
    for number, name in enumerate(names):
        text = text.replace(f"VALUES['#{number}']", f"VALUES[{name!r}]")
    return text


__all__ = ["metric_recipes"]
