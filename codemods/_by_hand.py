"""What a program does by hand about the samples that prepare() repeats: it cuts them off, or counts them along."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.own import own_nodes
from shardfix.analysis.programs.processes import is_world_size

_FILLS = frozenset({"append", "extend", "update", "add"})
_DEPTH = 3  # functions that what was gathered is handed through


def cut_off(module: Module, loop: ast.AST, gathered: Collection[ast.Call]) -> ast.AST | None:
    """Where the repeated samples are cut off what was gathered: ``[:n]`` with an ``n`` that is no plain number, in the
    loop, behind it, in a function that is handed it, or in a caller that gets it."""
    return _cut(module, module.scope(loop), set(), gathered, _DEPTH)


def counted_along(module: Module, loop: ast.AST) -> ast.BinOp | ast.AugAssign | None:
    """Where a denominator counts the repeated samples too, by the number of processes: in the loop, behind it, before
    it under a name that is read later, or in a caller behind the evaluation's call."""
    scope = module.scope(loop)
    start = getattr(loop, "lineno", 0)
    places = [(module, scope, start)]
    if not isinstance(scope, ast.Module):
        places += [(home := module.home(c), home.scope(c), c.lineno) for c in module.callers(scope)]
    for home, where, line in places:
        for node in own_nodes(where):
            if isinstance(node, (ast.BinOp, ast.AugAssign)) and _reckons(node):
                if node.lineno >= line or _read_later(where, home.statement(node), line):
                    return node
    return None


def _cut(
    module: Module, scope: ast.AST, held: set[str], gathered: Collection[ast.Call], depth: int, *, returned: bool = True
) -> ast.AST | None:
    """The slice that cuts what the names in a scope hold, or what the calls give; ``held`` grows by the names that are
    made of it."""
    nodes = list(own_nodes(scope))

    def of_it(node: ast.AST) -> bool:
        return any(n in gathered or (isinstance(n, ast.Name) and n.id in held) for n in ast.walk(node))

    for _ in range(_DEPTH):  # what is made of it in a loop may be made of it further up
        for node in nodes:
            held.update(_filled(node, of_it))
    inputs = {inner for call in gathered for a in (*call.args, *call.keywords) for inner in ast.walk(a)}
    for node in nodes:
        if isinstance(node, ast.Subscript) and node not in inputs and _to_a_bound(node) and of_it(node.value):
            return node
    if depth == 0:
        return None
    for call in (n for n in nodes if isinstance(n, ast.Call) and n not in gathered and n not in inputs):
        for function in module.called_functions(call):
            given = [a for a in call.args if of_it(a)] + [k for k in call.keywords if of_it(k.value)]
            names = {p.arg for a in given if (p := module.parameter_of(function, call, a)) is not None}
            found = _cut(module.home(function), function, names, (), depth - 1, returned=False) if names else None
            if found is not None:
                return found
    if returned and not isinstance(scope, ast.Module) and any(isinstance(n, ast.Return) and of_it(n) for n in nodes):
        for call in module.callers(scope):
            home = module.home(call)
            found = _cut(home, home.scope(call), set(), (call,), depth - 1)
            if found is not None:
                return found
    return None


def _filled(node: ast.AST, of_it: Callable[[ast.AST], bool]) -> Iterator[str]:
    """The names that a node gives a value in which there is some of it."""
    if isinstance(node, ast.Assign) and of_it(node.value):
        yield from (n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name))
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign)) and node.value is not None and of_it(node.value):
        yield from (n.id for n in ast.walk(node.target) if isinstance(n, ast.Name))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _FILLS:
        if any(of_it(a) for a in node.args):
            yield from (n.id for n in ast.walk(node.func.value) if isinstance(n, ast.Name))


def _to_a_bound(node: ast.Subscript) -> bool:
    cut = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
    if not isinstance(cut, ast.Slice) or cut.upper is None:
        return False
    from_the_first = cut.lower is None or (isinstance(cut.lower, ast.Constant) and cut.lower.value == 0)
    return from_the_first and not isinstance(cut.upper, ast.Constant)


def _reckons(node: ast.BinOp | ast.AugAssign) -> bool:
    if not isinstance(node.op, (ast.Mult, ast.Div, ast.FloorDiv)):
        return False
    parts = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
    return any(is_world_size(part) for part in parts)


def _read_later(scope: ast.AST, statement: ast.stmt, line: int) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    names = {t.id for t in targets if isinstance(t, ast.Name)}
    return any(
        isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id in names and n.lineno >= line
        for n in own_nodes(scope)
    )


__all__ = ["counted_along", "cut_off"]
