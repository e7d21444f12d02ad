"""Every cause is written down once, and nothing names another."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import shardfix.proof
from shardfix.proof.judging.causes import CAUSES, root

HOUSE = Path(shardfix.proof.__file__).parent


@pytest.mark.parametrize("code", CAUSES)
def test_a_cause_is_a_sentence_and_a_remedy(code: str) -> None:
    cause = CAUSES[code]
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", code)
    assert re.fullmatch(r"[A-Z][^.]*\.", cause.means), cause.means
    assert not cause.remedy.endswith(".")


@pytest.mark.parametrize(
    "name",
    [
        *("judging/faults.py", "judging/verdicts.py", "judging/endings.py", "judging/judge.py", "judging/control.py"),
        *("judging/unchanged.py", "running/factory.py"),
    ],
)
def test_every_code_that_a_judge_gives_is_known(name: str) -> None:
    text = (HOUSE / name).read_text("utf-8")
    given = re.findall(
        r'(?:Fault\(|\.fail\([^"]*"[^"]*", [^"]*(?:f?"[^"]*")?[^"]*, |stopped\(\w+, |"refuted", )"([a-z -]+)"', text
    )
    given += re.findall(r'cause="([a-z-]+)"', text)
    assert set(given) - {""} <= CAUSES.keys()


def test_the_root_brings_the_others_about() -> None:
    assert root(["frozen-epoch", "sharded-twice"]) == "sharded-twice"
    assert root(["missing", "overlap", "stale-epoch-on-one-rank"]) == "stale-epoch-on-one-rank"
    assert root([]) == ""
