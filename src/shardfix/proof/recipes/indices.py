"""Indices in a recipe: what follows from a dataset's length by literals, ranges, slices and arithmetic."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardfix.proof.recipes.choices import text_of
from shardfix.proof.recipes.regime import call, name
from shardfix.proof.recipes.settings import default, literal
from shardfix.proof.stop import DEPTH, Stop

if TYPE_CHECKING:
    from shardfix.proof.recipes.slice import Slicer

_LARGEST_INDEX = 64
_WRITES = frozenset({"append", "extend", "insert", "sort", "reverse", "pop", "remove", "clear", "shuffle"})


@dataclass(frozen=True, eq=False)
class Indices:
    """Translates indices and lengths."""

    slicer: Slicer

    def index(self, node: ast.expr, depth: int = 0) -> ast.expr:
        """Index lists and lengths: what follows from a dataset's length by literals, ranges, slices and arithmetic."""
        m = self.slicer.module
        if depth > DEPTH:
            raise self.slicer.needs_project("the indices", node)
        value = literal(node)
        if value is None or (isinstance(value, (int, float)) and abs(value) <= _LARGEST_INDEX):
            return ast.Constant(value)
        if isinstance(node, ast.BinOp) and isinstance(
            node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)
        ):
            return ast.BinOp(self.index(node.left, depth + 1), node.op, self.index(node.right, depth + 1))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return ast.UnaryOp(ast.USub(), self.index(node.operand, depth + 1))
        if isinstance(node, (ast.List, ast.Tuple)):
            if any(type(literal(e)) is int for e in node.elts):
                raise self.fixed(node)
            return ast.List([self.index(e, depth + 1) for e in node.elts], ast.Load())
        if isinstance(node, ast.Subscript):
            base = self.index(node.value, depth + 1)
            cut = node.slice
            if isinstance(cut, ast.Slice):
                return ast.Subscript(base, self.cut(cut, depth + 1), ast.Load())
            return ast.Subscript(base, self.index(cut, depth + 1), ast.Load())
        launched = self.slicer.launched(node)
        if launched is not None:
            return launched
        if isinstance(node, ast.Call):
            return self.index_call(node, depth)
        if isinstance(node, ast.ListComp):
            return self.every_nth(node, depth)
        if isinstance(node, (ast.Name, ast.Attribute)):
            self.unwritten(node)

            made = {d.value: d for d in self.slicer.definitions(node)}

            def follows(value: ast.expr) -> ast.expr:
                if type(literal(value)) is int:
                    raise self.fixed(value)
                found = self.index(value, depth + 1)
                return self.slicer.drawn.mixed(made[value], found, node, depth + 1) if value in made else found

            bound = self.slicer.need(node, follows, depth + 1)
            if bound is not None:
                return bound
            usual = default(m, node)
            if isinstance(usual, (int, float)) and abs(usual) <= 1:
                self.slicer.choices.stand_ins[text_of(node)] = str(usual)
                return ast.Constant(usual)
        raise self.slicer.needs_project("the indices", node)

    def index_call(self, node: ast.Call, depth: int) -> ast.expr:
        callee = self.slicer.module.callee(node)
        drawn = self.slicer.drawn.permutation(node, depth)
        if drawn is not None:
            return drawn
        if node.keywords:
            raise self.slicer.needs_project("the indices", node)
        counts = ("builtins.range", "numpy.arange", "torch.arange")
        if not callee.isdisjoint(counts) and type(literal(node.args[min(1, len(node.args) - 1)])) is int:
            raise self.fixed(node)
        if "builtins.len" in callee and len(node.args) == 1:
            data = self.slicer.datasets.dataset(node.args[0], depth + 1)
            own = self.slicer.attempt(lambda: self.slicer.datasets.own_dataset(depth + 1))
            if own is not None and ast.dump(data) == ast.dump(own):
                return call(name("len"), data)
            inner = self.slicer.attempt(lambda: self.index(node.args[0], depth + 1))
            return call(name("len"), inner if inner is not None else data)
        for function in ("range", "list", "tuple", "int", "float", "min", "max", "round", "sum", "sorted"):
            if f"builtins.{function}" in callee:
                return call(name(function), *(self.index(a, depth + 1) for a in node.args))
        if "numpy.floor" in callee and len(node.args) == 1:
            return ast.BinOp(self.index(node.args[0], depth + 1), ast.FloorDiv(), ast.Constant(1))
        if not callee.isdisjoint(("numpy.arange", "torch.arange")):
            return call(name("list"), call(name("range"), *(self.index(a, depth + 1) for a in node.args)))
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr == "tolist" and not node.args:
            return self.index(func.value, depth + 1)
        made = self.slicer.functions.returned(node, lambda v: self.index(v, depth + 1), depth + 1)
        if made is not None:
            return made
        if self.slicer.imported is not None:
            return self.slicer.imported.value(node, depth + 1)
        raise self.slicer.needs_project("the indices", node)

    def every_nth(self, node: ast.ListComp, depth: int) -> ast.expr:
        """``[i for i in range(n) if i % world == rank]`` as the slice that it is."""
        (loop, *more) = node.generators
        plain = isinstance(loop.target, ast.Name) and isinstance(node.elt, ast.Name) and node.elt.id == loop.target.id
        counted = self.slicer.module.is_call(loop.iter, "builtins.range") and isinstance(loop.iter, ast.Call)
        if not plain or more or len(loop.ifs) > 1 or not counted or len(getattr(loop.iter, "args", ())) != 1:
            raise self.slicer.needs_project("the indices", node)
        whole = call(name("list"), self.index(loop.iter, depth + 1))
        for test in loop.ifs:
            left = test.left if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq) else None
            if not (
                isinstance(test, ast.Compare)
                and isinstance(left, ast.BinOp)
                and isinstance(left.op, ast.Mod)
                and isinstance(left.left, ast.Name)
                and left.left.id == node.elt.id  # type: ignore[attr-defined]
            ):
                raise self.slicer.needs_project("the indices", node)
            ends = [
                self.slicer.quantities.process(v, "the share", depth + 1) for v in (test.comparators[0], left.right)
            ]
            return ast.Subscript(whole, ast.Slice(ends[0], None, ends[1]), ast.Load())
        return whole

    def cut(self, node: ast.expr, depth: int) -> ast.expr:
        assert isinstance(node, ast.Slice)
        parts = [self.index(p, depth) if p is not None else None for p in (node.lower, node.upper, node.step)]
        return ast.Slice(*parts)

    def fixed(self, node: ast.expr) -> Stop:
        """Absolute indices and lengths fit the program's own dataset only, not the sizes that a proof is run at."""
        return self.slicer.stopped(f"`{text_of(node)}` does not follow from the dataset's length", node)

    def unwritten(self, node: ast.expr) -> None:
        """A list that is shuffled or written to between its making and its use is not what its making says."""
        for d in self.slicer.definitions(node):
            for reader in self.slicer.module.bindings.readers(d):
                parent = self.slicer.module.parents[reader]
                if isinstance(parent, ast.Attribute) and parent.attr in _WRITES:
                    raise self.slicer.stopped(f"`{text_of(node)}` is changed by `.{parent.attr}()`", parent)
                if isinstance(parent, ast.Subscript) and not isinstance(parent.ctx, ast.Load):
                    raise self.slicer.stopped(f"`{text_of(node)}` is written to", parent)
