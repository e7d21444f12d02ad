"""Whether a sharded evaluation's padding reaches its metric: what is accumulated, gathered, laid in turn and cut."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from shardfix.analysis.epochs import is_enumerated
from shardfix.analysis.flow import Flow, last_name
from shardfix.analysis.model import Evidence
from shardfix.analysis.module import Module

_INDEX = re.compile(
    r"((sample|example|data|dataset|item|row|batch|img|image)_?)?(idx|idxs|inds|index|indices|indexes|ids)\d?"
)
_GATHERS = frozenset({"all_gather", "gather", "all_gather_object", "all_gather_into_tensor", "gather_object"})
_GROWS = frozenset({"append", "extend", "update", "add_batch"})
_BARS = re.compile(r"bar|progress|tqdm|timer|meter_?time")
_PASSES = frozenset({"to", "cuda", "cpu", "long", "int", "view", "reshape", "flatten", "squeeze", "numpy", "tolist"})


@dataclass(frozen=True, eq=False, slots=True)
class Sum:
    """What a loop accumulates (``n += x``, ``n = n + x``, ``l.append(x)``, a comprehension), and what it adds."""

    target: ast.expr
    added: ast.expr


def accumulated(loop: ast.AST) -> list[Sum]:
    """What a loop over a loader accumulates."""
    found: list[Sum] = []
    if isinstance(loop, ast.comprehension):
        return [Sum(loop.iter, loop.iter)]
    for node in (n for s in getattr(loop, "body", []) for n in ast.walk(s)):
        if isinstance(node, ast.AugAssign):
            found.append(Sum(node.target, node.value))
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, ast.BinOp):
            target = node.targets[0]
            if any(_same(target, n) for n in ast.walk(node.value)):
                found.append(Sum(target, node.value))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _GROWS:
            if not _BARS.search(ast.unparse(node.func.value).lower()):
                found.append(Sum(node.func.value, node.args[0] if node.args else node))
    return found


def _same(a: ast.AST, b: ast.AST) -> bool:
    return isinstance(a, ast.expr) and isinstance(b, ast.expr) and ast.unparse(a) == ast.unparse(b)


def exact(
    module: Module, function: ast.AST, loops: Sequence[ast.AST], flow: Flow, dataset: ast.expr | None
) -> Evidence | None:
    """Why padding can't reach the metric of the loops of one function: yes-or-no results placed by sample index and
    combined by MAX, results laid in turn after a gather and cut at the dataset's length, or ``gather_for_metrics``.

    A DistributedSampler deals samples out in turn: only where the ranks' results are laid in turn again is the padding
    at the end. In results joined rank by rank it stands inside, and the order is not the dataset's. Whatever else the
    loops accumulate must be gathered alike, or it would be one rank's.
    """
    body: list[ast.stmt] = getattr(function, "body", [])
    if not isinstance(body, list):
        return None
    calls = sorted(_nodes(body, ast.Call), key=lambda c: (c.lineno, c.col_offset))
    for call in calls:
        if last_name(call.func) == "gather_for_metrics":
            return module.evidence(call)
    if any(isinstance(n, (ast.Break, ast.Return)) for loop in loops for n in ast.walk(loop)):
        return None  # which samples are left out depends on the order in which they come
    sums = [
        root
        for loop in loops
        for found in accumulated(loop)
        if (root := _root(found.target)) and not _is_index(module, found.added, loops)  # which samples, not how well
    ]
    return _by_max(module, loops, calls, sums) or _by_place(module, body, loops, calls, sums, flow, dataset)


def _nodes(body: Iterable[ast.stmt], kind: type[ast.Call]) -> Iterator[ast.Call]:
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, kind):
            yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            stack.extend(ast.iter_child_nodes(node))


def _root(node: ast.expr) -> str:
    """``preds`` for ``preds[name]``; ``self.preds`` whole."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""


def _by_max(module: Module, loops: Sequence[ast.AST], calls: Sequence[ast.Call], sums: list[str]) -> Evidence | None:
    for node in (n for loop in loops for n in ast.walk(loop)):
        if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript)):
            continue
        target = node.targets[0]
        if not _is_index(module, target.slice, loops):
            continue
        if sums or _mentions(node.value, {_root(target)}) or not _is_yes_or_no(module, node.value):
            continue
        for call in calls:
            maximum = any(
                isinstance(n, ast.Attribute) and n.attr == "MAX"
                for a in [*call.args, *call.keywords]
                for n in ast.walk(a)
            )
            if last_name(call.func) == "all_reduce" and maximum and _mentions(call, {_root(target)}):
                return module.evidence(node)
    return None


def _by_place(
    module: Module,
    body: list[ast.stmt],
    loops: Sequence[ast.AST],
    calls: Sequence[ast.Call],
    sums: list[str],
    flow: Flow,
    dataset: ast.expr | None,
) -> Evidence | None:
    """Gathered results that are laid in turn and cut, or put at their sample's index."""
    outputs: set[str] = set()
    inputs: set[str] = set()
    indexes: set[str] = set()  # the outputs of gathered sample indexes
    for call in calls:
        if last_name(call.func) not in _GATHERS:
            continue
        given = call.args[1] if len(call.args) > 1 else call.args[0] if call.args else call
        made = {_root(call.args[0])} if len(call.args) > 1 else set()
        statement = module.statement(call)
        if isinstance(statement, ast.Assign):
            made |= {_root(t) for t in statement.targets}
        inputs |= {_root(n) for n in ast.walk(given) if isinstance(n, (ast.Name, ast.Attribute))}
        outputs |= made
        if _is_index(module, given, loops):
            indexes |= made
    if not outputs or any(not _derived(body, {s}) & inputs for s in sums):
        return None
    gathered = _derived(body, outputs - {""})
    placed = _derived(body, indexes - {""})
    laid = _laid_in_turn(body, gathered)
    for node in (n for s in body for n in ast.walk(s)):
        if isinstance(node, ast.Call) and last_name(node.func) in ("index_copy_", "index_put_", "scatter_"):
            names = {n.id for a in node.args for n in ast.walk(a) if isinstance(n, ast.Name)} & gathered
            if names & placed and names - placed:
                return module.evidence(node)
        if laid and isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            upper = node.slice.upper
            if isinstance(upper, ast.Call) and last_name(upper.func) == "len" and node.slice.lower is None:
                whole = upper.args and _is_dataset(module, upper.args[0], flow, dataset)
                if whole and _mentions(node.value, gathered):
                    return module.evidence(node)
    return None


def _derived(body: list[ast.stmt], names: set[str]) -> set[str]:
    """The names whose values are made of some names' values, these included."""
    found = set(names)
    while True:
        size = len(found)
        for node in (n for s in body for n in ast.walk(s)):
            if isinstance(node, ast.Assign) and _mentions(node.value, found):
                found |= {_root(t) for target in node.targets for t in _elements(target)}
            elif isinstance(node, ast.For) and _mentions(node.iter, found):
                found |= {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)}
        found.discard("")
        if len(found) == size:
            return found


def _elements(target: ast.expr) -> list[ast.expr]:
    return [e for t in target.elts for e in _elements(t)] if isinstance(target, (ast.Tuple, ast.List)) else [target]


def _mentions(node: ast.AST, names: set[str]) -> bool:
    return any(isinstance(n, (ast.Name, ast.Attribute)) and ast.unparse(n) in names for n in ast.walk(node))


def _laid_in_turn(body: list[ast.stmt], gathered: set[str]) -> bool:
    """Whether results of several ranks are laid in turn: ``zip(*parts)``, a transposed stack, ``all[rank::world]``."""
    for node in (n for s in body for n in ast.walk(s)):
        if isinstance(node, ast.Call):
            name = last_name(node.func)
            starred = [a for a in node.args if isinstance(a, ast.Starred)]
            if name in ("zip", "zip_longest") and any(_mentions(a, gathered) for a in starred):
                return True
            if name in ("transpose", "permute", "swapaxes", "t") and _mentions(node, gathered):
                return True
        if isinstance(node, ast.Attribute) and node.attr in ("T", "mT") and _mentions(node.value, gathered):
            return True
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            place = node.targets[0].slice
            if isinstance(place, ast.Slice) and place.step is not None and _mentions(node.value, gathered):
                return True
    return False


def _is_dataset(module: Module, node: ast.expr, flow: Flow, dataset: ast.expr | None) -> bool:
    """Whether an expression is the loader's own dataset, also as a parameter that every caller gives it to."""
    if isinstance(node, ast.Attribute) and node.attr == "dataset" and node.value in flow.aliases:
        return True
    if dataset is not None and isinstance(node, (ast.Name, ast.Attribute)) and _same(node, dataset):
        return True
    function = module.function(node)
    definitions = module.bindings.reaching(node)
    if function is None or not definitions or any(d.kind != "parameter" for d in definitions) or dataset is None:
        return False
    calls = module.callers(function)
    given = [
        a
        for call in calls
        for a in [*call.args, *(k.value for k in call.keywords)]
        if getattr(module.parameter_for(call, a), "arg", "") == ast.unparse(node)
    ]
    return bool(calls) and len(given) == len(calls) and all(_same(a, dataset) for a in given)


def _passed(node: ast.expr) -> ast.expr:
    """The value behind ``.to(device)``, ``.long()`` and the like, which keep it."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _PASSES:
        node = node.func.value
    return node


def _is_index(module: Module, node: ast.expr, loops: Sequence[ast.AST]) -> bool:
    name = _passed(node)
    return isinstance(name, ast.Name) and _is_sample_index(module, name, loops)


def _is_sample_index(module: Module, node: ast.Name, loops: Sequence[ast.AST], depth: int = 0) -> bool:
    """A name that says index, and that comes with the batch: no running position, nothing that ``enumerate`` counts."""
    if depth == 0 and not _INDEX.fullmatch(node.id):
        return False
    definitions = module.bindings.reaching(node)
    if not definitions or depth > 3:
        return False
    for d in definitions:
        if d.kind == "loop":
            counted = d.value is not None and any(
                isinstance(n, ast.Call) and last_name(n.func) in ("zip", "count", "range", "arange")
                for n in ast.walk(d.value)
            )
            if (
                d.statement not in loops
                or counted
                or (d.index == 0 and d.value is not None and is_enumerated(module, d.value))
            ):
                return False
        elif d.kind == "assign" and d.value is not None:
            value = _passed(d.value)
            while isinstance(value, (ast.Subscript, ast.Attribute)):
                value = _passed(value.value)
            if not (isinstance(value, ast.Name) and _is_sample_index(module, value, loops, depth + 1)):
                return False
        else:
            return False
    return True


def _is_yes_or_no(module: Module, node: ast.expr, depth: int = 0) -> bool:
    """A value made of a comparison: only of such is the MAX over ranks the sample's own value, since zeros stand for
    the samples of other ranks (a negative loss would be lost)."""
    for n in ast.walk(node):
        if isinstance(n, ast.Compare) or (isinstance(n, ast.Call) and last_name(n.func) in ("eq", "ne", "isclose")):
            return True
        if isinstance(n, ast.Name) and depth < 3:
            values = [d.value for d in module.bindings.reaching(n) if d.kind == "assign" and d.index is None]
            if values and all(v is not None and _is_yes_or_no(module, v, depth + 1) for v in values):
                return True
    return False
