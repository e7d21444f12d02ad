"""The original put through the same run as the result: it shows just the fault, or reads the very same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shardfix.proof.model import Recipe
from shardfix.wording import join

from .faults import broken, faults, in_epoch
from .ledger import Ledger
from .runs import Runs, leaves_padding_out, place, reference_for

COMPANIONS = {
    # what may show beside the expected fault because it has the same cause
    "sharded-twice": {"frozen-epoch"},
    "shuffled-eval": {"frozen-epoch"},
    "per-rank-seed": {"overlap", "missing", "frozen-epoch"},
    "raises": set[str](),
    "unsharded": set[str](),
    "frozen-epoch": set[str](),
}


def judge_control(recipe: Recipe, runs: Runs, ledger: Ledger) -> str:
    """The original put through the same run: shows just the fault, or reads the very same."""
    if recipe.before is None:
        ledger.not_judged["control"] = "there is no earlier version to compare with"
        return "no earlier version"
    shown: dict[str, str] = {}
    worlds: dict[str, set[int]] = {}
    settings = runs.settings or runs.alone_settings
    for setting in settings:
        before = runs.shared.get(("before", setting)) if runs.settings else runs.one_process("before", setting)
        if before is None:
            continue
        for fault in faults(before, reference_for(recipe, runs, setting)):
            small = setting[1] < setting[0]
            if small and fault.code in ("raises", "no-steps") and recipe.expect != fault.code:
                continue  # too little data for any version
            shown.setdefault(fault.code, place(setting) + fault.text)
            worlds.setdefault(fault.code, set()).add(setting[0])
    if recipe.kind == "redundant":
        return control_of_redundant(recipe, runs, ledger, shown)
    return control_of_fault(recipe, runs, ledger, shown, worlds)


def control_of_fault(
    recipe: Recipe, runs: Runs, ledger: Ledger, shown: dict[str, str], worlds: dict[str, set[int]]
) -> str:
    if not shown:
        text = "the original, put through the same run, shows no fault"
        ledger.leave_open("control", text)
        return text
    if not recipe.expect:
        ledger.judged.add("control")
        return f"the original is at fault: {next(iter(shown.values()))}"
    expected = {recipe.expect} | ({"died", "hang"} if recipe.expect == "raises" else set())
    seen = [code for code in shown if code in expected]
    meant = COMPANIONS.get(recipe.expect, set()) | ({"shuffled-eval"} if leaves_padding_out(recipe) else set())
    others = [code for code in shown if code not in expected | meant]
    all_worlds = {world for world, _, _ in runs.settings or runs.alone_settings}
    if not seen:
        first = next(iter(shown.values()))
        text = f"the original does not show {recipe.expect}, but {join(others or list(shown))}: {first}"
        ledger.leave_open("control", text)
        return text
    where = {world for code in seen for world in worlds[code]}
    if where != all_worlds:
        missing = join([f"{world} ranks" for world in sorted(all_worlds - where)])
        text = f"the original shows {recipe.expect}, but not with {missing}"
        ledger.leave_open("control", text)
        return text
    if others:
        text = f"the original shows {recipe.expect}, but also {join(others)}: {shown[others[0]]}"
        ledger.leave_open("control", text)
        return text
    ledger.judged.add("control")
    return f"the original shows {recipe.expect}: {shown[seen[0]]}"


def control_of_redundant(recipe: Recipe, runs: Runs, ledger: Ledger, shown: dict[str, str]) -> str:
    if shown:
        text = f"the original is not right itself: {next(iter(shown.values()))}"
        ledger.leave_open("control", text)
        return text
    for setting in runs.settings or runs.alone_settings:
        if runs.settings:
            before, after = runs.shared.get(("before", setting)), runs.shared.get(("after", setting))
        else:
            before, after = runs.one_process("before", setting), runs.one_process("after", setting)
        if before is None or after is None or broken(before) or broken(after):
            continue
        ledger.judged.add("control")
        ordered = not reference_for(recipe, runs, setting).shuffled
        for one, two in zip(before.ranks, after.ranks, strict=False):
            same = one.epochs == two.epochs if ordered else shape(one.epochs) == shape(two.epochs)
            if not same:
                epoch, step = first_difference(one.epochs, two.epochs, ordered)
                text = (
                    f"{place(setting)}rank {one.rank} reads something else than before at step {step}{in_epoch(epoch)}"
                )
                ledger.fail("control", text)
                return text
    if "control" not in ledger.judged:
        ledger.leave_open("control", "the original does not run")
        return "the original does not run"
    return "the original is right too, and every rank reads the same indices in each step (sizes, where shuffled)"


def shape(epochs: Iterable[Iterable[Sequence[int]]]) -> list[list[int]]:
    return [[len(batch) for batch in epoch] for epoch in epochs]


def first_difference(
    one: Sequence[Sequence[Sequence[int]]], two: Sequence[Sequence[Sequence[int]]], ordered: bool
) -> tuple[int, int]:
    for epoch, (a, b) in enumerate(zip(one, two, strict=False)):
        for step in range(max(len(a), len(b))):
            if step >= min(len(a), len(b)) or (a[step] != b[step] if ordered else len(a[step]) != len(b[step])):
                return epoch, step
    return 0, 0
