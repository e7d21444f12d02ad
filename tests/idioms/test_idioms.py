"""Every idiom of real training code ends edited just so, kept as right, refused with its reason, or not ours."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import cast, get_args

import pytest
from construction import CONSTRUCTION
from consumers import CONSUMERS
from elsewhere import ELSEWHERE
from epoch_loops import EPOCH_LOOPS
from evaluation import EVALUATION
from idiom import Idiom
from samplers import SAMPLERS
from set_epoch_calls import SET_EPOCH_CALLS

from shardfix.analysis.model import Options, SiteReport, Target
from shardfix.config import Config
from shardfix.engine import migrate

IDIOMS = (*CONSTRUCTION, *SAMPLERS, *CONSUMERS, *EPOCH_LOOPS, *SET_EPOCH_CALLS, *EVALUATION, *ELSEWHERE)
TARGETS = get_args(Target)
NUMBERED = {"C": 22, "S": 26, "F": 22, "E": 18, "V": 14, "W": 10}


def cases() -> list[object]:
    return [
        pytest.param(idiom, target, id=f"{idiom.id} {idiom.title} [{target}]")
        for idiom in IDIOMS
        for target in TARGETS
        if idiom.expected(target) is not None
    ]


def told(report: SiteReport) -> str:
    """A loader's outcome as the idioms write it."""
    changed = [code for change in report.changes for code in change.codes]
    return " ".join([report.owner, report.verdict, *changed, *(f.code for f in report.findings)])


@pytest.mark.parametrize(("idiom", "target"), cases())
def test_an_idiom_ends_right(idiom: Idiom, target: str, tmp_path: Path) -> None:
    before, after = idiom.before(), idiom.after()
    for path, text in before.items():
        place = tmp_path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    options = Options(
        target=cast(Target, target), unsafe=idiom.unsafe, sanitizer=idiom.sanitizer, sanitizer_from="package"
    )

    result = migrate([], config=Config(tmp_path, options), write=False, verify="no")

    assert tuple(told(report) for report in result.sites) == idiom.expected(target)
    assert (result.problems, result.dropped) == ((), ())
    changed = {change.path: change.after.decode() for change in result.files}
    edited = any(report.verdict == "edit" for report in result.sites)
    assert {**before, **changed} == (after if edited else before)


@pytest.mark.parametrize("idiom", IDIOMS, ids=lambda idiom: f"{idiom.id} {idiom.title}")
def test_an_idiom_is_a_program_before_and_after(idiom: Idiom) -> None:
    for path, text in (*idiom.before().items(), *idiom.after().items()):
        if path.endswith(".py"):
            ast.parse(text, path)
    expected = [idiom.expected(target) or () for target in TARGETS]
    edits = any(outcome.split()[1] == "edit" for outcomes in expected for outcome in outcomes)
    assert idiom.edits == edits, "the gutter and the outcomes disagree"


@pytest.mark.parametrize("letter", NUMBERED)
def test_every_idiom_is_here_with_an_outcome_for_each_target(letter: str) -> None:
    for number in range(1, NUMBERED[letter] + 1):
        mine = [idiom for idiom in IDIOMS if idiom.id == f"{letter}{number}"]
        missing = [target for target in TARGETS if all(idiom.expected(target) is None for idiom in mine)]
        assert missing == [], f"{letter}{number} says nothing of these targets"
