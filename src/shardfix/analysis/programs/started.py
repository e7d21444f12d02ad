"""Programs whose ranks DeepSpeed or Horovod starts: neither touches a loader that it is not given, so the sampler alone
shards it, as under DistributedDataParallel."""

from __future__ import annotations

import ast
import re
from weakref import WeakKeyDictionary

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import DATA_LOADER
from shardfix.analysis.loaders.samplers import arms
from shardfix.analysis.model import Owner
from shardfix.analysis.programs.together import together

# Ranks of one model-parallel group read the same samples: shards are not by the rank of the world there.
_IN_PARTS = re.compile(r"Pipeline(Module|Engine)|LayerSpec|Ulysses|(sequence|tensor|model)_?parallel|^mpu$", re.I)
_NORMS = re.compile(r"batch_?norm|torchvision|timm|resnet", re.I)
_KNOWN: WeakKeyDictionary[Module, bool] = WeakKeyDictionary()


def sampler_shards(module: Module, call: ast.Call, owner: Owner) -> bool:
    """Whether a loader of a program that DeepSpeed or Horovod starts is shared out by its sampler, or by nothing.

    ``deepspeed.initialize`` makes a loader of its own of ``training_data=`` and takes none (deepspeed 0.16); Horovod
    knows no loaders (0.28). Of Horovod's programs only those with a DistributedSampler are meant: they have no process
    group that could give another one its rank.
    """
    if owner == "horovod":
        given = module.arguments(call, DATA_LOADER).value("sampler")
        found = arms(module, given) if given is not None else ()
        return any(arm.kind == "distributed" or (arm.kind == "custom" and arm.rank_aware) for arm in found)
    return owner == "deepspeed" and not _in_parts(module)


def _in_parts(module: Module) -> bool:
    """Whether anything in a program speaks of models that are split over ranks."""
    home = module.home(module.tree)
    if home not in _KNOWN:
        _KNOWN[home] = any(_IN_PARTS.search(name) for m in together(home) for name in _names(m))
    return _KNOWN[home]


def buffers_apart(module: Module) -> str:
    """The first file of a program that names layers with running means, or a library of models that have them: their
    means are each rank's own under DeepSpeed, while DistributedDataParallel sends the first rank's (torch 2.13)."""
    found = (m.path for m in together(module.home(module.tree)) if any(_NORMS.search(n) for n in _words(m)))
    return next(found, "")


def _words(module: Module) -> set[str]:
    return _names(module) | {d.module for d in module.bindings.definitions if d.kind == "import"}


def _names(module: Module) -> set[str]:
    read = {n.id if isinstance(n, ast.Name) else n.attr for n in ast.walk(module.tree) if isinstance(n, _NAMED)}
    return read | {k.arg for c in module.calls for k in c.keywords if k.arg and _given(k.value)}


_NAMED = (ast.Name, ast.Attribute)


def _given(value: ast.expr) -> bool:
    return not (isinstance(value, ast.Constant) and value.value in (None, False, 0, 1))


__all__ = ["buffers_apart", "sampler_shards"]
