"""The way of the data, in one page: paths to sources to facts to a plan to new bytes, proven, then written."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from shardfix.analysis.model import Change, Finding, Location
from shardfix.config import Config
from shardfix.guard import PATH as GUARD_PATH
from shardfix.guard import Guard, guard_files, plan_guard
from shardfix.planning import Without, left_out, make_plan
from shardfix.reading import Reading, read_project, relative
from shardfix.result import FileChange, Problem, RunResult
from shardfix.staging import Staged, report_dropped, stage
from shardfix.vendored import is_vendored, read_vendored

if TYPE_CHECKING:
    from shardfix.proof.model import Proof

_ROUNDS = 4  # how often a plan is made anew without what was refuted


class EngineError(Exception):
    """The run can't go on: what is wrong, and what to do."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message, remedy)
        self.message, self.remedy = message, remedy

    def __str__(self) -> str:
        return f"{self.message}; {self.remedy}" if self.remedy else self.message


def scan(paths: Sequence[Path], *, config: Config, why: bool = False) -> RunResult:
    """Every loader of a project with its owner and verdict. Reads only, and runs nothing.

    ``why``: with the whole way of each loader, from its construction to what reads it.

    Raises:
        SourceError: a path that does not exist.
    """
    with _without_collector():
        reading = read_project(paths, config)
        plan = make_plan(reading.project, reading.chosen, reading.options, files=reading.files)
        sites = plan.reports
        if why:
            from shardfix.analysis.why import chain

            sites = tuple(replace(report, chain=chain(plan.sites[report.location])) for report in sites)
    return replace(
        _base(config, reading),
        problems=(*reading.problems, *plan.problems),
        sites=sites,
        changes=plan.changes,
        notes=plan.notes,
        suppressions=plan.suppressions,
    )


def migrate(
    paths: Sequence[Path],
    *,
    config: Config,
    write: bool,
    allow_dirty: bool = False,
    allow_no_vcs: bool = False,
    verify: Literal["auto", "yes", "no"] = "auto",
    python: str | None = None,
    nproc: int = 2,
    timeout: float = 120.0,
    require_proof: bool = False,
    import_project: bool = False,
    guard: bool = False,
) -> RunResult:
    """Rewrite the loaders of a project, prove them, and write what was not refuted.

    Args:
        write: whether the files are written; else the result only holds their new bytes.
        verify: ``auto`` proves where torch is found, ``yes`` fails where it is not, ``no`` runs nothing.
        python: the interpreter that runs the proof, by default this one.
        nproc: ranks of the proof; one more is run as well, so that padding is exercised.
        timeout: seconds for the whole proof.
        require_proof: drop changes that could not be proven.
        import_project: whether the proof may import and run the project's own modules.
        guard: whether a test file is added for the loaders that a function without arguments builds.

    Raises:
        EngineError, SourceError: nothing was written; the message says why and what to do.
    """
    from shardfix.proving import open_verifier, prove_changes

    notes, left = _recover(config.root) if write else ((), ())
    with _without_collector():
        reading = read_project(paths, config, python)
        vendored = read_vendored()
        without: Without = frozenset()
        staged = stage(reading, vendored, without)
        gated = list(staged.dropped)
        if write and staged.texts:
            _may_write(config.root, [config.root / path for path in staged.texts], allow_dirty, allow_no_vcs)
        refuted: list[tuple[Change, str]] = []
        unproven: list[tuple[Change, str]] = []
        proofs: dict[str, Proof] = {}
        own = str(config.root.resolve()) if import_project else ""
        verifier, verification = None, ""
        try:
            if staged.plan.changes and verify != "no":
                verifier, verification = open_verifier(verify, python, nproc, timeout)
            for _ in range(_ROUNDS):
                if verifier is None:
                    break
                proofs.update({p.site: p for p in prove_changes(reading.project, staged, verifier, own)})
                wrong = _failing(staged, proofs, "refuted")
                missing = _failing(staged, proofs, "unproven") if require_proof else []
                if not wrong and not missing:
                    break
                refuted.extend(wrong)
                unproven.extend(missing)
                without = without.union(*(left_out(c) for c, _ in (*wrong, *missing, *gated)))
                staged = stage(reading, vendored, without)
                gated.extend(staged.dropped)
        finally:
            if verifier is not None:
                verifier.close()
    guarded = _guard(reading, staged, config.root) if guard else Guard()
    files = _files(reading, staged, config.root, guard_files(guarded))
    reports = report_dropped(staged.plan.reports, gated, "SHD918")
    reports = report_dropped(reports, refuted, "SHD925")
    reports = report_dropped(reports, unproven, "SHD928")
    problems = [*left, *reading.problems, *staged.plan.problems, *(Problem(str(c.site), why) for c, why in gated)]
    result = replace(
        _base(config, reading),
        sites=reports,
        changes=staged.plan.changes,
        dropped=(*gated, *refuted, *unproven),
        files=files,
        notes=(*notes, *staged.plan.notes),
        suppressions=staged.plan.suppressions,
        problems=tuple(problems),
        proofs=tuple(proofs.values()),
        verification=verification,
        guard=guarded.lines if guard else (),
    )
    if write and files:
        _write(result)
        result = replace(result, written=True)
    return result


def verify(
    paths: Sequence[Path],
    *,
    config: Config,
    python: str | None = None,
    nproc: int = 2,
    timeout: float = 120.0,
    import_project: bool = False,
) -> RunResult:
    """Prove what stands in the code: every loader is run as it is, in several processes.

    Args:
        import_project: whether the proof may import and run the project's own modules.

    Raises:
        EngineError, SourceError: nothing was run; the message says why and what to do.
    """
    from shardfix.analysis.checklist import checklist
    from shardfix.proving import open_verifier, prove_sites

    with _without_collector():
        reading = read_project(paths, config, python)
        plan = make_plan(reading.project, reading.chosen, reading.options, files=reading.files)
        verifier, _ = open_verifier("yes", python, nproc, timeout)
        assert verifier is not None
        try:
            proofs = prove_sites(plan, verifier, str(config.root.resolve()) if import_project else "")
        finally:
            verifier.close()
    return replace(
        _base(config, reading),
        problems=(*reading.problems, *plan.problems),
        sites=tuple(replace(r, checklist=checklist(plan.sites[r.location], r)) for r in plan.reports),
        notes=plan.notes,
        suppressions=plan.suppressions,
        proofs=tuple(proofs),
    )


def _base(config: Config, reading: Reading) -> RunResult:
    return RunResult(
        config.root, problems=reading.problems, skipped=reading.skipped, scanned_files=reading.scanned_files
    )


@contextmanager
def _without_collector() -> Iterator[None]:
    """Trees hold no cycles worth collecting; the collector would cost a tenth of the parsing."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _failing(staged: Staged, proofs: Mapping[str, Proof], verdict: str) -> list[tuple[Change, str]]:
    """The changes of which a site has this verdict, each with the reasons."""
    found: list[tuple[Change, str]] = []
    for change in staged.plan.changes:
        mine = [proofs[str(loc)] for loc in change.sites if str(loc) in proofs]
        bad = next((p for p in mine if p.verdict == verdict), None)
        if bad is not None:
            found.append((change, "; ".join(bad.reasons) or verdict))
    return found


def _guard(reading: Reading, staged: Staged, root: Path) -> Guard:
    """The test file for the project as it will be."""
    place = root / GUARD_PATH
    standing = place.read_text(encoding="utf-8", errors="replace") if place.exists() else None
    return plan_guard(staged.after, reading.options, reading.files, standing)


def _files(
    reading: Reading, staged: Staged, root: Path, beside: Mapping[str, str] | None = None
) -> tuple[FileChange, ...]:
    changes: list[FileChange] = []
    for path, text in sorted(staged.texts.items()):
        after = replace(reading.texts[path], text=text).encode()
        if after != reading.data[path]:
            changes.append(FileChange(path, reading.data[path], after))
    for path, content in sorted({**staged.created, **(beside or {})}.items()):
        place = root / path
        after = content.encode()
        before = place.read_bytes() if place.is_file() else None
        if before is not None and path in staged.created and not is_vendored(before):
            raise EngineError(
                f"{path}: the project has a file of its own where shardfix would put its functions",
                "rename it, or pass --sanitizer-from package",
            )
        if before != after:
            changes.append(FileChange(path, before, after))
    return tuple(sorted(changes, key=lambda c: c.path))


def _recover(root: Path) -> tuple[tuple[Finding, ...], tuple[Problem, ...]]:
    """Bring a write that an earlier run did not end to its end, and say of each file what became of it."""
    from shardfix.sources.write import recover

    done = recover(root)
    if done is None:
        return (), ()
    ended = [(path, "has its new content") for path in done.finished]
    ended += [(path, "has its old content again") for path in done.rolled_back]
    notes = tuple(
        Finding("SHD932", Location(relative(path, root), 1, 1), f"an earlier run was interrupted: this file now {what}")
        for path, what in ended
    )
    problems = tuple(
        Problem(relative(path, root), f"an earlier run was interrupted here: {why}", "compare it with git's version")
        for path, why in done.left
    )
    return notes, problems


def _may_write(root: Path, existing: Sequence[Path], allow_dirty: bool, allow_no_vcs: bool) -> None:
    """See, before the proof is run, that the old files could be brought back.

    Raises:
        EngineError: they could not.
    """
    from shardfix.sources.git import inside_git, is_tracked_dirty, untracked

    if not inside_git(root):
        if not allow_no_vcs:
            raise EngineError(
                f"{root}: not under git, so nothing could bring the old files back",
                "commit the project first, or pass --allow-no-vcs (see --diff for a dry run)",
            )
    elif not allow_dirty:
        dirty = sorted(is_tracked_dirty(root, existing) | untracked(root, existing))
        if dirty:
            names = ", ".join(str(p.relative_to(root)) for p in dirty[:3]) + (", ..." if len(dirty) > 3 else "")
            raise EngineError(
                f"{names}: has changes that are not committed", "commit or stash them, or pass --allow-dirty"
            )


def _write(result: RunResult) -> None:
    from shardfix.sources.write import write_all

    root = result.root
    made = [folder for f in result.files if not (folder := (root / f.path).parent).exists()]
    for folder in made:
        folder.mkdir(parents=True, exist_ok=True)
    try:
        write_all(
            {root / f.path: f.after for f in result.files},
            originals={root / f.path: f.before for f in result.files},
            root=root,
        )
    except BaseException:
        for folder in made:
            with suppress(OSError):
                folder.rmdir()
        raise
