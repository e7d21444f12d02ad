"""Find the Python files of a project: by git where there is git, else by a walk that knows what git would ignore."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from shardfix.sources import ignore, templates
from shardfix.sources.git import git, repository
from shardfix.sources.text import SourceError

_SOURCE = ".py"
_NOTEBOOK = ".ipynb"
_ENVIRONMENT = "virtual environment"
_IS_NOTEBOOK = "a notebook: `jupyter nbconvert --to script` makes a file that is read"
# Folders that hold no code of the project, whatever the ignore files say. No reason: not worth a word.
_FOLDERS = {
    ".git": "",
    "__pycache__": "",
    ".ipynb_checkpoints": "notebook checkpoints",
    ".nox": _ENVIRONMENT,
    ".tox": _ENVIRONMENT,
    ".venv": _ENVIRONMENT,
    "node_modules": "installed packages",
    "site-packages": "installed packages",
}
# The ignore rules that hold in a folder, the outermost first, each with the folder it comes from.
_Rules = tuple[tuple[str, tuple[ignore.Rule, ...]], ...]
_UNREADABLE = re.compile(rb"^warning: could not open directory '(.*)': (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Discovery:
    """The files to read, and everything that was left out with the reason. All paths are absolute.

    ``notes`` say what else the user should know about how the files were found.
    """

    files: tuple[Path, ...]
    skipped: tuple[tuple[Path, str], ...]
    notes: tuple[str, ...] = ()


def project_root(path: Path) -> Path:
    """The nearest folder at or above a path with a ``pyproject.toml`` or ``.git``, else the path's own folder."""
    start = Path(os.path.abspath(path))
    if not start.is_dir():
        start = start.parent
    for folder in (start, *start.parents):
        if (folder / "pyproject.toml").is_file() or os.path.lexists(folder / ".git"):
            return folder
    return start


def discover(paths: Sequence[Path], *, root: Path, exclude: Sequence[str] = ()) -> Discovery:
    """The Python files at and below the paths.

    A path that is a file is always taken, a path that is a folder is always looked into; the rules (git's ignores,
    environments, caches, links, ``exclude``) hold for what is found below. ``exclude`` are gitignore-style patterns,
    relative to ``root``. Raises SourceError for a path that does not exist.
    """
    search = _Search(root, exclude)
    for path in paths:
        place = os.path.abspath(path)
        if os.path.isdir(place):
            search.folder(place)
        elif os.path.exists(place):
            search.named(place)
        else:
            raise SourceError(path, reason="no such file or folder", remedy="correct the path")
    search.follow_links()
    return Discovery(
        tuple(sorted(map(Path, search.files.values()))),
        tuple(sorted((Path(path), reason) for path, reason in search.skipped.items())),
        tuple(search.notes),
    )


class _Search:
    """What has been found so far."""

    def __init__(self, root: Path, exclude: Sequence[str]) -> None:
        self.root = os.path.abspath(root)
        self.real_root = os.path.realpath(root)
        self.exclude = ignore.parse(exclude)
        self.files: dict[str, str] = {}  # by real path, so that nothing is read or written twice
        self.skipped: dict[str, str] = {}
        self.notes: list[str] = []
        self.links: dict[str, str] = {}  # symbolic links to files, with the folder below which they were found
        self.verdicts: dict[str, str | None] = {}
        self.real_top = ""

    def named(self, path: str) -> None:
        """Take a file that the user named."""
        if path.endswith(_NOTEBOOK):
            self.notebook(path)
        else:
            self.files[os.path.realpath(path)] = path

    def folder(self, top: str) -> None:
        """Take what is below a folder that the user named."""
        listed = self.listed_by_git(top) if repository(Path(top)) else None
        self.verdicts = {top: None}
        self.real_top = os.path.realpath(top).rstrip(os.sep)
        for path in _walk(self, top) if listed is None else listed:
            self.found(path, top)

    def listed_by_git(self, top: str) -> Iterator[str] | None:
        """Every file that git knows or would add; None where git can't say."""
        place = Path(top)
        try:
            cached = git(["ls-files", "-z", "--stage"], place)
            others = git(["ls-files", "-z", "--others", "--exclude-standard"], place)
            if not cached.stdout and not others.stdout:
                inside = git(["check-ignore", "-q", "."], place, check=False)
                if inside.returncode == 0:
                    self.notes.append(f"{top} is ignored by git; read because it was named")
                    return None
        except SourceError as error:
            if "not a git repository" not in error.reason:  # a folder .git alone makes none
                self.notes.append(f"read without git, by .gitignore files alone: {error}")
            return None
        for name, reason in _UNREADABLE.findall(others.stderr):
            self.skipped[os.path.join(top, os.fsdecode(name).rstrip("/"))] = f"cannot be read: {reason.decode()}"
        return self.entries(top, cached.stdout, others.stdout)

    def entries(self, top: str, cached: bytes, others: bytes) -> Iterator[str]:
        """The sources and links in git's two listings; a file in conflict comes once a stage."""
        for row in cached.split(b"\0"):
            mode, _, name = row.partition(b" ")
            path = os.path.join(top, os.fsdecode(name.partition(b"\t")[2]))
            if mode == b"160000":
                self.skip_nested(path, top)
            elif mode == b"120000" or path.endswith((_SOURCE, _NOTEBOOK)):
                yield path
        for row in others.split(b"\0"):
            path = os.path.join(top, os.fsdecode(row))
            if row.endswith(b"/"):
                self.skip_nested(path.rstrip("/"), top)
            elif row and (path.endswith((_SOURCE, _NOTEBOOK)) or os.path.islink(path)):
                yield path

    def skip_nested(self, path: str, top: str) -> None:
        if not self.outside(path, top):
            self.skipped[path] = "submodule or repository of its own: name it to have it read"

    def found(self, path: str, top: str) -> None:
        """Judge a file or link that was found below ``top``."""
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            return  # tracked by git, deleted on disk
        if not (stat.S_ISLNK(mode) or path.endswith((_SOURCE, _NOTEBOOK))) or self.outside(os.path.dirname(path), top):
            return
        if stat.S_ISLNK(mode):
            if os.path.isdir(path):
                self.skipped[path] = "symbolic link to a folder: not followed"
            elif path.endswith(_SOURCE):
                self.links[path] = top
        elif self.excluded(path):
            self.skipped[path] = "excluded by configuration"
        elif templates.named_so(os.path.basename(path)):
            self.skipped[path] = templates.REASON
        elif path.endswith(_NOTEBOOK):
            self.notebook(path)
        elif stat.S_ISREG(mode):
            # No folder between is a link, so that only the way to the top has to be resolved.
            self.files.setdefault(self.real_top + path[len(top) :], path)
        else:
            self.skipped[path] = "not a regular file"

    def outside(self, folder: str, top: str) -> bool:
        """Whether a folder, or one between it and ``top``, holds no code of the project; says so once."""
        trail = []
        while folder not in self.verdicts and len(folder) > len(top):
            trail.append(folder)
            folder = os.path.dirname(folder)
        reason = self.verdicts.get(folder)
        for below in reversed(trail):
            if reason is None:
                reason = self.folder_reason(below)
                if reason:
                    self.skipped[below] = reason
            self.verdicts[below] = reason
        return reason is not None

    def folder_reason(self, folder: str) -> str | None:
        reason = _FOLDERS.get(os.path.basename(folder))
        if reason is not None:
            return reason
        if os.path.islink(folder):  # git still lists what was tracked below a folder that has become a link
            return "symbolic link to a folder: not followed"
        if os.path.lexists(os.path.join(folder, "pyvenv.cfg")) or os.path.isdir(os.path.join(folder, "conda-meta")):
            return _ENVIRONMENT
        if self.excluded(folder, True):
            return "excluded by configuration"
        return templates.REASON if templates.named_so(os.path.basename(folder)) else None

    def excluded(self, path: str, is_folder: bool = False) -> bool:
        if not self.exclude or not _within(path, self.root):
            return False
        name = os.path.relpath(path, self.root).replace(os.sep, "/")
        return bool(ignore.verdict(self.exclude, name, is_folder))

    def notebook(self, path: str) -> None:
        """Notebooks are not read yet; one that has loaders is not passed over in silence."""
        try:
            with open(path, "rb") as file:
                if b"DataLoader" in file.read():
                    self.skipped[path] = _IS_NOTEBOOK
        except OSError as error:
            self.skipped[path] = f"cannot be read: {error.strerror}"

    def follow_links(self) -> None:
        """Links to files, judged when all that is read by its own name is known."""
        for path, top in sorted(self.links.items()):
            real = os.path.realpath(path)
            if self.excluded(path):
                self.skipped[path] = "excluded by configuration"
            elif not os.path.exists(real):
                self.skipped[path] = "symbolic link to a file that is not there"
            elif not (_within(real, self.real_root) or _within(real, os.path.realpath(top))):
                self.skipped[path] = f"symbolic link out of the tree, to {real}"
            elif real in self.files:
                if self.files[real] != path:
                    self.skipped[path] = f"symbolic link to {self.files[real]}, which is read by its own name"
            else:
                self.files[real] = path


def _walk(search: _Search, top: str) -> Iterator[str]:
    """Every file and link below a folder that no ``.gitignore`` between ``root`` and it ignores."""
    above = _rules_above(search.root, top)
    pending: list[tuple[str, _Rules]] = [(top, above)]
    while pending:
        folder, rules = pending.pop()
        try:
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            search.skipped[folder] = f"cannot be read: {error.strerror}"
            continue
        if any(entry.name == ".gitignore" and entry.is_file(follow_symlinks=False) for entry in entries):
            rules += _rules_of(folder)
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if not (is_folder or entry.is_symlink() or entry.name.endswith((_SOURCE, _NOTEBOOK))):
                continue
            if is_folder and entry.name in _FOLDERS and search.outside(entry.path, top):
                continue
            if _ignored(entry.path, is_folder, rules):
                continue
            if not is_folder:
                yield entry.path
            elif not search.outside(entry.path, top):
                pending.append((entry.path, rules))


def _rules_above(root: str, top: str) -> _Rules:
    """The rules of the folders from ``root`` down to above ``top``; none if they ignore ``top``, which was named."""
    if top == root or not _within(top, root):
        return ()
    rules: _Rules = ()
    folder = root
    for name in os.path.relpath(top, root).split(os.sep):
        rules += _rules_of(folder)
        folder = os.path.join(folder, name)
        if _ignored(folder, True, rules):
            return ()
    return rules


def _rules_of(folder: str) -> _Rules:
    path = os.path.join(folder, ".gitignore")
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):  # git does not follow a linked .gitignore either
            return ()
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return ()
    lines = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").split(b"\n")
    return ((folder, ignore.parse(map(os.fsdecode, lines))),)


def _ignored(path: str, is_folder: bool, rules: _Rules) -> bool:
    """Whether git would ignore an entry of a folder that is not ignored itself: the nearest rules decide first."""
    for folder, own in reversed(rules):
        name = os.path.relpath(path, folder).replace(os.sep, "/")
        verdict = ignore.verdict(own, name, is_folder)
        if verdict is not None:
            return verdict
    return False


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
