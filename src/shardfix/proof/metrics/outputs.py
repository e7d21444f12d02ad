"""What a model gives where a loop is run on rows: the calls that are stand-ins, and who holds a whole output."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field

from shardfix.proof.metrics.allowed import FUNCTIONS, library
from shardfix.proof.metrics.known import Known
from shardfix.proof.recipes.choices import text_of
from shardfix.proof.recipes.regime import name

TAKEN = {
    "mean": "a mean over the samples",
    "sum": "a sum over the samples",
    "output": "a row for each sample, by that sample alone",
    "samples": "a row for each sample, by that sample alone",
}


@dataclass
class Outputs:
    """The outputs of one scope.

    Args:
        kind: what the analysis takes an expression for.

    Attributes:
        names: the variables that hold a whole output, as they are written.
    """

    known: Known
    kind: Callable[[ast.expr], str]
    names: set[str] = field(default_factory=set)

    def stand_in(self, node: ast.Call, value: Callable[[ast.expr], ast.expr]) -> ast.expr:
        """A call that is not run, of rows: a model, or a function that is taken for what the analysis takes it for."""
        words = text_of(node.func)
        kind = self.kind(node)
        if not kind:
            kind = "mean" if "loss" in words.lower() or "criterion" in words.lower() else "output"
        is_loss = any(w in words.lower() for w in ("loss", "criterion", "crit"))
        known = self.known.module.called_functions(node)
        from_library = any("." in q for q in self.known.module.callee(node)) and not self.known.module.instances(
            node.func
        )
        model = bool(self.known.module.instances(node.func)) or not known
        given = [value(a) for a in node.args]
        keywords = [ast.keyword(k.arg, value(k.value)) for k in node.keywords]
        stand_in = {"mean": "MEAN_OF", "sum": "SUM_OF", "output": "MODEL", "samples": "MODEL"}.get(kind)
        if stand_in is None and is_loss:
            stand_in, kind = "MEAN_OF", "mean"
        if stand_in is None:
            raise self.known.stop(f"what `{text_of(node)}` gives is not known", node)
        self.known.stand_ins[text_of(node)] = TAKEN[kind]
        made = ast.Call(name(stand_in), [ast.Constant(words), *given], keywords)
        if (known and not (model and kind == "output")) or from_library or stand_in != "MODEL":
            self.known.resting[made] = f"`{text_of(node)}` gives {TAKEN[kind]}"
        return made

    def holds(self, node: ast.expr) -> bool:
        """Whether an expression is what a model gives, as a whole."""
        if ast.unparse(node) in self.names:
            return True
        if not isinstance(node, ast.Call) or not self.known.tracks(node):
            return False
        receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
        unknown = not (receiver is not None and self.known.tracks(receiver)) and not self.known.module.callee(node)
        return unknown and library(self.known, node.func, FUNCTIONS) is None and self.kind(node) in ("", "output")

    def whole(self, node: ast.expr, key: ast.expr | None = None) -> None:
        """A model may give several things: which of them is meant is not known.

        Raises:
            Stop: one of them is taken.
        """
        first = (
            key is None
            or isinstance(key, (ast.Constant, ast.UnaryOp))
            or (isinstance(key, ast.Slice) and not (key.lower is None and key.upper is None))
        )
        if first and self.holds(node):
            raise self.known.stop(f"which part of `{text_of(node)}` is taken is not known", node)
