"""Whether what an evaluation loop calls draws at random: a rank with other batches draws other numbers for a sample."""

from __future__ import annotations

import ast

from shardfix.analysis.code.module import Module
from shardfix.analysis.loaders.random_calls import GENERATORS, IN_PLACE, family_of, is_no_draw

_MODELS = ("forward", "__call__", "__init__")
_DEPTH = 3


def draws(module: Module, call: ast.Call, depth: int = 0) -> bool:
    """Whether a call draws at random, or a function of the project that it runs does: but for a model's own."""
    if family_of(module.callee(call)) is not None:
        return True
    if isinstance(call.func, ast.Attribute):
        method = call.func.attr
        if method in IN_PLACE or (not is_no_draw(method) and _is_generator(module, call.func.value)):
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
    return any(not module.home(m).callee(m).isdisjoint(GENERATORS) for m in made)


__all__ = ["draws"]
