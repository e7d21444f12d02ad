"""An idiom as data: a small program whose gutter says what becomes of each line, and what becomes of its loaders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Sanitizer = Literal["changed", "all", "off"]


@dataclass(frozen=True)
class Idiom:
    """One way in which people write it, in its smallest form.

    Args:
        id: the idiom's number: C construction, S sampler, F where the loader goes, E epoch loop, V evaluation,
            W seen elsewhere; N a form of ``set_epoch``.
        title: the idiom in a few words.
        outcomes: by targets (``"auto ddp"``) what becomes of each loader, in order of file and line:
            ``"owner verdict CODE..."``, the codes of its changes first, then those of its findings.
        program: one file or several by path. A line starts with two columns: ``-`` for one that goes, ``+`` for one
            that comes, blank for one that stays. Where no outcome is ``edit`` nothing may change.
        sanitizer: which loaders get a run-time check.
        unsafe: whether ``--unsafe`` is given.
    """

    id: str
    title: str
    outcomes: Mapping[str, str | Sequence[str]]
    program: str | Mapping[str, str]
    sanitizer: Sanitizer = "off"
    unsafe: bool = False

    @property
    def files(self) -> dict[str, str]:
        """The marked text of each file."""
        files = {"train.py": self.program} if isinstance(self.program, str) else self.program
        return {path: text.lstrip("\n") for path, text in files.items()}

    def before(self) -> dict[str, str]:
        """The files as they are found."""
        return {path: _side(text, "-") for path, text in self.files.items()}

    def after(self) -> dict[str, str]:
        """The files as they are edited."""
        return {path: _side(text, "+") for path, text in self.files.items()}

    def expected(self, target: str) -> tuple[str, ...] | None:
        """The outcomes of the loaders under one target, None if this case says nothing of it."""
        for targets, outcome in self.outcomes.items():
            if target in targets.split():
                return (outcome,) if isinstance(outcome, str) else tuple(outcome)
        return None

    @property
    def edits(self) -> bool:
        """Whether the gutter marks any line."""
        return self.before() != self.after()


def everywhere(*outcomes: str) -> dict[str, tuple[str, ...]]:
    """The same outcome under every target."""
    return {"auto ddp accelerate": outcomes}


def edited(owner: str, *codes: str) -> dict[str, tuple[str, ...]]:
    """One loader, edited for its owner; a target that names another owner does not override it."""
    targets, other = ("auto ddp", "accelerate") if owner == "ddp" else ("auto accelerate", "ddp")
    return {targets: (" ".join([owner, "edit", *codes]),), other: (f"{owner} refused SHD926",)}


def _side(marked: str, sign: str) -> str:
    """One side of a marked text."""
    kept = []
    for line in marked.splitlines():
        if line[:2] not in ("", " ", "  ", "- ", "+ ", "-", "+"):
            raise ValueError(f"no gutter: {line!r}")
        if line[:1] in (sign, " ", ""):
            kept.append(line[2:] + "\n")
    return "".join(kept)
