"""Judge what the ranks read: seven conditions, a verdict, and reasons that name ranks and indices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from shardfix.proof.model import CONDITIONS, Observation, Proof, Recipe, ShardMap, Variant, Verdict
from shardfix.wording import join, plural

from .causes import root
from .control import judge_control
from .doubts import doubt_of, wrong
from .faults import ENOUGH, Fault, Quota, Reference, broken, faults, per_rank_batch, quota, visits
from .ledger import Ledger, Setting
from .runs import Runs, place, reference_for
from .unchanged import judge_one_process, judge_preserved


def unproven(recipe: Recipe, why: str) -> Proof:
    """The proof of a recipe that could not be run."""
    conditions = dict.fromkeys(CONDITIONS, "not judged: not run")
    return Proof(recipe.site, "unproven", (why,), conditions, stand_ins=recipe.stand_ins)


def judge(recipe: Recipe, observations: Sequence[Observation]) -> Proof:
    """The verdict on one site from everything that was observed of it.

    Proven means: all seven conditions hold, or could not apply. Refuted: one is seen to fail. Unproven: none
    fails, but one that matters can't be decided.
    """
    if not observations:
        return unproven(recipe, "nothing was observed")
    runs = Runs(observations)
    ledger = Ledger()
    padded = judge_ranks(recipe, runs, ledger)
    judge_preserved(recipe, runs, ledger)
    judge_one_process(recipe, runs, ledger)
    control = judge_control(recipe, runs, ledger)
    if recipe.feeds_metric and not recipe.padding_removed and padded and not ledger.failed:
        text = f"{plural(padded, 'padded sample')} of an epoch would be counted twice in the metric"
        ledger.leave_open("disjoint", text)
    verdict = ledger.verdict()
    before, after = maps(recipe, runs, ledger)
    return Proof(
        site=recipe.site,
        verdict=verdict,
        reasons=reasons(recipe, runs, ledger, verdict, padded),
        conditions=ledger.conditions(),
        padded=padded,
        control=control,
        stand_ins=recipe.stand_ins,
        map_before=before,
        map_after=after,
        cause=root(ledger.codes),
    )


# --- conditions 1 to 4 ---


def judge_ranks(recipe: Recipe, runs: Runs, ledger: Ledger) -> int:
    """Disjoint, covered, same steps, epochs; the padding of an epoch at the ragged setting."""
    padded = 0
    ragged = ragged_setting(runs)
    if not runs.settings:
        for condition in CONDITIONS[:3]:
            ledger.not_judged[condition] = "the program runs in one process"
    for setting in runs.settings:
        run = runs.shared.get(("after", setting))
        if run is None:
            continue
        before = runs.shared.get(("before", setting))
        reference = reference_for(recipe, runs, setting)
        stop = broken(run)
        if stop is not None:
            judge_stop(recipe, runs, ledger, setting, stop, before)
            continue
        ledger.judged.update(CONDITIONS[:3])
        rule = quota(reference, run.declared, run.world, per_rank_batch(run))
        if len(run.ranks) == run.world and min(len(set(visits(rank, 0))) for rank in run.ranks) >= ENOUGH:
            ledger.judged.add("epochs")
        same_as_before = set[str]()
        if before is not None and broken(before) is None:
            same_as_before = {fault.code for fault in faults(before, reference)} & {"uneven"}
        unchanged, meant = untouched(runs, setting), False
        for fault in wrong(recipe, run, reference):
            if unchanged and fault.code != recipe.expect:
                ledger.leave_open(fault.condition, f"{place(setting)}{fault.text}; the edit does not touch that case")
            elif fault.code == "uneven" and recipe.uneven:
                ledger.tell(
                    "same steps", "some ranks make a step more, and nothing that the loop runs waits for others"
                )
            elif fault.code in same_as_before:
                ledger.leave_open(fault.condition, f"{place(setting)}{fault.text}; the original does so too")
            elif doubt := doubt_of(recipe, runs, setting, fault):
                ledger.leave_open(fault.condition, f"{place(setting)}{fault.text}; {doubt}")
                ledger.first_failing = ledger.first_failing or setting
                meant = meant or fault.condition == "disjoint"
            else:
                ledger.fail(fault.condition, place(setting) + fault.text, fault.code)
                ledger.first_failing = ledger.first_failing or setting
        repeats = repeated(run, reference) if not meant else 0
        if setting == ragged:
            padded = repeats
        tell_rule(ledger, setting, run, reference, rule, repeats)
    return padded


def untouched(runs: Runs, setting: Setting) -> bool:
    """Whether the result reads just what the original reads where the unknown booleans are so, while it differs where
    they are otherwise: a factory whose training loader is mended says nothing of its evaluation loader."""

    def differs(of: Setting) -> bool:
        before, after = runs.shared.get(("before", of)), runs.shared.get(("after", of))
        return before is not None and after is not None and before.ranks != after.ranks

    if not setting[2] or runs.shared.get(("before", setting)) is None:
        return False
    same = [of for of in runs.settings if of[2] == setting[2]]
    return not any(map(differs, same)) and any(differs(of) for of in runs.settings if of[2] != setting[2])


def judge_stop(
    recipe: Recipe, runs: Runs, ledger: Ledger, setting: Setting, stop: Fault, before: Observation | None
) -> None:
    """A result that does not run: wrong where the original ran, or where it was to stop raising; else undecided."""
    text = place(setting) + stop.text
    if setting[1] < setting[0] and "EvaluationError: " in stop.text:  # of `unpadded`, on all ranks alike
        ledger.tell("same steps", f"{plural(setting[1], 'sample')} on {setting[0]} ranks is an error that says so")
        return
    ran = before is not None and broken(before) is None
    if before is None and setting[1] < setting[0]:
        alone = runs.alone.get(("after", False, (1, *setting[1:])))
        if alone is not None and broken(alone) is not None:
            ledger.tell("same steps", f"at {plural(setting[1], 'sample')} the loader can't be built at all")
            return
    if ran or (stop.code == "hang" and before is None) or (recipe.expect == "raises" and setting[1] >= setting[0]):
        ledger.fail(stop.condition, text, stop.code)
    elif before is not None and setting[1] < setting[0]:
        ledger.tell("same steps", f"at {plural(setting[1], 'sample')} neither version runs on {setting[0]} ranks")
    else:
        ledger.leave_open(stop.condition, text + ("; the original does not run there either" if before else ""))


def repeated(run: Observation, reference: Reference) -> int:
    """Visits beyond those of one process, in the first epoch."""
    if reference.replacement:
        return 0
    counts = Counter(index for rank in run.ranks for index in visits(rank, 0))
    if not reference.exact:
        return sum(count - 1 for count in counts.values())
    whole = Counter(reference.epochs[0])
    return sum(max(0, count - whole[index]) for index, count in counts.items())


def tell_rule(
    ledger: Ledger, setting: Setting, run: Observation, reference: Reference, rule: Quota, repeats: int
) -> None:
    world, size, _ = setting
    if repeats:
        ledger.tell("disjoint", f"{repeats} padded ({plural(size, 'sample')}, {world} ranks)")
    if rule.dropped:
        left = reference.draws - len({index for rank in run.ranks for index in visits(rank, 0)})
        if left > 0:
            ledger.tell("covered", f"drop_last leaves out {left} ({plural(size, 'sample')}, {world} ranks)")
    if reference.steps and not any(rank.epochs[0] for rank in run.ranks):
        ledger.tell("same steps", f"drop_last leaves no step ({plural(size, 'sample')}, {world} ranks)")


# --- the proof in words ---


def ragged_setting(runs: Runs) -> Setting | None:
    """The setting at which padding is told: fewest ranks, the most samples."""
    return max(runs.settings, key=lambda setting: (-setting[0], setting[1]), default=None)


def maps(recipe: Recipe, runs: Runs, ledger: Ledger) -> tuple[ShardMap | None, ShardMap | None]:
    """The shard maps of the original and of the result, at one setting."""
    if not runs.settings:
        return None, None
    setting = ledger.first_failing or min(runs.settings, key=lambda s: (s[1] < s[0], s[0], s[1]))
    reference = reference_for(recipe, runs, setting)
    return shard_map(runs, "before", setting, reference), shard_map(runs, "after", setting, reference)


def shard_map(runs: Runs, variant: Variant, setting: Setting, reference: Reference) -> ShardMap | None:
    run = runs.shared.get((variant, setting))
    if run is None or not any(rank.epochs for rank in run.ranks):
        return None
    first = run.ranks[0]
    rule = quota(reference, run.declared, run.world, per_rank_batch(run))
    expected = {index for epoch in reference.epochs for index in epoch}
    if reference.draws == run.size and not reference.replacement:
        expected = set(range(run.size))
    orders = [tuple(visits(first, epoch)[:8]) for epoch in range(len(first.epochs))]
    return ShardMap(
        world=run.world,
        size=run.size,
        ranks=tuple(rank.epochs[0] if rank.epochs else () for rank in run.ranks),
        expected=tuple(sorted(expected)),
        padding=rule.padding,
        dropped=rule.dropped,
        orders=tuple(orders) if run.declared.shuffled else (),
    )


def reasons(recipe: Recipe, runs: Runs, ledger: Ledger, verdict: Verdict, padded: int) -> tuple[str, ...]:
    if verdict == "refuted":
        return tuple(dict.fromkeys(texts[0] for texts in ledger.failed.values()))
    if verdict == "unproven":
        return tuple(dict.fromkeys(texts[0] for texts in ledger.open.values()))
    if not runs.settings:
        sizes = sorted({size for _, size, _ in runs.alone_settings})
        return (f"one process reads the same as before ({join([str(size) for size in sizes])} samples)",)
    worlds = sorted({world for world, _, _ in runs.settings})
    dropped = ledger.told.get("covered", ())
    all_of_it = "no sample twice" if dropped else "every sample once"
    text = f"{join([str(world) for world in worlds])} ranks read {all_of_it} an epoch"
    if any(reference_for(recipe, runs, setting).replacement for setting in runs.settings):
        text = f"{join([str(world) for world in worlds])} ranks share the draws of an epoch"
    setting = ragged_setting(runs)
    if padded and setting is not None:
        text += f", {padded} padded at {plural(setting[1], 'sample')} on {setting[0]} ranks"
    partly: tuple[str, ...] = ()
    if len(recipe.unknown) > 4:
        partly = (f"{len(recipe.unknown)} unknown booleans were tried all equal and all but one equal, not every way",)
    return (text, *dropped[:1], *partly)
