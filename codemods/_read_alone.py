"""Prepared loaders that one process alone reads, and what the other ranks do meanwhile."""

from __future__ import annotations

import ast

from shardfix.analysis.code.module import Module
from shardfix.analysis.loaders.flow import Use
from shardfix.analysis.programs.processes import (
    distributed_test,
    is_not_main_test,
    leaves,
    main_process_guard,
    some_ranks,
)
from shardfix.analysis.sites import Site


def read_alone(site: Site) -> ast.expr | None:
    """The condition because of which one process alone reads a prepared loader."""
    return _waits_alone(site) or _all_alone(site)


def _all_alone(site: Site) -> ast.expr | None:
    """The condition because of which one process runs all loops over a loader, none of them a look at a batch."""
    loops = site.flow.of("iterate")
    guards = [_guard_of(site.module, use) for use in loops]
    if not loops or site.flow.of("next") or any(_looks(use) for use in loops):
        return None
    return None if any(g is None or distributed_test(g) is False for g in guards) else guards[0]


def _waits_alone(site: Site) -> ast.expr | None:
    """The condition because of which one process alone begins to read a loader whose order the ranks agree on then.

    One such loop is enough, however early it ends, unless the other ranks read the loader in its stead.
    """
    if not _agrees_on_order(site):
        return None
    module, loops = site.module, [u for u in site.flow.of("iterate") if u.prepared is not None]
    for use in loops:
        guard = _guard_of(module, use)
        if guard is None or distributed_test(guard) is not None:
            continue
        others = [place for u in loops if u is not use for place in (u.node, *u.calls)]
        if not any(_of_the_others(module, place, guard) for place in others) and not _ends(module, guard):
            return guard
    return None


def _agrees_on_order(site: Site) -> bool:
    """Whether the ranks synchronise a generator when they begin to read: that of torch's own random samplers, unless
    accelerate's seedable one stands in for them."""
    if any("use_seedable_sampler" in m.text for m in site.module.fellows):
        return False
    shuffle = site.arguments.value("shuffle")
    kinds = {arm.kind for arm in (*site.arms, *(i for batch in site.batch_arms for i in batch.inner))} - {"none"}
    if not kinds:
        return isinstance(shuffle, ast.Constant) and shuffle.value is True
    return kinds <= {"random", "weighted", "subset-random"}


def _guard_of(module: Module, use: Use) -> ast.expr | None:
    return next((g for p in (use.node, *use.calls) if (g := main_process_guard(module, p)) is not None), None)


def _looks(use: Use) -> bool:
    """Whether a loop is a look at its first batch."""
    body = getattr(use.node, "body", [])
    return isinstance(body, list) and any(isinstance(s, (ast.Break, ast.Return)) for s in body)


def _of_the_others(module: Module, place: ast.AST, guard: ast.expr) -> bool:
    """Whether a place is for the ranks that a condition keeps out."""
    tests = [n.test for n in module.around(place) if isinstance(n, (ast.If, ast.IfExp))]
    return some_ranks(module, place) is not None or any(t is guard or is_not_main_test(t) for t in tests)


def _ends(module: Module, guard: ast.expr) -> bool:
    """Whether what is run under a condition goes no further: what follows is for the other ranks."""
    branch = module.parents.get(guard)
    return isinstance(branch, ast.If) and not is_not_main_test(guard) and leaves(branch.body)
