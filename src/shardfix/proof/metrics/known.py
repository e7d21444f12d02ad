"""What is known of a program's names while its evaluation is made into statements: which follow from its batches."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.metrics.meters import Meter
from shardfix.proof.stop import Stop

COLLECTIVE = ("reduced", "in_order", "of_all_batches")


@dataclass
class Known:
    """The names of one scope. All that goes by it is translated one statement after the other, as it is run.

    Args:
        loaders: how the loader is written; ``dataset``: how its dataset is.
        stand_ins: the expressions that were replaced, and by what; added to.
        assumed: what the values hold only by, in words; added to.
        imports: the modules that the statements need; added to.
        accelerate: whether the loader's program binds ``accelerator``.
        loose: whether what is not seen may be any value of its batch, since the same batches are compared.

    Attributes:
        tracked: the variables of what follows from the batches, by how they are written.
        meters: the averaging objects, as they are written.
        classes: of those that are run as they are written, the methods.
        weighted: what of that goes by the number of batches, or by means over them.
        by_batch: the lists with one number for each batch, of which no rank has those of one process.
        local: the names that an expression binds itself.
        told_of: the objects that are told of batches in the loop, or called with them, as they are written.
        resting: what a translated expression rests on, in words; it holds for nothing once that is not run.
        numbers: what a translated expression rests on, in words, unless any number of a batch will do.
        by_batch_only: what then stands for calls that are not run, in words, by how they are written.
        texts: the texts that settings are taken to be, by how these are written: the first that each is compared with.
        of_first: the names that a condition on the rank gives a value, so that the first rank alone has it.
        repeated: all that stands in the loop, and runs once for each batch.
    """

    module: Module
    loaders: Sequence[str]
    dataset: str
    stand_ins: dict[str, str]
    assumed: list[str] = field(default_factory=list)
    imports: list[str] = field(default_factory=list)
    accelerate: bool = False
    loose: bool = False
    tracked: dict[str, str] = field(default_factory=dict)
    meters: dict[str, Meter] = field(default_factory=dict)
    classes: dict[str, frozenset[str]] = field(default_factory=dict)
    weighted: set[str] = field(default_factory=set)
    by_batch: set[str] = field(default_factory=set)
    local: list[str] = field(default_factory=list)
    told_of: set[str] = field(default_factory=set)
    resting: dict[ast.AST, str] = field(default_factory=dict)
    numbers: dict[ast.AST, str] = field(default_factory=dict)
    by_batch_only: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    of_first: set[str] = field(default_factory=set)
    repeated: set[ast.AST] = field(default_factory=set)

    def track(self, text: str) -> str:
        """The variable for a name or attribute of the program."""
        if text not in self.tracked:
            base = "v_" + "".join(c if c.isalnum() else "_" for c in text)
            while base in self.tracked.values():
                base += "_"
            self.tracked[text] = base
        return self.tracked[text]

    def follows(self, node: ast.AST) -> bool:
        """Whether something of an expression follows from the batches, or from how many there are."""
        return any(
            isinstance(n, (ast.Name, ast.Attribute, ast.Subscript, ast.Call))
            and (ast.unparse(n) in self.tracked or ast.unparse(n) in self.loaders or ast.unparse(n) in self.local)
            for n in ast.walk(node)
        ) or any(isinstance(n, ast.Call) and last_name(n.func) in COLLECTIVE for n in ast.walk(node))

    def tracks(self, node: ast.AST) -> bool:
        """Whether something of an expression of the loop follows from a batch."""
        return any(
            isinstance(n, (ast.Name, ast.Attribute))
            and (ast.unparse(n) in self.tracked or (isinstance(n, ast.Name) and n.id in self.local))
            for n in ast.walk(node)
        )

    def drifts(self, node: ast.AST) -> bool:
        """Whether an expression goes by the number of batches, or by means over them."""
        for n in ast.walk(node):
            if isinstance(n, (ast.Name, ast.Attribute, ast.Call)) and ast.unparse(n) in self.weighted:
                return True
            if is_length(n) and ast.unparse(n.args[0]) in self.loaders:  # type: ignore[attr-defined]
                return True
        return False

    def is_of_first(self, node: ast.AST) -> bool:
        """Whether something of an expression is what the first rank alone was given."""
        return any(
            isinstance(n, (ast.Name, ast.Attribute, ast.Call)) and ast.unparse(n) in self.of_first
            for n in ast.walk(node)
        )

    def importing(self, module: str) -> None:
        """Note that the statements need a module."""
        if module not in self.imports:
            self.imports.append(module)

    def stop(self, reason: str, node: ast.AST) -> Stop:
        """What ends the translation at a node."""
        return Stop(reason, self.module.home(node).location(node))


def is_length(node: ast.AST) -> bool:
    """``len(x)``"""
    return isinstance(node, ast.Call) and last_name(node.func) == "len" and len(node.args) == 1


__all__ = ["COLLECTIVE", "Known", "is_length"]
