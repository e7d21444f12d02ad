"""What is understood of one evaluation loop, as data: its accumulators, and the statements that are not understood."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Literal

from shardfix.analysis.metrics.meters import Meter

# sum: summed over the ranks it is the one-process value. steps: the number of batches. batch-mean: a sum of means over
# batches. opaque: a sum of what is not seen to be a sum over samples. samples, batches: a list or array with one item
# for each sample, or one piece for each batch. by-batch: a list with one number for each batch. meter: an averaging
# object.
Gathered = Literal["sum", "steps", "batch-mean", "opaque", "samples", "batches", "by-batch", "meter"]


@dataclass(frozen=True, eq=False, slots=True)
class Accumulator:
    """What a loop gathers.

    Args:
        name: as it is written (``correct``, ``self.total``, ``top1``).
        write: the statement that adds to it.
        read: whether anything reads it after the loop.
        why: why its reduced value is not exactly the one-process value; empty if it is.
    """

    name: str
    kind: Gathered
    write: ast.AST
    read: bool
    why: str = ""
    meter: Meter | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Obstacle:
    """The statement that is not understood, and why."""

    node: ast.AST
    why: str


@dataclass(frozen=True, eq=False, slots=True)
class Metric:
    """A loop over a loader, understood as far as it goes.

    Args:
        loader: how the loader is written where it is iterated; empty if it has no name there.
        steps: expressions after the loop that give the number of batches (``len(loader)``, ``i + 1``).
        averaged: calls in the loop that replace a value by its mean over the ranks, taken for that value here.
        shows: whether the loop shows running values.
    """

    loop: ast.For
    loader: str
    accumulators: tuple[Accumulator, ...]
    obstacles: tuple[Obstacle, ...]
    steps: tuple[ast.expr, ...] = ()
    averaged: tuple[ast.Call, ...] = ()
    shows: bool = False


__all__ = ["Accumulator", "Gathered", "Metric", "Obstacle"]
