"""The files that run together with a file: of a project not all are one program."""

from __future__ import annotations

from shardfix.analysis.code.module import Module


def together(module: Module) -> list[Module]:
    """The files of the programs that a file is part of: what imports it, and so on, and what any of these imports.

    Two programs that share a file only, which imports neither, are not one.
    """
    project = module.project
    if project is None:
        return [module]
    found = [module.path]
    for links in (project.importers, project.imports):
        for path in found:  # grows while it is walked
            found += sorted(links.get(path, set()) - set(found))
    return [project.modules[path] for path in found if path in project.modules]


__all__ = ["together"]
