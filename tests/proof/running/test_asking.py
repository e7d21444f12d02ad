"""Which runs are asked of a recipe: a probe for the batch size, then the sizes that tell right from wrong."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from shardfix.proof.model import Program, Recipe, recipe_to_json
from shardfix.proof.running.asking import Ask, observe

RECIPE = Recipe("a", "ddp", "train", "stands", None, Program("loader = .."))


def asked(recipe: Recipe, batch_size: int, read: bool, single_fails: bool = False) -> list[list[Ask]]:
    """The rounds in which the runs of a recipe are asked for, on two ranks; ``read``: the probe was read."""
    rounds: list[list[Ask]] = []
    asking = observe(recipe_to_json(recipe), 2)
    asks = next(asking)
    while True:
        rounds.append(asks)
        try:
            asks = asking.send(answers(asks, batch_size, read, single_fails))
        except StopIteration:
            return rounds


def answers(asks: Iterable[Ask], batch_size: int, read: bool, single_fails: bool) -> dict[Ask, dict[str, Any]]:
    return {
        ask: {
            "ranks": [{"error": "ValueError" if single_fails and not ask.grouped else "", "stopped": ""}],
            "declared": {"batch_size": batch_size},
            "read": read or not ask.probe,
        }
        for ask in asks
    }


def test_a_probe_that_was_read_is_not_run_again() -> None:
    probe, rest, _ = asked(RECIPE, batch_size=4, read=True)
    assert probe == [Ask("after", 2, True, 24, (), 3, probe=True)]
    assert rest == [
        Ask("after", 2, True, 25, (), 2),
        Ask("after", 2, True, 1, (), 2),
        Ask("after", 1, False, 24, (), 3),
        Ask("after", 1, False, 25, (), 2),
        Ask("after", 1, False, 1, (), 2),
        Ask("after", 3, True, 25, (), 2),
    ]


def test_a_probe_that_was_only_built_stands_for_no_run() -> None:
    _, rest, _ = asked(RECIPE, batch_size=4, read=False)
    assert rest[0] == Ask("after", 2, True, 24, (), 3)


def test_the_sizes_follow_the_batch_size_and_the_ranks() -> None:
    _, rest, _ = asked(RECIPE, batch_size=5, read=False)
    shared = [(ask.world, ask.size, ask.epochs) for ask in rest if ask.grouped]
    assert shared == [(2, 20, 3), (2, 21, 2), (2, 1, 2), (3, 31, 2)]
    assert [(ask.size, ask.epochs) for ask in rest if not ask.grouped] == [(20, 3), (21, 2), (1, 2), (31, 2)]


def test_what_fails_in_one_process_is_asked_again_in_a_group_of_one() -> None:
    _, rest, again = asked(RECIPE, batch_size=4, read=True, single_fails=True)
    assert again == [ask._replace(grouped=True) for ask in rest if not ask.grouped]


@pytest.mark.parametrize(
    "recipe",
    [replace(RECIPE, imports=("project",)), replace(RECIPE, expect="frozen-epoch")],
    ids=["the project's own code", "an order that repeats"],
)
def test_every_size_is_read_three_times_where_the_third_pass_may_tell(recipe: Recipe) -> None:
    assert {ask.epochs for asks in asked(recipe, batch_size=4, read=True) for ask in asks} == {3}
