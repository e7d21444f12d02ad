"""Values that go by the batches, held against what one process makes of the batches that all ranks read; pure.

A sum over batches of any value of a batch is the same whoever reads the batches; that its batches are other ones than
one process makes is what a change which is offered as unsafe says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shardfix.proof.metrics.comparing import same, shown
from shardfix.proof.metrics.model import Measured, MetricRecipe, MetricRun


def is_again(recipe: MetricRecipe, run: MetricRun, rank: Measured, name: str) -> bool:
    """Whether a value that goes by the batches is what one process makes of the same batches."""
    again = run.again.values if run.again is not None and name in recipe.weighted else {}
    return name in again and name in rank.values and same(rank.values[name], again[name])


def not_again(recipe: MetricRecipe, after: Sequence[MetricRun], alone: Mapping[int, MetricRun]) -> list[str]:
    """The values that go by the batches and are neither those of one process nor what it makes of the same batches."""
    found: dict[str, str] = {}
    for run in after:
        (expected,) = alone[run.size].ranks
        failed = run.again is None or run.again.error or run.again.stopped
        if failed and (recipe.form is None or not recipe.form.by_batch):
            continue  # one process can't do with such batches: what is seen of them says enough
        for rank, name in ((rank, name) for rank in run.ranks for name in recipe.weighted if name in expected.values):
            if rank.rank and name in recipe.on_first:
                continue
            if not same(rank.values.get(name), expected.values[name]) and not is_again(recipe, run, rank, name):
                again = shown(run.again.values.get(name)) if run.again is not None and not failed else "not run"
                value = shown(rank.values.get(name))
                found[name] = (
                    f"`{name}` is {value} in the run of {run.world}, in one process of the same batches {again}"
                    f" ({run.size} samples)"
                )
    return list(found.values())


def drift(recipe: MetricRecipe, after: Sequence[MetricRun], alone: Mapping[int, MetricRun]) -> list[str]:
    """How far values that go by the batches are from one process, at a size where they are."""
    by_batch = recipe.form is not None and recipe.form.by_batch
    why = "a mean over batches weighs a ragged one like a full one"
    if by_batch:
        why = (
            "each batch is taken to give any value at all, and the ranks' batches are other ones; of the same batches"
            " one process gets what the ranks get"
        )
    for name in recipe.weighted:
        for run in (r for r in after if r.world > 1 and (by_batch or not r.even)):
            (expected,), rank = alone[run.size].ranks, run.ranks[0]
            if name in expected.values and not same(rank.values.get(name), expected.values[name]):
                value, whole = shown(rank.values.get(name)), shown(expected.values[name])
                return [f"`{name}` is {value} on {run.world} ranks, in one process {whole} ({run.size} samples): {why}"]
    return []


__all__ = ["drift", "is_again", "not_again"]
