"""The sums of a loop by stand-ins that a batch's indices decide, where it can't be run on rows as it is written."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from shardfix.analysis.code.names import last_name
from shardfix.analysis.loops.accumulation import root_of
from shardfix.analysis.metrics.gathering import Write
from shardfix.proof.metrics.adding import changed_by
from shardfix.proof.metrics.granted import granted
from shardfix.proof.metrics.loop import Loop, text_of_statement
from shardfix.proof.recipes.choices import text_of
from shardfix.proof.recipes.regime import call, name
from shardfix.proof.recipes.slice import assign

_JOINS = frozenset({"cat", "concat", "concatenate", "vstack", "append"})
_NUMBERS = frozenset({"item", "tolist", "size", "numel", "len", "int", "float", "sum", "round"})


def by_stand_ins(loop: Loop) -> list[ast.stmt]:
    """The body of the loop: nothing but what it adds.

    Raises:
        Stop: how something adds is not followed.
    """
    body = [made for write in loop.writes for made in _StandingIn(loop).added(write)]
    loop.known.assumed += granted(loop.module, loop.node, loop.values, loop.writes)
    return body


@dataclass
class _StandingIn:
    loop: Loop
    loose: bool = False  # whether what is added need not be a sum, as is told elsewhere

    def added(self, write: Write) -> list[ast.stmt]:
        """What one statement adds, by stand-ins."""
        s = write.statement
        self.loose = write.kind == "opaque" or bool(write.why)
        tests = self._tests(s)
        sample = any(isinstance(t, ast.For) for t in tests)
        target = self._target(write, sample)
        if isinstance(s, ast.Assign):
            made = [self._joined(s, self.loop.known.tracked[write.name], sample)]
        else:
            made = changed_by(self.loop, write, lambda node: self.part(node, sample), target)
        for test in tests:
            if isinstance(test, ast.For):
                made = [ast.For(ast.Name("SAMPLE", ast.Store()), name("BATCH"), made, [])]
            else:
                chosen = call(name("OF"), ast.Constant(ast.unparse(test)), name("SAMPLE"))
                made = [ast.If(ast.BinOp(chosen, ast.Mod(), ast.Constant(2)), made, [])]
        return made

    def _tests(self, statement: ast.stmt) -> list[ast.For | ast.expr]:
        """The loop over samples around a statement and the conditions in that, from within outwards."""
        found: list[ast.For | ast.expr] = []
        conditions: list[ast.For | ast.expr] = []
        previous: ast.AST = statement
        for outer in self.loop.module.around(statement):
            if outer is self.loop.node:
                return found
            if isinstance(outer, ast.If):
                test = outer.test if previous in outer.body else ast.UnaryOp(ast.Not(), outer.test)
                conditions.append(test)
            elif isinstance(outer, ast.For):
                if self.loop.values.iterated(outer.iter).kind not in ("sample", "output") or found:
                    raise self.loop.known.stop("a loop in the loop over the batches is not followed", outer)
                found = [*conditions, outer]
                conditions = []
            elif isinstance(outer, (ast.While, ast.Try)):
                raise self.loop.known.stop("a loop in the loop over the batches is not followed", outer)
            previous = outer
        return found

    def _target(self, write: Write, sample: bool) -> ast.Name | ast.Subscript:
        """What is added to: a name, or an item of it."""
        target = write.target
        variable = self.loop.known.tracked[write.name]
        if not isinstance(target, ast.Subscript):
            return ast.Name(variable, ast.Store())
        if root_of(target.value) != ast.unparse(target.value):
            raise self.loop.known.stop("an item of an item is not followed", target)
        if self.loop.values.of(target.slice).kind == "constant":
            key = self.loop.outside.value(target.slice)
        elif sample:
            # whatever it holds, two keys are there
            key = ast.BinOp(
                call(name("OF"), ast.Constant(ast.unparse(target.slice)), name("SAMPLE")), ast.Mod(), ast.Constant(2)
            )
        else:
            raise self.loop.known.stop(f"which item of `{write.name}` is added to is not followed", target)
        return ast.Subscript(name(variable), key, ast.Store())

    def _joined(self, s: ast.Assign, variable: str, sample: bool) -> ast.stmt:
        """``x = x + e``, ``x = torch.cat((x, e))``, ``x = e if x is None else torch.cat((x, e))``."""
        own, value = ast.unparse(s.targets[0]), s.value
        if isinstance(value, ast.IfExp):
            value = value.orelse if isinstance(value.orelse, ast.Call) else value.body
        if isinstance(value, ast.BinOp):
            rest: ast.expr = value
            chain: list[tuple[ast.operator, ast.expr]] = []
            while isinstance(rest, ast.BinOp):
                chain.insert(0, (rest.op, rest.right))
                rest = rest.left
            if ast.unparse(rest) == own:
                total: ast.expr = name(variable)
                for op, part in chain:
                    total = ast.BinOp(total, op, self.part(part, sample))
                return assign(variable, total)
        if isinstance(value, ast.Call) and last_name(value.func) in _JOINS and value.args:
            parts = value.args[0].elts if isinstance(value.args[0], (ast.Tuple, ast.List)) else value.args
            added = [p for p in parts if ast.unparse(p) != own]
            if len(added) == 1:
                return assign(variable, call(name("JOIN"), name(variable), self.part(added[0], sample)))
        raise self.loop.known.stop(f"how `{text_of_statement(s)}` adds is not followed", s)

    def part(self, node: ast.expr, sample: bool) -> ast.expr:
        """An expression of the loop, by stand-ins."""
        value = self.loop.values.of(node)
        kind = value.kind
        if kind == "constant":
            return self.loop.outside.value(node)
        if isinstance(node, ast.BinOp) and kind != "unknown":
            return ast.BinOp(self.part(node.left, sample), node.op, self.part(node.right, sample))
        if isinstance(node, ast.UnaryOp) and kind in ("sum", "count", "mean"):
            return ast.UnaryOp(node.op, self.part(node.operand, sample))
        if isinstance(node, (ast.Tuple, ast.List)) and kind == "items":
            return type(node)([self.part(e, sample) for e in node.elts], ast.Load())
        words = text_of(node)
        text = ast.Constant(words)
        if kind == "count":
            return self._noted(node, "the number of samples", call(name("COUNT"), name("BATCH")))
        if kind == "sum":
            made = call(name("SUM" if "loss" in words.lower() else "HITS"), text, name("BATCH"))
            return self._noted(node, "a sum over the samples", self._as_given(node, made))
        if kind == "mean":
            return self._noted(
                node, "a mean over the samples", self._as_given(node, call(name("MEAN"), text, name("BATCH")))
            )
        if kind in ("sample", "output", "samples") and sample:
            return self._noted(node, "a number for the sample", call(name("OF"), text, name("SAMPLE")))
        if kind in ("samples", "output", "examples"):
            rows = call(name("ROWS"), text, name("BATCH"))
            return self._noted(node, "a number for each sample", self._as_given(node, rows))
        if self.loose and not sample:
            taken = "taken for a mean over the samples"
            return self._noted(node, taken, self._as_given(node, call(name("MEAN"), text, name("BATCH"))))
        raise self.loop.known.stop(f"`{text_of(node)}` is not seen to be a sum, a mean or a value of samples", node)

    def _noted(self, node: ast.expr, what: str, made: ast.expr) -> ast.expr:
        self.loop.known.stand_ins[text_of(node)] = what
        return made

    def _as_given(self, node: ast.expr, made: ast.expr) -> ast.expr:
        """A number or list where the expression gives one, else a tensor or array of it."""
        type_ = self._type(node)
        return made if not type_ else call(name(type_), made)

    def _type(self, node: ast.expr, depth: int = 0) -> str:
        if isinstance(node, (ast.List, ast.ListComp)):
            return ""
        if isinstance(node, ast.Call):
            function = last_name(node.func)
            if function in ("numpy", "asarray", "array"):
                return "ARRAY"
            return "" if function in _NUMBERS and not self._torch_sum(node) else "TENSOR"
        if isinstance(node, ast.Subscript) and "shape" in ast.unparse(node.value):
            return ""
        if isinstance(node, ast.Name) and depth < 4:
            found = [
                d
                for d in self.loop.module.bindings.reaching(node)
                if d.node in self.loop.inside and d.value is not None
            ]
            types = {
                self._type(d.value, depth + 1) for d in found if d.kind == "assign" and d.index is None and d.value
            }
            return types.pop() if len(types) == 1 else "TENSOR"
        return "TENSOR"

    def _torch_sum(self, node: ast.Call) -> bool:
        """``(a == b).sum()``, which is a tensor, not Python's ``sum``."""
        return isinstance(node.func, ast.Attribute) and node.func.attr == "sum"
