"""Which file of a project a dotted name lies in, seen from a file that imports it: one rule for all that ask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

_File = TypeVar("_File")


class Places(Generic[_File]):
    """The files of a project by the dotted names of their modules.

    A name is looked for beside the importer, in the packages around that and at the top (scripts), each time also in a
    ``src`` there; the longest part of it that is a file decides. The names of modules leave the ``src`` of the
    project's root out, which may be a package itself (``from src.data import make``).
    """

    def __init__(self, by_name: Mapping[str, _File]) -> None:
        self._by_name = by_name
        self._heads = _heads(by_name)
        self._starts: dict[tuple[str, str], tuple[str, ...]] = {}
        self._known: dict[tuple[str, str], tuple[_File, str] | None] = {}

    def split(self, dotted: str, package: str) -> tuple[_File, str] | None:
        """The file that a name lies in, and the rest of the name; None where it is none of the project's.

        Args:
            package: that of the file which imports the name.
        """
        dotted = dotted.lstrip(".")  # `from . import data` at the project's root
        if dotted.startswith("src.") and not self._starts_of("src", ""):
            dotted = dotted.removeprefix("src.")
        key = (dotted, package)
        if key not in self._known:
            self._known[key] = self._split(dotted, package)
        return self._known[key]

    def _split(self, dotted: str, package: str) -> tuple[_File, str] | None:
        starts = self._starts_of(dotted.partition(".")[0], package)
        head, rest = dotted, ""
        while head and starts:
            for start in starts:
                found = self._by_name.get(start + head)
                if found is not None:
                    return found, rest
            head, _, last = head.rpartition(".")
            rest = f"{last}.{rest}" if rest else last
        return None

    def _starts_of(self, first: str, package: str) -> tuple[str, ...]:
        """What may stand before a name that begins so, seen from a package: nothing does for most, a library's."""
        key = (first, package)
        known = self._starts.get(key)
        if known is None:
            places = [start for outer in _outwards(package) for start in (outer, f"{outer}src.")]
            known = self._starts[key] = tuple(start for start in places if start + first in self._heads)
        return known


def _heads(names: Iterable[str]) -> frozenset[str]:
    """Every dotted name, and each of its beginnings: ``a.b.c``, ``a.b``, ``a``."""
    found: set[str] = set()
    for name in names:
        while name not in found:
            found.add(name)
            name = name.rpartition(".")[0]
    return frozenset(found)


def _outwards(package: str) -> Iterator[str]:
    """What to write before a name to look for it in a package, in those around it, and at the top."""
    while package:
        yield f"{package}."
        package = package.rpartition(".")[0]
    yield ""


__all__ = ["Places"]
