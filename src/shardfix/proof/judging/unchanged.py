"""What a change must leave as it was: batches, draws, and all that one process reads."""

from __future__ import annotations

from shardfix.proof.model import Observation, Recipe
from shardfix.wording import plural

from .doubts import doubt_of, wrong
from .faults import ENOUGH, Reference, broken, in_epoch, visits
from .ledger import Ledger, Setting
from .runs import Runs, leaves_padding_out, place, puts_in_order, reference_for


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
            if fault.code == "shuffled-eval" and shuffles_as_it_did(recipe, runs, before, after):
                continue
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


def shuffles_as_it_did(recipe: Recipe, runs: Runs, before: Observation | None, after: Observation) -> bool:
    """Whether one process reads an evaluation at random as it did before, and only the ranks' order is changed."""
    if leaves_padding_out(recipe):
        return True
    both = before is not None and before.declared.shuffled is True and after.declared.shuffled is True
    return recipe.expect == "shuffled-eval" and both and bool(runs.settings)


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
