"""How a codemod says that it leaves a site alone, or that something about it is dangerous."""

from __future__ import annotations

import ast

from shardfix.analysis.model import Evidence, Finding
from shardfix.analysis.programs.processes import is_world_size
from shardfix.analysis.refusals import REFUSALS
from shardfix.analysis.sites import Site
from shardfix.wording import numbered


def lengths(site: Site, what: str) -> tuple[str, ...]:
    """The lines that read ``len(loader)``, as a consequence of a change of the number of steps."""
    lines = [u.node.lineno for u in site.flow.of("length") if isinstance(u.node, ast.Call)]
    if not lines:
        return ()
    return (f"len(loader) is read in {numbered(lines)}: {what}",)


def reduces(site: Site) -> str:
    """The function that sums over a program's ranks."""
    return "horovod.torch.allreduce" if site.ownership.started_by == "horovod" else "torch.distributed.all_reduce"


def divided(site: Site) -> Evidence | None:
    """The line that divides ``len(loader)`` by the number of processes, which a sharded length is already."""
    module = site.module
    for use in site.flow.of("length"):
        lengths = [use.node]
        parent = module.parents[use.node]
        if isinstance(parent, ast.Assign):
            made = [d for t in parent.targets for d in module.bindings.definitions if d.node is t]
            lengths += [reader for d in made for reader in module.bindings.readers(d)]
        for node in lengths:
            outer = module.parents[node]
            while isinstance(outer, ast.BinOp) and not isinstance(outer.op, (ast.Div, ast.FloorDiv)):
                node, outer = outer, module.parents[outer]
            if isinstance(outer, ast.BinOp) and outer.left is node:
                if any(isinstance(n, ast.expr) and is_world_size(n) for n in ast.walk(outer.right)):
                    return module.evidence(outer)
    return None


def refuse(
    site: Site,
    code: str,
    *,
    note: str = "",
    instead: str = "",
    evidence: tuple[Evidence, ...] = (),
    unsafe: bool = True,
) -> Finding:
    """A refusal with its one reason, the lines that show it, and what the user can do.

    Args:
        note: more to the reason's title.
        instead: the reason in other words than the title's, where those are not true.
        unsafe: whether ``--unsafe`` would make the edit, where the remedy offers that.
    """
    refusal = REFUSALS[code]
    message = instead or refusal.title + (f": {note}" if note else "")
    remedy = refusal.remedy if unsafe else "; ".join(p for p in refusal.remedy.split("; ") if "--unsafe" not in p)
    return Finding(code, site.location, message, evidence, remedy)
