"""What was seen of a user's own loaders or script, for someone who reads it on a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from shardfix.proof.endings import RunVerdict
from shardfix.proof.model import Proof
from shardfix.report.terminal import Page

Maps = Literal["first", "all", "none"]


def watched_page(
    results: Sequence[Proof], run: RunVerdict | None = None, *, maps: Maps = "first", width: int = 80
) -> Page:
    """Every loader with who reads it, the verdict and its cause, then how the run ended (``None``: a factory)."""
    page = Page()
    for proof in results:
        page.line(f"{proof.site}  {proof.verdict} {proof.cause}".rstrip())
    if run is not None:
        page.line(f"run: {run.verdict} {run.cause}".rstrip())
    return page


def watched_json(results: Sequence[Proof], run: RunVerdict | None = None) -> dict[str, Any]:
    """The same as data, described by ``watched_schema.json``."""
    raise NotImplementedError
