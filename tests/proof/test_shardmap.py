"""The map shows who reads what: expected pictures written out."""

from __future__ import annotations

import pytest

from shardfix.proof.model import Proof, ShardMap
from shardfix.proof.shardmap import draw, draw_proof

EIGHT = tuple(range(8))


def test_an_unsharded_loader_shows_every_rank_reading_everything() -> None:
    both = ((0, 1, 2, 3), (4, 5, 6, 7))
    assert draw(ShardMap(2, 8, (both, both), EIGHT), title="before") == (
        "before: 2 ranks, 8 samples, one epoch\n"
        "rank 0 | 0 1 2 3 4 5 6 7\n"
        "rank 1 | 0 1 2 3 4 5 6 7\n"
        "every rank reads all 8 samples"
    )


def test_a_right_loader_deals_the_samples_out() -> None:
    assert draw(ShardMap(2, 8, (((0, 2, 4, 6),), ((1, 3, 5, 7),)), EIGHT)) == (
        "2 ranks, 8 samples, one epoch\n"
        "rank 0 | 0 . 2 . 4 . 6 .\n"
        "rank 1 | . 1 . 3 . 5 . 7\n"
        "every sample is read once: no overlap, nothing missed"
    )


def test_a_loader_sharded_twice_shows_its_holes() -> None:
    assert draw(ShardMap(2, 8, (((0, 4),), ((1, 5),)), EIGHT)) == (
        "2 ranks, 8 samples, one epoch\nrank 0 | 0 . . . 4 . . .\nrank 1 | . 1 . . . 5 . .\nnever read: 2 3 6 7 (4)"
    )


def test_padding_is_called_padding_and_an_overlap_is_not() -> None:
    reads = (((0, 2, 4),), ((1, 3, 0),))
    padded = draw(ShardMap(2, 5, reads, tuple(range(5)), padding=1))
    assert padded.splitlines()[-1] == "padding, read by both ranks: 0"
    assert draw(ShardMap(2, 5, reads, tuple(range(5)))).splitlines()[-1] == "read by both ranks: 0"


def test_what_drop_last_leaves_out_is_not_called_lost() -> None:
    reads = (((0, 2),), ((1, 3),))
    assert draw(ShardMap(2, 5, reads, tuple(range(5)), dropped=1)).splitlines()[-1] == "left out by drop_last: 4"
    assert draw(ShardMap(2, 5, reads, tuple(range(5)))).splitlines()[-1] == "never read: 4"


def test_uneven_steps_are_told() -> None:
    assert draw(ShardMap(2, 3, (((0,), (2,)), ((1,),)), (0, 1, 2))).splitlines()[-1] == "steps: rank 0 2, rank 1 1"


def test_many_samples_take_one_character_each_and_no_line_is_too_wide() -> None:
    ranks = tuple((tuple(range(rank, 30, 2)),) for rank in range(2))
    text = draw(ShardMap(2, 30, ranks, tuple(range(30))), width=40)
    assert text == (
        "2 ranks, 30 samples, one epoch\n"
        "         0         10        20\n"
        "rank 0 | #.#.#.#.#.#.#.#.#.#.#.#.#.#.#.\n"
        "rank 1 | .#.#.#.#.#.#.#.#.#.#.#.#.#.#.#\n"
        "every sample is read once: no overlap,\n"
        "nothing missed"
    )
    huge = draw(ShardMap(2, 5000, ((tuple(range(5000)),), ((),)), tuple(range(5000))), width=60)
    assert max(map(len, huge.splitlines())) <= 60
    assert huge == (
        "2 ranks, 5000 samples, one epoch\n"
        "the first 50:\n"
        "         0         10        20        30        40\n"
        "rank 0 | ##################################################\n"
        "rank 1 | ..................................................\n"
        "all 5000, 99 to a character (# all of them, 1-9 tenths, .\n"
        "none):\n"
        "rank 0 | ###################################################\n"
        "rank 1 | ...................................................\n"
        "every sample is read once: no overlap, nothing missed"
    )


def test_a_rank_that_reads_a_sample_twice_is_shown_with_its_number() -> None:
    reads = (((0, 0, 1),), ((2, 3, 3),))
    text = draw(ShardMap(2, 4, reads, (0, 1, 2, 3)), width=9)
    assert text.splitlines()[4:7] == ["    0", "0 | 2#..", "1 | ..#2"]
    text = draw(ShardMap(2, 4, reads, (0, 1, 2, 3)), width=33)
    assert text.splitlines()[1:3] == ["rank 0 | 0 1 . .", "rank 1 | . . 2 3"]
    assert text.splitlines()[3:] == ["read more than once by one rank:", "0 .. (2)"]


def test_a_frozen_epoch_shows_the_order_repeating() -> None:
    def shards(*orders: tuple[int, ...]) -> ShardMap:
        return ShardMap(2, 4, (((3, 1),), ((0, 2),)), (0, 1, 2, 3), orders=orders)

    proof = Proof(
        "train.py:7:14", "proven", (), {}, map_before=shards((3, 1), (3, 1)), map_after=shards((3, 1), (2, 0))
    )
    assert draw_proof(proof) == (
        "before: 2 ranks, 4 samples, one epoch\n"
        "rank 0 | . 1 . 3\n"
        "rank 1 | 0 . 2 .\n"
        "every sample is read once: no overlap, nothing missed\n"
        "rank 0, epoch 0: 3 1 ..\n"
        "rank 0, epoch 1: 3 1 .. (again)\n"
        "\n"
        "after: 2 ranks, 4 samples, one epoch\n"
        "rank 0 | . 1 . 3\n"
        "rank 1 | 0 . 2 .\n"
        "every sample is read once: no overlap, nothing missed\n"
        "rank 0, epoch 0: 3 1 ..\n"
        "rank 0, epoch 1: 2 0 .."
    )


def test_colour_adds_codes_and_changes_no_character() -> None:
    import re

    both = ((0, 1), (2, 3))
    shards = ShardMap(2, 4, (both, both), (0, 1, 2, 3))
    coloured = draw(shards, color=True)
    assert "\x1b[31m" in coloured
    assert re.sub(r"\x1b\[\d+m", "", coloured) == draw(shards)


def test_a_proof_without_runs_has_no_map() -> None:
    assert draw_proof(Proof("train.py:7:14", "unproven", (), {})) == ""


def sixteen(size: int) -> ShardMap:
    return ShardMap(16, size, tuple((tuple(range(rank, size, 16)),) for rank in range(16)), tuple(range(size)))


@pytest.mark.parametrize("width", [6, 9, 14, 20, 31, 40, 80, 200])
@pytest.mark.parametrize("size", [0, 1, 16, 40, 1000])
def test_sixteen_ranks_are_drawn_at_any_width(width: int, size: int) -> None:
    text = draw(sixteen(size), width=width, title="after", orders=True)
    assert max(map(len, text.splitlines())) <= max(width, 8)
    rows = [line for line in text.splitlines() if " | " in line]
    assert len(rows) % 16 == 0
    assert bool(rows) == bool(size)


def test_holes_and_overlaps_of_a_large_set_have_rows_of_their_own() -> None:
    quarter = (tuple(range(0, 2000, 4)),)
    text = draw(ShardMap(2, 2000, (quarter, (tuple(range(1000)),)), tuple(range(2000))), width=40)
    assert text.splitlines()[5:] == [
        "all 2000, 65 to a character (# all of",
        "them, 1-9 tenths, . none):",
        "rank 0 | 3222322232223222322232223222322",
        "rank 1 | ###############4...............",
        "twice  | 3222322232223221...............",
        "never  | ...............5788878887888788",
        "read by both ranks: 0 4 8 12 16 .. (250)",
        "never read: 1001 1002 1003 1005 .. (750)",
    ]


def test_the_items_of_a_stream_and_a_later_epoch_are_called_so() -> None:
    shards = ShardMap(2, 2, (((0,),), ((1,),)), (0, 1), epoch=2, stream=True, names=("rank 0", "rank 3"))
    assert draw(shards) == (
        "2 ranks, 2 items, epoch 2\nrank 0 | 0 .\nrank 3 | . 1\nevery item is read once: no overlap, nothing missed"
    )


def test_ranks_that_read_the_same_part_do_not_read_all() -> None:
    part = ((0, 2),)
    text = draw(ShardMap(2, 4, (part, part), (0, 1, 2, 3)))
    assert text.splitlines()[-2:] == ["every rank reads the same 2 samples", "never read: 1 3"]
