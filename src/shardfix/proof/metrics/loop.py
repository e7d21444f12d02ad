"""One evaluation loop as it is being made into statements: the program's side, and what is known of its names."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from shardfix.analysis.code.module import Module
from shardfix.analysis.metrics.gathering import Gathering, Write
from shardfix.analysis.metrics.values import Values
from shardfix.proof.metrics.afterwards import Afterwards
from shardfix.proof.metrics.expressions import Outside
from shardfix.proof.metrics.known import Known

Elsewhere = Callable[[ast.AST], tuple[Sequence[str], str]]


@dataclass
class Loop:
    """A loop over a loader.

    Args:
        module: the file of the loop; ``node``: its statement.
        names: the accumulators, as they are written.
        examples: whether batches are lists of samples that are not collated.
        elsewhere: how the loader and its dataset are written in another function of the file, by that function.

    Attributes:
        writes: the statements that add to the accumulators.
        inside: all that stands in the loop.
    """

    module: Module
    node: ast.For
    names: Sequence[str]
    examples: bool
    elsewhere: Elsewhere
    known: Known
    values: Values = field(init=False)
    outside: Outside = field(init=False)
    after: Afterwards = field(init=False)
    writes: list[Write] = field(init=False)
    inside: set[ast.AST] = field(init=False)

    def __post_init__(self) -> None:
        self.values = Values(self.module, self.node, self.node, examples=self.examples)
        self.outside = Outside(self.known)
        self.after = Afterwards(self.known, self.outside, self.values)
        gathering = Gathering(self.module, self.node, self.values)
        self.writes = [w for w in gathering.writes if w.name in self.names]
        self.inside = self.known.repeated = set(ast.walk(self.node))


def text_of_statement(statement: ast.stmt) -> str:
    """A statement in one short line."""
    text = " ".join(ast.unparse(statement).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


__all__ = ["Elsewhere", "Loop", "text_of_statement"]
