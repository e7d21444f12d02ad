"""What a loader's sampler may be at run time: every arm of it, with the statement that makes each."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from shardfix.analysis.code.arguments import Arguments
from shardfix.analysis.code.bindings import Definition, parameters
from shardfix.analysis.code.calling import argument_of, default_of, only_called
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import DISTRIBUTED_SAMPLER, SAMPLER_KINDS, last_name
from shardfix.analysis.loaders.datasets import class_cuts
from shardfix.analysis.programs.processes import is_rank, is_world_size

_DATASETS = ("dataset", "data_source")
_TRAINER_SAMPLERS = ("_get_train_sampler", "_get_eval_sampler")
_DEPTH = 8  # how many steps a sampler is followed back
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
    function of the project returns, where which of it this is depends on what the function is given.
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

    def constant(self, name: str) -> object:
        """The literal bound to a parameter; ``Ellipsis`` if it is not a literal, ``None`` if absent or None."""
        value = self.arguments.value(name) if self.arguments else None
        if value is None:
            return None
        return value.value if isinstance(value, ast.Constant) else ...


def arms(module: Module, node: ast.expr, depth: int = 0, via: tuple[Definition, ...] = ()) -> tuple[Arm, ...]:
    """Every value that a sampler expression may have."""
    module = module.home(node)
    if depth > _DEPTH:
        return (Arm("unknown", node, module.source.source(node), definitions=via),)
    if isinstance(node, ast.Constant) and node.value is None:
        return (Arm("none", node, "None", definitions=via),)
    if isinstance(node, ast.IfExp):
        found: list[Arm] = []
        for branch, when in ((node.body, True), (node.orelse, False)):
            for arm in arms(module, branch, depth + 1, via):
                found.append(replace(arm, test=node.test, when=when) if arm.test is None else arm)
        return tuple(found)
    if isinstance(node, ast.Call):
        return _call(module, node, depth, via)
    if isinstance(node, ast.Subscript):
        items, index = _items(module, node.value, depth), node.slice
        if isinstance(index, ast.Constant) and type(index.value) is int and 0 <= index.value < len(items):
            return arms(module, items[index.value], depth + 1, via)
    if isinstance(node, (ast.Name, ast.Attribute)):
        definitions = module.bindings.reaching(node)
        if not definitions and isinstance(node, ast.Attribute):
            definitions = frozenset(_attributes(module, node))
        if not definitions:
            return (Arm("unknown", node, module.source.source(node), definitions=via),)
        found = []
        for d in sorted(definitions, key=lambda d: (getattr(d.node, "lineno", 0), getattr(d.node, "col_offset", 0))):
            found.extend(_bound(module.home(d.node), node, d, depth, via))
        return tuple(found)
    return (Arm("unknown", node, module.source.source(node), definitions=via),)


def _attributes(module: Module, node: ast.Attribute) -> list[Definition]:
    """The assignments to an attribute of an object of the project, in whatever class of its line they stand."""
    cls = module.class_of(node)
    mine = cls is not None and isinstance(node.value, ast.Name) and node.value.id == "self"
    classes = [cls] if mine and cls is not None else module.instances(node.value)
    return [d for c in classes for member in module.lineage(c) for d in module.attribute_values(member, node.attr)]


def _bound(module: Module, node: ast.expr, d: Definition, depth: int, via: tuple[Definition, ...]) -> tuple[Arm, ...]:
    """What a sampler may be by one definition of its name."""
    if d.kind == "parameter":
        return _given(module, d, depth, via) or (Arm("parameter", node, d.key, definitions=(*via, d)),)
    if d.value is not None and d.kind == "assign" and d.index is None:
        return arms(module, d.value, depth + 1, (*via, d))
    values: list[ast.expr] = []
    if isinstance(d.value, ast.Call) and d.kind == "assign" and d.index is not None:
        factories = _factories(module, d.value)
        returned = [value for where, function in factories for value in _returned(where, function)]
        if returned and all(isinstance(v, ast.Tuple) and 0 <= d.index < len(v.elts) for v in returned):
            return _made_by(module, d.value, factories, depth, (*via, d), d.index)
    elif d.value is not None and d.kind == "loop":
        values = _iterated(module, d.value, d.index, depth)
    if values:
        return tuple(arm for value in values for arm in arms(module, value, depth + 1, (*via, d)))
    return (Arm("unknown", node, d.key, definitions=(*via, d)),)


def _iterated(module: Module, iterable: ast.expr, index: int | None, depth: int) -> list[ast.expr]:
    """The items that a loop over a list gives, also beside others: ``for a, s in zip(datasets, samplers)``."""
    if isinstance(iterable, ast.Call) and index is not None:
        zipped = "builtins.zip" in module.callee(iterable) and 0 <= index < len(iterable.args)
        return _items(module, iterable.args[index], depth) if zipped else []
    return _items(module, iterable, depth) if index is None else []


def _items(module: Module, node: ast.expr, depth: int) -> list[ast.expr]:
    """The items of a list that is written out and never changed by its name; none if they are not seen."""
    if isinstance(node, (ast.List, ast.Tuple)):
        return [] if any(isinstance(e, ast.Starred) for e in node.elts) else node.elts
    definitions = list(module.bindings.reaching(node)) if isinstance(node, ast.Name) else []
    if len(definitions) != 1 or depth > _DEPTH:
        return []
    (d,) = definitions
    if d.kind != "assign" or d.value is None or d.index is not None:
        return []
    for use in module.bindings.readers(d):
        parent = module.parents[use]
        stored = isinstance(parent, ast.Subscript) and not isinstance(parent.ctx, ast.Load)
        if stored or (isinstance(parent, ast.Attribute) and parent.attr not in ("index", "count", "copy")):
            return []
    return _items(module, d.value, depth + 1)


def _given(module: Module, d: Definition, depth: int, via: tuple[Definition, ...]) -> tuple[Arm, ...]:
    """What the callers of a function hand to its parameter, where all of them are seen and hand over the same kinds."""
    function = d.scope
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) or not isinstance(d.node, ast.arg):
        return ()
    if not only_called(module, function):
        return ()
    found: dict[ast.expr, Arm] = {}
    kinds: set[frozenset[str]] = set()
    for call in module.callers(function):
        if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
            return ()
        value = argument_of(module, function, call, d.key) or default_of(function, d.key)
        if value is None or module.called_functions(call) != [function]:
            return ()
        mine = arms(module, value, depth + 1, (*via, d))
        kinds.add(frozenset(arm.kind for arm in mine))
        for arm in mine:
            found.setdefault(arm.node, replace(arm, given=arm.given or call))
    if len(kinds) != 1 or any(arm.kind in ("parameter", "unknown") for arm in found.values()):
        return ()
    return tuple(found.values())


def _call(module: Module, node: ast.Call, depth: int, via: tuple[Definition, ...]) -> tuple[Arm, ...]:
    for qualified in sorted(module.callee(node)):
        kind = SAMPLER_KINDS.get(qualified)
        if kind is None:
            continue
        arguments = module.arguments(node, qualified)
        label = qualified.rsplit(".", 1)[1]
        inner: tuple[Arm, ...] = ()
        if kind == "batch":
            base = arguments.value("sampler")
            inner = arms(module, base, depth + 1) if base is not None else ()
        return (Arm(kind, node, label, qualified, arguments, via, inner=inner),)  # type: ignore[arg-type]
    factories = _factories(module, node)
    if factories:
        return _made_by(module, node, factories, depth, via)
    label = module.source.source(node.func).rsplit(".", 1)[-1]
    aware = _rank_aware(module, node)
    seen: ArmKind = "custom" if aware or _names_a_class(module, node.func) else "unknown"
    return (Arm(seen, node, label, definitions=via, rank_aware=aware),)


def _names_a_class(module: Module, func: ast.expr) -> bool:
    """Whether what is called is a class, by its definition or, where that is not seen, by how its name is written; what
    transformers' Trainer gives for its hooks is known too: it shards nothing."""
    name = last_name(func)
    return bool(module.project_classes(func)) or name.lstrip("_")[:1].isupper() or name in _TRAINER_SAMPLERS


def _rank_aware(module: Module, node: ast.Call) -> bool:
    """Whether a call makes a sampler that takes its rank's part: it is told rank and size, or its class derives from
    DistributedSampler, copies it, is named so, or cuts by rank itself."""
    classes = module.project_classes(node.func)
    if any(DISTRIBUTED_SAMPLER in module.bases(cls) or _takes_rank(module, cls) for cls in classes):
        return True
    arguments = [*node.args, *(k.value for k in node.keywords)]
    if any(is_rank(a) for a in arguments) and any(is_world_size(a) for a in arguments):
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
    depth: int,
    via: tuple[Definition, ...],
    index: int | None = None,
) -> tuple[Arm, ...]:
    """What functions of this project return. Their arms are the loader's own only where the one call of a function is
    this one and what they are made with does not depend on what the function is given.

    Args:
        index: which item of a returned tuple.
    """
    found: list[Arm] = []
    exact = True
    for where, function in factories:
        values = _returned(where, function)
        if index is not None:
            values = [value.elts[index] for value in values if isinstance(value, ast.Tuple)]
        mine = [arm for value in values for arm in arms(where, value, depth + 1, via)]
        exact &= module.callers(function) == [node]
        exact &= all(_closed(where, function, arm) for arm in mine)
        found += mine
    if exact and found:
        return tuple(found)
    aware = any(arm.kind == "distributed" or arm.rank_aware for arm in _all(found))
    plain = bool(found) and not aware and all(arm.kind not in ("parameter", "unknown") for arm in _all(found))
    label = module.source.source(node.func).rsplit(".", 1)[-1]
    kind: ArmKind = "custom" if plain else "unknown"
    return (Arm(kind, node, label, definitions=via, rank_aware=aware, made=tuple(found)),)


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
