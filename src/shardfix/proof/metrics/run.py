"""Who runs an evaluation: by the verifier's ranks, in one process and in groups, at every size that tells."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import resources
from typing import Any

from shardfix.proof.metrics.fitting import PROBE, Readings, fit
from shardfix.proof.metrics.judge import judge_metric, sizes_for
from shardfix.proof.metrics.judge_standing import NOTHING, judge_standing
from shardfix.proof.metrics.model import Measured, MetricProof, MetricRecipe, MetricRun
from shardfix.proof.model import Proof, Variant, Verdict
from shardfix.proof.running.launch import Verifier
from shardfix.proof.stop import Unproven

_STAND_INS = ("stand_ins", "rows", "modelled")
_ORDER = ("proven", "unproven", "refuted")


def prove_metrics(recipes: Sequence[MetricRecipe], verifier: Verifier) -> list[MetricProof]:
    """A proof for each recipe, in their order, all run by the verifier's worker.

    Raises:
        VerifierError: the worker can't be run.
    """
    if not recipes:
        return []
    readings = [Readings(recipe) for recipe in recipes]
    while any(r.open for r in readings):
        left = [r for r in readings if r.open]
        fit(left, lambda cells: _answers(cells, verifier), _cell, _ways)
        left = [r for r in left if r.open]
        for r, proof in zip(left, _proven([r.recipe for r in left], verifier), strict=True):
            r.judged(proof)
    return [r.proof for r in readings]


def _proven(recipes: Sequence[MetricRecipe], verifier: Verifier) -> list[MetricProof]:
    """A proof for each recipe, with what is not seen read as it says."""
    ask = "__value__ = loader.batch_size or getattr(loader.batch_sampler, 'batch_size', None) or 1"
    ways = [(number, grouped) for number, recipe in enumerate(recipes) for grouped in _ways(recipe)]
    probes = [_cell(recipes[number], "before", ask, 1, grouped, PROBE) for number, grouped in ways]
    planned: list[tuple[int, Variant, int, bool, int, int]] = []
    begun: dict[int, bool] = {}
    for (number, grouped), ranks in zip(ways, _answers(probes, verifier), strict=True):
        batch_size = ranks[0]["value"] if ranks else None
        if number not in begun and (batch_size is not None or (number, grouped) == ways[-1] or grouped):
            begun[number] = grouped
            planned += [
                (number, *run, batch_size or 1)
                for run in _runs(recipes[number], batch_size or 1, verifier.nproc, grouped)
            ]
    cells = []
    for number, variant, world, grouped, size, _ in planned:
        program = recipes[number].before if variant == "before" else recipes[number].after
        then = program.evaluate + "\n__value__ = TOLD(VALUES)"
        cell = _cell(recipes[number], variant, then, world, grouped, size)
        cells.append({**cell, "program": f"{number} {variant}"})
    runs: list[list[MetricRun]] = [[] for _ in recipes]
    for (number, variant, world, grouped, size, batch_size), ranks in zip(
        planned, _answers(cells, verifier), strict=True
    ):
        measured = tuple(_measured(rank) for rank in ranks)
        if not measured and any(r.variant == variant and any(m.stopped for m in r.ranks) for r in runs[number]):
            continue  # what has hung once is not run again
        measured = measured or (Measured(0, error="it was not reached in time"),)
        runs[number].append(MetricRun(variant, world, grouped, size, batch_size, measured))
    _run_again(recipes, runs, begun, verifier)
    return [
        judge_standing(recipe, found) if recipe.stands else judge_metric(recipe, found)
        for recipe, found in zip(recipes, runs, strict=True)
    ]


def _run_again(
    recipes: Sequence[MetricRecipe], runs: list[list[MetricRun]], grouped: Mapping[int, bool], verifier: Verifier
) -> None:
    """Run the originals in one process, of the batches that several ranks read, where values go by the batches."""
    asked = [
        (number, place, run)
        for number, recipe in enumerate(recipes)
        if recipe.rows and recipe.weighted and not recipe.stands and not recipe.accelerate
        for place, run in enumerate(runs[number])
        if run.variant == "after" and not any(rank.error or rank.stopped for rank in run.ranks)
    ]
    cells = []
    for number, _, run in asked:
        steps = max(len(rank.read) for rank in run.ranks)
        batches = [rank.read[step] for step in range(steps) for rank in run.ranks if step < len(rank.read)]
        then = f"loader = REPLAYED(loader, {batches!r})\n{recipes[number].before.evaluate}\n__value__ = TOLD(VALUES)"
        cells.append(_cell(recipes[number], "before", then, 1, grouped[number], run.size))
    for (number, place, run), ranks in zip(asked, _answers(cells, verifier) if cells else [], strict=True):
        if ranks:
            runs[number][place] = replace(run, again=_measured(ranks[0]))


def with_metrics(
    proofs: Sequence[Proof], recipes: Mapping[str, Sequence[MetricRecipe] | Unproven], verifier: Verifier
) -> list[Proof]:
    """The proofs of loaders together with those of the metrics that their changes put together, all run at once.

    Args:
        recipes: by site.

    Raises:
        VerifierError: the worker can't be run.
    """
    asked = [proof.site for proof in proofs if proof.verdict != "refuted" and proof.site in recipes]
    listed = [recipe for site in asked for recipe in _recipes(recipes[site])]
    proven = iter(prove_metrics(listed, verifier))
    found: dict[str, list[MetricProof]] = {}
    for site in asked:
        given = recipes[site]
        if isinstance(given, Unproven):
            found[site] = [MetricProof(site, "unproven", (f"its metric is not proven: {given}",))]
        else:
            found[site] = [next(proven) for _ in given]
    return [_together(proof, found.get(proof.site, [])) for proof in proofs]


def with_standing_metrics(
    proofs: Sequence[Proof], recipes: Mapping[str, Sequence[MetricRecipe] | Unproven], verifier: Verifier
) -> list[Proof]:
    """The proofs of loaders as they stand, with what is seen of the metrics that are made of them.

    A metric that is not that of one process refutes; one that is not proven is told, and takes nothing from its loader.
    """
    asked = [proof.site for proof in proofs if proof.verdict != "refuted" and proof.site in recipes]
    proven = iter(prove_metrics([recipe for site in asked for recipe in _recipes(recipes[site])], verifier))
    found: dict[str, list[MetricProof]] = {}
    for site in asked:
        given = recipes[site]
        if isinstance(given, Unproven):
            found[site] = [MetricProof(site, "unproven", (str(given),))] if given.reason != NOTHING else []
        else:
            found[site] = [next(proven) for _ in given]
    compared = {site: [m for m in metrics if m.reasons != (NOTHING,)] for site, metrics in found.items()}
    return [_standing(proof, compared[proof.site]) if compared.get(proof.site) else proof for proof in proofs]


def _standing(proof: Proof, metrics: Sequence[MetricProof]) -> Proof:
    stand_ins = tuple(dict.fromkeys((*proof.stand_ins, *(s for m in metrics for s in m.stand_ins))))
    wrong = tuple(reason for m in metrics if m.verdict == "refuted" for reason in m.reasons)
    if wrong:
        return replace(proof, verdict="refuted", reasons=wrong, cause="other-metric", stand_ins=stand_ins)
    left = tuple(f"its metric is not proven: {m.reasons[0]}" for m in metrics if m.verdict == "unproven")
    right = tuple(line for m in metrics if m.verdict == "proven" for line in m.told)
    if left:
        # Read twice and another value: whatever excuses it, the loader is not all that its program needs.
        twice = proof.verdict == "proven" and any(" read twice" in reason for reason in left)
        verdict: Verdict = "unproven" if twice else proof.verdict
        return replace(proof, verdict=verdict, reasons=(*proof.reasons, *right, *left), stand_ins=stand_ins)
    only_padding = proof.verdict == "unproven" and all("counted twice in the metric" in r for r in proof.reasons)
    reasons = (*(() if only_padding else proof.reasons), *right)
    verdict = "proven" if only_padding else proof.verdict
    return replace(proof, verdict=verdict, reasons=reasons, stand_ins=stand_ins)


def _recipes(given: Sequence[MetricRecipe] | Unproven) -> Sequence[MetricRecipe]:
    return () if isinstance(given, Unproven) else given


def _together(proof: Proof, metrics: Sequence[MetricProof]) -> Proof:
    """The worst verdict of all, with the reasons for it; what is proven of a metric says more than of its loader."""
    verdicts = [proof.verdict, *(m.verdict for m in metrics)]
    worst: Verdict = max(verdicts, key=_ORDER.index)
    own = () if worst == "proven" and metrics else proof.reasons if proof.verdict == worst else ()
    return replace(
        proof,
        verdict=worst,
        reasons=(*own, *(line for m in metrics if m.verdict == worst for line in (*m.reasons, *m.told))),
        padded=0 if metrics and worst == "proven" else proof.padded,  # it is taken out of what is evaluated
        stand_ins=tuple(dict.fromkeys((*proof.stand_ins, *(s for m in metrics for s in m.stand_ins)))),
        told=(*proof.told, *(m.control for m in metrics if m.control)),
    )


def _ways(recipe: MetricRecipe) -> tuple[bool, ...]:
    """Whether one process has a process group, in the order in which that is tried: the original may need one."""
    return (True,) if recipe.group == "always" else (False, True)


def _runs(recipe: MetricRecipe, batch_size: int, nproc: int, grouped: bool) -> Iterator[tuple[Variant, int, bool, int]]:
    """Every run that the judge wants: all at each size, the control and the result in a group of one once."""
    sizes = sizes_for(batch_size)
    if recipe.stands:
        for size in sizes:
            yield "before", 1, grouped, size
            yield "after", nproc, True, size
            yield "after", nproc + 1, True, size
        return
    for size in sizes:
        yield "before", 1, grouped, size
        yield "after", 1, grouped, size
        yield "after", nproc, True, size
        yield "after", nproc + 1, True, size
    if not grouped:
        yield "after", 1, True, sizes[1]
    for size in sizes if recipe.partial else sizes[1:2]:  # at one that one process can run, whichever that is
        yield "before", nproc, True, size


@functools.cache
def _prelude() -> str:
    """The stand-ins and the functions that migrated code calls, as modules that each rank makes once."""
    package = resources.files("shardfix")
    metrics = package / "proof" / "metrics"
    # by the module that each text is run in
    texts = [
        *(("_shardfix_stand_ins", (metrics / f"{n}.py").read_text(encoding="utf-8")) for n in _STAND_INS),
        ("_shardfix_evaluation", (package / "evaluation.py").read_text(encoding="utf-8")),
    ]
    return f"""
import sys, types
_texts = {texts!r}
if _texts[-1][0] not in sys.modules:
    for _name, _text in _texts:
        exec(compile(_text, _name, "exec"), vars(sys.modules.setdefault(_name, types.ModuleType(_name))))
for _name, _ in _texts:
    globals().update({{key: value for key, value in vars(sys.modules[_name]).items() if not key.startswith("_")}})
READ.clear()
TRAINING[0] = False
"""


def _cell(recipe: MetricRecipe, variant: Variant, then: str, world: int, grouped: bool, size: int) -> dict[str, Any]:
    program = recipe.before if variant == "before" else recipe.after
    return {
        "prelude": _prelude(),
        "build": f"{program.build}\n{then}",
        "each_epoch": "",
        "epochs": 0,
        "needs": ["accelerate"] if recipe.accelerate else [],
        "waits": False,
        "world": world,
        "grouped": grouped,
        "size": size,
    }


def _answers(cells: Sequence[dict[str, Any]], verifier: Verifier) -> list[list[dict[str, Any]]]:
    """What each rank of each cell answers; nothing where the time was over."""
    libraries = {library: [[library]] for cell in cells for library in cell["needs"]}
    messages, _ = verifier.hear({"libraries": libraries, "cells": list(cells)})
    by_number = {m["cell"]: m["ranks"] for m in messages if m["kind"] == "cell"}
    return [by_number.get(number, []) for number in range(len(cells))]


def _measured(rank: dict[str, Any]) -> Measured:
    value = rank["value"] or {"values": {}, "read": []}
    read = tuple(tuple(batch) for batch in value["read"])
    return Measured(rank["rank"], value["values"], read, rank["error"], rank["stopped"])
