"""Evaluation in the dataset's order: ``shuffle=False`` where a sampler leaves it to its default, which shuffles."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from shardfix.analysis.code.calling import argument_of, default_of
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.loaders.samplers import Arm
from shardfix.analysis.model import Finding
from shardfix.analysis.sites import Site
from shardfix.rewrite.edits import Edit, SetKeyword


def ordered(module: Module, arms: Sequence[Arm]) -> list[Edit]:
    """``shuffle=False`` on each DistributedSampler that leaves it to the default, which shuffles: in its construction,
    or where a function makes it for other loaders too in the call of that, if it hands it on."""
    edits: list[Edit] = []
    for arm in arms:
        if arm.kind != "distributed" or not isinstance(arm.node, ast.Call) or arm.arguments is None:
            continue
        if arm.by:
            name = _handed_on(module, arm)
            edits += [SetKeyword(*module.place(arm.by[0]), name, "False")] if name else []
        elif arm.arguments.value("shuffle") is None and not arm.arguments.opaque:
            edits.append(SetKeyword(*module.place(arm.node), "shuffle", "False"))
    return edits


def _handed_on(module: Module, arm: Arm) -> str:
    """The parameter with which the function that makes a sampler is told to shuffle, where its call leaves it to its
    default; empty where it is told, or cannot be."""
    call = arm.by[0]
    functions = module.called_functions(call)
    written = module.arguments(arm.node, arm.qualified).value("shuffle") if isinstance(arm.node, ast.Call) else None
    if len(arm.by) != 1 or len(functions) != 1 or not isinstance(written, ast.Name):
        return ""
    bound = module.bindings.reaching(written)
    if any(d.kind != "parameter" or d.scope is not functions[0] for d in bound) or any(
        isinstance(a, ast.Starred) for a in call.args
    ):
        return ""
    default = default_of(functions[0], written.id)
    left = argument_of(module, functions[0], call, written.id) is None and all(k.arg for k in call.keywords)
    return written.id if left and isinstance(default, ast.Constant) and default.value is True else ""


def made_shuffling(site: Site, arms: Sequence[Arm]) -> Finding | None:
    """Why an evaluation is not put in order: a function makes its sampler, which shuffles, as it makes others."""
    for arm in arms:
        if arm.kind == "distributed" and arm.by and arm.arguments is not None and not arm.arguments.opaque:
            if arm.arguments.value("shuffle") is None and not site.shown_role.guessed:
                name = last_name(arm.by[-1].func)
                return Finding(
                    "SHD501",
                    site.location,
                    f"evaluation in shuffled order: {name}() makes its sampler as it makes those of other loaders",
                    (site.module.evidence(arm.node), site.module.evidence(arm.by[0])),
                    f"give {name}() a parameter shuffle, hand it to DistributedSampler, and say shuffle=False here",
                )
    return None


__all__ = ["made_shuffling", "ordered"]
