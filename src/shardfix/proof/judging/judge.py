"""Judge what the ranks read: seven conditions, a verdict, and reasons that name ranks and indices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from shardfix.proof.model import CONDITIONS, Declared, Observation, Proof, Recipe, ShardMap, Variant, Verdict

from .causes import root
from .clues import explained
from .faults import (
    ENOUGH,
    Fault,
    Quota,
    Reference,
    broken,
    faults,
    in_epoch,
    join,
    per_rank_batch,
    plural,
    quota,
    visits,
)
from .ledger import Ledger, Setting

COMPANIONS = {
    # what may show beside the expected fault because it has the same cause
    "sharded-twice": {"frozen-epoch"},
    "shuffled-eval": {"frozen-epoch"},
    "per-rank-seed": {"overlap", "missing", "frozen-epoch"},
    "raises": set[str](),
    "unsharded": set[str](),
    "frozen-epoch": set[str](),
}


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


# --- what there is to read ---


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
        elif recipe.role != "eval" and not shuffled and said.shuffled and recipe.expect != "shuffled-eval":
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


def place(setting: Setting) -> str:
    """The setting in words, to open a reason with."""
    world, size, unknown = setting
    ranks = f"{world} ranks, " if world > 1 else "one process, "
    unknowns = "".join(f", {name}={value}" for name, value in unknown)
    return f"{ranks}{plural(size, 'sample')}{unknowns}: "


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


# --- condition 5 ---


def judge_preserved(recipe: Recipe, runs: Runs, ledger: Ledger) -> None:
    """Batch size, drop_last and the number of draws are those of the original."""
    if recipe.before is None:
        ledger.not_judged["preserved"] = "there is no earlier version to compare with"
        return
    ledger.not_judged["preserved"] = "the original builds no loader"
    for setting in runs.settings:
        before, after = runs.shared.get(("before", setting)), runs.shared.get(("after", setting))
        if before is None or after is None or broken(before) or broken(after):
            continue
        compare_declared(recipe, ledger, setting, before, after)
        was, now = full_batch(before), full_batch(after)
        if was and now and was != now and not (leaves_padding_out(recipe) and now < was):
            ledger.fail("preserved", f"{place(setting)}a rank's batches hold {now} samples, the original's {was}")
    for setting in runs.alone_settings:
        before, after = runs.one_process("before", setting), runs.one_process("after", setting)
        if before is None or after is None:
            continue
        compare_declared(recipe, ledger, setting, before, after)
        one, two = before.declared, after.declared
        if None not in (one.draws, two.draws) and one.draws != two.draws:
            ledger.fail(
                "preserved", f"{place(setting)}the sampler draws {two.draws} samples, the original's {one.draws}"
            )
        if one.replacement != two.replacement:
            ledger.fail(
                "preserved", f"{place(setting)}replacement is {two.replacement}, the original's {one.replacement}"
            )


def puts_in_order(recipe: Recipe, declared: Declared) -> bool:
    """Whether the result is to read in order what the original, which says so of itself, shuffles."""
    return recipe.expect == "shuffled-eval" or (declared.shuffled is True and leaves_padding_out(recipe))


def leaves_padding_out(recipe: Recipe) -> bool:
    """Whether the result's loader is one of `unpadded`: it reads in order whatever the original did, since its metric
    goes by no order, and the last batches of a rank may share their samples evenly."""
    call = "unpadded(loader"
    return call in recipe.after.build and (recipe.before is None or call not in recipe.before.build)


def full_batch(run: Observation) -> int | None:
    """The size of a batch that another one follows, so that it is a full one."""
    return next((len(epoch[0]) for rank in run.ranks for epoch in rank.epochs if len(epoch) > 1), None)


def compare_declared(recipe: Recipe, ledger: Ledger, setting: Setting, before: Observation, after: Observation) -> None:
    ledger.judged.add("preserved")
    one, two = before.declared, after.declared
    if one.batch_size != two.batch_size:
        ledger.fail("preserved", f"{place(setting)}batch_size is {two.batch_size}, the original's {one.batch_size}")
    if one.drop_last != two.drop_last:
        ledger.fail("preserved", f"{place(setting)}drop_last is {two.drop_last}, the original's {one.drop_last}")
    if None in (one.shuffled, two.shuffled) or one.shuffled == two.shuffled or recipe.expect == "shuffled-eval":
        return
    if two.shuffled:
        ledger.fail("preserved", f"{place(setting)}the result shuffles, the original reads in order")
    elif recipe.role != "eval":  # an evaluation that no longer shuffles is meant
        ledger.fail("preserved", f"{place(setting)}the result reads in order, the original shuffles")


# --- condition 6 ---


def judge_one_process(recipe: Recipe, runs: Runs, ledger: Ledger) -> None:
    """Where the original runs in one process so does the result, and visits the same."""
    if recipe.several and recipe.kind == "stands":
        ledger.not_judged["one process"] = "it is built in several processes only"
        return
    for setting in runs.alone_settings:
        plain = {v: runs.alone.get((v, False, setting)) for v in ("before", "after")}
        before, after = runs.one_process("before", setting), runs.one_process("after", setting)
        grouped = runs.alone.get(("after", True, setting))
        failed = grouped if recipe.group == "always" and grouped is not None else plain["after"]
        stop = broken(failed) if failed is not None else None
        ran_plainly = plain["before"] is not None and broken(plain["before"]) is None
        if stop is not None and ran_plainly and (recipe.group == "optional" or after is None):
            ledger.fail("one process", f"{place(setting)}{stop.text}, where the original runs", stop.code)
            continue
        if after is None:
            if before is not None:
                ledger.fail(
                    "one process", f"{place(setting)}the result does not run where the original runs in a group of one"
                )
            elif stop is not None and not any(
                setting[1] < world for world, size, _ in runs.settings if size == setting[1]
            ):
                ledger.leave_open("one process", f"{place(setting)}{stop.text}, also in a group of one")
            continue
        ledger.judged.add("one process")
        if after.grouped:
            ledger.tell("one process", "in a group of one")
            before = runs.alone.get(("before", True, setting)) if recipe.before is not None else None
            if before is not None and broken(before) is not None:
                before = runs.one_process("before", setting)
        reference = reference_for(recipe, runs, setting)
        condition_of = (lambda fault: fault.condition) if not runs.settings else (lambda fault: "one process")
        for fault in wrong(recipe, after, reference):
            if fault.code == "shuffled-eval" and leaves_padding_out(recipe):
                continue  # one process shuffles as it did
            doubt = doubt_of(recipe, runs, setting, fault)
            if doubt:
                ledger.leave_open(condition_of(fault), f"{place(setting)}{fault.text}; {doubt}")
            else:
                ledger.fail(condition_of(fault), place(setting) + fault.text, fault.code)
        if not runs.settings and len(set(visits(after.ranks[0], 0))) >= ENOUGH:
            ledger.judged.add("epochs")
        if before is not None:
            compare_alone(recipe, ledger, setting, before, after, reference)
    if not runs.alone_settings:
        ledger.leave_open("one process", "it was not run in one process")


def compare_alone(
    recipe: Recipe, ledger: Ledger, setting: Setting, before: Observation, after: Observation, reference: Reference
) -> None:
    for epoch, (one, two) in enumerate(zip(before.ranks[0].epochs, after.ranks[0].epochs, strict=False)):
        if len(one) != len(two):
            text = f"{place(setting)}{plural(len(two), 'step')}, the original makes {len(one)}{in_epoch(epoch)}"
            ledger.fail("one process", text)
            return
        ordered = not reference.shuffled and not puts_in_order(recipe, before.declared)
        if ordered and one != two:
            step = next(step for step, pair in enumerate(zip(one, two, strict=False)) if pair[0] != pair[1])
            text = f"step {step} reads {list(two[step])}, the original {list(one[step])}{in_epoch(epoch)}"
            ledger.fail("one process", place(setting) + text)
            return


# --- condition 7 ---


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
