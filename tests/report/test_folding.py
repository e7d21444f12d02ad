"""Long lines are folded at a terminal's width under what they belong to; in a pipe, and in commands, never."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import select
import struct
import termios

import pytest

from shardfix.report.folding import folds
from shardfix.report.terminal import Page, Styled, emit


def folded(text: str, width: int, *whole: tuple[int, int]) -> list[str]:
    return [" " * indent + text[start:end] for indent, start, end in folds(text, width, whole)]


def read(terminal: int, *, lines: int) -> str:
    """So many lines of a terminal, which hands on what it has, and that may be a part."""
    shown = b""
    while shown.count(b"\n") < lines and select.select([terminal], [], [], 30)[0]:
        shown += os.read(terminal, 4096)
    return shown.decode().replace("\r\n", "\n")


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("short", 40, ["short"]),
        ("", 40, [""]),
        ("exactly ten", 11, ["exactly ten"]),
        (
            "        every rank reads all of it, so that nothing is shared at all",
            40,
            ["        every rank reads all of it, so", "          that nothing is shared at all"],
        ),
        (
            "    counted once  unknown  (every rank counts all of it, then they are combined)",
            50,
            ["    counted once  unknown  (every rank counts all", "                  of it, then they are combined)"],
        ),
        (
            "train.py:41:15  eval, ddp: right (its sampler is told the epoch)",
            40,
            ["train.py:41:15  eval, ddp: right (its", "  sampler is told the epoch)"],
        ),
        ("    " + "x" * 60 + " and more words", 40, ["    " + "x" * 60, "      and more words"]),
        ("x" * 60, 40, ["x" * 60]),
        ("a deep line:" + " " * 8 + "end", 20, ["a deep line:", "end"]),
    ],
    ids=["short", "empty", "fits", "under its line", "in its column", "a place", "a long word", "one word", "gap"],
)
def test_a_line_is_folded_between_words_and_loses_none(text: str, width: int, lines: list[str]) -> None:
    assert folded(text, width) == lines
    assert " ".join(text.split()) == " ".join(" ".join(lines).split())


def test_what_is_whole_is_not_broken_however_long_it_is() -> None:
    head, command = "        a stronger proof: ", "shardfix verify --control --run train.py -- --epochs 3"
    assert folded(head + command, 50, (len(head), len(head + command))) == [
        "        a stronger proof:",
        "          " + command,
    ]


def page() -> Page:
    made = Page()
    made.line("    ", Styled("what to do: ", "bold"), "call sampler.set_epoch(epoch) at the head of the epoch loop")
    return made


def test_a_terminal_folds_and_a_pipe_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    piped = io.StringIO()
    emit(page(), piped)
    assert piped.getvalue().count("\n") == 1
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 44, 0, 0))
    with open(theirs, "w") as terminal:
        emit(page(), terminal)
        shown = read(ours, lines=3)
    os.close(ours)
    assert shown.splitlines() == [
        "    what to do: call",
        "      sampler.set_epoch(epoch) at the head",
        "      of the epoch loop",
    ]


def test_colours_stay_with_their_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 40, 0, 0))
    made = Page()
    made.line("proof: ", Styled("refuted and a few words more than fit in here", "bold"))
    with open(theirs, "w") as terminal:
        emit(made, terminal)
        shown = read(ours, lines=2)
    os.close(ours)
    assert shown == "proof: \x1b[1mrefuted and a few words more than\x1b[0m\n  \x1b[1mfit in here\x1b[0m\n"
