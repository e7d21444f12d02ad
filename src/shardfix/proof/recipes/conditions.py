"""Conditions in a recipe: regime values are asked of the launch, samplers of the construction, the rest is unknown."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.names import DATA_LOADER, SAMPLER_KINDS, last_name
from shardfix.analysis.loaders.samplers import arms
from shardfix.analysis.programs.processes import distributed_test
from shardfix.proof.recipes.choices import text_of
from shardfix.proof.recipes.regime import call, comparison, dotted, name, value_of
from shardfix.proof.recipes.settings import exact, literal
from shardfix.proof.stop import DEPTH

if TYPE_CHECKING:
    from shardfix.proof.recipes.slice import Slicer

_ISINSTANCE = frozenset({*SAMPLER_KINDS, DATA_LOADER, "torch.utils.data.IterableDataset"})


def _plain(d: Definition) -> bool:
    return d.kind == "assign" and d.index is None and not isinstance(d.statement, ast.AugAssign)


@dataclass(frozen=True, eq=False)
class Conditions:
    """Translates conditions."""

    slicer: Slicer

    def boolean(self, node: ast.expr, depth: int = 0) -> ast.expr:
        """A condition: literals and regime values as they are, anything else an unknown that is tried both ways."""
        if depth > DEPTH:
            return self.unknown(node)
        if isinstance(node, ast.Constant):
            return ast.Constant(node.value if isinstance(node.value, (bool, int)) else bool(node.value))
        if text_of(node) in self.slicer.assumed:
            return ast.Constant(self.slicer.assumed[text_of(node)])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return ast.UnaryOp(ast.Not(), self.boolean(node.operand, depth + 1))
        if isinstance(node, ast.BoolOp):
            return ast.BoolOp(node.op, [self.boolean(v, depth + 1) for v in node.values])
        if isinstance(node, ast.Compare):
            return self.compare(node, depth)
        if isinstance(node, ast.IfExp):
            parts = (self.boolean(part, depth + 1) for part in (node.test, node.body, node.orelse))
            return ast.IfExp(*parts)
        value = self.slicer.launched(node)
        if value is not None:
            return value
        if isinstance(node, ast.Call) and not isinstance(exact(self.slicer.module, node), bool):
            return self.asked(node, depth)
        if isinstance(node, (ast.Name, ast.Attribute)):
            subject = self.subject(node, depth)
            if subject is not None:
                return subject
            bound = self.slicer.attempt(lambda: self.slicer.need(node, lambda v: self.boolean(v, depth + 1), depth + 1))
            if bound is not None:
                return bound
            (d, *more) = [*self.slicer.definitions(node), None]
            if self.slicer.closed and d is not None and more == [None] and _plain(d) and d.value is not None:
                return self.boolean(d.value, depth + 1)  # what is built is done: its value stands in its place
        known = exact(self.slicer.module, node)
        if known is None or isinstance(known, (bool, int)):
            return ast.Constant(bool(known))
        return self.unknown(node)

    def unknown(self, node: ast.expr) -> ast.expr:
        self.slicer.unknowns.add(text_of(node))
        return ast.Subscript(name("UNKNOWN"), ast.Constant(text_of(node)), ast.Load())

    def compare(self, node: ast.Compare, depth: int) -> ast.expr:
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)):
            right = node.comparators[0]
            if literal(right) is None and isinstance(node.left, (ast.Name, ast.Attribute)):
                subject = self.subject(node.left, depth)
                if subject is not None:
                    return ast.Compare(subject, node.ops, [ast.Constant(None)])
            if isinstance(literal(right), bool) and value_of(self.slicer.module, node.left) is None:
                op = ast.Eq() if isinstance(node.ops[0], (ast.Is, ast.Eq)) else ast.NotEq()
                return ast.Compare(self.boolean(node.left, depth + 1), [op], [ast.Constant(literal(right))])  # type: ignore[arg-type]
        known = [exact(self.slicer.module, side) for side in (node.left, *node.comparators)]
        if len(known) == 2 and ... not in known and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
            return ast.Constant((known[0] == known[1]) is isinstance(node.ops[0], ast.Eq))
        found = comparison(self.slicer.module, node)
        if found is not None:
            if any(isinstance(n, ast.Name) and n.id == "accelerator" for n in ast.walk(found)):
                self.slicer.uses_accelerator = True
            return found
        return self.unknown(node)

    def asked(self, node: ast.Call, depth: int) -> ast.expr:
        """``isinstance(sampler, DistributedSampler)``, ``hasattr(sampler, "set_epoch")``, ``bool(x)``."""
        function = last_name(node.func)
        if function == "bool" and len(node.args) == 1:
            return self.boolean(node.args[0], depth + 1)
        if function == "isinstance" and len(node.args) == 2:
            subject = self.subject(node.args[0], depth)
            classes = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else [node.args[1]]
            known = [sorted(self.slicer.module.qualify(c) & _ISINSTANCE) for c in classes]
            if subject is not None and all(known):
                kinds: list[ast.expr] = [dotted(k[0]) for k in known]
                return call(name("isinstance"), subject, kinds[0] if len(kinds) == 1 else ast.Tuple(kinds, ast.Load()))
        if function == "hasattr" and len(node.args) == 2 and literal(node.args[1]) in ("set_epoch", "sampler"):
            subject = self.subject(node.args[0], depth)
            if subject is not None:
                return call(name("hasattr"), subject, ast.Constant(literal(node.args[1])))  # type: ignore[arg-type]
        return self.unknown(node)

    def subject(self, node: ast.expr, depth: int) -> ast.expr | None:
        """What a test asks about: the loader or a sampler of the construction."""
        known = self.slicer.alias(node)
        if known is not None:
            return known
        if isinstance(node, (ast.Name, ast.Attribute)) and self.is_sampler(node):
            found = self.slicer.attempt(lambda: self.slicer.sampling.sampler(node, depth + 1))
            return found if found is not None else self.of_another(node, depth)
        return None

    def of_another(self, node: ast.expr, depth: int) -> ast.expr | None:
        """A sampler that is no part of the recipe, by all that is asked of one: whether it is there, which its own
        condition decides."""
        found = arms(self.slicer.module, node)
        dealt = [a for a in found if a.kind == "distributed"]
        if len(dealt) != 1 or {a.kind for a in found} != {"none", "distributed"}:
            return None
        test, when = dealt[0].test, dealt[0].when
        for d in dealt[0].definitions if test is None else ():
            for outer in self.slicer.module.around(d.statement):
                if isinstance(outer, ast.If) and test is None:
                    test, when = outer.test, d.statement in outer.body
        if test is None or distributed_test(test) is None:
            return None
        there = self.boolean(test, depth + 1)
        self.slicer.choices.stand_ins[text_of(node)] = f"a sampler where `{text_of(test)}` is {when}, else None"
        return ast.IfExp(there if when else ast.UnaryOp(ast.Not(), there), ast.Constant(True), ast.Constant(None))

    def is_sampler(self, node: ast.expr) -> bool:
        """Whether a name is given a sampler of torch's, or None where one is wanted."""
        found = arms(self.slicer.module, node)
        kinds = {a.kind for a in found}
        for d in (a.definitions[-1] for a in found if a.kind == "parameter"):
            kinds |= {inner.kind for value, _ in self.slicer.given(d) for inner in arms(self.slicer.module, value)}
        return bool(kinds - {"custom", "unknown", "parameter"}) and not (
            kinds == {"none"} and "sampler" not in text_of(node).lower()
        )
