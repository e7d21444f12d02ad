"""What a loader says of itself is taken as it means it: of all ranks, of one share, or of nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from simulated import built, watched

from shardfix.proof.judging.endings import standing
from shardfix.proof.judging.rows import rows_of
from shardfix.proof.judging.seen import draws_of, is_redrawn
from shardfix.proof.observed import Built, Ending


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        (Ending(0, "exit", 0), "came to its end"),
        (Ending(0, "exit", 3), "exits with code 3"),
        (Ending(0, "exit", 3, "", "train.py:7", 1, 2), "exits with code 3 (at train.py:7, pass 1, step 2)"),
        (Ending(0, "signal", -9), "was ended by SIGKILL"),
        (Ending(0, "raised", 1, "ValueError: no"), "raises ValueError: no"),
        (Ending(0, "stopped"), "was stopped"),
    ],
)
def test_what_became_of_a_rank_in_words(ending: Ending, words: str) -> None:
    assert standing(ending) == words


@pytest.mark.parametrize(
    ("of", "draws"),
    [
        pytest.param(built(10, 2), 10, id="all"),
        pytest.param(built(10, 2, draws=5, shard=(2, 0)), 10, id="the share of one of two"),
        pytest.param(built(9, 2, draws=5, shard=(2, 0)), 9, id="a share that is padded"),
        pytest.param(built(9, 2, draws=4, shard=(2, 0)), 9, id="a share that is cut off"),
        pytest.param(built(10, 2, draws=5, shard=(1, 0)), 5, id="half of the samples, in one share"),
        pytest.param(built(10, 2, draws=7), 7, id="some of the samples"),
        pytest.param(built(10, 2, draws=None), 10, id="it does not say"),
        pytest.param(built(10, 2, draws=None, manual=True), None, id="a sampler of the program's own does not say"),
    ],
)
def test_what_one_process_would_draw(of: Built, draws: int | None) -> None:
    assert draws_of(of, 2) == draws


@pytest.mark.parametrize(
    ("digests", "alone", "redrawn"),
    [
        pytest.param(("a", "a"), "b", True, id="one split on all ranks, another alone"),
        pytest.param(("a", "b"), "c", False, id="another split on each rank"),
        pytest.param(("a", "a"), "a", False, id="the same split"),
        pytest.param(("", ""), "b", False, id="not known on the ranks"),
        pytest.param(("a", "a"), "", False, id="not known alone"),
    ],
)
def test_a_split_that_no_seed_fixes(digests: tuple[str, str], alone: str, redrawn: bool) -> None:
    of = [built(8, 2, subset=4, subset_digest=digest) for digest in digests]
    found = watched(lambda rank, epoch: [[rank]], lambda rank: of[rank], 2).observed()
    assert is_redrawn(rows_of(found), replace(of[0], subset_digest=alone)) == redrawn
