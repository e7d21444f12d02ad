"""Who judges a metric of code as it stands: whether it is on several ranks what it is in one process; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shardfix.proof.metrics.comparing import is_number, same, shown
from shardfix.proof.metrics.judge import failure_of, proof_of, resting
from shardfix.proof.metrics.model import MetricProof, MetricRecipe, MetricRun

NOTHING = "nothing that it gathers is seen"
_NAMED = 3  # values named in one reason


def judge_standing(recipe: MetricRecipe, runs: Sequence[MetricRun]) -> MetricProof:
    """The verdict on a metric of code as it stands.

    Proven is: the first rank has the values of one process, at every size. Refuted is: it has none of them, though all
    that becomes of them was run. Anything between is left open: a program may well show one rank's part beside the sum.
    """
    alone = {run.size: run for run in runs if run.variant == "before" and not failure_of(run)}
    shared = [run for run in runs if run.variant == "after" and run.size in alone]
    failed = next((f for run in runs if run.world == 1 and (f := failure_of(run))), "")
    if not alone or not shared:
        return proof_of(recipe, "unproven", f"the evaluation can't be run apart from its program: {failed}")
    for run in shared:
        failed = failure_of(run)
        if failed:
            return proof_of(recipe, "unproven", f"it can't be run on {run.world} ranks: {failed} ({run.size} samples)")
    differs: dict[str, list[MetricRun]] = {}
    compared: set[str] = set()
    unsettled: set[str] = set()
    for run in shared:
        ((expected,), first) = alone[run.size].ranks, run.ranks[0]
        for name in (n for n in expected.values if n in first.values):
            value, whole = first.values[name], expected.values[name]
            alike = same(value, whole) or _rows_in_another_order(value, whole)
            if not alike and not (_settled(value) and _settled(whole)):
                unsettled.add(name)
                continue
            compared.add(name)
            if not alike:
                differs.setdefault(name, []).append(run)
    if unsettled and not differs:
        return proof_of(recipe, "unproven", f"what is made of `{min(unsettled)}` is not run")
    if not compared:
        return proof_of(recipe, "unproven", NOTHING)
    if differs:
        reason = _difference(differs, alone)
        left = [resting(words) for words in recipe.assumed[:1]] or list(recipe.told[:1])
        left += [f"`{name}` is right on rank 0" for name in sorted(compared - differs.keys())[:1]]
        if all(name in recipe.weighted and not any(run.even for run in runs) for name, runs in differs.items()):
            left.append("it may be a mean over batches, which weighs a ragged one like a full one")
        left += _excused(recipe, [run for runs in differs.values() for run in runs], shared, differs, alone)
        if left or not recipe.rows:
            return proof_of(recipe, "unproven", "; ".join([reason, *left[:1]]))
        return proof_of(recipe, "refuted", reason)
    if recipe.assumed:
        return proof_of(recipe, "unproven", *map(resting, recipe.assumed[:_NAMED]))
    return proof_of(recipe, "proven", told=(_told(shared, alone), *recipe.told))


def _excused(
    recipe: MetricRecipe,
    wrong: Sequence[MetricRun],
    shared: Sequence[MetricRun],
    differs: Mapping[str, Sequence[MetricRun]],
    alone: Mapping[int, MetricRun],
) -> list[str]:
    """Why values that differ only where samples are read twice may be those of the program all the same."""
    if not all(_twice(run) for run in wrong):
        return []
    found: list[str] = []
    worlds = sorted({run.world for run in shared})
    if recipe.length and not recipe.accelerate and not any(recipe.length % world for world in worlds):
        ranks = " and ".join(map(str, worlds))
        found.append(
            f"the {recipe.length} samples that the program says divide evenly among {ranks} ranks, which read none"
            " twice; on a number of ranks that does not divide them it would be another value"
        )
    numbers = all(isinstance(alone[run.size].ranks[0].values[n], float) for n, runs in differs.items() for run in runs)
    if recipe.repeated and numbers:
        found.append(
            f"`{recipe.repeated}` gives each sample of a batch the mean of all, so that the weights are right, but the"
            " mean of the last batch holds the samples that prepare() repeats: the value is not quite that of one"
            " process; gather the loss of each sample (reduction='none') to have it exactly"
        )
    return found


def _twice(run: MetricRun) -> bool:
    visits = [index for rank in run.ranks for batch in rank.read for index in batch]
    return len(visits) > len(set(visits))


def _difference(differs: Mapping[str, Sequence[MetricRun]], alone: Mapping[int, MetricRun]) -> str:
    """The values of the first rank that are none of one process, and why as far as what was read shows it."""
    fewest = min(run.world for runs in differs.values() for run in runs)
    run = max((r for runs in differs.values() for r in runs if r.world == fewest), key=lambda r: (r.even, r.size))
    ((expected,), first) = alone[run.size].ranks, run.ranks[0]
    values = [
        f"`{name}` is {shown(first.values[name])}, in one process {shown(expected.values[name])}"
        for name in [name for name, runs in differs.items() if run in runs][:_NAMED]
    ]
    visits = [index for rank in run.ranks for batch in rank.read for index in batch]
    own = {index for batch in first.read for index in batch}
    twice = len(visits) - len(set(visits))
    if len(own) == len(set(visits)):
        why = "every rank reads everything"
    elif twice:
        why = f"{twice} sample{'s are' if twice > 1 else ' is'} read twice"
    else:
        why = "each rank has what its own part gives"
    return f"rank 0 of {run.world}: {', '.join(values)} ({run.size} samples): {why}"


def _rows_in_another_order(value: Any, expected: Any) -> bool:
    """Whether two lists hold the same rows, in another order."""
    if not isinstance(value, list) or not isinstance(expected, list) or len(value) != len(expected):
        return False
    return all(map(same, sorted(value, key=repr), sorted(expected, key=repr)))


def _settled(value: Any) -> bool:
    """Whether a value is one, or a function's of values: what is reckoned with a function's unknown result is none."""
    if isinstance(value, dict) and "called" in value:
        return not value["called"].startswith("__") and not _unknown(value.get("given", ()))
    return not _unknown(value)


def _unknown(value: Any) -> bool:
    if isinstance(value, dict):
        return "called" in value or any(map(_unknown, value.values()))
    return isinstance(value, (list, tuple)) and (list(value[:1]) == ["called"] or any(map(_unknown, value)))


def _told(shared: Sequence[MetricRun], alone: Mapping[int, MetricRun]) -> str:
    worlds = " and ".join(str(world) for world in sorted({run.world for run in shared}))
    run = next((run for run in shared if not run.even), shared[0])
    (expected,) = alone[run.size].ranks
    named = [n for n in expected.values if is_number(expected.values[n])]
    values = ", ".join(f"`{n}` {shown(expected.values[n])}" for n in named[:_NAMED])
    return f"{worlds} ranks get the metric of one process" + (f": {values} ({run.size} samples)" if values else "")


__all__ = ["judge_standing"]
