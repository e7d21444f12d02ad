"""From a plan to new texts: apply its changes file by file, drop what fails, and see that a second run is quiet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from shardfix.analysis.code.module import ParseFailure
from shardfix.analysis.code.project import Project
from shardfix.analysis.model import Change, Finding, Location, SiteReport
from shardfix.analysis.refusals import REFUSALS
from shardfix.planning import Plan, Without, is_left_out, left_out, make_plan
from shardfix.reading import Reading, reread
from shardfix.rewrite.applier import EditError, apply
from shardfix.rewrite.edits import CreateFile, Edit
from shardfix.rewrite.gates import GateError, check
from shardfix.vendored import Vendored

_ROUNDS = 6  # how often a plan is made anew without what failed


@dataclass(frozen=True)
class Staged:
    """New texts by path that passed every gate, and the project as it would be with them."""

    plan: Plan
    texts: dict[str, str]
    created: dict[str, str]
    after: Project
    dropped: tuple[tuple[Change, str], ...]


def stage(reading: Reading, vendored: Vendored, without: Without) -> Staged:
    """Plan and apply; a change that fails a gate is dropped and the rest is planned again without it."""
    dropped: list[tuple[Change, str]] = []
    for _ in range(_ROUNDS):
        plan = make_plan(
            reading.project,
            reading.chosen,
            reading.options,
            files=reading.files,
            vendored=vendored,
            without=without,
        )
        texts, failed = _apply(reading, plan.changes)
        if not failed:
            after = reread(reading, texts)
            failed = _second_run(reading, vendored, plan, texts, after, without)
            if not failed:
                return Staged(plan, texts, _created(plan.changes), after, tuple(dropped))
        dropped.extend(failed)
        without = without.union(*(left_out(c) for c, _ in failed))
    plan = make_plan(reading.project, (), reading.options)
    return Staged(plan, {}, {}, reading.project, tuple(dropped))


def _created(changes: Sequence[Change]) -> dict[str, str]:
    return {e.path: e.content for c in changes for e in c.edits if isinstance(e, CreateFile)}


def _apply(reading: Reading, changes: Sequence[Change]) -> tuple[dict[str, str], list[tuple[Change, str]]]:
    texts: dict[str, str] = {}
    failed: list[tuple[Change, str]] = []
    for path in sorted({e.path for c in changes for e in c.edits if not isinstance(e, CreateFile)}):
        mine = [c for c in changes if any(e.path == path and not isinstance(e, CreateFile) for e in c.edits)]
        reason = _try(reading, path, mine, texts)
        if not reason:
            continue
        # Find the culprits: add the changes one by one and leave out each that breaks the rest.
        good: list[Change] = []
        for change in mine:
            why = _try(reading, path, [*good, change], texts)
            if why:
                failed.append((change, why))
            else:
                good.append(change)
        if not failed:
            failed.append((mine[-1], reason))
    return texts, failed


def _edits(changes: Sequence[Change], path: str) -> list[Edit]:
    return list(dict.fromkeys(e for c in changes for e in c.edits if e.path == path and not isinstance(e, CreateFile)))


def _try(reading: Reading, path: str, changes: Sequence[Change], texts: dict[str, str]) -> str:
    """Apply these changes to a file and hold the result against the gates; why it failed, empty if it did not."""
    source = reading.texts[path]
    try:
        applied = apply(source.text, _edits(changes, path), path=path)
        check(source.text, applied, path=path)
        replace(source, text=applied.text).encode()
    except (EditError, GateError, RecursionError, ValueError) as error:
        return str(error) or type(error).__name__
    texts[path] = applied.text
    return ""


def _second_run(
    reading: Reading,
    vendored: Vendored,
    plan: Plan,
    texts: dict[str, str],
    after: Project,
    without: Without,
) -> list[tuple[Change, str]]:
    """The changes in whose files a second run, with all facts made anew, would change something again.

    What was left alone on purpose would be planned again; its lines may have moved, so it is known by its text.
    """
    if not texts:
        return []
    try:
        again = make_plan(after, set(texts), reading.options, files=reading.files, vendored=vendored)
    except ParseFailure as failure:
        return [(c, str(failure)) for c in plan.changes]
    alone = {_written(plan, location) for location in plan.sites if is_left_out(location, without)}
    bad = {c.site.path: c for c in again.changes if not any(_written(again, s) in alone for s in c.sites)}
    lost = {p.where: p.message for p in again.problems}
    failed: list[tuple[Change, str]] = []
    for change in plan.changes:
        path = change.site.path
        if path in lost:
            failed.append((change, f"a second run can't read the file: {lost[path]}"))
        elif path in bad:
            failed.append(
                (change, f"a second run would change the file again ({bad[path].title}, line {bad[path].site.line})")
            )
    return failed


def _written(plan: Plan, location: Location) -> tuple[str, str]:
    site = plan.sites[location]
    return location.path, site.module.source.source(site.call)


def report_dropped(
    reports: Sequence[SiteReport], dropped: Sequence[tuple[Change, str]], code: str
) -> tuple[SiteReport, ...]:
    """The site reports with each dropped change told as a refusal."""
    refusal = REFUSALS[code]
    by_site = {location: (change, why) for change, why in dropped for location in change.sites}
    result: list[SiteReport] = []
    for report in reports:
        if report.location in by_site and report.verdict != "edit":
            change, why = by_site[report.location]
            message = f"{refusal.title} ({change.codes[0]}): {why}"
            others = tuple(f for f in report.findings if not f.code.startswith("SHD9"))
            finding = Finding(code, report.location, message, change.evidence, refusal.remedy)
            report = replace(report, verdict="refused", why=message, findings=(*others, finding))
        result.append(report)
    return tuple(result)
