"""The journal of a write to many files: what lets the next run find an interrupted one, and finish or undo it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardfix.sources.git import git_dir, repository
from shardfix.sources.text import SourceError

BINARY = getattr(os, "O_BINARY", 0)
COMMIT = b'{"commit": true}\n'
_FLAGS = os.O_RDWR | BINARY | getattr(os, "O_NOFOLLOW", 0)


@dataclass(frozen=True, slots=True)
class Pending:
    """A write that did not come to its end.

    ``committed``: everything was staged, so it can be finished; else no file has been touched yet.
    ``running``: the process that writes is still at work.
    """

    journal: Path
    files: tuple[Path, ...]
    committed: bool
    running: bool


@dataclass(frozen=True, slots=True)
class Recovery:
    """What was done about a pending write: files that now have the new bytes, the old ones, or neither (and why)."""

    finished: tuple[Path, ...]
    rolled_back: tuple[Path, ...]
    left: tuple[tuple[Path, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """One file's part: where it goes, where it is staged, the digests of its old bytes (None: no file) and its new."""

    path: str
    staged: str
    old: str | None
    new: str


@contextmanager
def journalled(base: str, steps: list[Step]) -> Iterator[tuple[Path, int]]:
    """Make and hold the journal. It is there, whole and on the disk, before the first staged file is."""
    import json

    journal = _journal_path(base)
    while True:
        try:
            fd = os.open(journal, os.O_RDWR | os.O_CREAT | os.O_EXCL | BINARY, 0o600)
        except FileExistsError:
            found = pending(Path(base))
            if found is not None and found.running:
                raise SourceError(journal, reason="another run of shardfix is writing here", remedy="wait for its end")
            raise SourceError(
                journal,
                reason="an interrupted write is pending",
                remedy="finish or undo it by running shardfix migrate again",
            )
        except OSError as error:
            raise SourceError(journal, reason=f"cannot be written: {error.strerror}", remedy="correct the rights there")
        if _lock(fd) and os.fstat(fd).st_nlink:
            break
        os.close(fd)  # another run took the still empty journal for an abandoned one
    try:
        rows = [
            [os.path.relpath(step.path, base), os.path.relpath(step.staged, base), step.old, step.new] for step in steps
        ]
        try:
            append(fd, json.dumps({"shardfix": 1, "files": rows}).encode() + b"\n")
        except OSError as error:
            remove(journal)
            raise SourceError(journal, reason=f"cannot be written: {error.strerror}", remedy="make space there")
        sync_folders([str(journal)])
        yield journal, fd
    finally:
        os.close(fd)


def pending(root: Path) -> Pending | None:
    """The write below a project root that was interrupted or is still running, if there is one. Changes nothing."""
    base = os.path.realpath(root)
    journal = _journal_path(base)
    try:
        fd = os.open(journal, _FLAGS)
    except OSError:
        return None
    try:
        running = not _lock(fd)
        steps, committed = _read_journal(fd, base)
        return Pending(journal, tuple(Path(step.path) for step in steps), committed, running)
    finally:
        os.close(fd)


def recover(root: Path) -> Recovery | None:
    """Bring an interrupted write to its end; None if there is none.

    If all was staged it is finished, else undone. A file that someone changed in between is left as it is and
    reported; if nothing else had been written by then, the whole is undone. Raises SourceError while the write is
    still running, or if a file can't be written: then the journal stays, for the next try.
    """
    base = os.path.realpath(root)
    journal = _journal_path(base)
    try:
        fd = os.open(journal, _FLAGS)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SourceError(journal, reason=f"cannot be read: {error.strerror}", remedy="correct its rights")
    try:
        if not _lock(fd):
            raise SourceError(journal, reason="another run of shardfix is writing here", remedy="wait for its end")
        if os.fstat(fd).st_nlink == 0:
            return None
        steps, committed = _read_journal(fd, base)
        try:
            result = _resume(steps, committed)
        except OSError as error:
            where = error.filename or journal
            raise SourceError(where, reason=f"cannot be written: {error.strerror}", remedy="correct that, run again")
        sync_folders(step.path for step in steps)
        remove(journal)
        return result
    finally:
        os.close(fd)


def _read_journal(fd: int, base: str) -> tuple[list[Step], bool]:
    """The steps of a journal, and whether all of them were staged. One that is cut short has staged nothing.

    A journal may have come with someone else's project, so it is not trusted to name anything outside of the root.
    """
    import json

    os.lseek(fd, 0, os.SEEK_SET)
    with os.fdopen(fd, "rb", closefd=False) as file:
        first, _, rest = file.read().partition(b"\n")
    try:
        content: Any = json.loads(first)
        steps = [
            Step(os.path.join(base, path), os.path.join(base, staged), old, new)
            for path, staged, old, new in content["files"]
        ]
    except (ValueError, TypeError, KeyError):
        return [], False
    for step in steps:
        staged = os.path.basename(step.staged)
        same_folder = os.path.dirname(step.staged) == os.path.dirname(step.path)
        named = staged.startswith(".shardfix-") and staged.endswith(".tmp")
        in_tree = os.path.realpath(step.path) == step.path and within(step.path, base)
        if not (same_folder and named and in_tree):
            reason = "the journal of an interrupted write is not one that shardfix wrote"
            raise SourceError(_journal_path(base), reason=reason, remedy="look at it and remove it")
    return steps, rest == COMMIT


def _resume(steps: list[Step], committed: bool) -> Recovery:
    now = {step: digest_of(step.path) for step in steps}
    moved = any(now[step] == step.new for step in steps)
    ready = {step for step in steps if now[step] == step.old and digest_of(step.staged) == step.new}
    forward = committed and (moved or len(ready) == len(steps))
    finished, rolled_back, left = [], [], []
    for step in steps:
        path = Path(step.path)
        if now[step] == step.new:
            finished.append(path)
        elif forward and step in ready:
            put(step)
            finished.append(path)
        elif now[step] == step.old and not forward:
            rolled_back.append(path)
        elif now[step] == step.old:
            left.append((path, "has its old bytes: what was staged for it is gone"))
        else:
            left.append((path, "changed by someone else since: left as it is"))
        remove(step.staged)
    return Recovery(tuple(finished), tuple(rolled_back), tuple(left))


def put(step: Step) -> None:
    """Let the staged file take its place; a new file never takes another's."""
    if step.old is None:
        try:
            os.link(step.staged, step.path)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            if os.path.lexists(step.path):
                raise FileExistsError(errno.EEXIST, "something else has come to be there", step.path)
        else:
            os.unlink(step.staged)
            return
    os.replace(step.staged, step.path)


def _journal_path(base: str) -> Path:
    """Inside ``.git``, where it litters nothing, else in the root. Projects of one repository have one each."""
    inside = git_dir(Path(base))
    if inside is None:
        return Path(base) / ".shardfix-journal.json"
    if str(repository(Path(base))) == base:
        return inside / "shardfix-journal.json"
    return inside / f"shardfix-journal-{digest(os.fsencode(base))[:12]}.json"


def append(fd: int, data: bytes) -> None:
    if os.write(fd, data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(fd)


def _lock(fd: int) -> bool:
    """Hold the journal for as long as it is open, so that a running write is told from an interrupted one."""
    try:
        import fcntl
    except ImportError:  # Windows: an open file can't be removed there, which protects a running write too
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def sync_folders(files: Iterable[str]) -> None:
    """Make renames outlast a power cut."""
    for folder in sorted({os.path.dirname(file) for file in files}):
        with suppress(OSError):  # Windows opens no folders
            fd = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)


def remove(path: str | Path) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)


def within(path: str, base: str) -> bool:
    return path.startswith(base.rstrip(os.sep) + os.sep)


def digest(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()


def digest_of(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            return digest(file.read())
    except (FileNotFoundError, NotADirectoryError):
        return None
