"""Why a file does not parse, in words that say what to do: which Python could, or that it is not Python."""

from __future__ import annotations

import re
import sys

_NEWER: tuple[tuple[str, str, str], ...] = (
    (r"^\s*type\s+\w+(\[[^\]]*\])?\s*=", "3.12", "a type statement"),
    (r"^\s*(async\s+)?(def|class)\s+\w+\[", "3.12", "type parameters"),
    (r"(?<![\w'\"])[tT][rR]?(\"|')", "3.14", "a t-string"),
    (r"^\s*except\s+\w[\w.]*\s*,\s*\w[\w.]*(\s*,\s*\w[\w.]*)*\s*:", "3.14", "except without parentheses"),
    (r"^\s*except\s*\*", "3.11", "except*"),
    (r"(?<![\w'\"])[rR]?[fF][rR]?(\"|')", "3.12", "an f-string with nested quotes"),
)


def explain_syntax_error(text: str, error: SyntaxError) -> str:
    """One clause that says why the text does not parse."""
    lines = text.splitlines()
    line = lines[error.lineno - 1] if error.lineno and error.lineno <= len(lines) else ""
    running = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if re.match(r"\s*(%%?\w|!|\?|get_ipython)", line) or re.search(r"^\s*(%%?\w+|!\w)", text, re.M):
        return "not parsed: IPython magic; export the notebook as plain Python"
    if re.match(r"\s*print\s+[^(=]", line) or (re.match(r"\s*except\s+\w+\s*,\s*\w+\s*:", line) and "print " in text):
        return f"not parsed: Python 2 syntax ({error.msg})"
    for pattern, version, what in _NEWER:
        if re.search(pattern, line) and _older(running, version):
            return f"not parsed: {what} needs Python {version}, shardfix runs on {running}"
    return f"not parsed by Python {running}: {error.msg}"


def _older(running: str, needed: str) -> bool:
    return tuple(map(int, running.split("."))) < tuple(map(int, needed.split(".")))
