"""What became of each project of a batch, and the report folder that says so."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import shardfix
from shardfix.batch.projects import Project
from shardfix.report.summary import PROBLEM, exit_of_migrate, has_refusals, lacks_proof
from shardfix.report.terminal import Page, Styled, table
from shardfix.result import RunResult
from shardfix.wording import plural

Kind = Literal["changed", "would-change", "unchanged", "refused-only", "failed", "refuted", "unproven"]

VERSION = 1
_STYLES: dict[Kind, str] = {
    "changed": "green",
    "would-change": "green",
    "unchanged": "dim",
    "refused-only": "magenta",
    "failed": "bold red",
    "refuted": "red",
    "unproven": "yellow",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one project.

    ``message`` says in a line why it failed, or what to know of its proof. ``run`` is the JSON of the run, None if it
    failed; ``patch`` what changes. Plain data, so that it comes whole out of the process that made it.
    """

    project: Project
    kind: Kind
    message: str = ""
    exit: int = 0
    seconds: float = 0.0
    patch: bytes = b""
    run: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class BatchResult:
    """All outcomes, in the order of the projects; ``not_run`` are those that an interrupt kept from being run."""

    outcomes: tuple[Outcome, ...]
    applied: bool
    not_run: tuple[Project, ...] = ()
    interrupted: bool = False

    @property
    def exit(self) -> int:
        """The bits of all projects."""
        code = 0
        for outcome in self.outcomes:
            code |= outcome.exit
        return code


def failed(project: Project, message: str, seconds: float = 0.0) -> Outcome:
    return Outcome(project, "failed", message, PROBLEM, seconds)


def judged(project: Project, result: RunResult, *, strict: bool, require_proof: bool, seconds: float) -> Outcome:
    """The outcome of a run that came to its end."""
    from shardfix.report.json import to_json
    from shardfix.report.patch import patch

    return Outcome(
        project,
        kind_of(result, require_proof=require_proof),
        _message(result),
        exit_of_migrate(result, check=False, strict=strict, require_proof=require_proof),
        seconds,
        patch(result),
        to_json(result),
    )


def kind_of(result: RunResult, *, require_proof: bool = False) -> Kind:
    """The word for a run: the worst that its proofs say, else what became of the files.

    Without a proof (no torch, or not wanted) nothing is `unproven`, unless a proof is required.
    """
    verdicts = {proof.verdict for proof in result.proofs}
    if "refuted" in verdicts:
        return "refuted"
    if "unproven" in verdicts or (require_proof and lacks_proof(result)):
        return "unproven"
    if result.files:
        return "changed" if result.written else "would-change"
    return "refused-only" if has_refusals(result) else "unchanged"


def _message(result: RunResult) -> str:
    reasons = [
        f"{proof.site}: {proof.reasons[0]}" for proof in result.proofs if proof.verdict == "refuted" and proof.reasons
    ]
    reasons += [str(problem) for problem in result.problems]
    if result.verification and result.files:
        reasons.append(f"not verified: {result.verification.removeprefix('not verified: ')}")
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return reasons[0] + more if reasons else ""


def to_json(batch: BatchResult) -> dict[str, Any]:
    """The whole batch (`report/batch_schema.json` describes it)."""
    return {
        "version": VERSION,
        "shardfix": shardfix.__version__,
        "apply": batch.applied,
        "interrupted": batch.interrupted,
        "not_run": [_text(project.path) for project in batch.not_run],
        "outcomes": dict(sorted(Counter(outcome.kind for outcome in batch.outcomes).items())),
        "exit": batch.exit,
        "projects": [
            {
                "name": outcome.project.name,
                "path": _text(outcome.project.path),
                "outcome": outcome.kind,
                "message": _text(outcome.message),
                "seconds": round(outcome.seconds, 3),
                "exit": outcome.exit,
                "patch": patch_name(outcome),
                "run": outcome.run,
            }
            for outcome in batch.outcomes
        ],
    }


def _text(value: str | Path) -> str:
    return str(value).encode("utf-8", "backslashreplace").decode("utf-8")


def patch_name(outcome: Outcome) -> str | None:
    """Where the report folder holds the project's patch; None if nothing changes."""
    return f"patches/{outcome.project.name}.patch" if outcome.patch else None


def write_report(batch: BatchResult, folder: Path) -> None:
    """Fill the report folder. Patches of an earlier batch are taken away: they would be taken for this one's.

    Raises OSError where the folder can't be written.
    """
    import json

    patches = folder / "patches"
    patches.mkdir(parents=True, exist_ok=True)
    for old in patches.glob("*.patch"):
        old.unlink()
    for outcome in batch.outcomes:
        name = patch_name(outcome)
        if name:
            (folder / name).write_bytes(outcome.patch)
    staged = folder / "report.json.part"
    staged.write_text(json.dumps(to_json(batch), indent=1) + "\n", "utf-8")
    os.replace(staged, folder / "report.json")


def batch_page(batch: BatchResult) -> Page:
    """The table of projects, the counts, and what to know of those that need a look."""
    page = Page()
    table(
        page,
        ("project", "outcome", "loaders", "changes", "refused", "not ours", "errors", "proofs"),
        [_row(outcome) for outcome in batch.outcomes],
    )
    page.blank()
    for outcome in batch.outcomes:
        if outcome.message:
            page.line(Styled(outcome.project.name, "bold"), ": ", outcome.message)
    page.blank()
    kinds = Counter(outcome.kind for outcome in batch.outcomes)
    counts = ", ".join(f"{kinds[kind]} {kind}" for kind in _STYLES if kind in kinds) or "nothing was run"
    page.line(Styled(f"{plural(len(batch.outcomes), 'project')}: {counts}", "bold"))
    if batch.not_run:
        page.line(f"interrupted; not run: {', '.join(project.name for project in batch.not_run)}")
    if kinds["would-change"] and not batch.applied:
        page.line("Nothing was written; --apply writes.")
    if any(outcome.run and outcome.run["summary"]["verdicts"].get("refused") for outcome in batch.outcomes):
        page.line("Why loaders are refused: `shardfix scan PROJECT`, or the report.json of --report DIR.")
    return page


def _row(outcome: Outcome) -> tuple[str | Styled, ...]:
    name, kind = Styled(outcome.project.name, "bold"), Styled(outcome.kind, _STYLES[outcome.kind])
    if outcome.run is None:
        return (name, kind, "", "", "", "", "", "")
    summary = outcome.run["summary"]
    proofs = ", ".join(f"{count} {verdict}" for verdict, count in summary["proofs"].items())
    verdicts = summary["verdicts"]
    return (
        name,
        kind,
        str(summary["sites"]),
        str(summary["changes"]),
        str(verdicts.get("refused", 0)),
        str(verdicts.get("not-ours", 0)),
        str(summary["problems"]),
        proofs or "none run",
    )
