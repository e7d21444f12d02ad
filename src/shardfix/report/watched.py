"""What was seen of a user's own loaders or script, for someone who reads it on a terminal, and as JSON."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import shardfix
from shardfix.proof.judging.causes import CAUSES
from shardfix.proof.judging.endings import RunVerdict, run_to_json
from shardfix.proof.model import Proof, Verdict, proof_to_json
from shardfix.report.checklist import ASK_FOR_IT, add_checklist, checklist_json, checks_of, is_shown
from shardfix.report.json import VERSION, clean
from shardfix.report.terminal import Page, Styled
from shardfix.report.text import PROOFS, Maps, add_map, add_proof
from shardfix.wording import plural

_TRACEBACK_SHOWN = 20
_OF_ONE = re.compile(r"^(?:every rank|rank 0) ")  # how the reasons of a run in one process begin
_MOST_VISITS = 20_000  # of all ranks in one map of the JSON report
_WORST: tuple[Verdict, ...] = ("refuted", "unproven", "proven")


def watched_page(
    results: Sequence[Proof],
    run: RunVerdict | None = None,
    control: RunVerdict | None = None,
    *,
    maps: Maps = "first",
    width: int = 80,
    checklist: bool | None = None,
) -> Page:
    """Every loader with who reads it, the verdict and its cause, then how the run ended (``None``: a factory).

    Args:
        control: how the same ended in one process, where it was run so.
        checklist: whether the answers to the checklist are shown; None: where there are few loaders.
    """
    page = Page()
    shown = is_shown(checklist, len(results))
    drawn = 0
    for proof in results:
        page.line(Styled(proof.site, "bold"), f"  {proof.told[0]}" if proof.told else "")
        add_proof(page, proof)
        for told in proof.told[1:]:
            page.line("        ", told)
        # What is proven needs no picture, unless it was asked for.
        if maps == "all" or proof.verdict == "refuted":
            drawn += add_map(page, proof, maps, drawn, width)
        if shown and proof.checklist:
            add_checklist(page, checks_of(proof))
            page.blank()  # a loader is a block by now
    if run is not None:
        if results:
            page.blank()
        _run(page, run)
        if control is not None:
            _control(page, control)
    page.blank()
    _counts(page, results, run)
    if not shown and checklist is None:
        page.line(ASK_FOR_IT)
    return page


def _run(page: Page, run: RunVerdict) -> None:
    page.line(Styled("the run", "bold"), f"  {plural(run.world, 'rank')}, {run.seconds:.1f} s")
    cause = CAUSES.get(run.cause)
    words = {"proven": "ended well", "refuted": "failed", "unproven": "says nothing"}
    page.line("    ending: ", Styled(words[run.verdict], PROOFS[run.verdict]), f": {cause.code}" if cause else "")
    for reason in run.reasons:
        page.line("        ", reason)
    if cause:
        page.line("        what to do: ", cause.remedy)
    lines = run.text.rstrip().splitlines()
    if len(lines) > 1:
        page.line("        ", Styled(f"rank {run.rank}'s own words:", "dim"))
        if len(lines) > _TRACEBACK_SHOWN:
            page.line("          ", Styled(f".. {len(lines) - _TRACEBACK_SHOWN} lines more", "dim"))
        for line in lines[-_TRACEBACK_SHOWN:]:
            page.line("          ", Styled(line, "dim"))


def _control(page: Page, control: RunVerdict) -> None:
    """How the script ended in one process; what it read there is in the loaders' proofs."""
    page.line(Styled("the control", "bold"), f"  one process, {control.seconds:.1f} s")
    word = Styled("ended well", "green") if control.verdict == "proven" else Styled("failed", "yellow")
    page.line("    ending: ", word, f": {control.cause}" if control.cause else "")
    for reason in control.reasons[:1] if control.cause else ():
        page.line("        ", _OF_ONE.sub("it ", reason))
        page.line("        what it read until then is compared; the verdict on the ranks is their own")


def _counts(page: Page, results: Sequence[Proof], run: RunVerdict | None) -> None:
    counts = Counter(proof.verdict for proof in results)
    parts = [f"{counts[verdict]} {verdict}" for verdict in ("proven", "refuted", "unproven") if counts[verdict]]
    line = f"{plural(len(results), 'loader')}: {', '.join(parts)}" if results else "no loader was seen"
    ending = ""
    if run is not None and run.verdict != "proven":
        ending = f"; the run {'failed' if run.verdict == 'refuted' else 'says nothing'}: {run.cause}"
    page.line(Styled(line + ending, "bold"))


def worst(results: Sequence[Proof], run: RunVerdict | None = None) -> Verdict:
    """The verdict on everything: refuted before unproven before proven; nothing at all is unproven."""
    verdicts: set[Verdict] = {proof.verdict for proof in results}
    if run is not None:
        verdicts.add(run.verdict)
    if not results:
        verdicts.add("unproven")
    return next(verdict for verdict in _WORST if verdict in verdicts)


def watched_json(
    results: Sequence[Proof], run: RunVerdict | None = None, control: RunVerdict | None = None
) -> dict[str, Any]:
    """The same as data: ``watched`` in ``schema.json``."""
    named = dict.fromkeys([*(proof.cause for proof in results), run.cause if run else ""])
    data = {
        "version": VERSION,
        "shardfix": shardfix.__version__,
        "verdict": worst(results, run),
        "counts": dict(Counter(proof.verdict for proof in results)),
        "loaders": [_loader(proof) for proof in results],
        "causes": {
            code: {"means": CAUSES[code].means, "remedy": CAUSES[code].remedy} for code in named if code in CAUSES
        },
        "run": run_to_json(run) if run is not None else None,
        "control": run_to_json(control) if control is not None else None,
    }
    cleaned: dict[str, Any] = clean(data)
    return cleaned


def _loader(proof: Proof) -> dict[str, Any]:
    data = proof_to_json(proof)
    for name in ("map_before", "map_after"):
        if data[name] is not None:
            data[name] = _cut(data[name])
    data["checklist"] = checklist_json(checks_of(proof))
    return data


def _cut(shards: dict[str, Any]) -> dict[str, Any]:
    """A map with the first steps only, where it is so large that nobody reads it by number."""
    most = _MOST_VISITS // max(1, len(shards["ranks"]))
    if all(sum(map(len, batches)) <= most for batches in shards["ranks"]):
        return shards
    ranks = []
    for batches in shards["ranks"]:
        kept: list[list[int]] = []
        visits = 0
        for batch in batches:
            visits += len(batch)
            if visits > most and kept:
                break
            kept.append(batch[:most])
        ranks.append(kept)
    return {**shards, "ranks": ranks, "expected": shards["expected"][:_MOST_VISITS], "cut": True}
