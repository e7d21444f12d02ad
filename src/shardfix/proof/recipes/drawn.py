"""Random draws in a recipe: permutations and shuffled lists, by the seed that each rank would use."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.loaders.random_calls import Family
from shardfix.proof.recipes.choices import text_of
from shardfix.proof.recipes.draws import Draw, changes, draw_of, seeding
from shardfix.proof.recipes.regime import call, dotted, name
from shardfix.proof.recipes.settings import literal

if TYPE_CHECKING:
    from shardfix.proof.recipes.slice import Slicer

_PERMUTATIONS: dict[str, Family] = {
    "numpy.random.permutation": "numpy",
    "torch.randperm": "torch",
    "random.sample": "random",
}
_SEEDED = frozenset({"numpy.random.RandomState", "numpy.random.default_rng", "random.Random"})


@dataclass(frozen=True, eq=False)
class Drawn:
    """Translates random draws."""

    slicer: Slicer

    def alike(self, draw: Draw) -> ast.expr:
        """The seed of a draw from a global generator: one for all ranks, or the rank where the program seeds by it."""
        how = seeding(self.slicer.module, draw.family)
        text = text_of(draw.call)
        if how == "by rank":
            self.slicer.choices.stand_ins[text] = "drawn by each rank's own seed"
            return name("RANK")
        if not how:
            library = {"random": "random", "numpy": "numpy.random", "torch": "torch"}[draw.family]
            reason = f"`{text}` draws from {library}'s global state, which is not seen to be seeded alike on every rank"
            raise self.slicer.stopped(reason, draw.call)
        self.slicer.choices.stand_ins[text] = "one draw, alike on every rank"
        return ast.Constant(0)

    def permutation(self, node: ast.Call, depth: int) -> ast.expr | None:
        """``np.random.permutation(n)``, ``torch.randperm(n)``, ``random.sample(xs, k)``, those of a generator;
        None for any other call."""
        m = self.slicer.module
        family = next((_PERMUTATIONS[n] for n in m.callee(node) if n in _PERMUTATIONS), None)
        seed = self.own_seed(node, depth)
        if (family is None and seed is None) or not node.args:
            return None
        of = self.slicer.indices.index(node.args[0], depth + 1)
        if not _is_list(of):
            of = call(name("range"), of)
        generator = next((k.value for k in node.keywords if k.arg == "generator"), None)
        if generator is not None and literal(generator) is not None:
            made = self.slicer.sampling.generator(generator, depth + 1)
            if made is None or "torch.randperm" not in m.callee(node):
                return None
            drawn = call(dotted("torch.randperm"), self.slicer.indices.index(node.args[0], depth + 1), generator=made)
            return call(ast.Attribute(drawn, "tolist", ast.Load()))
        if seed is None:
            draw = draw_of(m, node)
            if draw is None:
                return None
            seed = self.alike(draw)
        mixed = call(name("SHUFFLED"), of, seed)
        if family == "random" and len(node.args) == 2:
            end = self.slicer.indices.index(node.args[1], depth + 1)
            return ast.Subscript(mixed, ast.Slice(None, end, None), ast.Load())
        return mixed

    def own_seed(self, node: ast.Call, depth: int) -> ast.expr | None:
        """The seed of the generator object whose method a call is: ``np.random.RandomState(0)``."""
        func = node.func
        if not isinstance(func, ast.Attribute) or func.attr not in ("permutation", "shuffle", "sample"):
            return None
        made = [func.value] if isinstance(func.value, ast.Call) else []
        if not made:
            made = [d.value for d in self.slicer.definitions(func.value) if isinstance(d.value, ast.Call)]
        if len(made) == 1 and isinstance(made[0], ast.Call) and self.slicer.module.callee(made[0]) & _SEEDED:
            given = [*made[0].args, *(k.value for k in made[0].keywords)]
            if len(given) == 1 and literal(given[0]) is not None:
                return self.slicer.quantities.seed(given[0], depth + 1)
        return None

    def mixed(self, d: Definition, value: ast.expr, node: ast.expr, depth: int) -> ast.expr:
        """A list with what shuffles it in place between its making and its use."""
        for made in changes(self.slicer.module, d):
            m = self.slicer.module
            block = m.block(d.statement) if isinstance(d.statement, ast.stmt) else []
            if m.statement(made) not in block or made.lineno > node.lineno:
                raise self.slicer.stopped(f"`{text_of(node)}` is shuffled by `{text_of(made)}`", made)
            draw = draw_of(m, made)
            seed = self.own_seed(made, depth) or (self.alike(draw) if draw else None)
            if seed is None:
                raise self.slicer.stopped(f"`{text_of(node)}` is shuffled by `{text_of(made)}`", made)
            value = call(name("SHUFFLED"), value, seed)
        return value


def _is_list(node: ast.expr) -> bool:
    """Whether a recipe's expression is a list of indices, not a number."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Slice)
    function = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    return function in ("list", "range", "SHUFFLED")
