"""Whether a sum, a list or an array begins at nothing."""

from __future__ import annotations

import ast

from shardfix.analysis.code.names import last_name

_ZEROS = frozenset({"zeros", "zeros_like", "new_zeros", "Counter", "float", "int"})
_EMPTY = frozenset({"list", "array", "empty", "tensor", "Tensor", "LongTensor", "FloatTensor", "asarray", "zeros"})
_MOVES = frozenset({"to", "cuda", "cpu", "double", "float", "long", "type"})


def _bare(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _MOVES:
        node = node.func.value
    return node


def is_number(node: ast.expr) -> bool:
    """Whether a value is written out, so that no other name can share it."""
    return isinstance(node, ast.Constant)


def is_zero(node: ast.expr) -> bool:
    """0, a tensor or array of zeros, a display of them."""
    node = _bare(node)
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float) and node.value == 0
    if isinstance(node, (ast.List, ast.Tuple)):
        return bool(node.elts) and all(is_zero(e) for e in node.elts)
    if isinstance(node, ast.Dict):
        return all(is_zero(v) for v in node.values)
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        return is_zero(node.elt)
    if isinstance(node, ast.DictComp):
        return is_zero(node.value)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return isinstance(node.left, ast.List) and is_zero(node.left)
    if not isinstance(node, ast.Call):
        return False
    name = last_name(node.func)
    if name in ("tensor", "Tensor", "array") and node.args:
        return is_zero(node.args[0])
    if name in ("list", "tuple") and isinstance(node.func, ast.Name) and len(node.args) == 1:
        return is_zero(node.args[0])
    if name == "defaultdict":
        return len(node.args) == 1 and ast.unparse(node.args[0]) in ("int", "float")
    return name in _ZEROS and (name not in ("float", "int", "Counter") or not node.args)


def is_empty(node: ast.expr) -> bool:
    """An empty list or array, or None."""
    node = _bare(node)
    if isinstance(node, ast.Constant):
        return node.value is None
    if isinstance(node, ast.List):
        return not node.elts
    if isinstance(node, ast.Call) and last_name(node.func) in _EMPTY:
        given = node.args[0] if node.args else None
        nothing = isinstance(given, (ast.List, ast.Tuple)) and not given.elts
        zero = isinstance(given, ast.Constant) and given.value == 0 and last_name(node.func) in ("zeros", "empty")
        return given is None or nothing or zero
    return False


__all__ = ["is_empty", "is_number", "is_zero"]
