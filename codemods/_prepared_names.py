"""Whether a name surely is the loader that prepare() returned, wherever it was bound."""

from __future__ import annotations

import ast

from shardfix.analysis.code.bindings import Definition, attribute_key, parameters
from shardfix.analysis.code.calling import arguments_given
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.code.tree import returns_of
from shardfix.analysis.programs.regimes import is_prepare
from shardfix.analysis.sites import Site

_DEPTH = 8


def prepared_name(site: Site, node: ast.Call) -> str:
    """How the prepared loader is called in the function of ``node``, where a name surely is it at ``node``."""
    module = site.module
    function = module.function(node)
    loops = [n for n in module.around(node) if isinstance(n, (ast.For, ast.AsyncFor, ast.While))]
    for alias in sorted(site.flow.aliases, key=lambda n: (n.lineno, n.col_offset)):
        if not isinstance(alias, (ast.Name, ast.Attribute)) or not isinstance(alias.ctx, ast.Load):
            continue
        if module.function(alias) is not function or module.home(alias) is not module.home(node):
            continue
        near = alias.lineno >= node.lineno or any(n in loops for n in module.around(alias))
        if near and surely_prepared(site, alias, node):
            return module.source.source(alias)
    return ""


def surely_prepared(site: Site, name: ast.Name | ast.Attribute, at: ast.Call) -> bool:
    """Whether a name (or ``self.name``) is bound at a call, and only to what prepare() returned."""
    key = name.id if isinstance(name, ast.Name) else attribute_key(name)
    return key is not None and _surely_prepared(site, name, key, at, 0)


def _surely_prepared(site: Site, name: ast.Name | ast.Attribute, key: str, at: ast.Call, depth: int) -> bool:
    module, function = site.module, site.module.function(at)
    here = module.environment(at)
    if here is None or depth > _DEPTH:
        return False
    found = here.get(key, frozenset())
    if any(_stands(module, d, at) for d in found):
        return all(_prepared(site, d, 0) for d in found)
    outer = _outer_definitions(module, name, key, at)
    if not outer or any(d.scope is module.scope(at) for d in outer):
        return False
    if not all(_prepared(site, d, 0) for d in found | outer):
        return False
    # a variable outside, or an attribute: where the function is called it must be so already
    scopes = {d.scope for d in outer}
    for call in module.callers(function) if function is not None else ():
        caller = module.scope(call)
        there = (module.environment(call) or {}).get(key, frozenset())
        if caller in scopes and not _surely_prepared(site, name, key, call, depth + 1):
            return False
        if caller not in scopes and not all(_prepared(site, d, 0) for d in there if d.scope in scopes):
            return False
    return True


def _outer_definitions(module: Module, name: ast.Name | ast.Attribute, key: str, at: ast.Call) -> frozenset[Definition]:
    """What a name may be that its function does not bind: a variable outside, an attribute set by another method."""
    if isinstance(name, ast.Name):
        return module.bindings.reaching(name)
    cls, own = module.class_of(at), module.function(at)
    found: set[Definition] = set()
    if cls is None or not key.startswith("self."):
        return frozenset()
    for d in module.attribute_values(cls, key[5:]):
        if d.scope is not own:
            found |= module.bindings.exit_of(d.scope).get(key, frozenset())
    # `self.loader = None` until it is made: nothing iterates that
    return frozenset(d for d in found if not (isinstance(d.value, ast.Constant) and d.value.value is None))


def _stands(module: Module, d: Definition, at: ast.AST) -> bool:
    """Whether every way to a place leads through a definition: it stands before it in a block around the place."""
    around = {at, *module.around(at)}
    if d.kind == "parameter" or (d.kind == "loop" and d.statement in around):
        return True
    if not isinstance(d.statement, ast.stmt):
        return False
    block = module.block(d.statement)
    return any(s in around for s in block[block.index(d.statement) + 1 :])


def _prepared(site: Site, d: Definition, depth: int) -> bool:
    """Whether a binding surely binds what prepare() returned."""
    module = site.module
    if depth > _DEPTH or (d.value is None and d.kind != "parameter"):
        return False
    if d.kind == "parameter":
        function = d.scope
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) or called_elsewhere(module, function):
            return False
        if d.node not in parameters(function):
            return False
        handed = arguments_given(module, d)
        return bool(handed) and all(v is not None and _value(site, v, None, depth + 1) for _, v in handed)
    assert d.value is not None
    if d.kind == "loop":
        taken = items(d.value)
        return bool(taken) and d.index is None and all(_value(site, v, None, depth + 1) for v in taken or ())
    return d.kind == "assign" and _value(site, d.value, d.index, depth + 1)


def _value(site: Site, node: ast.expr, index: int | None, depth: int) -> bool:
    module = site.module
    if isinstance(node, (ast.Tuple, ast.List)) and index is not None and 0 <= index < len(node.elts):
        return _value(site, node.elts[index], None, depth)
    if isinstance(node, ast.Call):
        if is_prepare(module, node, site.options.prepare_functions):
            return True
        function = module.called_function(node)
        if function is None or function.name == "__init__":
            return False
        values = returns_of(function)
        return bool(values) and depth < _DEPTH and all(_value(site, v, index, depth + 1) for v in values)
    if isinstance(node, ast.IfExp):
        return _value(site, node.body, index, depth) and _value(site, node.orelse, index, depth)
    if isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and index is None):
        found = module.bindings.reaching(node)
        if not found and isinstance(node, ast.Attribute):
            cls = module.class_of(node)
            if cls is not None and isinstance(node.value, ast.Name) and node.value.id == "self":
                key = f"self.{node.attr}"
                standing = [
                    module.bindings.exit_of(d.scope).get(key, frozenset())
                    for d in module.attribute_values(cls, node.attr)
                ]
                found = frozenset().union(*standing)
        if index is not None:
            return (
                bool(found)
                and all(
                    d.kind == "assign"
                    and d.value is not None
                    and d.index is None
                    and _value(site, d.value, index, depth + 1)
                    for d in found
                )
                and depth < _DEPTH
            )
        return bool(found) and all(_prepared(site, d, depth + 1) for d in found)
    return False


def items(iterable: ast.expr) -> list[ast.expr] | None:
    """What a loop goes over, where that is written out."""
    return iterable.elts if isinstance(iterable, (ast.Tuple, ast.List)) else None


def called_elsewhere(module: Module, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether other files of the project may call a function."""
    name, tail = function.name, module.name.rpartition(".")[2]
    for other in module.fellows:
        if other is module:
            continue
        imported = {d.key for d in other.bindings.definitions if d.kind == "import" and tail_of(d.module) == tail}
        for d in other.bindings.definitions:
            if d.kind == "import" and tail_of(d.module) == name and tail_of(d.module.rpartition(".")[0]) == tail:
                return True
        for call in other.calls:
            if not (isinstance(call.func, ast.Attribute) and call.func.attr == name):
                continue
            if module.is_method(function):  # `model.train()` is another train: one of ours is given something
                if call.args or call.keywords:
                    return True
            elif last_name(call.func.value) in imported:
                return True
        if any(tail_of(star) == tail for star in other.bindings.star_modules) and name in other.text:
            return True
    return False


def tail_of(dotted: str) -> str:
    """The last part of a dotted name."""
    return dotted.rpartition(".")[2]
