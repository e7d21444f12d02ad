"""Write many files as one step: staged, journalled, renamed; killed at any moment, each file is old or new."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardfix.sources.discover import project_root
from shardfix.sources.git import git_dir, repository
from shardfix.sources.text import SourceError

_COMMIT = b'{"commit": true}\n'
_BINARY = getattr(os, "O_BINARY", 0)
_FLAGS = _BINARY | getattr(os, "O_NOFOLLOW", 0)


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
class _Step:
    """One file's part: where it goes, where it is staged, the digests of what was there (None: nothing) and comes."""

    path: str
    staged: str
    old: str | None
    new: str


@dataclass(frozen=True, slots=True)
class _Change:
    """A step with the bytes, and the path as the caller gave it."""

    step: _Step
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
    with _journal(base, [change.step for change in planned]) as (journal, fd):
        at = planned[0]
        done: list[_Change] = []
        try:
            for at in planned:
                _stage(at.step, at.new, at.given)
            _unchanged(planned)
            _append(fd, _COMMIT)
            for at in planned:
                _put(at.step)
                done.append(at)
        except BaseException as error:
            _take_back(done, planned, journal)
            if isinstance(error, OSError):
                reason = f"cannot be written: {error.strerror}; no file was changed"
                raise SourceError(at.given, reason=reason, remedy="correct the rights or the space there, run again")
            raise
        _sync_folders(change.step.path for change in planned)
        _remove(journal)


def pending(root: Path) -> Pending | None:
    """The write below a project root that was interrupted or is still running, if there is one. Changes nothing."""
    base = os.path.realpath(root)
    journal = _journal_path(base)
    try:
        fd = os.open(journal, os.O_RDWR | _FLAGS)
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
        fd = os.open(journal, os.O_RDWR | _FLAGS)
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
        _sync_folders(step.path for step in steps)
        _remove(journal)
        return result
    finally:
        os.close(fd)


def _resume(steps: list[_Step], committed: bool) -> Recovery:
    now = {step: _digest_of(step.path) for step in steps}
    moved = any(now[step] == step.new for step in steps)
    ready = {step for step in steps if now[step] == step.old and _digest_of(step.staged) == step.new}
    forward = committed and (moved or len(ready) == len(steps))
    finished, rolled_back, left = [], [], []
    for step in steps:
        path = Path(step.path)
        if now[step] == step.new:
            finished.append(path)
        elif forward and step in ready:
            _put(step)
            finished.append(path)
        elif now[step] == step.old and not forward:
            rolled_back.append(path)
        elif now[step] == step.old:
            left.append((path, "has its old bytes: what was staged for it is gone"))
        else:
            left.append((path, "changed by someone else since: left as it is"))
        _remove(step.staged)
    return Recovery(tuple(finished), tuple(rolled_back), tuple(left))


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
        step = _Step(target, staged, None if old is None else _digest(old), _digest(new))
        planned[target] = _Change(step, path, old, new)
    return list(planned.values())


def _target(path: Path, base: str) -> str:
    """The file that a path stands for, links resolved, which has to lie in the tree."""
    target = os.path.realpath(path)
    if not _within(target, base):
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


def _stage(step: _Step, data: bytes, path: Path) -> None:
    """Write the new bytes beside the file, with its mode and owner, and on to the disk."""
    like = None if step.old is None else os.stat(step.path)
    if like is not None and not os.access(step.path, os.W_OK):
        raise SourceError(
            path, reason="is write-protected; no file was changed", remedy="make it writable or exclude it"
        )
    fd = os.open(step.staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o666 if like is None else 0o600)
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


def _put(step: _Step) -> None:
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


def _take_back(done: Sequence[_Change], planned: Sequence[_Change], journal: Path) -> None:
    """Give the files that were written their old bytes again, unless someone has changed them meanwhile."""
    for change in done:
        step = change.step
        try:
            if _digest_of(step.path) != step.new:
                continue
            if change.old is None:
                _remove(step.path)
            else:
                _stage(step, change.old, change.given)
                os.replace(step.staged, step.path)
        except OSError as error:
            reason = f"is written, others are not, and it can't be taken back: {error.strerror}"
            raise SourceError(change.given, reason=reason, remedy="correct that and run shardfix again, which finishes")
    for change in planned:
        _remove(change.step.staged)
    _remove(journal)


@contextmanager
def _journal(base: str, steps: list[_Step]) -> Iterator[tuple[Path, int]]:
    """Make and hold the journal. It is there, whole and on the disk, before the first staged file is."""
    import json

    journal = _journal_path(base)
    while True:
        try:
            fd = os.open(journal, os.O_RDWR | os.O_CREAT | os.O_EXCL | _BINARY, 0o600)
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
        rows = [[_name(step.path, base), _name(step.staged, base), step.old, step.new] for step in steps]
        try:
            _append(fd, json.dumps({"shardfix": 1, "files": rows}).encode() + b"\n")
        except OSError as error:
            _remove(journal)
            raise SourceError(journal, reason=f"cannot be written: {error.strerror}", remedy="make space there")
        _sync_folders([str(journal)])
        yield journal, fd
    finally:
        os.close(fd)


def _journal_path(base: str) -> Path:
    """Inside ``.git``, where it litters nothing, else in the root. Projects of one repository have one each."""
    inside = git_dir(Path(base))
    if inside is None:
        return Path(base) / ".shardfix-journal.json"
    if str(repository(Path(base))) == base:
        return inside / "shardfix-journal.json"
    return inside / f"shardfix-journal-{_digest(os.fsencode(base))[:12]}.json"


def _read_journal(fd: int, base: str) -> tuple[list[_Step], bool]:
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
            _Step(os.path.join(base, path), os.path.join(base, staged), old, new)
            for path, staged, old, new in content["files"]
        ]
    except (ValueError, TypeError, KeyError):
        return [], False
    for step in steps:
        staged = os.path.basename(step.staged)
        same_folder = os.path.dirname(step.staged) == os.path.dirname(step.path)
        named = staged.startswith(".shardfix-") and staged.endswith(".tmp")
        if (
            not (same_folder and named)
            or os.path.realpath(step.path) != step.path
            or _target(Path(step.path), base) == ""
        ):
            reason = "the journal of an interrupted write is not one that shardfix wrote"
            raise SourceError(_journal_path(base), reason=reason, remedy="look at it and remove it")
    return steps, rest == _COMMIT


def _append(fd: int, data: bytes) -> None:
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


def _sync_folders(files: Iterable[str]) -> None:
    """Make renames outlast a power cut."""
    for folder in sorted({os.path.dirname(file) for file in files}):
        with suppress(OSError):  # Windows opens no folders
            fd = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)


def _remove(path: str | Path) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)


def _within(path: str, base: str) -> bool:
    return path.startswith(base.rstrip(os.sep) + os.sep)


def _name(path: str, base: str) -> str:
    return os.path.relpath(path, base)


def _digest(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()


def _digest_of(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            return _digest(file.read())
    except (FileNotFoundError, NotADirectoryError):
        return None
