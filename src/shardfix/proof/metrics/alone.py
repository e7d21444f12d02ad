"""Whether a program may come to an evaluation in one process that has no process group."""

from __future__ import annotations

import ast
from itertools import pairwise

from shardfix.analysis.code.names import INIT_PROCESS_GROUP
from shardfix.analysis.programs.groups import group_at
from shardfix.analysis.sites import Site


def may_be_alone(site: Site) -> bool:
    """Whether a loader's program makes its process group under a condition, so that it may run without one.

    That its file is the one that is run is none, where the group is seen to be made on every way to the loader: started
    with one process, such a program has a group of one.
    """
    module, exists = site.module, group_at(site.module, site.call).exists
    if exists == "optional":
        return True
    for made in (c for c in module.calls if INIT_PROCESS_GROUP in module.callee(c)):
        for inner, outer in pairwise((made, *module.around(made))):
            if isinstance(outer, ast.If) and not (exists == "always" and _is_entry(outer, inner)):
                return True
    return False


def _is_entry(outer: ast.If, inner: ast.AST) -> bool:
    """``if __name__ == "__main__":`` around what it lets in."""
    return ast.unparse(outer.test) == "__name__ == '__main__'" and any(inner is s for s in outer.body)


__all__ = ["may_be_alone"]
