"""Whether what an evaluation loop calls draws at random: a rank with other batches draws other numbers for a sample."""

from __future__ import annotations

import ast

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name

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
    if isinstance(call.func, ast.Attribute) and (
        call.func.attr in _IN_PLACE or (call.func.attr not in _SEEDS and _is_generator(module, call.func.value))
    ):
        return True
    if depth >= _DEPTH:
        return False
    for function in module.called_functions(call, passed=False):
        home = module.home(function)
        if function.name not in _MODELS:
            if any(draws(home, n, depth + 1) for n in ast.walk(function) if isinstance(n, ast.Call)):
                return True
    return False


def _is_generator(module: Module, node: ast.expr) -> bool:
    """Whether an object draws: one of Python's ``Random``, of numpy's ``default_rng`` or ``RandomState``."""
    definitions = list(module.bindings.reaching(node)) if isinstance(node, (ast.Name, ast.Attribute)) else []
    cls = module.class_of(node)
    if not definitions and isinstance(node, ast.Attribute) and cls is not None:
        definitions = module.attribute_values(cls, node.attr)
    made = [d.value for d in definitions if isinstance(d.value, ast.Call)]
    return any(last_name(m.func) in ("default_rng", "RandomState", "Random", "SystemRandom") for m in made)


__all__ = ["draws"]
