"""Random draws that decide what a dataset holds: which generator they use, and whether every rank draws alike."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.loaders.generators import seeds_alike
from shardfix.analysis.loaders.random_calls import Family
from shardfix.analysis.programs.processes import is_rank
from shardfix.proof.recipes.settings import files_around, literal

Seeding = Literal["alike", "by rank", ""]
_FOLLOWED = 12  # steps back from a dataset to what its indices are made of

# Parameters by which a draw is given a generator or seed of its own.
_OWN_SEED = ("generator", "seed", "random_state", "seeds", "rng")
_FUNCTIONS: dict[str, Family] = {
    "torch.utils.data.random_split": "torch",
    "torch.randperm": "torch",
    "numpy.random.permutation": "numpy",
    "numpy.random.shuffle": "numpy",
    "numpy.random.choice": "numpy",
    "random.shuffle": "random",
    "random.sample": "random",
    "sklearn.model_selection.train_test_split": "numpy",
}


@dataclass(frozen=True, eq=False, slots=True)
class Draw:
    """A call that draws from a library's global generator."""

    call: ast.Call
    family: Family


def draw_of(module: Module, call: ast.Call) -> Draw | None:
    """The draw that a call makes from a library's global generator; None if it draws nothing, or by its own seed."""
    named = next((_FUNCTIONS[name] for name in module.callee(call) if name in _FUNCTIONS), None)
    if named is None and isinstance(call.func, ast.Attribute) and not module.called_functions(call):
        if call.func.attr == "train_test_split" and call.keywords:
            named = "numpy"  # a datasets.Dataset
    if named is None:
        return None
    if any(k.arg in _OWN_SEED and literal(k.value) is not None for k in call.keywords):
        return None
    positional = {"torch.utils.data.random_split": 3}
    if any(len(call.args) >= n for name, n in positional.items() if name in module.callee(call)):
        return None
    return Draw(call, named)


def seeding(module: Module, family: Family) -> Seeding:
    """How the program seeds a library's global generator: alike on every rank, by the rank, or not that is seen."""
    found: Seeding = ""
    for where in files_around(module):
        if seeds_alike(where, family):
            return "alike"
        for call in where.calls:
            if last_name(call.func) in ("manual_seed", "set_seed", "seed_everything", "seed") and any(
                isinstance(n, ast.expr) and is_rank(n) for a in call.args for n in ast.walk(a)
            ):
                found = "by rank"
    return found


def draws_in(module: Module, node: ast.expr) -> Iterator[Draw]:
    """The draws from global generators that an expression's value rests on, nearest first."""
    seen: set[ast.AST] = set()
    queue: list[tuple[ast.AST, int]] = [(node, 0)]
    for current, depth in queue:
        for inner in ast.walk(current):
            if inner in seen:
                continue
            seen.add(inner)
            if isinstance(inner, ast.Call):
                draw = draw_of(module, inner)
                if draw is not None:
                    yield draw
            if isinstance(inner, (ast.Name, ast.Attribute)) and depth < _FOLLOWED:
                for d in module.bindings.reaching(inner):
                    if d.kind == "assign" and d.value is not None:
                        queue.append((d.value, depth + 1))
                        queue += [(made, depth + 1) for made in changes(module, d)]


def changes(module: Module, d: Definition) -> list[ast.Call]:
    """The calls that shuffle a list in place by a name of it: ``random.shuffle(indices)``."""
    found: list[ast.Call] = []
    for reader in module.bindings.readers(d):
        parent = module.parents[reader]
        if isinstance(parent, ast.Call) and last_name(parent.func) == "shuffle" and parent.args == [reader]:
            found.append(parent)
    return found
