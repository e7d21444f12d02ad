"""The judge of metrics: values of several ranks against those of one process, written out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shardfix.proof.metrics.comparing import same, shown
from shardfix.proof.metrics.judge import judge_metric
from shardfix.proof.metrics.model import Evaluation, Measured, MetricProof, MetricRecipe, MetricRun
from shardfix.proof.model import Variant

NOTHING = Evaluation("", "")
SIZE, BATCH = 5, 2


def ranks(world: int, values: list[dict[str, Any]], read: list[list[int]] | None = None) -> tuple[Measured, ...]:
    """Ranks with these values; by default rank r reads the samples r, r + world, .., all ranks in equal steps."""
    shares = read or [list(range(rank, SIZE, world)) for rank in range(world)]
    steps = [3] * world if read is None else [-(-len(share) // BATCH) for share in shares]
    batches = [tuple(tuple(s[i::n]) for i in range(n)) for s, n in zip(shares, steps, strict=True)]
    return tuple(Measured(rank, values[rank % len(values)], batches[rank]) for rank in range(world))


def run(variant: Variant, world: int, found: tuple[Measured, ...], size: int = SIZE) -> MetricRun:
    return MetricRun(variant, world, world > 1, size, BATCH, found)


def judged(
    after: MetricRun,
    *,
    alone: dict[str, Any],
    control: MetricRun | None = None,
    weighted: tuple[str, ...] = (),
) -> MetricProof:
    everything = [list(range(SIZE))] * 2
    before = [run("before", 1, ranks(1, [alone])), control or run("before", 2, ranks(2, [alone], everything))]
    return judge_metric(MetricRecipe("eval.py:1:1", NOTHING, NOTHING, (), weighted), [*before, after])


def test_equal_values_on_every_rank_are_proven() -> None:
    alone = {"correct": 3, "correct / total": 0.6}
    proof = judged(run("after", 2, ranks(2, [{"correct": 3, "correct / total": 0.6 + 1e-9}])), alone=alone)
    assert (proof.verdict, proof.reasons) == ("proven", ())
    assert proof.control == "the original reads 10 samples on 2 ranks where there are 5"
    assert proof.told == (
        "2 ranks evaluate every sample once and get the metric of one process: `correct` 3, `correct / total` 0.6"
        " (5 samples)",
    )


def test_a_value_that_differs_on_one_rank_is_named_with_both_values() -> None:
    alone = {"correct / total": 8 / 13}
    proof = judged(run("after", 2, ranks(2, [alone, {"correct / total": 9 / 14}])), alone=alone)
    assert proof.verdict == "refuted"
    assert proof.reasons == ("rank 1 of 2: `correct / total` is 0.642857, in one process 0.615385 (5 samples)",)


def test_a_sample_that_two_ranks_read_refutes_whatever_the_values_are() -> None:
    alone = {"hits": 0}
    proof = judged(run("after", 2, ranks(2, [alone], [[0, 2, 4], [1, 3, 0]])), alone=alone)
    assert (proof.verdict, proof.reasons) == ("refuted", ("2 ranks read 1 samples twice (5 samples)",))


def test_unequal_steps_refute() -> None:
    alone = {"hits": 0}
    proof = judged(run("after", 2, ranks(2, [alone], [[0, 2, 4, 1], [3]])), alone=alone)
    assert (proof.verdict, proof.reasons) == ("refuted", ("2 ranks do 1 and 2 steps (5 samples)",))


def test_a_rank_that_waits_for_ever_refutes() -> None:
    stuck = (Measured(0, {}, (), "", "in all_gather_object (c10d.py:1)"), Measured(1, {"hits": 0}))
    proof = judged(run("after", 2, stuck), alone={"hits": 0})
    assert proof.reasons == ("rank 0 of 2 waits for ever in all_gather_object (c10d.py:1) (5 samples)",)


def test_means_over_batches_may_differ_where_batches_are_ragged_and_this_is_told() -> None:
    alone, other = {"loss": 0.5}, {"loss": 0.4}
    proof = judged(run("after", 2, ranks(2, [other])), alone=alone, weighted=("loss",))
    assert proof.verdict == "proven"
    assert proof.told == (
        "2 ranks evaluate every sample once",
        "`loss` is 0.4 on 2 ranks, in one process 0.5 (5 samples): a mean over batches weighs a ragged one like a full"
        " one",
    )
    assert judged(run("after", 2, ranks(2, [other])), alone=alone).verdict == "refuted"


def test_an_original_whose_ranks_have_a_part_is_the_fault() -> None:
    alone = {"correct": 3}
    part = run("before", 2, ranks(2, [{"correct": 2}, {"correct": 1}]))
    proof = judged(run("after", 2, ranks(2, [alone])), alone=alone, control=part)
    assert (proof.verdict, proof.control) == (
        "proven",
        "the original: `correct` is 2 on rank 0 of 2, in one process 3",
    )


def test_an_original_that_is_right_leaves_nothing_to_prove() -> None:
    alone = {"correct": 3}
    proof = judged(run("after", 2, ranks(2, [alone])), alone=alone, control=run("before", 2, ranks(2, [alone])))
    assert proof.verdict == "unproven"


@pytest.mark.parametrize(
    ("value", "expected", "equal"),
    [
        (3, 3, True),
        (3, 3.0, False),
        (True, 1, False),
        (0.1 + 0.2, 0.3, True),
        (float("nan"), float("nan"), True),
        ([1, [0.5]], [1, [0.5 + 1e-12]], True),
        ([1, 2], [2, 1], False),
        ({"a": 1}, {"a": 1, "b": 0}, False),
        (["torch.int64 tensor", [1]], ["torch.float32 tensor", [1.0]], False),
        ("a", "a", True),
        (None, None, True),
    ],
)
def test_fractions_are_compared_but_for_rounding_and_all_else_exactly(value: Any, expected: Any, equal: bool) -> None:
    assert same(value, expected) is equal


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.615384615, "0.615385"),
        (["torch.float64 tensor", 0.5], "0.5"),
        ({"called": "f1_score", "given": [1]}, "f1_score(..)"),
        (list(range(30)), "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11..."),
    ],
)
def test_values_are_shown_in_a_few_characters(value: Any, text: str) -> None:
    assert shown(value) == text


def test_what_is_only_assumed_is_no_proof_and_refutes_nothing() -> None:
    recipe = MetricRecipe("eval.py:1:1", NOTHING, NOTHING, assumed=("`a` is 3", "`b` is 4"))
    everything = [list(range(SIZE))] * 2
    runs = [run("before", 1, ranks(1, [{"n": 3}])), run("before", 2, ranks(2, [{"n": 3}], everything))]
    equal = judge_metric(recipe, [*runs, run("after", 2, ranks(2, [{"n": 3}]))])
    assert (equal.verdict, equal.reasons) == ("unproven", ("it holds only if `a` is 3", "it holds only if `b` is 4"))
    other = judge_metric(recipe, [*runs, run("after", 2, ranks(2, [{"n": 4}]))])
    assert (other.verdict, other.reasons) == ("refuted", ("rank 0 of 2: `n` is 4, in one process 3 (5 samples)",))


def test_a_size_that_the_program_itself_fails_at_is_left_out_where_it_runs_on_rows() -> None:
    stands_in = MetricRecipe("eval.py:1:1", NOTHING, NOTHING)
    fails = (Measured(0, error="TypeError: 'float' object is not iterable"),)
    everything = [list(range(SIZE))] * 2
    runs = [
        *(run("before", 1, ranks(1, [{"n": 3}])), run("before", 2, ranks(2, [{"n": 3}], everything))),
        *(run("after", 2, ranks(2, [{"n": 3}])), run("before", 1, fails, 6), run("after", 2, fails * 2, 6)),
    ]
    assert judge_metric(replace(stands_in, rows=True), runs).verdict == "proven"
    assert judge_metric(stands_in, runs).reasons == (
        "the evaluation can't be run apart from its program: TypeError: 'float' object is not iterable",
    )
    # why sums are stood in for says more than that they fail
    why = "the loop can't be run as it is written, on rows that stand for a model's: no shape fits"
    assert judge_metric(replace(stands_in, assumed=(why,)), runs).reasons == (why,)


def test_a_change_is_proven_for_what_it_mends_and_what_it_leaves_as_wrong_as_it_was_is_told() -> None:
    recipe = MetricRecipe("eval.py:1:1", NOTHING, NOTHING, accelerate=True, partial=True)
    runs = [
        run("before", 1, ranks(1, [{"acc": 3, "steps": 3}])),
        run("before", 2, ranks(2, [{"acc": 4, "steps": 2}])),
        run("after", 2, ranks(2, [{"acc": 3, "steps": 2}])),
    ]
    left = "`steps` is 2 on 2 ranks, in one process 3 (5 samples), with the change and without it"
    proof = judge_metric(recipe, runs)
    assert (proof.verdict, proof.control) == ("proven", "the original: `acc` is 4 on rank 0 of 2, in one process 3")
    assert proof.told == (
        "2 ranks get the metric of one process: `acc` 3 (5 samples)",
        f"not mended by this change: {left}",
    )
    assert judge_metric(replace(recipe, partial=False), runs).verdict == "refuted"
    worse = [*runs[:2], run("after", 2, ranks(2, [{"acc": 5, "steps": 2}]))]
    assert judge_metric(recipe, worse).verdict == "refuted"
    nothing = [*runs[:1], run("before", 2, ranks(2, [{"acc": 3, "steps": 2}])), runs[2]]
    assert (judge_metric(recipe, nothing).verdict, judge_metric(recipe, nothing).reasons) == ("unproven", (left,))
