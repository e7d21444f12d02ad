"""Which ``shuffle=`` says the same as a sampler, and which of its arguments can be said in the loader's call."""

from __future__ import annotations

import ast
from dataclasses import replace

from shardfix.codemods._findings import refuse
from shardfix.codemods._unused import pure

from shardfix.analysis.code.bindings import Definition, attribute_key
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import is_none
from shardfix.analysis.loaders.samplers import Arm, same_expression
from shardfix.analysis.model import Finding
from shardfix.analysis.sites import Site


def own_argument(arm: Arm, name: str) -> ast.expr | None:
    """What the sampler itself is given for a parameter."""
    return arm.arguments.value(name) if arm.arguments else None


def is_one(module: Module, value: ast.expr | None, depth: int = 0) -> bool:
    """Whether a value is the literal 1, also by a name that has no other value."""
    if isinstance(value, ast.Constant):
        return value.value == 1 and value.value is not True
    if not isinstance(value, ast.Name) or depth > 4:
        return False
    found = module.bindings.reaching(value)
    return bool(found) and all(
        d.kind == "assign" and d.index is None and is_one(module, d.value, depth + 1) for d in found
    )


def intended_shuffle(site: Site, arm: Arm, shuffle: ast.expr | None) -> str | None:
    """Source of the ``shuffle=`` that keeps what one arm does; None if it can't be told.

    Args:
        shuffle: what is given for it today, where the sampler is this arm.
    """
    if arm.kind == "sequential":
        return "False"
    if arm.kind == "random":
        return "True"
    if arm.kind == "distributed":
        value = own_argument(arm, "shuffle")
        if value is None:
            return "True"
        return str(value.value) if isinstance(value, ast.Constant) else site.module.source.source(value)
    if shuffle is None or (isinstance(shuffle, ast.Constant) and not shuffle.value):
        return "False"
    if isinstance(shuffle, ast.Constant):
        return "True"
    return _beside(site, arm, shuffle) or _where_chosen(site, arm, shuffle) or _without_sampler(site, shuffle)


def _beside(site: Site, arm: Arm, shuffle: ast.expr) -> str | None:
    """The constant that ``shuffle`` is given in the very branch in which the sampler is given this arm."""
    module = site.module
    if not isinstance(shuffle, ast.Name) or not arm.definitions:
        return None
    found = [
        d
        for d in module.bindings.reaching(shuffle)
        if isinstance(d.statement, ast.stmt) and arm.definitions[0].statement in module.block(d.statement)
    ]
    value = found[0].value if len(found) == 1 and found[0].kind == "assign" else None
    if isinstance(value, ast.Constant) and isinstance(value.value, bool):
        return str(value.value)
    return None


def _where_chosen(site: Site, arm: Arm, shuffle: ast.expr) -> str | None:
    """The constant that ``shuffle=not distributed`` is where the very same condition chooses this arm."""
    outcome = True
    while isinstance(shuffle, ast.UnaryOp) and isinstance(shuffle.op, ast.Not):
        shuffle, outcome = shuffle.operand, not outcome
    for test, chosen in _conditions(site.module, arm):
        while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test, chosen = test.operand, not chosen
        if same_expression(site.module, test, shuffle):
            return str(outcome is chosen)
    return None


def _conditions(module: Module, arm: Arm) -> list[tuple[ast.expr, bool]]:
    """The conditions that choose an arm, each with its outcome."""
    if arm.test is not None:
        return [(arm.test, arm.when)]
    if not arm.definitions or not isinstance(arm.definitions[0].statement, ast.stmt):
        return []
    statement = arm.definitions[0].statement
    outer = module.parents[statement]
    return [(outer.test, statement in outer.body)] if isinstance(outer, ast.If) else []


def paired_assignments(site: Site) -> list[Definition]:
    """The assignments of ``shuffle`` that stand beside those of the sampler."""
    shuffle = site.arguments.value("shuffle")
    mine = {d.statement for d in site.distributed_definitions}
    return [
        d
        for d in (site.module.bindings.reaching(shuffle) if isinstance(shuffle, ast.Name) else ())
        if isinstance(d.statement, ast.Assign) and mine & set(site.module.block(d.statement))
    ]


def _without_sampler(site: Site, test: ast.expr) -> str | None:
    """``shuffle=(sampler is None)`` and its kin, read for the case that there is no sampler."""
    if _says_none(site, test):
        return "True"
    if isinstance(test, ast.IfExp) and isinstance(test.body, ast.Constant) and isinstance(test.orelse, ast.Constant):
        if _says_none(site, test.test):
            return str(bool(test.body.value))
        if _says_some(site, test.test):
            return str(bool(test.orelse.value))
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        rest = [v for v in test.values if not _says_none(site, v)]
        if len(rest) == 1 and len(test.values) == 2:
            return site.module.source.source(rest[0])
    return None


def _is_sampler(site: Site, node: ast.expr) -> bool:
    """Whether an expression of the loader's call is the sampler that it gets."""
    value = site.arguments.value("sampler")
    return isinstance(value, (ast.Name, ast.Attribute)) and same_expression(site.module, node, value)


def _says_none(site: Site, test: ast.expr) -> bool:
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and is_none(test.comparators[0]):
        return isinstance(test.ops[0], (ast.Is, ast.Eq)) and _is_sampler(site, test.left)
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) and _says_some(site, test.operand)


def _says_some(site: Site, test: ast.expr) -> bool:
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and is_none(test.comparators[0]):
        return isinstance(test.ops[0], (ast.IsNot, ast.NotEq)) and _is_sampler(site, test.left)
    return _is_sampler(site, test)


def unmovable(site: Site, *values: ast.expr | None) -> Finding | None:
    """A refusal if an expression may have another value in the loader's call than where it stands."""
    for value in values:
        if value is None or isinstance(value, ast.Constant) or _movable(site, value):
            continue
        text = site.module.source.source(value)
        found = refuse(site, "SHD922", evidence=(site.module.evidence(value),))
        return replace(
            found,
            message=f"`{text}` of the sampler may have another value where the loader is built",
            remedy="write the value into the loader's call and take the sampler off by hand",
        )
    return None


def _movable(site: Site, value: ast.expr) -> bool:
    """Whether the names of an expression have the same definitions in the loader's call as where it stands."""
    module, here = site.module, site.module.environment(site.call)
    if here is None or not pure(value):
        return False
    for node in ast.walk(value):
        if not isinstance(node, (ast.Name, ast.Attribute)):
            continue
        key = node.id if isinstance(node, ast.Name) else attribute_key(node)
        there = module.bindings.reaching(node)
        if key is None or here.get(key, frozenset()) == there:
            continue
        if key == "self" and module.class_of(node) is module.class_of(site.call):
            continue
        local = module.function(site.call) or module.tree
        free = key not in here and not any(d.scope is local or d.scope is module.function(node) for d in there)
        if not free or isinstance(node, ast.Attribute):
            return False
    return True
