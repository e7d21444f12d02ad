"""Where a loader's number of batches is read, one rank's once it is shared out: shown, or reckoned with."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.loaders.flow import Flow
from shardfix.analysis.metrics.model import Obstacle

_DEPTH = 5
_SHOWS = frozenset({"print", "info", "debug", "warning", "error", "log", "tqdm", "trange", "set_description"})
_SHOWING = re.compile(r"progress|tqdm|logger|pbar|(^|_)bar(_|$)|print", re.IGNORECASE)
_THROUGH = frozenset({"str", "int", "float", "min", "max", "round", "format", "len", "join", "ljust", "rjust", "repr"})
_THROUGH_NODES = (
    *(ast.BinOp, ast.UnaryOp, ast.IfExp, ast.JoinedStr, ast.FormattedValue, ast.Tuple, ast.List, ast.BoolOp),
    *(ast.Attribute, ast.Starred, ast.Dict, ast.Subscript),
)
_MEASURES = frozenset({"__len__", "num_samples", "total_size", "num_replicas"})


def measured(module: Module, flow: Flow, settled: Collection[ast.AST]) -> Obstacle | None:
    """The first place where something goes by the number of batches or of samples of one rank.

    Args:
        settled: the expressions that are reduced.
    """
    inside = {n for s in settled for n in ast.walk(s)}
    for use in flow.of("length"):
        node = use.node
        home = module.home(node)
        if isinstance(node, ast.expr) and node not in inside and not _Shown(home).told(node):
            return Obstacle(
                home.statement(node), "the number of batches is read, which is one rank's once it is shared"
            )
    for use in flow.of("attribute"):
        if isinstance(use.node, ast.Attribute) and _of_sampler(module, use.node) and not _is_shown(module, use.node):
            home = module.home(use.node)
            return Obstacle(
                home.statement(use.node), f"`{ast.unparse(use.node)}` is read, which deals out one rank's part"
            )
    return None


def shown(module: Module, node: ast.expr) -> bool:
    """Whether a number ends up in what is printed, logged, or drawn as a progress bar, and nowhere else."""
    return _Shown(module.home(node)).told(node)


def _is_shown(module: Module, node: ast.Attribute) -> bool:
    """Whether a measure of a sampler is only shown: ``len(loader.sampler)``, ``loader.sampler.num_samples``."""
    outer = module.parents[node]
    if node.attr in _MEASURES:
        return shown(module, node)
    length = isinstance(outer, ast.Call) and last_name(outer.func) == "len" and outer.args == [node]
    measure = isinstance(outer, ast.Attribute) and outer.attr in _MEASURES
    return (length or measure) and isinstance(outer, ast.expr) and shown(module, outer)


def reckoned_before(module: Module, loop: ast.For, steps: ast.expr) -> Obstacle | None:
    """What else goes by a name that is given the reduced number of batches before the loop."""
    statement = module.statement(steps)
    if statement.lineno > loop.lineno or not isinstance(statement, ast.Assign):
        return None
    end = loop.end_lineno or loop.lineno
    for d in module.bindings.definitions:
        if d.statement is not statement:
            continue
        for reader in module.bindings.readers(d):
            if reader.lineno <= end and not _Shown(module).told(reader):
                return Obstacle(module.statement(reader), "the number of batches is read before the loop has ended")
    return None


def _of_sampler(module: Module, node: ast.Attribute) -> bool:
    if node.attr in _MEASURES:
        return True
    if node.attr not in ("sampler", "batch_sampler"):
        return False
    outer = module.parents.get(node)
    if isinstance(outer, ast.Attribute):
        return outer.attr != "set_epoch"
    if isinstance(outer, ast.Call) and last_name(outer.func) in ("isinstance", "hasattr", "callable", "type"):
        return False
    return not isinstance(outer, (ast.Compare, ast.If, ast.BoolOp))


class _Shown:
    """Whether a value is shown, and nothing else goes by it."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def told(self, node: ast.expr, depth: int = 0) -> bool:
        """Whether an expression ends up in what is printed, logged, or drawn as a progress bar."""
        module = self.module.home(node)
        previous: ast.AST = node
        for outer in module.around(node):
            if isinstance(outer, ast.Call):
                if previous is outer.func:  # a method of a text
                    previous = outer
                    continue
                shown = self._given(outer, previous, depth)
                if shown is not None:
                    return shown
            elif isinstance(outer, ast.Compare):
                return self._compared(outer)
            elif isinstance(outer, ast.BinOp) and not isinstance(outer.op, (ast.Add, ast.Sub)):
                other = outer.left if previous is outer.right else outer.right
                if not all(self._of_progress(n) for n in ast.walk(other)):
                    return False  # a metric that is printed is a metric
            elif isinstance(outer, ast.keyword):
                if outer.arg in ("total", "desc", "postfix"):
                    return True
            elif isinstance(outer, ast.stmt):
                return self._statement(outer, previous, depth)
            elif not isinstance(outer, _THROUGH_NODES):
                return False
            previous = outer
        return False

    def _of_progress(self, node: ast.AST) -> bool:
        """Whether a name is one of a number of batches or of time, by which nothing but progress is told."""
        if not isinstance(node, (ast.Name, ast.Attribute)) or "time" in ast.unparse(node):
            return True
        if isinstance(node, ast.Attribute):
            return node.attr in ("batch_size", "dataset") or "time" in ast.unparse(node)
        outer = self.module.parents.get(node)
        if isinstance(outer, (ast.Attribute, ast.Call)):
            return isinstance(outer, ast.Attribute) or outer.func is node or last_name(outer.func) == "len"
        found = self.module.bindings.reaching(node)
        return bool(found) and all(d.kind == "loop" and self._counts(d) for d in found)

    def _counts(self, d: Definition) -> bool:
        made = last_name(d.value.func) if isinstance(d.value, ast.Call) else ""
        return (d.index == 0 and made == "enumerate") or (d.index is None and made in ("range", "trange"))

    def _given(self, call: ast.Call, argument: ast.AST, depth: int) -> bool | None:
        """What a call makes of it: True if it shows it, None if what it gives is to be looked at."""
        name = last_name(call.func)
        if name in _SHOWS or (_SHOWING.search(name) and name not in _THROUGH):
            return not any(k.arg == "file" and not ast.unparse(k.value).startswith("sys.std") for k in call.keywords)
        receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
        if isinstance(receiver, (ast.Name, ast.Attribute)) and _SHOWING.search(ast.unparse(receiver)):
            return True
        functions = self.module.called_functions(call)
        if len(functions) == 1 and depth < _DEPTH:
            parameter = self.module.parameter_of(functions[0], call, argument)
            if parameter is None:
                return False
            made = self.module.bindings.definitions_at(parameter, parameter.arg)
            readers = [r for d in made for r in self.module.bindings.readers(d)]
            return all(self.told(r, depth + 1) for r in readers)
        return None if name in _THROUGH else False

    def _compared(self, test: ast.Compare) -> bool:
        """``if i % 10 == 0 or i == len(loader) - 1: print(..)``"""
        for outer in self.module.around(test):
            if isinstance(outer, ast.If):
                return test in set(ast.walk(outer.test)) and self._only_shows([*outer.body, *outer.orelse], outer)
            if isinstance(outer, ast.stmt):
                return isinstance(outer, ast.Assert)
        return False

    def _only_shows(self, body: list[ast.stmt], around: ast.stmt) -> bool:
        inside = set(ast.walk(around))
        for s in body:
            if isinstance(s, ast.Expr) and isinstance(s.value, ast.Call):
                name = last_name(s.value.func)
                if name in _SHOWS or _SHOWING.search(ast.unparse(s.value.func)):
                    continue
            if isinstance(s, ast.If) and self._only_shows([*s.body, *s.orelse], around):
                continue
            if isinstance(s, ast.Assign) and all(isinstance(t, ast.Name) for t in s.targets):
                made = [d for d in self.module.bindings.definitions if d.statement is s]
                if all(r in inside for d in made for r in self.module.bindings.readers(d)):
                    continue
            if not isinstance(s, ast.Pass):
                return False
        return True

    def _statement(self, s: ast.stmt, value: ast.AST, depth: int) -> bool:
        if isinstance(s, ast.If):
            return value is s.test and self._only_shows([*s.body, *s.orelse], s)
        if isinstance(s, (ast.Assert, ast.Expr)):
            return True
        if not isinstance(s, (ast.Assign, ast.AnnAssign)) or depth >= _DEPTH:
            return False
        made = [d for d in self.module.bindings.definitions if d.statement is s]
        if not made or any(
            isinstance(d.node, ast.Attribute) and not self._attribute_shown(d.node, depth) for d in made
        ):
            return False
        return all(self.told(r, depth + 1) for d in made for r in self.module.bindings.readers(d))

    def _attribute_shown(self, node: ast.Attribute, depth: int) -> bool:
        """``self.steps = len(loader)``: every read of the attribute in the project is asked."""
        loads = [load for m in self.module.fellows for load in m.attribute_loads.get(node.attr, ())]
        return all(_Shown(self.module.home(load)).told(load, depth + 1) for load in loads)


__all__ = ["measured", "reckoned_before", "shown"]
