"""The step of a migrated evaluation that leaves its padding out, and the function that does it."""

from __future__ import annotations

import ast
from importlib import resources

from shardfix.analysis.sites import Site
from shardfix.proof.recipes.regime import call, name
from shardfix.proof.recipes.slice import assign

FUNCTION = "unpadded"


def unpadding_steps(site: Site) -> list[ast.stmt]:
    """``loader = unpadded(loader)`` where the program says so, by shardfix or by the file that it brings along."""
    if not site.flow.of("unpadded"):
        return []
    return [assign("loader", call(name(FUNCTION), name("loader")))]


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


__all__ = ["FUNCTION", "evaluation_prelude", "unpadding_steps"]
