"""Sums that round at each addition: several ranks add other numbers in another order, and round otherwise."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from shardfix.analysis.metrics.quantities import Value, short
from shardfix.analysis.metrics.values import Values

_HALF = frozenset({"half", "float16", "bfloat16", "HalfTensor", "BFloat16Tensor"})
_WHOLE = frozenset({"int", "int8", "int16", "int32", "int64", "uint8", "intp", "int_", "long", "i4", "i8", "uint"})
_CASTS = frozenset({"to", "type", "astype"})
# What gives a number or a tensor of a type of its own, whatever it is called on.
_OF_ITS_OWN = frozenset(
    {"float", "double", "item", "tolist", "int", "long", "argmax", "argmin", "eq", "ne", "gt", "ge", "lt", "le", "bool"}
)
_HOPS = 4


def rounds(values: Values, starts: Sequence[ast.expr], target: ast.expr, added: ast.expr) -> str:
    """Why a sum rounds at each addition; empty where it does not, or no more than floats do.

    Args:
        starts: what it begins with.
        target: what is added to, an item of it perhaps.
        added: what is added.
    """
    name = short(target)
    if isinstance(added, ast.BinOp) and ast.unparse(added.left) == ast.unparse(target):  # `x = x + e`
        added = added.right
    if any(_begins_half(start) for start in starts):
        return f"`{name}` is kept in half precision, and each addition rounds"
    if _is_half(values, added):
        return f"`{short(added)}` is in half precision, and each addition rounds"
    if isinstance(target, ast.Subscript) and any(map(_begins_whole, starts)) and not _is_whole(values.of(added)):
        return f"`{name}` keeps whole numbers, and each addition cuts off the fraction of `{short(added)}`"
    return ""


def _begins_half(node: ast.expr) -> bool:
    return _says(node, _HALF)


def _begins_whole(node: ast.expr) -> bool:
    """``np.zeros(4, dtype=int)``: an item of it cuts off what is stored; a tensor raises instead."""
    return isinstance(node, ast.Call) and any(k.arg == "dtype" and _says(k.value, _WHOLE) for k in node.keywords)


def _is_whole(value: Value) -> bool:
    return value.whole or value.kind in ("count", "constant")


def _says(node: ast.expr, types: frozenset[str]) -> bool:
    words = (
        n.attr if isinstance(n, ast.Attribute) else n.id if isinstance(n, ast.Name) else n.value
        for n in ast.walk(node)
        if isinstance(n, (ast.Attribute, ast.Name)) or (isinstance(n, ast.Constant) and isinstance(n.value, str))
    )
    return any(word in types for word in words)


def _is_half(values: Values, node: ast.expr, depth: int = 0) -> bool:
    """Whether a value is seen to be in half precision."""
    if depth > _HOPS:
        return False
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        name = node.func.attr
        if name in ("half", "bfloat16"):
            return True
        if name in _CASTS and (node.args or node.keywords):
            given = [*node.args, *(k.value for k in node.keywords)]
            if any(_says(a, _HALF) for a in given):
                return True
            if name != "to" or any("float" in ast.unparse(a) or "double" in ast.unparse(a) for a in given):
                return False
        return name not in _OF_ITS_OWN and _is_half(values, node.func.value, depth)
    if isinstance(node, ast.BinOp):
        return _is_half(values, node.left, depth) or _is_half(values, node.right, depth)
    if isinstance(node, ast.Subscript):
        return _is_half(values, node.value, depth)
    if isinstance(node, ast.Name):
        return any(_is_half(values, made, depth + 1) for made in _made(values, node))
    return False


def _made(values: Values, node: ast.Name) -> list[ast.expr]:
    """What a name is assigned in the loop."""
    found = [d for d in values.module.bindings.reaching(node) if d.node in values.inside and d.index is None]
    return [d.value for d in found if d.value is not None]


__all__ = ["rounds"]
