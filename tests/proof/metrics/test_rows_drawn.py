"""What stands for a sample's row is the same whenever it is drawn, whatever a program made of it before."""

from __future__ import annotations

import pytest

from shardfix.proof.metrics.rows import RANDOM

pytest.importorskip("torch")


def test_a_row_that_a_program_changes_is_drawn_anew_as_it_was() -> None:
    first = RANDOM("image 3", (4,), "normal")
    kept = first.tolist()
    first.zero_()
    assert RANDOM("image 3", (4,), "normal").tolist() == kept != [0.0] * 4
