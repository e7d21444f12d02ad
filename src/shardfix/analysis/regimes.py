"""What kind of multi-process program a module is part of, by what it *uses*: an import alone shows nothing."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from shardfix.analysis.accelerators import is_accelerator, is_hf_trainer, is_prepare
from shardfix.analysis.model import Evidence, Owner
from shardfix.analysis.module import Module
from shardfix.analysis.names import ACCELERATOR, DISTRIBUTED_SAMPLER, INIT_PROCESS_GROUP, WRAPPERS_DDP
from shardfix.analysis.programs import Launch, Programs, find_programs, is_test
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
        elif DISTRIBUTED_SAMPLER in callee or _of_a_distributed_sampler(module, call, callee):
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


def _of_a_distributed_sampler(module: Module, call: ast.Call, callee: frozenset[str]) -> bool:
    """Whether a call builds a class of the project that derives from DistributedSampler."""
    if not any("Sampler" in name.rsplit(".", 1)[-1] for name in callee):
        return False
    return any(DISTRIBUTED_SAMPLER in module.bases(cls) for cls in module.project_classes(call.func))


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


def function_regimes(module: Module, found_uses: list[Regime]) -> dict[str, list[Regime]]:
    """The uses inside each function or class of a module, by qualified name."""
    found: dict[str, list[Regime]] = {}
    for regime in found_uses:
        node: ast.AST | None = regime.node
        while node is not None:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                found.setdefault(f"{module.name}.{node.name}", []).append(regime)
            node = module.parents.get(node)
    return found


@dataclass(frozen=True)
class ProgramRegimes:
    """The regimes that a module shows by itself and through modules that import it, and the programs of the project."""

    own: tuple[Regime, ...]
    outer: tuple[tuple[str, Regime], ...]
    project: ProjectRegimes

    def first(self, owner: Owner) -> Evidence | None:
        """The first evidence of one regime in the module's own program."""
        return next((r.evidence for r in self.own if r.owner == owner), None)


@dataclass(frozen=True)
class Ruling:
    """The regimes under which a piece of code runs; none of them, and nothing missing: one process.

    Args:
        missing: why that is not known, with the lines that show it in ``evidence``.
    """

    regimes: tuple[Regime, ...] = ()
    missing: str = ""
    evidence: tuple[Evidence, ...] = ()

    def first(self, owner: Owner) -> Evidence | None:
        """The first evidence of one regime."""
        return next((r.evidence for r in self.regimes if r.owner == owner), None)


# The regime that decides where a program shows several, the first that it shows.
ORDER: tuple[Owner, ...] = (
    "mesh",
    "jax",
    "xla",
    "ray",
    "composer",
    "ignite",
    "deepspeed",
    "horovod",
    "fabric",
    "accelerate",
    "ddp",
    "lightning",
)


@dataclass(eq=False)
class ProjectRegimes:
    """Which programs reach which code, and what each program uses."""

    programs: Programs
    uses: list[tuple[Module, Regime, int]]  # with the programs that reach the use
    by_path: dict[str, ProgramRegimes]

    def __post_init__(self) -> None:
        self.of: dict[Owner, int] = {}  # the programs that use each regime
        started = 0
        for _, regime, mask in self.uses:
            self.of[regime.owner] = self.of.get(regime.owner, 0) | mask
            if regime.what in ("init", "wrap"):
                started |= mask
        if "jax" in self.of:  # a program of torch's own process group that also draws a key with JAX is no JAX program
            self.of["jax"] &= ~started

    def ruled_by(self, mask: int) -> dict[Owner, int]:
        """Programs by the regime that decides in each; those of one process under ``single``."""
        found: dict[Owner, int] = {}
        for owner in ORDER:
            mine = mask & self.of.get(owner, 0)
            if mine:
                found[owner] = mine
                mask &= ~mine
        if mask:
            found["single"] = mask
        return found

    def seen_in(self, mask: int) -> tuple[Regime, ...]:
        """The uses that these programs reach."""
        kept = [r for _, r, reached in self.uses if reached & mask and self.of.get(r.owner, 0) & mask]
        return tuple(sorted(kept, key=lambda r: r.evidence.location))


def regime_of(regimes: ProgramRegimes, module: Module, node: ast.AST) -> Ruling:
    """The regimes that rule the code around a node.

    The programs that reach its function decide, those of a test suite only where no other does; where they are of
    different kinds, what the function uses itself, if anything. Where no program is seen to reach it, what the module
    shows by itself.
    """
    home = module.home(node)
    mine = regimes.project.by_path[home.path]
    programs = regimes.project.programs
    reaching = programs.reaching(home, node)
    mask = reaching & ~programs.tests
    if not mask:
        return _alone(mine)
    ruled = regimes.project.ruled_by(mask)
    here = [r for r in mine.own if programs.same_code(home, r.node, node)]
    if len(ruled) == 1:
        if "single" in ruled:
            return _alone(mine) if mine.own else Ruling()
        return Ruling(_nearest(mine, regimes.project.seen_in(mask)))
    if here and {r.owner for r in here} <= ruled.keys():
        return Ruling(tuple(here)) if len({r.owner for r in here}) == 1 else Ruling(mine.own)
    return _disagreeing(regimes.project, ruled)


def _nearest(mine: ProgramRegimes, seen: tuple[Regime, ...]) -> tuple[Regime, ...]:
    """The uses of the module itself first: their lines are the ones to show."""
    owners = {r.owner for r in seen}
    own = tuple(r for r in mine.own if r.owner in owners)
    return (*own, *(r for r in seen if r.owner not in {o.owner for o in own}))


def _disagreeing(project: ProjectRegimes, ruled: dict[Owner, int]) -> Ruling:
    words: list[str] = []
    evidence: list[Evidence] = []
    for owner, mask in list(ruled.items())[:3]:
        program = next(project.programs.chosen(mask))
        words.append(f"{program.path} runs it {'in one process' if owner == 'single' else f'under {owner}'}")
        shown = [r for r in project.seen_in(mask & -mask) if r.owner == owner]
        evidence += [r.evidence for r in shown[:1]]
    return Ruling((), " and ".join((", ".join(words[:-1]), words[-1])), tuple(evidence))


def _alone(mine: ProgramRegimes) -> Ruling:
    """What a module shows of code that no program is seen to reach."""
    if mine.own:
        elsewhere = next(((path, r) for path, r in mine.outer if r.owner == "accelerate"), None)
        if elsewhere is not None and all(r.owner == "ddp" and r.what == "sampler" for r in mine.own):
            path, regime = elsewhere
            sampler = mine.own[0].evidence
            return Ruling(
                (),
                f"the DistributedSampler in line {sampler.location.line} is all that speaks for ddp here, and {path} "
                "imports this module and runs under accelerate",
                (sampler, regime.evidence),
            )
        return Ruling(mine.own)
    if mine.outer:
        path, regime = next((o for o in mine.outer if not is_test(o[0])), mine.outer[0])
        return Ruling(
            (),
            f"{path} imports this module and runs under {regime.owner}; what owns the loader is not shown here",
            (regime.evidence,),
        )
    return Ruling()


def program_regimes(project: Project, launches: Sequence[Launch] = ()) -> dict[str, ProgramRegimes]:
    """For each module the regimes of its own code (calls into project functions included), of its importers, and of
    the programs that reach it."""
    direct = {path: uses(m) for path, m in project.modules.items()}
    inside: dict[str, list[Regime]] = {}
    for m in project.modules.values():
        inside.update(function_regimes(m, direct[m.path]))
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
    programs = find_programs(project, launches)
    reached = [(m, r, programs.reaching(m, r.node)) for path, m in project.modules.items() for r in direct[path]]
    result: dict[str, ProgramRegimes] = {}
    whole = ProjectRegimes(programs, reached, result)
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
        result[path] = ProgramRegimes(tuple(own[path]), tuple(outer), whole)
    return result


__all__ = [
    "ProgramRegimes",
    "Regime",
    "Ruling",
    "is_accelerator",
    "is_hf_trainer",
    "is_lightning",
    "is_prepare",
    "program_regimes",
    "regime_of",
    "uses",
]
