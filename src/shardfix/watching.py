"""What the source says of the loaders that a run made: what they are for, and whether padding can reach a metric."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from shardfix.proof.observed import Watched

MOST_FILES = 1000  # of a project that is read for this; a run says enough without


@dataclass(frozen=True, slots=True)
class Spoken:
    """The role of a loader, and whether padded samples are kept out of what is measured."""

    role: str = "unknown"
    padding_removed: bool = False


def spoken_of(watched: Watched, script: Path) -> Mapping[str, Spoken]:
    """What the source says, by the names of the loaders; those whose line shows no loader are left out.

    ``script``: the program that ran; the facts come from the project that it lies in.
    """
    from shardfix.config import load
    from shardfix.planning import sites_of
    from shardfix.proving import padding_is_counted
    from shardfix.reading import read_project
    from shardfix.sources.discover import discover, project_root

    root = project_root(script)
    lines = {name: place for name in (one.loader for one in watched.loaders) if (place := _place(name, root))}
    config = load(root)
    if not lines or len(discover([root], root=root, exclude=config.exclude).files) > MOST_FILES:
        return {}
    reading = read_project((), config)
    paths = {path for path, _ in lines.values()}
    sites = {
        (site.location.path, site.location.line): site
        for found in sites_of(reading.project, paths, reading.options).values()
        for site in found
    }
    return {
        name: Spoken(site.role, not padding_is_counted(site))
        for name, place in lines.items()
        if (site := sites.get(place)) is not None
    }


def _place(name: str, root: Path) -> tuple[str, int] | None:
    """The file below the project's root and the line of ``train.py:41 (fn)#2``; None for what lies elsewhere."""
    path, _, rest = name.partition(".py:")
    digits = rest.partition(" ")[0].partition("#")[0]
    if not digits.isdigit():
        return None
    relative = os.path.relpath(os.path.abspath(f"{path}.py"), root)
    return None if relative.startswith(os.pardir) else (relative.replace(os.sep, "/"), int(digits))
