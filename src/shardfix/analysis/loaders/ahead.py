"""Reads of a loader as it was constructed that say nothing against what takes it: a first look, a computation ahead, a
program of one process."""

from __future__ import annotations

import ast

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import DATA_LOADER, arguments_of
from shardfix.analysis.loaders.flow import Flow, Use
from shardfix.analysis.loaders.samplers import arms

# Samplers that the rules for a prepared loader may take away.
_REPLACEABLE = frozenset({"sequential", "random", "distributed", "batch"})


def reads_ahead(module: Module, call: ast.Call, flow: Flow, raw: list[Use]) -> bool:
    """Whether the raw loader is read for something that is computed once for all samples, before it is prepared and
    trained on. Only where the loader has no sampler that a rule might take away: what it reads ahead would change."""
    arguments = module.arguments(call, DATA_LOADER)
    batch = arguments.value("batch_sampler")
    if arguments.opaque or not _is_absent(arguments.value("sampler")):
        return False
    if batch is not None and any(a.kind in _REPLACEABLE for a in arms(module, batch)):
        return False
    trained = [u.node for u in flow.of("iterate") if u.prepared is not None and _trains(u.node)]
    return bool(trained) and all(
        isinstance(u.node, ast.For)
        and not u.calls
        and not _trains(u.node)
        and _without_gradients(module, u.node)
        and all(_comes_after(module, p.node, u.node) for p in flow.of("prepare"))
        for u in raw
    )


def _trains(loop: ast.AST) -> bool:
    return any(
        isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "backward"
        for n in ast.walk(loop)
    )


def _without_gradients(module: Module, loop: ast.For) -> bool:
    """Whether a loop stands under ``torch.no_grad()``, or does all of its work there."""
    around = [n for n in module.around(loop) if isinstance(n, ast.With)]
    inside = [n for n in loop.body if isinstance(n, ast.With)] if len(loop.body) == 1 else []
    return any(
        isinstance(item.context_expr, ast.Call)
        and not module.callee(item.context_expr).isdisjoint(("torch.no_grad", "torch.inference_mode"))
        for n in (*around, *inside)
        for item in n.items
    )


def _comes_after(module: Module, later: ast.AST, loop: ast.For) -> bool:
    """Whether a node stands behind a loop in the same function, in no loop that holds both."""
    if module.function(later) is not module.function(loop) or module.home(later) is not module.home(loop):
        return False
    shared = set(module.around(later)) & set(module.around(loop))
    if any(isinstance(n, (ast.For, ast.AsyncFor, ast.While)) for n in shared):
        return False
    return getattr(later, "lineno", 0) > (loop.end_lineno or loop.lineno)


def has_sampler(module: Module, call: ast.Call) -> bool:
    """Whether a loader is given a sampler, or may be."""
    arguments = module.arguments(call, DATA_LOADER)
    given = (arguments.value("sampler"), arguments.value("batch_sampler"))
    return bool(arguments.opaque) or not all(_is_absent(v) for v in given)


def is_same_alone(module: Module, call: ast.Call) -> bool:
    """Whether one process reads a loader alike with the samplers that the rules for a prepared loader may take away and
    without them: a DistributedSampler that is told of other ranks gives it their part only."""
    arguments = module.arguments(call, DATA_LOADER)
    if arguments.opaque:
        return False
    given = [v for v in (arguments.value("sampler"), arguments.value("batch_sampler")) if v is not None]
    todo = [arm for value in given for arm in arms(module, value)]
    for arm in todo:  # grows while it is walked
        todo += arm.inner
        numbers = arm.arguments is None or arm.arguments.opaque or arm.arguments.value("num_replicas") is not None
        if arm.rank_aware or arm.kind == "unknown" or (arm.kind == "distributed" and numbers):
            return False
    return True


def _is_absent(node: ast.expr | None) -> bool:
    """Whether an argument is not given, or given as None."""
    return node is None or (isinstance(node, ast.Constant) and node.value is None)


def is_peek(module: Module, use: Use) -> bool:
    """Whether a use is a look at one batch: ``next(iter(loader))``, in no loop."""
    if use.kind != "next" or not isinstance(use.node, ast.Call) or len(use.node.args) != 1:
        return False
    made = use.node.args[0]
    if not (isinstance(made, ast.Call) and "builtins.iter" in module.callee(made)):
        return False
    return not any(isinstance(n, (ast.For, ast.AsyncFor, ast.While, ast.comprehension)) for n in module.around(made))


def replaced_before(module: Module, flow: Flow, taker: ast.AST, use: Use) -> bool:
    """Whether a use can't get the loader as it was constructed, because what takes it has replaced it before, under a
    condition that only asks whether there is a loader: ``if loader is not None: loader = prepare(loader)``."""
    test = next((n for n in module.around(taker) if isinstance(n, ast.If)), None)
    statement = module.statement(taker)
    if test is None or statement not in test.body or not isinstance(statement, ast.Assign):
        return False
    asked = test.test
    if isinstance(asked, ast.Compare) and len(asked.ops) == 1 and isinstance(asked.ops[0], ast.IsNot):
        asked = asked.left if _is_absent(asked.comparators[0]) else asked
    if asked not in flow.aliases:
        return False
    before = module.bindings.reaching(asked)

    def replaced(n: ast.expr) -> bool:
        if module.function(n) is not module.function(taker) or module.home(n) is not module.home(taker):
            return False
        bound = module.bindings.reaching(n)
        made = {d for d in bound if d.statement is statement}
        return n.lineno > (test.end_lineno or test.lineno) and bool(made) and bound - made <= before

    handed = [[a for a in arguments_of(c) if a in flow.aliases] for c in use.calls]
    return any(given and all(replaced(n) for n in given) for given in ([use.value], *handed))
