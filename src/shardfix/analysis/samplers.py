"""What a loader's sampler may be at run time: every arm of it, with the statement that makes each."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Literal

from shardfix.analysis.bindings import Definition
from shardfix.analysis.module import Arguments, Module
from shardfix.analysis.names import SAMPLER_KINDS

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
    of the conditional expression it stands in, and ``when`` the outcome of the test that chooses it.
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
                found.append(_with_test(arm, node.test, when) if arm.test is None else arm)
        return tuple(found)
    if isinstance(node, ast.Call):
        return (_call(module, node, depth, via),)
    if isinstance(node, (ast.Name, ast.Attribute)):
        definitions = module.bindings.reaching(node)
        if not definitions and isinstance(node, ast.Attribute):
            cls = module.class_of(node)
            if cls is not None and isinstance(node.value, ast.Name) and node.value.id == "self":
                definitions = frozenset(module.attribute_definitions.get((cls, node.attr), []))
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


def _call(module: Module, node: ast.Call, depth: int, via: tuple[Definition, ...]) -> Arm:
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
        return Arm(kind, node, label, qualified, arguments, via, inner=inner)  # type: ignore[arg-type]
    name = module.source.source(node.func)
    return Arm("custom", node, name.rsplit(".", 1)[-1], definitions=via)


def _with_test(arm: Arm, test: ast.expr, when: bool) -> Arm:
    return Arm(arm.kind, arm.node, arm.label, arm.qualified, arm.arguments, arm.definitions, test, when, arm.inner)


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
