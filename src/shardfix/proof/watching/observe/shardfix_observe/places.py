"""Where in the user's own code something happens: the innermost frame that belongs to no library."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from types import FrameType
from typing import NamedTuple

OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FRAMEWORKS = ("accelerate", "lightning", "lightning_fabric", "pytorch_lightning", "torch", "torchdata", "transformers")


class Place(NamedTuple):
    """A line of a file; ``via`` is the library function that acted for it, empty where the line did it itself."""

    path: str
    line: int
    via: str = ""


def _library_folders() -> tuple[str, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    found = {sysconfig.get_path(name) for name in names}
    if hasattr(site, "getsitepackages"):
        found.update(site.getsitepackages())
    if hasattr(site, "getusersitepackages"):
        found.add(site.getusersitepackages())
    return tuple(os.path.abspath(path) + os.sep for path in found if path)


LIBRARY = _library_folders()


def in_library(path: str) -> bool:
    """Whether a file belongs to Python, to an installed library or to this observer."""
    if path.startswith("<"):
        return True
    path = os.path.abspath(path)
    return path.startswith((OWN, *LIBRARY)) or "site-packages" in path or "dist-packages" in path


def _in_framework(path: str) -> bool:
    parts = path.replace("\\", "/").split("/")
    return path.startswith(("<", OWN)) or any(name in parts for name in FRAMEWORKS)


def user_place(made: object = None) -> Place:
    """The line of the user's code that is running now.

    ``made`` is an object under construction: the ``__init__`` of a class of the user's is not where it is made, nor is
    what Lightning puts around it. A program that is an installed package is taken for the user's
    if nothing else is.
    """
    frames = list(_frames(made))
    via = ""
    if frames and in_library(frames[0].f_code.co_filename):
        via = frames[0].f_code.co_name
    for belongs in (in_library, _in_framework):
        for frame in frames:
            if not belongs(frame.f_code.co_filename):
                return Place(os.path.abspath(frame.f_code.co_filename), frame.f_lineno, via)
    return Place("", 0, via)


def _frames(made: object) -> list[FrameType]:
    found = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        constructor = made is not None and bool(code.co_varnames) and frame.f_locals.get(code.co_varnames[0]) is made
        if not constructor and not code.co_filename.startswith(OWN):
            found.append(frame)
        frame = frame.f_back
    return found
