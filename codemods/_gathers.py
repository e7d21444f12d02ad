"""Gathers of an Accelerator in an evaluation: which of them keep the samples that prepare() repeats, and need not."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from shardfix.codemods._by_hand import counted_along, cut_off
from shardfix.codemods._own_means import left_alone, own_means

from shardfix.analysis.code.module import Module
from shardfix.analysis.metrics.values import Values
from shardfix.analysis.model import Change
from shardfix.analysis.programs.regimes import is_accelerator
from shardfix.analysis.sites import Site
from shardfix.rewrite.edits import ReplaceExpression

_OF_ROWS = frozenset({"samples", "output", "batch"})


@dataclass(frozen=True, eq=False, slots=True)
class Gather:
    """A ``gather`` in a loop over a prepared loader, or a ``gather_object``."""

    loop: ast.AST
    call: ast.Call
    trimmed: ast.AST | None  # where repeated samples are cut off by hand
    counted: ast.BinOp | ast.AugAssign | None  # where a denominator counts the repeated samples along


def gathers(site: Site, others: Collection[ast.AST] = ()) -> Iterator[Gather]:
    """The gathers in the loops over a loader.

    Args:
        others: the loops over other loaders, whose gathers are not of this one where they stand in its loop.
    """
    for use in site.flow.of("iterate"):
        module = site.module.home(use.node)
        calls = [call for call in _calls(use.node, others) if _gathers(module, call)]
        trimmed = cut_off(module, use.node, calls) if calls else None
        counted = counted_along(module, use.node) if calls else None
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
        values = Values(module, gather.loop, gather.loop)
        parts = list(given.elts) if isinstance(given, (ast.Tuple, ast.List)) else [given]
        if _repeats(values, given):
            means.append(gather.call)
        elif not all(values.of(part).kind in _OF_ROWS for part in parts):
            return None
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
    """``loss.repeat(batch_size)``, ``loss.expand(n)``; also by a name."""
    if isinstance(node, ast.Name):
        made = [d.value for d in values.module.bindings.reaching(node)]
        return len(made) == 1 and isinstance(made[0], ast.Call) and _repeats(values, made[0])
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr not in ("repeat", "expand") or len(node.args) != 1:
        return False
    return "loss" in ast.unparse(node.func.value) and values.of(node.func.value).kind in ("mean", "unknown")


__all__ = ["Gather", "gathered_for_metrics", "gathers"]
