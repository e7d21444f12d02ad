"""Whether what is made of a list of results goes by the order of its items: a mean, a count and a confusion matrix
don't, what is printed, written or matched with something else by position does."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.metrics.model import Obstacle

_DEPTH = 12  # names of names
# Libraries whose functions of results and labels give the same where both are in another order.
_METRICS = ("sklearn.metrics.", "scipy.stats.", "seqeval.metrics.", "torchmetrics.functional.")
_ARRAYS = ("numpy.", "torch.", "builtins.", "collections.", "statistics.", "math.")
_WHOLE = frozenset(
    {"mean", "sum", "std", "var", "median", "min", "max", "amin", "amax", "percentile", "quantile", "unique", "fmean"}
    | {"bincount", "histogram", "count_nonzero", "nanmean", "nansum", "corrcoef", "any", "all", "len", "set", "prod"}
    | {"sorted", "Counter", "average", "pstdev", "stdev", "fsum", "count", "numel", "item", "isnan", "frozenset"}
)
_CONVERTED = frozenset(
    {"array", "asarray", "tensor", "as_tensor", "cat", "concat", "concatenate", "vstack", "stack", "from_numpy"}
    | {"list", "tuple", "cpu", "numpy", "tolist", "float", "long", "int", "double", "detach", "astype", "to", "cuda"}
    | {"squeeze", "flatten", "ravel", "abs", "exp", "sqrt", "log", "sigmoid", "round", "clone", "copy", "eq", "ne"}
    | {"ge", "gt", "le", "lt", "equal", "not_equal", "logical_and", "logical_or", "square", "isclose", "zip"}
    | {"argmax", "argmin", "softmax", "norm", "bool", "FloatTensor", "LongTensor", "Tensor", "type", "reshape", "view"}
)
_PARTS = ("percentile", "quantile")  # which are told a part first
_ALONG = frozenset({"argmax", "argmin", "softmax", "norm", "argsort"})
_OF_SHAPE = frozenset({"shape", "dtype", "device", "ndim", "size"})


def by_order(module: Module, loop: ast.For, names: Iterable[str]) -> Obstacle | None:
    """The first place behind a loop where something goes by the order of the items of one of these lists.

    Items of lists that are filled together stay together, so that a value made of pairs is the same.
    """
    reader = _Reader(module, loop, set(names))
    end = loop.end_lineno or loop.lineno
    for node in _reads(module, module.scope(loop), reader.names):
        if getattr(node, "lineno", 0) > end and not reader.free(node):
            return Obstacle(module.statement(node), f"`{ast.unparse(node)}` is read here by the order of its items")
    if any("." in name for name in reader.names):
        return Obstacle(loop, "what an object keeps may be read elsewhere, by its order")
    return None


def _reads(module: Module, scope: ast.AST, names: set[str]) -> list[ast.expr]:
    found = [
        n
        for n in ast.walk(scope)
        if isinstance(n, (ast.Name, ast.Attribute)) and isinstance(n.ctx, ast.Load) and ast.unparse(n) in names
    ]
    return sorted(found, key=lambda n: (n.lineno, n.col_offset))


class _Reader:
    """What becomes of lists whose items are in another order, all alike.

    Attributes:
        names: the lists, and what is made of them item by item.
    """

    def __init__(self, module: Module, loop: ast.For, names: set[str]) -> None:
        self.module, self.names = module, set(names)
        for _ in range(3):
            for n in ast.walk(module.scope(loop)):
                if isinstance(n, ast.Assign) and n.lineno > loop.lineno and self._mentions(n.value):
                    self.names |= {t.id for target in n.targets for t in ast.walk(target) if isinstance(t, ast.Name)}

    def free(self, node: ast.expr, depth: int = 0) -> bool:
        """Whether nothing that is made of an expression goes by the order of its items."""
        parents = self.module.parents
        previous: ast.AST = node
        if depth > _DEPTH:
            return False
        while True:
            outer = parents[previous]
            if isinstance(outer, (ast.keyword, ast.Starred)):
                previous = outer
                continue
            if isinstance(outer, ast.Call):
                ends = self._called(outer, previous)
            elif isinstance(outer, ast.Attribute):
                call = parents.get(outer)
                if isinstance(call, ast.Call) and call.func is outer:
                    ends = self._method(call, outer.attr)
                    outer = call
                else:
                    ends = True if outer.attr in _OF_SHAPE else None if outer.attr == "T" else False
            elif isinstance(outer, (ast.BinOp, ast.Compare, ast.BoolOp)):
                ends = self._with_others(outer, previous)
            elif isinstance(outer, (ast.UnaryOp, ast.Tuple, ast.List)):
                ends = None
            elif isinstance(outer, ast.Subscript):
                kept = self._kept(outer.slice) if outer.value is previous else self._mentions(outer.value)
                ends = None if kept else False
            elif isinstance(outer, ast.comprehension):
                outer = parents[outer]
                ends = None if not self._counts(outer) else False
            elif isinstance(outer, (ast.If, ast.While, ast.Assert)):
                return True
            elif isinstance(outer, ast.IfExp):
                ends = True if previous is outer.test else None
            elif isinstance(outer, ast.For):
                return previous is outer.iter and self._adds_up(outer)
            elif isinstance(outer, (ast.Assign, ast.AnnAssign)):
                made = [d for d in self.module.bindings.definitions if d.statement is outer]
                readers = [r for d in made for r in self.module.bindings.readers(d)]
                names = all(isinstance(d.node, ast.Name) for d in made)
                return bool(made) and names and all(self.free(r, depth + 1) for r in readers)
            else:
                return False
            if ends is not None:
                return ends
            previous = outer

    def _called(self, call: ast.Call, argument: ast.AST) -> bool | None:
        """True where what a call gives is the same in any order, None where it is in the same other order."""
        name = last_name(call.func)
        callees = self.module.callee(call)
        if any(q.startswith(_METRICS) for q in callees):
            return self._only_these(call)
        own = not callees or any(q.startswith(_ARRAYS) or q in ("zip", "len") for q in callees)
        if not own:
            return False
        if name == "zip":
            return None if self._only_these(call) else False
        if name in _WHOLE:
            return None if self._along(call, 2 if name in _PARTS else 1) else self._only_these(call)
        if name in _CONVERTED:
            return None if (name not in _ALONG or self._along(call, 1)) and self._only_these(call) else False
        return False

    def _method(self, call: ast.Call, name: str) -> bool | None:
        if name in _WHOLE:
            return None if self._along(call, 1 if name in _PARTS else 0) else True
        if name in _CONVERTED:
            return None if (name not in _ALONG or self._along(call, 0)) and self._only_these(call) else False
        return False

    def _along(self, call: ast.Call, position: int) -> bool:
        """Whether a call goes along a dimension that is not that of the items."""
        given = [k.value for k in call.keywords if k.arg in ("dim", "axis")] or call.args[position : position + 1]
        return bool(given) and isinstance(given[0], ast.Constant) and type(given[0].value) is int and given[0].value > 0

    def _only_these(self, call: ast.Call) -> bool:
        """Whether no other list goes into a call, whose items are in their old order."""
        parts = [*call.args, *(k.value for k in call.keywords)]
        return all(self._alike(p) for p in parts)

    def _with_others(self, node: ast.BinOp | ast.Compare | ast.BoolOp, previous: ast.AST) -> bool | None:
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Is, ast.IsNot, ast.In, ast.NotIn)):
            return True
        parts = [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr) and n is not previous]
        return None if all(self._alike(p) for p in parts) else False

    def _alike(self, node: ast.expr) -> bool:
        """Whether an expression is in the same other order, or has no order."""
        return self._mentions(node) or all(
            isinstance(n, (ast.Constant, ast.UnaryOp, ast.USub, ast.expr_context, ast.Attribute, ast.List, ast.Tuple))
            or (isinstance(n, ast.Name) and self._is_imported(n))
            for n in ast.walk(node)
        )

    def _is_imported(self, node: ast.Name) -> bool:
        found = self.module.bindings.reaching(node)
        return all(d.kind in ("import", "class") or isinstance(d.value, ast.Constant) for d in found)

    def _mentions(self, node: ast.AST) -> bool:
        named = (n for n in ast.walk(node) if isinstance(n, (ast.Name, ast.Attribute)))
        return any(ast.unparse(n) in self.names for n in named)

    def _kept(self, index: ast.expr) -> bool:
        """``x[mask]`` of these, ``x[:, 1]``"""
        if isinstance(index, ast.Tuple) and index.elts and isinstance(index.elts[0], ast.Slice):
            return not any(ast.iter_child_nodes(index.elts[0]))
        return not isinstance(index, (ast.Slice, ast.Constant, ast.UnaryOp)) and self._mentions(index)

    def _counts(self, comprehension: ast.AST) -> bool:
        """Whether a comprehension goes by the number of an item."""
        if isinstance(comprehension, ast.DictComp):
            return True
        return any(
            isinstance(n, ast.Call) and last_name(n.func) in ("enumerate", "next", "__next__", "pop")
            for n in ast.walk(comprehension)
        )

    def _of_one_turn(self, target: ast.Name, statement: ast.Assign, loop: ast.For) -> bool:
        """Whether what a turn gives a name is read in that turn alone."""
        inside = set(ast.walk(loop))
        own = any(isinstance(n, ast.Name) and n.id == target.id for n in ast.walk(statement.value))
        made = self.module.bindings.definitions_at(target, target.id)
        readers = [r for d in made for r in self.module.bindings.readers(d)]
        return not own and all(r in inside and r.lineno >= statement.lineno for r in readers)

    def _adds_up(self, loop: ast.For) -> bool:
        """Whether a loop over the items does nothing but add up, each by itself."""
        added = {ast.unparse(n.target) for n in ast.walk(loop) if isinstance(n, ast.AugAssign)}
        for s in (n for b in loop.body for n in ast.walk(b) if isinstance(n, ast.stmt)):
            if isinstance(s, ast.AugAssign):
                if not isinstance(s.op, (ast.Add, ast.Sub)):
                    return False
            elif isinstance(s, ast.Assign):
                if not all(isinstance(t, ast.Name) and self._of_one_turn(t, s, loop) for t in s.targets):
                    return False
            elif not isinstance(s, (ast.If, ast.Pass, ast.Continue)):
                return False
        read = (n for b in loop.body for n in ast.walk(b) if isinstance(n, (ast.Name, ast.Attribute)))
        return not any(isinstance(n.ctx, ast.Load) and ast.unparse(n) in added for n in read)


__all__ = ["by_order"]
