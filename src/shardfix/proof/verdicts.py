"""Judge loaders that were watched as they are: what each rank read, against what there was to read."""

from __future__ import annotations

from .model import Proof
from .observed import Observed


def judge_observed(
    observed: Observed, *, role: str = "unknown", padding_removed: bool = False, finished: bool = False
) -> Proof:
    """The verdict on one loader as it was read.

    Args:
        observed: what each rank read, pass by pass.
        role: ``train``, ``eval`` or ``unknown``; padding reaches a metric only in an evaluation.
        padding_removed: the program takes padded samples out of its metric (``gather_for_metrics``, by index).
        finished: the program came to its own end on every rank and nothing was cut, so that unequal steps did not hang
            it and what it read is all that it reads.
    """
    raise NotImplementedError
