"""Rows that a loop changes in place after they are made, by whatever name: what that leaves of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardfix.analysis.code.names import arguments_of, last_name
from shardfix.analysis.metrics.methods import applied
from shardfix.analysis.metrics.quantities import ROWS, Value, operated, unknown
from shardfix.analysis.state.altering import alters_argument

if TYPE_CHECKING:
    from shardfix.analysis.metrics.values import Values

_MOVES = frozenset(
    {"reverse", "sort", "remove", "insert", "clear", "append", "extend", "add", "discard", "update", "appendleft"}
    | {"difference_update", "intersection_update", "subtract", "put", "fill", "itemset", "partition", "resize"}
)
_TAKES = frozenset({"pop", "popitem", "setdefault", "popleft"})
_FILLS = frozenset({"shuffle", "put", "place", "copyto", "putmask", "put_along_axis", "fill_diagonal"})
_PUTS_IN = frozenset({"copy_", "set_", "resize_", "resize_as_", "swap_"})
_STORED = ("samples", "constant", "output", "sample")
# What gives the same memory in another shape or type, or may do.
_VIEWS = frozenset(
    {"numpy", "view", "reshape", "squeeze", "unsqueeze", "t", "transpose", "permute", "detach", "cpu", "cuda", "to"}
    | {"contiguous", "flatten", "ravel", "expand", "expand_as", "view_as", "reshape_as", "select", "narrow", "float"}
    | {"long", "int", "double", "half", "bool", "type", "type_as", "astype", "get", "pop", "items", "values", "chunk"}
    | {"split", "unbind", "swapaxes", "diagonal", "as_tensor", "from_numpy", "asarray", "tuple", "list", "iter", "next"}
    | {"reversed", "zip", "enumerate", "dict", "atleast_1d", "atleast_2d", "tensor_split"}
)
_BATCHES = ("batch", "list")
_OF_ONE = ("sample", "constant")
_OF_ALL = ("sum", "count", "mean", "part")


@dataclass(frozen=True, eq=False, slots=True)
class _InPlace:
    """An expression that changes an object in place.

    Args:
        object: what is changed, as it is written there.
        node: the store or call that does it.
    """

    object: ast.expr
    node: ast.AST


def changed_in_place(values: Values) -> dict[ast.AST, ast.AST]:
    """By the definitions in a loop whose rows are no longer those of the samples, what changes them in place.

    A store or a method that changes each sample by itself, by a mask of rows say, changes nothing of that. Any other
    leaves nothing that shares memory with what it changes.
    """
    found = list(_in_place(values))
    hidden: dict[ast.AST, ast.AST] = {}
    while True:
        probe = values.again(hidden)
        new = [c for c in found if not _apart(probe, c)]
        for change in new:
            found.remove(change)
            for node in _sharing(values, change.object):
                hidden.setdefault(node, change.node)
        if not new or not found:
            return hidden


def _in_place(values: Values) -> Iterator[_InPlace]:
    """All that is changed in place of what the loop makes itself."""
    for n in values.inside:
        for target in _changed_by(values, n):
            if any(True for _ in _sharing(values, target)):
                yield _InPlace(target, n)


def _changed_by(values: Values, n: ast.AST) -> Iterator[ast.expr]:
    if (isinstance(n, ast.Subscript) and not isinstance(n.ctx, ast.Load)) or (
        isinstance(n, ast.Attribute) and n.attr == "data" and not isinstance(n.ctx, ast.Load)
    ):
        yield n.value
    elif isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name):
        yield n.target
    elif isinstance(n, ast.Call):
        name = last_name(n.func)
        if isinstance(n.func, ast.Attribute):
            alone = isinstance(values.module.parents.get(n), ast.Expr)
            in_place = name.endswith("_") and not name.startswith("_")
            if in_place or name in _TAKES or (alone and name in _MOVES):
                yield n.func.value
        if name in _FILLS:
            yield from n.args[:1]
        yield from (k.value for k in n.keywords if k.arg == "out")
        for function in values.module.called_functions(n, passed=False):
            for argument in arguments_of(n):
                if alters_argument(values.module, n, function, argument):
                    yield argument.value if isinstance(argument, ast.Starred) else argument


# -- what shares memory -------------------------------------------------------------------------------------------


def _sharing(values: Values, node: ast.expr) -> Iterator[ast.AST]:
    """The definitions in the loop of what may share memory with an expression."""
    seen: set[ast.AST] = set()
    stack: list[ast.AST] = [node]
    while stack:
        n = stack.pop()
        stack.extend(_parts(values, n))
        if not isinstance(n, (ast.Name, ast.Attribute)):
            continue
        for d in values.module.bindings.reaching(n):
            if d.node in values.inside and d.node not in seen and d.kind != "augmented":
                seen.add(d.node)
                yield d.node
                if d.value is not None and d.statement is not values.loop:
                    stack.append(d.value)


def _parts(values: Values, node: ast.AST) -> list[ast.expr]:
    """The parts of an expression whose memory it may share; none where it makes something of its own."""
    if isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred, ast.NamedExpr)):
        return [node.value]
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return list(node.elts)
    if isinstance(node, ast.Dict):
        return list(node.values)
    if isinstance(node, ast.BoolOp):
        return list(node.values)
    if isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
        return [node.elt, *(g.iter for g in node.generators)]
    if isinstance(node, ast.DictComp):
        return [node.value, *(g.iter for g in node.generators)]
    if not isinstance(node, ast.Call):
        return []
    name = last_name(node.func)
    receiver = [node.func.value] if isinstance(node.func, ast.Attribute) else []
    if values.module.called_functions(node, passed=False):
        return [a for a in arguments_of(node) if isinstance(a, (ast.Name, ast.Attribute, ast.Subscript))]
    if name[:1].isupper():
        return arguments_of(node)  # an object that holds them: `Batch(x, y)`
    if name in _VIEWS or (receiver and name.endswith("_")):
        return [*receiver, *(arguments_of(node) if name not in ("to", "get", "view", "reshape") else [])]
    return []


# -- what is changed apart ----------------------------------------------------------------------------------------


def _apart(values: Values, change: _InPlace) -> bool:
    """Whether a change leaves each sample's part to that sample."""
    value, node = values.of(change.object), change.node
    if value.kind in ("time", "step", "place") or (value.kind in _OF_ALL and _is_number(values, change.object)):
        return True
    if value.kind == "unknown":
        return False
    statement = values.module.statement(node)
    if value.kind not in _BATCHES and values.by_batch(statement) is not None:
        return False
    if value.kind in _OF_ALL:
        return _stays_of_all(values, change, value)
    if isinstance(node, ast.Subscript):
        return _stores_apart(values, node, value)
    if isinstance(node, ast.AugAssign):
        return value.kind == "constant" or operated(node.op, value, values.of(node.value)).kind in ROWS
    if not isinstance(node, ast.Call):
        return False
    name = last_name(node.func)
    if not isinstance(node.func, ast.Attribute) or node.func.value is not change.object:
        return False  # a function that is given it
    if name == "append" and values.fills(change.object):
        return True  # which is how it comes to be what it is
    if value.kind in _BATCHES:
        alone = isinstance(values.module.parents.get(node), ast.Expr)
        return not (alone and name in ("clear", "popitem", "reverse", "sort", "insert", "remove"))
    if name in _TAKES or name in _MOVES:
        return value.kind == "sample"
    if name in _PUTS_IN:
        kinds = {values.of(a).kind for a in arguments_of(node)}
        return name == "copy_" and kinds <= {"samples", "output", "constant"}
    if name in ("zero_", "fill_") and all(values.of(a).kind == "constant" for a in node.args):
        return True
    found = applied(values, name, value, node, node.args)
    return value.kind not in ROWS or (found is not None and found.kind in ROWS)


def _stays_of_all(values: Values, change: _InPlace, value: Value) -> bool:
    """Whether a change leaves a total one of the same kind: a root of a sum is none, of each part less than of all."""
    node = change.node
    if isinstance(node, ast.AugAssign):  # its name is another value from there on: what of those that it had before?
        return not _has_other_names(values, node) or _same(operated(node.op, value, values.of(node.value)), value)
    if (
        not isinstance(node, ast.Call)
        or not isinstance(node.func, ast.Attribute)
        or node.func.value is not change.object
    ):
        return False
    name = last_name(node.func)
    if name == "requires_grad_" or _is_last_read(values, change.object):
        return True
    found = applied(values, name, value, node, node.args) if name.endswith("_") and name not in _PUTS_IN else None
    return found is not None and _same(found, value)


def _is_last_read(values: Values, node: ast.expr) -> bool:
    """Whether a name is read nowhere else, so that only what the change gives is left: ``hits.mul_(100 / n)``."""
    made = set(_sharing(values, node))
    bindings = values.module.bindings
    if not isinstance(node, ast.Name) or any(not isinstance(m, ast.Name) or m.id != node.id for m in made):
        return False
    return not any(
        isinstance(n, ast.Name)
        and n is not node
        and n.id == node.id
        and any(d.node in made for d in bindings.reaching(n))
        for n in ast.walk(values.module.scope(node))
    )


def _same(found: Value, value: Value) -> bool:
    return found.kind == value.kind and (found.whole or not value.whole)


def _has_other_names(values: Values, node: ast.AugAssign) -> bool:
    """Whether what is augmented may be known by another name too, or be part of something."""
    name = node.target.id if isinstance(node.target, ast.Name) else ""
    for n in values.inside:
        if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load):
            parent = values.module.parents.get(n)
            if isinstance(parent, (ast.Assign, ast.NamedExpr, ast.Tuple, ast.List, ast.Dict, ast.IfExp)):
                return True
            view = isinstance(parent, ast.Attribute) and parent.attr in _VIEWS
            if view or (isinstance(parent, ast.Call) and last_name(parent.func) in ("append", "setdefault")):
                return True
    return False


def _is_number(values: Values, node: ast.expr) -> bool:
    """Whether a total is a number of Python, which nothing changes in place."""
    if isinstance(node, ast.Name):
        made = [d for d in values.module.bindings.reaching(node) if d.kind != "augmented"]
        return bool(made) and all(d.kind == "assign" and d.index is None and _counted(d.value) for d in made)
    return False


def _counted(node: ast.expr | None) -> bool:
    if not isinstance(node, ast.Call):
        return False
    # `s.float()` is the tensor itself where it is one of floats.
    made = ("len", "float", "int") if isinstance(node.func, ast.Name) else ("item", "size")
    return last_name(node.func) in made


def _stores_apart(values: Values, target: ast.Subscript, value: Value) -> bool:
    """Whether a store changes each sample by itself: where a mask of rows says so, in the same columns of all, or
    under a name in a batch."""
    statement = values.module.statement(target)
    if isinstance(statement, ast.Delete):
        return value.kind == "batch"
    given = getattr(statement, "value", None)
    kind = values.of(given).kind if isinstance(given, ast.expr) else "unknown"
    index = target.slice
    if value.kind == "batch":
        return isinstance(index, ast.Constant) and isinstance(index.value, str) and kind in _STORED
    if value.kind == "sample":
        ends = (index.lower, index.upper, index.step) if isinstance(index, ast.Slice) else (index,)
        return kind in _OF_ONE and all(e is None or values.of(e).kind in _OF_ONE for e in ends)
    if value.kind == "constant":
        return kind == "constant" and values.of(index).kind == "constant"
    if isinstance(index, ast.Tuple) and index.elts and isinstance(index.elts[0], ast.Slice):
        whole = not any(ast.iter_child_nodes(index.elts[0]))
        fixed = all(isinstance(e, ast.Slice) or values.of(e).kind == "constant" for e in index.elts[1:])
        return whole and fixed and kind in ("samples", "output", "constant")
    mask = values.of(index) if not isinstance(index, (ast.Slice, ast.Tuple)) else unknown(index)
    return mask.kind == "samples" and mask.whole and kind == "constant"


def is_list(values: Values, node: ast.expr) -> bool:
    """Whether rows are in a list, of which operators make another list."""
    if isinstance(node, (ast.List, ast.ListComp)):
        return True
    if isinstance(node, ast.Call):
        return last_name(node.func) in ("tolist", "list")
    if not isinstance(node, ast.Name):
        return False
    made = values.module.bindings.reaching(node)
    return any(d.kind == "assign" and d.index is None and d.value is not None and _listed(d.value) for d in made)


def _listed(node: ast.expr) -> bool:
    made = isinstance(node, ast.Call) and last_name(node.func) in ("tolist", "list")
    return made or isinstance(node, (ast.List, ast.ListComp))


__all__ = ["changed_in_place", "is_list"]
