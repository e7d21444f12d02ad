"""Count what became of every site, and say what it means for the exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shardfix.analysis.model import Change, Finding, SiteReport
from shardfix.proof.model import Proof
from shardfix.result import RunResult

FAULT = 1
WOULD_CHANGE = 1
REFUSED = 1
PROBLEM = 2
REFUTED = 4
UNPROVEN = 8

# Redundant, sharded twice, unsharded, epoch, evaluation; hazards. Not the sanitizer (6), not refusals (9).
_FAULTS = ("SHD1", "SHD2", "SHD3", "SHD4", "SHD5", "SHD7")
_REFUSAL = "SHD9"
_SANITIZER = "SHD6"
_EXEMPT = ("kept", "not-ours")


@dataclass(frozen=True, slots=True)
class Summary:
    """How many sites there are and what became of them; every site is counted once in ``verdicts``."""

    files: int
    sites: int
    verdicts: Mapping[str, int]
    refusals: Mapping[str, int]
    owners_not_ours: Mapping[str, int]
    changes: int
    tiers: Mapping[str, int]
    shown_unsafe: int
    dropped: int
    changed_files: int
    suppressed: int
    suppressions_unused: int
    skipped: int
    problems: int
    proofs: Mapping[str, int]


def summarise(result: RunResult) -> Summary:
    """The counts of a run."""
    used = [suppression for suppression in result.suppressions if suppression.used]
    settled = {change.id for change in result.changes} | {change.id for change, _ in result.dropped}
    shown = {change.id: change for site in result.sites for change in site.changes if change.id not in settled}
    return Summary(
        files=result.scanned_files,
        sites=len(result.sites),
        verdicts=_count(site.verdict for site in result.sites),
        refusals=_count(_refusal_code(site) for site in result.sites if site.verdict == "refused"),
        owners_not_ours=_count(site.owner for site in result.sites if site.verdict == "not-ours"),
        changes=len(result.changes),
        tiers=_count(change.tier for change in result.changes),
        shown_unsafe=sum(change.tier == "unsafe" for change in shown.values()),
        dropped=len(result.dropped),
        changed_files=len(result.files),
        suppressed=len(used),
        suppressions_unused=len(result.suppressions) - len(used),
        skipped=len(result.skipped),
        problems=len(result.problems),
        proofs=_count(proof.verdict for proof in result.proofs),
    )


def _count(words: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(words).items()))


def refusal(site: SiteReport) -> Finding | None:
    """The finding that says why a site is refused."""
    for finding in site.findings:
        if finding.code.startswith(_REFUSAL):
            return finding
    return site.findings[0] if site.findings else None


def _refusal_code(site: SiteReport) -> str:
    finding = refusal(site)
    return finding.code if finding else "no code"


def proof_of(change: Change, result: RunResult) -> Proof | None:
    """The proof that was run for a change; of several, the one that says the worst."""
    names = {str(site) for site in change.sites} | {change.id}
    found = [proof for proof in result.proofs if proof.site in names]
    order = ("refuted", "unproven", "proven")
    return min(found, key=lambda proof: order.index(proof.verdict), default=None)


def faults(result: RunResult) -> int:
    """How many sites and files stand with a fault: what is cosmetic, kept, refused or not ours does not count."""
    faulty = sum(_is_faulty(site) for site in result.sites)
    return faulty + sum(finding.code.startswith(_FAULTS) for finding in result.notes)


def _is_faulty(site: SiteReport) -> bool:
    if site.verdict in _EXEMPT:
        return False
    harmless = {code for change in site.changes if change.tier in ("cosmetic", "report") for code in change.codes}
    real = {code for change in site.changes if change.tier in ("safe", "unsafe") for code in change.codes}
    said = {finding.code for finding in site.findings}
    return any(code.startswith(_FAULTS) for code in real | (said - harmless))


def has_refusals(result: RunResult) -> bool:
    return bool(result.dropped) or any(site.verdict == "refused" for site in result.sites)


def lacks_proof(result: RunResult) -> bool:
    """Whether a change is not proven, be it kept or, for that reason, dropped."""
    if any(proof.verdict == "unproven" for proof in result.proofs):
        return True
    return any(needs_proof(change) and proof_of(change, result) is None for change in result.changes)


def needs_proof(change: Change) -> bool:
    """Whether a change may alter what is read; the run-time check alone does not."""
    return not all(code.startswith(_SANITIZER) for code in change.codes)


def exit_of_scan(result: RunResult, *, strict: bool) -> int:
    """1 a fault stands (``strict``: or a loader is refused), 2 a problem."""
    code = FAULT if faults(result) or (strict and has_refusals(result)) else 0
    return code | (PROBLEM if result.problems else 0)


def exit_of_migrate(result: RunResult, *, check: bool, strict: bool, require_proof: bool) -> int:
    """1 would change (``check``) or refused (``strict``), 2 a problem, 4 refuted, 8 unproven (``require_proof``)."""
    code = WOULD_CHANGE if check and result.files else 0
    code |= REFUSED if strict and has_refusals(result) else 0
    code |= PROBLEM if result.problems else 0
    code |= REFUTED if any(proof.verdict == "refuted" for proof in result.proofs) else 0
    return code | (UNPROVEN if require_proof and lacks_proof(result) else 0)


def exit_of_verify(result: RunResult) -> int:
    """2 a problem, 4 refuted, 8 unproven; what is kept or not ours does not count."""
    exempt = {str(site.location) for site in result.sites if site.verdict in _EXEMPT}
    verdicts = {proof.verdict for proof in result.proofs if proof.site not in exempt}
    code = PROBLEM if result.problems else 0
    code |= REFUTED if "refuted" in verdicts else 0
    return code | (UNPROVEN if "unproven" in verdicts or result.verification else 0)
