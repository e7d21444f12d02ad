"""What the user says in a comment is heard, and a comment that says nothing known is told."""

from __future__ import annotations

from loaders import module

from shardfix.analysis.comments import read_comments


def test_keep_with_codes_and_a_reason() -> None:
    found = read_comments(module("x = 1\ny = 2  # shardfix: keep[SHD201, shd3] measured by hand\n"))
    keep = found.keeps[2]
    assert (keep.codes, keep.reason, str(keep.location)) == (("SHD201", "SHD3"), "measured by hand", "train.py:2:8")
    assert keep.covers("SHD201")
    assert keep.covers("SHD302")
    assert not keep.covers("SHD202")


def test_keep_without_codes_holds_for_every_code() -> None:
    keep = read_comments(module("x = 1  # shardfix: keep\n")).keeps[1]
    assert (keep.codes, keep.reason) == ((), "")
    assert keep.covers("SHD999")


def said(text: str) -> list[tuple[int, str, str]]:
    """Line, question and word of each answer."""
    answers = read_comments(module(text)).answers
    return [(line, a.question, a.word) for line, given in answers.items() for a in given]


def test_answers_with_words_for_people_behind_them() -> None:
    assert said("x = 1  # shardfix: owner=accelerate prepared in engine.py\n") == [(1, "owner", "accelerate")]
    assert said("x = 1  # shardfix: role=eval, metric=reduced\n") == [(1, "role", "eval"), (1, "metric", "reduced")]
    assert said("x = 1  # shardfix: owner = ddp epoch=told\n") == [(1, "owner", "ddp"), (1, "epoch", "told")]


def test_a_comment_of_another_tool_may_stand_in_front_and_a_second_one_behind() -> None:
    text = "x = 1  # noqa: E501  # shardfix: role=eval  # shardfix: keep[SHD904] on purpose\n"
    assert said(text) == [(1, "role", "eval")]
    keep = read_comments(module(text)).keeps[1]
    assert (keep.codes, keep.reason, str(keep.location)) == (("SHD904",), "on purpose", "train.py:1:45")


def test_what_says_nothing_known_is_told_with_its_place() -> None:
    found = read_comments(module("x = 1  # shardfix: role=trian\n#  shardfix: ignore\ny = 2  # shardfix: rolle=eval\n"))
    assert [(str(where), message) for where, message in found.unknown] == [
        ("train.py:1:8", "`# shardfix: role=trian`: role is one of train, eval"),
        ("train.py:2:1", "`# shardfix: ignore` says nothing that is known"),
        ("train.py:3:8", "`# shardfix: rolle=eval` asks for 'rolle'; there are owner, role, epoch, metric"),
    ]


def test_that_the_owner_is_unknown_is_no_answer() -> None:
    (told,) = read_comments(module("x = 1  # shardfix: owner=unknown\n")).unknown
    assert told[1].startswith("`# shardfix: owner=unknown`: owner is one of accelerate, ddp, single, self, ")


def test_a_string_is_no_comment() -> None:
    found = read_comments(module('x = "# shardfix: keep"\n'))
    assert (found.keeps, found.answers, found.unknown) == ({}, {}, ())
