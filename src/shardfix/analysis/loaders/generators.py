"""Which random generator a sampler of the project draws from, and whether every rank seeds it alike."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Literal

from shardfix.analysis.code.module import Module, is_false
from shardfix.analysis.code.names import last_name
from shardfix.analysis.loaders.entered import may_run
from shardfix.analysis.loaders.random_calls import GENERATORS, Family, family_of
from shardfix.analysis.programs.processes import is_rank

_SEEDS = re.compile(r"seed_everything|(set|fix|init|setup|manual|random)\w*_?seeds?|seed_(all|everything)|seed")


@dataclass(frozen=True, eq=False, slots=True)
class Draw:
    """A draw that differs by rank: from a library's ``global`` generator, or from the class's ``own`` one."""

    node: ast.Call
    kind: Literal["global", "own"]
    family: Family


def unsynchronised(module: Module, cls: ast.ClassDef, *, batches: bool) -> Draw | None:
    """The draw because of which the ranks' orders of a prepared loader differ; None if none is seen.

    accelerate 1.15 hands one state of ``sampler.generator`` to all ranks; it does not look into a batch sampler of the
    project's own (run with two gloo processes).

    Args:
        batches: whether the class is a batch sampler.
    """
    iterates = module.method(cls, "__iter__")
    if iterates is None:
        return None
    for call in (n for n in ast.walk(iterates) if isinstance(n, ast.Call)):
        given = next((k.value for k in call.keywords if k.arg == "generator"), None)
        family = family_of(module.callee(call))
        if family is not None and given is None:
            return Draw(call, "global", family)
        drawn_from = given if given is not None else getattr(call.func, "value", None)
        if isinstance(drawn_from, ast.Attribute) and isinstance(drawn_from.value, ast.Name):
            draw = _kept_draw(module, cls, call, drawn_from, batches)
            if draw is not None:
                return draw
    return None


def _kept_draw(
    module: Module, cls: ast.ClassDef, call: ast.Call, attribute: ast.Attribute, batches: bool
) -> Draw | None:
    """A draw from ``self.generator`` and the like, by what the class keeps there."""
    values = [d.value for d in module.attribute_values(cls, attribute.attr) if d.value is not None]
    for value in (n for v in values for n in ast.walk(v)):
        if isinstance(value, (ast.Name, ast.Attribute)):
            for q, family in (("random", "random"), ("numpy.random", "numpy")):
                whole = not isinstance(module.parents[value], ast.Attribute)
                if whole and q in module.qualify(value):
                    return Draw(call, "global", "random" if family == "random" else "numpy")
        if isinstance(value, ast.Call):
            unseeded = not value.args and not value.keywords
            if unseeded and not module.callee(value).isdisjoint(GENERATORS):
                return Draw(call, "own", "random")
            synchronised = attribute.attr == "generator" and not batches
            if "torch.Generator" in module.callee(value) and not synchronised and not _is_seeded(cls):
                return Draw(call, "own", "torch")
    return None


def _is_seeded(cls: ast.ClassDef) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr in ("manual_seed", "set_state") for n in ast.walk(cls))


def seeds_alike(module: Module, family: Family) -> bool:
    """Whether the program surely seeds a library's generator, and on every rank alike: not by rank, and not only where
    the user gives a seed that by default is none."""
    return any(_is_seed(module, call, family) and not _only_if_given(module, call) for call in module.calls)


def _is_seed(module: Module, call: ast.Call, family: Family) -> bool:
    name = last_name(call.func)
    if not _SEEDS.fullmatch(name) or not (call.args or call.keywords):
        return False
    arguments = [*call.args, *(k.value for k in call.keywords)]
    if any(isinstance(n, ast.expr) and is_rank(n) for a in arguments for n in ast.walk(a)):
        return False
    if any(k.arg == "device_specific" and not is_false(k.value) for k in call.keywords):
        return False
    for function in module.called_functions(call):  # `seed += rank`, but where it is not asked for
        ranks = (n for n in ast.walk(function) if isinstance(n, ast.expr) and is_rank(n))
        if any(may_run(module.home(function), n, (call,)) for n in ranks):
            return False
    libraries = {q.rsplit(".", 1)[0] for q in module.callee(call)} & {"random", "numpy.random", "torch"}
    wanted = {"random": "random", "numpy": "numpy.random", "torch": "torch"}[family]
    if libraries:
        return wanted in libraries
    # A seed method of some object (a generator, an environment) says nothing of the libraries.
    return name != "seed" and (isinstance(call.func, ast.Name) or bool(module.callee(call)))


def _only_if_given(module: Module, call: ast.Call) -> bool:
    """``if args.seed is not None: set_seed(args.seed)`` where the parser's default is None."""
    tests = [n.test for n in module.around(call) if isinstance(n, ast.If)]
    words = {n.attr for t in tests for n in ast.walk(t) if isinstance(n, ast.Attribute) and "seed" in n.attr}
    for parser in module.calls:
        if last_name(parser.func) != "add_argument" or not parser.args or not isinstance(parser.args[0], ast.Constant):
            continue
        default = next((k.value for k in parser.keywords if k.arg == "default"), None)
        none = default is None or (isinstance(default, ast.Constant) and default.value is None)
        if str(parser.args[0].value).lstrip("-").replace("-", "_") in words and none:
            return True
    return False
