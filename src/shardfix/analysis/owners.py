"""Who shards a loader at run time: decided per path from its construction to what consumes it."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from shardfix.analysis.accelerators import is_trainer_hook
from shardfix.analysis.flow import Flow, last_name
from shardfix.analysis.model import Evidence, Options, Owner
from shardfix.analysis.module import Module
from shardfix.analysis.regimes import ProgramRegimes, is_lightning, regime_of

_LIGHTNING_HOOKS = ("train_dataloader", "val_dataloader", "test_dataloader", "predict_dataloader")
_PREPARES = ("prepare", "prepare_data_loader", "setup")
_FIT = ("fit", "validate", "test", "predict")
# Frameworks that bring their own sharding, or a launch of their own, to every loader of a program that uses them.
_PROGRAM_OWNERS: tuple[Owner, ...] = (
    "mesh",
    "jax",
    "xla",
    "ray",
    "composer",
    "ignite",
    "deepspeed",
    "horovod",
    "fabric",
)


@dataclass(frozen=True, slots=True)
class Ownership:
    """The owner and the lines that show it; for ``unknown`` the fact that is missing.

    ``via_accelerate``: nobody shards this loader, but the program runs under an Accelerator.
    """

    owner: Owner
    evidence: tuple[Evidence, ...] = ()
    missing: str = ""
    via_accelerate: bool = False


def ownership(module: Module, call: ast.Call, flow: Flow, regimes: ProgramRegimes, options: Options) -> Ownership:
    """Decide the owner of the loader that ``call`` constructs."""
    hook = _hook(module, call, flow)
    if hook is not None:
        return hook
    direct = _handed_to(module, flow)
    if direct is not None:
        return direct
    prepares = flow.of("prepare")
    if prepares:
        return _prepared(module, flow)
    unseen = _perhaps_prepared(module, flow)
    if unseen is not None:
        return unseen
    ruling = regime_of(regimes, module, call)
    if ruling.missing:
        return Ownership("unknown", ruling.evidence, ruling.missing)
    present = {r.owner for r in ruling.regimes}
    for owner in _PROGRAM_OWNERS:
        if owner in present:
            evidence = ruling.first(owner)
            return Ownership(owner, (evidence,) if evidence else ())
    if flow.bounded:
        return Ownership("unknown", missing="the loader goes through more code than is followed")
    if "lightning" in present and not present & {"ddp", "accelerate"}:
        evidence = ruling.first("lightning")
        assert evidence is not None
        if flow.of("returned", "escape", "argument"):
            return Ownership("lightning", (evidence,))
    accelerate = ruling.first("accelerate")
    if accelerate is not None:
        return _unprepared(module, flow, accelerate)
    ddp = ruling.first("ddp")
    if ddp is not None:
        return Ownership("ddp", (ddp,))
    return Ownership("single")


def _hook(module: Module, call: ast.Call, flow: Flow) -> Ownership | None:
    """A loader made in a ``*_dataloader`` hook of a Lightning class, or in an override of a transformers Trainer."""
    for function in [module.function(call), *(u.node for u in flow.of("returned"))]:
        name = getattr(function, "name", "")
        cls = module.class_of(function) if function is not None else None
        if cls is None or function is None:
            continue
        if is_lightning(module, cls) or (name in _LIGHTNING_HOOKS and _imports_lightning(module)):
            return Ownership("lightning", (module.evidence(cls),))
        if is_trainer_hook(module, function):
            plain = [u.node for u in flow.of("returned") if u.prepared is None and is_trainer_hook(module, u.node)]
            if not flow.of("prepare"):
                return Ownership("hf-trainer", (module.evidence(cls), module.evidence((plain or [function])[0])))
            return _plain_and_prepared(module, flow, plain[0]) if plain else _prepared(module, flow)
    return None


def _plain_and_prepared(module: Module, flow: Flow, hook: ast.AST) -> Ownership:
    prepared, plain = module.evidence(flow.of("prepare")[0].node), module.evidence(hook)
    return Ownership(
        "unknown",
        (prepared, plain),
        f"the loader is prepared in line {prepared.location.line}, and {getattr(hook, 'name', 'a hook')} in line "
        f"{plain.location.line} returns it plain",
    )


def _imports_lightning(module: Module) -> bool:
    roots = {d.module.split(".")[0] for d in module.bindings.definitions if d.kind == "import"}
    return bool(roots & {"lightning", "pytorch_lightning", "lightning_fabric"})


def _handed_to(module: Module, flow: Flow) -> Ownership | None:
    """A loader handed to a framework's own call."""
    for use in flow.of("argument"):
        call = use.node
        if not isinstance(call, ast.Call):
            continue
        callee = module.callee(call)
        if "ray.train.torch.prepare_data_loader" in callee:
            return Ownership("ray", (module.evidence(call),))
        if any(q.startswith("torch_xla.") for q in callee):
            return Ownership("xla", (module.evidence(call),))
        name = last_name(call.func)
        if name == "setup_dataloaders":
            return Ownership("fabric", (module.evidence(call),))
        if name == "auto_dataloader":
            return Ownership("ignite", (module.evidence(call),))
        if name in _FIT and isinstance(call.func, ast.Attribute):
            for d in module.bindings.reaching(call.func.value):
                if isinstance(d.value, ast.Call):
                    for q in module.callee(d.value):
                        if q.startswith(("pytorch_lightning.", "lightning.")) and q.endswith("Trainer"):
                            return Ownership("lightning", (module.evidence(call),))
    return None


def _perhaps_prepared(module: Module, flow: Flow) -> Ownership | None:
    """A loader handed to a call named as those that shard one, of which this file shows too little: a method of a class
    in this file has been followed."""
    for use in flow.of("argument"):
        call = use.node
        if not isinstance(call, ast.Call) or last_name(call.func) not in _PREPARES:
            continue
        evidence = module.evidence(call)
        written = module.source.source(call.func)
        missing = f"line {evidence.location.line} hands the loader to {written}(); whether that shards it is not shown"
        return Ownership("unknown", (evidence,), missing)
    return None


def _prepared(module: Module, flow: Flow) -> Ownership:
    prepares = flow.of("prepare")
    evidence = tuple(module.evidence(u.node) for u in prepares)
    raw = [u for u in flow.of("iterate", "next") if u.prepared is None]
    discarded = [u for u in flow.of("discarded") if u.prepared is not None]
    if raw:
        first = module.evidence(raw[0].node)
        return Ownership(
            "unknown",
            (*evidence, first),
            f"the loader is prepared in line {evidence[0].location.line} and iterated unprepared in line "
            f"{first.location.line}",
        )
    if discarded and not [u for u in flow.of("iterate", "next") if u.prepared is not None]:
        return Ownership("unknown", evidence, "the result of prepare() is not used")
    return Ownership("accelerate", evidence)


def _unprepared(module: Module, flow: Flow, accelerate: Evidence) -> Ownership:
    """A program with an Accelerator in which this loader is not seen to reach ``prepare``."""
    away = [
        u for u in flow.of("argument", "escape", "returned") if u.kind != "argument" or not _iterated(module, u.node)
    ]
    iterated = flow.of("iterate", "next")
    if away and not iterated:
        place = module.evidence(away[0].node)
        return Ownership(
            "unknown",
            (accelerate, place),
            f"the loader leaves this file's sight in line {place.location.line}; whether prepare() gets it is not "
            "shown",
        )
    if not iterated:
        return Ownership("unknown", (accelerate,), "nothing in this file iterates the loader")
    return Ownership("ddp", (accelerate,), via_accelerate=True)


def _iterated(module: Module, node: ast.AST) -> bool:
    parent = module.parents.get(node)
    return isinstance(parent, (ast.For, ast.AsyncFor, ast.comprehension)) and parent.iter is node


__all__ = ["Options", "Ownership", "ownership"]
