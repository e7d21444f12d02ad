"""What a program does by hand about the samples that prepare() repeats: it cuts them off, or counts them along."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.calling import arguments_given
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.code.own import own_nodes
from shardfix.analysis.code.tree import returns_of
from shardfix.analysis.programs.processes import is_world_size
from shardfix.analysis.state.stored import Stored

_FILLS = frozenset({"append", "extend", "update", "add"})
_DEPTH = 3  # functions that what was gathered is handed through
_NAMES = 5  # names of names
_DIVIDES = ("div", "true_divide", "divide", "floor_divide")
# What a call of these gives is made of the numbers that it is given, or told of.
_NUMBERS = frozenset({"int", "float", "max", "min", "round", "abs", "sum", "ceil", "floor", "prod", "pow", "item"}) | {
    *("tensor", "as_tensor", "array", "mul", "div", "gather", "to", "cuda", "cpu", "long", "double", "get")
}
_SUMMED = ("reduce", "all_reduce")  # of what each rank counts for itself
_Matches = Callable[[ast.AST, Callable[[ast.AST], bool]], bool]


def cut_off(module: Module, loop: ast.AST, gathered: Collection[ast.Call]) -> ast.AST | None:
    """Where the repeated samples are cut off what was gathered: ``[:n]`` with an ``n`` that is no plain number, in the
    loop, behind it, in a function that is handed it, or in a caller that gets it."""

    def cuts(node: ast.AST, of_it: Callable[[ast.AST], bool]) -> bool:
        return isinstance(node, ast.Subscript) and _to_a_bound(node) and of_it(node.value)

    return _sought(module, module.scope(loop), set(), gathered, cuts, _DEPTH)


def counted_along(
    module: Module, loop: ast.AST, gathered: Collection[ast.Call], lengths: Collection[ast.AST]
) -> ast.expr | ast.stmt | None:
    """Where a denominator counts the repeated samples too: by the number of processes, of the loader's batches, or by
    what the loop counts for itself; beside the loop, where what was gathered goes, or in a caller.

    Args:
        lengths: the expressions that are the loader's number of batches.
    """
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

    def divides(node: ast.AST, of_it: Callable[[ast.AST], bool]) -> bool:
        counts = _Counts(module, loop, lengths, gathered, of_it)
        return any(of_it(one) and counts.along(by) for one, by in _meeting(node))

    found = _sought(module, scope, set(), gathered, divides, _DEPTH)
    return found if isinstance(found, (ast.expr, ast.stmt)) else None


def divided_among(module: Module, loop: ast.AST, names: Collection[str]) -> ast.AST | None:
    """Where what a loop gathers under some names is reckoned with the number of processes, whatever that is called."""

    def divides(node: ast.AST, of_it: Callable[[ast.AST], bool]) -> bool:
        counts = _Counts(module, None, (), (), of_it)
        return any(of_it(one) and counts.along(by) for one, by in _meeting(node))

    return _sought(module, module.scope(loop), set(names), (), divides, _DEPTH)


def _sought(
    module: Module,
    scope: ast.AST,
    held: set[str],
    gathered: Collection[ast.Call],
    matches: _Matches,
    depth: int,
    *,
    returned: bool = True,
) -> ast.AST | None:
    """The first node that matches, asked with whether there is some of what was gathered in an expression: of what the
    calls give, or the names in a scope hold; ``held`` grows by the names that are made of it."""
    nodes = list(own_nodes(scope))

    def of_it(node: ast.AST) -> bool:
        return any(n in gathered or (isinstance(n, ast.Name) and n.id in held) for n in ast.walk(node))

    for _ in range(_DEPTH):  # what is made of it in a loop may be made of it further up
        for node in nodes:
            held.update(_filled(node, of_it))
    inputs = {inner for call in gathered for a in (*call.args, *call.keywords) for inner in ast.walk(a)}
    for node in nodes:
        if node not in inputs and matches(node, of_it):
            return node
    if depth == 0:
        return None
    for call in (n for n in nodes if isinstance(n, ast.Call) and n not in gathered and n not in inputs):
        for function in module.called_functions(call):
            given = [a for a in call.args if of_it(a)] + [k for k in call.keywords if of_it(k.value)]
            names = {p.arg for a in given if (p := module.parameter_of(function, call, a)) is not None}
            if isinstance(call.func, ast.Attribute) and of_it(call.func.value) and module.is_method(function):
                names |= {a.arg for a in function.args.args[:1]}
            home = module.home(function)
            found = _sought(home, function, names, (), matches, depth - 1, returned=False) if names else None
            if found is not None:
                return found
    if returned and not isinstance(scope, ast.Module) and any(isinstance(n, ast.Return) and of_it(n) for n in nodes):
        for call in module.callers(scope):
            home = module.home(call)
            found = _sought(home, home.scope(call), set(), (call,), matches, depth - 1)
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


def _meeting(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What a node reckons with, one by another: ``a / b``, ``a -= b``, ``a.view(b, -1)``, ``torch.div(a, b)``."""
    if isinstance(node, (ast.BinOp, ast.AugAssign)) and not isinstance(node.op, ast.Add):
        one, by = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
        yield from ((one, by), (by, one)) if not isinstance(node.op, (ast.Div, ast.FloorDiv)) else ((one, by),)
    elif isinstance(node, ast.Call) and last_name(node.func) in _DIVIDES and len(node.args) > 1:
        yield node.args[0], node.args[1]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr not in _FILLS:
        yield from ((node.func.value, a) for a in node.args)


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """What a number is made of: not what is in the objects that it is asked of, and in what counts them."""
    if isinstance(node, ast.Call):
        if last_name(node.func) in _NUMBERS:
            yield from node.args
            yield from [node.func.value] if isinstance(node.func, ast.Attribute) else ()
    elif not isinstance(node, ast.Attribute):
        yield from ast.iter_child_nodes(node)


class _Counts:
    """Whether a number counts the samples that prepare() repeats."""

    def __init__(
        self,
        module: Module,
        loop: ast.AST | None,
        lengths: Collection[ast.AST],
        gathered: Collection[ast.Call],
        of_it: Callable[[ast.AST], bool],
    ) -> None:
        self.module = module
        self.inside = set(ast.walk(loop)) if loop is not None else set()
        self.lengths = lengths
        self.gathered = gathered
        self.of_it = of_it
        self.stored = Stored(module)

    def along(self, node: ast.AST, depth: int = 0) -> bool:
        """Whether it is made of a number that goes by the repeated samples."""
        inside = [node] if depth <= _NAMES else []
        for n in inside:  # grows while it is gone through
            if n not in self.gathered:
                if self._counts(n, depth):
                    return True
                inside.extend(_parts(n))
        return False

    def _counts(self, node: ast.AST, depth: int) -> bool:
        if node in self.lengths or (isinstance(node, ast.expr) and is_world_size(node)):
            return True
        if isinstance(node, ast.Call):
            if last_name(node.func) in _SUMMED and not self.of_it(node):
                return True
            given_back = [r for f in self.module.called_functions(node) for r in returns_of(f)]
            made = [d.value for d in self.module.bindings.reaching(node.func)]
            given_back += [v.body for v in made if isinstance(v, ast.Lambda)]
            of_its_share = any(a in self.lengths for a in node.args)  # len(loader.batch_sampler)
            return of_its_share or any(self.along(r, depth + 1) for r in given_back)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            return any(self.along(v, depth + 1) for v in self.stored.values(node.attr))
        return isinstance(node, ast.Name) and any(self._bound(d, depth) for d in self.module.bindings.reaching(node))

    def _bound(self, d: Definition, depth: int) -> bool:
        if d.kind == "parameter":
            return any(v is not None and self.along(v, depth + 1) for _, v in arguments_given(self.module, d))
        if d.node in self.inside and d.kind in ("augmented", "loop"):
            return d.value is not None and not self.of_it(d.value)  # what the loop itself counts
        if any(self._is_summed(use) for use in self.module.bindings.readers(d)):
            return True
        return d.kind in ("assign", "augmented") and d.value is not None and self.along(d.value, depth + 1)

    def _is_summed(self, use: ast.expr) -> bool:
        """``dist.all_reduce(n)``"""
        call = self.module.parents.get(use)
        return isinstance(call, ast.Call) and last_name(call.func) == "all_reduce" and use in call.args[:1]


def _read_later(scope: ast.AST, statement: ast.stmt, line: int) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    names = {t.id for t in targets if isinstance(t, ast.Name)}
    return any(
        isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id in names and n.lineno >= line
        for n in own_nodes(scope)
    )


__all__ = ["counted_along", "cut_off", "divided_among"]
