"""What an evaluation does: who runs it, whether its metric is reduced across ranks, whether padding reaches it."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.code.own import own_calls
from shardfix.analysis.code.tree import walk
from shardfix.analysis.loaders.flow import Flow, Use
from shardfix.analysis.loops.accumulation import mentions
from shardfix.analysis.loops.decorated import combined_by_wrapper
from shardfix.analysis.loops.epochs import is_enumerated
from shardfix.analysis.loops.exactness import exact
from shardfix.analysis.loops.learning import evaluates
from shardfix.analysis.model import Evidence
from shardfix.analysis.programs.processes import distributed_test, every_guard, main_process_guard
from shardfix.analysis.programs.regimes import is_accelerator

_REDUCTIONS = frozenset(
    {
        "all_reduce",
        "all_gather",
        "all_gather_object",
        "all_gather_into_tensor",
        "gather_object",
        "reduce_scatter",
        "gather_for_metrics",
        "reduce_tensor",
        "reduce_mean",
        "reduce_sum",
        "reduce_dict",
        "reduce_value",
        "reduce_loss",
        "reduce_metric",
        "synchronize_between_processes",
        "all_reduce_mean",
        "all_reduce_dict",
        "metric_average",
        "allreduce",
        "allgather",
        "distributed_concat",
        "gather_all_tensors",
        "nested_gather",
        "sync_across_gpus",
        "sync_and_compute",
    }
)
_OWN = frozenset({"shardfix_evaluation", "evaluation"})
_RESULTS = frozenset({"compute", "aggregate", "get_buffer"})  # of metrics that gather by themselves


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What is known of the loops that evaluate over a loader.

    Args:
        guard: the condition because of which only one rank evaluates.
        reduction: a call that combines results across ranks.
        exact: why padding can't reach the metric of any of the loops.
        positional: where results are written in the loader's order, or matched with something by it.
        functions: the functions (or the module) that hold the loops.
        gathers: a gather through an Accelerator.
        sometimes: such a condition on one path, where another path has none.
        undistributed: the condition because of which only runs of one process evaluate.
    """

    guard: Evidence | None
    reduction: Evidence | None
    exact: Evidence | None
    positional: Evidence | None
    functions: tuple[ast.AST, ...]
    gathers: Evidence | None = None
    sometimes: Evidence | None = None
    undistributed: Evidence | None = None


def evaluation(module: Module, flow: Flow, dataset: ast.expr | None) -> Evaluation:
    """What the loops over an eval loader do: guard, reduction, exactness under padding, writes by position."""
    functions: list[ast.AST] = []
    loops: list[ast.AST] = []
    iterations = flow.of("iterate")
    for use in iterations:
        loops.append(use.node)
        functions.append(module.scope(use.node))
    guard, sometimes, undistributed = _guards(module, flow, iterations or flow.of("argument"))
    reduction = None
    for function in functions:
        reduction = reduction or find_reduction(module, function)
    if reduction is None:
        for function in functions:
            for call in module.callers(function):
                outer = module.scope(call)
                reduction = reduction or find_reduction(module, outer, after=call)
    if reduction is None:
        reduction = _by_wrapper(module, functions)
    reasons: list[Evidence | None] = []
    for function in dict.fromkeys(functions):
        mine = [loop for loop, f in zip(loops, functions, strict=True) if f is function]
        reasons.append(exact(module, function, mine, flow, dataset))
    why = reasons[0] if reasons and all(r is not None for r in reasons) else None
    unpadded = next((u.node for u in flow.of("unpadded")), None)
    if why is None and reduction is not None and unpadded is not None:
        why = module.evidence(unpadded)
    positional = next((e for e in (_positional(module, loop) for loop in loops) if e is not None), None)
    gathers = next((e for e in (_gathered(module, f) for f in functions) if e is not None), None)
    return Evaluation(guard, reduction, why, positional, tuple(functions), gathers, sometimes, undistributed)


def _guards(
    module: Module, flow: Flow, uses: Sequence[Use]
) -> tuple[Evidence | None, Evidence | None, Evidence | None]:
    """The condition because of which one process alone runs the loops, such a condition of some of them only, and the
    first if all of them ask for a run of one process."""
    guards: list[ast.expr | None] = []
    for use in uses:
        # A function that evaluates what it is given may be guarded for this loader and not for another.
        calls = module.callers(module.scope(use.node))
        mine = [c for c in calls if any(a in flow.aliases for a in arguments_of(c))] or list(use.calls)
        here = main_process_guard(module, use.node)
        if mine and here is None:
            guards += [g for c in mine for g in every_guard(module, c)]
        else:
            guards += every_guard(module, use.node)
    found = [g for g in guards if g is not None]
    if not found:
        return None, None, None
    of_several = [g for g in found if distributed_test(g) is None]
    first = module.evidence((of_several or found)[0])
    if len(found) < len(guards):
        return None, first, None
    return first, None, None if of_several else first


def find_reduction(module: Module, function: ast.AST, depth: int = 0, after: ast.Call | None = None) -> Evidence | None:
    """A call in a function, or in a project function it calls, that combines values across ranks.

    Args:
        after: the call whose result is to be combined: what stands before it is not asked, and only what is given its
            result is looked into.
    """
    line = getattr(after, "lineno", 0)
    results = _bound_by(module, after) if after is not None else set()
    for node in own_calls(function):
        if getattr(node, "lineno", 0) < line:
            continue
        if is_reduction(module, node):
            return module.evidence(node)
        if after is not None and not any(mentions(a, results) for a in arguments_of(node)):
            continue
        inner = module.called_function(node)
        if inner is not None and inner is not function and depth < 3:
            found = find_reduction(module, inner, depth + 1)
            if found is not None:
                return found
    return None


def _by_wrapper(module: Module, functions: Sequence[ast.AST]) -> Evidence | None:
    """A decorator that combines what an evaluation returns, or what the function returns that calls it."""
    outer = [module.scope(call) for function in functions for call in module.callers(function)]
    for function in dict.fromkeys((*functions, *outer)):
        found = combined_by_wrapper(module, function, _combines)
        if found is not None:
            return module.evidence(found)
    return None


def _combines(module: Module, call: ast.Call) -> bool:
    inner = module.called_function(call)
    return is_reduction(module, call) or (inner is not None and find_reduction(module, inner) is not None)


def _bound_by(module: Module, call: ast.Call) -> set[str]:
    """The names that the statement of a call gives to its result."""
    statement = module.statement(call)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return {ast.unparse(n) for t in targets for n in ast.walk(t) if isinstance(n, (ast.Name, ast.Attribute))}


def is_reduction(module: Module, call: ast.Call) -> bool:
    """Whether a call combines values across ranks, by its resolved name or a helper's usual name."""
    name = last_name(call.func)
    if name in _REDUCTIONS or (name in ("reduced", "in_order", "of_all_batches") and keeps_whole(module, call)):
        return True
    if any(q.startswith("horovod.") for q in module.callee(call)):
        return "reduce" in name or "gather" in name  # allreduce_, grouped_allreduce, allgather_object, ..
    if name in ("reduce", "gather"):
        if any(q.startswith("torch.distributed.") for q in module.callee(call)):
            return True
        return isinstance(call.func, ast.Attribute) and is_accelerator(module, call.func.value)
    return name in _RESULTS and isinstance(call.func, ast.Attribute) and gathers_itself(module, call.func.value)


def gives_all_the_same(module: Module, call: ast.Call) -> bool:
    """Whether every rank is given the same by a call that puts the ranks' values together."""
    name = last_name(call.func)
    if name in ("reduced", "in_order", "of_all_batches"):
        return keeps_whole(module, call)
    by_all = name in ("gather", "gather_for_metrics", "reduce") and isinstance(call.func, ast.Attribute)
    return by_all and isinstance(call.func, ast.Attribute) and is_accelerator(module, call.func.value)


def keeps_whole(module: Module, call: ast.Call) -> bool:
    """Whether a call is of one of the functions that keep a metric whole, vendored or of shardfix."""
    return any(q.rpartition(".")[0].rpartition(".")[2] in _OWN for q in module.callee(call))


def gathers_itself(module: Module, metric: ast.expr) -> bool:
    """Whether a metric object combines the ranks' parts by itself: one that torchmetrics makes, unless it is told not
    to, one of ``evaluate`` that is told the number of processes, one of ignite's, or MONAI's that cumulate."""
    definitions = list(module.bindings.reaching(metric))
    cls = module.class_of(metric)
    if not definitions and isinstance(metric, ast.Attribute) and cls is not None:
        definitions = module.attribute_values(cls, metric.attr)
    made = [d.value for d in definitions if isinstance(d.value, ast.Call)]
    return any(_gathers(module, call) for call in made)


def _gathers(module: Module, call: ast.Call) -> bool:
    while (
        isinstance(call.func, ast.Attribute)
        and call.func.attr in ("to", "cuda")
        and isinstance(call.func.value, ast.Call)
    ):
        call = call.func.value
    told = {k.arg: k.value for k in call.keywords}
    if any(q.startswith("torchmetrics.") for q in module.callee(call)):
        alone = told.get("sync_on_compute")
        return not (isinstance(alone, ast.Constant) and alone.value is False)
    if any(q.startswith("ignite.metrics.") for q in module.callee(call)):
        return True  # compute() all-reduces what is declared so (ignite 0.5)
    monai = [q.rpartition(".")[2] for q in module.callee(call) if q.startswith("monai.metrics.")]
    # aggregate() and get_buffer() gather (MONAI 1.x); the classes in Metric derive from Cumulative
    return "num_process" in told or any(name.startswith("Cumulative") or name.endswith("Metric") for name in monai)


def _gathered(module: Module, function: ast.AST) -> Evidence | None:
    """A gather through the Accelerator."""
    for call in own_calls(function):
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("gather", "gather_for_metrics", "reduce"):
            if is_accelerator(module, call.func.value):
                return module.evidence(call)
    return None


def _positional(module: Module, loop: ast.AST) -> Evidence | None:
    """What goes by the order in which the loader gives results: they are written to a file, or matched with something
    else by a running number."""
    body: list[ast.stmt] = getattr(loop, "body", [])
    for node in own_calls(loop):
        if last_name(node.func) in ("write", "writerow", "writelines", "save_image"):
            return module.evidence(node)
    items = [n for s in (body if isinstance(body, list) else []) for n in walk(s) if isinstance(n, ast.Subscript)]
    inside = set(walk(loop)) if items else set()
    numbered = (n for n in items if _by_number(module, n, loop, inside))
    first = next(numbered, None)
    return module.evidence(first) if first is not None else None


def _by_number(module: Module, node: ast.Subscript, loop: ast.AST, inside: set[ast.AST]) -> bool:
    """``examples[i]``, where the loop counts its batches or samples by ``i`` and does not bind ``examples``."""
    names = [n for n in ast.walk(node.value) if isinstance(n, (ast.Name, ast.Attribute))]
    if any(d.statement in inside for n in names for d in module.bindings.reaching(n)):
        return False
    return any(_counts(module, n, loop, inside) for n in ast.walk(node.slice))


def _counts(module: Module, node: ast.AST, loop: ast.AST, inside: set[ast.AST]) -> bool:
    if not isinstance(node, ast.Name):
        return False
    for d in module.bindings.reaching(node):
        if d.kind == "loop" and d.statement is loop and d.index == 0 and d.value is not None:
            if is_enumerated(module, d.value):
                return True
        elif d.kind == "augmented" and d.statement in inside:
            return True
    return False


__all__ = [
    "Evaluation",
    "evaluates",
    "evaluation",
    "find_reduction",
    "gathers_itself",
    "gives_all_the_same",
    "is_reduction",
    "keeps_whole",
]
