"""What ranks did is held against a belief: numbers, bounds, errors, older releases, and what was never run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shardfix.proof.truth.cell import Before, Cell, Numbers, compare, judge_cell, measure, release

OLD = Before("accelerate", "0.30", Numbers(overlap=">0"), "older releases overlap")
OLDEST = Before("accelerate", "0.25", Numbers(epochs="same"), "the oldest repeat")
CELL = Cell("id", "a belief", "", "", Numbers((2, 2), 0, 4), "so", ("accelerate",), before=(OLD, OLDEST))


def rank(*epochs: list[list[int]], error: str = "", stopped: str = "") -> dict[str, Any]:
    return {"epochs": list(epochs), "error": error, "stopped": stopped}


def test_numbers_are_those_of_the_first_epoch() -> None:
    measured = measure([rank([[0, 1], [2]], [[0, 1], [2]]), rank([[3, 2], [4]], [[2, 3], [4]])])
    assert measured == Numbers((3, 3), 1, 5, (2, 1), ((0, 1, 2), (3, 2, 4)), False, "mixed")


@pytest.mark.parametrize(
    ("second", "order"), [([[0, 1]], "same"), ([[1, 0]], "differ")], ids=["repeats its order", "shuffles anew"]
)
def test_the_orders_of_epochs_are_compared_within_a_rank(second: list[list[int]], order: str) -> None:
    assert measure([rank([[0, 1]], second)]).epochs == order


def test_a_rank_that_waits_is_no_rank_that_died() -> None:
    ended = "the process was ended by SIGKILL"
    waiting = "epoch 0, while it waited for a batch after 2 steps"
    measured = measure([rank(stopped=waiting), rank(stopped=ended)])
    assert measured == Numbers(error=ended, waits=(0,))


@pytest.mark.parametrize(
    ("believed", "measured", "said"),
    [
        pytest.param(Numbers(overlap=">0"), Numbers(overlap=0), ["samples read by several ranks: 0, not >0"], id=">"),
        pytest.param(Numbers(covered="<21"), Numbers(covered=21), ["samples read by any rank: 21, not <21"], id="<"),
        pytest.param(Numbers(covered="<21"), Numbers(), ["samples read by any rank: nothing, not <21"], id="nothing"),
        pytest.param(Numbers(overlap=">0", covered="<21"), Numbers(overlap=1, covered=20), [], id="within bounds"),
        pytest.param(Numbers(), Numbers((1,), error="ValueError: no"), ["raised ValueError: no"], id="raised"),
        pytest.param(Numbers(error="ValueError"), Numbers(), ["did not raise ValueError"], id="did not raise"),
        pytest.param(Numbers(error="Value|Type"), Numbers(error="TypeError: no"), [], id="raised as believed"),
        pytest.param(Numbers(waits=(0,)), Numbers(), ["ranks that wait for ever: none, not 0"], id="did not wait"),
        pytest.param(Numbers(), Numbers(waits=(1,)), ["ranks that wait for ever: 1, not none"], id="waits"),
        pytest.param(Numbers((0, 0)), Numbers((0, 1)), ["samples read by each rank: 0, 1, not 0, 0"], id="visits"),
        pytest.param(Numbers(ordered=True), Numbers(ordered=False), ["in order: no, not yes"], id="order"),
    ],
)
def test_each_number_that_differs_is_told(believed: Numbers, measured: Numbers, said: list[str]) -> None:
    assert compare(believed, measured) == said


def test_what_is_not_installed_never_passes() -> None:
    outcome = judge_cell(CELL, {"torch": "2.13.0"}, [rank([[0, 1]]), rank([[2, 3]])])
    assert (outcome.answer, outcome.differences) == ("not-installed", ("accelerate not installed",))


def test_what_was_not_reached_never_passes() -> None:
    assert judge_cell(CELL, {"accelerate": "1.15.0"}, None).answer == "not-run"


def test_libraries_that_do_not_go_together_are_no_difference() -> None:
    error = "ImportError: cannot import name 'x'"
    outcome = judge_cell(CELL, {"accelerate": "1.15.0"}, [rank(error=error), rank(error=error)])
    assert (outcome.answer, outcome.differences) == ("not-run", (error,))


def test_a_belief_that_holds_is_told_so_on_every_release() -> None:
    for version in ("1.15.0", "0.27.0", "0.24.1"):
        assert judge_cell(CELL, {"accelerate": version}, [rank([[0, 1]]), rank([[2, 3]])]).answer == "holds"


@pytest.mark.parametrize(
    ("version", "known"),
    [
        ("1.15.0", ""),
        ("0.30.0", ""),
        ("0.29.3", "older releases overlap"),
        ("0.25.0", "older releases overlap"),
        ("0.24.1", ""),  # of these something else is known
    ],
)
def test_a_difference_is_known_where_releases_of_that_age_do_so(version: str, known: str) -> None:
    outcome = judge_cell(CELL, {"accelerate": version}, [rank([[0, 1]], [[1, 0]]), rank([[1, 2]], [[2, 1]])])
    assert (outcome.answer, outcome.known) == ("differs", known)


def test_the_oldest_entry_that_applies_counts() -> None:
    ranks = [rank([[0, 1]], [[0, 1]]), rank([[1, 2]], [[1, 2]])]
    assert judge_cell(CELL, {"accelerate": "0.24.1"}, ranks).known == "the oldest repeat"
    reversed_entries = replace(CELL, before=(OLDEST, OLD))
    assert judge_cell(reversed_entries, {"accelerate": "0.24.1"}, ranks).known == "the oldest repeat"


@pytest.mark.parametrize(
    ("version", "numbers"),
    [("2.13.0+cpu", (2, 13, 0)), ("0.30", (0, 30, 0)), ("1.0.0.dev0", (1, 0, 0)), ("of unknown version", (0, 0, 0))],
)
def test_versions_are_compared_by_their_numbers(version: str, numbers: tuple[int, ...]) -> None:
    assert release(version) == numbers
