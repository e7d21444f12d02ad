"""What the user says in a comment is heard, and a comment that says nothing known is told."""

from __future__ import annotations

import ast

from loaders import module, site

from shardfix.analysis.comments import lines_of, read_comments


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


def test_owner() -> None:
    assert read_comments(module("x = 1  # shardfix: owner=accelerate\n")).owners == {1: "accelerate"}


def test_what_says_nothing_known_is_told_with_its_place() -> None:
    found = read_comments(module("x = 1  # shardfix: owner=nobody\n#  shardfix: ignore\n"))
    assert [(str(where), message.split(";")[0]) for where, message in found.unknown] == [
        ("train.py:1:8", "`# shardfix: owner=nobody` says nothing that is known"),
        ("train.py:2:1", "`# shardfix: ignore` says nothing that is known"),
    ]


def test_a_string_is_no_comment() -> None:
    found = read_comments(module('x = "# shardfix: keep"\n'))
    assert (found.keeps, found.owners, found.unknown) == ({}, {}, ())


def test_a_comment_on_any_line_of_the_statement_counts() -> None:
    found = site(
        "from accelerate import Accelerator\nfrom torch.utils.data import DataLoader\naccelerator = Accelerator()\n"
        "def make():\n    return DataLoader(\n        d,\n        shuffle=True,  # shardfix: owner=accelerate\n    )\n"
    )
    assert found.owner == "accelerate"


def test_the_lines_of_a_loop_s_header_are_not_those_of_its_body() -> None:
    found = module("for b in f(\n    1\n):\n    pass\n")
    (call,) = (n for n in ast.walk(found.tree) if isinstance(n, ast.Call))
    assert list(lines_of(found, call)) == [1, 2, 3]
