"""The checklist of a loader, as an aligned block on a terminal and as JSON, and the same rows for a loader that was
watched while it ran."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from shardfix.analysis.model import Check
from shardfix.report.terminal import Page, Styled

if TYPE_CHECKING:
    from shardfix.proof.observed import Built

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


def checklist_of_built(built: Built, world: int) -> list[tuple[str, str]]:
    """The same rows for a loader that was seen on a rank, from what it says of itself.

    Args:
        built: the loader as it is on that rank.
        world: the number of ranks that share the data.

    Returns:
        The question and the answer of each row; what such a loader does not show is left to the source.
    """
    return [
        ("sampler", _sampler(built)),
        ("by hand", "yes" if built.manual else "no"),
        ("split by", _split_by(built, world)),
        ("batch", _batch(built, world)),
        ("counted once", _padded(built, world)),
        ("sanitizer", "unknown (it leaves no trace at run time)"),
        ("epoch told", _epoch(built)),
    ]


def _sampler(built: Built) -> str:
    if built.kind == "stream":
        return "none (a stream)"
    order = {True: ", shuffled", False: ", in order", None: ""}[built.shuffled]
    return (built.sampler or "unknown") + order + (", with replacement" if built.replacement else "")


def _split_by(built: Built, world: int) -> str:
    if world == 1:
        return "nobody (one process)"
    if built.dispatched:
        return "accelerate (dispatch: rank 0 reads and deals out)"
    if built.sharder:
        split = ", each a piece of one batch (split_batches)" if built.split_batches else ""
        return f"{built.sharder} (each rank its own batches{split})"
    if built.shard is not None and built.shard[0] > 1:
        return f"its sampler (part {built.shard[1]} of {built.shard[0]})"
    return "unknown (a stream decides by itself)" if built.kind == "stream" else "nobody (every rank reads all of it)"


def _batch(built: Built, world: int) -> str:
    if built.batch_size is None:
        return "unknown (its batch sampler says no size)"
    many = built.batch_size * world  # of a rank's own step, split_batches or not
    one = many if built.split_batches else built.batch_size
    return f"{one} on one process, {many} on {world}"


def _padded(built: Built, world: int) -> str:
    """Whether a pass visits each sample once; what becomes of the visits in a metric is not seen here."""
    parts = built.shard[0] if built.shard is not None else 1
    if built.draws is None or world == 1 or (parts == 1 and not built.sharder):
        return "unknown (what a metric makes of it is not seen)"
    if built.sharder.startswith("accelerate"):
        per_step = (built.batch_size or 1) * world
        padded = -built.draws % per_step if built.even_batches and not built.drop_last else 0
    else:
        padded = 0 if built.sampler_drop_last else -built.draws % parts
    if padded == 0:
        return "yes (nothing is padded)"
    which = ("1 sample comes", "it") if padded == 1 else (f"{padded} samples come", "them")
    return f"no: {which[0]} twice, unless the metric drops {which[1]}"


def _epoch(built: Built) -> str:
    if built.sharder.startswith("accelerate"):
        return "yes (a prepared loader tells it by itself)"
    if built.shard is None or built.shuffled is False:
        return "- (it asks for none)"
    return "unknown (the passes show it)"
