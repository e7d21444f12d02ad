"""What a recipe chooses where the source does not decide: the same text gets the same value before and after."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from shardfix.proof.model import StandIn

_SMALL = 8  # what a batch may hold and the sizes that tell right from wrong still be small
_POOL = (4, 6, 5, 7, 3, 8, 2, 1)
_DIVISIBLE = (12, 24, 36, 48)
_LONGEST = 120


@dataclass
class Choices:
    """The values chosen so far. One object serves the programs of one recipe."""

    numbers: dict[str, int] = field(default_factory=dict)
    batches: dict[int, int] = field(default_factory=dict)
    stand_ins: dict[str, str] = field(default_factory=dict)
    split: bool = False  # accelerate splits each batch over the ranks: two or three ranks must divide it
    everyone: bool = False  # what one process alone did is run by all ranks: the change takes that condition away

    def number(self, text: str, default: object, fallback: int) -> int:
        """A number for an expression: the program's own default if that is a small one, else ``fallback``."""
        if text not in self.numbers:
            fits = type(default) is int and 0 <= default <= _SMALL
            self.numbers[text] = default if fits and isinstance(default, int) else fallback
        self.stand_ins[text] = str(self.numbers[text])
        return self.numbers[text]

    def batch(self, value: int, text: str) -> int:
        """A batch size that stands for one of the source: other sizes stay other sizes."""
        if value not in self.batches:
            taken = set(self.batches.values())
            free = [n for n in (_DIVISIBLE if self.split else _POOL) if n not in taken]
            fits = 0 < value <= _SMALL and value not in taken and not self.split
            self.batches[value] = value if fits or not free else free[0]
        if self.batches[value] != value or text != str(value):
            self.stand_ins[f"batch size {text}" if text == str(value) else text] = str(self.batches[value])
        return self.batches[value]


def text_of(node: ast.expr) -> str:
    """An expression in one line, as it is named to the user."""
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def named(tree: ast.AST, function: str) -> list[str]:
    """The strings of ``DATASET("...")`` or ``UNKNOWN["..."]`` in a recipe, each once."""
    found: list[str] = []
    for node in ast.walk(tree):
        key: ast.expr | None = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function and node.args:
            key = node.args[0]
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == function:
            key = node.slice
        if isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value not in found:
            found.append(key.value)
    return found


def listed(choices: Choices, *trees: ast.AST) -> tuple[StandIn, ...]:
    """The stand-ins of a recipe's programs."""
    datasets = {text: "a dataset of its own indices" for tree in trees for text in named(tree, "DATASET")}
    unknowns = {text: "both True and False" for tree in trees for text in named(tree, "UNKNOWN")}
    return tuple(StandIn(text, value) for text, value in {**datasets, **choices.stand_ins, **unknowns}.items())
