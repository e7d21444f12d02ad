"""Why a site has no recipe: what only the project's own code could evaluate, and where it stands."""

from __future__ import annotations

from dataclasses import dataclass

from shardfix.analysis.model import Location

DEPTH = 16  # how many steps an expression is followed back


@dataclass(frozen=True, slots=True)
class Unproven:
    """Why no recipe can be made of a site, and where that is.

    ``project``: only the project's own code is missing, which may be imported where the user allows it.
    """

    reason: str
    where: Location
    project: bool = False

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


class Stop(Exception):
    """The slice ends at something that only the project's own code could evaluate."""

    def __init__(self, reason: str, where: Location, *, project: bool = False) -> None:
        super().__init__(reason)
        self.unproven = Unproven(reason, where, project)
