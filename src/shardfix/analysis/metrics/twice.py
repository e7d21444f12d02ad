"""Whether what a loop gathers is handed on to something that combines the ranks' values by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from shardfix.analysis.code.bindings import parameters
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.code.own import own_nodes
from shardfix.analysis.loops.evaluation import is_reduction
from shardfix.analysis.metrics.model import Obstacle
from shardfix.analysis.metrics.unseen import as_a_value, handed_out, reckoned

_DEPTH = 5
_Functions = (ast.FunctionDef, ast.AsyncFunctionDef)


def reduced_later(module: Module, loop: ast.For, gathered: Iterable[str], *, sharded: bool) -> Obstacle | None:
    """The call that may sum over the ranks once more what is reduced right behind a loop; None where none is seen.

    Args:
        gathered: the names of what the loop gathers.
        sharded: whether the program shards the evaluation already, so that its own reduction may be out of sight.
    """
    return _Handed(set(), sharded).within(module, loop, set(gathered), 0)


class _Handed:
    """What becomes of values, up through the callers of the function that made them."""

    def __init__(self, seen: set[ast.AST], sharded: bool) -> None:
        self.seen, self.sharded = seen, sharded

    def within(self, module: Module, made: ast.AST, names: set[str], depth: int) -> Obstacle | None:
        """Follow values in the function in which they are made.

        Args:
            made: the loop or call that makes them.
            names: the names that stand for them.
        """
        module = module.home(made)
        scope = module.scope(made)
        line = getattr(made, "lineno", 0)
        nodes = [n for n in own_nodes(scope) if getattr(n, "lineno", line) >= line]
        tainted: set[ast.AST] = {made} if isinstance(made, ast.Call) else set()
        for _ in range(3):  # names of names of names
            for n in nodes:
                if isinstance(n, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr)) and n.value is not None:
                    if _holds(n.value, names, tainted):
                        targets = n.targets if isinstance(n, ast.Assign) else [n.target]
                        names |= {name for t in targets for name in _names(t)}
                elif isinstance(n, (ast.For, ast.comprehension)) and n is not made:
                    if _holds(n.iter, names, tainted):
                        names |= set(_names(n.target))
                elif isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute):
                    if any(_holds(a, names, tainted) for a in arguments_of(n)) and not _is_import(module, n.func.value):
                        names |= set(_names(n.func.value))  # it may keep them: `results.append(n)`
        for n in nodes:
            if isinstance(n, ast.Call) and n is not made and self._combines(module, n, names, tainted):
                return Obstacle(n, f"`{last_name(n.func)}(..)` combines the ranks' values once more")
        if self.sharded:
            hidden = self._out_of_sight(module, made, [n for n in nodes if n is not made], names, tainted)
            if hidden is not None:
                return hidden
        own = {n.removeprefix("self.") for n in names if n.startswith("self.")}
        found = self._of_object(module, made, own) if own else None
        if found is not None or depth >= _DEPTH or not isinstance(scope, _Functions) or scope in self.seen:
            return found
        self.seen.add(scope)
        given_back = {a.arg for a in parameters(scope)} & {n.partition(".")[0] for n in names} - {"self"}
        for call in module.callers(scope):
            outer = {
                name
                for a in arguments_of(call)
                if (p := module.parameter_of(scope, call, a)) is not None and p.arg in given_back
                for name in _names(a)
            }
            found = self.within(module, call, outer, depth + 1)
            if found is not None:
                return found
        return None

    def _out_of_sight(
        self, module: Module, made: ast.AST, nodes: list[ast.AST], names: set[str], tainted: set[ast.AST]
    ) -> Obstacle | None:
        """Where a program that shards may combine what this function holds without a collective that is seen."""

        def holds(node: ast.AST) -> bool:
            return _holds(node, names, tainted)

        end = getattr(made, "end_lineno", 0) if isinstance(made, ast.For) else getattr(made, "lineno", 0)
        behind = [n for n in nodes if getattr(n, "lineno", 0) > end or isinstance(made, ast.Call)]
        found = handed_out(module, behind, holds, lambda f: _calls_collective(module, f, 0, set()))
        return found or reckoned(own_nodes(module.scope(made)), holds) or as_a_value(module)

    def _combines(self, module: Module, call: ast.Call, names: set[str], tainted: set[ast.AST]) -> bool:
        """Whether a call that is given such a value, or is a method of what holds one, combines values."""
        given = any(_holds(a, names, tainted) for a in arguments_of(call))
        receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
        asked = receiver is not None and _holds(receiver, names, tainted)
        if not given and not asked:
            return False
        if is_reduction(module, call) and last_name(call.func) not in ("reduced", "in_order", "of_all_batches"):
            return True
        functions = list(module.called_functions(call))
        classes = module.project_classes(call.func)
        if receiver is not None and not functions:
            functions = [f for m in module.fellows for f in m.functions if f.name == last_name(call.func)]
        functions += [f for c in classes for f in c.body if isinstance(f, _Functions)]
        return any(_calls_collective(module, f, 0, set()) for f in functions)

    def _of_object(self, module: Module, made: ast.AST, attributes: set[str]) -> Obstacle | None:
        """A method that reads such an attribute of the object and combines values."""
        cls = module.class_of(made)
        for method in cls.body if cls is not None else ():
            if not isinstance(method, _Functions) or method is module.scope(made):
                continue
            reads = {n.attr for n in ast.walk(method) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load)}
            if reads & attributes and _calls_collective(module, method, 0, set()):
                return Obstacle(method, f"`{method.name}` combines the ranks' values once more")
        return None


def _calls_collective(module: Module, function: ast.AST, depth: int, seen: set[ast.AST]) -> bool:
    if function in seen or depth > _DEPTH:
        return False
    seen.add(function)
    home = module.home(function)
    for n in ast.walk(function):
        if not isinstance(n, ast.Call):
            continue
        if is_reduction(home, n) and last_name(n.func) not in ("reduced", "in_order", "of_all_batches"):
            return True
        if any(_calls_collective(home, f, depth + 1, seen) for f in home.called_functions(n)):
            return True
    return False


def _is_import(module: Module, node: ast.expr) -> bool:
    """``torch`` in ``torch.save(results, path)``, and ``torch.nn``: no object of the program's that may keep them."""
    while isinstance(node, ast.Attribute):
        node = node.value
    found = list(module.bindings.reaching(node)) if isinstance(node, ast.Name) else []
    return bool(found) and all(d.kind == "import" for d in found)


def _names(node: ast.AST) -> Iterator[str]:
    """What a target, or what holds it, is called: ``out`` and ``out.sums`` for ``out.sums[0]``."""
    if isinstance(node, (ast.Tuple, ast.List)):
        for e in node.elts:
            yield from _names(e)
    elif isinstance(node, (ast.Starred, ast.Subscript)):
        yield from _names(node.value)
    elif isinstance(node, ast.Attribute):
        yield ast.unparse(node)
        if not (isinstance(node.value, ast.Name) and node.value.id == "self"):
            yield from _names(node.value)
    elif isinstance(node, ast.Name) and node.id != "self":
        yield node.id


def _holds(node: ast.AST, names: set[str], tainted: set[ast.AST]) -> bool:
    """Whether an expression holds such a value."""
    for n in ast.walk(node):
        if n in tainted or (isinstance(n, (ast.Name, ast.Attribute)) and ast.unparse(n) in names):
            return True
    return False


__all__ = ["reduced_later"]
