"""The loaders that one construction makes: a factory that is called twice makes two, and each goes its own way."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from shardfix.analysis.code.calling import Function
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.code.objects import instance_loads, self_loads
from shardfix.analysis.loaders.flow import Flow, follow
from shardfix.analysis.loops.epochs import SetEpoch, tells

_DEPTH = 8
_KEEPS = frozenset({"cache", "lru_cache", "cached_property"})


@dataclass(frozen=True, eq=False, slots=True)
class Making:
    """One of the loaders of a construction.

    Args:
        node: the call, or the read of a property, that makes it.
        flow: where it goes.
        samplers: where the samplers go that are made with it.
    """

    node: ast.expr
    flow: Flow
    samplers: tuple[Flow, ...]

    def is_told(self, module: Module, told: Sequence[SetEpoch]) -> bool:
        """Whether one of these calls tells this loader or its sampler the epoch."""
        return any(tells(module, call, self.flow, sampler) for call in told for sampler in (None, *self.samplers))


def makings(module: Module, construction: ast.expr, samplers: Sequence[ast.expr]) -> list[Making]:
    """Each loader that a construction makes, where it stands in a function that several calls run."""
    return [
        Making(
            node, follow(module, construction, only=(node,)), tuple(follow(module, s, only=(node,)) for s in samplers)
        )
        for node in _makers(module, construction)
    ]


def _makers(module: Module, construction: ast.expr) -> list[ast.expr]:
    node = construction
    for _ in range(_DEPTH):
        function = module.function(node)
        if not isinstance(function, Function) or function.name == "__init__":
            break
        found = _runs(module, function)
        if len(found) != 1:
            return found
        node = found[0]
    return []


def _runs(module: Module, function: Function) -> list[ast.expr]:
    """The calls of a function, the reads of a property; none where what it returns is kept."""
    decorators = {last_name(d.func if isinstance(d, ast.Call) else d) for d in function.decorator_list}
    if decorators & _KEEPS:
        return []
    cls = module.class_of(function)
    if "property" in decorators and cls is not None:
        return [*self_loads(module, cls, function.name), *instance_loads(module, cls, function.name)]
    return [*module.callers(function)]
