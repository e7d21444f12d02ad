"""From the paths of a command line to one result for each project: its root, its settings, the paths that lie in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from shardfix.config import Asked, Config, load
from shardfix.result import Problem, RunResult

Work = Callable[[Sequence[Path], Config], RunResult]


def each_project(paths: Sequence[Path], asked: Asked, work: Work) -> list[RunResult]:
    """Do some work on each project, in the order in which the projects are named.

    All settings are read before any work, so that a mistake in them ends the run before anything is written. Of
    several projects one that can't be done is a problem in its result: what was done to the others must be told.

    Raises:
        SourceError: a path that is not there.
        ConfigError: settings that can't be used.
    """
    from shardfix.sources.discover import project_root
    from shardfix.sources.text import SourceError

    found: dict[Path, list[Path]] = {}
    for path in paths or (Path("."),):
        if not path.exists():
            raise SourceError(path, reason="no such file or folder", remedy="correct the path")
        found.setdefault(project_root(path), []).append(path)
    ready = [(members, load(root, asked)) for root, members in found.items()]
    if len(ready) == 1:
        return [work(*ready[0])]
    return [_result(members, config, work) for members, config in ready]


def _result(paths: Sequence[Path], config: Config, work: Work) -> RunResult:
    try:
        return work(paths, config)
    except Exception as error:
        from shardfix.report.errors import line_of, told_by_shardfix

        if not told_by_shardfix(error):
            raise
        return RunResult(config.root, problems=(Problem(str(config.root), line_of(error)),))
