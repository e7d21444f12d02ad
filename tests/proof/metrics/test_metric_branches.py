"""A name that one arm of a condition gives a value behind the loop holds what it held before where the other is run."""

from __future__ import annotations

import pytest
from metric_programs import proven, recipe

from shardfix.proof.metrics.model import MetricProof

COUNTED = """
{first}
s = n = 0
for batch in val_loader:
    s += (model(batch["ids"]).argmax(1) == batch["y"]).sum().item()
    n += batch["y"].size(0)
s, n = reduced(s, n)
{then}
"""
RIGHT = {
    "a global": ("global best", "if s / n > best:\n    best = s / n\nprint(best)\nreturn s / n"),
    "a global that is not reached": ("global best", "if s / n > 9:\n    best = s / n\nprint(best)\nreturn s / n"),
    "a pair": ("global best", "if s > 9 + best[0]:\n    best = (s, n)\nprint(best[0], best[1])\nreturn s / n"),
    "a local": ("best = 0.5", "if s / n > 9:\n    best = s / n\nreturn best, s / n"),
    "an attribute": ("", "if s / n > 9:\n    state.best = s / n\nprint(state.best)\nreturn s / n"),
    "both arms": ("", "if s / n > 9:\n    best = s / n\nelse:\n    best = 1 - s / n\nreturn best"),
    "more of a list that is not seen": ("global best", "return best + [s / n]"),
    "more of a tuple that is not seen": ("global best", "return (s, n) + best"),
}
NOWHERE = {
    "a local of one arm": ("", "if s / n > 9:\n    best = s / n\nprint(s)\nreturn best"),
    "a local of the other": ("", "if s / n < 9:\n    s += 0\nelse:\n    best = n\nprint(s)\nreturn best"),
}


def body(first: str, then: str) -> str:
    return COUNTED.format(first=first, then=then)


@pytest.fixture(scope="module")
def proofs() -> dict[str, MetricProof]:
    whole = {
        name: recipe(body(*text), more="best = restored()\nstate = made()")
        for name, text in {**RIGHT, **NOWHERE}.items()
    }
    undone = {
        f"{name}, not reduced": recipe(
            body(*text), more="best = restored()\nstate = made()", undone=("s, n = reduced(s, n)",)
        )
        for name, text in RIGHT.items()
    }
    return proven({**whole, **undone})


@pytest.mark.parametrize("name", RIGHT)
def test_what_a_name_held_before_is_there(proofs: dict[str, MetricProof], name: str) -> None:
    assert (proofs[name].verdict, proofs[name].reasons) == ("proven", ())


@pytest.mark.parametrize("name", RIGHT)
def test_a_metric_that_is_not_reduced_is_refuted_beside_it(proofs: dict[str, MetricProof], name: str) -> None:
    assert proofs[f"{name}, not reduced"].verdict == "refuted"


@pytest.mark.parametrize("name", NOWHERE)
def test_a_name_without_a_value_is_told_as_the_program_writes_it(proofs: dict[str, MetricProof], name: str) -> None:
    assert proofs[name].verdict == "unproven"
    assert proofs[name].reasons == (
        "the loop can't be run as it is written, on rows that stand for a model's: `best` has no value where it is"
        " read",
    )
