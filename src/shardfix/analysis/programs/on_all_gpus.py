"""Programs whose one process uses all GPUs by nn.DataParallel, and that deal out to ranks which they never start."""

from __future__ import annotations

import ast
import re

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import DISTRIBUTED_SAMPLER, last_name
from shardfix.analysis.programs.together import together

_DATA_PARALLEL = frozenset({"torch.nn.DataParallel", "torch.nn.parallel.DataParallel"})
# Anything that may start other processes or make their group, here or in a library.
_SEVERAL = re.compile(
    r"init_?(process_group|dist|ddp)|distributed_?data_?parallel|^ddp$|fsdp|setup_?(ddp|dist)|spawn|launch|horovod|^hvd$"
    r"|deepspeed|accelerat|fabric|get_world_size|get_rank",
    re.IGNORECASE,
)
_GPUS = frozenset({"device_count", "n_gpu", "n_gpus", "num_gpus", "ngpus", "ngpu", "num_gpu", "gpu_count"})


def data_parallel(module: Module) -> ast.Call | None:
    """The ``nn.DataParallel(..)`` of a program that has nothing by which several processes could come together, and
    whose samplers are all made for as many ranks as there are GPUs; None in all others."""
    program = together(module.home(module.tree))
    if any(_SEVERAL.search(name) for m in program for name in _names(m)):
        return None
    calls = [c for m in program for c in m.calls]
    samplers = [c for c in calls if DISTRIBUTED_SAMPLER in module.callee(c)]
    if not samplers or not all(for_each_gpu(module.home(c), c) for c in samplers):
        return None
    made = [c for c in calls if not _DATA_PARALLEL.isdisjoint(module.callee(c))]
    return next((c for c in made if module.home(c) is module.home(module.tree)), made[0] if made else None)


def for_each_gpu(module: Module, sampler: ast.Call) -> bool:
    """Whether a DistributedSampler is made for as many ranks as there are GPUs."""
    shares = module.arguments(sampler, DISTRIBUTED_SAMPLER).value("num_replicas")
    return shares is not None and _counts_gpus(module, shares, 0)


def _counts_gpus(module: Module, node: ast.expr, depth: int) -> bool:
    if last_name(node.func if isinstance(node, ast.Call) else node) in _GPUS:
        return True
    if not isinstance(node, (ast.Name, ast.Attribute)) or depth > 3:
        return False
    values = [d.value for d in module.bindings.reaching(node)]
    return bool(values) and all(v is not None and _counts_gpus(module, v, depth + 1) for v in values)


def _names(module: Module) -> set[str]:
    return {n.id if isinstance(n, ast.Name) else n.attr for n in ast.walk(module.tree) if isinstance(n, _NAMED)}


_NAMED = (ast.Name, ast.Attribute)

__all__ = ["data_parallel", "for_each_gpu"]
