"""Samplers that deal out to ranks which a program of one process never starts."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardfix.analysis.model import Finding
from shardfix.analysis.programs.on_all_gpus import data_parallel, for_each_gpu
from shardfix.analysis.sites import Site


def of_other_ranks(site: Site) -> Iterator[Finding]:
    """A DistributedSampler for as many ranks as there are GPUs, in a program whose one process runs all GPUs."""
    module = site.module
    arms = [a for a in site.arms if a.kind == "distributed" and a.arguments is not None]
    wrapped = data_parallel(module) if arms and site.owner == "single" else None
    for arm in arms if wrapped is not None else ():
        assert wrapped is not None
        if isinstance(arm.node, ast.Call) and for_each_gpu(module.home(arm.node), arm.node):
            yield Finding(
                "SHD719",
                site.location,
                "nn.DataParallel runs all GPUs from one process, and its sampler deals out to a rank for each GPU: of "
                "N parts one is read, the others never are",
                (module.home(arm.node).evidence(arm.node), module.home(wrapped).evidence(wrapped)),
                "leave the sampler out, with shuffle=True where it shuffled: nn.DataParallel splits each batch",
            )


__all__ = ["of_other_ranks"]
