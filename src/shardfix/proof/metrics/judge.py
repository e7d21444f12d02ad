"""Who judges a metric: what several ranks worked out against what one process does; pure, nothing is run here."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from shardfix.proof.metrics.comparing import is_number, same, shown
from shardfix.proof.metrics.model import Measured, MetricProof, MetricRecipe, MetricRun
from shardfix.proof.metrics.same_batches import drift, is_again, not_again
from shardfix.proof.model import Verdict

_NAMED = 3  # values named in one reason


def sizes_for(batch_size: int, largest: int = 1 << 13) -> tuple[int, ...]:
    """Dataset sizes that tell: full batches on 2 and on 3 ranks, one and two samples more, and one less."""
    full = 6 * batch_size if 6 * batch_size <= largest else 6
    return (full, full + 1, full - 1, full + 2)


def judge_metric(recipe: MetricRecipe, runs: Sequence[MetricRun]) -> MetricProof:
    """The verdict on a metric.

    Proven is: each rank of every group has the values that the original has in one process (whole numbers, lists and
    texts exactly, others but for rounding), each sample is read by exactly one rank, the result gives the same in one
    process, and the original, put through the same run, does the work of all ranks on each or has a part only. Values
    that go by the batches may be those that the original makes in one process of the batches that all ranks read.
    """
    alone = {run.size: run for run in runs if run.variant == "before" and run.world == 1}
    after = [run for run in runs if run.variant == "after"]
    if not alone or not after:
        return proof_of(recipe, "unproven", "nothing was run")
    failures = [(size, failed) for size, run in alone.items() if (failed := failure_of(run))]
    if recipe.rows and len(failures) < len(alone):
        # the program itself can't do with such a batch (of one sample): nothing is lost on several ranks either
        alone = {size: run for size, run in alone.items() if size not in dict(failures)}
        after = [run for run in after if run.size in alone]
        failures = []
    if failures and not recipe.rows and recipe.assumed and recipe.assumed[0].startswith("the loop "):
        return proof_of(
            recipe, "unproven", recipe.assumed[0]
        )  # why sums are stood in for says more than that they fail
    if failures:
        return proof_of(recipe, "unproven", f"the evaluation can't be run apart from its program: {failures[0][1]}")
    untouched = _untouched(recipe, runs, alone)
    wrong = list(dict.fromkeys(reason for run in after for reason in _wrong(recipe, run, alone[run.size], untouched)))
    control, shown = _control(
        recipe, [r for r in runs if r.variant == "before" and r.world > 1 and r.size in alone], alone, untouched
    )
    if wrong:
        return proof_of(recipe, "refuted", *wrong[:_NAMED], control=control)
    if not any(run.world > 1 for run in after):
        return proof_of(recipe, "unproven", "it was not run on several ranks", control=control)
    if untouched and not shown:
        return proof_of(recipe, "unproven", *list(untouched.values())[:_NAMED], control=control)
    if not shown:
        return proof_of(recipe, "unproven", f"the original shows no fault in the same run: {control}", control=control)
    if recipe.assumed:
        return proof_of(recipe, "unproven", *map(resting, recipe.assumed[:_NAMED]), control=control)
    unlike = not_again(recipe, after, alone)
    if unlike:
        return proof_of(recipe, "unproven", *unlike[:_NAMED], control=control)
    left = [f"not mended by this change: {words}" for words in list(untouched.values())[:_NAMED]]
    told = (_told(recipe, after, alone, untouched), *left, *drift(recipe, after, alone), *recipe.told)
    return proof_of(recipe, "proven", control=control, told=told)


def proof_of(
    recipe: MetricRecipe, verdict: Verdict, *reasons: str, control: str = "", told: tuple[str, ...] = ()
) -> MetricProof:
    """A verdict with what a recipe tells."""
    return MetricProof(recipe.site, verdict, reasons, control, told, recipe.stand_ins)


def resting(words: str) -> str:
    """What keeps a metric unproven, as a reason: what it holds by, or that its loop is not run as it is written."""
    return words if words.startswith("the loop ") else f"it holds only if {words}"


def failure_of(run: MetricRun) -> str:
    """Why some rank of a run did not come to its end; empty if all did."""
    for rank in run.ranks:
        if rank.error or rank.stopped:
            return in_its_names(rank.error) or f"it stops {rank.stopped}"
    return ""


def in_its_names(error: str) -> str:
    """An error without the names that the proof makes of the program's own."""
    unbound = re.fullmatch(r"(?:NameError|UnboundLocalError): .*?'v_(\w+)'.*", error)
    return f"`{unbound[1]}` has no value where it is read" if unbound else error


def _untouched(recipe: MetricRecipe, runs: Sequence[MetricRun], alone: Mapping[int, MetricRun]) -> dict[str, str]:
    """What a change that mends some values leaves as wrong as it was, by name, with the values."""
    found: dict[str, str] = {}
    after = {(run.world, run.size): run for run in runs if run.variant == "after"}
    for run in runs if recipe.partial else ():
        now = after.get((run.world, run.size))
        if run.variant == "after" or run.world == 1 or run.size not in alone or now is None:
            continue
        ((expected,), was, found_now) = alone[run.size].ranks, run.ranks[0].values, now.ranks[0].values
        for name, value in expected.values.items():
            wrong = name in was and name in found_now and same(was[name], found_now[name])
            if wrong and not same(was[name], value):
                found[name] = (
                    f"`{name}` is {shown(was[name])} on {run.world} ranks, in one process {shown(value)}"
                    f" ({run.size} samples), with the change and without it"
                )
    return found


def _wrong(recipe: MetricRecipe, run: MetricRun, alone: MetricRun, untouched: Mapping[str, str]) -> list[str]:
    """What of a run of the result differs from the original in one process."""
    for rank in run.ranks:
        if rank.error:
            return [f"{_on(run, rank)} raises {in_its_names(rank.error)} ({run.size} samples)"]
    stopped = next((rank for rank in run.ranks if rank.stopped), None)
    if stopped is not None:
        return [f"{_on(run, stopped)} waits for ever {stopped.stopped} ({run.size} samples)"]
    found = []
    (expected,) = alone.ranks
    for rank in run.ranks:
        # means over batches are the same for the same batches, and where all are full
        all_judged = run.even or rank.read == expected.read
        again = run.again.values if run.again is not None else {}
        judged = [n for n in expected.values if all_judged or n not in recipe.weighted or is_number(again.get(n))]
        judged = [n for n in judged if not rank.rank or n not in recipe.on_first]
        bad = [n for n in judged if n not in rank.values or not same(rank.values[n], expected.values[n])]
        bad = [n for n in bad if n not in untouched and not is_again(recipe, run, rank, n)]
        if bad:
            values = ", ".join(
                f"`{n}` is {shown(rank.values.get(n))}, in one process {shown(expected.values[n])}"
                for n in bad[:_NAMED]
            )
            found.append(f"{_on(run, rank)}: {values} ({run.size} samples)")
            break
    visits = sorted(index for rank in run.ranks for batch in rank.read for index in batch)
    every = sorted(index for batch in expected.read for index in batch)
    if visits != every:
        twice = sum(visits.count(index) - 1 for index in set(visits))
        missed = len(set(every) - set(visits))
        which = f"{missed} samples not at all" if missed else f"{twice} samples twice"
        if missed or not recipe.accelerate:  # what prepare() repeats is dropped where it is gathered
            found.append(f"{run.world} ranks read {which} ({run.size} samples)")
    steps = {len(rank.read) for rank in run.ranks}
    if len(steps) > 1 and "uneven=True" not in recipe.after.build:
        found.append(f"{run.world} ranks do {min(steps)} and {max(steps)} steps ({run.size} samples)")
    return found


def _control(
    recipe: MetricRecipe, runs: Sequence[MetricRun], alone: Mapping[int, MetricRun], untouched: Collection[str]
) -> tuple[str, bool]:
    """What the original does on several ranks, and whether that is a fault that the change mends: of the values that
    it leaves as they were, none is."""
    for run in runs:
        failed = failure_of(run)
        if failed:
            return f"the original on {run.world} ranks fails: {failed}", True
        (expected,) = alone[run.size].ranks
        for rank in run.ranks:
            judged = [n for n in expected.values if n not in untouched and not (rank.rank and n in recipe.on_first)]
            other = [n for n in judged if not same(rank.values.get(n), expected.values[n])]
            if other:
                n = other[0]
                value, whole = shown(rank.values.get(n)), shown(expected.values[n])
                return (
                    f"the original: `{n}` is {value} on rank {rank.rank} of {run.world}, in one process {whole}",
                    True,
                )
        visits = sum(len(batch) for rank in run.ranks for batch in rank.read)
        if visits > run.size and not untouched:
            return f"the original reads {visits} samples on {run.world} ranks where there are {run.size}", True
    return "the original gives the same values", False


def _told(
    recipe: MetricRecipe, after: Sequence[MetricRun], alone: Mapping[int, MetricRun], untouched: Collection[str]
) -> str:
    worlds = " and ".join(str(world) for world in sorted({run.world for run in after if run.world > 1}))
    run = next(run for run in after if run.world > 1 and not run.even)
    (expected,) = alone[run.size].ranks
    exact = [n for n in expected.values if n not in recipe.weighted and n not in untouched]
    plain = [n for n in exact if is_number(expected.values[n])]
    plain = plain or [n for n in exact if not isinstance(expected.values[n], dict)]
    values = ", ".join(f"`{n}` {shown(expected.values[n])}" for n in plain[:_NAMED])
    metric = f" and get the metric of one process: {values} ({run.size} samples)" if values else ""
    if recipe.accelerate:
        return f"{worlds} ranks get the metric of one process" + (f": {values} ({run.size} samples)" if values else "")
    return f"{worlds} ranks evaluate every sample once{metric}"


def _on(run: MetricRun, rank: Measured) -> str:
    return f"rank {rank.rank} of {run.world}" if run.world > 1 else "one process"
