"""How a codemod says that it leaves a site alone, or that something about it is dangerous."""

from __future__ import annotations

import ast

from shardfix.analysis.model import Evidence, Finding
from shardfix.analysis.refusals import REFUSALS
from shardfix.analysis.sites import Site


def lengths(site: Site, what: str) -> tuple[str, ...]:
    """The lines that read ``len(loader)``, as a consequence of a change of the number of steps."""
    lines = sorted({u.node.lineno for u in site.flow.of("length") if isinstance(u.node, ast.Call)})
    if not lines:
        return ()
    return (f"len(loader) is read in line {', '.join(map(str, lines))}: {what}",)


def refuse(site: Site, code: str, *, note: str = "", instead: str = "", evidence: tuple[Evidence, ...] = ()) -> Finding:
    """A refusal with its one reason, the lines that show it, and what the user can do.

    Args:
        note: more to the reason's title.
        instead: the reason in other words than the title's, where those are not true.
    """
    refusal = REFUSALS[code]
    message = instead or refusal.title + (f": {note}" if note else "")
    return Finding(code, site.location, message, evidence, refusal.remedy)
