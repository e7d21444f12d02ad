"""What an evaluation gathers that takes one sample in each step, whose ranks may make other numbers of steps."""

from __future__ import annotations

import ast
from dataclasses import replace

from shardfix.analysis.code.module import Module
from shardfix.analysis.loaders.flow import Flow, Use
from shardfix.analysis.metrics.model import Accumulator, Metric, Obstacle
from shardfix.analysis.metrics.modes import may_train
from shardfix.analysis.metrics.understanding import understand
from shardfix.analysis.ranks.waiting import waits

_TRAINS = "the model is not seen to be set to evaluation, and in training what it gives may be drawn"


def understand_single(module: Module, use: Use, flow: Flow, *, examples: bool) -> Metric | None:
    """What one loop gathers whose every batch is of one sample; None for a comprehension.

    A count of batches is one of samples then, a mean over a batch the value of its sample, and whatever is made of a
    batch is made of that sample alone. The loop is read as one over batches, and where that says too little as one over
    samples.
    """
    found = understand(module, use, flow, examples=examples)
    if found is None:
        return None
    trains = may_train(module.home(found.loop), found.loop)
    read = replace(found, accumulators=tuple(_of_samples(a, trains=trains) for a in found.accumulators))
    if not _is_exact(read):
        other = understand(module, use, flow, examples=examples, single=True)
        if other is not None and (_is_exact(other) or (read.obstacles and not other.obstacles)):
            read = other
    waiting = waits(module, read.loop) if not read.obstacles else None
    if waiting is None:
        return read
    why = f"it takes one sample at a time, with which some ranks make a step more than others, and {waiting.why}"
    remedy = "batches of two or more can be shared in equal numbers"
    return replace(read, obstacles=(*read.obstacles, Obstacle(waiting.node, f"{why}; {remedy}")))


def _is_exact(metric: Metric) -> bool:
    return not metric.obstacles and not any(a.why for a in metric.accumulators)


def _of_samples(accumulator: Accumulator, *, trains: bool) -> Accumulator:
    why = _TRAINS if trains else ""
    if accumulator.kind == "steps":
        return replace(accumulator, kind="sum", why="")
    if accumulator.kind == "batch-mean":
        return replace(accumulator, kind="sum", why=why)
    return accumulator  # a list with one value for each batch may hold a running sum: read as one of samples it shows


def takes_one(size: ast.expr | None) -> bool:
    """Whether a loader of this ``batch_size`` takes one sample at a time; it does by default."""
    return size is None or (isinstance(size, ast.Constant) and size.value == 1)


__all__ = ["takes_one", "understand_single"]
