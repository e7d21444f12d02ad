"""Values that each step averages over the ranks: left as each rank has them, their sums being put together later."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from shardfix.analysis.code.module import Module
from shardfix.analysis.metrics.each_step import averaged_value
from shardfix.analysis.metrics.inside import has_part_of_others, made_of_other_ranks
from shardfix.analysis.metrics.model import Metric, Obstacle
from shardfix.analysis.programs.processes import distributed_test
from shardfix.rewrite.edits import DropImport, DropStatement, Edit, ReplaceExpression

_ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant)


def left_apart(module: Module, metric: Metric) -> Iterator[Edit]:
    """``loss = reduce_mean(loss, n)`` goes, and elsewhere the value stands for its mean."""
    gone = {module.statement(call) for call in metric.averaged if _of_itself(module, call)}
    for call in metric.averaged:
        statement = module.statement(call)
        if statement in gone:
            yield DropStatement(*module.place(_with_its_condition(module, statement, gone)))
        else:
            own = averaged_value(module, call)
            assert own is not None
            text = module.source.source(own)
            whole = isinstance(own, _ATOMS) and "\n" not in text
            yield ReplaceExpression(*module.place(call), text if whole else f"({text})")
        if isinstance(call.func, ast.Name):
            yield DropImport(module.path, call.func.id)


def _of_itself(module: Module, call: ast.Call) -> bool:
    """``loss = reduce_mean(loss)``"""
    statement, own = module.statement(call), averaged_value(module, call)
    if not isinstance(statement, ast.Assign) or statement.value is not call or len(statement.targets) != 1:
        return False
    return own is not None and ast.unparse(statement.targets[0]) == ast.unparse(own)


def _with_its_condition(module: Module, statement: ast.stmt, gone: Collection[ast.stmt]) -> ast.stmt:
    """The ``if distributed:`` around a statement, where nothing else is in it."""
    outer = module.parents[statement]
    alone = isinstance(outer, ast.If) and not outer.orelse and all(s in gone for s in outer.body)
    return outer if isinstance(outer, ast.If) and alone and distributed_test(outer.test) is True else statement


def scaled(module: Module, metric: Metric) -> Iterator[Obstacle]:
    """What becomes another number than before: the running values that the loop shows, sums of what was averaged."""
    if not metric.averaged:
        return
    first = metric.averaged[0]
    if metric.shows:
        yield Obstacle(first, f"without `{ast.unparse(first)}` the loop shows each rank's own values")
    within = made_of_other_ranks(module, metric.loop)
    for a in metric.accumulators:
        if a.kind != "meter" and (a.name.partition(".")[0] in within or has_part_of_others(module, a.write, within)):
            yield Obstacle(a.write, f"`{a.name}` added up means over the ranks, and is the sum over all of them now")


__all__ = ["left_apart", "scaled"]
