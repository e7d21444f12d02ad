"""Who shards a loader at run time: decided per path from its construction to what consumes it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import ACCELERATOR, last_name
from shardfix.analysis.loaders.ahead import has_sampler, is_peek, is_same_alone, reads_ahead, replaced_before
from shardfix.analysis.loaders.flow import Flow, Use, follow
from shardfix.analysis.loaders.libraries import library_of
from shardfix.analysis.model import Evidence, Options, Owner
from shardfix.analysis.programs.accelerators import is_prepare, is_trainer_hook
from shardfix.analysis.programs.frameworks import (
    is_combined_loader,
    is_lightning_hook,
    is_set_as_hook,
    leaves_sampler,
    makes_trainer,
    may_be_lightning_hook,
    may_take,
    only_iterates,
    takes,
    trains,
)
from shardfix.analysis.programs.on_all_gpus import data_parallel
from shardfix.analysis.programs.regimes import ProgramRegimes, Ruling, is_lightning, regime_of
from shardfix.analysis.programs.started import sampler_shards
from shardfix.analysis.programs.unit_tests import is_unit_test

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
# Those that shard what is handed to them and nothing else.
_HANDED_OVER: frozenset[Owner] = frozenset({"fabric", "ray", "composer", "ignite"})
_SETTINGS = frozenset(
    {"split_batches", "dispatch_batches", "even_batches", "use_seedable_sampler", "dataloader_config"}
)


@dataclass(frozen=True, slots=True)
class Ownership:
    """The owner and the lines that show it; for ``unknown`` the fact that is missing.

    ``via_accelerate``: nobody shards this loader, but the program runs under an Accelerator. ``note``: what else is to
    be said of a loader that is right. ``targeted``: the source shows one process, the user says that several will run.
    ``started_by``: the framework that starts the ranks where that is not torch (``deepspeed``, ``horovod``); under
    Horovod there is no process group of torch.
    """

    owner: Owner
    evidence: tuple[Evidence, ...] = ()
    missing: str = ""
    via_accelerate: bool = False
    note: str = ""
    targeted: bool = False
    started_by: Owner | None = None


@dataclass(frozen=True, slots=True)
class _Path:
    """A way on which the loader comes under an owner, and the node that shows it."""

    owner: Owner
    node: ast.AST


def ownership(module: Module, call: ast.Call, flow: Flow, regimes: ProgramRegimes, options: Options) -> Ownership:
    """Decide the owner of the loader that ``call`` constructs."""
    shown = _by_use(module, call, flow, regimes)
    library = library_of(module, call) if shown is None or shown.owner == "unknown" else None
    if library is not None:
        return Ownership(library, (module.evidence(call),))
    if shown is not None:
        return shown
    ruling = regime_of(regimes, module, call)
    if ruling.missing:
        return Ownership("unknown", ruling.evidence, ruling.missing)
    ruling = _of_its_test(module, call, ruling)
    present = {r.owner for r in ruling.regimes}
    for owner in _PROGRAM_OWNERS:
        if owner in present:
            evidence = ruling.first(owner)
            assert evidence is not None
            if present <= {owner, "ddp"} and sampler_shards(module, call, owner):
                if flow.bounded:
                    break
                return Ownership("ddp", (evidence,), started_by=owner)
            return _under(module, call, flow, owner, evidence)
    if flow.bounded:
        return Ownership("unknown", missing="the loader goes through more code than is followed")
    if "lightning" in present and not present & {"ddp", "accelerate"}:
        evidence = ruling.first("lightning")
        assert evidence is not None
        if flow.uses:
            return _beside_lightning(module, call, flow, evidence)
    accelerate = ruling.first("accelerate")
    if accelerate is not None:
        return _unprepared(module, call, flow, accelerate, options.prepare_functions)
    ddp = ruling.first("ddp")
    if ddp is not None:
        said = all(r.what == "sampler" for r in ruling.regimes) and not _started_several(module, call, regimes)
        alone = data_parallel(module) if said else None
        return Ownership("ddp", (ddp,)) if alone is None else Ownership("single", (module.home(alone).evidence(alone),))
    return Ownership("single")


def _started_several(module: Module, call: ast.Call, regimes: ProgramRegimes) -> bool:
    """Whether a line outside of Python starts a program that reaches a loader in several processes."""
    programs = regimes.project.programs
    mask = programs.reaching(module.home(call), call)
    return any(launch.several for program in programs.chosen(mask) for launch in program.launches)


def _of_its_test(module: Module, call: ast.Call, ruling: Ruling) -> Ruling:
    """The regimes of a file without those that stand in other tests than the loader's: a test runner runs each test as
    a program of its own, and a model's class runs nothing."""
    mine = _test_around(module, call)
    if mine is None:
        return ruling
    places = [(r, _test_around(module, r.node)) for r in ruling.regimes]
    kept = [r for r, at in places if at is mine or (at is None and not isinstance(r.node, ast.ClassDef))]
    return replace(ruling, regimes=tuple(kept))


def _test_around(module: Module, node: ast.AST) -> ast.AST | None:
    """The test function of a test suite in which code stands."""
    functions = [n for n in module.around(node) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    if not functions or not functions[-1].name.startswith("test") or not is_unit_test(module.home(node)):
        return None
    return functions[-1]


def _by_use(module: Module, call: ast.Call, flow: Flow, regimes: ProgramRegimes) -> Ownership | None:
    """What the ways of the loader itself show; None if on none of them something takes it."""
    paths = list(_paths(module, call, flow))
    owners = list(dict.fromkeys(p.owner for p in paths))
    first = {p.owner: p for p in reversed(paths)}
    if not owners:
        return _perhaps(module, call, flow)
    if len(owners) > 1:
        if set(owners) == {"accelerate", "hf-trainer"}:
            return _plain_and_prepared(module, call, flow, first["hf-trainer"].node)
        a, b = (module.evidence(first[owner].node) for owner in owners[:2])
        missing = f"{owners[0]} takes the loader in {_at(a, call, module)}, {owners[1]} in {_at(b, call, module)}"
        return Ownership("unknown", (a, b), missing)
    owner, shown = owners[0], first[owners[0]]
    evidence = module.evidence(shown.node)
    if owner == "accelerate":
        return _prepared(module, call, flow, regimes)
    if owner == "hf-trainer":
        cls = module.class_of(shown.node)
        return Ownership(owner, (*((module.evidence(cls),) if cls is not None else ()), evidence))
    raw = _raw(module, flow, paths)
    if raw is not None and not is_peek(module, raw):
        other = module.evidence(raw.node)
        missing = (
            f"{owner} takes the loader in {_at(evidence, call, module)}, and {_at(other, call, module)} iterates it "
            "as it is"
        )
        return Ownership("unknown", (evidence, other), missing)
    told = _told_to_leave(module, shown, regimes)
    if told is not None and not has_sampler(module, call):
        other = module.evidence(told)
        missing = (
            f"{owner} is told in {_at(other, call, module)} to leave samplers alone; whether anything else shards the "
            "loader is not shown"
        )
        return Ownership("unknown", (evidence, other), missing)
    if owner == "lightning" and isinstance(shown.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        cls = module.class_of(shown.node)
        return Ownership(owner, (module.evidence(cls) if cls is not None else evidence,))
    return Ownership(owner, (evidence,))


def _paths(module: Module, call: ast.Call, flow: Flow, combined: frozenset[ast.AST] = frozenset()) -> Iterator[_Path]:
    """Everything that takes the loader: ``prepare``, a framework's call, or the hook that gives it to one.

    Args:
        combined: the CombinedLoaders that hold it, each of which goes its own way.
    """
    for use in flow.of("prepare"):
        yield _Path("accelerate", use.node)
    given = [u.node for u in flow.of("argument", "escape")]
    given += sorted((c for a in flow.aliases if (c := _call_with(module, a)) is not None), key=module.location)
    given += [c for u in flow.uses if u.prepared is None for c in u.calls]
    for node in dict.fromkeys(given):
        owner = takes(module, node) if isinstance(node, ast.Call) else None
        if owner is not None:
            yield _Path(owner, node)
        elif isinstance(node, ast.Call) and node not in combined and is_combined_loader(module, node):
            yield from _paths(module, node, follow(module, node), combined | {node})
    for use in flow.of("escape"):
        if isinstance(use.node, ast.Lambda) and is_set_as_hook(module, use.node):
            yield _Path("lightning", use.node)
    plain = [u.node for u in flow.of("returned") if u.prepared is None and is_trainer_hook(module, u.node)]
    here = module.function(call)
    if not plain and here is not None and is_trainer_hook(module, here) and not flow.of("prepare"):
        plain = [here]
    for hook in plain:
        yield _Path("hf-trainer", hook)
    hooks = [f for f in _givers(module, call, flow) if is_lightning_hook(module, f)]
    for hook in hooks:
        yield _Path("lightning", hook)
    if not hooks and here is not None and not flow.of("iterate", "next", "prepare"):
        cls = module.class_of(here)
        if cls is not None and is_lightning(module, cls):  # a helper or `setup`: what becomes of it is Lightning's
            yield _Path("lightning", cls)


def _call_with(module: Module, node: ast.expr) -> ast.Call | None:
    """The call that has an expression as an argument."""
    parent = module.parents[node]
    if isinstance(parent, ast.keyword):
        parent = module.parents[parent]
    return parent if isinstance(parent, ast.Call) and parent.func is not node else None


def _givers(module: Module, call: ast.Call, flow: Flow) -> list[ast.AST]:
    """The functions that return the loader, and the one that makes it if it does nothing else with it."""
    found = [u.node for u in flow.of("returned")]
    for alias in flow.aliases:
        function = module.function(alias)
        if function is not None and isinstance(module.statement(alias), ast.Return):
            found.append(function)
    here = module.function(call)
    if here is not None and not flow.of("iterate", "next"):
        found.append(here)
    return sorted(set(found), key=lambda f: (module.location(f).path, module.location(f).line))


def _raw(module: Module, flow: Flow, paths: list[_Path]) -> Use | None:
    """The first place that iterates the loader as it was constructed."""
    taken = {p.node for p in paths}
    uses = [u for u in flow.of("iterate", "next") if u.prepared is None and getattr(u.node, "iter", None) not in taken]
    return next((u for u in uses if not any(replaced_before(module, flow, p.node, u) for p in paths)), None)


def _told_to_leave(module: Module, path: _Path, regimes: ProgramRegimes) -> ast.Call | None:
    """The call that tells Fabric or Lightning to shard nothing; where several Trainers may run a class, all of them."""
    node = path.node
    if path.owner == "fabric":
        return node if isinstance(node, ast.Call) and leaves_sampler(node) else None
    if path.owner != "lightning":
        return None
    trainers: list[ast.AST] = []
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        trainers = [d.value for d in module.bindings.reaching(node.func.value) if d.value is not None]
    for regimes_seen in (regimes.own, tuple(r for _, r in regimes.outer)):
        trainers = trainers or [r.node for r in regimes_seen if makes_trainer(module, r.node)]
    told = [n for n in trainers if isinstance(n, ast.Call) and leaves_sampler(n)]
    return told[0] if told and len(told) == len(trainers) else None


def _at(evidence: Evidence, call: ast.Call, module: Module) -> str:
    """A line as messages name it: with its file where that is another than the loader's."""
    place = evidence.location
    return f"line {place.line}" if place.path == module.location(call).path else f"{place.path}:{place.line}"


def _plain_and_prepared(module: Module, call: ast.Call, flow: Flow, hook: ast.AST) -> Ownership:
    prepared, plain = module.evidence(flow.of("prepare")[0].node), module.evidence(hook)
    return Ownership(
        "unknown",
        (prepared, plain),
        f"the loader is prepared in {_at(prepared, call, module)}, and {getattr(hook, 'name', 'a hook')} in "
        f"{_at(plain, call, module)} returns it plain",
    )


def _perhaps(module: Module, call: ast.Call, flow: Flow) -> Ownership | None:
    """A loader handed to a call, or given by a method, that is named as those that shard one, while too little is
    seen of what that is."""
    calls = [c for u in flow.uses for c in (*u.calls, u.node) if isinstance(c, ast.Call) and trains(module, c)]
    if calls:
        evidence = module.evidence(calls[0])
        missing = (
            f"{_at(evidence, call, module)} hands the loader to {module.source.source(calls[0].func)}(), which trains "
            "with transformers' Trainer on what it reads from the loader"
        )
        return Ownership("unknown", (evidence,), missing)
    for use in flow.of("argument", "escape"):
        if isinstance(use.node, ast.Call) and may_take(module, use.node):
            evidence = module.evidence(use.node)
            written = module.source.source(use.node.func)
            missing = (
                f"{_at(evidence, call, module)} hands the loader to {written}(); whether that shards it is not shown"
            )
            return Ownership("unknown", (evidence,), missing)
    for function in _givers(module, call, flow):
        if may_be_lightning_hook(module, function):
            evidence = module.evidence(module.class_of(function) or function)
            missing = (
                f"{getattr(function, 'name', '')}() gives the loader; whether its class in "
                f"{_at(evidence, call, module)} is one of Lightning's is not shown"
            )
            return Ownership("unknown", (evidence,), missing)
    return None


def _prepared(module: Module, call: ast.Call, flow: Flow, regimes: ProgramRegimes) -> Ownership:
    prepares = flow.of("prepare")
    evidence = tuple(dict.fromkeys(module.evidence(u.node) for u in prepares))
    raw = [u for u in flow.of("iterate", "next") if u.prepared is None]
    raw = [u for u in raw if not any(replaced_before(module, flow, p.node, u) for p in prepares)]
    if not has_sampler(module, call):
        raw = [u for u in raw if not is_peek(module, u)]
    if raw and is_same_alone(module, call):
        raw = [u for u in raw if not _in_one_process(module, u.node, regimes)]
    discarded = [u for u in flow.of("discarded") if u.prepared is not None]
    if raw and reads_ahead(module, call, flow, raw):
        other = module.evidence(raw[0].node)
        note = (
            f"prepare() shards it; {_at(other, call, module)} reads all of it before, in an order of its own: what is "
            "kept there by step is not what a shard gives at that step"
        )
        return Ownership("accelerate", (*evidence, other), note=note)
    if raw:
        first = module.evidence(raw[0].node)
        return Ownership(
            "unknown",
            (*evidence, first),
            f"the loader is prepared in {_at(evidence[0], call, module)} and iterated unprepared in "
            f"{_at(first, call, module)}",
        )
    sibling = next((c for u in prepares if (c := _made_without(module, u.value)) is not None), None)
    if sibling is not None:
        other = module.evidence(sibling)
        missing = (
            f"the loader is prepared in {_at(evidence[0], call, module)} by a class of which the object in "
            f"{_at(other, call, module)} is none"
        )
        return Ownership("unknown", (*evidence, other), missing)
    if discarded and not [u for u in flow.of("iterate", "next") if u.prepared is not None]:
        return Ownership("unknown", evidence, "the result of prepare() is not used")
    return Ownership("accelerate", (*evidence, *_settings(module, prepares)))


def _made_without(module: Module, node: ast.expr) -> ast.Call | None:
    """Where the project makes an object that has a base class's ``self.x`` as it is set there, while what prepares it
    is a method of another class that derives from the base."""
    cls = module.class_of(node)
    if cls is None or module.project is None or not isinstance(node, ast.Attribute) or last_name(node.value) != "self":
        return None
    setters = [base for base in module.lineage(cls)[1:] if module.attribute_values(base, node.attr)]
    own = {cls, *module.project.derived(cls)}
    kin = {c for base in setters for c in (base, *module.project.derived(base))} - own
    # A class that sets the attribute itself has another loader there.
    kin -= {c for c in kin if c not in setters and module.attribute_values(c, node.attr)}
    made = (c for m in module.fellows for c in m.calls if kin and not kin.isdisjoint(m.project_classes(c.func)))
    return next(made, None)


def _in_one_process(module: Module, node: ast.AST, regimes: ProgramRegimes) -> bool:
    """Whether code is run by tests and programs of one process alone."""
    ruling = regime_of(regimes, module, node)
    return not ruling.regimes and not ruling.missing


def _settings(module: Module, prepares: list[Use]) -> Iterator[Evidence]:
    """The constructions of the Accelerators that say how they shard."""
    for use in prepares:
        receiver = (
            use.node.func.value if isinstance(use.node, ast.Call) and isinstance(use.node.func, ast.Attribute) else None
        )
        for d in module.bindings.reaching(receiver) if receiver is not None else ():
            if isinstance(d.value, ast.Call) and ACCELERATOR in module.callee(d.value):
                if any(k.arg in _SETTINGS for k in d.value.keywords):
                    yield module.evidence(d.value)


def _under(module: Module, call: ast.Call, flow: Flow, owner: Owner, evidence: Evidence) -> Ownership:
    """A loader of a program that runs under a framework, which is not seen to take it."""
    given = [u.node for u in flow.of("argument")]
    read: list[ast.AST] = [n for n in given if isinstance(n, ast.Call) and only_iterates(module, n)]
    raw = _raw(module, flow, [])
    read += [raw.node] if raw is not None and not is_peek(module, raw) else []
    if not read or (owner not in _HANDED_OVER and owner != "lightning"):
        return Ownership(owner, (evidence,))
    other = module.evidence(read[0])
    missing = (
        f"the program runs under {owner} ({_at(evidence, call, module)}), and {_at(other, call, module)} iterates the "
        "loader as it is"
    )
    return Ownership("unknown", (evidence, other), missing)


def _beside_lightning(module: Module, call: ast.Call, flow: Flow, evidence: Evidence) -> Ownership:
    """A loader of a program with a Lightning Trainer, which shards what it is handed and nothing else."""
    under = _under(module, call, flow, "lightning", evidence)
    if under.owner == "unknown":
        return under
    away = _away(module, flow)
    if not away:
        return Ownership("unknown", (evidence,), "nothing is seen to hand the loader to a Trainer")
    place = module.evidence(away[0].node)
    at = _at(place, call, module)
    missing = f"the loader leaves what is followed in {at}; whether a Trainer gets it is not shown"
    return Ownership("unknown", (evidence, place), missing)


def _away(module: Module, flow: Flow) -> list[Use]:
    """Where the loader goes to what is not seen into."""
    uses = flow.of("argument", "escape", "returned")
    return [u for u in uses if u.kind != "argument" or not _iterated(module, u.node)]


def _unprepared(
    module: Module, call: ast.Call, flow: Flow, accelerate: Evidence, prepare: tuple[str, ...]
) -> Ownership:
    """A program with an Accelerator in which this loader is not seen to reach ``prepare``."""
    away = _away(module, flow)
    iterated = [u for u in flow.of("iterate", "next") if not (away and is_peek(module, u))]
    if away and not iterated:
        place = module.evidence(away[0].node)
        at = _at(place, call, module)
        missing = f"the loader leaves what is followed in {at}; whether prepare() gets it is not shown"
        return Ownership("unknown", (accelerate, place), missing)
    if not iterated:
        return Ownership("unknown", (accelerate,), "nothing is seen to iterate the loader")
    any_attribute = _prepares_any_attribute(module, prepare) if _kept_by_an_object(flow) else None
    if any_attribute is not None:
        place = module.evidence(any_attribute)
        missing = f"{_at(place, call, module)} prepares attributes by names that are not seen; the loader may be one"
        return Ownership("unknown", (accelerate, place), missing)
    return Ownership("ddp", (accelerate,), via_accelerate=True)


def _kept_by_an_object(flow: Flow) -> bool:
    return any(isinstance(alias, ast.Attribute) for alias in flow.aliases)


def _prepares_any_attribute(module: Module, prepare: tuple[str, ...]) -> ast.Call | None:
    """A call in the project by which attributes of objects are prepared whose names are not written there:
    ``setattr(self, name, accelerator.prepare(getattr(self, name)))``."""
    for other in module.fellows:
        for call in other.calls:
            if not (isinstance(call.func, ast.Name) and call.func.id == "setattr" and len(call.args) == 3):
                continue
            value = call.args[2]
            if not isinstance(call.args[1], ast.Constant) and isinstance(value, ast.Call):
                if is_prepare(other, value, prepare) or may_take(other, value):
                    return call
    return None


def _iterated(module: Module, node: ast.AST) -> bool:
    parent = module.parents.get(node)
    return isinstance(parent, (ast.For, ast.AsyncFor, ast.comprehension)) and parent.iter is node


__all__ = ["Options", "Ownership", "ownership"]
