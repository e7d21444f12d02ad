"""What a run over one project found, changed and proved: the data that every report shows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shardfix.analysis.model import Change, Finding, SiteReport

if TYPE_CHECKING:
    from shardfix.proof.model import Proof


@dataclass(frozen=True, slots=True)
class FileChange:
    """New bytes of a file, path relative to the project root; ``before`` is None for a new file."""

    path: str
    before: bytes | None
    after: bytes


@dataclass(frozen=True, slots=True)
class Problem:
    """An error in one file or in the project; it makes the exit code 2. ``where`` is ``path:line:col`` or a path."""

    where: str
    message: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" + (f"; {self.remedy}" if self.remedy else "")


@dataclass(frozen=True, slots=True)
class Suppression:
    """A ``# shardfix: keep[CODE] reason`` comment; ``used`` is False where it suppresses nothing."""

    where: str
    codes: tuple[str, ...]
    reason: str
    used: bool


@dataclass(frozen=True)
class RunResult:
    """A run over one project.

    Args:
        root: the project root.
        sites: every site with its verdict, in order of path and line.
        changes: the changes that the new bytes hold, each settled by gates and, where it ran, by the proof.
        dropped: changes planned and not kept, each with the reason (gate, refuted).
        files: new bytes by file; empty if nothing changes.
        problems: errors; findings that belong to a file and to no site are in ``notes``.
        skipped: paths not read, with the reason.
        proofs: one for each change (``verify``: for each loader) that was run.
        verification: why nothing was proven, empty if the proof ran or was not wanted.
        written: whether the files were written.
        guard: what became of the test file that was asked for, line by line.
    """

    root: Path
    sites: tuple[SiteReport, ...] = ()
    changes: tuple[Change, ...] = ()
    dropped: tuple[tuple[Change, str], ...] = ()
    files: tuple[FileChange, ...] = ()
    problems: tuple[Problem, ...] = ()
    notes: tuple[Finding, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    suppressions: tuple[Suppression, ...] = ()
    proofs: tuple[Proof, ...] = ()
    verification: str = ""
    written: bool = False
    scanned_files: int = 0
    guard: tuple[str, ...] = ()
