"""What the verdict on a metric rests on: every rank came to its end, all were there, and each value is the same one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shardfix.proof.metrics.comparing import is_number, same, shown
from shardfix.proof.metrics.judge import judge_metric, sizes_for
from shardfix.proof.metrics.model import Evaluation, Form, Measured, MetricRecipe, MetricRun
from shardfix.proof.model import Variant

NOTHING = Evaluation("", "")
RECIPE = MetricRecipe("eval.py:1:1", NOTHING, NOTHING)
ALONE = ((0, 1), (2, 3), (4,))
HALVES = (((0, 2), (4,)), ((1, 3),))
EVEN = (((0, 2), (4, 1)), ((3, 5), (6, 7)))


def run(variant: Variant, *values: dict[str, Any], read: tuple[Any, ...] = (), again: Any = None) -> MetricRun:
    """What ranks with these values read of five samples, two at a time."""
    world = len(values)
    shares = read or ((ALONE,) if world == 1 else (((0, 2), (4,)), ((1, 3), ())))
    ranks = tuple(Measured(rank, values[rank], shares[rank]) for rank in range(world))
    measured = None if again is None else Measured(0, again)
    return MetricRun(variant, world, world > 1, 5, 2, ranks, measured)


def broken(variant: Variant, world: int, **how: str) -> MetricRun:
    ranks = (Measured(0, {"n": 3}, ((0, 2), (4,))), Measured(1, {}, (), **how))
    return MetricRun(variant, world, world > 1, 5, 2, ranks[-world:])


ONE = run("before", {"n": 3})
WHOLE = run("before", {"n": 3}, {"n": 3}, read=(ALONE, ALONE))
RIGHT = run("after", {"n": 3}, {"n": 3})


def test_sizes_that_tell_are_ragged_and_even_on_two_and_three_ranks() -> None:
    assert sizes_for(4) == (24, 25, 23, 26)
    assert sizes_for(4, largest=24) == (24, 25, 23, 26)
    assert sizes_for(4, largest=23) == (6, 7, 5, 8)


@pytest.mark.parametrize(
    ("runs", "verdict", "reason"),
    [
        pytest.param((ONE, WHOLE, RIGHT), "proven", (), id="right"),
        pytest.param((WHOLE, RIGHT), "unproven", ("nothing was run",), id="nothing in one process"),
        pytest.param((ONE, WHOLE), "unproven", ("nothing was run",), id="no result"),
        pytest.param(
            (ONE, WHOLE, run("after", {"n": 3})), "unproven", ("it was not run on several ranks",), id="one rank alone"
        ),
        pytest.param(
            (ONE, WHOLE, run("after", {"n": 4})),
            "refuted",
            ("one process: `n` is 4, in one process 3 (5 samples)",),
            id="alone",
        ),
        pytest.param(
            (ONE, WHOLE, broken("after", 2, error="ValueError: no")),
            "refuted",
            ("rank 1 of 2 raises ValueError: no (5 samples)",),
            id="a rank raises",
        ),
        pytest.param(
            (ONE, WHOLE, broken("after", 2, stopped="in barrier (a.py:1)")),
            "refuted",
            ("rank 1 of 2 waits for ever in barrier (a.py:1) (5 samples)",),
            id="a rank waits",
        ),
        pytest.param(
            (ONE, WHOLE, run("after", {"n": 3}, {"n": 3}, read=HALVES)),
            "refuted",
            ("2 ranks do 1 and 2 steps (5 samples)",),
            id="unequal steps",
        ),
        pytest.param(
            (broken("before", 1, error="TypeError: no"), WHOLE, RIGHT),
            "unproven",
            ("the evaluation can't be run apart from its program: TypeError: no",),
            id="the original raises",
        ),
        pytest.param((ONE, broken("before", 2, error="TypeError: no"), RIGHT), "proven", (), id="it raises on ranks"),
    ],
)
def test_what_is_proven_refuted_and_left_open(
    runs: tuple[MetricRun, ...], verdict: str, reason: tuple[str, ...]
) -> None:
    proof = judge_metric(RECIPE, runs)
    assert (proof.verdict, proof.reasons) == (verdict, reason)


def test_unequal_steps_are_right_where_the_loader_says_so() -> None:
    recipe = replace(RECIPE, after=Evaluation("loader = unpadded(loader, uneven=True)", ""))
    assert judge_metric(recipe, (ONE, WHOLE, run("after", {"n": 3}, {"n": 3}, read=HALVES))).verdict == "proven"


@pytest.mark.parametrize(
    ("again", "form", "verdict"),
    [
        pytest.param({"loss": 0.4}, None, "proven", id="what one process makes of the same batches"),
        pytest.param({"loss": 0.5}, None, "refuted", id="not what it makes of them"),
        pytest.param(None, None, "proven", id="a ragged mean"),
        pytest.param(None, Form(0, "any", 1, ""), "unproven", id="any value of a batch, and not run again"),
        pytest.param({"loss": 0.4}, Form(0, "any", 1, ""), "proven", id="any value of a batch, run again"),
    ],
)
def test_values_that_go_by_the_batches(again: Any, form: Form | None, verdict: str) -> None:
    recipe = replace(RECIPE, weighted=("loss",), form=form)
    one, both = run("before", {"loss": 0.5}), run("before", {"loss": 0.5}, {"loss": 0.5}, read=(ALONE, ALONE))
    proof = judge_metric(recipe, (one, both, run("after", {"loss": 0.4}, {"loss": 0.4}, again=again)))
    assert proof.verdict == verdict
    if verdict == "unproven":
        assert proof.reasons == (
            "`loss` is 0.4 in the run of 2, in one process of the same batches not run (5 samples)",
        )


@pytest.mark.parametrize(
    ("value", "expected", "equal"),
    [
        ([1, 2], [1, 2, 3], False),
        ([1, 2, 3], [1, 2], False),
        ({"a": 0.5}, {"a": 0.5 + 1e-12}, True),
        ({"a": 0.5}, {"a": 0.6}, False),
        ({"a": 0.5}, {"b": 0.5}, False),
        (0.0, 1e-6, True),
        (0.0, 1e-4, False),
    ],
)
def test_what_is_the_same_value(value: Any, expected: Any, equal: bool) -> None:
    assert same(value, expected) is equal


@pytest.mark.parametrize(
    ("value", "number"),
    [(3, True), (0.5, True), (["torch.int64 tensor", 3], True), (["torch.int64 tensor", [3]], False), ([1, 2], False)],
)
def test_what_is_one_number(value: Any, number: bool) -> None:
    assert is_number(value) is number


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a" * 40, "a" * 40),
        ("a" * 41, "a" * 37 + "..."),
        (["numpy array", [1, 2]], "[1, 2]"),
        (["a word", 2], "[a word, 2]"),
        ({"called": "f1", "given": [[1, 2, 3]]}, "f1(3 rows)"),
        ({"called": "f1", "given": [["called", 2], [1, 2]]}, "f1(2 rows)"),
        ({"called": "f" * 41, "given": []}, "f" * 37 + "...(..)"),
    ],
)
def test_a_value_in_a_few_characters(value: Any, text: str) -> None:
    assert shown(value) == text
