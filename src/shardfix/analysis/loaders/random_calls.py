"""What draws at random: the one list of the calls that do, by the library whose generator they draw from."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

Family = Literal["random", "numpy", "torch"]

_PREFIXES: tuple[tuple[str, Family], ...] = (("torch.", "torch"), ("numpy.random.", "numpy"), ("random.", "random"))
# What chooses samples or puts them in order; of `random` and `numpy.random` everything else draws too, but for these:
_PICKS = frozenset({"randperm", "permutation", "shuffle", "sample", "choice", "choices", "rand", "randint", "random"})
_NO_DRAWS = frozenset(
    {"seed", "manual_seed", "manual_seed_all", "get_state", "set_state", "getstate", "setstate", "get_rng_state"}
    | {"set_rng_state", "fork_rng", "initial_seed", "default_rng", "RandomState", "Generator", "Random", "SeedSequence"}
    | {"SystemRandom"}
)
_OF_TORCH = frozenset(
    {"rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "normal", "bernoulli"}
    | {"multinomial", "poisson"}
)
# Methods of tensors, and what makes a generator of its own.
IN_PLACE = frozenset({"uniform_", "normal_", "random_", "bernoulli_", "exponential_", "geometric_", "cauchy_"})
GENERATORS = frozenset({"random.Random", "random.SystemRandom", "numpy.random.default_rng", "numpy.random.RandomState"})


def family_of(names: Collection[str], *, picks: bool = False) -> Family | None:
    """The library from whose global generator a call draws; None where it draws nothing.

    Args:
        names: the qualified names of what is called.
        picks: only what chooses samples, or puts them in order.
    """
    for prefix, family in _PREFIXES:
        called = {n[len(prefix) :] for n in names if n.startswith(prefix)}
        called = {n for n in called if "." not in n and n not in _NO_DRAWS}
        if called & (_PICKS if picks else _OF_TORCH if family == "torch" else called):
            return family
    return None


def is_no_draw(name: str) -> bool:
    """Whether a method of a generator draws nothing: it seeds it, or gives or takes its state."""
    return name in _NO_DRAWS


__all__ = ["GENERATORS", "IN_PLACE", "Family", "family_of", "is_no_draw"]
