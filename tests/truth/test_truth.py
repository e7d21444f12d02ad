"""Every belief about torch, Accelerate and transformers is true of the versions installed here: each cell is run."""

from __future__ import annotations

import pytest
from launches import once, told

from shardfix.proof.truth.cell import Cell, Outcome
from shardfix.proof.truth.check import CELLS, Checkup, check
from shardfix.report.catalogue import titles

HERE = tuple(cell for cell in CELLS if "lightning" not in cell.needs)  # which the tests do not ask to be installed


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    checkup: Checkup = once(tmp_path_factory, "truth", lambda folder: check(only=HERE, timeout=200))
    assert checkup.ended == ""
    return {outcome.cell.id: outcome for outcome in checkup.outcomes}


@pytest.mark.parametrize("cell", HERE, ids=lambda cell: cell.id)
def test_the_installed_libraries_do_what_is_believed_of_them(cell: Cell, outcomes: dict[str, Outcome]) -> None:
    assert outcomes[cell.id].answer == "holds", told(outcomes[cell.id])


def test_a_cell_has_an_id_of_its_own() -> None:
    assert len({cell.id for cell in CELLS}) == len(CELLS)


def test_the_codes_that_rest_on_a_belief_are_codes_of_the_tool() -> None:
    assert {code for cell in CELLS for code in cell.decides} <= titles().keys()


def test_every_belief_is_one_sentence_and_says_what_it_is_for() -> None:
    for cell in CELLS:
        assert cell.belief.strip() == cell.belief, cell.id
        assert not cell.belief.endswith("."), cell.id
        assert cell.so, cell.id
