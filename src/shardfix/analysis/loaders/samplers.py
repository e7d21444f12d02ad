"""What a loader's sampler may be at run time: every arm of it, with the statement that makes each."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from shardfix.analysis.code.arguments import Arguments
from shardfix.analysis.code.bindings import Definition, parameters
from shardfix.analysis.code.calling import argument_of, default_of, only_called
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import DISTRIBUTED_SAMPLER, SAMPLER_KINDS, last_name
from shardfix.analysis.loaders.called_with import Run, Runs, given, left_out, settled, undecided
from shardfix.analysis.loaders.datasets import class_cuts
from shardfix.analysis.loaders.known_samplers import shares_out
from shardfix.analysis.loaders.members import entries, items_of, members
from shardfix.analysis.loops.spoken import role_of_name
from shardfix.analysis.programs.processes import distributed_test, is_rank, is_world_size, main_process_guard

_DATASETS = ("dataset", "data_source")
_TRAINER_SAMPLERS = ("_get_train_sampler", "_get_eval_sampler")
_DEPTH = 12  # how many steps a sampler is followed back
_DISTRIBUTED = re.compile(r"Distributed\w*Sampler(Wrapper)?$")

ArmKind = Literal[
    "none",
    "sequential",
    "random",
    "distributed",
    "weighted",
    "subset-random",
    "batch",
    "custom",
    "parameter",
    "unknown",
]


@dataclass(frozen=True, eq=False)
class Arm:
    """One value that a sampler may have.

    ``definitions`` are the assignments it came through, the one nearest to the loader first; ``test`` is the condition
    of the conditional expression it stands in, and ``when`` the outcome of the test that chooses it. ``rank_aware``: it
    takes its rank's part though its kind is not ``distributed``, as a subclass of DistributedSampler does, what is made
    with rank and size, and a class that cuts by rank itself. ``given``:
    the call that hands it to the function which builds the loader, where it comes by a parameter. ``made``: what a
    function of the project returns, where which of it this is depends on what the function is given. ``by``: the calls
    of functions of the project, the outermost first, that make it for this loader and other ones for others: what is
    edited in them is edited for all, and its arguments are those of this call; ``alone``: they give it in runs of one
    process only.
    """

    kind: ArmKind
    node: ast.expr
    label: str
    qualified: str = ""
    arguments: Arguments | None = None
    definitions: tuple[Definition, ...] = ()
    test: ast.expr | None = None
    when: bool = True
    inner: tuple[Arm, ...] = field(default=())
    rank_aware: bool = False
    given: ast.Call | None = None
    made: tuple[Arm, ...] = field(default=())
    by: tuple[ast.Call, ...] = ()
    alone: bool = False

    def constant(self, name: str) -> object:
        """The literal bound to a parameter; ``Ellipsis`` if it is not a literal, ``None`` if absent or None."""
        value = self.arguments.value(name) if self.arguments else None
        if value is None:
            return None
        return value.value if isinstance(value, ast.Constant) else ...


@dataclass(frozen=True, eq=False, slots=True)
class _Way:
    """How a sampler's value is come to from the loader.

    Args:
        depth: how many steps.
        via: the assignments, the one nearest to the loader first.
        runs: the calls in whose functions it is, with what they are given.
    """

    depth: int = 0
    via: tuple[Definition, ...] = ()
    runs: Runs = ()

    def on(self, *via: Definition, runs: Runs | None = None) -> _Way:
        """One step further."""
        return _Way(self.depth + 1, (*self.via, *via), self.runs if runs is None else runs)


def arms(module: Module, node: ast.expr) -> tuple[Arm, ...]:
    """Every value that a sampler expression may have."""
    return _arms(module, node, _Way())


def _arms(module: Module, node: ast.expr, way: _Way) -> tuple[Arm, ...]:
    module = module.home(node)
    if way.depth > _DEPTH:
        return (_unseen(module, node, way),)
    if isinstance(node, ast.Constant) and node.value is None:
        return (Arm("none", node, "None", definitions=way.via),)
    if isinstance(node, ast.IfExp):
        found: list[Arm] = []
        for branch, when in ((node.body, True), (node.orelse, False)):
            if not left_out(module, branch, way.runs):
                for arm in _arms(module, branch, way.on()):
                    found.append(replace(arm, test=node.test, when=when) if arm.test is None else arm)
        return tuple(found)
    if isinstance(node, ast.Call):
        return _call(module, node, way)
    if isinstance(node, ast.Subscript):
        return _item(module, node, way) or (_unseen(module, node, way),)
    if isinstance(node, (ast.Name, ast.Attribute)):
        definitions = [d for d in module.bindings.reaching(node) if not left_out(module, d.statement, way.runs)]
        if not definitions and isinstance(node, ast.Attribute):
            definitions = _attributes(module, node)
        if not definitions:
            return (_unseen(module, node, way),)
        found = []
        for d in sorted(definitions, key=lambda d: (getattr(d.node, "lineno", 0), getattr(d.node, "col_offset", 0))):
            found.extend(_bound(module.home(d.node), node, d, way))
        return tuple(found)
    return (_unseen(module, node, way),)


def _unseen(module: Module, node: ast.expr, way: _Way) -> Arm:
    return Arm("unknown", node, module.source.source(node), definitions=way.via)


def _item(module: Module, node: ast.Subscript, way: _Way) -> tuple[Arm, ...]:
    """What ``samplers[0]`` of a list may be, and ``samplers["train"]`` of a dict that one function fills."""
    index = node.slice
    if not isinstance(index, ast.Constant):
        return ()
    if type(index.value) is int:
        items = items_of(module, node.value, way.depth)
        return _arms(module, items[index.value], way.on()) if 0 <= index.value < len(items) else ()
    held = entries(module, node.value, index.value) or ()
    return tuple(arm for value in held for arm in _arms(module, value, way.on()))


def _attributes(module: Module, node: ast.Attribute) -> list[Definition]:
    """The assignments to an attribute of an object of the project, in whatever class of its line they stand."""
    cls = module.class_of(node)
    mine = cls is not None and isinstance(node.value, ast.Name) and node.value.id == "self"
    classes = [cls] if mine and cls is not None else module.instances(node.value)
    return [d for c in classes for member in module.lineage(c) for d in module.attribute_values(member, node.attr)]


def _bound(module: Module, node: ast.expr, d: Definition, way: _Way) -> tuple[Arm, ...]:
    """What a sampler may be by one definition of its name."""
    if d.kind == "parameter":
        handed = given(module, d, way.runs)
        if handed is not None:
            return _arms(module, handed[0], way.on(d, runs=handed[1]))
        return _by_callers(module, d, d, way) or (Arm("parameter", node, d.key, definitions=(*way.via, d)),)
    if d.value is not None and d.kind == "assign" and d.index is None:
        return _arms(module, d.value, way.on(d))
    if isinstance(d.value, ast.Call) and d.kind == "assign" and d.index is not None:
        factories = _factories(module, d.value)
        returned = [value for where, function in factories for value in _returned(where, function)]
        if returned and all(isinstance(v, ast.Tuple) and 0 <= d.index < len(v.elts) for v in returned):
            return _made_by(module, d.value, factories, way.on(d), d.index)
    elif d.value is not None and d.kind == "loop":
        found = _iterated(module, d, way)
        if found:
            return found
    return (Arm("unknown", node, d.key, definitions=(*way.via, d)),)


def _iterated(module: Module, d: Definition, way: _Way) -> tuple[Arm, ...]:
    """What a loop over a list gives, also beside others: ``for a, s in zip(datasets, samplers)``."""
    iterable, index = d.value, d.index
    if isinstance(iterable, ast.Call) and index is not None:
        zipped = "builtins.zip" in module.callee(iterable) and 0 <= index < len(iterable.args)
        iterable = iterable.args[index] if zipped else None
    elif index is not None:
        return ()
    if iterable is None:
        return ()
    bound = module.bindings.reaching(iterable) if isinstance(iterable, ast.Name) else frozenset()
    parameter = next((p for p in bound if p.kind == "parameter"), None) if len(bound) == 1 else None
    if parameter is not None and given(module, parameter, way.runs) is None:
        return _by_callers(module, parameter, d, way)
    return _of_list(module, iterable, way.on(d))


def _of_list(module: Module, node: ast.expr, way: _Way, but: frozenset[ast.expr] = frozenset()) -> tuple[Arm, ...]:
    """What each item of a list may be: of any list whose items all share out, else of one that is written out. Nothing
    where some share out and beside them others do not, since which loader gets which is not followed.

    Args:
        but: items that are for others.
    """
    found: list[Arm] = []
    for value, runs in members(module, node, way.runs) or ():
        alone = main_process_guard(module.home(value), value) is not None
        mine = _arms(module, value, replace(way, runs=runs)) if value not in but else ()
        found += (replace(arm, alone=True) for arm in mine) if alone else mine
    if any(_deals(arm) for arm in found):
        return tuple(found) if _deal(found) else ()
    return tuple(arm for item in items_of(module, node, way.depth) for arm in _arms(module, item, way))


def _for_evaluation(module: Module, call: ast.Call, handed: ast.expr) -> frozenset[ast.expr]:
    """The last items of a list that is handed over, where what is made of them gets an evaluation's name:
    ``train_loader, val_loader = make(datasets, samplers + [None])``."""
    statement = module.parents[call]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    names = targets[0].elts if len(targets) == 1 and isinstance(targets[0], ast.Tuple) else []
    values = [handed, *(d.value for d in module.bindings.reaching(handed) if d.index is None and d.value is not None)]
    found: set[ast.expr] = set()
    for value in values:
        last = value.right if isinstance(value, ast.BinOp) else None
        for name, item in zip(reversed(names), reversed(last.elts if isinstance(last, ast.List) else []), strict=False):
            if isinstance(name, ast.Name) and role_of_name(name.id) == "eval":
                found.add(item)
    return frozenset(found)


def _by_callers(module: Module, parameter: Definition, d: Definition, way: _Way) -> tuple[Arm, ...]:
    """What the callers of a function hand to its parameter, or as the items of what they hand, where all of them are
    seen and hand over the same kinds: or a sampler that shards, and beside it none.

    Args:
        d: the parameter, or what a loop over its items binds.
    """
    function = parameter.scope
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) or not isinstance(parameter.node, ast.arg):
        return ()
    if not only_called(module, function):
        return ()
    found: dict[tuple[ast.expr, tuple[ast.Call, ...]], Arm] = {}
    kinds: set[frozenset[str]] = set()
    for call in module.callers(function):
        if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
            return ()
        value = argument_of(module, function, call, parameter.key) or default_of(function, parameter.key)
        if value is None or module.called_functions(call) != [function]:
            return ()
        if d is parameter:
            mine = _arms(module, value, way.on(d))
        else:
            mine = _of_list(module, value, way.on(d), _for_evaluation(module.home(call), call, value))
        kinds.add(frozenset(arm.kind for arm in mine))
        for arm in mine:
            found.setdefault((arm.node, arm.by), replace(arm, given=arm.given or call))
    several = len(kinds) != 1 and not all({"distributed"} <= k <= {"distributed", "none"} for k in kinds)
    if several or any(arm.kind in ("parameter", "unknown") for arm in found.values()):
        return ()
    return tuple(found.values())


def _call(module: Module, node: ast.Call, way: _Way) -> tuple[Arm, ...]:
    for qualified in sorted(module.callee(node)):
        kind = SAMPLER_KINDS.get(qualified)
        if kind is None:
            continue
        arguments = _told(module, module.arguments(node, qualified), way.runs)
        label = qualified.rsplit(".", 1)[1]
        inner: tuple[Arm, ...] = ()
        if kind == "batch":
            base = module.arguments(node, qualified).value("sampler")
            inner = _arms(module, base, replace(way.on(), via=())) if base is not None else ()
        return (Arm(kind, node, label, qualified, arguments, way.via, inner=inner),)  # type: ignore[arg-type]
    factories = _factories(module, node)
    if factories:
        return _made_by(module, node, factories, way)
    label = module.source.source(node.func).rsplit(".", 1)[-1]
    aware = _rank_aware(module, node)
    seen: ArmKind = "custom" if aware or _names_a_class(module, node.func) else "unknown"
    inner = () if aware else _wrapped(module, node, way)
    return (Arm(seen, node, label, definitions=way.via, inner=inner, rank_aware=aware),)


def _wrapped(module: Module, node: ast.Call, way: _Way) -> tuple[Arm, ...]:
    """The samplers that share out what a batch sampler of the project's own gives on: it iterates what it is made with.
    None where they do not surely share out."""
    found: list[Arm] = []
    for cls in module.project_classes(node.func):
        iterates, made = module.method(cls, "__iter__"), module.method(cls, "__init__")
        for loop in ast.walk(iterates) if iterates is not None else ():
            if isinstance(loop, ast.For) and isinstance(loop.iter, ast.Attribute) and made is not None:
                for value in (d.value for d in module.attribute_values(cls, loop.iter.attr)):
                    given_it = argument_of(module, made, node, value.id) if isinstance(value, ast.Name) else None
                    held = _arms(module, given_it, replace(way.on(), via=())) if given_it is not None else ()
                    found += (i for arm in held for i in arm.inner or (arm,))
    return tuple(found) if _deal(found) else ()


def _told(module: Module, arguments: Arguments, runs: Runs) -> Arguments:
    """A sampler's arguments, with what the function around it is given in the place of its parameters."""
    if not runs:
        return arguments
    bound = {n: replace(a, value=settled(module, a.value, runs)) for n, a in arguments.bound.items()}
    return replace(arguments, bound=bound)


def _names_a_class(module: Module, func: ast.expr) -> bool:
    """Whether what is called is a class, by its definition or, where that is not seen, by how its name is written; what
    transformers' Trainer gives for its hooks is known too: it shards nothing."""
    name = last_name(func)
    return bool(module.project_classes(func)) or name.lstrip("_")[:1].isupper() or name in _TRAINER_SAMPLERS


def _rank_aware(module: Module, node: ast.Call) -> bool:
    """Whether a call makes a sampler that takes its rank's part: it is told rank and size, or its class derives from
    DistributedSampler, copies it, is named so, or cuts by rank itself, as those of some libraries do."""
    classes = module.project_classes(node.func)
    if any(DISTRIBUTED_SAMPLER in module.bases(cls) or _takes_rank(module, cls) for cls in classes):
        return True
    arguments = [*node.args, *(k.value for k in node.keywords)]
    if any(is_rank(a) for a in arguments) and any(is_world_size(a) for a in arguments):
        return True
    if shares_out(module, node):
        return True
    if classes:
        return any(class_cuts(module, cls) is not None for cls in classes)
    return any(_DISTRIBUTED.search(name) for name in module.callee(node))


def _takes_rank(module: Module, cls: ast.ClassDef) -> bool:
    """Whether a class is made with ``num_replicas`` and ``rank``, as copies of DistributedSampler are."""
    made = module.method(cls, "__init__")
    return made is not None and {"num_replicas", "rank"} <= {arg.arg for arg in parameters(made)}


def _factories(module: Module, node: ast.Call) -> list[tuple[Module, ast.FunctionDef]]:
    """The functions of this project that a call may run and that are no class."""
    if module.project_classes(node.func):
        return []
    return [(module.home(f), f) for f in module.called_functions(node) if isinstance(f, ast.FunctionDef)]


def _returned(module: Module, function: ast.FunctionDef) -> list[ast.expr]:
    """What a function returns, in the order of its lines."""
    found = [
        n.value
        for n in ast.walk(function)
        if isinstance(n, ast.Return) and module.function(n) is function and n.value is not None
    ]
    return sorted(found, key=lambda value: (value.lineno, value.col_offset))


def _made_by(
    module: Module,
    node: ast.Call,
    factories: list[tuple[Module, ast.FunctionDef]],
    way: _Way,
    index: int | None = None,
) -> tuple[Arm, ...]:
    """What functions of this project return. Their arms are the loader's own where the one call of a function is this
    one and what they are made with does not depend on what the function is given; else they are ``by`` the call, where
    this one is seen to make a sampler that shards in every run of several processes.

    Args:
        index: which item of a returned tuple.
    """
    found: list[Arm] = []
    dealt: list[Arm] = []
    exact = shards = True
    for where, function in factories:
        mine = _given_back(where, function, way.on(), index)
        exact &= module.callers(function) == [node]
        exact &= all(_closed(where, function, arm) for arm in mine)
        found += mine
    if exact and found:
        return tuple(found)
    for where, function in factories:
        runs = (*way.runs, Run(function, node))
        mine = _given_back(where, function, way.on(runs=runs), index)
        shards &= _shards_in_each(where, function, mine, runs)
        dealt += mine
    if shards:
        return tuple(_by(arm, node) for arm in dealt)
    aware = any(arm.kind == "distributed" or arm.rank_aware for arm in _all(found))
    plain = bool(found) and not aware and all(arm.kind not in ("parameter", "unknown") for arm in _all(found))
    label = module.source.source(node.func).rsplit(".", 1)[-1]
    kind: ArmKind = "custom" if plain else "unknown"
    return (Arm(kind, node, label, definitions=way.via, rank_aware=aware, made=tuple(found)),)


def _given_back(module: Module, function: ast.FunctionDef, way: _Way, index: int | None) -> list[Arm]:
    """What a function returns, or one item of the tuples that it returns."""
    values = [value for value in _returned(module, function) if not left_out(module, value, way.runs)]
    if index is not None:
        values = [value.elts[index] for value in values if isinstance(value, ast.Tuple)]
    return [arm for value in values for arm in _arms(module, value, way)]


def _by(arm: Arm, call: ast.Call) -> Arm:
    """An arm as the one that a call makes, in runs of one process alone where it does not share out."""
    inner = tuple(_by(one, call) for one in arm.inner)
    return replace(arm, by=(call, *arm.by), inner=inner, alone=not _deals(arm))


def _shards_in_each(module: Module, function: ast.FunctionDef, found: list[Arm], runs: Runs) -> bool:
    """Whether a call of a function gives a sampler that shards in every run of several processes: what else it may give
    is chosen by a condition on these alone."""
    if not any(_deals(arm) for arm in found) or any(arm.kind in ("parameter", "unknown") for arm in _all(found)):
        return False
    if _deal(found):
        return True
    places = [n for arm in found for n in (arm.node, *(d.statement for d in arm.definitions))]
    tests = {t for n in places if module.function(n) is function for t in undecided(module, function, n, runs)}
    return bool(tests) and all(distributed_test(t) is not None for t in tests)


def _deals(arm: Arm) -> bool:
    """Whether a sampler gives each rank its share."""
    return arm.kind == "distributed" or arm.rank_aware or _deal(arm.inner)


def _deal(found: Sequence[Arm]) -> bool:
    """Whether one of these shares out, and those that do not are of runs of one process."""
    return any(_deals(arm) for arm in found) and all(_deals(arm) or arm.alone for arm in found)


def _all(found: Iterable[Arm]) -> Iterator[Arm]:
    for arm in found:
        yield arm
        yield from _all(arm.inner)


def _closed(module: Module, function: ast.FunctionDef, arm: Arm) -> bool:
    """Whether the settings of a sampler, but for its dataset, hold no name of the function that makes it."""
    if arm.kind in ("parameter", "unknown"):
        return False
    settings = [a.value for a in arm.arguments.bound.values() if a.name not in _DATASETS] if arm.arguments else []
    if arm.arguments is not None and arm.arguments.opaque:
        return False
    local = [
        n
        for value in settings
        for n in ast.walk(value)
        if isinstance(n, ast.Name) and any(d.scope is function for d in module.bindings.reaching(n))
    ]
    return not local and all(_closed(module, function, inner) for inner in arm.inner)


def same_expression(module: Module, a: ast.expr | None, b: ast.expr | None) -> bool:
    """Whether two expressions are written alike and their names have the same values at both places."""
    if a is None or b is None or ast.dump(a) != ast.dump(b):
        return False
    for x, y in zip(ast.walk(a), ast.walk(b), strict=False):
        if isinstance(x, ast.Call):
            return False  # two calls make two objects
        named = isinstance(x, (ast.Name, ast.Attribute)) and isinstance(y, (ast.Name, ast.Attribute))
        if named and module.bindings.reaching(x) != module.bindings.reaching(y):  # type: ignore[arg-type]
            return False
    return True


def _leaves(arm: Arm) -> Iterator[Arm]:
    """What a function may return; for what it has of another function, what that may return."""
    for made in arm.made:
        if made.made:
            yield from _leaves(made)
        else:
            yield made


def describe(found: tuple[Arm, ...]) -> str:
    """The arms in a word or two: ``RandomSampler | DistributedSampler``."""
    labels: list[str] = []
    for arm in found:
        label = {"parameter": f"parameter {arm.label}", "unknown": f"{arm.label}?"}.get(arm.kind, arm.label)
        if arm.inner or arm.made:
            label += f"({describe(arm.inner or tuple(_leaves(arm)))})"
        if label not in labels:
            labels.append(label)
    return " | ".join(labels)
