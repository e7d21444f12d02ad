"""What an attribute or an item of a batch's value is: a column, one sample's, a number of samples."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from shardfix.analysis.metrics.growing import squeezed
from shardfix.analysis.metrics.networks import gives_several
from shardfix.analysis.metrics.quantities import (
    BATCH,
    CONSTANT,
    COUNT,
    OUTPUT,
    SAMPLE,
    SAMPLES,
    TOTALS,
    UNKNOWN,
    Value,
    either,
    unknown,
)
from shardfix.analysis.metrics.turns import bound

if TYPE_CHECKING:
    from shardfix.analysis.metrics.values import Values

_OWN_LOSS = frozenset({"loss", "losses"})


def attribute_of(values: Values, node: ast.Attribute) -> Value:
    """What an attribute is: one that the loop sets, a column of the batch, one of a model's outputs."""
    definitions = [d for d in values.module.bindings.reaching(node) if d.node in values.inside]
    if definitions:
        return either([values.defined(d) for d in definitions])
    base = values.of(node.value)
    if base.kind == "batch":
        return SAMPLES
    if base.kind == "output":
        return unknown(node) if node.attr in _OWN_LOSS else OUTPUT
    if base.kind == "list" and node.attr in ("values", "indices"):
        return base.item()
    if base.kind in ("samples", "transposed") and node.attr in ("T", "mT"):
        return Value("transposed")
    if node.attr in ("data", "real"):
        return base
    return base if base.kind in ("constant", "sample", "unknown", "time") else unknown(node)


def item_of(values: Values, node: ast.Subscript) -> Value:
    """What a subscript takes: a column, a number of samples, one sample's row."""
    shaped = _shape(values, node)
    if shaped is not None:
        return shaped
    base, index = values.of(node.value), node.slice
    apart = ("constant", "sample") if base.kind in ("sample", "unknown") else ("constant",)
    if any(values.of(b).kind not in apart for b in _bounds(index)):
        return unknown(node)  # what is cut by the batch's own length goes by the place in the batch
    number = index.value if isinstance(index, ast.Constant) and isinstance(index.value, int) else None
    if base.kind == "batch":
        return BATCH if isinstance(index, ast.Slice) else SAMPLES
    if base.kind in ("items", "list"):
        return base.item(number) if not isinstance(index, ast.Slice) else UNKNOWN
    place = _place(values, index)
    if base.kind in ("samples", "output", "examples") and (place.kind == "place" or place.kind == "sample"):
        hidden = squeezed(values.module, node.value, values.inside)  # of one sample it leaves nothing to count through
        return SAMPLE if _is_place(values, index) and hidden is None else unknown(hidden or node)
    if base.kind == "output":
        named = isinstance(index, ast.Constant) and index.value in _OWN_LOSS
        columns = isinstance(index, ast.Tuple) and len(index.elts) > 1 and isinstance(index.elts[0], ast.Slice)
        if columns and isinstance(index, ast.Tuple) and _is_all(index.elts[0]):
            return _columns(values, Value("samples", deep=base.deep), index) or unknown(node)
        return _taken_from(values, node) if not named else unknown(node)
    if base.kind == "samples":
        if isinstance(index, ast.Tuple) and index.elts and _is_all(index.elts[0]):
            return _columns(values, base, index) or unknown(node)
        return Value("elements") if place.kind == "samples" else unknown(node)
    if base.kind == "transposed":
        return base if isinstance(index, ast.Slice) else SAMPLES if number is not None else unknown(node)
    if base.kind == "elements":
        return base if place.kind in ("samples", "elements") else unknown(node)
    if base.kind in TOTALS | {"mean"}:
        return Value("sum") if base.kind == "count" else base
    if base.kind == "constant":
        return place if place.kind in ("constant", "sample", "samples") else unknown(node)
    return base if base.kind in ("sample", "unknown") else unknown(node)


def _bounds(index: ast.expr) -> list[ast.expr]:
    """What the slices of a subscript go from and to."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    slices = [p for p in parts if isinstance(p, ast.Slice)]
    return [b for s in slices for b in (s.lower, s.upper, s.step) if b is not None]


def _place(values: Values, index: ast.expr) -> Value:
    """What an index is, of several parts what they are together."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    found = [values.of(p) for p in parts if not isinstance(p, ast.Slice)]
    kinds = {v.kind for v in found} - {"constant"}
    return CONSTANT if not kinds else next(v for v in found if v.kind != "constant") if len(kinds) == 1 else UNKNOWN


def _columns(values: Values, rows: Value, index: ast.Tuple) -> Value | None:
    """``x[:, 0]``, ``x[:, 1:]``, ``x[..., 0]``: the same columns of all rows; None where they are not."""
    first, rest = index.elts[0], index.elts[1:]
    if not all(_fixed(values, e) for e in rest):
        return None
    if isinstance(first, ast.Constant) and not rows.deep:
        return None  # the last dimension may be that of the samples
    new = any(isinstance(e, ast.Constant) and e.value is None for e in rest)
    kept = all(isinstance(e, ast.Slice) or _is_all(e) for e in rest)
    return Value("samples", whole=rows.whole, deep=new or (kept and bool(rest)))


def _fixed(values: Values, index: ast.expr) -> bool:
    """Whether an index is the same for all batches."""
    return isinstance(index, ast.Slice) or values.of(index).kind == "constant"


def _taken_from(values: Values, node: ast.Subscript) -> Value:
    """Part of what a model gives: one of its outputs by name or number, or rows that a mask chooses."""
    index = node.slice
    if isinstance(index, ast.Slice) and _unpacked(values, node) and gives_several(values.module, node.value):
        return OUTPUT
    if isinstance(index, (ast.Slice, ast.Tuple)):
        apart = (
            isinstance(index, ast.Tuple) and _is_all(index.elts[0]) and all(_fixed(values, e) for e in index.elts[1:])
        )
        return Value("output") if apart else unknown(node)
    kind = values.of(index).kind
    if isinstance(index, (ast.Constant, ast.UnaryOp)):
        numbered = not (isinstance(index, ast.Constant) and isinstance(index.value, str))
        if numbered and not gives_several(values.module, node.value):
            return unknown(node)  # of a tensor it is the row of one sample
    return OUTPUT if kind == "constant" else Value("elements") if kind == "samples" else unknown(node)


def _unpacked(values: Values, node: ast.Subscript) -> bool:
    """``loss, logits = outputs[:2]``: some of a model's outputs, each with a name of its own."""
    outer = values.module.parents.get(node)
    return isinstance(outer, ast.Assign) and outer.value is node and isinstance(outer.targets[0], (ast.Tuple, ast.List))


def _is_place(values: Values, index: ast.expr) -> bool:
    """Whether an index is the number that a loop over the samples counts."""
    if not isinstance(index, ast.Name):
        return False
    return all(d.kind == "loop" and bound(values, d).kind == "place" for d in values.module.bindings.reaching(index))


def _shape(values: Values, node: ast.Subscript) -> Value | None:
    """``x.shape[0]``, ``x.size()[0]``."""
    of: ast.expr | None = None
    if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
        of = node.value.value
    elif isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
        of = node.value.func.value if node.value.func.attr == "size" and not node.value.args else None
    if of is None:
        return None
    first = isinstance(node.slice, ast.Constant) and node.slice.value == 0
    kind = values.of(of).kind
    if kind in ("samples", "batch"):  # a batch that is asked for its shape is one tensor
        return COUNT if first else unknown(node)
    return Value(kind) if kind in ("constant", "sample") else unknown(node)


def _is_all(index: ast.expr) -> bool:
    """``:`` or ``...`` in a subscript."""
    if isinstance(index, ast.Slice):
        return not any(ast.iter_child_nodes(index))
    return isinstance(index, ast.Constant) and index.value is Ellipsis


__all__ = ["attribute_of", "item_of"]
