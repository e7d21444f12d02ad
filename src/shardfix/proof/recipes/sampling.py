"""Samplers and generators in a recipe: torch's own ones, with the arguments that decide what is read."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.names import SAMPLER_KINDS, last_name
from shardfix.proof.recipes.choices import text_of
from shardfix.proof.recipes.regime import call, dotted, name
from shardfix.proof.recipes.settings import literal
from shardfix.proof.stop import DEPTH

if TYPE_CHECKING:
    from shardfix.proof.recipes.slice import Slicer


@dataclass(frozen=True, eq=False)
class Sampling:
    """Translates samplers."""

    slicer: Slicer

    def sampler(self, node: ast.expr, depth: int = 0) -> ast.expr:
        """A sampler: torch's own ones, a condition between them, a name for one."""
        if depth > DEPTH:
            raise self.slicer.needs_project("the sampler", node)
        if literal(node) is None:
            return ast.Constant(None)
        if isinstance(node, ast.IfExp):
            if text_of(node.test) in self.slicer.assumed:
                return self.sampler(node.body if self.slicer.assumed[text_of(node.test)] else node.orelse, depth + 1)
            test = self.slicer.conditions.boolean(node.test, depth + 1)
            return ast.IfExp(test, self.sampler(node.body, depth + 1), self.sampler(node.orelse, depth + 1))
        if isinstance(node, ast.Call):
            for qualified in sorted(self.slicer.module.callee(node)):
                if qualified in SAMPLER_KINDS:
                    return self.construction(node, qualified, depth)
            if last_name(node.func) in ("sanitize",) and node.args:
                return self.sampler(node.args[0], depth + 1)
            made = self.slicer.functions.returned(node, lambda v: self.sampler(v, depth + 1), depth + 1)
            if made is not None:
                return made
            if self.slicer.imported is not None:
                return self.slicer.imported.value(node, depth + 1)
            raise self.slicer.needs_project("the sampler", node)
        if isinstance(node, (ast.Name, ast.Attribute)):
            bound = self.slicer.need(node, lambda v: self.sampler(v, depth + 1), depth + 1)
            if bound is not None:
                return bound
            for d in self.slicer.definitions(node):
                if d.kind == "parameter":
                    n = len(self.slicer.module.callers(d.scope))
                    calls = "no call in this file shows it" if not n else f"{n} calls give it different ones"
                    raise self.slicer.stopped(f"the sampler `{text_of(node)}` comes from the caller: {calls}", node)
                if d.kind == "loop" or not self.slicer._followable(d, node):
                    raise self.slicer.stopped(f"the sampler `{text_of(node)}` is made in a loop or a handler", d.node)
        raise self.slicer.needs_project("the sampler", node)

    def construction(self, node: ast.Call, qualified: str, depth: int) -> ast.expr:
        """A torch sampler with its arguments by name."""
        arguments = self.slicer.module.arguments(node, qualified)
        self.slicer.see_all(arguments, node)
        keywords: dict[str, ast.expr] = {}
        weights = arguments.value("weights")
        for parameter, argument in arguments.bound.items():
            value = argument.value
            if parameter in ("dataset", "data_source"):
                keywords[parameter] = self.slicer.datasets.dataset(value, depth + 1)
            elif parameter in ("num_replicas", "rank"):
                keywords[parameter] = self.slicer.quantities.process(value, f"`{parameter}=`", depth + 1)
            elif parameter == "seed":
                keywords[parameter] = self.slicer.quantities.seed(value, depth + 1)
            elif parameter in ("shuffle", "drop_last", "replacement"):
                keywords[parameter] = self.slicer.conditions.boolean(value, depth + 1)
            elif parameter == "sampler":
                keywords[parameter] = self.sampler(value, depth + 1)
            elif parameter == "batch_size":
                keywords[parameter] = self.slicer.quantities.batch(value, depth + 1)
            elif parameter == "indices":
                keywords[parameter] = self.slicer.indices.index(value, depth + 1)
            elif parameter == "generator":
                made = self.generator(value, depth + 1)
                if made is not None:
                    keywords[parameter] = made
            elif parameter == "weights":
                # any weights show whether the draw is the ranks' common one
                size = call(name("len"), self.slicer.datasets.own_dataset(depth + 1))
                keywords[parameter] = ast.BinOp(ast.List([ast.Constant(1.0)], ast.Load()), ast.Mult(), size)
                self.slicer.choices.stand_ins[text_of(value)] = "equal weights"
            elif parameter == "num_samples":
                keywords[parameter] = self.draws(value, weights, depth + 1)
            else:
                raise self.slicer.stopped(f"the argument `{parameter}=` of {qualified} is not known here", value)
        return call(dotted(qualified), **keywords)

    def draws(self, node: ast.expr, weights: ast.expr | None, depth: int) -> ast.expr:
        """``num_samples``: what the dataset's size gives, else a small number that stands for it."""
        if literal(node) is None:
            return ast.Constant(None)
        counted = node.args[0] if isinstance(node, ast.Call) and last_name(node.func) == "len" and node.args else None
        if counted is not None and weights is not None and text_of(counted) == text_of(weights):
            return call(name("len"), self.slicer.datasets.own_dataset(depth))
        found = self.slicer.attempt(lambda: self.slicer.indices.index(node, depth))
        if found is not None and any(isinstance(n, ast.Name) and n.id == "len" for n in ast.walk(found)):
            return found
        value = literal(node)
        return ast.Constant(self.slicer.choices.number(text_of(node), value, 6))

    def generator(self, node: ast.expr, depth: int) -> ast.expr | None:
        """``torch.Generator().manual_seed(n)``, in one expression or two statements; None for None."""
        if literal(node) is None:
            return None
        if isinstance(node, ast.Call):
            if "torch.Generator" in self.slicer.module.callee(node):
                return call(dotted("torch.Generator"))
            func = node.func
            if isinstance(func, ast.Attribute) and func.attr == "manual_seed" and len(node.args) == 1:
                made = self.generator(func.value, depth + 1)
                if isinstance(made, ast.Call):
                    return call(
                        ast.Attribute(made, "manual_seed", ast.Load()),
                        self.slicer.quantities.seed(node.args[0], depth + 1),
                    )
        if isinstance(node, ast.Name):
            found = self.slicer.definitions(node)
            if len(found) == 1:
                (d,) = found
                seeded = self.seeded(d, depth)
                if d.value is not None and d.index is None and d.kind == "assign" and d not in self.slicer.pending:

                    def made_once(value: ast.expr) -> ast.expr:
                        made = self.generator(value, depth + 1)
                        if made is None:
                            raise self.slicer.needs_project("the generator", value)
                        return call(ast.Attribute(made, "manual_seed", ast.Load()), seeded) if seeded else made

                    bound = self.slicer.need(node, made_once, depth + 1)
                    if bound is not None:
                        return bound
        raise self.slicer.needs_project("the generator", node)

    def seeded(self, d: Definition, depth: int) -> ast.expr | None:
        """The seed that ``g.manual_seed(n)`` gives a generator made before."""
        for reader in self.slicer.module.bindings.readers(d):
            parent = self.slicer.module.parents[reader]
            if isinstance(parent, ast.Attribute) and isinstance(self.slicer.module.parents[parent], ast.Call):
                made = self.slicer.module.parents[parent]
                assert isinstance(made, ast.Call)
                if parent.attr != "manual_seed" or len(made.args) != 1:
                    raise self.slicer.needs_project("the state of the generator", made)
                return self.slicer.quantities.seed(made.args[0], depth + 1)
        return None
