"""Which projects a batch takes: folders, globs and lists of them, each with a short name of its own."""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")
_GLOB = re.compile(r"[*?\[]")
_URL = re.compile(r"^(?:[a-z+]+://|[\w.-]+@[\w.-]+:)")


class ProjectsError(Exception):
    """What was asked for names no project, told in one line."""


@dataclass(frozen=True, slots=True)
class Project:
    """A folder to be taken as one project. ``name`` is the shortest slug of its path that no other project has."""

    path: Path
    name: str


def find(words: Sequence[str], lists: Sequence[tuple[str, Sequence[str]]] = ()) -> tuple[Project, ...]:
    """The projects that words name, in their order, each folder once.

    A word is a folder or a glob of folders (``**`` too); a folder that is not there is a project all the same, which
    then fails by itself. ``lists`` are files with such words, one a line (their name, their lines), ``#`` for comments.

    Raises ProjectsError for a glob that finds no folder, a file, or a URL.
    """
    folders: dict[str, Path] = {}
    listed = [(f"{name}:{number}: ", line) for name, lines in lists for number, line in enumerate(lines, start=1)]
    for where, word in [*(("", word) for word in words), *listed]:
        text = word.strip() if where else word
        if where and (not text or text.startswith("#")):
            continue
        for folder in _folders(text, where):
            folders.setdefault(os.path.realpath(folder), folder)
    names = slugs([Path(os.path.abspath(folder)) for folder in folders.values()])
    return tuple(Project(path, name) for path, name in zip(folders.values(), names, strict=True))


def _folders(word: str, where: str) -> list[Path]:
    if _URL.match(word):
        raise ProjectsError(f"{where}{word}: projects by URL are not supported; clone it and name the folder")
    path = Path(word)
    if path.is_dir():
        return [path]
    if _GLOB.search(word) and not os.path.lexists(path):
        found = [Path(match) for match in sorted(glob.glob(word, recursive=True)) if os.path.isdir(match)]
        if not found:
            raise ProjectsError(f"{where}{word}: matches no folder; correct the pattern")
        return found
    if path.exists():
        raise ProjectsError(f"{where}{word}: is a file, not a project folder; a list of folders goes to --from")
    return [path]


def slugs(paths: Sequence[Path]) -> list[str]:
    """For each absolute path its last parts, as few as tell it from all others, joined by hyphens.

    Unique also where case does not count. Paths that look alike whatever is taken get a number.
    """
    parts = [[part for part in (_fit(part) for part in path.parts) if part] or ["project"] for path in paths]
    depth = [1] * len(parts)
    while True:
        names = ["-".join(own[-taken:]) for own, taken in zip(parts, depth, strict=True)]
        count = Counter(name.casefold() for name in names)
        grow = [
            place for place, name in enumerate(names) if count[name.casefold()] > 1 and depth[place] < len(parts[place])
        ]
        if not grow:
            return _numbered(names)
        for place in grow:
            depth[place] += 1


def _fit(part: str) -> str:
    return _UNFIT.sub("-", part).strip("-.")


def _numbered(names: list[str]) -> list[str]:
    taken: set[str] = set()
    free = Counter(name.casefold() for name in names)
    result = []
    for name in names:
        own, number = name, 1
        while own.casefold() in taken or (number > 1 and own.casefold() in free):
            number += 1
            own = f"{name}-{number}"
        taken.add(own.casefold())
        result.append(own)
    return result
