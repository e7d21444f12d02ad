"""What was observed of one recipe, by setting, and what there is to read at each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from shardfix.proof.model import Declared, Observation, Recipe, Variant
from shardfix.wording import plural

from .faults import Reference, broken, visits
from .ledger import Setting


class Runs:
    """The observations of one recipe, found by variant and setting."""

    def __init__(self, observations: Sequence[Observation]) -> None:
        self.shared: dict[tuple[Variant, Setting], Observation] = {}
        self.alone: dict[tuple[Variant, bool, Setting], Observation] = {}
        for run in observations:
            setting = (run.world, run.size, run.unknown)
            if run.world == 1:
                self.alone[run.variant, run.grouped, setting] = run
            else:
                self.shared[run.variant, setting] = run
        found = dict.fromkeys(setting for _, setting in self.shared)
        self.settings = sorted(found, key=lambda setting: setting[1] < setting[0])  # telling sizes first
        self.references: dict[Setting, Reference] = {}  # made once for all that ask
        self.alone_settings = list(dict.fromkeys(setting for _, _, setting in self.alone))

    def one_process(self, variant: Variant, setting: Setting) -> Observation | None:
        """A run in one process that came to its end: without a group if there is one, else in a group of one."""
        for grouped in (False, True):
            run = self.alone.get((variant, grouped, (1, *setting[1:])))
            if run is not None and broken(run) is None:
                return run
        return None


def reference_for(recipe: Recipe, runs: Runs, setting: Setting) -> Reference:
    """What is to be read at a setting: what the original visits in one process, else what the result does."""
    if setting not in runs.references:
        runs.references[setting] = _reference(recipe, runs, setting)
    return runs.references[setting]


def _reference(recipe: Recipe, runs: Runs, setting: Setting) -> Reference:
    before = runs.one_process("before", setting)
    after = runs.one_process("after", setting)
    alone = before or after
    if alone is None:
        everything = tuple(range(setting[1]))
        said = next((run.declared for (_, of), run in runs.shared.items() if of == setting), None)
        shuffled = bool(said and said.shuffled) and recipe.expect != "shuffled-eval"
        return Reference((everything,), 1, len(everything), shuffled, everything, exact=True)
    epochs = tuple(tuple(visits(alone.ranks[0], epoch)) for epoch in range(len(alone.ranks[0].epochs)))
    policy = alone.declared
    drop_last = policy.drop_last
    draws = policy.draws if policy.draws is not None else len(epochs[0])
    if not drop_last and not policy.sampler_drop_last and draws < len(epochs[0]):
        draws = len(epochs[0])
    same_samples = len({tuple(sorted(epoch)) for epoch in epochs}) <= 1
    reorders = puts_in_order(recipe, policy)
    if reorders:
        shuffled = False
    elif policy.shuffled is not None:
        shuffled = policy.shuffled
    else:
        shuffled = any(epoch != epochs[0] for epoch in epochs)
    ordered = after if reorders and after is not None else alone
    order = tuple(visits(ordered.ranks[0], 0)) if not shuffled else ()
    if reorders and ordered.declared.shuffled:
        order = tuple(sorted(epochs[0]))
    if drop_last and not shuffled and len(order) < draws and order == tuple(range(len(order))):
        order = tuple(range(draws))  # one process leaves out another tail than the ranks do
    sampler_drop_last, exact = policy.sampler_drop_last, same_samples and not drop_last
    said = next((run.declared for (_, of), run in runs.shared.items() if of == setting), None)
    if recipe.kind == "stands" and said is not None:  # what is given to ranks only is no fault by itself
        exact = exact and (sampler_drop_last or not said.sampler_drop_last)
        sampler_drop_last = sampler_drop_last or said.sampler_drop_last
        if recipe.role != "train" and shuffled and (said.shuffled is False or reads_in_order(runs, setting)):
            shuffled, order = False, tuple(sorted(epochs[0]))
    is_its_own = recipe.kind == "stands" or recipe.expect == "frozen-epoch"  # whether it shuffles is not the edit's
    if is_its_own and said is not None and recipe.role != "eval" and recipe.expect != "shuffled-eval":
        if not shuffled and said.shuffled:
            shuffled, order = True, ()  # a training that shuffles in several processes only
    return Reference(
        epochs=epochs,
        steps=len(alone.ranks[0].epochs[0]),
        draws=draws,
        shuffled=shuffled,
        order=order,
        exact=exact,
        replacement=policy.replacement,
        drop_last=drop_last,
        sampler_drop_last=sampler_drop_last,
        distinct=draws if drop_last and not policy.replacement and (same_samples or draws == setting[1]) else None,
    )


def reads_in_order(runs: Runs, setting: Setting) -> bool:
    """Whether a sampler that does not say whether it shuffles gives each rank its samples in ascending order."""
    run = next((run for (_, of), run in runs.shared.items() if of == setting), None)
    if run is None or run.declared.shuffled is not None or broken(run) is not None:
        return False
    reads = [visits(rank, epoch) for rank in run.ranks for epoch in range(len(rank.epochs))]
    return all(sum(two < one for one, two in pairwise(read)) <= 1 for read in reads)  # padding goes back once


def puts_in_order(recipe: Recipe, declared: Declared) -> bool:
    """Whether the result is to read in order what the original, which says so of itself, shuffles."""
    return recipe.expect == "shuffled-eval" or (declared.shuffled is True and leaves_padding_out(recipe))


def leaves_padding_out(recipe: Recipe) -> bool:
    """Whether the result's loader is one of `unpadded`: it reads in order whatever the original did, since its metric
    goes by no order, and the last batches of a rank may share their samples evenly."""
    call = "unpadded(loader"
    return call in recipe.after.build and (recipe.before is None or call not in recipe.before.build)


def place(setting: Setting) -> str:
    """The setting in words, to open a reason with."""
    world, size, unknown = setting
    ranks = f"{world} ranks, " if world > 1 else "one process, "
    unknowns = "".join(f", {name}={value}" for name, value in unknown)
    return f"{ranks}{plural(size, 'sample')}{unknowns}: "
