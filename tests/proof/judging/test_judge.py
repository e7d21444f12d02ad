"""The judge goes red for each fault and stays green for right loaders; pure data, no processes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

import pytest

from shardfix.proof.judging.judge import judge, unproven
from shardfix.proof.model import (
    CONDITIONS,
    Declared,
    Kind,
    Observation,
    Program,
    RankRun,
    Recipe,
    Variant,
    observation_from_json,
    proof_to_json,
)

Share = Callable[[int, int, int, int], Sequence[int]]  # rank, ranks, samples, epoch -> indices in order

ORDERED = Declared(batch_size=4, sampler="SequentialSampler", shuffled=False)
SHUFFLED = Declared(batch_size=4, sampler="RandomSampler", shuffled=True)
SIZES = ((2, 24), (2, 25), (2, 1), (3, 24), (3, 25), (3, 2))


def dealt(order: list[int], rank: int, world: int) -> list[int]:
    """DistributedSampler's rule: repeat from the front up to a multiple of the ranks, deal out in turn."""
    while len(order) % world:
        order = order + order[: world - len(order) % world]
    return order[rank::world]


def permuted(size: int, seed: int) -> list[int]:
    return random.Random(seed).sample(range(size), size)


def everything(rank: int, world: int, size: int, epoch: int) -> Sequence[int]:
    return range(size)


def everything_shuffled(rank: int, world: int, size: int, epoch: int) -> Sequence[int]:
    return permuted(size, 100 * rank + epoch)


def share(rank: int, world: int, size: int, epoch: int) -> Sequence[int]:
    return dealt(list(range(size)), rank, world)


def share_shuffled(rank: int, world: int, size: int, epoch: int) -> Sequence[int]:
    return dealt(permuted(size, epoch), rank, world)


def share_frozen(rank: int, world: int, size: int, epoch: int) -> Sequence[int]:
    return dealt(permuted(size, 0), rank, world)


def share_by_own_seed(rank: int, world: int, size: int, epoch: int) -> Sequence[int]:
    return dealt(permuted(size, 100 * rank + epoch), rank, world)


def share_of_share(rank: int, world: int, size: int, epoch: int) -> Sequence[int]:
    return dealt(dealt(list(range(size)), rank, world), rank, world)


def share_unpadded(rank: int, world: int, size: int, epoch: int) -> Sequence[int]:
    return range(rank, size, world)


def share_without_last(rank: int, world: int, size: int, epoch: int) -> Sequence[int]:
    return range(rank, size - size % world, world)


def accelerated(rank: int, world: int, size: int, epoch: int) -> Sequence[int]:
    """accelerate's rule: batches in turn, filled up from the front to full batches on every rank."""
    if world == 1:
        return range(size)
    rounds = -(-size // (world * 4))
    filled = [index % size for index in range(rounds * world * 4)]
    return [index for turn in range(rounds) for index in filled[(turn * world + rank) * 4 :][:4]]


def observed(
    variant: Variant, reads: Share, declared: Declared, *, batch: int = 4, keep_tail: bool = True, **unknown: bool
) -> list[Observation]:
    """What the worker would see of a loader that reads ``reads``, at all sizes and in one process."""
    sizes = (*SIZES, *((1, size) for size in (24, 25, 1, 2)))
    return [
        Observation(
            variant=variant,
            world=world,
            grouped=world > 1,
            size=size,
            unknown=tuple(unknown.items()),
            ranks=tuple(
                RankRun(rank, tuple(batches(reads(rank, world, size, epoch), batch, keep_tail) for epoch in range(3)))
                for rank in range(world)
            ),
            declared=replace(declared, batch_size=batch, draws=size),
        )
        for world, size in sizes
    ]


def batches(indices: Sequence[int], size: int, keep_tail: bool) -> tuple[tuple[int, ...], ...]:
    cut = [tuple(indices[start : start + size]) for start in range(0, len(indices), size)]
    return tuple(batch for batch in cut if keep_tail or len(batch) == size)


def recipe(kind: Kind = "fault", expect: str = "unsharded", **more: Any) -> Recipe:
    before = None if kind == "stands" else Program("loader = ...")
    defaults: dict[str, Any] = {"site": "train.py:7:14", "owner": "ddp", "role": "train"}
    return Recipe(kind=kind, before=before, after=Program("loader = ..."), expect=expect, **{**defaults, **more})


BEFORE = observed("before", everything, ORDERED)
BEFORE_SHUFFLED = observed("before", everything_shuffled, SHUFFLED)


def test_an_ordered_share_of_an_unsharded_loader_is_proven_and_its_padding_told() -> None:
    proof = judge(recipe(), [*BEFORE, *observed("after", share, ORDERED)])
    assert proof.verdict == "proven"
    assert proof.padded == 1
    assert proof.reasons == ("2 and 3 ranks read every sample once an epoch, 1 padded at 25 samples on 2 ranks",)
    assert proof.control == "the original shows unsharded: 2 ranks, 24 samples: every rank reads all 24 samples"
    assert dict(proof.conditions) == {
        "disjoint": "held: 1 padded (25 samples, 2 ranks); 2 padded (25 samples, 3 ranks); "
        "1 padded (1 sample, 2 ranks); 1 padded (2 samples, 3 ranks)",
        "covered": "held",
        "same steps": "held",
        "epochs": "held",
        "preserved": "held",
        "one process": "held",
        "control": "held",
    }


def test_a_shuffled_share_that_differs_by_epoch_is_proven() -> None:
    proof = judge(recipe(), [*BEFORE_SHUFFLED, *observed("after", share_shuffled, SHUFFLED)])
    assert (proof.verdict, proof.padded) == ("proven", 1)


def test_accelerates_larger_padding_is_accounted_for() -> None:
    prepared = Declared(shuffled=False, prepared=True)
    proof = judge(recipe("stands", "", owner="accelerate"), observed("after", accelerated, prepared))
    assert (proof.verdict, proof.padded) == ("proven", 7)
    assert proof.conditions["control"] == "not judged: there is no earlier version to compare with"


WRONG = [
    pytest.param(
        BEFORE, observed("after", everything, ORDERED), "disjoint",
        "2 ranks, 24 samples: every rank reads all 24 samples", id="unsharded"
    ),
    pytest.param(
        BEFORE, observed("after", share_of_share, ORDERED), "covered",
        "2 ranks, 24 samples: sharded twice: 12 of 24 samples are never read; rank 0 reads [0, 4, 8, 12, 16, 20]",
        id="sharded twice",
    ),
    pytest.param(
        BEFORE_SHUFFLED, observed("after", share_frozen, SHUFFLED), "epochs",
        "2 ranks, 24 samples: epoch 1 repeats epoch 0's order: rank 0 reads [",
        id="frozen epoch",
    ),
    pytest.param(
        BEFORE_SHUFFLED, observed("after", share_by_own_seed, SHUFFLED), "disjoint",
        "2 ranks, 24 samples: ranks overlap, their seeds or epochs differ: sample 0 is read by ", id="seed by rank"
    ),
    pytest.param(
        BEFORE, observed("after", share, Declared(drop_last=True), keep_tail=False), "covered",
        "2 ranks, 25 samples: sample 24 is never read", id="tail dropped by the loader"
    ),
    pytest.param(
        BEFORE, observed("after", share_without_last, Declared(sampler_drop_last=True)), "covered",
        "2 ranks, 25 samples: sample 24 is never read", id="tail dropped by the sampler"
    ),
    pytest.param(
        BEFORE, observed("after", share_unpadded, ORDERED), "same steps",
        "2 ranks, 25 samples: rank 1 makes 3 steps, rank 0 makes 4: the job would hang", id="uneven steps"
    ),
    pytest.param(
        BEFORE, observed("after", share, ORDERED, batch=2), "preserved",
        "2 ranks, 24 samples: batch_size is 2, the original's 4", id="batch size changed"
    ),
    pytest.param(
        BEFORE, observed("after", share_shuffled, SHUFFLED), "epochs",
        "2 ranks, 24 samples: rank 0 reads [", id="shuffled where it was ordered"
    ),
    pytest.param(
        BEFORE_SHUFFLED, observed("after", share, ORDERED), "epochs",
        "2 ranks, 24 samples: rank 0 reads in ascending order; the original shuffles", id="no longer shuffled"
    ),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "condition", "reason"), WRONG)
def test_each_fault_is_refuted_by_the_condition_it_breaks(
    before: list[Observation], after: list[Observation], condition: str, reason: str
) -> None:
    proof = judge(recipe(), [*before, *after])
    assert proof.verdict == "refuted"
    assert proof.conditions[condition].startswith(f"failed: {reason}")
    assert any(text.startswith(reason) for text in proof.reasons)


@pytest.mark.parametrize(
    ("expect", "before"),
    [
        ("unsharded", BEFORE_SHUFFLED),
        ("sharded-twice", observed("before", share_of_share, SHUFFLED)),
        ("frozen-epoch", observed("before", share_frozen, SHUFFLED)),
        ("per-rank-seed", observed("before", share_by_own_seed, SHUFFLED)),
    ],
)
def test_the_control_knows_each_fault_and_only_that(expect: str, before: list[Observation]) -> None:
    after = observed("after", share_shuffled, SHUFFLED)
    proof = judge(recipe(expect=expect), [*before, *after])
    assert proof.verdict == "proven"
    assert proof.control.startswith(f"the original shows {expect}: 2 ranks, ")
    for other in {"unsharded", "sharded-twice", "frozen-epoch", "per-rank-seed"} - {expect}:
        proof = judge(recipe(expect=other), [*before, *after])
        assert proof.verdict == "unproven"
        assert proof.reasons[0].startswith(f"the original does not show {other}, but ")


def test_an_eval_that_shuffled_is_proven_once_it_reads_in_order() -> None:
    before = observed("before", share_frozen, SHUFFLED)
    proof = judge(recipe(expect="shuffled-eval", role="eval"), [*before, *observed("after", share, ORDERED)])
    assert (proof.verdict, proof.conditions["epochs"]) == ("proven", "held")
    proof = judge(recipe(expect="shuffled-eval", role="eval"), [*before, *observed("after", share_shuffled, SHUFFLED)])
    assert (proof.verdict, proof.conditions["epochs"][:6]) == ("refuted", "failed")


def test_an_eval_that_one_process_shuffles_as_before_is_proven_by_what_the_ranks_read() -> None:
    """``RandomSampler(d) if local_rank == -1 else DistributedSampler(d)``: the edit is in the ranks' arm."""
    alone = [run for run in observed("after", everything_shuffled, SHUFFLED) if run.world == 1]
    ranks = [run for run in observed("after", share, ORDERED) if run.world > 1]
    before = [
        *(replace(run, variant="before") for run in alone),
        *(run for run in observed("before", share_frozen, SHUFFLED) if run.world > 1),
    ]
    asked = recipe(expect="shuffled-eval", role="eval")
    assert judge(asked, [*before, *ranks, *alone]).verdict == "proven"

    in_order = observed("before", everything, ORDERED)  # one process did not shuffle
    before = [*(run for run in in_order if run.world == 1), *(run for run in before if run.world > 1)]
    proof = judge(asked, [*before, *ranks, *alone])
    assert (proof.verdict, proof.cause) == ("refuted", "shuffled-eval")


def test_a_fault_that_the_original_does_not_show_is_not_proven() -> None:
    proof = judge(recipe(), [*observed("before", share, ORDERED), *observed("after", share, ORDERED)])
    assert proof.verdict == "unproven"
    assert proof.reasons == ("the original, put through the same run, shows no fault",)


def test_a_fault_that_shows_with_some_ranks_only_or_beside_another_is_not_proven() -> None:
    after = observed("after", share_shuffled, SHUFFLED)

    def only_with_three(rank: int, world: int, size: int, epoch: int) -> Sequence[int]:
        return everything_shuffled(rank, world, size, epoch) if world == 3 else share_shuffled(rank, world, size, epoch)

    proof = judge(recipe(), [*observed("before", only_with_three, SHUFFLED), *after])
    assert proof.reasons == ("the original shows unsharded, but not with 2 ranks",)

    def frozen_and_short(rank: int, world: int, size: int, epoch: int) -> Sequence[int]:
        read = share_frozen(rank, world, size, epoch)
        return read[:-1] if world > 1 and size > 2 else read

    proof = judge(recipe(expect="frozen-epoch"), [*observed("before", frozen_and_short, SHUFFLED), *after])
    assert proof.verdict == "unproven"
    assert proof.reasons[0].startswith(
        "the original shows frozen-epoch, but also missing: 2 ranks, 24 samples: samples "
    )


def test_a_redundant_sampler_must_leave_every_rank_with_the_same_indices() -> None:
    prepared = Declared(shuffled=False, prepared=True)
    before = observed("before", accelerated, prepared)
    same = judge(recipe("redundant", "", owner="accelerate"), [*before, *observed("after", accelerated, prepared)])
    assert same.verdict == "proven"

    def swapped(rank: int, world: int, size: int, epoch: int) -> Sequence[int]:
        return accelerated(world - 1 - rank, world, size, epoch)

    other = judge(recipe("redundant", "", owner="accelerate"), [*before, *observed("after", swapped, prepared)])
    assert other.verdict == "refuted"
    assert other.reasons == ("2 ranks, 24 samples: rank 0 reads something else than before at step 0",)


def test_a_redundant_sampler_whose_original_is_wrong_itself_is_not_proven() -> None:
    both = [*BEFORE, *observed("after", share, ORDERED)]
    proof = judge(recipe("redundant", ""), both)
    assert proof.conditions["control"].startswith("not judged: the original is not right itself: 2 ranks, 24 samples")
    assert proof.verdict == "unproven"


def test_padding_that_reaches_a_metric_leaves_it_unproven_unless_it_is_removed() -> None:
    both = [*BEFORE, *observed("after", share, ORDERED)]
    proof = judge(recipe(feeds_metric=True), both)
    assert proof.verdict == "unproven"
    assert proof.reasons == ("1 padded sample of an epoch would be counted twice in the metric",)
    assert judge(recipe(feeds_metric=True, padding_removed=True), both).verdict == "proven"


def test_a_drop_last_that_the_original_has_too_is_kept_and_told() -> None:
    before = observed("before", everything, Declared(shuffled=False, drop_last=True), keep_tail=False)
    after = observed("after", share, Declared(shuffled=False, drop_last=True), keep_tail=False)
    proof = judge(recipe(), [*before, *after])
    assert proof.verdict == "proven"
    assert proof.reasons == (
        "2 and 3 ranks read no sample twice an epoch",
        "drop_last leaves out 1 (25 samples, 2 ranks)",
    )


def test_a_drop_last_that_the_rewrite_loses_is_refuted() -> None:
    before = observed("before", everything, Declared(shuffled=False, drop_last=True), keep_tail=False)
    proof = judge(recipe(), [*before, *observed("after", share, ORDERED)])
    assert proof.conditions["preserved"] == "failed: 2 ranks, 24 samples: drop_last is False, the original's True"


def test_batches_are_measured_not_only_believed() -> None:
    halved = [
        replace(run, declared=replace(run.declared, batch_size=4)) for run in observed("after", share, ORDERED, batch=2)
    ]
    proof = judge(recipe(), [*BEFORE, *halved])
    assert proof.conditions["preserved"] == (
        "failed: 2 ranks, 24 samples: a rank's batches hold 2 samples, the original's 4"
    )


def test_one_process_reads_in_the_order_of_the_original() -> None:
    def turned(rank: int, world: int, size: int, epoch: int) -> Sequence[int]:
        return [1, 0] if world == 1 and size == 2 else share(rank, world, size, epoch)

    proof = judge(recipe(), [*BEFORE, *observed("after", turned, ORDERED)])
    assert proof.reasons == ("one process, 2 samples: step 0 reads [1, 0], the original [0, 1]",)


def test_draws_with_replacement_are_counted_not_identified() -> None:
    def drawn(number: Callable[[int, int], int]) -> Share:
        def reads(rank: int, world: int, size: int, epoch: int) -> Sequence[int]:
            return [random.Random(f"{rank} {epoch} {turn}").randrange(size) for turn in range(number(size, world))]

        return reads

    weighted = Declared(sampler="WeightedRandomSampler", shuffled=True, replacement=True)
    shared = observed("after", drawn(lambda size, world: -(-size // world)), weighted)
    assert judge(recipe("stands", ""), shared).verdict == "proven"
    proof = judge(recipe("stands", ""), observed("after", drawn(lambda size, world: size), weighted))
    assert proof.reasons[0] == "2 ranks, 24 samples: every rank makes all 24 draws"
    proof = judge(recipe("stands", ""), observed("after", drawn(lambda size, world: 1), weighted))
    assert proof.reasons[0] == "2 ranks, 24 samples: rank 0 makes 1 draw where its share is 12"


def failing(
    runs: list[Observation], where: Callable[[Observation], bool], error: str = "", stopped: str = ""
) -> list[Observation]:
    """The same runs, but rank 0 raises ``error`` or is ``stopped`` where told."""
    failed = RankRun(0, (), error, stopped)
    return [replace(run, ranks=(failed, *run.ranks[1:])) if where(run) else run for run in runs]


def test_a_result_that_raises_is_refuted_where_the_original_ran_and_else_unproven() -> None:
    after = failing(observed("after", share, ORDERED), lambda run: run.world > 1, error="TypeError: no such argument")
    proof = judge(recipe(), [*BEFORE, *after])
    assert proof.verdict == "refuted"
    assert proof.reasons[0] == "2 ranks, 24 samples: rank 0 raises TypeError: no such argument"
    before = failing(BEFORE, lambda run: run.world > 1, error="TypeError: no such argument")
    assert judge(recipe(expect=""), [*before, *after]).verdict == "unproven"
    assert judge(recipe("stands", ""), after).verdict == "unproven"


def test_a_loader_that_raised_is_proven_once_it_runs() -> None:
    raising = failing(BEFORE, lambda run: True, error="ValueError: sampler option is mutually exclusive with shuffle")
    proof = judge(recipe(expect="raises"), [*raising, *observed("after", share, ORDERED)])
    assert proof.verdict == "proven"
    still = [replace(run, variant="after") for run in raising]
    assert judge(recipe(expect="raises"), [*raising, *still]).verdict == "refuted"


def test_a_hang_is_a_verdict_that_says_which_rank_stopped_where() -> None:
    place = "epoch 0, while it waited for a batch after 3 steps, in broadcast (distributed_c10d.py:2900)"
    after = failing(observed("after", share, ORDERED), lambda run: run.world > 1, stopped=place)
    for proof in (judge(recipe(), [*BEFORE, *after]), judge(recipe("stands", ""), after)):
        assert proof.verdict == "refuted"
        assert proof.reasons[0] == f"2 ranks, 24 samples: hangs: rank 0 stopped {place}"


def test_a_dataset_too_small_for_either_version_does_not_decide() -> None:
    def below(run: Observation) -> bool:
        return bool(run.size < 3)

    after = failing(observed("after", share, ORDERED), below, error="ValueError: num_samples should be positive")
    before = failing(BEFORE, below, error="ValueError: num_samples should be positive")
    assert judge(recipe(), [*before, *after]).verdict == "proven"
    assert judge(recipe(), [*BEFORE, *after]).verdict == "refuted"


def test_one_process_must_keep_running_where_the_original_did() -> None:
    no_group = "ValueError: Default process group has not been initialized"
    after = failing(observed("after", share, ORDERED), lambda run: run.world == 1, error=no_group)
    proof = judge(recipe(group="optional"), [*BEFORE, *after])
    assert proof.verdict == "refuted"
    assert proof.reasons == (f"one process, 24 samples: rank 0 raises {no_group}, where the original runs",)
    both = [*BEFORE, *observed("after", share, ORDERED)]
    grouped = [replace(run, grouped=True) for run in both if run.world == 1]
    proof = judge(recipe(group="always"), [*BEFORE, *after, *grouped])
    assert (proof.verdict, proof.conditions["one process"]) == ("proven", "held: in a group of one")


def test_a_subset_that_the_rewrite_loses_is_refuted() -> None:
    def first_half(rank: int, world: int, size: int, epoch: int) -> Sequence[int]:
        return range(-(-size // 2))

    before = [
        replace(run, declared=Declared(4, draws=-(-run.size // 2), shuffled=False))
        for run in observed("before", first_half, ORDERED)
    ]
    proof = judge(recipe(), [*before, *observed("after", share, ORDERED)])
    assert proof.verdict == "refuted"
    assert proof.conditions["covered"] == (
        "failed: 2 ranks, 24 samples: samples [12, 13, 14, 15, 16, 17, ..] (12) are read that the original never reads"
    )
    assert proof.conditions["preserved"] == (
        "failed: one process, 24 samples: the sampler draws 24 samples, the original's 12"
    )


def test_every_setting_of_an_unknown_boolean_must_be_right() -> None:
    unknown = recipe(unknown=("fast",))
    before = [*observed("before", everything, ORDERED, fast=False), *observed("before", everything, ORDERED, fast=True)]
    good = [*observed("after", share, ORDERED, fast=False), *observed("after", share, ORDERED, fast=True)]
    assert judge(unknown, [*before, *good]).verdict == "proven"
    bad = [*observed("after", share, ORDERED, fast=False), *observed("after", share_unpadded, ORDERED, fast=True)]
    assert judge(unknown, [*before, *bad]).reasons == (
        "2 ranks, 25 samples, fast=True: rank 1 makes 3 steps, rank 0 makes 4: the job would hang",
    )


def test_a_program_of_one_process_is_judged_in_one_process_only() -> None:
    def alone(runs: list[Observation]) -> list[Observation]:
        return [run for run in runs if run.world == 1]

    single = recipe("redundant", "", owner="single")
    proof = judge(single, alone([*BEFORE, *observed("after", everything, ORDERED)]))
    assert proof.verdict == "proven"
    assert proof.conditions["disjoint"] == "not judged: the program runs in one process"
    proof = judge(single, alone([*BEFORE, *observed("after", everything_shuffled, SHUFFLED)]))
    assert proof.verdict == "refuted"


def test_nothing_observed_is_unproven_never_proven() -> None:
    assert judge(recipe(), []).verdict == "unproven"
    proof = unproven(recipe(), "no torch")
    assert (proof.verdict, proof.reasons, set(proof.conditions)) == ("unproven", ("no torch",), set(CONDITIONS))


def test_observations_go_through_json() -> None:
    run = BEFORE[0]
    assert observation_from_json(json.loads(json.dumps(asdict(run)))) == run
    proof = judge(recipe(), [*BEFORE, *observed("after", share, ORDERED)])
    assert json.loads(json.dumps(proof_to_json(proof)))["verdict"] == "proven"


def test_a_fault_of_another_kind_in_a_case_that_the_edit_does_not_touch_refutes_nothing() -> None:
    factory = recipe(expect="frozen-epoch", unknown=("eval",))
    before = [
        *observed("before", share_frozen, SHUFFLED, eval=False),
        *observed("before", everything, ORDERED, eval=True),
    ]
    after = [
        *observed("after", share_shuffled, SHUFFLED, eval=False),
        *observed("after", everything, ORDERED, eval=True),
    ]
    proof = judge(factory, [*before, *after])
    assert proof.verdict == "unproven"
    assert proof.reasons[0] == (
        "2 ranks, 24 samples, eval=True: every rank reads all 24 samples; the edit does not touch that case"
    )


def test_a_program_that_reads_its_loader_once_has_no_second_epoch_to_judge() -> None:
    once = recipe(single_pass=True)
    runs = [*observed("before", everything_shuffled, SHUFFLED), *observed("after", share_frozen, SHUFFLED)]
    assert judge(once, runs).verdict == "proven"
    assert judge(recipe(), runs).verdict == "refuted"


def test_a_result_that_no_longer_shuffles_is_refuted() -> None:
    proof = judge(recipe(), [*BEFORE_SHUFFLED, *observed("after", share, ORDERED)])
    assert proof.verdict == "refuted"
    assert proof.conditions["preserved"] == (
        "failed: 2 ranks, 24 samples: the result reads in order, the original shuffles"
    )


def test_a_result_that_shuffles_what_was_read_in_order_is_refuted() -> None:
    for role in ("train", "eval"):
        proof = judge(recipe(role=role), [*BEFORE, *observed("after", share_shuffled, SHUFFLED)])
        assert proof.verdict == "refuted"
        assert proof.conditions["preserved"] == (
            "failed: 2 ranks, 24 samples: the result shuffles, the original reads in order"
        )


def test_an_evaluation_may_stop_shuffling() -> None:
    proof = judge(recipe(role="eval"), [*BEFORE_SHUFFLED, *observed("after", share, ORDERED)])
    assert not proof.conditions["preserved"].startswith("failed")


CAUSES_OF_WRONG = [
    "unsharded",
    "sharded-twice",
    "frozen-epoch",
    "per-rank-seed",
    "missing",
    "missing",
    "uneven",
    "changed",
    "shuffled-eval",
    "unshuffled",
]


@pytest.mark.parametrize(
    ("wrong", "cause"), [(param.values, cause) for param, cause in zip(WRONG, CAUSES_OF_WRONG, strict=True)]
)
def test_a_refuted_recipe_names_its_cause(wrong: tuple[Any, ...], cause: str) -> None:
    proof = judge(recipe(), [*wrong[0], *wrong[1]])
    assert proof.cause == cause
    assert proof_to_json(proof)["cause"] == cause


def test_a_recipe_that_is_not_refuted_has_no_cause() -> None:
    assert judge(recipe(), [*BEFORE, *observed("after", share, ORDERED)]).cause == ""


def test_ranks_that_take_anothers_part_or_divide_by_another_number_are_told_by_what_they_read() -> None:
    def anothers(rank: int, world: int, size: int, epoch: int) -> Sequence[int]:
        return dealt(list(range(size)), 0, world)

    def by_eight(rank: int, world: int, size: int, epoch: int) -> Sequence[int]:
        return range(rank, size, 8) if world > 1 else range(size)

    proof = judge(recipe(), [*BEFORE, *observed("after", anothers, ORDERED)])
    assert proof.cause == "wrong-rank"
    assert proof.reasons[0].startswith("2 ranks, 24 samples: rank 1 reads rank 0's part: sample 0 is read by ")
    proof = judge(recipe(), [*BEFORE, *observed("after", by_eight, ORDERED)])
    assert proof.cause == "wrong-replicas"
    assert proof.reasons[0].startswith("2 ranks, 24 samples: rank r reads r, r+8, .. where 2 ranks read: ")
