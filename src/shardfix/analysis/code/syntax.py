"""Why a file does not parse, in words that say what to do: which Python could, or that it is not Python."""

from __future__ import annotations

import re
import sys

_NEWER: tuple[tuple[str, str, str], ...] = (
    (r"^\s*type\s+\w+(\[[^\]]*\])?\s*=", "3.12", "a type statement needs"),
    (r"^\s*(async\s+)?(def|class)\s+\w+\[", "3.12", "type parameters need"),
    (r"(?<![\w'\"])[tT][rR]?(\"|')", "3.14", "a t-string needs"),
    (r"^\s*except\s+\w[\w.]*\s*,\s*\w[\w.]*(\s*,\s*\w[\w.]*)*\s*:", "3.14", "except without parentheses needs"),
    (r"^\s*except\s*\*", "3.11", "except* needs"),
    (r"(?<![\w'\"])[rR]?[fF][rR]?(\"|')", "3.12", "an f-string with nested quotes needs"),
)
_LEAVE_OUT = "leave the file out by `exclude` in [tool.shardfix]"


def explain_syntax_error(text: str, error: SyntaxError) -> tuple[str, str]:
    """Why the text does not parse, in one clause, and what to do about it."""
    lines = text.splitlines()
    line = lines[error.lineno - 1] if error.lineno and error.lineno <= len(lines) else ""
    running = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if re.match(r"\s*(%%?\w|!|\?|get_ipython)", line) or re.search(r"^\s*(%%?\w+|!\w)", text, re.M):
        return "not parsed: IPython magic", "export the notebook as plain Python (`jupyter nbconvert --to script`)"
    if re.match(r"\s*print\s+[^(=]", line) or (re.match(r"\s*except\s+\w+\s*,\s*\w+\s*:", line) and "print " in text):
        return f"not parsed: Python 2 syntax ({error.msg})", f"convert it to Python 3, or {_LEAVE_OUT}"
    for pattern, version, what in _NEWER:
        if re.search(pattern, line) and _older(running, version):
            remedy = f"run shardfix by Python {version} or later, or {_LEAVE_OUT}"
            return f"not parsed: {what} Python {version}, shardfix runs on {running}", remedy
    return f"not parsed by Python {running}: {error.msg}", f"correct it, or {_LEAVE_OUT}"


def _older(running: str, needed: str) -> bool:
    return tuple(map(int, running.split("."))) < tuple(map(int, needed.split(".")))
