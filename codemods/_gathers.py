"""Gathers of an Accelerator in an evaluation: which of them keep the samples that prepare() repeats, and need not."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from shardfix.codemods._by_hand import counted_along, cut_off
from shardfix.codemods._own_means import left_alone, own_means
from shardfix.codemods._sharding import is_streaming
from shardfix.codemods._split_data import undispatched

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.metrics.entries import is_number
from shardfix.analysis.metrics.quantities import short
from shardfix.analysis.metrics.values import Values
from shardfix.analysis.model import Change
from shardfix.analysis.programs.regimes import is_accelerator
from shardfix.analysis.sites import Site
from shardfix.rewrite.edits import ReplaceExpression

_HOPS = 4
_OF_ONE_RANK = ("batch_sampler", "sampler", "total_batch_size")  # of a prepared loader: of its share, or filled up
_OF_ROWS = frozenset({"samples", "output", "batch"})


@dataclass(frozen=True, eq=False, slots=True)
class Gather:
    """A ``gather`` in a loop over a prepared loader, or a ``gather_object``."""

    loop: ast.AST
    call: ast.Call
    trimmed: ast.AST | None  # where repeated samples are cut off by hand
    counted: ast.expr | ast.stmt | None  # where a denominator counts the repeated samples along


def gathers(site: Site, others: Collection[ast.AST] = ()) -> Iterator[Gather]:
    """The gathers in the loops over a loader.

    Args:
        others: the loops over other loaders, whose gathers are not of this one where they stand in its loop.
    """
    lengths = {use.node for use in site.flow.of("length")}
    lengths |= {u.node for u in site.flow.of("attribute") if getattr(u.node, "attr", "") in _OF_ONE_RANK}
    for use in site.flow.of("iterate"):
        module = site.module.home(use.node)
        calls = [call for call in _calls(use.node, others) if _gathers(module, call)]
        trimmed = cut_off(module, use.node, calls) if calls else None
        counted = counted_along(module, use.node, calls, lengths) if calls else None
        yield from (Gather(use.node, call, trimmed, counted) for call in calls)


def _calls(loop: ast.AST, others: Collection[ast.AST]) -> Iterator[ast.Call]:
    for child in ast.iter_child_nodes(loop):
        if child not in others:
            yield from [child] if isinstance(child, ast.Call) else []
            yield from _calls(child, others)


def _gathers(module: Module, call: ast.Call) -> bool:
    func = call.func
    named = isinstance(func, ast.Attribute) and func.attr in ("gather", "gather_object")
    return named and isinstance(func, ast.Attribute) and is_accelerator(module, func.value)


@dataclass(frozen=True, eq=False, slots=True)
class Kept:
    """Why a gather has to keep what prepare() repeats, and what can be done by hand."""

    why: str
    remedy: str


def kept(site: Site, gather: Gather) -> Kept | None:
    """Why a gather can't become ``gather_for_metrics``, which takes what it is given for one row for each sample; None
    where nothing that is gathered stands in the way."""
    module = site.module.home(gather.call)
    line = gather.call.lineno
    if last_name(gather.call.func) != "gather" or len(gather.call.args) != 1:
        return None
    if is_streaming(site) and undispatched(site):
        return Kept(
            "a stream is prepared with dispatch_batches=False: each rank fills its own last batch, and "
            "gather_for_metrics drops nothing of it",
            "let rank 0 deal it out (dispatch_batches=True), or gather the samples' numbers and keep each once",
        )
    values = Values(module, gather.loop, gather.loop)
    given = gather.call.args[0]
    if _repeats(values, given):
        return _of_a_mean(site, values, gather)
    for part in given.elts if isinstance(given, (ast.Tuple, ast.List)) else [given]:
        if values.of(part).kind in _OF_ROWS:
            continue
        several = _several(values, part)
        if several is not None:
            return Kept(
                f"line {line} gathers several rows for each sample (`{short(several)}`), of which gather_for_metrics "
                "would take each for a sample, and drop rows of samples that are not repeated",
                "hand gather_for_metrics one row for each sample (samples, rows of each), and flatten what it gives",
            )
        if is_number(values, part):
            return Kept(
                f"line {line} gathers one value for each batch (`{short(part)}`), of which gather_for_metrics would "
                "take each for a sample, and drop those of other ranks",
                "hand gather_for_metrics what there is of each sample (`reduction='none'`), and reduce what it gives",
            )
        return Kept(
            f"`{short(part)}` in line {line} is not seen to hold one row for each sample",
            "where it does, write accelerator.gather_for_metrics",
        )
    return None


def _of_a_mean(site: Site, values: Values, gather: Gather) -> Kept | None:
    """A mean over the batch that is gathered once for each sample: how often, and whether the ranks have as many."""
    repeated = _repeated(values, gather.call.args[0])
    many = repeated.args[0] if repeated is not None else gather.call
    size = site.arguments.value("batch_size")
    line = gather.call.lineno
    remedy = "hand gather_for_metrics the loss of each sample (`reduction='none'`), and average what it gives"
    if is_streaming(site):
        return Kept(
            f"line {line} gathers the mean of a batch `{short(many)}` times: the last samples of a stream are shared "
            "evenly among the ranks, which have fewer then, and gather_for_metrics would keep the first ranks' rows",
            remedy,
        )
    if values.of(many).kind != "count" and (size is None or ast.unparse(size) != ast.unparse(many)):
        return Kept(
            f"line {line} gathers the mean of a batch `{short(many)}` times, which is not seen to be its size", remedy
        )
    return None


def _several(values: Values, part: ast.expr, depth: int = 0) -> ast.AST | None:
    """What makes several rows of each sample: ``repeat(n)``, ``num_return_sequences=n``; through names."""
    for n in ast.walk(part):
        if isinstance(n, ast.Call):
            told = [k for k in n.keywords if k.arg == "num_return_sequences" and ast.unparse(k.value) != "1"]
            if told:
                return told[0]
            if isinstance(n.func, ast.Attribute) and n.func.attr in ("repeat", "repeat_interleave") and n.args:
                return n
        elif isinstance(n, ast.Name) and depth < _HOPS:
            made = [d for d in values.module.bindings.reaching(n) if d.node in values.inside and d.value is not None]
            for d in made:
                found = _several(values, d.value, depth + 1) if d.value is not None else None
                if found is not None:
                    return found
    return None


def gathered_for_metrics(site: Site, others: Collection[ast.AST] = ()) -> Change | str | None:
    """The change to ``gather_for_metrics``, which drops what is repeated; in words why there is nothing to drop; None
    where what is gathered is not seen to hold one row for each sample, or is divided by a number that counts what is
    repeated. ``others`` as in ``gathers``."""
    found = list(gathers(site, others))
    if not found or site.role != "eval":
        return None
    cut = [g.trimmed for g in found if g.trimmed is not None]
    if len(cut) == len(found):
        return f"line {getattr(cut[0], 'lineno', 0)} cuts off by hand what prepare() repeats"
    if cut or any(g.counted is not None for g in found):
        return None
    if not all(u.prepared is not None for u in site.flow.of("iterate")):
        return None
    edits: list[ReplaceExpression] = []
    means: list[ast.Call] = []
    for gather in found:
        module = site.module.home(gather.call)
        func = gather.call.func
        if not isinstance(func, ast.Attribute) or func.attr != "gather" or len(gather.call.args) != 1:
            return None
        given = gather.call.args[0]
        if kept(site, gather) is not None:
            return None
        if _repeats(Values(module, gather.loop, gather.loop), given):
            means.append(gather.call)
        receiver = module.source.source(func.value)
        edits.append(ReplaceExpression(*module.place(func), f"{receiver}.gather_for_metrics"))
    if means and not site.options.unsafe:
        return None
    return Change(
        site.location,
        "reduce_eval_metrics",
        ("SHD507",),
        "unsafe" if means else "safe",
        "leave out of the metric what prepare() repeats",
        tuple(edits),
        reason=(
            f"line {means[0].lineno} gathers a mean over the batch, once for each sample: the weights come out right, "
            "and the mean of the last batch still holds the repeated samples"
            if means
            else ""
        ),
        consequences=(
            "the last batch counts its own samples only, as in one process",
            *left_alone(own_means(site)),
        ),
        evidence=tuple(site.module.home(g.call).evidence(g.call) for g in found),
    )


def _repeats(values: Values, node: ast.expr) -> bool:
    """Whether a mean over the batch is repeated for each of its samples."""
    return _repeated(values, node) is not None


def _repeated(values: Values, node: ast.expr) -> ast.Call | None:
    """``loss.repeat(batch_size)``, ``loss.expand(n)``; also by a name."""
    if isinstance(node, ast.Name):
        made = [d.value for d in values.module.bindings.reaching(node)]
        return _repeated(values, made[0]) if len(made) == 1 and isinstance(made[0], ast.Call) else None
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    if node.func.attr not in ("repeat", "expand") or len(node.args) != 1:
        return None
    loss = "loss" in ast.unparse(node.func.value) and values.of(node.func.value).kind in ("mean", "unknown")
    return node if loss else None


__all__ = ["Gather", "Kept", "gathered_for_metrics", "gathers", "kept"]
