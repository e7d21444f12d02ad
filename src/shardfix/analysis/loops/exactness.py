"""Whether a sharded evaluation's padding reaches its metric: what is accumulated, gathered, laid in turn and cut."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence

from shardfix.analysis.code.calling import arguments_given
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.code.tree import children
from shardfix.analysis.loaders.flow import Flow
from shardfix.analysis.loops.accumulation import (
    PLACES,
    accumulated,
    left_over,
    mentions,
    names_bound,
    root_of,
    same_source,
    stores_in,
    told_by,
)
from shardfix.analysis.loops.epochs import is_enumerated
from shardfix.analysis.loops.leaving import reads_a_part
from shardfix.analysis.model import Evidence

_INDEX = re.compile(
    r"((sample|example|data|dataset|item|row|batch|img|image)_?)?(idx|idxs|inds|index|indices|indexes|ids)\d?"
)
GATHERS = frozenset({"all_gather", "gather", "all_gather_object", "all_gather_into_tensor", "gather_object"})
_PASSES = frozenset({"to", "cuda", "cpu", "long", "int", "view", "reshape", "flatten", "squeeze", "numpy", "tolist"})
_CASTS = _PASSES | {
    "float",
    "double",
    "half",
    "bool",
    "byte",
    "type",
    "type_as",
    "detach",
    "clone",
    "unsqueeze",
    "item",
}


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
    if any(reads_a_part(loop) for loop in loops):
        return None  # which samples are left out depends on the order in which they come
    kept = {
        root or "?"
        for loop in loops
        for found in accumulated(loop)
        if not _is_index(module, found.added, loops)  # which samples, not how well
        for root in (root_of(found.target),)
    }
    kept |= {name for loop in loops for name in (*left_over(module, loop), *told_by(module, loop))}
    stores = [n for loop in loops for n in stores_in(module, loop)]
    return _by_max(module, loops, calls, stores, kept, flow, dataset) or _by_place(
        module, body, loops, calls, kept | {root_of(n.targets[0]) for n in stores}, flow, dataset
    )


def _always(module: Module, node: ast.AST, loops: Sequence[ast.AST]) -> bool:
    """Whether a statement runs once for each batch, or not at all in this run."""
    statement = module.statement(node)
    for outer in module.around(statement):
        if outer in loops or isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)):
            return True
        if isinstance(outer, ast.If):
            if any(mentions(outer.test, names_bound(module, loop)) for loop in loops):
                return False
        elif isinstance(outer, ast.stmt) and not isinstance(outer, (ast.With, ast.AsyncWith)):
            return False
    return True


def _nodes(body: Iterable[ast.stmt], kind: type[ast.Call]) -> Iterator[ast.Call]:
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, kind):
            yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            stack.extend(children(node))


def _by_max(
    module: Module,
    loops: Sequence[ast.AST],
    calls: Sequence[ast.Call],
    stores: Sequence[ast.Assign],
    kept: set[str],
    flow: Flow,
    dataset: ast.expr | None,
) -> Evidence | None:
    """Zeros, one for each sample, in which each batch puts yes or no at its samples' indexes, combined by MAX."""
    roots = {root_of(n.targets[0]) for n in stores}
    if not stores or kept - roots:
        return None
    for node in stores:
        target = node.targets[0]
        assert isinstance(target, ast.Subscript)
        if not _is_index(module, target.slice, loops) or not _always(module, node, loops):
            return None
        if mentions(node.value, roots) or not _is_yes_or_no(module, node.value):
            return None
        if not _zeros(module, target.value, loops, flow, dataset):
            return None
        if not any(_combines(call, root_of(target)) and call.lineno > node.lineno for call in calls):
            return None
    return module.evidence(stores[0])


def _combines(call: ast.Call, root: str) -> bool:
    maximum = any(isinstance(n, ast.Attribute) and n.attr == "MAX" for a in arguments_of(call) for n in ast.walk(a))
    return last_name(call.func) == "all_reduce" and maximum and any(mentions(a, {root}) for a in arguments_of(call))


def _zeros(module: Module, node: ast.expr, loops: Sequence[ast.AST], flow: Flow, dataset: ast.expr | None) -> bool:
    """Whether a tensor is made anew before each pass, of as many zeros as the dataset has samples."""
    definitions = module.bindings.reaching(node)
    around = [[n for n in module.around(loop) if isinstance(n, (ast.For, ast.While))] for loop in loops]
    for d in definitions:
        made = _passed(d.value) if d.kind == "assign" and d.index is None and d.value is not None else None
        if not (isinstance(made, ast.Call) and last_name(made.func) in ("zeros", "new_zeros") and made.args):
            return False
        size = made.args[0].elts[0] if isinstance(made.args[0], (ast.Tuple, ast.List)) else made.args[0]
        if not _is_length(module, size, flow, dataset):
            return False
        if [n for n in module.around(d.statement) if isinstance(n, (ast.For, ast.While))] not in around:
            return False
        if any(module.function(d.statement) is not module.function(loop) for loop in loops):
            return False
    return bool(definitions)


def _is_length(module: Module, node: ast.expr, flow: Flow, dataset: ast.expr | None, depth: int = 0) -> bool:
    """Whether an expression is the number of the loader's samples, also as a name or a parameter."""
    if isinstance(node, ast.Call):
        return (
            last_name(node.func) == "len" and len(node.args) == 1 and _is_dataset(module, node.args[0], flow, dataset)
        )
    definitions = module.bindings.reaching(node)
    if depth > 3 or not definitions:
        return False
    for d in definitions:
        values = [d.value] if d.kind == "assign" and d.index is None else []
        if d.kind == "parameter":
            values = [value for _, value in arguments_given(module, d)]
        if not values or any(v is None or not _is_length(module, v, flow, dataset, depth + 1) for v in values):
            return False
    return True


def _by_place(
    module: Module,
    body: list[ast.stmt],
    loops: Sequence[ast.AST],
    calls: Sequence[ast.Call],
    kept: set[str],
    flow: Flow,
    dataset: ast.expr | None,
) -> Evidence | None:
    """Gathered results that are laid in turn and cut, or put at their sample's index."""
    outputs: set[str] = set()
    inputs: set[str] = set()
    indexes: set[str] = set()  # the outputs of gathered sample indexes
    for call in calls:
        if last_name(call.func) not in GATHERS:
            continue
        given = call.args[1] if len(call.args) > 1 else call.args[0] if call.args else call
        made = {root_of(call.args[0])} if len(call.args) > 1 else set()
        statement = module.statement(call)
        if isinstance(statement, ast.Assign):
            made |= {root_of(t) for t in statement.targets}
        inputs |= {root_of(n) for n in ast.walk(given) if isinstance(n, (ast.Name, ast.Attribute))}
        outputs |= made
        if _is_index(module, given, loops):
            indexes |= made
    if not outputs:
        return None
    missed = {name for name in kept if not derived(body, {name}) & inputs}  # one rank's share, not gathered
    gathered = derived(body, outputs - {""})
    placed = derived(body, indexes - {""})
    for call in calls:
        if last_name(call.func) in PLACES and isinstance(call.func, ast.Attribute) and len(call.args) <= 3:
            names = {n.id for a in call.args for n in ast.walk(a) if isinstance(n, ast.Name)} & gathered
            alone = not call.keywords and not any(isinstance(a, ast.Constant) and a.value is True for a in call.args)
            if alone and names & placed and names - placed and not missed - {root_of(call.func.value)}:
                return module.evidence(call) if _always(module, call, loops) else None
    if missed:
        return None
    cuts = [n for s in body for n in ast.walk(s) if _cuts(module, n, body, gathered, flow, dataset)]
    return module.evidence(cuts[0]) if cuts and not _read_uncut(module, body, cuts, gathered | kept) else None


def _cuts(
    module: Module,
    node: ast.AST,
    body: list[ast.stmt],
    gathered: set[str],
    flow: Flow,
    dataset: ast.expr | None,
) -> bool:
    """``laid[: len(dataset)]`` of gathered results that are laid in turn."""
    if not (isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice)) or node.slice.lower is not None:
        return False
    upper = node.slice.upper
    if upper is None or node.slice.step is not None or not _is_length(module, upper, flow, dataset):
        return False
    laid = _laid_in_turn(body, gathered)
    inside = any(n in laid for n in ast.walk(node.value))
    names = {root_of(t) for n in laid for t in getattr(module.statement(n), "targets", ())} - {""}
    return inside or mentions(node.value, derived(body, names))


def _read_uncut(module: Module, body: list[ast.stmt], cuts: list[ast.AST], names: set[str]) -> bool:
    """Whether results are read behind the cut that were not cut."""
    statements = [module.statement(n) for n in cuts]
    first = min(s.lineno for s in statements)
    cut = derived(body, {root_of(t) for s in statements for t in getattr(s, "targets", ())} - {""})
    inside = {n for c in cuts for n in ast.walk(c)}
    return any(
        isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.lineno >= first
        for s in body
        for n in ast.walk(s)
        if n not in inside and getattr(n, "id", "") in names - cut
    )


def derived(body: list[ast.stmt], names: set[str]) -> set[str]:
    """The names whose values are made of some names' values, these included."""
    found = set(names)
    while True:
        size = len(found)
        for node in (n for s in body for n in ast.walk(s)):
            if isinstance(node, ast.Assign) and mentions(node.value, found):
                found |= {root_of(t) for target in node.targets for t in _elements(target)}
            elif isinstance(node, ast.For) and mentions(node.iter, found):
                found |= {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)}
        found.discard("")
        if len(found) == size:
            return found


def _elements(target: ast.expr) -> list[ast.expr]:
    return [e for t in target.elts for e in _elements(t)] if isinstance(target, (ast.Tuple, ast.List)) else [target]


def _laid_in_turn(body: list[ast.stmt], gathered: set[str]) -> list[ast.AST]:
    """Where results of several ranks are laid in turn: ``zip(*parts)``, ``stack(parts, dim=1)``, a transposed stack,
    ``all[rank::world]``."""
    found: list[ast.AST] = []
    for node in (n for s in body for n in ast.walk(s)):
        if isinstance(node, ast.Call):
            name = last_name(node.func)
            starred = [a for a in node.args if isinstance(a, ast.Starred)]
            if name in ("zip", "zip_longest") and any(mentions(a, gathered) for a in starred):
                found.append(node)
            if name in ("transpose", "permute", "swapaxes", "t") and mentions(node, gathered):
                found.append(node)
            if name == "stack" and _behind_samples(node) and mentions(node, gathered):
                found.append(node)
        if isinstance(node, ast.Attribute) and node.attr in ("T", "mT") and mentions(node.value, gathered):
            found.append(node)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            place = node.targets[0].slice
            if isinstance(place, ast.Slice) and place.step is not None and mentions(node.value, gathered):
                found.append(node)
    return found


def _behind_samples(stack: ast.Call) -> bool:
    """Whether a stack puts the ranks behind the samples: ``stack(parts, dim=1)``."""
    axes = [*stack.args[1:2], *(k.value for k in stack.keywords if k.arg in ("dim", "axis"))]
    return len(axes) == 1 and isinstance(axes[0], ast.Constant) and axes[0].value == 1


def _is_dataset(module: Module, node: ast.expr, flow: Flow, dataset: ast.expr | None) -> bool:
    """Whether an expression is the loader's own dataset, also as a parameter that every caller gives it to."""
    if isinstance(node, ast.Attribute) and node.attr == "dataset" and node.value in flow.aliases:
        return True
    if dataset is None or not isinstance(node, (ast.Name, ast.Attribute)):
        return False
    definitions = module.bindings.reaching(node)
    elsewhere = module.function(node) is not module.function(dataset)
    if elsewhere and definitions and all(d.kind == "parameter" for d in definitions):
        (parameter,) = definitions
        values = [value for _, value in arguments_given(module, parameter)]
        if values:
            return all(v is not None and same_source(v, dataset) for v in values)
    return same_source(node, dataset)


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
    """A comparison of each sample, cast at most: only of such is the MAX over ranks the sample's own value, since zeros
    stand for the samples of other ranks (a negative loss would be lost, a mean over the batch be another)."""
    if depth > 6:
        return False
    if isinstance(node, ast.Compare):
        return True
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.Invert)):
        return _is_yes_or_no(module, node.operand, depth + 1)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitAnd, ast.BitOr)):
        return all(_is_yes_or_no(module, n, depth + 1) for n in (node.left, node.right))
    if isinstance(node, ast.Call):
        name = last_name(node.func)
        if name in ("eq", "ne", "isclose"):
            return True
        if isinstance(node.func, ast.Attribute):
            given = arguments_of(node)
            along = len(given) == 1 and not (isinstance(given[0], ast.Constant) and given[0].value in (0, None))
            if name in _CASTS or (name in ("all", "any", "sum") and along):
                return _is_yes_or_no(module, node.func.value, depth + 1)
        return (
            name in ("float", "int", "bool") and len(node.args) == 1 and _is_yes_or_no(module, node.args[0], depth + 1)
        )
    if isinstance(node, ast.Name):
        definitions = module.bindings.reaching(node)
        values = [d.value if d.kind == "assign" and d.index is None else None for d in definitions]
        return bool(values) and all(v is not None and _is_yes_or_no(module, v, depth + 1) for v in values)
    return False
