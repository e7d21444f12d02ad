"""What kind of multi-process program a module is part of, by what it *uses*: an import alone shows nothing."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Literal

from shardfix.analysis.accelerators import is_accelerator, is_hf_trainer, is_prepare
from shardfix.analysis.model import Evidence, Owner
from shardfix.analysis.module import Module
from shardfix.analysis.names import ACCELERATOR, DISTRIBUTED_SAMPLER, INIT_PROCESS_GROUP, WRAPPERS_DDP
from shardfix.analysis.project import Project

_LIGHTNING = ("pytorch_lightning.", "lightning.pytorch.", "lightning.")
_LIGHTNING_CLASSES = ("LightningModule", "LightningDataModule")
_EXACT: dict[str, Owner] = {
    "horovod.torch.init": "horovod",
    "horovod.torch.DistributedOptimizer": "horovod",
    "deepspeed.initialize": "deepspeed",
    "deepspeed.init_distributed": "deepspeed",
    "ray.train.torch.prepare_data_loader": "ray",
    "ray.train.torch.prepare_model": "ray",
    "ray.train.torch.TorchTrainer": "ray",
    "composer.Trainer": "composer",
    "ignite.distributed.auto_dataloader": "ignite",
    "ignite.distributed.Parallel": "ignite",
    "torch.distributed.tensor.parallel.parallelize_module": "mesh",
    "colossalai.launch_from_torch": "mesh",
    "colossalai.initialize": "mesh",
    "accelerate.utils.ParallelismConfig": "mesh",
    "accelerate.parallelism_config.ParallelismConfig": "mesh",
    "jax.pmap": "jax",
    "jax.device_count": "jax",
    "jax.local_device_count": "jax",
    "jax.process_index": "jax",
    "jax.random.PRNGKey": "jax",
}
_MESHES = frozenset(
    {
        "torch.distributed.device_mesh.init_device_mesh",
        "torch.distributed.init_device_mesh",
        "torch.distributed.device_mesh.DeviceMesh",
        "torch.distributed._tensor.DeviceMesh",
        "torch.distributed._tensor.init_device_mesh",
    }
)
_MODEL_PARALLEL = ("get_data_parallel_rank", "get_data_parallel_world_size", "initialize_model_parallel")
_PIPELINES = ("torch.distributed.pipelining.", "torch.distributed.pipeline.")
_FABRIC = frozenset(
    {"lightning.Fabric", "lightning.fabric.Fabric", "lightning_fabric.Fabric", "lightning.fabric.fabric.Fabric"}
)


@dataclass(frozen=True, slots=True)
class Regime:
    """A use that makes a program multi-process, and the line that shows it."""

    owner: Owner
    evidence: Evidence
    node: ast.AST
    what: Literal["init", "wrap", "sampler", "other"] = "other"


def uses(module: Module) -> list[Regime]:
    """Every use in a module that makes its program multi-process."""
    found: list[Regime] = []
    for call in module.calls:
        callee = module.callee(call)
        owner: Owner | None = None
        what: Literal["init", "wrap", "sampler", "other"] = "other"
        if ACCELERATOR in callee:
            owner = "accelerate"
        elif INIT_PROCESS_GROUP in callee:
            owner, what = "ddp", "init"
        elif not callee.isdisjoint(WRAPPERS_DDP):
            owner, what = ("mesh", "other") if _of_a_part(call) else ("ddp", "wrap")
        elif DISTRIBUTED_SAMPLER in callee:
            owner, what = "ddp", "sampler"
        elif not callee.isdisjoint(_FABRIC):
            owner = "fabric"
        else:
            for name in callee:
                if name in _MESHES:
                    owner = None if _of_one_axis(call) else "mesh"
                elif name in _EXACT:
                    owner = _EXACT[name]
                elif name.startswith("torch_xla."):
                    owner = "xla"
                elif name.rsplit(".", 1)[-1] in _MODEL_PARALLEL or name.startswith(_PIPELINES):
                    owner = "mesh"
                elif name.startswith(_LIGHTNING) and name.rsplit(".", 1)[-1] == "Trainer":
                    owner = "lightning"
        if owner is not None:
            found.append(Regime(owner, module.evidence(call), call, what))
    for cls in module.classes:
        if is_lightning(module, cls):
            found.append(Regime("lightning", module.evidence(cls), cls))
    if any(r.what in ("init", "wrap") for r in found):
        # A program of torch's own process group that also draws a key with JAX is no JAX program.
        found = [r for r in found if r.owner != "jax"]
    return found


def _of_a_part(call: ast.Call) -> bool:
    """``DDP(model, process_group=group)``: the ranks of other groups may hold other parts of the model."""
    given = [k.value for k in call.keywords if k.arg == "process_group"]
    return any(not (isinstance(v, ast.Constant) and v.value is None) for v in given)


def _of_one_axis(call: ast.Call) -> bool:
    """``init_device_mesh("cuda", (n,))``: a mesh of one axis is the world, as plain data parallelism has it."""
    shape = (
        call.args[1] if len(call.args) > 1 else next((k.value for k in call.keywords if k.arg == "mesh_shape"), None)
    )
    return isinstance(shape, ast.Tuple) and len(shape.elts) == 1


def is_lightning(module: Module, cls: ast.ClassDef) -> bool:
    """Whether a class is a LightningModule or LightningDataModule."""
    return any(b.startswith(_LIGHTNING) and b.endswith(_LIGHTNING_CLASSES) for b in module.bases(cls))


def function_regimes(module: Module) -> dict[str, list[Regime]]:
    """The uses inside each function or class of a module, by qualified name."""
    found: dict[str, list[Regime]] = {}
    for regime in uses(module):
        node: ast.AST | None = regime.node
        while node is not None:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                found.setdefault(f"{module.name}.{node.name}", []).append(regime)
            node = module.parents.get(node)
    return found


@dataclass(frozen=True)
class ProgramRegimes:
    """The regimes a module is known to run under: by itself, and through modules that import it."""

    own: tuple[Regime, ...]
    outer: tuple[tuple[str, Regime], ...]

    def first(self, owner: Owner) -> Evidence | None:
        """The first evidence of one regime in the module's own program."""
        return next((r.evidence for r in self.own if r.owner == owner), None)


def program_regimes(project: Project) -> dict[str, ProgramRegimes]:
    """For each module the regimes of its own code (calls into project functions included) and of its importers."""
    direct = {path: uses(m) for path, m in project.modules.items()}
    inside: dict[str, list[Regime]] = {}
    for m in project.modules.values():
        inside.update(function_regimes(m))
    own: dict[str, list[Regime]] = {}
    for path, m in project.modules.items():
        found = list(direct[path])
        seen = {id(r) for r in found}
        for call in m.calls:
            for name in m.callee(call):
                for regime in inside.get(name, ()):
                    if id(regime) not in seen:
                        seen.add(id(regime))
                        found.append(Regime(regime.owner, regime.evidence, call, regime.what))
        own[path] = found
    result: dict[str, ProgramRegimes] = {}
    for path in project.modules:
        outer: list[tuple[str, Regime]] = []
        todo, seen_paths = list(project.importers.get(path, ())), {path}
        while todo:
            importer = todo.pop()
            if importer in seen_paths:
                continue
            seen_paths.add(importer)
            outer.extend((importer, r) for r in own[importer])
            todo.extend(project.importers.get(importer, ()))
        outer.sort(key=lambda item: item[1].evidence.location)
        result[path] = ProgramRegimes(tuple(own[path]), tuple(outer))
    return result


__all__ = [
    "ProgramRegimes",
    "Regime",
    "is_accelerator",
    "is_hf_trainer",
    "is_lightning",
    "is_prepare",
    "program_regimes",
    "uses",
]
