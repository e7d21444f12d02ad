"""The checklist of a loader, as an aligned block on a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from shardfix.analysis.model import Check
from shardfix.proof.judging.checklist import UNPADDED, padded
from shardfix.proof.model import Proof
from shardfix.report.terminal import Page, Styled

ASK_FOR_IT = "`--checklist` answers the checklist for each of them."
FEW = 10  # up to so many loaders have their checklists shown without being asked for
_WIDTH = 14
# What a reader should see first. That there is no check at run time is no fault.
_STYLES = {"unknown": "yellow", "no": "yellow"}


def is_shown(asked: bool | None, loaders: int) -> bool:
    """Whether checklists are shown: as asked, else where they do not bury the verdicts."""
    return loaders <= FEW if asked is None else asked


def add_checklist(page: Page, checks: Iterable[Check], indent: str = "    ") -> None:
    """One line a question, the answers in a column of their own."""
    for check in checks:
        style = _STYLES.get(check.answer, "") if check.question != "sanitizer" else ""
        note = Styled(f"  ({check.note})", "dim") if check.note else ""
        page.line(indent, Styled(check.question.ljust(_WIDTH), "dim"), Styled(check.answer, style), note)


def checklist_json(checks: Iterable[Check]) -> list[dict[str, Any]]:
    return [asdict(check) for check in checks]


def checks_of(proof: Proof) -> tuple[Check, ...]:
    """The rows of a loader that was watched, with what only its proof as a whole can tell.

    A factory's loaders are told the epoch by the run itself, and their padding is that of all numbers of ranks.
    """
    return tuple(_as_a_whole(check, proof) for check in proof.checklist)


def _as_a_whole(check: Check, proof: Proof) -> Check:
    told = next((one.value for one in proof.stand_ins if one.expression == "the epoch"), "")
    if check.question == "epoch told" and told:
        return Check(check.question, "unknown", told)
    if check.question == "counted once" and check.note == UNPADDED and proof.padded:
        return padded(proof.padded)
    return check
