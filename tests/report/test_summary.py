"""The exit code follows from what a run says: which loaders count, and which bits add up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from results_by_hand import DOUBLE, KEPT, REFUSED, RIGHT, THEIRS, change, everything, proof, site

from shardfix.analysis.model import Finding, Location
from shardfix.report.summary import exit_of_migrate, exit_of_scan, exit_of_verify, summarise
from shardfix.result import FileChange, Problem, RunResult

ROOT = Path("/project")
FILE = FileChange("train.py", b"a\n", b"b\n")
PROBLEM = Problem("train.py:1:1", "invalid syntax")


def finding(code: str, location: Location = DOUBLE) -> tuple[Finding, ...]:
    return (Finding(code, location, "so it is"),)


@pytest.mark.parametrize(
    ("result", "code"),
    [
        pytest.param(RunResult(ROOT), 0, id="no loader at all"),
        pytest.param(RunResult(ROOT, (site(RIGHT, "right"),)), 0, id="right"),
        pytest.param(
            RunResult(ROOT, (site(KEPT, "kept", findings=finding("SHD201")),)), 0, id="kept by the user, fault or not"
        ),
        pytest.param(
            RunResult(ROOT, (site(THEIRS, "not-ours", findings=finding("SHD912")),)), 0, id="another framework's"
        ),
        pytest.param(
            RunResult(ROOT, (site(REFUSED, "refused", findings=finding("SHD901")),)),
            0,
            id="refused: not known to be wrong",
        ),
        pytest.param(
            RunResult(
                ROOT,
                (site(DOUBLE, "edit", changes=(change(code="SHD103", tier="cosmetic"),), findings=finding("SHD103")),),
            ),
            0,
            id="cosmetic: reads the same either way",
        ),
        pytest.param(
            RunResult(ROOT, (site(DOUBLE, "edit", findings=finding("SHD601")),)), 0, id="only the run-time check"
        ),
        pytest.param(RunResult(ROOT, (site(DOUBLE, "edit", changes=(change(),)),)), 1, id="sharded twice"),
        pytest.param(
            RunResult(ROOT, (site(DOUBLE, "edit", changes=(change(tier="unsafe"),)),)), 1, id="unsafe to repair"
        ),
        pytest.param(RunResult(ROOT, (site(RIGHT, "right", findings=finding("SHD703")),)), 1, id="hazard"),
        pytest.param(RunResult(ROOT, notes=finding("SHD710")), 1, id="hazard of a file"),
        pytest.param(
            RunResult(ROOT, (site(REFUSED, "refused", findings=finding("SHD301") + finding("SHD904")),)),
            1,
            id="refused, but known to be wrong",
        ),
        pytest.param(RunResult(ROOT, problems=(PROBLEM,)), 2, id="a file can't be read"),
        pytest.param(RunResult(ROOT, (site(DOUBLE, "edit", changes=(change(),)),), problems=(PROBLEM,)), 3, id="both"),
    ],
)
def test_scan_exits_with_1_where_a_fault_stands(result: RunResult, code: int) -> None:
    assert exit_of_scan(result, strict=False) == code


def test_strict_scan_counts_refusals_but_never_other_frameworks() -> None:
    refused = RunResult(ROOT, (site(REFUSED, "refused", findings=finding("SHD901")),))
    assert exit_of_scan(refused, strict=True) == 1
    assert exit_of_scan(RunResult(ROOT, (site(THEIRS, "not-ours"), site(KEPT, "kept"))), strict=True) == 0


@pytest.mark.parametrize(
    ("result", "asked", "code"),
    [
        pytest.param(RunResult(ROOT, files=(FILE,), written=True), {}, 0, id="written is done"),
        pytest.param(RunResult(ROOT), {"check": True}, 0, id="nothing would change"),
        pytest.param(RunResult(ROOT, files=(FILE,)), {"check": True}, 1, id="would change"),
        pytest.param(RunResult(ROOT, (site(REFUSED, "refused"),)), {}, 0, id="refused is done"),
        pytest.param(RunResult(ROOT, (site(REFUSED, "refused"),)), {"strict": True}, 1, id="strict: refused is not"),
        pytest.param(RunResult(ROOT, problems=(PROBLEM,)), {}, 2, id="an unreadable file"),
        pytest.param(RunResult(ROOT, proofs=(proof("refuted"),)), {}, 4, id="refuted"),
        pytest.param(
            RunResult(ROOT, changes=(change(),), proofs=(proof("unproven"),)), {}, 0, id="unproven, no proof wanted"
        ),
        pytest.param(
            RunResult(ROOT, changes=(change(),), proofs=(proof("unproven"),)), {"require_proof": True}, 8, id="unproven"
        ),
        pytest.param(RunResult(ROOT, changes=(change(),)), {"require_proof": True}, 8, id="no proof was run"),
        pytest.param(RunResult(ROOT, changes=(change(),), proofs=(proof(),)), {"require_proof": True}, 0, id="proven"),
        pytest.param(
            RunResult(ROOT, changes=(change(code="SHD601"),)),
            {"require_proof": True},
            0,
            id="the check itself needs no proof",
        ),
        pytest.param(
            replace(everything(ROOT), proofs=(proof("refuted"), proof("unproven", RIGHT))),
            {"check": True, "strict": True, "require_proof": True},
            1 | 2 | 4 | 8,
            id="all bits",
        ),
    ],
)
def test_migrate_exit_bits(result: RunResult, asked: dict[str, bool], code: int) -> None:
    wanted = {"check": False, "strict": False, "require_proof": False, **asked}
    assert exit_of_migrate(result, **wanted) == code


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (RunResult(ROOT, proofs=(proof(),)), 0),
        (RunResult(ROOT, proofs=(proof("refuted"),)), 4),
        (RunResult(ROOT, proofs=(proof("unproven"),)), 8),
        (RunResult(ROOT, proofs=(proof("refuted"), proof("unproven", RIGHT)), problems=(PROBLEM,)), 14),
        (RunResult(ROOT, (site(RIGHT, "right"),), verification="torch is not installed"), 8),
        (RunResult(ROOT, (site(THEIRS, "not-ours"),), proofs=(proof("unproven", THEIRS),)), 0),
        (RunResult(ROOT, (site(KEPT, "kept"),), proofs=(proof("refuted", KEPT),)), 0),
    ],
)
def test_verify_exit_bits(result: RunResult, code: int) -> None:
    assert exit_of_verify(result) == code


def test_every_site_is_counted_once() -> None:
    summary = summarise(everything(ROOT))
    assert summary.verdicts == {"edit": 3, "kept": 1, "not-ours": 1, "refused": 1, "right": 1}
    assert sum(summary.verdicts.values()) == summary.sites == 7
    assert summary.refusals == {"SHD901": 1}
    assert (summary.changes, summary.dropped, summary.shown_unsafe) == (1, 1, 1)
    assert (summary.suppressed, summary.suppressions_unused, summary.skipped, summary.problems) == (1, 1, 1, 1)
