"""Who builds what is run: the evaluations of a loader, from the source as it was and as it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.loaders.flow import Use
from shardfix.analysis.metrics.collation import collated, gives_lists
from shardfix.analysis.metrics.literal_length import literal_length
from shardfix.analysis.metrics.model import Metric
from shardfix.analysis.metrics.reread import reread
from shardfix.analysis.metrics.single import understand_single
from shardfix.analysis.metrics.understanding import understand
from shardfix.analysis.metrics.values import Values
from shardfix.analysis.sites import Site
from shardfix.proof.metrics.alone import may_be_alone
from shardfix.proof.metrics.evaluated import Evaluated, evaluated
from shardfix.proof.metrics.judge_standing import NOTHING
from shardfix.proof.metrics.model import Evaluation, MetricRecipe
from shardfix.proof.metrics.told_metrics import told_metrics
from shardfix.proof.metrics.widths import fixed_widths
from shardfix.proof.model import StandIn
from shardfix.proof.recipes.choices import Choices, text_of
from shardfix.proof.recipes.recipe import Sliced, group_of, program
from shardfix.proof.recipes.unpadding import asks_uneven
from shardfix.proof.stop import Stop, Unproven

_WEIGHTED = ("batch-mean", "opaque", "steps")
_GATHERS = frozenset({"gather_for_metrics"})
_REPEATS = frozenset({"repeat", "expand"})


def metric_recipes(
    before: Site, after: Site, *, unsafe: bool = True, partial: bool = False
) -> list[MetricRecipe] | Unproven:
    """A recipe for each loop over a loader, or why there is none.

    Args:
        before, after: the site in the original and in the rewritten source.
        unsafe: whether the change is offered as one after which means over batches may differ.
        partial: whether the change mends some of the values only.
    """
    found = _recipes((before, after), unsafe=unsafe)
    return found if isinstance(found, Unproven) else [replace(recipe, partial=partial) for recipe in found]


def standing_recipes(site: Site) -> list[MetricRecipe] | Unproven:
    """A recipe for each loop over a loader as the code stands, or why there is none."""
    return _recipes((site,), unsafe=True)


def _recipes(sites: Sequence[Site], *, unsafe: bool) -> list[MetricRecipe] | Unproven:
    # batches that 2 and 3 ranks may divide, for steps of equal numbers; of one sample where these may be uneven
    single = asks_uneven(sites[-1])
    choices = Choices(split=not single, everyone=True)
    built: list[Sliced] = []
    for site in sites:
        sliced = program(site, choices)
        if isinstance(sliced, Unproven):
            return sliced
        built.append(sliced)
    first = sites[0]
    loops = [list(_loops(site)) for site in sites]
    if not loops[0] or any(len(found) != len(loops[0]) for found in loops):
        return Unproven("the loop that evaluates is not found again in the rewritten source", first.location)
    found: list[MetricRecipe] = []
    for uses in zip(*loops, strict=True):
        examples = gives_lists(first.module, first.arguments.value("collate_fn"))
        understood = understand_single if single else understand
        metric = understood(first.module, uses[0], first.flow, examples=examples)
        home = first.module.home(uses[0].node)
        gathers = metric is not None and (metric.accumulators or told_metrics(home, uses[0].node) or len(sites) == 1)
        if metric is None or not gathers:
            what = "a comprehension goes over the batches" if metric is None else NOTHING
            return Unproven(what, home.location(uses[0].node))
        asked = _Asked(tuple(zip(sites, uses, built, strict=True)), metric, examples, unsafe)
        rows, replaced = _tried(asked, rows=True), _tried(asked, rows=False)
        if isinstance(rows, MetricRecipe):
            found.append(replace(rows, otherwise=replaced if isinstance(replaced, MetricRecipe) else None))
        elif isinstance(replaced, MetricRecipe):
            why = f"the loop is not run as it is written: {rows}"
            found.append(replace(replaced, assumed=(why, *replaced.assumed)))
        else:
            return rows
    return found


@dataclass(frozen=True)
class _Asked:
    """One loop in each version of the source: its site, the use, the program of its loader."""

    versions: tuple[tuple[Site, Use, Sliced], ...]
    metric: Metric
    examples: bool
    unsafe: bool


def _tried(asked: _Asked, *, rows: bool) -> MetricRecipe | Unproven:
    try:
        return _recipe(asked, rows=rows)
    except Stop as stop:
        return stop.unproven


def _recipe(asked: _Asked, *, rows: bool) -> MetricRecipe:
    """The recipe of one loop.

    Raises:
        Stop: something of it is not understood.
    """
    stands = len(asked.versions) == 1
    made = [_evaluated(*version, asked, rows, stands) for version in asked.versions]
    first, site = made[0], asked.versions[0][0]
    if any(len(other.kept) != len(first.kept) for other in made):
        raise Stop("what is made of the metric is not found again in the rewritten source", site.location)
    names = _named(first)
    programs = [
        Evaluation(_build(sliced), _with_names(one, names))
        for (_, _, sliced), one in zip(asked.versions, made, strict=True)
    ]
    stand_ins = {text: value for one in made for text, value in one.stand_ins.items()}
    weighted = [name for name, (_, drifts) in zip(names, first.kept, strict=True) if drifts and asked.unsafe]
    apart = () if asked.examples else _put_together(asked)
    loose = bool(weighted) and _may_be_loose(asked, any(sliced.needs_accelerate for _, _, sliced in asked.versions))
    return MetricRecipe(
        str(site.location),
        programs[0],
        programs[-1],
        tuple(StandIn(text, value) for text, value in stand_ins.items()),
        tuple(weighted),
        "optional" if may_be_alone(site) else group_of(site, asked.versions[0][2].guarded),
        tuple(dict.fromkeys((*(a for one in made for a in one.assumed), *apart, *_files(asked)))),
        first.told,
        rows=rows,
        accelerate=any(sliced.needs_accelerate for _, _, sliced in asked.versions),
        stands=stands,
        length=literal_length(site.module, site.dataset) if stands else None,
        repeated=_repeated(asked) if stands else "",
        loose=loose,
        numbers=tuple(dict.fromkeys(n for one in made for n in one.numbers)),
        on_first=tuple(n for i, n in enumerate(names) if any(i in one.on_first for one in made)),
        by_batch_only=tuple(dict.fromkeys(pair for one in made for pair in one.by_batch_only)),
    )


def _repeated(asked: _Asked) -> str:
    """``loss.repeat(n)`` of a mean over the batch that is gathered, as it is written; empty where there is none."""
    site, use, _ = asked.versions[0]
    loop = use.node
    assert isinstance(loop, ast.For)
    module = site.module.home(loop)
    values = Values(module, loop, loop, examples=asked.examples)
    for gathered in (n for n in ast.walk(loop) if isinstance(n, ast.Call) and last_name(n.func) in _GATHERS):
        for n in (n for a in arguments_of(gathered) for n in ast.walk(a)):
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr in _REPEATS:
                if values.of(n.func.value).kind == "mean":
                    return text_of(n)
    return ""


def _put_together(asked: _Asked) -> tuple[str, ...]:
    """What is granted of how samples become a batch: that each gives a row by itself, as wide on all ranks."""
    site, use, _ = asked.versions[0]
    collate = site.arguments.value("collate_fn")
    how = collated(site.module, collate)
    if collate is None or how == "stacked":
        return ()
    if how == "unknown":
        return (f"`{text_of(collate)}` puts samples together one by one",)
    assert isinstance(use.node, ast.For)
    if fixed_widths(site.module.home(use.node), use.node):
        return ()
    return (f"what is put together is as wide on all ranks, though `{text_of(collate)}` fills up each batch by itself",)


def _may_be_loose(asked: _Asked, accelerate: bool) -> bool:
    """Whether weighted values may be held against what one process makes of the same batches: prepared loaders add
    samples to these."""
    return asked.unsafe and len(asked.versions) > 1 and not accelerate


def _files(asked: _Asked) -> list[str]:
    """What is granted of files that all ranks write and read behind the loop, as the source is now."""
    site, use, _ = asked.versions[-1]
    assert isinstance(use.node, ast.For)
    found = reread(site.module.home(use.node), use.node)
    return [f"no rank reads `{text_of(again.path)}` while another one writes it" for again in found]


def _build(sliced: Sliced) -> str:
    unknown = dict.fromkeys(sliced.unknown, False)
    return (f"UNKNOWN.update({unknown!r})\n" if unknown else "") + sliced.program.build


def _loops(site: Site) -> Iterator[Use]:
    """One use for each loop over the loader; what only hands its batches on to another loop is none."""
    seen: set[ast.AST] = set()
    for use in site.flow.of("iterate"):
        hands_on = any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in ast.walk(use.node))
        if use.node not in seen and not hands_on:
            seen.add(use.node)
            yield use


def _evaluated(site: Site, use: Use, sliced: Sliced, asked: _Asked, rows: bool, stands: bool) -> Evaluated:
    loop = use.node
    assert isinstance(loop, ast.For)
    module = site.module.home(loop)
    scope = module.scope(loop)
    own = [ast.unparse(use.value)] if isinstance(use.value, (ast.Name, ast.Attribute)) else []
    loaders = dict.fromkeys((*own, *_written(site, module, scope)))
    weighted = [a.name for a in asked.metric.accumulators if a.kind in _WEIGHTED or a.why]
    return evaluated(
        module,
        loop,
        list(loaders),
        _dataset(site, module, scope),
        [a.name for a in asked.metric.accumulators],
        weighted,
        asked.examples,
        rows,
        lambda other: (_written(site, module, other), _dataset(site, module, other)),
        sliced.needs_accelerate,
        stands,
        bool(weighted) and _may_be_loose(asked, sliced.needs_accelerate),
    )


def _written(site: Site, module: Module, scope: ast.AST) -> list[str]:
    """How the loader is written in one function of a file."""
    aliases = [a for a in site.flow.aliases if module.home(a) is module and module.scope(a) is scope]
    return list(dict.fromkeys(ast.unparse(a) for a in aliases if isinstance(a, (ast.Name, ast.Attribute))))


def _dataset(site: Site, module: Module, scope: ast.AST) -> str:
    """How the loader's dataset is written in one function of a file; empty where it is not known there."""
    near = site.module is module and module.scope(site.call) is scope
    return ast.unparse(site.dataset) if near and site.dataset is not None else ""


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


__all__ = ["metric_recipes", "standing_recipes"]
