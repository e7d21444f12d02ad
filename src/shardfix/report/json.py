"""What a run found, changed and proved, as JSON (`schema.json` beside this file describes it)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import shardfix
from shardfix.analysis.model import Change, Evidence, Finding, Location, SiteReport, Step
from shardfix.proof.model import proof_to_json
from shardfix.report.checklist import checklist_json
from shardfix.report.patch import diffs
from shardfix.report.summary import proof_of, summarise
from shardfix.result import RunResult

VERSION = 1


def document(results: Sequence[RunResult]) -> dict[str, Any]:
    """The run over one project, or over several under ``projects``."""
    if len(results) == 1:
        return to_json(results[0])
    return {"version": VERSION, "projects": [to_json(result) for result in results]}


def to_json(result: RunResult) -> dict[str, Any]:
    """Everything that a run over one project says; nothing is left out or counted only.

    Characters that UTF-8 can't hold (from undecodable file names) are written as escapes.
    """
    data = {
        "version": VERSION,
        "shardfix": shardfix.__version__,
        "root": str(result.root),
        "summary": asdict(summarise(result)),
        "sites": [_site(site) for site in result.sites],
        "changes": _changes(result),
        "proofs": [proof_to_json(proof) for proof in result.proofs],
        "verification": result.verification,
        "files": _files(result),
        "written": result.written,
        "guard": list(result.guard),
        "findings": [_finding(finding) for finding in result.notes],
        "suppressions": [asdict(suppression) for suppression in result.suppressions],
        "skipped": [{"path": path, "reason": reason} for path, reason in result.skipped],
        "problems": [asdict(problem) for problem in result.problems],
    }
    cleaned: dict[str, Any] = clean(data)
    return cleaned


def _site(site: SiteReport) -> dict[str, Any]:
    return {
        **_location(site.location),
        "role": site.role,
        "owner": site.owner,
        "owner_evidence": [_evidence(evidence) for evidence in site.owner_evidence],
        "sampler": site.sampler,
        "verdict": site.verdict,
        "why": site.why,
        "findings": [_finding(finding) for finding in site.findings],
        "changes": [change.id for change in site.changes],
        **({"chain": [_step(step) for step in site.chain]} if site.chain else {}),
        **({"checklist": checklist_json(site.checklist)} if site.checklist else {}),
    }


def _step(step: Step) -> dict[str, Any]:
    return {**_location(step.location), "text": step.text, "what": step.what}


def _location(location: Location) -> dict[str, Any]:
    return asdict(location)


def _evidence(evidence: Evidence) -> dict[str, Any]:
    return {**_location(evidence.location), "text": evidence.text}


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        **_location(finding.location),
        "code": finding.code,
        "message": finding.message,
        "remedy": finding.remedy,
        "evidence": [_evidence(evidence) for evidence in finding.evidence],
    }


def _changes(result: RunResult) -> list[dict[str, Any]]:
    """Every change, in order of its site: those the new bytes hold, those dropped, those only shown."""
    state = "written" if result.written else "ready"
    found: dict[str, dict[str, Any]] = {}
    for change in result.changes:
        found[change.id] = _change(change, state, "", result)
    for change, reason in result.dropped:
        found[change.id] = _change(change, "dropped", reason, result)
    for site in result.sites:
        for change in site.changes:
            if change.id not in found:
                found[change.id] = _change(change, "shown", "", result)
    return sorted(found.values(), key=lambda entry: (entry["path"], entry["line"], entry["column"], entry["id"]))


def _change(change: Change, state: str, dropped_because: str, result: RunResult) -> dict[str, Any]:
    proof = proof_of(change, result)
    return {
        "id": change.id,
        **_location(change.site),
        "also": [_location(location) for location in change.also],
        "codemod": change.codemod,
        "codes": list(change.codes),
        "tier": change.tier,
        "title": change.title,
        "state": state,
        "dropped_because": dropped_because,
        "reason": change.reason,
        "consequences": list(change.consequences),
        "evidence": [_evidence(evidence) for evidence in change.evidence],
        "edits": [{"kind": type(edit).__name__, **asdict(edit)} for edit in change.edits],
        "proof": proof.verdict if proof else None,
    }


def _files(result: RunResult) -> list[dict[str, Any]]:
    return [
        {
            "path": change.path,
            "sha256_before": None if change.before is None else hashlib.sha256(change.before).hexdigest(),
            "sha256_after": hashlib.sha256(change.after).hexdigest(),
            # For reading: bytes that are not UTF-8 show as escapes. `--patch` gives the very bytes.
            "diff": diff.decode("utf-8", "backslashreplace"),
        }
        for change, diff in diffs(result)
    ]


def clean(value: Any) -> Any:
    """The value with what UTF-8 can't hold written as escapes."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, Mapping):
        return {clean(key): clean(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(item) for item in value]
    return value
