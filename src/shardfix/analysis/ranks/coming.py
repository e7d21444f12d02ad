"""Whether every rank comes to a loop: all of the way to it is seen, from the program's start, and is the same on all.

The question is asked the safe way round: a way is taken alike only where each construct on it is one that is known to
be, so what is not understood is told, not passed over.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import arguments_of
from shardfix.analysis.loops.single import of_one_process
from shardfix.analysis.ranks.alike import Alike
from shardfix.analysis.ranks.callees import runs_the_same
from shardfix.analysis.ranks.catching import fails_everywhere
from shardfix.analysis.ranks.going_by_rank import differs
from shardfix.analysis.ranks.running import what_runs
from shardfix.analysis.ranks.steps import Step, ends_inside, steps
from shardfix.analysis.state.stored import Stored

_DEPTH = 8  # callers of callers
_Function = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True, eq=False, slots=True)
class Away:
    """What may keep a rank from a loop.

    Args:
        certain: whether it asks for the rank, so that some do stay away.
    """

    node: ast.AST
    why: str
    certain: bool = False


def stays_away(
    module: Module,
    loop: ast.AST,
    calls: Sequence[ast.Call],
    aliases: frozenset[ast.expr],
    lifted: frozenset[ast.expr] = frozenset(),
    reduced: frozenset[ast.AST] = frozenset(),
) -> Away | None:
    """The first thing because of which a rank may not come to a loop while others do; None where all are seen to come.

    Args:
        calls: the calls through which the loader came to the loop, where these are known.
        aliases: the expressions that stand for the loader.
        lifted: conditions that are to be taken away.
        reduced: other loops, behind which what they gather is to be reduced.
    """
    return _Way(module, loop, aliases, set(calls), lifted, reduced).to(loop)


@dataclass
class _Way:
    """The way from the start of a program to a loop."""

    module: Module
    loop: ast.AST
    aliases: frozenset[ast.expr]
    given: set[ast.Call]
    lifted: frozenset[ast.expr]
    reduced: frozenset[ast.AST]
    seen: set[ast.AST] = field(default_factory=set)
    alike: Alike = field(init=False)
    of_a_value: bool = False  # whether it is the way to what binds a value, not to the loop

    def __post_init__(self) -> None:
        assumed = self.aliases | self.lifted
        self.alike = Alike(self.module, assumed, self.reduced | {self.loop}, Stored(self.module), self._comes)

    def to(self, node: ast.AST, depth: int = 0) -> Away | None:
        """What may keep a rank from a node."""
        module = self.module.home(node)
        ended = ends_inside(module, node) if node is self.loop else None
        if ended is not None:
            words = " ".join(ast.unparse(ended).split())[:60]
            return Away(ended, f"`{words}` may end one rank in the middle of its batches, for which the others wait")
        for step in steps(module, node):
            away = self._taken(module, step)
            if away is not None:
                return away
        function = next((n for n in module.around(node) if isinstance(n, _Function)), None)
        if function is None or function in self.seen:
            return None
        if depth >= _DEPTH:
            return Away(function, "the way to it from the program's start is too long to be followed")
        self.seen.add(function)
        runs = what_runs(module, function)
        if runs.unseen is not None:
            return Away(runs.unseen.node, f"whether every rank comes here is not seen: {runs.unseen.why}")
        mine = [c for c in runs.calls if isinstance(c, ast.Call) and self._gives_it(c)]
        # The other calls that are seen give other loaders, for which the same is asked.
        known = set(module.callers(function)) - set(mine) if mine else set()
        for call in runs.calls:
            if call in known or of_one_process(module.home(call), call):
                continue
            if isinstance(call, ast.Call) and not runs_the_same(self.alike, call):
                words = " ".join(ast.unparse(call.func).split())
                return Away(call, f"what `{words[:60]}` stands for here is not seen to be the same on all ranks")
            away = self.to(call, depth + 1)
            if away is not None:
                return away
        return None

    def _gives_it(self, call: ast.Call) -> bool:
        return call in self.given or any(a in self.aliases for a in arguments_of(call))

    def _taken(self, module: Module, step: Step) -> Away | None:
        """Why a step may not be taken by all ranks."""
        if step.kind == "unknown":
            same = self.alike.step(step) if self.of_a_value else fails_everywhere(module, step)
            return None if same else Away(step.node, step.why)
        if step.node in self.lifted or self.alike.step(step):
            return None
        asked = _without(getattr(step.node, "iter", step.node), self.lifted)
        words = " ".join(ast.unparse(asked).split())[:60]
        certain = isinstance(asked, ast.expr) and differs(module, asked)
        if certain:
            return Away(asked, f"`{words}` goes by the rank: not every rank comes here, or as often", certain)
        if step.kind == "turns":
            return Away(asked, f"every rank must come here as often, and `{words}` is not seen to be as long on all")
        return Away(asked, f"every rank must come here, and `{words}` is not seen to be alike on all")

    def _comes(self, node: ast.AST, depth: int) -> bool:
        """Whether all ranks come to a statement or none does, with that what it binds is alike."""
        known = (self.aliases, self.given, self.lifted, self.reduced, set(self.seen))
        way = _Way(self.module, self.loop, *known, of_a_value=True)
        way.alike = self.alike
        return way.to(node, 2) is None


def _without(test: ast.AST, lifted: frozenset[ast.expr]) -> ast.AST:
    """What a condition still asks when parts of it are taken away."""
    if not isinstance(test, ast.BoolOp) or not isinstance(test.op, ast.And):
        return test
    left = [v for v in test.values if v not in lifted]
    return left[0] if len(left) == 1 else ast.copy_location(ast.BoolOp(test.op, left), left[0]) if left else test


__all__ = ["Away", "stays_away"]
