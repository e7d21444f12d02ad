"""What the truth table says of one interpreter's libraries: a page for a terminal, and the same as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import shardfix
from shardfix.proof.truth.cell import LIBRARIES, Numbers, Outcome
from shardfix.proof.truth.check import Checkup
from shardfix.proof.truth.table import HANDS, ROWS
from shardfix.report.terminal import Page, Piece, Styled, table

_WORDS = {
    "holds": Styled("holds", "green"),
    "differs": Styled("differs", "bold red"),
    "not-installed": Styled("not installed", "dim"),
    "not-run": Styled("not run", "yellow"),
}
_HEADS = {"plain": "nobody", "accelerate": "accelerate", "fabric": "fabric"}


def doctor_page(checkup: Checkup, titles: Mapping[str, str], *, width: int | None = None) -> Page:
    """The versions, the table of who reads what, the facts beside it, and what differs with the codes it touches.

    ``width``: that of the terminal, in which a table that is too wide stands with two lines to a row; None: as it is.
    """
    page = Page()
    page.line(Styled("python", "bold"), f" {checkup.python_version}  {checkup.python}")
    for library in LIBRARIES:
        reason = checkup.reasons.get(library)
        otherwise = f"can't be imported: {reason}" if reason else "not asked"
        version: Piece = checkup.versions.get(library) or Styled(otherwise, "dim")
        page.line(Styled(library, "bold"), " ", version)
    page.line("Two and three ranks over gloo, forked, seeded differently.")
    page.blank()
    by_id = {outcome.cell.id: outcome for outcome in checkup.outcomes}
    page.line(Styled("Who reads what", "bold"), ": samples read by each rank / by both / by any, of 21")
    _table(page, by_id, width)
    shown = {f"{owner}/{row.id}" for row in ROWS for owner, *_ in HANDS}
    facts = [outcome for outcome in checkup.outcomes if outcome.cell.id not in shown]
    if facts:
        page.blank()
        page.line(Styled("Beside the table", "bold"))
    for outcome in facts:
        word = _WORDS[outcome.answer]
        page.line("  ", word, " " * (14 - len(word.text)), outcome.cell.belief)
    _unlike(page, checkup, titles)
    page.blank()
    page.line(Styled(counts(checkup), "bold"))
    page.line(conclusion(checkup))
    return page


def _table(page: Page, by_id: Mapping[str, Outcome], width: int | None) -> None:
    """Who reads what: a row for each loader, a column for each that it is handed to."""
    owners = [owner for owner, *_ in HANDS]
    rows = [(row.name, *(_numbers(by_id.get(f"{owner}/{row.id}")) for owner in owners)) for row in ROWS]
    wide = Page()
    table(wide, ("loader, handed to", *(_HEADS[owner] for owner in owners)), rows)
    if width is None or max(len(line) for line in wide.plain().splitlines()) <= width:
        page.lines += wide.lines
        return
    below = Page()
    cells = [[_headed(owner, cell) for owner, cell in zip(owners, row[1:], strict=True)] for row in rows]
    table(below, ["" for _ in owners], cells)
    for (name, *_), numbers in zip(rows, below.lines[1:], strict=True):
        page.line(name)
        page.line("    ", *numbers)


def _headed(owner: str, cell: Piece) -> Piece:
    """A cell that says itself which column it is of."""
    head = f"{_HEADS[owner]} "
    return Styled(head + cell.text, cell.style) if isinstance(cell, Styled) else head + cell


def counts(checkup: Checkup) -> str:
    """How many beliefs hold, in a line."""
    number = {answer: sum(o.answer == answer for o in checkup.outcomes) for answer in _WORDS}
    line = f"{len(checkup.outcomes)} beliefs: {number['holds']} hold, {number['differs']} differ"
    if number["not-installed"]:
        missing = sorted({name for o in checkup.outcomes for name in o.cell.needs if name not in checkup.versions})
        line += f", {number['not-installed']} need what is not installed ({', '.join(missing)})"
    return line + (f", {number['not-run']} could not be run" if number["not-run"] else "")


def conclusion(checkup: Checkup) -> str:
    """What follows for who uses the tool with these versions."""
    if checkup.ended:
        return f"The run did not come to its end: {checkup.ended}."
    if not checkup.differing:
        return "What shardfix says and does rests on nothing that differs here."
    codes = sorted({code for outcome in checkup.differing for code in outcome.cell.decides})
    touched = f"Read what {', '.join(codes)} say with that in mind" if codes else "No code rests on it"
    return f"{touched}; a proof (`shardfix verify`) runs on these versions and says what they really do."


def _numbers(outcome: Outcome | None) -> Piece:
    if outcome is None or outcome.measured is None:
        return Styled("not run" if outcome is None else _WORDS[outcome.answer].text, "dim")
    measured = outcome.measured
    if measured.visits is None:
        text = measured.error.partition(":")[0] or "waits"
    else:
        text = f"{','.join(map(str, measured.visits))} / {measured.overlap} / {measured.covered}"
    return Styled(text, _WORDS[outcome.answer].style) if outcome.answer != "holds" else text


def _unlike(page: Page, checkup: Checkup, titles: Mapping[str, str]) -> None:
    """What differs and what could not be run, each with why and what rests on it."""
    for answer, head in (("differs", "Differs from what is believed"), ("not-run", "Could not be run")):
        outcomes = [outcome for outcome in checkup.outcomes if outcome.answer == answer]
        if outcomes:
            page.blank()
            page.line(Styled(head, "bold"))
        for outcome in outcomes:
            page.line("  ", Styled(outcome.cell.id, "bold"), f"  {outcome.cell.belief}")
            for difference in outcome.differences:
                page.line("      ", difference)
            if outcome.known:
                page.line("      known: ", outcome.known)
            if answer == "differs":
                page.line("      believed, so: ", outcome.cell.so)
                for code in outcome.cell.decides:
                    page.line("      touches ", Styled(code, "yellow"), f" {titles.get(code, '')}".rstrip())


def doctor_document(checkup: Checkup) -> dict[str, Any]:
    """The same as data that JSON can hold (`doctor_schema.json` describes it)."""
    return {
        "version": 1,
        "shardfix": shardfix.__version__,
        "python": checkup.python,
        "python_version": checkup.python_version,
        "versions": dict(checkup.versions),
        "missing": dict(checkup.reasons),
        "ended": checkup.ended,
        "counts": {answer: sum(o.answer == answer for o in checkup.outcomes) for answer in _WORDS},
        "cells": [_cell(outcome) for outcome in checkup.outcomes],
    }


def _cell(outcome: Outcome) -> dict[str, Any]:
    cell = outcome.cell
    return {
        "id": cell.id,
        "belief": cell.belief,
        "answer": outcome.answer,
        "believed": _said(cell.expect),
        "measured": _said(outcome.measured) if outcome.measured is not None else None,
        "differences": list(outcome.differences),
        "known": outcome.known,
        "so": cell.so,
        "decides": list(cell.decides),
        "needs": list(cell.needs),
        "ranks": cell.world,
        "samples": cell.size,
    }


def _said(numbers: Numbers) -> dict[str, Any]:
    """What is given of the numbers; what says nothing is left out."""
    return {name: value for name, value in asdict(numbers).items() if value not in (None, "", ())}


__all__: Sequence[str] = ["conclusion", "counts", "doctor_document", "doctor_page"]
