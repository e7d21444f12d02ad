"""Samplers of libraries that give each rank its share by themselves, of what the process group says of the ranks."""

from __future__ import annotations

import ast

from shardfix.analysis.code.module import Module

# lhotse 1.x, dataset/sampling/base.py: a CutSampler takes world_size and rank of torch.distributed where they are not
# given, gives every W-th batch, and draws its order, if shuffle=True, from seed + the epoch that set_epoch tells it.
_LHOTSE = frozenset(
    {
        "BucketingSampler",
        "CutPairsSampler",
        "DynamicBucketingSampler",
        "DynamicCutSampler",
        "SimpleCutSampler",
        "SingleCutSampler",
        "WeightedSimpleCutSampler",
    }
)


def shares_out(module: Module, call: ast.Call) -> bool:
    """Whether a call makes a library's sampler that gives each rank its share: not one that is told of a world of its
    own (``world_size=1``)."""
    if any(k.arg in ("world_size", None) for k in call.keywords):
        return False
    return any(n.startswith("lhotse.") and n.rpartition(".")[2] in _LHOTSE for n in module.callee(call))


def in_order_unless_told(module: Module, call: ast.Call) -> bool:
    """Whether such a sampler keeps an order that no epoch changes: it is not told to shuffle."""
    return shares_out(module, call) and not any(k.arg == "shuffle" for k in call.keywords)


__all__ = ["in_order_unless_told", "shares_out"]
