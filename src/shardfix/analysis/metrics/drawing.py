"""Whether what an evaluation loop calls draws at random: a rank with other batches draws other numbers for a sample."""

from __future__ import annotations

import ast

from shardfix.analysis.code.module import Module

_SEEDS = frozenset(
    {"seed", "manual_seed", "manual_seed_all", "get_state", "set_state", "getstate", "setstate", "get_rng_state"}
    | {"set_rng_state", "fork_rng", "initial_seed", "default_rng", "RandomState", "Generator", "Random", "SeedSequence"}
)
_FAMILIES = ("random.", "numpy.random.")
_OF_TORCH = frozenset(
    f"torch.{name}"
    for name in (
        *("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "normal", "bernoulli"),
        *("multinomial", "poisson"),
    )
)
_IN_PLACE = frozenset({"uniform_", "normal_", "random_", "bernoulli_", "exponential_", "geometric_", "cauchy_"})
_MODELS = ("forward", "__call__", "__init__")
_DEPTH = 3


def draws(module: Module, call: ast.Call, depth: int = 0) -> bool:
    """Whether a call draws at random, or a function of the project that it runs does: but for a model's own."""
    for name in module.callee(call):
        family = name.startswith(_FAMILIES) and name.rpartition(".")[2] not in _SEEDS
        if family or name in _OF_TORCH:
            return True
    if isinstance(call.func, ast.Attribute) and call.func.attr in _IN_PLACE:
        return True
    if depth >= _DEPTH:
        return False
    for function in module.called_functions(call, passed=False):
        home = module.home(function)
        if function.name not in _MODELS:
            if any(draws(home, n, depth + 1) for n in ast.walk(function) if isinstance(n, ast.Call)):
                return True
    return False


__all__ = ["draws"]
