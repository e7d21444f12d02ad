"""Numbers in a recipe: ranks and sizes exactly, seeds by what they depend on, batch sizes made small."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardfix.proof.recipes.choices import text_of
from shardfix.proof.recipes.groups import of_mesh
from shardfix.proof.recipes.regime import call, name, value_of
from shardfix.proof.recipes.settings import default, exact, literal
from shardfix.proof.stop import DEPTH

if TYPE_CHECKING:
    from shardfix.proof.recipes.slice import Slicer


@dataclass(frozen=True, eq=False)
class Quantities:
    """Translates numbers."""

    slicer: Slicer

    def process(self, node: ast.expr, what: str, depth: int) -> ast.expr:
        """A number of the launch, exactly: a rank, the world size, arithmetic on them."""
        if depth <= DEPTH:
            if literal(node) is None or type(literal(node)) is int:
                return ast.Constant(literal(node))  # type: ignore[arg-type]
            value = of_mesh(self.slicer, node, depth) or self.slicer.launched(node)
            if value is not None:
                return value
            if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)):
                left, right = self.process(node.left, what, depth + 1), self.process(node.right, what, depth + 1)
                return ast.BinOp(left, node.op, right)
            if isinstance(node, ast.IfExp):
                test = self.slicer.conditions.boolean(node.test, depth + 1)
                parts = [self.process(part, what, depth + 1) for part in (node.body, node.orelse)]
                return ast.IfExp(test, *parts)
            if isinstance(node, ast.Call) and "builtins.int" in self.slicer.module.callee(node) and len(node.args) == 1:
                return call(name("int"), self.process(node.args[0], what, depth + 1))
            if isinstance(node, (ast.Name, ast.Attribute)):
                bound = self.slicer.need(node, lambda v: self.process(v, what, depth + 1), depth + 1)
                if bound is not None:
                    return bound
            known = exact(self.slicer.module, node)
            if type(known) is int:
                return ast.Constant(known)
            if isinstance(node, ast.Call):
                made = self.slicer.functions.returned(node, lambda v: self.process(v, what, depth + 1), depth + 1)
                if made is not None:
                    return made
            if self.slicer.imported is not None:
                return self.slicer.imported.value(node, depth + 1)
        raise self.slicer.stopped(f"{what} `{text_of(node)}` is not seen to be a number of the process group", node)

    def seed(self, node: ast.expr, depth: int) -> ast.expr:
        """A seed: its dependence on the rank is kept, what is not known is a number alike on every rank."""
        if type(literal(node)) is int:
            return ast.Constant(literal(node))  # type: ignore[arg-type]
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)):
            return ast.BinOp(self.seed(node.left, depth + 1), node.op, self.seed(node.right, depth + 1))
        if isinstance(node, ast.Call) and "builtins.int" in self.slicer.module.callee(node) and len(node.args) == 1:
            return self.seed(node.args[0], depth + 1)
        value = self.slicer.launched(node)
        if value is not None:
            return value
        if isinstance(node, (ast.Name, ast.Attribute)) and depth <= DEPTH:
            bound = self.slicer.attempt(lambda: self.slicer.need(node, lambda v: self.seed(v, depth + 1), depth + 1))
            if bound is not None:
                return bound
        if any(value_of(self.slicer.module, n) is not None for n in ast.walk(node) if isinstance(n, ast.expr)):
            raise self.slicer.needs_project("the seed", node)
        return ast.Constant(self.slicer.choices.number(text_of(node), default(self.slicer.module, node), 0))

    def batch(self, node: ast.expr, depth: int = 0) -> ast.expr:
        """A batch size: literals and defaults made small, other sizes staying other sizes."""
        m = self.slicer.module
        value = literal(node)
        if value is None:
            return ast.Constant(None)
        if type(value) is int:
            return ast.Constant(self.slicer.choices.batch(value, str(value)))
        if depth <= DEPTH:
            launched = self.slicer.launched(node)
            if launched is not None:
                return launched
            known = exact(m, node)
            if type(known) is int and known > 0:
                return ast.Constant(self.slicer.choices.batch(known, str(known)))
            if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.FloorDiv, ast.Div)):
                left, right = self.batch(node.left, depth + 1), self.factor(node.right, depth + 1)
                if isinstance(node.op, ast.Mult):
                    return ast.BinOp(left, ast.Mult(), right)
                return call(name("max"), ast.Constant(1), ast.BinOp(left, ast.FloorDiv(), right))
            if isinstance(node, ast.Call) and not m.callee(node).isdisjoint(("builtins.int",)) and len(node.args) == 1:
                return call(name("int"), self.batch(node.args[0], depth + 1))
            if isinstance(node, (ast.Name, ast.Attribute)):
                found = self.slicer.definitions(node)
                if len(found) == 1:
                    (d,) = found
                    if d.kind == "assign" and d.value is not None and d.index is None and d not in self.slicer.pending:
                        return self.batch(d.value, depth + 1)
                    if d.kind == "parameter":
                        values = [v for v, _ in self.slicer.given(d)]
                        if values and len({ast.dump(v) for v in values}) == 1:
                            return self.batch(values[0], depth + 1)
        usual = default(m, node)
        if type(usual) is int and usual > 0:
            return ast.Constant(self.slicer.choices.batch(usual, text_of(node)))
        return ast.Constant(self.slicer.choices.number(text_of(node), ..., 12 if self.slicer.choices.split else 2))

    def factor(self, node: ast.expr, depth: int) -> ast.expr:
        """What a batch size is multiplied or divided by."""
        launched = self.slicer.launched(node)
        if launched is not None:
            return launched
        value = literal(node)
        if type(value) is int and 0 < value <= 4:
            return ast.Constant(value)
        if isinstance(node, ast.Call) and "builtins.max" in self.slicer.module.callee(node):
            return call(name("max"), *(self.factor(a, depth + 1) for a in node.args))
        if isinstance(node, (ast.Name, ast.Attribute)) and depth <= DEPTH:
            found = self.slicer.definitions(node)
            if len(found) == 1:
                (d,) = found
                if d.kind == "assign" and d.value is not None and d.index is None:
                    return self.factor(d.value, depth + 1)
        return ast.Constant(self.slicer.choices.number(text_of(node), ..., 1))
