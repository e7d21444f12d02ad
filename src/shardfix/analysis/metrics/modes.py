"""Whether the model of an evaluation loop is seen to evaluate: while it trains, its layers may norm by the batch."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardfix.analysis.code.module import Module
from shardfix.analysis.metrics.losses import made_by
from shardfix.analysis.metrics.networks import gives_rows

# What shows that a model may train, or that its layers may go by the batch: a model of torch begins in training.
_BY_BATCH = re.compile(r"BatchNorm|batch_norm|\.backward\(|torchvision\.models|\btimm\b")
_CALLERS = 4  # functions that are looked at upwards from the loop
_Functions = (ast.FunctionDef, ast.AsyncFunctionDef)


def trains_inside(module: Module, loop: ast.For) -> ast.Call | None:
    """The call in a loop that sets a model to training."""
    calls = (n for n in ast.walk(loop) if isinstance(n, ast.Call))
    return next((c for c in calls if isinstance(c.func, ast.Attribute) and c.func.attr == "train" and _sets(c)), None)


def may_train(module: Module, loop: ast.For) -> bool:
    """Whether a loop runs a model that nothing around it sets to evaluation."""
    models = [n for n in ast.walk(loop) if isinstance(n, ast.Call) and gives_rows(module, n)]
    if not models or not any(_BY_BATCH.search(m.source.text) for m in _files(module)):
        return False
    if any(_evaluates(n) for m in models for n in made_by(module, m.func)):
        return False
    return not any(_evaluates(n) for scope in _scopes(module, loop) for n in _own(scope))


def _files(module: Module) -> Iterator[Module]:
    yield from module.project.modules.values() if module.project is not None else (module,)


def _scopes(module: Module, loop: ast.For) -> Iterator[ast.AST]:
    """The functions that run a loop, from the inside out, with those that they call for their effect only."""
    seen: set[ast.AST] = set()
    reached: list[tuple[ast.AST, int]] = [(module.scope(loop), 0)]
    while reached:
        scope, depth = reached.pop()
        if scope in seen:
            continue
        seen.add(scope)
        yield scope
        for n in _own(scope):
            if isinstance(n, ast.Expr) and isinstance(n.value, ast.Call):
                yield from module.home(scope).called_functions(n.value)
        if isinstance(scope, _Functions) and depth < _CALLERS:
            home = module.home(scope)
            reached += [(home.home(c).scope(c), depth + 1) for c in home.callers(scope)]


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    """What is run where a scope is run: not the functions that are defined in it."""
    for n in ast.iter_child_nodes(scope):
        if not isinstance(n, (*_Functions, ast.ClassDef)):
            yield n
            yield from _own(n)


def _evaluates(node: ast.AST) -> bool:
    """``model.eval()``, ``model.train(False)``, ``model.train(mode)``."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr == "eval":
        return not node.args
    return node.func.attr == "train" and bool(node.args or node.keywords) and not _sets(node)


def _sets(call: ast.Call) -> bool:
    given = [*call.args, *(k.value for k in call.keywords)]
    return not given or (isinstance(given[0], ast.Constant) and given[0].value is True)


__all__ = ["may_train", "trains_inside"]
