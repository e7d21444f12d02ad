"""Evaluations that combine one result over the ranks and leave another as each rank has it."""

from __future__ import annotations

import ast

from shardfix.codemods._findings import reduces
from shardfix.codemods._mending import hindrance

from shardfix.analysis.code.module import Module
from shardfix.analysis.metrics.model import Accumulator
from shardfix.analysis.metrics.summing import summed
from shardfix.analysis.metrics.understanding import understand
from shardfix.analysis.metrics.values import Values
from shardfix.analysis.model import Evidence, Finding
from shardfix.analysis.sites import Site

_NO_RESULT = ("count", "constant")


def half_combined(site: Site, sampler: Evidence) -> Finding | None:
    """What of a sharded evaluation's result is each rank's own, beside what is combined; None where that is nothing
    but numbers of samples.

    Args:
        sampler: the line that shards it.
    """
    own: list[Accumulator] = []
    shown: list[Evidence] = []
    rest: list[str] = []
    for use in site.flow.of("iterate"):
        metric = understand(site.module, use, site.flow, examples=False)
        if metric is None:
            continue
        module = site.module.home(metric.loop)
        found = summed(module, metric, sharded=True)
        if found.combined and not all(_only_counts(module, metric.loop, a) for a in found.alone):
            own += found.alone
            shown += [module.evidence(a.write) for a in found.alone]
            rest += [a.name for a in found.combined]
    if not own:
        return None
    names = _listed([a.name for a in own])
    why, where = hindrance(site)
    return Finding(
        "SHD503",
        site.location,
        f"the evaluation is sharded and a part of its result is not combined: each rank keeps its own share of {names} "
        f"(line {shown[0].location.line}), and combines {_listed(rest)}"
        + (f"; it is not put together, because {why}" if why else ""),
        tuple(dict.fromkeys((sampler, *shown, *where))),
        f"reduce {names} across ranks as well ({reduces(site)}), before anything is divided by it",
    )


def _only_counts(module: Module, loop: ast.For, accumulator: Accumulator) -> bool:
    added = accumulator.write.value if isinstance(accumulator.write, ast.AugAssign) else None
    return added is not None and Values(module, loop, loop).of(added).kind in _NO_RESULT


def _listed(names: list[str]) -> str:
    quoted = [f"`{name}`" for name in dict.fromkeys(names)]
    return " and ".join([", ".join(quoted[:-1]), quoted[-1]]) if len(quoted) > 1 else quoted[0]


__all__ = ["half_combined"]
