"""The cheapest question to a file: does it mention a word that makes it worth parsing?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from shardfix.sources.text import SourceError


def read(path: Path) -> bytes:
    """A file's bytes. Raises SourceError when it can't be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise SourceError(path, reason=f"cannot be read: {error.strerror}", remedy="correct its rights or exclude it")


def mentions(path: Path, needles: Sequence[bytes]) -> bytes | None:
    """The file's bytes if any of the needles occurs in them, else None; the file is read once.

    Needles are ASCII: in every encoding that Python source may have, ASCII text keeps its bytes.
    Raises SourceError when the file can't be read.
    """
    data = read(path)
    return data if any(needle in data for needle in needles) else None
