"""Whether a value is seen to be the same on all ranks: made of constants, settings, counts, and of nothing else."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.programs.processes import distributed_test, is_main_test, is_rank, is_world_size
from shardfix.analysis.ranks.alike_bound import kept, named, reached
from shardfix.analysis.ranks.alike_calls import called, gives
from shardfix.analysis.ranks.alike_held import attribute, item
from shardfix.analysis.ranks.alike_names import DEPTH
from shardfix.analysis.ranks.alike_there import has, is_there
from shardfix.analysis.ranks.catching import caught_by, fails_everywhere
from shardfix.analysis.ranks.going_by_rank import differs, goes_by_rank
from shardfix.analysis.ranks.steps import Step
from shardfix.analysis.state.stored import Stored


@dataclass
class Alike:
    """What is known to be the same on all ranks, while the way to a loop is followed.

    Args:
        assumed: expressions that are, because of an edit or by what they stand for: the loader, lifted conditions.
        loops: what is gathered in them is reduced behind them.
        comes: whether all ranks come to a node or none does.
    """

    module: Module
    assumed: frozenset[ast.expr]
    loops: frozenset[ast.AST]
    stored: Stored
    comes: Callable[[ast.AST, int], bool]
    open: set[ast.AST] = field(default_factory=set)  # being asked about: alike if all else is
    known: dict[ast.expr, bool] = field(default_factory=dict)
    changing: set[str] = field(default_factory=set)  # names of attributes that are being asked about

    def value(self, node: ast.expr, depth: int = 0) -> bool:
        """Whether the value of an expression is seen to be the same on all ranks."""
        if node in self.assumed or isinstance(node, ast.Constant):
            return True
        if depth > DEPTH:
            return False
        known = self.known.get(node)
        if known is None:
            alone = not self.open
            known = self._value(node, depth + 1)
            if alone or not known:
                self.known[node] = known
        return known

    def _value(self, node: ast.expr, depth: int) -> bool:
        whole = not isinstance(node, (ast.BoolOp, ast.UnaryOp, ast.IfExp))
        if whole and (distributed_test(node) is not None or is_world_size(node)):
            return not any(goes_by_rank(self.module, d.value) for d in self.definitions(node) if d.value is not None)
        # Of several conditions one may be lifted: each is asked for itself.
        if not isinstance(node, ast.BoolOp) and (is_rank(node) or is_main_test(node)):
            return False
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            return is_there(self, node.left, depth)
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            return self.value(node.left, depth) and all(self.value(n, depth) for n in _members(node.comparators[0]))
        if isinstance(node, (ast.Set, ast.SetComp)):
            return False  # each process has an order of its own, by its hashes
        if isinstance(node, ast.Call):
            return called(self, node, depth)
        if isinstance(node, ast.Name):
            return named(self, node, depth)
        if isinstance(node, ast.Attribute):
            return attribute(self, node, depth)
        if isinstance(node, ast.Subscript):
            return item(self, node, depth)
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            return self._generators(node.generators, depth) and self.value(node.elt, depth)
        if isinstance(node, ast.DictComp):
            return (
                self._generators(node.generators, depth)
                and self.value(node.key, depth)
                and self.value(node.value, depth)
            )
        if isinstance(node, (ast.Lambda, ast.Await, ast.Yield, ast.YieldFrom)):
            return False
        return all(self.value(n, depth) for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr))

    def _generators(self, generators: list[ast.comprehension], depth: int) -> bool:
        return all(self.turns(g.iter, depth) and all(self.value(t, depth) for t in g.ifs) for g in generators)

    def definitions(self, node: ast.expr) -> list[Definition]:
        return (
            list(self.module.home(node).bindings.reaching(node)) if isinstance(node, (ast.Name, ast.Attribute)) else []
        )

    def turns(self, node: ast.expr, depth: int = 0) -> bool:
        """Whether an iterable has as many items on all ranks, in whatever they are."""
        if depth > DEPTH or goes_by_rank(self.module, node):
            return False
        if isinstance(node, ast.Call) and last_name(node.func) in (
            "enumerate",
            "tqdm",
            "track",
            "list",
            "iter",
            "reversed",
        ):
            return bool(node.args) and self.turns(node.args[0], depth + 1)
        if isinstance(node, ast.Call) and last_name(node.func) in ("zip", "chain", "product"):
            return all(self.turns(a, depth + 1) for a in node.args)
        if isinstance(node, ast.Call) and last_name(node.func) in ("items", "keys", "values"):
            return isinstance(node.func, ast.Attribute) and self.turns(node.func.value, depth + 1)
        if isinstance(node, (ast.List, ast.Tuple, ast.Set, ast.Dict)):
            return not any(isinstance(e, ast.Starred) for e in getattr(node, "elts", []))
        if isinstance(node, (ast.ListComp, ast.DictComp, ast.GeneratorExp)):
            return self._generators(node.generators, depth + 1)
        if isinstance(node, ast.Name) and node not in self.assumed:
            found = self.definitions(node)
            plain = [d for d in found if d.kind == "assign" and d.index is None and d.value is not None]
            if found and len(plain) == len(found):
                same = all(reached(self, d, node, depth + 1) for d in plain)
                unchanged = all(kept(self, d, node, depth + 1, values=False) for d in plain)
                return same and unchanged and all(self.turns(d.value, depth + 1) for d in plain if d.value is not None)
        return self.value(node, depth + 1)

    def step(self, step: Step, depth: int = 0) -> bool:
        """Whether a step of a way is taken alike by all ranks."""
        if step.kind == "unknown":
            return fails_everywhere(self.module, step) or self._misses_a_file(step, depth)
        if step.node in self.open:
            return True
        self.open.add(step.node)
        try:
            if step.kind == "dies":
                return not isinstance(step.node, ast.expr) or not differs(self.module, step.node)
            if step.kind == "turns":
                return self._repeated(step.node, depth)
            return isinstance(step.node, ast.expr) and self._truth(step.node, depth)
        finally:
            self.open.discard(step.node)

    def _misses_a_file(self, step: Step, depth: int) -> bool:
        """Whether what is caught is that a file is missing, one that was there before the program began: it is on no
        rank or on all."""
        outer, caught = caught_by(self.module, step)
        inside = [n for s in getattr(outer, "body", []) for n in ast.walk(s)]
        opened = [n for n in inside if isinstance(n, ast.Call) and last_name(n.func) in ("open", "load")]
        same = all(self.value(a, depth + 1) for call in opened for a in call.args[:1])
        return caught == {"FileNotFoundError"} and same and not any(isinstance(n, ast.Raise) for n in inside)

    def _truth(self, node: ast.expr, depth: int) -> bool:
        """Whether a condition holds on all ranks or on none: an object that is made is true on each."""
        if node in self.assumed:
            return True
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self._truth(node.operand, depth)
        if isinstance(node, ast.BoolOp):
            return all(self._truth(n, depth) for n in node.values)
        told = [
            method
            for cls in self.module.instances(node)
            for name in ("__bool__", "__len__")
            if (method := self.module.method(cls, name)) is not None
        ]
        if told:
            return all(gives(self, method, depth + 1) for method in told)
        return self.value(node, depth) or (isinstance(node, ast.Name) and has(self, node, depth, truth=True))

    def _repeated(self, node: ast.AST, depth: int) -> bool:
        iterable = node.iter if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)) else None
        if iterable is None or iterable in self.assumed:
            return True
        if self.turns(iterable, depth):
            return True
        # At each step of a training gradients are averaged over the ranks, so that all take equally many.
        trains = "train" in ast.unparse(iterable).lower() or _trains(self.module, node, 0)
        return isinstance(node, ast.For) and trains and not goes_by_rank(self.module, iterable)


def _members(node: ast.expr) -> list[ast.expr]:
    """What a value is looked for in: of a set its members, which have no order."""
    if isinstance(node, ast.Set):
        return node.elts
    made = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("set", "frozenset")
    return node.args if made and isinstance(node, ast.Call) else [node]


def _trains(module: Module, loop: ast.AST, depth: int) -> bool:
    """Whether a loop computes gradients."""
    home = module.home(loop)
    for n in ast.walk(loop):
        if isinstance(n, ast.Call):
            if last_name(n.func) in ("backward", "manual_backward", "training_step", "train_step"):
                return True
            if depth < 2 and any(_trains(home, f, depth + 1) for f in home.called_functions(n)):
                return True
    return False


__all__ = ["Alike"]
