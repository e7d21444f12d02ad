"""The diffs: a bare `git apply` takes them and makes exactly the bytes that were meant."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from shardfix.rewrite.diff import unified_diff


def git(folder: Path, *arguments: str, feed: bytes = b"") -> None:
    plain = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    done = subprocess.run(["git", *arguments], cwd=folder, input=feed, capture_output=True, timeout=60, env=plain)
    assert done.returncode == 0, done.stderr.decode(errors="replace")


LONG = b"".join(b"line %d\n" % number for number in range(60))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(b"a\nb\nc\n", b"a\nB\nc\n", id="a line changed"),
        pytest.param(b"", b"a\n", id="an empty file filled"),
        pytest.param(b"a\n", b"", id="a file emptied"),
        pytest.param(b"a\nb", b"a\nB", id="no newline at the end"),
        pytest.param(b"a\nb", b"a\nb\n", id="newline at the end added"),
        pytest.param(b"a\nb\n", b"a\nb", id="newline at the end removed"),
        pytest.param(b"a\nb\nc\nd\ne", b"A\nb\nc\nd\ne", id="no newline in the context"),
        pytest.param(b"a\r\nb\r\n", b"a\r\nB\r\n", id="CRLF"),
        pytest.param(b"a\rb\nc\n", b"a\rb\nC\n", id="a lone CR in the context"),
        pytest.param(b"a\rb\n", b"a\rB\n", id="a lone CR in the line"),
        pytest.param(b"a\r", b"a\rb\r", id="only lone CRs"),
        pytest.param(b"\xe9\n\xff\n", b"\xe9\n\xfe\n", id="not UTF-8"),
        pytest.param(b"a\x0cb\x1c\n\xe2\x80\xa8c\n", b"a\x0cb\x1c\n\xe2\x80\xa8C\n", id="other line separators"),
        pytest.param(LONG, LONG.replace(b"line 3\n", b"").replace(b"line 50\n", b"x\ny\n"), id="two hunks"),
        pytest.param(LONG, b"first\n" + LONG + b"last\n", id="at both ends"),
        pytest.param(b"\n" * 40, b"\n" * 41, id="blank lines"),
        pytest.param(None, b"a\nb\n", id="a new file"),
        pytest.param(None, b"a", id="a new file, no newline at the end"),
        pytest.param(None, b"", id="a new empty file"),
    ],
)
def test_git_applies_the_diff(tmp_path: Path, before: bytes | None, after: bytes) -> None:
    assert_git_makes(tmp_path, "a.py", before, after)


@pytest.mark.parametrize("before", [None, b"a\n"])
@pytest.mark.parametrize("name", ["a b/c d.py", 'q"uo\\te.py', "tab\tü/日本.py", "-a.py"])
def test_git_takes_any_file_name(tmp_path: Path, before: bytes | None, name: str) -> None:
    assert_git_makes(tmp_path, name, before, b"b\n")


def assert_git_makes(tmp_path: Path, name: str, before: bytes | None, after: bytes) -> None:
    git(tmp_path, "init", "-q")
    target = tmp_path / name
    target.parent.mkdir(parents=True, exist_ok=True)
    if before is not None:
        target.write_bytes(before)
    diff = unified_diff(name, before, after)
    git(tmp_path, "apply", "--check", feed=diff)
    git(tmp_path, "apply", feed=diff)
    assert target.read_bytes() == after


def test_the_diff_written_out() -> None:
    assert unified_diff("d/a b.py", b"1\n2\n3\n4\n5\n6", b"1\n2\n3\n4\nx\n6") == (
        b"diff --git a/d/a b.py b/d/a b.py\n"
        b"--- a/d/a b.py\t\n"
        b"+++ b/d/a b.py\t\n"
        b"@@ -2,5 +2,5 @@\n"
        b" 2\n 3\n 4\n-5\n+x\n 6\n\\ No newline at end of file\n"
    )


def test_nothing_changed_is_no_diff() -> None:
    assert unified_diff("a.py", b"a\n", b"a\n") == b""
