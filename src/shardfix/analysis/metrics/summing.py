"""Whether a program sums what its evaluation loop gathers over the ranks by itself, right behind the loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.metrics.inside import has_part_of_others, made_of_other_ranks
from shardfix.analysis.metrics.model import Accumulator, Metric, Obstacle
from shardfix.analysis.metrics.twice import reduced_later
from shardfix.analysis.programs.processes import distributed_test

_ALL_REDUCE = "torch.distributed.all_reduce"
_MAKES = frozenset({"tensor", "as_tensor", "Tensor", "FloatTensor", "DoubleTensor", "LongTensor", "stack"})


@dataclass(frozen=True, eq=False, slots=True)
class Summed:
    """Who sums over the ranks what a loop gathers.

    Args:
        alone: what nothing is seen to combine, so that each rank has that of its own share.
        combined: what the program combines, in whatever way.
        why: why the program's own sums are not those of one process; None where they are.
    """

    alone: tuple[Accumulator, ...] = ()
    combined: tuple[Accumulator, ...] = ()
    why: Obstacle | None = None


def summed(module: Module, metric: Metric, *, sharded: bool) -> Summed:
    """Which of what a loop gathers the program sums over all ranks, before anything else reads it.

    Args:
        sharded: whether the program shards the evaluation already, so that its own reduction may be out of sight.
    """
    alone: list[Accumulator] = []
    combined: list[Accumulator] = []
    why: Obstacle | None = None
    within = made_of_other_ranks(module, metric.loop)
    for accumulator in metric.accumulators:
        open_ = _not_summed(module, metric, accumulator)
        inside = accumulator.name.partition(".")[0] in within or has_part_of_others(module, accumulator.write, within)
        if open_ is not None and not inside:
            if reduced_later(module, metric.loop, [accumulator.name], sharded=sharded) is None:
                alone.append(accumulator)
                continue
        combined.append(accumulator)
        why = why or open_
    if metric.steps:
        why = why or Obstacle(metric.steps[0], "it divides by the number of batches")
    return Summed(tuple(alone), tuple(combined), why)


def _not_summed(module: Module, metric: Metric, accumulator: Accumulator) -> Obstacle | None:
    """Why one sum is not seen to be summed over all ranks before anything else reads it."""
    if accumulator.kind not in ("sum", "steps") or accumulator.why:
        return Obstacle(accumulator.write, accumulator.why or f"`{accumulator.name}` is no sum over samples")
    reads = list(_reads(module, metric, accumulator))
    first = reads[0] if reads else None
    if first is None or not (_is_summed(module, metric, first) or _through(module, metric, reads)):
        place = accumulator.write if first is None else module.statement(first)
        return Obstacle(place, f"`{accumulator.name}` is read before it is summed over the ranks")
    return None


def _reads(module: Module, metric: Metric, accumulator: Accumulator) -> Iterator[ast.expr]:
    """The reads of a sum behind its loop, in the order of the lines."""
    scope, end = module.scope(metric.loop), metric.loop.end_lineno or metric.loop.lineno
    found = [
        n
        for n in ast.walk(scope)
        if isinstance(n, (ast.Name, ast.Attribute))
        and isinstance(n.ctx, ast.Load)
        and n.lineno > end
        and ast.unparse(n) == accumulator.name
    ]
    before = {n: [getattr(d.node, "lineno", 0) <= end for d in module.bindings.reaching(n)] for n in found}
    mine = [n for n in found if any(before[n]) or "." in accumulator.name]  # not what the name stands for later on
    yield from sorted(mine, key=lambda n: (n.lineno, n.col_offset))


def _is_summed(module: Module, metric: Metric, node: ast.expr) -> bool:
    """``dist.all_reduce(x)`` with no operation but the sum, run by every rank of a run of several processes."""
    call = module.parents[node]
    if not isinstance(call, ast.Call) or _ALL_REDUCE not in module.callee(call) or call.args[:1] != [node]:
        return False
    operation = [*call.args[1:2], *(k.value for k in call.keywords if k.arg == "op")]
    if operation and last_name(operation[0]) != "SUM":
        return False
    around = set(module.around(metric.loop))
    for outer in module.around(call):
        if outer in around:
            return True
        if isinstance(outer, ast.If):
            if distributed_test(outer.test) is not True or call not in {n for s in outer.body for n in ast.walk(s)}:
                return False
        elif isinstance(outer, (ast.For, ast.While, ast.Try, ast.IfExp)):
            return False
    return True


def _through(module: Module, metric: Metric, reads: list[ast.expr]) -> bool:
    """``both = torch.tensor([correct, total])``, then ``dist.all_reduce(both)``, and nothing else reads the parts."""
    statement = module.statement(reads[0])
    if any(module.statement(r) is not statement for r in reads) or not isinstance(statement, ast.Assign):
        return False
    made, target = statement.value, statement.targets[0]
    while isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) and made.func.attr in ("to", "cuda"):
        made = made.func.value
    if not isinstance(made, ast.Call) or last_name(made.func) not in _MAKES or not isinstance(target, ast.Name):
        return False
    parts = made.args[0].elts if made.args and isinstance(made.args[0], (ast.List, ast.Tuple)) else made.args[:1]
    if any(r not in parts for r in reads):
        return False  # a quotient: the mean of the ranks' means
    kept = [module.bindings.readers(d) for d in module.bindings.definitions_at(target, target.id)]
    readers = sorted((r for group in kept for r in group), key=lambda n: (n.lineno, n.col_offset))
    return bool(readers) and _is_summed(module, metric, readers[0])


__all__ = ["Summed", "summed"]
