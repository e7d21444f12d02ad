"""The sites: every construction of a DataLoader, with its arguments, sampler arms, flow, owner and role."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from shardfix.analysis.answers import Answers, Question, settle_owner, settle_role
from shardfix.analysis.code.arguments import Arguments, partial_behind
from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import DATA_LOADER, MONAI_LOADERS
from shardfix.analysis.code.project import Project
from shardfix.analysis.loaders.constructors import class_named, constructed, deviation, forwarded
from shardfix.analysis.loaders.flow import Flow, follow
from shardfix.analysis.loaders.libraries import library_of
from shardfix.analysis.loaders.samplers import Arm, arms, describe
from shardfix.analysis.loops.epochs import EpochLoops, SetEpoch, epoch_loops, set_epoch_calls, tells
from shardfix.analysis.loops.evaluation import Evaluation, evaluation
from shardfix.analysis.loops.roles import Names, ShownRole, origins, role
from shardfix.analysis.model import Evidence, Location, Options, Owner, Role
from shardfix.analysis.programs.owners import Ownership, ownership
from shardfix.analysis.programs.processes import distributed_test
from shardfix.analysis.programs.regimes import ProgramRegimes
from shardfix.analysis.programs.unit_tests import in_programs, is_test

Kind = Literal["torch", "subclass", "partial", "foreign"]
Form = Literal["name", "attribute", "subscript", "returned", "inline"]


@dataclass(eq=False)
class Site:
    """One place where a loader is constructed, and what is known of it."""

    module: Module
    call: ast.Call
    kind: Kind
    regimes: ProgramRegimes
    options: Options
    siblings: list[Site] = field(default_factory=list, repr=False)
    told_owner: Ownership | None = None
    answers: Answers = field(default_factory=Answers)
    heeded: set[Question] = field(default_factory=set, repr=False)
    deviates: str = ""  # in what its class, one of the project's own, may sample otherwise than torch's

    def answered(self, question: Question, *words: str) -> bool:
        """Whether the user answers a question with one of these words. To be asked only where the answer settles
        something: it counts as used."""
        answer = getattr(self.answers, question)
        if answer is None or answer.word not in words:
            return False
        self.heeded.add(question)
        return True

    @property
    def location(self) -> Location:
        """Where the construction starts."""
        return self.module.location(self.call)

    @cached_property
    def arguments(self) -> Arguments:
        """The arguments bound to DataLoader's signature."""
        return self.module.arguments(self.call, DATA_LOADER)

    @property
    def dataset(self) -> ast.expr | None:
        """The dataset expression."""
        return self.arguments.value("dataset")

    @cached_property
    def arms(self) -> tuple[Arm, ...]:
        """What the sampler may be; empty if none is given."""
        return self._values("sampler")

    @cached_property
    def batch_arms(self) -> tuple[Arm, ...]:
        """What the batch sampler may be; empty if none is given."""
        found = self._values("batch_sampler")
        return () if all(arm.kind == "none" for arm in found) else found

    def _values(self, name: str) -> tuple[Arm, ...]:
        """What an argument may be; where some ways of a filled dict give it and others do not, None is one of it."""
        given = [way.get(name) for way in self.arguments.paths]
        if not any(given):
            return ()
        found: dict[ast.expr | None, tuple[Arm, ...]] = {}
        for argument in given:
            if argument is not None:
                found[argument.value] = arms(self.module, argument.value)
        if None in given:
            found[None] = (Arm("none", self.call.func, "None"),)
        return tuple(arm for values in found.values() for arm in values)

    @property
    def unseen(self) -> str:
        """What hides the sampler; empty where it is known.

        It is known beside ``*args`` and ``**kw`` too if it is written: another one there raises TypeError, a batch
        sampler ValueError. Beside a literal ``shuffle=True`` neither may be given.
        """
        if not self.arguments.opaque or self.arguments.ways:
            return ""
        shuffle = self.arguments.value("shuffle")
        shuffles = isinstance(shuffle, ast.Constant) and shuffle.value is True
        if shuffles or (self.kinds and self.kinds != {"none"}) or self.batch_arms:
            return ""
        return self.arguments.opaque

    @cached_property
    def own_shares(self) -> tuple[Arm, ...]:
        """The samplers of the project's or a library's own that give each rank its share."""
        found = (*self.arms, *(i for b in self.batch_arms for i in b.inner or (b,)))
        return tuple(a for a in found if a.kind == "custom" and a.rank_aware)

    @property
    def kinds(self) -> set[str]:
        """The kinds of the sampler's arms."""
        return {a.kind for a in self.arms}

    @property
    def sampler(self) -> str:
        """The sampler in words."""
        if self.kind == "partial":
            return f"not seen ({self.module.source.source(self.call.func)})"
        if self.kind != "torch":
            made = self.module.source.source(self.call.func)
            classes = self.module.project_classes(self.call.func)
            cls = classes[0] if len(classes) == 1 else self.module.class_definition(self.call.func)
            told = forwarded(self.module, cls, self.call) if self.kind == "subclass" and cls is not None else ""
            if told:
                return f"{told} (given on by {made})"
            given = [g for way in self.arguments.paths if (g := way.get("sampler")) is not None]
            if self.kind == "subclass" and given and all(g.position is None for g in given):
                return f"{describe(self.arms)} (given to {made})"
            return f"{made} (its own)"
        if self.unseen:
            return f"not seen ({self.unseen})"
        if self.batch_arms:
            beside = [a for a in self.arms if a.kind != "none"]
            either = [a for a in self.batch_arms if a.kind != "none"] if beside else self.batch_arms
            words = [f"batch_sampler={describe(tuple(either))}", *([describe(tuple(beside))] if beside else [])]
            return " | ".join(words)
        if self.arms:
            return describe(self.arms)
        shuffles = [way.get("shuffle") for way in self.arguments.paths]
        written = [self.module.source.source(s.value) if s is not None else "" for s in shuffles]
        if not any(written):
            return "default"
        return f"default, shuffle={' | '.join(dict.fromkeys(w or 'False' for w in written))}"

    @cached_property
    def flow(self) -> Flow:
        """Where the loader goes, in programs if one is seen to have it."""
        programs = self.regimes.project.programs
        reached = bool(programs.reaching(self.module, self.call) & ~programs.tests)
        return in_programs(self.module, self._flow_in_all, reached)

    @cached_property
    def _flow_in_all(self) -> Flow:
        """Where the loader goes, in tests too: one that reads each rank's part of it would miss its sampler."""
        return follow(self.module, self.call, self.options.prepare_functions)

    def sampler_flow(self, arm: Arm) -> Flow:
        """Where one sampler goes."""
        return follow(self.module, arm.node, only=arm.by)

    @cached_property
    def ownership(self) -> Ownership:
        """Who shards the loader at run time, with evidence."""
        if self.told_owner is not None:
            return self.told_owner
        shown = ownership(self.module, self.call, self._flow_in_all, self.regimes, self.options)
        found = settle_owner(self.answers.owner, shown, self.regimes)
        if found is not shown:
            self.heeded.add("owner")
        if found.owner == "single" and self.options.target == "ddp" and not self.answered("owner", "single"):
            return Ownership("ddp", targeted=True)
        return found

    @property
    def owner(self) -> Owner:
        """Who shards the loader at run time."""
        return self.ownership.owner

    @property
    def owner_evidence(self) -> tuple[Evidence, ...]:
        """The lines that show the owner."""
        return self.ownership.evidence

    @cached_property
    def target(self) -> ast.expr | None:
        """The name, attribute or subscript that the construction is assigned to."""
        parent = self.module.parents[self.call]
        if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and parent.value is self.call:
            target = parent.targets[0]
            return target if isinstance(target, (ast.Name, ast.Attribute, ast.Subscript)) else None
        if isinstance(parent, ast.AnnAssign) and parent.value is self.call:
            return parent.target
        return None

    @property
    def form(self) -> Form:
        """How the construction is used in its statement."""
        if isinstance(self.target, ast.Name):
            return "name"
        if isinstance(self.target, ast.Attribute):
            return "attribute"
        if isinstance(self.target, ast.Subscript):
            return "subscript"
        return "returned" if isinstance(self.module.parents[self.call], ast.Return) else "inline"

    @cached_property
    def role(self) -> Role:
        """Train or eval."""
        found = settle_role(self.answers.role, self.shown_role.role)
        if found != self.shown_role.role:
            self.heeded.add("role")
        return found

    @cached_property
    def shown_role(self) -> ShownRole:
        """The role that the source shows, and where it shows none, why."""
        found = role(self.module, self.call, self._names(), self.flow)
        if found.role == "unknown" and not found.why and self._shuffles and self.epoch_loops.loops:
            return ShownRole("train")  # shuffled anew in each epoch: nobody evaluates so
        return found

    def _names(self) -> Names:
        names: list[str] = []
        parent = self.module.parents[self.call]
        if self.target is not None:
            names.append(self.module.source.source(self.target))
        elif isinstance(parent, ast.IfExp):  # loader = DataLoader(ds) if ds is not None else None
            assigned = self.module.parents[parent]
            if isinstance(assigned, ast.Assign) and isinstance(assigned.targets[0], (ast.Name, ast.Attribute)):
                names.append(self.module.source.source(assigned.targets[0]))
        if isinstance(parent, ast.Dict):
            for key, value in zip(parent.keys, parent.values, strict=True):
                if value is self.call and isinstance(key, ast.Constant):
                    names.append(str(key.value))
        if isinstance(parent, ast.keyword) and parent.arg:
            names.append(parent.arg)
        function = self.module.function(self.call)
        if getattr(function, "name", "") in _HOOKS and not is_test(self.module, function):
            names.append(getattr(function, "name", ""))
        origin: tuple[str, ...] = ()
        data = ""
        if self.dataset is not None:
            data = self.module.source.source(self.dataset)
            origin = origins(self.module, self.dataset)
        if is_test(self.module, function):  # a suite's own classes: TestDataset
            data, origin = _TEST.sub("", data), tuple(_TEST.sub("", word) for word in origin)
        sampler = self.arguments.value("sampler")
        named = isinstance(sampler, (ast.Name, ast.Attribute))
        drawn = self.module.source.source(sampler) if sampler is not None and named else ""
        return Names(tuple(names), data, drawn, origin)

    @property
    def _shuffles(self) -> bool:
        shuffle = self.arguments.value("shuffle")
        if isinstance(shuffle, ast.Constant) and shuffle.value is True:
            return True
        return "random" in self.kinds

    @cached_property
    def read_once(self) -> bool:
        """Whether no epoch loop drives the loader and none can: it is iterated at module level, or in a function that
        this file calls outside of every loop."""
        uses = self.flow.of("iterate")
        if not uses or self.epoch_loops.why != "no-epoch-loop" or self.flow.of("returned", "escape", "argument"):
            return False
        functions = [self.module.function(u.node) for u in uses]
        return all(f is None or self.module.callers(f) for f in functions)

    @cached_property
    def epoch_loops(self) -> EpochLoops:
        """The loops over epochs that drive the loader."""
        return epoch_loops(self.module, self.call, self.flow)

    @cached_property
    def evaluation(self) -> Evaluation:
        """What the eval loops over the loader do."""
        return evaluation(self.module, self.flow, self.dataset)

    @cached_property
    def told(self) -> list[SetEpoch]:
        """The ``set_epoch`` calls that reach this loader or its sampler, in every file that these come to."""
        flows = [
            self.sampler_flow(a)
            for a in (*self.arms, *(i for b in self.batch_arms for i in b.inner or (b,)))
            if isinstance(a.node, ast.Call)
        ]
        homes = {self.module: None} | {self.module.home(n): None for f in (self.flow, *flows) for n in f.aliases}
        found: list[SetEpoch] = []
        for module in sorted(homes, key=lambda m: (m is not self.module, m.path)):
            for call in set_epoch_calls(module):
                if any(tells(module, call, self.flow, f) for f in (None, *flows)):
                    found.append(call)
        return found

    @property
    def shards_sometimes(self) -> bool:
        """Whether the sampler shards on some paths of a multi-process run only: a condition that says nothing of the
        regime (``if evaluate:``) chooses another sampler, as in a factory for training and evaluation."""
        arms = [*self.arms, *(i for b in self.batch_arms for i in b.inner)]
        if not any(a.kind == "distributed" for a in arms):
            return False
        others = [a for a in arms if a.kind != "distributed"]
        return any(not self._of_one_process(a) for a in others)

    def _of_one_process(self, arm: Arm) -> bool:
        """Whether an arm stands under a condition on the regime."""
        if arm.alone:
            return True
        tests = [arm.test] if arm.test is not None else []
        for node in (arm.node, *(d.statement for d in arm.definitions)):
            tests += [n.test for n in self.module.around(node) if isinstance(n, (ast.If, ast.IfExp))]
        if any(distributed_test(t) is not None for t in tests):
            return True
        # `sampler = None` before `if distributed: sampler = DistributedSampler(...)`
        for other in self.arms:
            if other.kind != "distributed":
                continue
            for node in (other.node, *(d.statement for d in other.definitions)):
                outer = [n.test for n in self.module.around(node) if isinstance(n, (ast.If, ast.IfExp))]
                if any(distributed_test(t) is True for t in outer):
                    return True
        return False

    @property
    def sanitized(self) -> bool:
        """Whether a sanitizer call already stands behind the construction."""
        return bool(self.flow.of("sanitize"))

    @property
    def distributed_definitions(self) -> list[Definition]:
        """The assignments through which the sampler comes, each once."""
        found: list[Definition] = []
        for arm in self.arms:
            found.extend(d for d in arm.definitions if d not in found)
        return found


_TEST = re.compile(r"\bTest(?=[A-Z])")
_HOOKS = frozenset(
    {
        "get_train_dataloader",
        "get_eval_dataloader",
        "get_test_dataloader",
        "train_dataloader",
        "val_dataloader",
        "test_dataloader",
        "predict_dataloader",
    }
)


def find_sites(module: Module, regimes: ProgramRegimes, options: Options, subclasses: frozenset[str]) -> list[Site]:
    """Every loader construction of a module, in source order: torch's DataLoader under any name, project classes that
    derive from it, ``functools.partial`` of either, and the loader classes of libraries that shard in their own way."""
    found: list[Site] = []
    for call in module.calls:
        kind, deviates = _kind(module, call, subclasses)
        if kind is not None:
            found.append(Site(module, call, kind, regimes, options, deviates=deviates))
    for site in found:
        site.siblings = found
    return found


def _kind(module: Module, call: ast.Call, subclasses: frozenset[str]) -> tuple[Kind | None, str]:
    """What kind of loader a call constructs, and in what a class of the project's own may sample otherwise."""
    classes, whole = constructed(module, call)
    loaders = classes & {DATA_LOADER, *subclasses}
    if not loaders:
        own = module.class_definition(call.func) if isinstance(call.func, ast.Name) and not classes else None
        own = own or next((c for name in classes if (c := class_named(module, call, name)) is not None), None)
        if own is not None and DATA_LOADER in module.bases(own):
            why = deviation(module, own)
            return ("subclass", why) if why or len(classes) > 1 or not whole else ("torch", "")
        if "functools.partial" in classes and call.args:
            made = module.qualify(call.args[0])
            return ("partial" if made & {DATA_LOADER, *subclasses} and not _only_called(module, call) else None), ""
        return ("foreign" if library_of(module, call) is not None else None), ""
    if not whole or loaders != classes:
        return "subclass", "which class it is, is not seen"
    derived = [class_named(module, call, name) for name in sorted(loaders - {DATA_LOADER})]
    whys = [deviation(module, cls) if cls is not None else "the class is not seen" for cls in derived]
    if len(call.args) > 1 and _of_monai(module, call):
        whys.append("MONAI's loader takes num_workers by position where torch's takes batch_size")
    why = next((w for w in whys if w), "")
    return ("subclass" if why else "torch"), why


def _of_monai(module: Module, call: ast.Call) -> bool:
    """Whether a call may construct MONAI's DataLoader, which is known by the name of torch's."""
    func = call.func
    if isinstance(func, ast.Name):
        return any(d.module in MONAI_LOADERS for d in module.bindings.reaching(func))
    return isinstance(func, ast.Attribute) and any(q.startswith("monai") for q in module.qualify(func.value))


def _only_called(module: Module, made: ast.Call) -> bool:
    """Whether a ``partial`` is only called by its name, so that each of these calls is known to build a loader."""
    parent = module.parents[made]
    target = parent.targets[0] if isinstance(parent, ast.Assign) and len(parent.targets) == 1 else None
    if not isinstance(target, ast.Name):
        return False
    readers = [use for d in module.bindings.definitions_at(target, target.id) for use in module.bindings.readers(d)]
    calls = [module.parents[use] for use in readers]
    return bool(calls) and all(isinstance(c, ast.Call) and partial_behind(module, c) is made for c in calls)


def loader_subclasses(project: Project) -> frozenset[str]:
    """The qualified names of the project's classes that derive from DataLoader, through several levels."""
    found: set[str] = set()
    while True:
        more = {
            f"{m.name}.{cls.name}"
            for m in project.modules.values()
            for cls in m.classes
            if f"{m.name}.{cls.name}" not in found and not m.bases(cls).isdisjoint({DATA_LOADER, *found})
        }
        if not more:
            return frozenset(found)
        found |= more


__all__ = ["Form", "Kind", "Site", "find_sites", "loader_subclasses"]
