"""Whether ranks may make other numbers of steps in a loop: nothing that it runs may wait for the others."""

from __future__ import annotations

import ast

from shardfix.analysis.code.module import Module
from shardfix.analysis.loops.evaluation import is_reduction
from shardfix.analysis.metrics.losses import near
from shardfix.analysis.metrics.model import Obstacle
from shardfix.analysis.metrics.modes import may_train
from shardfix.analysis.ranks.reach import Reach
from shardfix.analysis.state.plain_calls import sends, shows_synced_norm, waiting_model

_OF_DATA = ("__getitem__", "__getitems__", "__iter__", "__len__")


def waits(module: Module, loop: ast.For) -> Obstacle | None:
    """The first thing in a loop that waits for the other ranks, or is not seen not to; None where there is none."""
    module = module.home(loop)
    reach = Reach(module, loop)
    found = next(reach.run(module, loop), None)
    if found is None and reach.sent is not None and reach.learning is not None:
        return Obstacle(reach.learning, "gradients are turned on: DistributedDataParallel then waits in each step")
    return found or _beside(module, loop, reach)


def _beside(module: Module, loop: ast.For, reach: Reach) -> Obstacle | None:
    """What the files that a loop's model may come through do to a model in place, and what a dataset waits for."""
    passed = [module, *(module.home(n) for n in (*reach.seen, *reach.handed))]
    files = list(dict.fromkeys(m for one in dict.fromkeys(passed) for m in near(one)))
    files = list(dict.fromkeys((*files, *(m for one in near(module) for m in near(one)))))
    for m in files:
        named = waiting_model(m)
        if named:
            return Obstacle(loop, f"{m.path} names `{named}`, and what it makes may wait for the other ranks in a step")
        for f in (f for f in m.functions if f.name in _OF_DATA or "collate" in f.name.lower()):
            if any(_is_of_others(m, n) for n in ast.walk(f)):
                return Obstacle(loop, f"`{f.name}` in {m.path}:{f.lineno} knows of the other ranks")
    if any(map(shows_synced_norm, files)) and may_train(module, loop):
        return Obstacle(loop, "the model may have SyncBatchNorm, and is not seen to be set to evaluation")
    return None


def _is_of_others(module: Module, node: ast.AST) -> bool:
    named = isinstance(node, (ast.Name, ast.Attribute)) and any(sends(q) for q in module.qualify(node))
    return named or (isinstance(node, ast.Call) and is_reduction(module, node))


__all__ = ["waits"]
