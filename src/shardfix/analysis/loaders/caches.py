"""Results kept of a pass over a loader before it is prepared, and read by the prepared loader's step."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from shardfix.analysis.code.module import Module
from shardfix.analysis.loaders.flow import Flow
from shardfix.analysis.model import Evidence


@dataclass(frozen=True, slots=True)
class Cache:
    """A list that a raw pass fills batch by batch, and the line that reads it by the prepared loader's step."""

    name: str
    filled: Evidence
    read: Evidence


def cache_by_step(module: Module, flow: Flow) -> Cache | None:
    """The first list that is filled in the order of the raw loader and read in that of a rank's share.

    A cache by the sample's own index is right whatever order the batches come in.
    """
    raw = [u.node for u in flow.of("iterate") if u.prepared is None]
    prepared = [u.node for u in flow.of("iterate") if u.prepared is not None]
    filled = {}
    for loop in raw:
        for target in _filled(loop):
            filled.update(dict.fromkeys(module.bindings.reaching(target), target))
    for loop in prepared if filled else ():
        for item in _by_step(loop):
            for d in module.bindings.reaching(item.value):
                if d in filled:
                    return Cache(ast.unparse(item.value), module.evidence(filled[d]), module.evidence(item))
    return None


def _filled(loop: ast.AST) -> Iterator[ast.expr]:
    """What a loop adds to in the order of its batches: ``kept.append(x)``, ``kept[step] = x``."""
    if isinstance(loop, ast.comprehension):
        return
    step = _counter(loop)
    for n in (n for s in getattr(loop, "body", []) for n in ast.walk(s)):
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "append":
            yield n.func.value
        elif isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) and step and _is_name(n.slice, step):
            yield n.value


def _by_step(loop: ast.AST) -> Iterator[ast.Subscript]:
    """The items that a loop reads by the number of its batch."""
    step = _counter(loop)
    for n in (n for s in getattr(loop, "body", []) for n in ast.walk(s)):
        if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Load) and step and _is_name(n.slice, step):
            yield n


def _counter(loop: ast.AST) -> str:
    """The name of a loop that counts its batches, by ``enumerate``; empty if it has none."""
    target = getattr(loop, "target", None)
    counted = any(
        isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "enumerate"
        for n in ast.walk(getattr(loop, "iter", ast.Pass()))
    )
    if not counted or not isinstance(target, ast.Tuple) or not isinstance(target.elts[0], ast.Name):
        return ""
    return target.elts[0].id


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
