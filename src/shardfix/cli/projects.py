"""From the paths of a command line to projects: each with its root, its settings and the paths that lie in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from shardfix.config import Asked, Config, load


def projects(paths: Sequence[Path], asked: Asked) -> Iterator[tuple[list[Path], Config]]:
    """The paths of each project, in the order in which the projects are named.

    All settings are read before the first project is handed out, so that a mistake in one ends the run before
    anything is written. Raises SourceError for a path that is not there, ConfigError for settings that can't be used.
    """
    from shardfix.sources.discover import project_root
    from shardfix.sources.text import SourceError

    found: dict[Path, list[Path]] = {}
    for path in paths or (Path("."),):
        if not path.exists():
            raise SourceError(path, reason="no such file or folder", remedy="correct the path")
        found.setdefault(project_root(path), []).append(path)
    ready = [(members, load(root, asked)) for root, members in found.items()]
    yield from ready
