"""Samplers that give each rank its share, and what becomes of the project's own ones that nobody tells the epoch."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from shardfix.codemods._findings import refuse

from shardfix.analysis.code.module import Module, is_false
from shardfix.analysis.code.names import DISTRIBUTED_SAMPLER, last_name
from shardfix.analysis.loaders.known_samplers import in_order_unless_told, shares_out
from shardfix.analysis.loaders.samplers import Arm
from shardfix.analysis.model import Finding
from shardfix.analysis.sites import Site


def shuffling_arms(site: Site) -> list[Arm]:
    """The DistributedSampler arms of a site that shuffle: ``shuffle`` is left at its default or not literally False."""
    arms = [*site.arms, *(i for b in site.batch_arms for i in b.inner)]
    return [a for a in arms if a.kind == "distributed" and a.constant("shuffle") is not False]


def kept_in_order(module: Module, arm: Arm) -> bool:
    """Whether a sampler of the project's or a library's own is told not to shuffle, or not told to."""
    if not isinstance(arm.node, ast.Call):
        return False
    keywords = arm.node.keywords
    return in_order_unless_told(module.home(arm.node), arm.node) or any(
        k.arg == "shuffle" and is_false(k.value) for k in keywords
    )


def derives(site: Site, arm: Arm) -> bool:
    """Whether a sampler is made of a class of the project that derives from DistributedSampler."""
    classes = site.module.project_classes(arm.node.func) if isinstance(arm.node, ast.Call) else []
    return bool(classes) and all(DISTRIBUTED_SAMPLER in site.module.bases(cls) for cls in classes)


def own_untold(site: Site, own: Sequence[Arm]) -> Finding | str | None:
    """What becomes of samplers of the project's own that give each rank its share and that nobody tells the epoch; None
    where they are told it as a DistributedSampler is."""
    module = site.module
    asking = [a for a in own if _asks_for_epoch(module, a) is not False]
    for arm in asking:
        if _asks_for_epoch(module, arm) is None:
            why = f"{arm.label} gives each rank its share; nothing tells it the epoch, and whether it asks is not seen"
            return refuse(site, "SHD909", instead=why, evidence=(module.evidence(arm.node),))
        if not derives(site, arm):
            why = f"{arm.label} gives each rank its share, and nothing calls its set_epoch"
            return refuse(site, "SHD909", instead=why, evidence=(module.evidence(arm.node),))
    if own and not asking and not shuffling_arms(site):
        return f"{own[0].label} gives each rank its share, in an order that no epoch is told to"
    return None


def _asks_for_epoch(module: Module, arm: Arm) -> bool | None:
    """Whether the order of a sampler of the project's own goes by the epoch that it is told; None if that is not
    seen."""
    classes = module.project_classes(arm.node.func) if isinstance(arm.node, ast.Call) else []
    if not classes:
        known = isinstance(arm.node, ast.Call) and shares_out(module.home(arm.node), arm.node)
        return True if known else None
    for cls in classes:
        derives = DISTRIBUTED_SAMPLER in module.bases(cls)
        if not derives and module.method(cls, "set_epoch") is None:
            continue
        draws = module.method(cls, "__iter__")
        read = {last_name(n) for n in ast.walk(draws) if isinstance(n, (ast.Name, ast.Attribute))} if draws else set()
        if (draws is None and derives) or read & {"epoch", "_epoch", "super"}:
            return True
    return False
