"""How a value depends on the samples of a batch (one for each, a sum, a mean), and what arithmetic makes of it."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import Literal

# samples: one row for each sample of the batch, in order. elements, transposed: the samples' values in another shape,
# of which only a sum over everything is a sum over samples. sum, count, mean: over the samples. part: one over a count.
# output: what a model or an unknown function makes of the batch. batch: as the loader gives it. examples: a list of
# samples. sample: of one sample. place: where a sample stands in its batch. step: the number of the batch. time: of the
# clock. constant: the same for every batch. items, list: some values. unknown: none of these, or not seen.
Kind = Literal[
    "samples",
    "elements",
    "transposed",
    "sum",
    "count",
    "mean",
    "part",
    "output",
    "batch",
    "examples",
    "sample",
    "place",
    "step",
    "time",
    "constant",
    "items",
    "list",
    "unknown",
]
_SHOWN = 60  # characters of an expression in a message
ROWS = frozenset({"samples", "elements", "transposed", "output", "sample"})
TOTALS = frozenset({"sum", "count"})


@dataclass(frozen=True, slots=True)
class Value:
    """How a value depends on the batch.

    Args:
        items: the values of a tuple (``items``) by position, or the one that stands for all of a ``list``.
        what: for what is unknown, the expression that hides it.
        whole: whether it is seen to be whole numbers, of which a sum stays what it is as an ``int``.
        deep: whether its rows are taken to have dimensions of their own: in what has none, the last dimension is that
            of the samples.
    """

    kind: Kind
    items: tuple[Value, ...] = ()
    what: ast.AST | None = None
    whole: bool = False
    deep: bool = False

    def item(self, index: int | None = None) -> Value:
        """One of the values of a tuple or a list."""
        if self.kind == "list":
            return self.items[0]
        if self.kind == "items" and index is not None and -len(self.items) <= index < len(self.items):
            return self.items[index]
        return UNKNOWN if self.kind in ("items", "unknown") else Value(self.kind, whole=self.whole, deep=self.deep)


UNKNOWN = Value("unknown")
CONSTANT = Value("constant")
SAMPLES = Value("samples")
SAMPLE = Value("sample")
COUNT = Value("count", whole=True)
SUM = Value("sum")
MEAN = Value("mean")
OUTPUT = Value("output", deep=True)
BATCH = Value("batch")


def unknown(node: ast.AST) -> Value:
    """A value that is not understood because of an expression."""
    return Value("unknown", what=node)


def short(node: ast.AST) -> str:
    """An expression as it is told."""
    text = ast.unparse(node)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def either(values: list[Value]) -> Value:
    """What is known of a value that may be one of several."""
    kinds = {v.kind for v in values}
    if not kinds:
        return UNKNOWN
    if len(set(values)) == 1:
        return values[0]
    if len(kinds) == 1 and not any(v.items for v in values):
        least = replace(values[0], whole=all(v.whole for v in values), deep=all(v.deep for v in values))
        return next((v for v in values if v.what is not None), least)
    if kinds <= {"samples", "output"}:
        return replace(OUTPUT, deep=all(v.deep for v in values))
    if kinds <= {"sample", "constant"}:
        return SAMPLE
    if kinds <= TOTALS:
        return SUM
    if kinds <= {"time", "constant"}:
        return Value("time")
    return next((v for v in values if v.kind == "unknown" and v.what is not None), UNKNOWN)


def paired(left: Value, right: Value) -> Value:
    """What an element-wise operation makes of two values: of rows and constants the same rows."""
    kinds: set[Kind] = {"output" if v.kind == "batch" else v.kind for v in (left, right)}
    if "unknown" in kinds:
        return left if left.kind == "unknown" else right
    if "time" in kinds:
        return Value("time")
    kinds -= {"constant"}
    deep = left.deep or right.deep
    if not kinds:
        return CONSTANT
    if len(kinds) == 1:
        (kind,) = kinds
        return Value(kind, deep=deep) if kind in ROWS | {"step"} else UNKNOWN
    if kinds == {"samples", "output"}:
        return replace(SAMPLES, deep=deep)
    if "transposed" in kinds and kinds <= {"transposed", "samples", "output"}:
        return UNKNOWN  # which of its dimensions holds the samples depends on the other one's shape
    return UNKNOWN


def operated(op: ast.operator, left: Value, right: Value) -> Value:
    """What arithmetic makes of two values."""
    kinds = (left.kind, right.kind)
    if "unknown" in kinds:
        return left if left.kind == "unknown" else right
    if isinstance(op, ast.MatMult):
        return multiplied(left, right)
    if not (set(kinds) & {"sum", "count", "mean", "part"}):
        return both(op, left, right)
    if isinstance(op, ast.Mult):
        return _product(left, right)
    if isinstance(op, ast.Div):
        return _quotient(left, right)
    if isinstance(op, (ast.Add, ast.Sub)):
        if set(kinds) <= TOTALS:
            return Value("sum", whole=left.whole and right.whole)
        if set(kinds) <= {"mean", "constant"}:
            return MEAN
    return UNKNOWN


def both(op: ast.operator, left: Value, right: Value) -> Value:
    """What arithmetic makes of the rows of two values; of comparisons, ``&`` and ``|`` make comparisons."""
    found = paired(left, right)
    logical = isinstance(op, (ast.BitAnd, ast.BitOr, ast.BitXor))
    return replace(found, whole=True) if logical and left.whole and right.whole else found


def multiplied(left: Value, right: Value) -> Value:
    """What a product of matrices makes of two values: rows where only their last dimension is summed over."""
    if "unknown" in (left.kind, right.kind):
        return left if left.kind == "unknown" else right
    if {left.kind, right.kind} <= {"sample", "constant"}:
        return paired(left, right)
    if left.kind in ("samples", "output") and right.kind == "constant":
        return Value(left.kind)
    return Value("transposed") if left.kind == "constant" and right.kind == "transposed" else UNKNOWN


def _product(left: Value, right: Value) -> Value:
    kinds = {left.kind, right.kind}
    if "constant" in kinds:
        other = right if left.kind == "constant" else left
        return SUM if other.kind == "count" else replace(other, whole=False)
    if kinds == {"mean", "count"}:
        return SUM
    if "part" in kinds and kinds <= {"part", "sum", "count"}:
        return MEAN
    return UNKNOWN


def _quotient(left: Value, right: Value) -> Value:
    if right.kind == "constant":
        return SUM if left.kind == "count" else replace(left, whole=False)
    if right.kind == "count":
        return {"sum": MEAN, "count": CONSTANT, "constant": Value("part")}.get(left.kind, UNKNOWN)
    return UNKNOWN


__all__ = [
    "BATCH",
    "CONSTANT",
    "COUNT",
    "MEAN",
    "OUTPUT",
    "ROWS",
    "SAMPLE",
    "SAMPLES",
    "SUM",
    "TOTALS",
    "UNKNOWN",
    "Kind",
    "Value",
    "both",
    "either",
    "multiplied",
    "operated",
    "paired",
    "short",
    "unknown",
]
