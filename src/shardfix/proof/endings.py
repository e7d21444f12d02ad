"""Judge how a watched run ended: which rank stopped, at which loader, pass and step, and what made it stop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .model import Proof, Verdict
from .observed import Ending, Watched


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """The verdict on a whole run.

    ``cause`` is empty where every rank came to its end, else a code of ``causes.CAUSES`` (``hang``, ``died``,
    ``raises``, ``exits``, ``no-loader``, or the fault of the loader that made it stop). ``rank``, ``loader``,
    ``passes`` and ``step`` are those of the rank that stopped first; ``text`` is its own traceback, or the place where
    it stood.
    """

    verdict: Verdict
    cause: str = ""
    reasons: tuple[str, ...] = ()
    rank: int | None = None
    loader: str = ""
    passes: int = 0
    step: int = 0
    text: str = ""
    world: int = 0
    seconds: float = 0.0
    endings: tuple[Ending, ...] = ()


def judge_run(watched: Watched, proofs: Sequence[Proof] = ()) -> RunVerdict:
    """The verdict on how the run ended; ``proofs`` are those of its loaders, which may name the cause of a hang."""
    raise NotImplementedError
