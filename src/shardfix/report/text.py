"""What a run found, changed and proved, for someone who reads it on a terminal."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from shardfix.analysis.model import Change, Evidence, Finding, SiteReport
from shardfix.guard import PATH as GUARD_PATH
from shardfix.proof.judging.causes import CAUSES
from shardfix.proof.model import Proof
from shardfix.report import checklist as checklists
from shardfix.report.summary import Summary, needs_proof, proof_of, refusal, summarise
from shardfix.report.terminal import Page, Styled
from shardfix.result import RunResult
from shardfix.wording import plural

Maps = Literal["first", "all", "none"]

_FIRST_MAPS = 3
_PATHS_SHOWN = 3
_OF_DROPPED = ("SHD918", "SHD925", "SHD928")  # what a gate or the proof has against a change
_VERDICTS = {
    "edit": Styled("to edit", "yellow"),
    "right": Styled("right", "green"),
    "refused": Styled("refused", "magenta"),
    "not-ours": Styled("not ours", "dim"),
    "kept": Styled("kept", "dim"),
}
_NEXT = "See the edits with `shardfix migrate --diff`, make them with `shardfix migrate`."
PROOFS = {"proven": "green", "refuted": "bold red", "unproven": "yellow"}


def scan_page(result: RunResult) -> Page:
    """Every loader with what it is, what is wrong with it and what to do; then the counts."""
    page = Page()
    _project(page, result)
    for site in result.sites:
        _site(page, site, told=any(f": {finding.message}".endswith(f": {site.why}") for finding in site.findings))
        _owner(page, site)
        _chain(page, site)
        for finding in site.findings:
            _finding(page, finding)
        for change in site.changes:
            _planned(page, change)
    _rest(page, result)
    summary = summarise(result)
    _counts(page, summary)
    if summary.verdicts.get("edit"):
        page.line(_NEXT)
    return page


def migrate_page(
    result: RunResult, titles: Mapping[str, str], *, dry: bool = False, maps: Maps = "first", width: int = 80
) -> Page:
    """Every change with its proof, every refusal with what to do, every other loader in a line; then the counts.

    ``titles`` are the titles of the codes, under which refusals are grouped. ``dry``: the run was not meant to write.
    """
    page = Page()
    _project(page, result)
    drawn = 0
    shown: set[str] = set()
    for change in sorted(result.changes, key=lambda change: change.site):
        proof = proof_of(change, result)
        _change(page, change)
        shown.add(change.id)
        if proof is not None:
            add_proof(page, proof)
            drawn += add_map(page, proof, maps, drawn, width)
        elif needs_proof(change) and result.proofs:  # where none was run, the last line says so
            page.line("    proof: ", Styled("not run", "yellow"))
    _dropped(page, result, titles)
    shown |= {change.id for change, _ in result.dropped}
    _not_applied(page, result, shown)
    _refused(page, result, titles)
    _others(page, result)
    _rest(page, result)
    _counts(page, summarise(result), written=result.written)
    _end_of_migrate(page, result, dry)
    return page


def verify_page(result: RunResult, *, maps: Maps = "first", width: int = 80, checklist: bool | None = None) -> Page:
    """Every loader with the verdict on it and the reasons; ``checklist``: and the answers to the checklist, None where
    there are few loaders."""
    page = Page()
    _project(page, result)
    shown = checklists.is_shown(checklist, len(result.sites))
    proofs: dict[str, list[Proof]] = defaultdict(list)
    for proof in result.proofs:
        proofs[proof.site].append(proof)
    drawn = 0
    for site in result.sites:
        _site(page, site)
        for change in site.changes:
            _planned(page, change)
        mine = proofs.pop(str(site.location), [])
        if not mine:
            page.line("    proof: ", Styled("not run", "dim"))
        for proof in mine:
            add_proof(page, proof)
            # A loader that stands and is proven needs no picture, unless it was asked for.
            if maps == "all" or proof.verdict != "proven":
                drawn += add_map(page, proof, maps, drawn, width)
        if shown:
            checklists.add_checklist(page, site.checklist)
            page.blank()  # a loader is a block by now
    for site_name, others in proofs.items():
        page.line(Styled(site_name, "bold"))
        for proof in others:
            add_proof(page, proof)
    _rest(page, result)
    summary = summarise(result)
    _counts(page, summary)
    _verdicts(page, result)
    if not shown and checklist is None:
        page.line(checklists.ASK_FOR_IT)
    if summary.verdicts.get("edit"):
        page.line(_NEXT)
    return page


def _project(page: Page, result: RunResult) -> None:
    if os.path.realpath(result.root) != os.path.realpath(Path.cwd()):
        page.line(Styled(f"project {result.root}", "bold"))


def _site(page: Page, site: SiteReport, *, told: bool = False) -> None:
    """``told``: what follows says why."""
    page.line(
        Styled(str(site.location), "bold"),
        f"  {site.role}, {site.owner}, {site.sampler or 'default sampler'}: ",
        _VERDICTS[site.verdict],
        # Of a site to edit the changes say why.
        f" ({site.why})" if site.why and not site.changes and not told else "",
    )


def _owner(page: Page, site: SiteReport) -> None:
    for evidence in site.owner_evidence[:1]:
        page.line("    ", Styled(f"{site.owner}: ", "dim"), _evidence(evidence, site.location.path))


def _chain(page: Page, site: SiteReport) -> None:
    for step in site.chain:
        place = f"{step.location.path}:{step.location.line}"
        page.line("    ", Styled(place, "cyan"), f"  {step.text}", Styled(f"  # {step.what}", "dim"))


def _evidence(evidence: Evidence, here: str) -> Styled:
    place = evidence.location
    where = f"line {place.line}" if place.path == here else f"{place.path}:{place.line}"
    return Styled(f"{evidence.text.strip()}  ({where})", "dim")


def _finding(page: Page, finding: Finding) -> None:
    page.line("    ", Styled(finding.code, "yellow"), f" {finding.message}")
    for evidence in finding.evidence[:2]:
        page.line("        ", _evidence(evidence, finding.location.path))
    if finding.remedy:
        page.line("        what to do: ", finding.remedy)


def _planned(page: Page, change: Change) -> None:
    page.line("    edit: ", Styled(" ".join(change.codes), "yellow"), f" {change.title}", f"  [{change.tier}]")
    if change.tier == "unsafe":
        page.line("        only with --unsafe: ", change.reason)


def _change(page: Page, change: Change) -> None:
    page.line(
        Styled(str(change.site), "bold"),
        "  ",
        Styled(" ".join(change.codes), "yellow"),
        f" {change.title}",
        f"  [{change.tier}]",
    )
    if change.also:
        page.line("    also settles: ", ", ".join(map(str, change.also)))
    if change.reason:
        page.line("    why: ", change.reason)
    for consequence in change.consequences:
        page.line("    so: ", consequence)


def add_proof(page: Page, proof: Proof) -> None:
    """The verdict on a loader, its cause with what to do about it, and the reasons."""
    verdict: str = proof.verdict
    # What a refuted loader reads twice is the fault, not padding.
    padded = f", {proof.padded} padded" if proof.padded and verdict != "refuted" else ""
    cause = CAUSES.get(proof.cause)
    page.line("    proof: ", Styled(f"{verdict}{padded}", PROOFS[verdict]), f": {cause.code}" if cause else "")
    for reason in proof.reasons:
        page.line("        ", reason)
    if cause:
        page.line("        what to do: ", cause.remedy)
    if proof.stronger:
        page.line("        a stronger proof: ", Styled(proof.stronger, "", whole=True))
    if proof.control and proof.map_before is not None:
        page.line("        ", proof.control)
    if proof.stand_ins:
        page.line("        assumed: ", "; ".join(f"{item.expression} = {item.value}" for item in proof.stand_ins))


def add_map(page: Page, proof: Proof, maps: Maps, drawn: int, width: int) -> int:
    """Draw who read what, where that tells something; the number of pictures drawn."""
    if maps == "none" or (maps == "first" and (drawn >= _FIRST_MAPS or proof.map_before == proof.map_after)):
        return 0
    from shardfix.proof.shardmap import picture

    lines = picture(proof, width=width - 8)
    for line in lines:
        page.line("        ", *(Styled(text, style) for text, style in line))
    return 1 if lines else 0


def _dropped(page: Page, result: RunResult, titles: Mapping[str, str]) -> None:
    """Changes that were planned and not kept, each with the code of its refusal and, once, why."""
    refusals = {site.location: refusal(site) for site in result.sites}
    for change, reason in result.dropped:
        finding = refusals.get(change.site)
        code = finding.code if finding and finding.code in _OF_DROPPED else ""
        page.line(
            Styled(str(change.site), "bold"),
            "  ",
            Styled(" ".join(change.codes), "yellow"),
            f" {change.title}",
        )
        refused = (": ", Styled(code, "magenta"), f" {titles.get(code, '')}".rstrip()) if code else ()
        part = next((c for c in result.changes if c.codemod == change.codemod and change.site in c.sites), None)
        if part is not None:
            page.line("    ", Styled("left out", "red"), f": {part.codes[0]} is made without it (see above)")
        else:
            page.line("    ", Styled("left as it was", "red"), *refused)
        # The proof of a site of which a part is made is the part's own.
        proof = proof_of(change, result) if part is None else None
        if proof is None or reason != "; ".join(proof.reasons):
            page.line("    why: ", reason)
            if finding and code and finding.remedy:
                page.line("        what to do: ", finding.remedy)
        if proof is not None:
            add_proof(page, proof)


def _not_applied(page: Page, result: RunResult, shown: set[str]) -> None:
    """Changes that were planned but need to be asked for."""
    waiting = {change.id: change for site in result.sites for change in site.changes if change.id not in shown}
    for change in waiting.values():
        _change(page, change)
        if change.tier == "unsafe":
            page.line("    ", Styled("not applied", "magenta"), ": --unsafe applies it")
        else:
            page.line("    ", Styled("not applied", "magenta"))


def _refused(page: Page, result: RunResult, titles: Mapping[str, str]) -> None:
    groups: dict[str, list[tuple[SiteReport, Finding | None]]] = defaultdict(list)
    told = {location for change, _ in result.dropped for location in change.sites}
    for site in result.sites:
        if site.verdict == "refused":
            finding = refusal(site)
            if site.location in told and finding and finding.code in _OF_DROPPED and len(site.findings) == 1:
                continue  # it stands above, with its proof
            groups[finding.code if finding else ""].append((site, finding))
    if groups:
        page.blank()
        page.line(Styled("Refused", "bold"))
    for code, members in sorted(groups.items()):
        remedies = {finding.remedy for _, finding in members if finding and finding.remedy}
        shared = remedies.pop() if len(remedies) == 1 else ""
        title = titles.get(code, "")
        page.line("  ", Styled(code, "magenta"), f" {title}".rstrip(), f"; what to do: {shared}" * bool(shared))
        for site, finding in members:
            why = finding.message if finding else site.why
            more = why.removeprefix(title).removeprefix(": ") if title else why
            page.line("    ", Styled(str(site.location), "bold"), f"  {more}" * bool(more))
            if finding and finding.remedy and not shared:
                page.line("        what to do: ", finding.remedy)
            for other in site.findings:
                if other is not finding:
                    page.line("        ", Styled(other.code, "yellow"), f" {other.message}")


def _others(page: Page, result: RunResult) -> None:
    """The loaders that need nothing, and those whose findings are only told."""
    others = [site for site in result.sites if site.verdict in ("right", "kept", "not-ours")]
    if others:
        page.blank()
        page.line(Styled("Left alone", "bold"))
    for site in others:
        _indented(page, site)
    told = [site for site in result.sites if site.verdict == "edit" and _untold(site)]
    if told:
        page.blank()
        page.line(Styled("Also at the edited loaders", "bold"))
    for site in told:
        page.line("  ", Styled(str(site.location), "bold"))
        for finding in _untold(site):
            _finding(page, finding)


def _untold(site: SiteReport) -> list[Finding]:
    """Findings that none of the site's changes settles."""
    settled = {code for change in site.changes for code in change.codes}
    return [finding for finding in site.findings if finding.code not in settled]


def _indented(page: Page, site: SiteReport) -> None:
    part = Page()
    _site(part, site)
    for finding in site.findings:
        _finding(part, finding)
    page.lines += [(Styled("  ", ""), *line) for line in part.lines]


def _rest(page: Page, result: RunResult) -> None:
    """What belongs to no loader: findings of files, comments that suppress nothing, problems, what was not read."""
    page.blank()
    for finding in result.notes:
        page.line(Styled(str(finding.location), "bold"))
        _finding(page, finding)
    for suppression in result.suppressions:
        codes = ", ".join(suppression.codes)
        if not suppression.used:
            page.line(Styled(suppression.where, "bold"), f"  keep[{codes}] has nothing to suppress; remove it")
    for problem in result.problems:
        page.line(Styled("error: ", "bold red"), str(problem))
    by_reason: dict[str, list[str]] = defaultdict(list)
    for path, reason in result.skipped:
        by_reason[reason].append(path)
    for reason, paths in sorted(by_reason.items()):
        more = f" and {len(paths) - _PATHS_SHOWN} more" if len(paths) > _PATHS_SHOWN else ""
        page.line(Styled("not read", "dim"), f" ({reason}): {', '.join(paths[:_PATHS_SHOWN])}{more}")
    page.blank()


def _counts(page: Page, summary: Summary, *, written: bool = False) -> None:
    page.line(Styled(counts(summary, written=written), "bold"))


def counts(summary: Summary, *, written: bool = False) -> str:
    """All counts of a run in one line."""
    of = summary.verdicts
    parts = [f"{of.get('edit', 0)} {'edited' if written else 'to edit'}", f"{of.get('right', 0)} right"]
    parts.append(f"{of.get('refused', 0)} refused{_by(summary.refusals)}")
    if of.get("not-ours"):
        parts.append(f"{of['not-ours']} of other frameworks{_by(summary.owners_not_ours)}")
    if of.get("kept"):
        parts.append(f"{of['kept']} kept")
    line = f"{plural(summary.sites, 'loader')} in {plural(summary.files, 'file')}: {', '.join(parts)}"
    tail = [
        (summary.shown_unsafe, f"{plural(summary.shown_unsafe, 'change')} waiting for --unsafe"),
        (summary.dropped, f"{plural(summary.dropped, 'change')} dropped"),
        (summary.suppressions_unused, f"{plural(summary.suppressions_unused, 'unused keep comment')}"),
        (summary.skipped, f"{plural(summary.skipped, 'path')} not read"),
        (summary.problems, plural(summary.problems, "error")),
    ]
    return "; ".join([line, *(text for count, text in tail if count)])


def _by(parts: Mapping[str, int]) -> str:
    return f" ({', '.join(f'{name} {count}' for name, count in sorted(parts.items()))})" if parts else ""


def _verdicts(page: Page, result: RunResult) -> None:
    verdicts = summarise(result).proofs
    if verdicts:
        page.line("proofs: ", ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in PROOFS if verdict in verdicts))
    if result.verification:
        page.line(Styled("not verified: ", "yellow"), result.verification.removeprefix("not verified: "))


def _end_of_migrate(page: Page, result: RunResult, dry: bool) -> None:
    for line in result.guard:
        page.line(line)
    _verdicts(page, result)
    if result.changes and not result.proofs and not result.verification:
        page.line(Styled("not verified: ", "yellow"), "--no-verify was given")
    if not result.files:
        page.line("Nothing to change.")
    elif result.written:
        page.line(f"Changed {_names(result)}.")
        created = sorted(change.path for change in result.files if change.before is None and change.path != GUARD_PATH)
        if created:
            page.line(f"New, and imported by what was changed, so commit it too: {', '.join(created)}.")
    else:
        page.line(f"Would change {_names(result)}; nothing was written{'' if dry else ' (see above)'}.")


def _names(result: RunResult) -> str:
    paths: Iterable[str] = sorted(change.path for change in result.files)
    shown = list(paths)
    more = f" and {len(shown) - 5} more" if len(shown) > 5 else ""
    return f"{plural(len(shown), 'file')}: {', '.join(shown[:5])}{more}"
