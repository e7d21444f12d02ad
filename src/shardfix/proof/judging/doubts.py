"""Which faults of a run are held against a program, and why others are not."""

from __future__ import annotations

from collections.abc import Sequence

from shardfix.proof.model import Observation, Recipe
from shardfix.wording import join

from .clues import explained
from .faults import Fault, Reference, broken, faults, visits
from .ledger import Setting
from .runs import Runs, reference_for


def wrong(recipe: Recipe, run: Observation, reference: Reference) -> list[Fault]:
    """The faults of a run that count: a program that reads its loader once has no later epochs."""
    found = [f for f in faults(run, reference) if not (recipe.single_pass and f.code == "frozen-epoch")]
    return explained(found, run)


def doubt_of(recipe: Recipe, runs: Runs, setting: Setting, fault: Fault) -> str:
    """Why a fault is not held against a program; empty where it is."""
    for code, why in recipe.doubts:
        if code in ("", fault.code):
            return why
    run = runs.shared.get(("after", setting))
    if fault.code in ("missing", "no-steps") and run is not None and recipe.kind == "stands" and by_hand(run):
        read = {index for rank in run.ranks for index in visits(rank, 0)}
        if reference_for(recipe, runs, setting).draws - len(read) < setting[0]:
            return "a rule of its own leaves out fewer than there are ranks, as drop_last does"
    if fault.code != "frozen-epoch" or not recipe.guards:
        return ""
    others = [
        (of, run) for (_, of), run in runs.shared.items() if differ_in(of, setting, recipe.guards) and not broken(run)
    ]
    if setting[0] == 1:
        alone = [of for of in runs.alone_settings if differ_in(of, setting, recipe.guards)]
        others = [(of, run) for of in alone if (run := runs.one_process("after", of)) is not None]
    told = [of for of, run in others if all(f.code != fault.code for f in faults(run, reference_for(recipe, runs, of)))]
    if not told:
        return ""  # frozen whatever they are
    names = [name for name, value in setting[2] if name in recipe.guards and dict(told[0][2])[name] != value]
    return f"whether it is told the epoch depends on {join([f'`{name}`' for name in names])}"


def by_hand(run: Observation) -> bool:
    """Whether the ranks have parts of their own making: as many samples each, and none on two of them."""
    reads = [visits(rank, 0) for rank in run.ranks]
    return len({len(read) for read in reads}) == 1 and len({i for read in reads for i in read}) == sum(map(len, reads))


def differ_in(one: Setting, two: Setting, names: Sequence[str]) -> bool:
    """Whether two settings differ in some of these unknown booleans, and in nothing else."""
    values = dict(two[2])
    different = {name for name, value in one[2] if values[name] != value}
    return one[:2] == two[:2] and bool(different) and different <= set(names)
