"""The step of a migrated evaluation that leaves its padding out, and the function that does it."""

from __future__ import annotations

import ast
from importlib import resources

from shardfix.analysis.ranks.waiting import waits
from shardfix.analysis.sites import Site
from shardfix.proof.recipes.regime import call, name
from shardfix.proof.recipes.slice import assign

FUNCTION = "unpadded"


def unpadding_steps(site: Site) -> list[ast.stmt]:
    """``loader = unpadded(loader)`` where the program says so, by shardfix or by the file that it brings along."""
    if not site.flow.of("unpadded"):
        return []
    keywords = {"uneven": ast.Constant(True)} if asks_uneven(site) else {}
    return [assign("loader", call(name(FUNCTION), name("loader"), **keywords))]


def may_be_uneven(site: Site) -> bool:
    """Whether a loader is let make other numbers of steps on the ranks, and nothing that its loops run may wait."""
    loops = [use.node for use in site.flow.of("iterate")]
    found = [n for n in loops if isinstance(n, ast.For)]
    return asks_uneven(site) and found == loops != [] and all(waits(site.module, n) is None for n in found)


def asks_uneven(site: Site) -> bool:
    """Whether the program lets the ranks make other numbers of steps over a loader."""
    calls = [use.node for use in site.flow.of("unpadded") if isinstance(use.node, ast.Call)]
    told = [k.value for c in calls for k in c.keywords if k.arg == "uneven"]
    return any(isinstance(v, ast.Constant) and v.value is True for v in told)


def evaluation_prelude() -> str:
    """Statements that bind ``unpadded``, ``reduced`` and ``in_order``, as a module that each rank makes once."""
    text = (resources.files("shardfix") / "evaluation.py").read_text(encoding="utf-8")
    return f"""
import sys, types
if "_shardfix_evaluation" not in sys.modules:
    _module = types.ModuleType("_shardfix_evaluation")
    exec(compile({text!r}, "_shardfix_evaluation", "exec"), vars(_module))
    sys.modules["_shardfix_evaluation"] = _module
for _name in sys.modules["_shardfix_evaluation"].__all__:
    globals()[_name] = getattr(sys.modules["_shardfix_evaluation"], _name)
"""


__all__ = ["FUNCTION", "asks_uneven", "evaluation_prelude", "may_be_uneven", "unpadding_steps"]
