"""What a loader's sampler may be at run time: every arm of it, with the statement that makes each."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from shardfix.analysis.arguments import Arguments
from shardfix.analysis.bindings import Definition
from shardfix.analysis.module import Module
from shardfix.analysis.names import DISTRIBUTED_SAMPLER, SAMPLER_KINDS

_DATASETS = ("dataset", "data_source")
_DISTRIBUTED = re.compile(r"Distributed\w*Sampler$")

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
    takes its rank's part though its kind is not ``distributed``, as a subclass of DistributedSampler does.
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

    def constant(self, name: str) -> object:
        """The literal bound to a parameter; ``Ellipsis`` if it is not a literal, ``None`` if absent or None."""
        value = self.arguments.value(name) if self.arguments else None
        if value is None:
            return None
        return value.value if isinstance(value, ast.Constant) else ...


def arms(module: Module, node: ast.expr, depth: int = 0, via: tuple[Definition, ...] = ()) -> tuple[Arm, ...]:
    """Every value that a sampler expression may have."""
    if depth > 8:
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
    if isinstance(node, (ast.Name, ast.Attribute)):
        definitions = module.bindings.reaching(node)
        if not definitions and isinstance(node, ast.Attribute):
            cls = module.class_of(node)
            if cls is not None and isinstance(node.value, ast.Name) and node.value.id == "self":
                definitions = frozenset(module.attribute_values(cls, node.attr))
        if not definitions:
            return (Arm("unknown", node, module.source.source(node), definitions=via),)
        found = []
        for d in sorted(definitions, key=lambda d: (getattr(d.node, "lineno", 0), getattr(d.node, "col_offset", 0))):
            if d.kind == "parameter":
                found.append(Arm("parameter", node, d.key, definitions=(*via, d)))
            elif d.kind == "assign" and d.value is not None and d.index is None:
                found.extend(arms(module, d.value, depth + 1, (*via, d)))
            else:
                found.append(Arm("unknown", node, d.key, definitions=(*via, d)))
        return tuple(found)
    return (Arm("unknown", node, module.source.source(node), definitions=via),)


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
    return (Arm("custom", node, label, definitions=via, rank_aware=_rank_aware(module, node)),)


def _rank_aware(module: Module, node: ast.Call) -> bool:
    """Whether a call makes an instance of a class that derives from DistributedSampler, or is named so."""
    classes = module.project_classes(node.func)
    if any(DISTRIBUTED_SAMPLER in module.bases(cls) for cls in classes):
        return True
    return not classes and any(_DISTRIBUTED.search(name) for name in module.callee(node))


def _factories(module: Module, node: ast.Call) -> list[tuple[Module, ast.FunctionDef]]:
    """The functions of this project that a call may run and that are no class."""
    if module.project_classes(node.func):
        return []
    return [(module.home(f), f) for f in module.called_functions(node) if isinstance(f, ast.FunctionDef)]


def _made_by(
    module: Module,
    node: ast.Call,
    factories: list[tuple[Module, ast.FunctionDef]],
    depth: int,
    via: tuple[Definition, ...],
) -> tuple[Arm, ...]:
    """What functions of this project return. Their arms are the loader's own only where the one call of a function in
    this file is this one and what they are made with does not depend on what the function is given."""
    found: list[Arm] = []
    exact = True
    for where, function in factories:
        returned = [
            n.value
            for n in ast.walk(function)
            if isinstance(n, ast.Return) and where.function(n) is function and n.value
        ]
        returned.sort(key=lambda value: (value.lineno, value.col_offset))
        mine = [arm for value in returned for arm in arms(where, value, depth + 1, via)]
        exact &= where is module and len(module.callers(function)) == 1
        exact &= all(_closed(where, function, arm) for arm in mine)
        found += mine
    if exact and found:
        return tuple(found)
    aware = any(arm.kind == "distributed" or arm.rank_aware for arm in _all(found))
    plain = bool(found) and not aware and all(arm.kind not in ("parameter", "unknown") for arm in _all(found))
    label = module.source.source(node.func).rsplit(".", 1)[-1]
    return (Arm("custom" if plain else "unknown", node, label, definitions=via, rank_aware=aware),)


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


def describe(found: tuple[Arm, ...]) -> str:
    """The arms in a word or two: ``RandomSampler | DistributedSampler``."""
    labels: list[str] = []
    for arm in found:
        label = {"parameter": f"parameter {arm.label}", "unknown": f"{arm.label}?"}.get(arm.kind, arm.label)
        if arm.inner:
            label += f"({describe(arm.inner)})"
        if label not in labels:
            labels.append(label)
    return " | ".join(labels)
