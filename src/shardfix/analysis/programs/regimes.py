"""What kind of multi-process program a module is part of, by what it *uses*: an import alone shows nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import ACCELERATOR, DISTRIBUTED_SAMPLER, INIT_PROCESS_GROUP, WRAPPERS_DDP
from shardfix.analysis.code.project import Project
from shardfix.analysis.model import Evidence, Launch, Owner
from shardfix.analysis.programs.accelerators import is_accelerator, is_hf_trainer, is_prepare
from shardfix.analysis.programs.processes import distributed_test
from shardfix.analysis.programs.programs import Programs, find_programs
from shardfix.analysis.programs.unit_tests import is_test_path

_LIGHTNING = ("pytorch_lightning.", "lightning.pytorch.", "lightning.")
_LIGHTNING_CLASSES = ("LightningModule", "LightningDataModule")
_EXACT: dict[str, Owner] = {
    "horovod.torch.init": "horovod",
    "horovod.torch.DistributedOptimizer": "horovod",
    "horovod.torch.mpi_ops.init": "horovod",  # where horovod's own project defines them
    "horovod.torch.optimizer.DistributedOptimizer": "horovod",
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
# What starts several XLA processes or gives each its part: `xm.master_print(..)` says nothing.
_XLA = frozenset(
    {
        "spawn",
        "launch",
        "MpDeviceLoader",
        "ParallelLoader",
        "MpSerialExecutor",
        "xrt_world_size",
        "world_size",
        "optimizer_step",
        "all_reduce",
        "all_gather",
        "mesh_reduce",
        "rendezvous",
    }
)
_MODEL_PARALLEL = ("get_data_parallel_rank", "get_data_parallel_world_size", "initialize_model_parallel")
_PIPELINES = ("torch.distributed.pipelining.", "torch.distributed.pipeline.")
_FABRIC = frozenset(
    {"lightning.Fabric", "lightning.fabric.Fabric", "lightning_fabric.Fabric", "lightning.fabric.fabric.Fabric"}
)


@dataclass(frozen=True, slots=True)
class Regime:
    """A use that makes a program multi-process, and the line that shows it.

    Args:
        strong: it starts the processes or hands them the model, so that a program that reaches it is of this regime
            wherever it stands.
        guarded: a condition of the project keeps it from runs of one process.
    """

    owner: Owner
    evidence: Evidence
    node: ast.AST
    what: Literal["init", "wrap", "sampler", "other"] = "other"
    strong: bool = False
    guarded: bool = False


def uses(module: Module) -> list[Regime]:
    """Every use in a module that makes its program multi-process."""
    found: list[Regime] = []
    for call in module.calls:
        callee = module.callee(call)
        owner: Owner | None = None
        what: Literal["init", "wrap", "sampler", "other"] = "other"
        if ACCELERATOR in callee or _derives(module, call, ACCELERATOR):
            owner = "accelerate"
        elif INIT_PROCESS_GROUP in callee:
            owner, what = ("xla", "other") if _over_xla(call) else ("ddp", "init")
        elif not callee.isdisjoint(WRAPPERS_DDP):
            owner, what = ("mesh", "other") if _of_a_part(call) else ("ddp", "wrap")
        elif DISTRIBUTED_SAMPLER in callee or _derives(module, call, DISTRIBUTED_SAMPLER):
            owner, what = "ddp", "sampler"
        elif not callee.isdisjoint(_FABRIC):
            owner = "fabric"
        else:
            for name in callee:
                if name in _MESHES:
                    owner = None if _of_one_axis(call) else "mesh"
                elif name in _EXACT:
                    owner = _EXACT[name]
                elif name.startswith("torch_xla.") and name.rsplit(".", 1)[-1] in _XLA:
                    owner = "xla"
                elif name.rsplit(".", 1)[-1] in _MODEL_PARALLEL or name.startswith(_PIPELINES):
                    owner = "mesh"
                elif name.startswith(_LIGHTNING) and name.endswith((".Trainer", ".Trainer.from_argparse_args")):
                    owner = "lightning"
        if owner is not None:
            strong = what in ("init", "wrap") or (what == "other" and _starts(owner, module.callee(call)))
            guarded = what in ("sampler", "wrap") and _guarded(module, call)
            found.append(Regime(owner, module.evidence(call), call, what, strong, guarded))
    for cls in module.classes:
        if is_lightning(module, cls):
            found.append(Regime("lightning", module.evidence(cls), cls))
    return _settled(found)


def _settled(found: list[Regime]) -> list[Regime]:
    """What stands beside torch's own process group and is none: a key drawn with JAX, Horovod as another choice of how
    to start."""
    aside: set[Owner] = set()
    if any(r.what in ("init", "wrap") for r in found):
        aside.add("jax")
    if any(r.what == "init" for r in found):
        aside.add("horovod")
    return [r for r in found if r.owner not in aside]


def _over_xla(call: ast.Call) -> bool:
    """``init_process_group("xla", ..)``"""
    given = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "backend"), None)
    return isinstance(given, ast.Constant) and given.value == "xla"


def _starts(owner: Owner, callee: frozenset[str]) -> bool:
    """Whether a framework's call starts it, or only asks it something."""
    if owner in ("jax", "xla"):
        return any(name.rsplit(".", 1)[-1] in ("pmap", "spawn", "launch") for name in callee)
    return not any(name.rsplit(".", 1)[-1].startswith("get_") for name in callee)


def _guarded(module: Module, node: ast.AST) -> bool:
    """Whether a condition around a node keeps it from runs of one process."""
    inner = node
    for outer in module.around(node):
        if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            return False
        if isinstance(outer, (ast.If, ast.IfExp)) and inner is not outer.test:
            body = outer.body if isinstance(outer.body, list) else [outer.body]
            if distributed_test(outer.test) is (inner in body):
                return True
        inner = outer
    return False


def _derives(module: Module, call: ast.Call, base: str) -> bool:
    """Whether a call makes an instance of a class of the project that derives from a library's."""
    named = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if not named.lstrip("_")[:1].isupper():
        return False
    return any(base in module.bases(cls) for cls in module.project_classes(call.func))


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
    "mmengine",
    "deepspeed",
    "horovod",
    "fabric",
    "accelerate",
    "ddp",
    "lightning",
)


@dataclass(eq=False)
class ProjectRegimes:
    """Which programs reach which code, and under which regime each program runs.

    What an entry module shows by itself decides. Where it shows nothing, what the code that it reaches does to start
    the processes or to wrap a model: a library may hold much else, for programs that ask for it.
    """

    programs: Programs
    by_path: dict[str, ProgramRegimes]
    uses: list[tuple[Regime, int]]  # with the programs that reach each

    @cached_property
    def ruled(self) -> dict[Owner, int]:
        """The programs of each regime, as bits."""
        ruled: dict[Owner, int] = {}
        far: dict[Owner, int] = {}
        started = 0
        grouped = 0  # the programs that make a process group
        for regime, mask in self.uses:
            if regime.what == "init":
                grouped |= mask
        for regime, mask in self.uses:
            if regime.guarded:
                mask &= grouped  # `if local_rank != -1: model = DDP(model)` of a program that never makes a group
            if regime.strong:
                far[regime.owner] = far.get(regime.owner, 0) | mask
                if regime.owner == "ddp":
                    started |= mask
        far["mesh"] = far.get("mesh", 0) & started  # a library that can split a model is no program that does
        for i, program in enumerate(self.programs.programs):
            own = {r.owner for r in self.by_path[program.path].own if not r.guarded}
            several = any(launch.several for launch in program.launches)
            if several and not own and any(r.what in ("sampler", "wrap") and m >> i & 1 for r, m in self.uses):
                own = {"ddp"}
            shown: Iterable[Owner] = own or (o for o, mask in far.items() if mask >> i & 1)
            first: Owner = min(shown, key=_rank, default="single")
            ruled[first] = ruled.get(first, 0) | 1 << i
        return dict(sorted(ruled.items(), key=lambda item: _rank(item[0])))

    def regimes_of(self, mask: int) -> dict[Owner, int]:
        """Programs by the regime under which each runs."""
        return {owner: mask & programs for owner, programs in self.ruled.items() if mask & programs}

    def shown(self, owner: Owner, mask: int) -> Regime | None:
        """The use that shows the regime of one of these programs: in its entry module, else the first that starts its
        processes."""
        program = next(self.programs.chosen(mask))
        own = [r for r in self.by_path[program.path].own if r.owner == owner]
        reached = [r for r, m in self.uses if r.owner == owner and m & mask & -mask]
        found = own or reached
        return min(found, key=lambda r: (not r.strong, r.evidence.location), default=None)


def _rank(owner: Owner) -> int:
    return ORDER.index(owner) if owner in ORDER else len(ORDER)


def regime_of(regimes: ProgramRegimes, module: Module, node: ast.AST) -> Ruling:
    """The regimes that rule the code around a node: none, and nothing missing, is one process.

    What the module shows by itself counts always. The programs that reach the function of the node add theirs, those of
    a test suite only where no other reaches it; where they are of different kinds the function must say itself what it
    is made for.
    """
    home = module.home(node)
    mine = regimes.project.by_path[home.path]
    programs = regimes.project.programs
    mask = programs.reaching(home, node) & ~programs.tests
    if not mask:
        return _alone(mine)
    ruled = regimes.project.regimes_of(mask)
    if len(ruled) == 1:
        (owner,) = ruled
        if owner == "single":
            own = tuple(r for r in mine.own if not (r.guarded and r.what == "wrap"))
            own = tuple(r for r in own if not _is_of_others(programs, home, r, mask))
            return _alone(replace(mine, own=own)) if own else Ruling()
        shown = regimes.project.shown(owner, mask)
        return Ruling(mine.own if mine.first(owner) or shown is None else (*mine.own, shown))
    here = [r for r in mine.own if programs.same_code(home, r.node, node)]
    if len({r.owner for r in here}) == 1 and here[0].owner in ruled:
        # It says so itself. A DistributedSampler says so to programs of one process, not to those of a framework.
        if any(r.what != "sampler" for r in here) or ruled.keys() <= {"ddp", "single"}:
            return Ruling(tuple(here))
    return _disagreeing(regimes.project, ruled, programs.is_uncalled(home, node))


def _is_of_others(programs: Programs, module: Module, regime: Regime, mask: int) -> bool:
    """Whether a use in a module is run by programs, and by none of these."""
    runs = programs.reaching(module, regime.node) & ~programs.tests
    return bool(runs) and not runs & mask


def _disagreeing(project: ProjectRegimes, ruled: dict[Owner, int], uncalled: bool) -> Ruling:
    words: list[str] = []
    evidence: list[Evidence] = []
    for owner, mask in list(ruled.items())[:3]:
        program = next(project.programs.chosen(mask))
        verb = "uses its class" if uncalled else "runs it"
        words.append(f"{program.path} {verb} {'in one process' if owner == 'single' else f'under {owner}'}")
        shown = project.shown(owner, mask)
        if shown is not None:
            evidence.append(shown.evidence)
    told = " and ".join((", ".join(words[:-1]), words[-1]))
    return Ruling((), f"nothing is seen to call it, {told}" if uncalled else told, tuple(evidence))


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
        path, regime = next((o for o in mine.outer if not is_test_path(o[0])), mine.outer[0])
        return Ruling(
            (),
            f"{path} imports this module and runs under {regime.owner}; what owns the loader is not shown here",
            (regime.evidence,),
        )
    return Ruling()


def _runs(programs: Programs, module: Module, call: ast.Call, regime: Regime) -> bool:
    """Whether what a call runs includes a use: not in a method of the class it calls that its programs do not run."""
    mask = programs.reaching(module, call)
    return not mask or bool(mask & programs.reaching(module.home(regime.node), regime.node))


def program_regimes(project: Project, launches: Sequence[Launch] = ()) -> dict[str, ProgramRegimes]:
    """For each module the regimes of its own code (calls into project functions included), of its importers, and of
    the programs that reach it."""
    direct = {path: uses(m) for path, m in project.modules.items()}
    inside: dict[str, list[Regime]] = {}
    for m in project.modules.values():
        inside.update(function_regimes(m, direct[m.path]))
    programs = find_programs(project, launches)
    own: dict[str, list[Regime]] = {}
    for path, m in project.modules.items():
        found = list(direct[path])
        seen = {id(r) for r in found}
        for call in m.calls:
            for name in m.callee(call):
                for regime in inside.get(name, ()):
                    if regime.owner in ("xla", "jax") and not regime.strong:
                        continue  # `if xla: xm.set_rng_state(seed)` in a library says nothing of who calls it
                    if id(regime) not in seen and _runs(programs, m, call, regime):
                        seen.add(id(regime))
                        found.append(replace(regime, node=call, guarded=regime.guarded or _guarded(m, call)))
        own[path] = _settled(found)
    reached = [(r, programs.reaching(m, r.node)) for path, m in project.modules.items() for r in direct[path]]
    result: dict[str, ProgramRegimes] = {}
    whole = ProjectRegimes(programs, result, reached)
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
        outer.sort(key=lambda item: (item[1].evidence.location, item[0]))
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
