"""Run the truth table with an interpreter's own libraries, and hold what comes out against what is believed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import dedent
from typing import Any

from shardfix.proof.running.launch import Verifier
from shardfix.proof.truth.cell import Cell, Outcome, judge_cell
from shardfix.proof.truth.epochs import EPOCHS
from shardfix.proof.truth.hf_trainer import TRAINER
from shardfix.proof.truth.lightning import LIGHTNING
from shardfix.proof.truth.metrics import METRICS
from shardfix.proof.truth.padding import PADDING
from shardfix.proof.truth.processes import PROCESSES
from shardfix.proof.truth.samplers import SAMPLERS
from shardfix.proof.truth.settings import SETTINGS
from shardfix.proof.truth.table import table

# The first set of modules that can be imported counts: Lightning comes as one package, and as two. What torch would
# import when a rank makes its first optimizer is imported before there are ranks: it takes seconds.
MODULES: dict[str, list[list[str]]] = {
    "torch": [["torch", "torch._dynamo"], ["torch"]],
    "accelerate": [["accelerate"]],
    "transformers": [["transformers", "transformers.trainer"]],
    "lightning": [["lightning.fabric", "lightning.pytorch"], ["lightning_fabric", "pytorch_lightning"]],
}


CELLS: tuple[Cell, ...] = (
    *table(),
    *PADDING,
    *EPOCHS,
    *SAMPLERS,
    *PROCESSES,
    *SETTINGS,
    *METRICS,
    *TRAINER,
    *LIGHTNING,
)


@dataclass(frozen=True, slots=True)
class Checkup:
    """What was found with one interpreter.

    Attributes:
        python: its path; ``python_version`` what it is.
        versions: of each library that can be imported; ``reasons`` why the others can't.
        outcomes: one for each cell, in their order.
        ended: why the run ended before its time, if it did.
    """

    python: str
    python_version: str
    versions: Mapping[str, str]
    reasons: Mapping[str, str]
    outcomes: tuple[Outcome, ...]
    ended: str = ""

    @property
    def differing(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.answer == "differs")


def check(
    *,
    python: str | None = None,
    timeout: float = 120.0,
    only: Sequence[Cell] | None = None,
    env: Mapping[str, str] = {},
) -> Checkup:
    """Run every cell whose libraries are there, in one launch.

    Args:
        python: the interpreter whose libraries are asked; by default this one.
        timeout: seconds for all cells.
        only: these cells instead of all.
        env: more variables of the environment (``PYTHONPATH``).

    Raises:
        VerifierError: the interpreter can't be started, or has no torch, gloo or fork.
    """
    chosen = CELLS if only is None else tuple(only)
    needed = {"torch", *(name for cell in chosen for name in cell.needs)}
    job = {
        "libraries": {name: sets for name, sets in MODULES.items() if name in needed},
        "cells": [_task(cell) for cell in chosen],
    }
    with Verifier(python=python, timeout=timeout, env=env) as verifier:
        messages, ended = verifier.hear(job)
        path = verifier.python
    about: Mapping[str, Any] = next((m for m in messages if m["kind"] == "versions"), {})
    # Of a run that was cut short before it said its versions nothing is known, not even what is not installed.
    versions: dict[str, str] = about.get("versions", dict.fromkeys(needed, "of unknown version"))
    ranks = {message["cell"]: message["ranks"] for message in messages if message["kind"] == "cell"}
    outcomes = tuple(judge_cell(cell, versions, ranks.get(number)) for number, cell in enumerate(chosen))
    return Checkup(path, about.get("python", ""), versions if about else {}, about.get("reasons", {}), outcomes, ended)


def _task(cell: Cell) -> dict[str, Any]:
    names = ("prelude", "each_epoch", "needs", "world", "grouped", "size", "epochs")
    return {
        **{name: getattr(cell, name) for name in names},
        "build": dedent(cell.program),
        "waits": bool(cell.expect.waits),
    }
