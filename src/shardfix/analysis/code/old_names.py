"""Read files of Python up to 3.6, in which `async` is a name: `tensor.cuda(async=True)` is torch's of 2018.

The name is given another first letter that Python takes for the same one (it normalises names, after it has looked for
keywords), so that a tree of the text holds the name `async`, and every place in the text stays where it is.
"""

from __future__ import annotations

import re

_NAME = "async"
_STAND_IN = "\N{MATHEMATICAL BOLD SMALL A}sync"
_PIECES = re.compile(
    r"\#[^\r\n]*"
    r'|"""(?:[^\\]|\\.)*?"""'
    r"|'''(?:[^\\]|\\.)*?'''"
    r'|"(?:[^"\\\r\n]|\\(?:\r\n|.))*"'
    r"|'(?:[^'\\\r\n]|\\(?:\r\n|.))*'"
    r"|(?P<name>(?<!\w)async(?!\w|[ \t]+(?:def|for|with)\b))",
    re.DOTALL,
)


def readable(text: str) -> str | None:
    """The text with `async` as a name that this Python reads; None where it holds no such name."""
    if _NAME not in text or _STAND_IN in text:
        return None
    changed = _PIECES.sub(lambda piece: _STAND_IN if piece["name"] else piece[0], text)
    return changed if changed != text else None


def as_written(text: str) -> str:
    """A text of such a file as it stands in the file."""
    return text.replace(_STAND_IN, _NAME)


def is_old(text: str) -> bool:
    """Whether a text that was read is one of Python up to 3.6."""
    return _STAND_IN in text


__all__ = ["as_written", "is_old", "readable"]
