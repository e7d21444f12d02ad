"""Schedules whose length is that of a prepared loader: the prepared scheduler goes through them W times as fast."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.model import Finding
from shardfix.analysis.programs.regimes import is_accelerator
from shardfix.analysis.sites import Site

# DeepSpeed's engine goes one step a call through these, whatever they are prepared by.
_BY_ENGINE = frozenset({"DummyScheduler", "deepspeed_init"})
_NODES = 2000  # of what a schedule is computed of


def schedules(site: Site) -> Iterator[Finding]:
    """A prepared loader's length in a schedule whose scheduler is prepared too: it takes W steps a call."""
    module = site.module
    lengths = [u for u in site.flow.of("length") if u.prepared is not None]
    if not lengths:
        return
    for call in module.calls:
        if not (
            isinstance(call.func, ast.Attribute)
            and call.func.attr == "prepare"
            and is_accelerator(module, call.func.value)
        ):
            continue
        schedulers = [a for a in call.args if "sched" in last_name(a).lower()]
        made_of = {n for scheduler in schedulers for n in _made_of(module, scheduler)}
        later = [u for u in lengths if u.node in made_of]
        scaled = "num_processes" in module.text
        if later and not scaled:
            yield Finding(
                "SHD713",
                site.location,
                "the schedule's length is taken from the prepared loader, and the prepared scheduler makes W steps a "
                "call: the rate reaches its end after 1/W of the training",
                (module.evidence(later[0].node), module.evidence(call)),
                "take len(loader) before prepare(), or multiply by accelerator.num_processes",
            )
            return


def _made_of(module: Module, node: ast.expr) -> set[ast.AST]:
    """What the value of an expression is computed of, through the names of its file."""
    found: set[ast.AST] = set()
    left: list[ast.AST] = [node]
    while left and len(found) < _NODES:
        current = left.pop()
        if current in found or (isinstance(current, ast.Call) and last_name(current.func) in _BY_ENGINE):
            continue
        found.add(current)
        left += ast.iter_child_nodes(current)
        if isinstance(current, (ast.Name, ast.Attribute)):
            left += [d.value for d in module.bindings.reaching(current) if d.value is not None]
    return found
