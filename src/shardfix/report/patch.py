"""The new bytes of a run as one patch that a bare `git apply` takes."""

from __future__ import annotations

import os
from collections.abc import Iterator

from shardfix.result import FileChange, RunResult


def patch(result: RunResult) -> bytes:
    """The diffs of all files in order of path, those of new files last; empty if nothing changes.

    Names are relative to the top of the git repository around the project (git takes them so from any folder in it),
    and to the project itself where there is no repository.
    """
    return b"".join(diff for _, diff in diffs(result))


def diffs(result: RunResult) -> Iterator[tuple[FileChange, bytes]]:
    """Each changed file with its diff."""
    if not result.files:
        return
    from shardfix.rewrite.diff import unified_diff
    from shardfix.sources.git import repository

    top = repository(result.root)
    prefix = os.path.relpath(os.path.realpath(result.root), top) if top else "."
    for change in sorted(result.files, key=lambda change: (change.before is None, change.path)):
        name = os.path.normpath(os.path.join(prefix, change.path)).replace(os.sep, "/")
        yield change, unified_diff(name, change.before, change.after)
