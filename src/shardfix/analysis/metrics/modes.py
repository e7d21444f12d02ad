"""Whether the model of an evaluation loop is seen to evaluate: while it trains, its layers may norm by the batch."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.own import own_nodes
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
    if models and _trains_before(module, loop):
        return True
    if not models or not any(_BY_BATCH.search(m.source.text) for m in _files(module)):
        return False
    if any(_evaluates(n) for m in models for n in made_by(module, m.func)):
        return False
    names = {part for m in models for part in _parts(m.func)}
    here = module.scope(loop)
    for scope in _scopes(module, loop):
        told = [n for n in own_nodes(scope) if isinstance(n, ast.Call) and _evaluates(n)]
        if any(scope is not here or _is_one_of(n, names) for n in told):
            return False
    return True


def _parts(node: ast.expr) -> set[str]:
    """The names in ``self.model.module``."""
    attributes = {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
    return attributes | {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _is_one_of(call: ast.Call, names: set[str]) -> bool:
    """Whether what is set to evaluation is one of the models that a loop runs, or holds it."""
    receiver = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    called = _parts(receiver)
    return bool(called & (names - {"self", "module"})) or (called == {"self"} and "self" in names)


def _trains_before(module: Module, loop: ast.For) -> bool:
    """Whether something is set to training right before a loop, after it was set to evaluation."""
    before = [n for n in own_nodes(module.scope(loop)) if isinstance(n, ast.Call) and n.lineno < loop.lineno]
    evaluated = [n.lineno for n in before if _evaluates(n)]
    if not evaluated:
        return False
    for n in (n for n in before if n.lineno >= max(evaluated)):
        if isinstance(n.func, ast.Attribute) and n.func.attr == "train" and _sets(n):
            return True
        for f in module.called_functions(n, passed=False):
            inner = (c for c in ast.walk(f) if isinstance(c, ast.Call) and isinstance(c.func, ast.Attribute))
            if any(c.func.attr == "train" and _sets(c) for c in inner if isinstance(c.func, ast.Attribute)):
                return True
    return False


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
        for n in own_nodes(scope):
            if isinstance(n, ast.Expr) and isinstance(n.value, ast.Call):
                yield from module.home(scope).called_functions(n.value)
        if isinstance(scope, _Functions) and depth < _CALLERS:
            home = module.home(scope)
            reached += [(home.home(c).scope(c), depth + 1) for c in home.callers(scope)]


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
