"""Evaluations that all ranks are let into are proven like others: every rank gets the metric that one process has."""

from __future__ import annotations

import pytest
from alone_programs import PROGRAMS as IN_MEMORY
from held_programs import HELD
from loading_programs import LOADING

from shardfix.config import Asked, load
from shardfix.engine import migrate
from shardfix.result import RunResult

PROGRAMS = (*IN_MEMORY, *LOADING, *HELD)
# One function evaluates on several data sets: what the loop gives is proven, not what is made of it elsewhere.
SEVERAL = {"two evaluations in one condition", "the data of several evaluations is built in a function of its own"}
# What is made of the metric stands under a condition afterwards, and is not run.
ALONE = {
    "checkpoints are listed, loaded and evaluated, the features kept in a file",
    "what is made of the predictions is written, and is the main process's own",
    "the result is sent in a list that the others make by else",
}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    """All programs as the scripts of one project, changed and proven in one launch."""
    pytest.importorskip("torch")
    root = tmp_path_factory.mktemp("proven")
    for number, program in enumerate(PROGRAMS):
        (root / f"train_{number:02d}.py").write_text(program.text)
        if program.other:
            (root / program.other[0]).write_text(program.other[1])
    config = load(root, Asked(unsafe=True, sanitizer="off"))
    return migrate([root], config=config, write=False, allow_no_vcs=True, verify="yes", timeout=600)


@pytest.mark.parametrize("number", range(len(PROGRAMS)), ids=[p.name for p in PROGRAMS])
def test_every_rank_gets_the_metric_of_one_process(result: RunResult, number: int) -> None:
    path = f"train_{number:02d}.py"
    proofs = [p for p in result.proofs if p.site.startswith(path)]
    assert proofs, [s.why for s in result.sites if s.location.path == path]
    verdicts = {p.verdict for p in proofs}
    assert verdicts <= ({"proven", "unproven"} if PROGRAMS[number].name in SEVERAL | ALONE else {"proven"}), [
        p.reasons for p in proofs
    ]
    assert any("the original reads" in told for p in proofs for told in p.told) or "unproven" in verdicts


def test_nothing_is_refuted(result: RunResult) -> None:
    assert [why for _, why in result.dropped] == []
    assert len(result.changes) == len(PROGRAMS)
