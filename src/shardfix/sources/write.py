"""Write many files as one step: staged, journalled, renamed; killed at any moment, each file is old or new."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from shardfix.sources.discover import project_root
from shardfix.sources.journal import (
    BINARY,
    COMMIT,
    Pending,
    Recovery,
    Step,
    append,
    digest,
    digest_of,
    journalled,
    pending,
    put,
    recover,
    remove,
    sync_folders,
    within,
)
from shardfix.sources.text import SourceError

__all__ = ["Pending", "Recovery", "pending", "recover", "write_all"]


@dataclass(frozen=True, slots=True)
class _Change:
    """A step with the bytes, and the path as the caller gave it."""

    step: Step
    given: Path
    old: bytes | None
    new: bytes


def write_all(
    changes: Mapping[Path, bytes],
    *,
    originals: Mapping[Path, bytes | None],
    root: Path | None = None,
) -> None:
    """Give files new bytes, all or none.

    ``originals`` has the bytes that each change was made from, None for a file that is to be new. Modes are kept,
    links inside the tree are kept and written through. ``root`` (default: the first file's project) bounds the tree
    and has the journal.

    Raises SourceError, with nothing changed, if a file is no longer what it was made from, would overwrite something
    else, lies outside of ``root`` by a link or otherwise, can't be written, or if an earlier write is still pending.
    """
    wanted = {path: data for path, data in changes.items() if originals[path] != data}
    if not wanted:
        return
    base = os.path.realpath(root if root is not None else project_root(next(iter(wanted))))
    planned = _planned(wanted, originals, base)
    _unchanged(planned)
    if not planned:
        return
    with journalled(base, [change.step for change in planned]) as (journal, fd):
        at = planned[0]
        done: list[_Change] = []
        try:
            for at in planned:
                _stage(at.step, at.new, at.given)
            _unchanged(planned)
            append(fd, COMMIT)
            for at in planned:
                put(at.step)
                done.append(at)
        except BaseException as error:
            _take_back(done, planned, journal)
            if isinstance(error, OSError):
                reason = f"cannot be written: {error.strerror}; no file was changed"
                raise SourceError(at.given, reason=reason, remedy="correct the rights or the space there, run again")
            raise
        sync_folders(change.step.path for change in planned)
        remove(journal)


def _planned(wanted: Mapping[Path, bytes], originals: Mapping[Path, bytes | None], base: str) -> list[_Change]:
    token = os.urandom(4).hex()
    planned: dict[str, _Change] = {}
    for number, (path, new) in enumerate(wanted.items()):
        target = _target(path, base)
        if target in planned:
            raise SourceError(path, reason=f"is the same file as {planned[target].given}", remedy="give it once")
        old = originals[path]
        if old is None and _content(target, path) == new:
            continue
        staged = os.path.join(os.path.dirname(target), f".shardfix-{token}-{number}.tmp")
        step = Step(target, staged, None if old is None else digest(old), digest(new))
        planned[target] = _Change(step, path, old, new)
    return list(planned.values())


def _target(path: Path, base: str) -> str:
    """The file that a path stands for, links resolved, which has to lie in the tree."""
    target = os.path.realpath(path)
    if not within(target, base):
        kind = "is a symbolic link that leads" if os.path.islink(path) else "lies"
        reason = f"{kind} out of the project {base}"
        raise SourceError(path, reason=reason, remedy="run shardfix in the project that has the file")
    return target


def _content(target: str, path: Path) -> bytes | None:
    """The bytes of a file, None if there is none."""
    try:
        if not stat.S_ISREG(os.lstat(target).st_mode):
            raise SourceError(path, reason="is not a regular file", remedy="move it out of the way")
        with open(target, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SourceError(path, reason=f"cannot be read: {error.strerror}", remedy="correct its rights")


def _unchanged(planned: Sequence[_Change]) -> None:
    """Refuse if a file is not what its change was made from."""
    for change in planned:
        now = _content(change.step.path, change.given)
        if now == change.old:
            continue
        if change.old is None:
            reason, remedy = "is there already and holds something else", "move it out of the way"
        else:
            what = "is gone" if now is None else "was changed by someone else"
            reason, remedy = f"{what} since it was read; no file was changed", "run shardfix again"
        raise SourceError(change.given, reason=reason, remedy=remedy)


def _stage(step: Step, data: bytes, path: Path) -> None:
    """Write the new bytes beside the file, with its mode and owner, and on to the disk."""
    like = None if step.old is None else os.stat(step.path)
    if like is not None and not os.access(step.path, os.W_OK):
        raise SourceError(
            path, reason="is write-protected; no file was changed", remedy="make it writable or exclude it"
        )
    fd = os.open(step.staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, 0o666 if like is None else 0o600)
    try:
        with os.fdopen(fd, "wb", closefd=False) as file:
            file.write(data)
        if like is not None and hasattr(os, "fchown"):
            with suppress(OSError):
                os.fchown(fd, like.st_uid, like.st_gid)
        if like is not None:
            os.chmod(step.staged, stat.S_IMODE(like.st_mode))
        os.fsync(fd)
    finally:
        os.close(fd)


def _take_back(done: Sequence[_Change], planned: Sequence[_Change], journal: Path) -> None:
    """Give the files that were written their old bytes again, unless someone has changed them meanwhile."""
    for change in done:
        step = change.step
        try:
            if digest_of(step.path) != step.new:
                continue
            if change.old is None:
                remove(step.path)
            else:
                _stage(step, change.old, change.given)
                os.replace(step.staged, step.path)
        except OSError as error:
            reason = f"is written, others are not, and it can't be taken back: {error.strerror}"
            raise SourceError(change.given, reason=reason, remedy="correct that and run shardfix again, which finishes")
    for change in planned:
        remove(change.step.staged)
    remove(journal)
