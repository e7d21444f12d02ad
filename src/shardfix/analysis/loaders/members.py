"""What may be an item of a list or a dict of the project: by what is written out, appended, stored, joined, given."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.code.tree import returns_of
from shardfix.analysis.loaders.called_with import Run, Runs, given, left_out
from shardfix.analysis.loaders.rebinding import always_before

Member = tuple[ast.expr, Runs]  # an expression, and the runs of functions in which it is to be read
_DEPTH = 8
_ASKS = frozenset({"index", "count", "copy", "get", "items", "keys", "values"})


def items_of(module: Module, node: ast.expr, depth: int) -> list[ast.expr]:
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
        if stored or (isinstance(parent, ast.Attribute) and parent.attr not in _ASKS):
            return []
    return items_of(module, d.value, depth + 1)


def members(module: Module, node: ast.expr, runs: Runs, depth: int = 0) -> list[Member] | None:
    """Everything that may be an item of a list, whatever its place; None where some of it is not seen."""
    module = module.home(node)
    if depth > _DEPTH:
        return None
    if isinstance(node, (ast.List, ast.Tuple)):
        return None if any(isinstance(e, ast.Starred) for e in node.elts) else [(e, runs) for e in node.elts]
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Mult):
            repeated = node.left if isinstance(node.left, (ast.List, ast.Tuple)) else node.right
            return members(module, repeated, runs, depth + 1)
        return _all(members(module, side, runs, depth + 1) for side in (node.left, node.right))
    if isinstance(node, ast.IfExp):
        return _all(members(module, side, runs, depth + 1) for side in (node.body, node.orelse))
    if isinstance(node, ast.ListComp):
        return [(node.elt, runs)]
    if isinstance(node, ast.Call):
        if last_name(node.func) in ("list", "tuple") and len(node.args) == 1:
            return members(module, node.args[0], runs, depth + 1)
        return _all(
            members(module, value, (*runs, Run(function, node)), depth + 1)
            for function in module.called_functions(node)
            for value in returns_of(function)
            if not left_out(module, value, (*runs, Run(function, node)))
        )
    if not isinstance(node, ast.Name):
        return None
    found = [d for d in module.bindings.reaching(node) if not left_out(module, d.statement, runs)]
    found.sort(key=lambda d: (getattr(d.node, "lineno", 0), getattr(d.node, "col_offset", 0)))
    return _all(_bound(module.home(d.node), d, runs, depth) for d in found)


def _bound(module: Module, d: Definition, runs: Runs, depth: int) -> list[Member] | None:
    if d.kind == "parameter":
        handed = given(module, d, runs)
        return members(module, *handed, depth + 1) if handed is not None else None
    if d.kind != "assign" or d.value is None or d.index is not None:
        return None
    parts = [members(module, d.value, runs, depth + 1)]
    for use in module.bindings.readers(d):
        parent = module.parents[use]
        if isinstance(parent, ast.Subscript) and not isinstance(parent.ctx, ast.Load):
            parts.append(_stored(module, parent, runs))
        elif isinstance(parent, ast.Attribute) and parent.value is use and parent.attr not in _ASKS:
            call = module.parents[parent]
            if not isinstance(call, ast.Call) or call.func is not parent or len(call.args) != 1:
                return None
            if parent.attr == "append":
                parts.append([(call.args[0], runs)])
            else:
                parts.append(members(module, call.args[0], runs, depth + 1) if parent.attr == "extend" else None)
    return _all(parts)


def entries(module: Module, node: ast.expr, key: object) -> list[ast.expr] | None:
    """Everything that a dict of one function may hold under a key where a name for it is read; None where some of that
    is not seen, or nothing is."""
    definitions = list(module.bindings.reaching(node)) if isinstance(node, ast.Name) else []
    if len(definitions) != 1 or definitions[0].kind != "assign" or definitions[0].index is not None:
        return None
    (d,) = definitions
    if d.scope is not module.scope(node):
        return None
    begun = _display(module, d.value, key)
    if begun is None:
        return None
    stores: list[tuple[ast.stmt, ast.expr]] = []
    for use in module.bindings.readers(d):
        parent = module.parents[use]
        if isinstance(parent, ast.Subscript) and parent.value is use and not isinstance(parent.ctx, ast.Load):
            statement = module.parents[parent]
            if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
                return None
            if not isinstance(parent.slice, ast.Constant) or parent.slice.value == key:
                stores.append((statement, statement.value))
        elif isinstance(parent, ast.Attribute) and parent.attr not in _ASKS:
            return None
        elif isinstance(parent, ast.Call) and parent.lineno < node.lineno and module.called_functions(parent):
            return None  # the function may put something else there
    sure = [s for s, _ in stores if isinstance(_key(s), ast.Constant) and always_before(module, s, node)]
    last = max(sure, key=lambda s: s.lineno, default=None)
    kept = [value for s, value in stores if s.lineno < node.lineno and (last is None or s.lineno >= last.lineno)]
    found = kept if last is not None else [*begun, *kept]
    return found or None


def _key(statement: ast.stmt) -> ast.expr | None:
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    return target.slice if isinstance(target, ast.Subscript) else None


def _display(module: Module, value: ast.expr | None, key: object) -> list[ast.expr] | None:
    """What a dict is made with under a key: of ``{..}`` and ``dict(..)``."""
    if isinstance(value, ast.Dict):
        if any(not isinstance(k, ast.Constant) for k in value.keys):
            return None
        pairs = zip(value.keys, value.values, strict=True)
        return [v for k, v in pairs if isinstance(k, ast.Constant) and k.value == key]
    if isinstance(value, ast.Call) and "builtins.dict" in module.callee(value) and not value.args:
        if all(k.arg is not None for k in value.keywords):
            return [k.value for k in value.keywords if k.arg == key]
    return None


def _stored(module: Module, item: ast.Subscript, runs: Runs) -> list[Member] | None:
    statement = module.parents[item]
    return [(statement.value, runs)] if isinstance(statement, ast.Assign) else None


def _all(parts: Iterable[list[Member] | None]) -> list[Member] | None:
    """The members of all parts; None where one part is not seen, or there is none."""
    known = list(parts)
    if not known or any(part is None for part in known):
        return None
    return [member for part in known if part is not None for member in part]


__all__ = ["Member", "entries", "items_of", "members"]
