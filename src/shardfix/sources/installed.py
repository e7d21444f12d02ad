"""Which release of a library a project's own environment holds: read from its metadata folder, nothing is run."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FOLDERS = (".venv", "venv", "env", ".env")  # where tools and habit put a project's environment
_PACKAGES = ("lib/python*/site-packages", "lib/python*/dist-packages", "Lib/site-packages")
_VERSION = re.compile(r"Version: *(\S+)")


@dataclass(frozen=True, slots=True)
class Installed:
    """A release as an environment's metadata names it: the file, the line, and the version that stands there."""

    path: Path
    line: int
    version: str


def installed(name: str, root: Path, python: str | None = None) -> Installed | None:
    """The release of a library in the environment of a project; None where none is seen, or several disagree.

    Args:
        name: as the metadata spells it (``accelerate``).
        root: the project's folder. An environment in it (``.venv``) is its own; the one that shardfix runs in is not.
        python: an interpreter that the user named as the project's; its environment counts instead.
    """
    prefixes = _prefixes_of(python) if python is not None else _environments(root)
    found = [release for prefix in prefixes for release in _releases(name, prefix)]
    return found[0] if len({release.version for release in found}) == 1 else None


def _prefixes_of(python: str) -> list[Path]:
    """The folder of an interpreter's environment. A link is how an environment knows itself, so it is not followed."""
    place = shutil.which(python)
    return [Path(os.path.abspath(place)).parent.parent] if place is not None else []


def _environments(root: Path) -> list[Path]:
    return [root / name for name in _FOLDERS if (root / name / "pyvenv.cfg").is_file()]


def _releases(name: str, prefix: Path) -> Iterator[Installed]:
    for pattern in _PACKAGES:
        for folder in sorted(prefix.glob(f"{pattern}/{name}-*.dist-info")):
            metadata = folder / "METADATA"
            try:
                lines = metadata.read_text("utf-8", "replace").splitlines()
            except OSError:
                continue
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    break  # the description begins
                version = _VERSION.match(line)
                if version is not None:
                    yield Installed(metadata, number, version[1])
                    break
