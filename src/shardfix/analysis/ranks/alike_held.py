"""Whether what an object, a dict or the settings of a program hold under a name is the same on all ranks."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.ranks.alike_bound import alike_here, defined, used
from shardfix.analysis.ranks.alike_names import (
    CHANGES,
    COUNTERS,
    DEPTH,
    LIBRARIES,
    READS,
    SETTINGS,
)
from shardfix.analysis.ranks.going_by_rank import goes_by_rank
from shardfix.analysis.ranks.steps import steps

if TYPE_CHECKING:
    from shardfix.analysis.ranks.alike import Alike


def attribute(alike: Alike, node: ast.Attribute, depth: int) -> bool:
    """Whether an attribute of an object is alike."""
    home = alike.module.home(node)
    if alike.stored.by_rank(node.attr) or not unchanged(alike, node, depth):
        return False
    if node.attr == "param_groups":
        return schedules(alike, home, depth)
    owner = ast.unparse(node.value)
    if any(SETTINGS.search(part) for part in owner.split(".")) or SETTINGS.search(node.attr):
        return _of_settings(alike, node, depth)
    own = isinstance(node.value, ast.Name) and node.value.id == "self"
    cls = home.class_of(node) if own else None
    owners = [cls] if cls is not None else home.instances(node.value)
    found = [d for c in owners for member in home.lineage(c) for d in home.attribute_values(member, node.attr)]
    if found:
        outside = alike.stored.outside(node.attr, owners)
        return all(_stored_value(alike, v, depth) for v in outside) and all(
            defined(alike, d, node, depth) for d in found
        )
    if COUNTERS.search(node.attr):
        return all(alike.value(v, depth) for v in alike.stored.values(node.attr))
    if isinstance(node.value, ast.Name):
        bound = home.bindings.reaching(node.value)
        if bound and all(d.kind == "import" and not home.named(d.module) for d in bound):  # what a module holds
            named = [d for q in home.qualify(node) for d in home.named(q)]
            library = all(q.partition(".")[0] in LIBRARIES for q in home.qualify(node))
            whole = any(m.name == d.module for d in bound for m in home.fellows)
            return (
                all(defined(alike, d, node, depth) for d in named)
                if named or whole
                else library or node.attr == "__dict__"
            )
    return False


def unchanged(alike: Alike, node: ast.Attribute, depth: int, *, values: bool = True) -> bool:
    """Whether what objects hold under a name is changed alike on all ranks, or not at all."""
    if node.attr in alike.changing:
        return True
    alike.changing.add(node.attr)
    try:
        for load in alike.stored.loads(node.attr):
            home = alike.module.home(load)
            outer = home.parents[load]
            told = isinstance(outer, ast.Attribute) and outer.attr in CHANGES
            put = isinstance(outer, ast.Subscript) and not isinstance(outer.ctx, ast.Load)
            if (told or put) and not used(alike, home, load, depth, values):
                return False
        return True
    finally:
        alike.changing.discard(node.attr)


def _of_settings(alike: Alike, node: ast.Attribute, depth: int) -> bool:
    """Whether a setting is alike: read from what all ranks are given, with nothing else put in its place."""
    base = node.value
    while isinstance(base, (ast.Attribute, ast.Subscript)) and not SETTINGS.search(last_name(base)):
        base = base.value
    if SETTINGS.search(last_name(base)) and not _settings(alike, base, depth):
        return False
    if node.attr.startswith("__"):
        return True
    return all(v in alike.open or _stored_value(alike, v, depth) for v in alike.stored.settings(node.attr))


def _stored_value(alike: Alike, value: ast.expr, depth: int) -> bool:
    alike.open.add(value)
    try:
        home = alike.module.home(value)
        return alike.value(value, depth) and all(alike.step(s, depth) for s in steps(home, home.statement(value)))
    finally:
        alike.open.discard(value)


def put_alike(alike: Alike, name: str, depth: int) -> bool:
    """Whether all ranks or none put something under a name of some object."""
    values = alike.stored.values(name)
    return all(alike_here(alike, alike.module.home(v), v, depth + 1) for v in values)


def _settings(alike: Alike, node: ast.expr, depth: int) -> bool:
    """Whether an object with a name of settings is what was read, or made of what is alike."""
    if depth > DEPTH or goes_by_rank(alike.module, node):
        return False
    for d in alike.definitions(node):
        if d.node in alike.open or d.kind in ("class", "function", "import", "loop"):
            continue
        if d.kind == "parameter":
            continue  # by its name, or what is stored in it shows otherwise
        if d.kind != "assign" or d.value is None or not _reads(alike, d.value, depth):
            return False
    return True


def _reads(alike: Alike, value: ast.expr, depth: int) -> bool:
    if isinstance(value, ast.Call):
        home = alike.module.home(value)
        functions = home.called_functions(value)
        name = " ".join([last_name(value.func), *(q.rpartition(".")[2] for q in home.callee(value))])
        if functions and not home.project_classes(value.func):
            return not any(goes_by_rank(home, a) for a in arguments_of(value))
        known = last_name(value.func) in READS or bool(
            re.search(r"(?i)args|parse|config|cfg|option|namespace|dict|param|from_|create|compose|merge", name)
        )
        return known and not any(goes_by_rank(home, a) for a in arguments_of(value))
    if isinstance(value, (ast.Name, ast.Attribute)) and SETTINGS.search(last_name(value)):
        return True
    if isinstance(value, ast.Name) and depth < DEPTH and alike.definitions(value):
        return _settings(alike, value, depth + 1)
    return alike.value(value, depth + 1)


def item(alike: Alike, node: ast.Subscript, depth: int) -> bool:
    """Whether an item of a container is alike."""
    key = node.slice.value if isinstance(node.slice, ast.Constant) else None
    if isinstance(key, str) and alike.stored.by_rank(key):
        return False
    if SETTINGS.search(last_name(node.value)) and isinstance(key, str):
        put = alike.stored.items(key)
        return _settings(alike, node.value, depth) and all(_stored_value(alike, v, depth) for v in put)
    return alike.value(node.value, depth) and alike.value(node.slice, depth)


def schedules(alike: Alike, home: Module, depth: int) -> bool:
    """Whether the learning rate is: what schedules it is told of alike values only."""
    told = [c for c in home.calls if last_name(c.func) == "step" and "sched" in ast.unparse(c.func).lower()]
    return all(alike.value(a, depth) for c in told for a in arguments_of(c))


__all__ = ["attribute", "item", "put_alike", "schedules", "unchanged"]
