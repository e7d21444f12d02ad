"""Ignore patterns, read and matched exactly as git does (gitignore(5)), entry by entry on the way down a tree.

pathspec judges a path together with its parents, which differs from git where a folder is taken back in by ``!``
(``*/`` with ``!/src/``, ``data/**`` with ``!*.py``): here a folder's entries are only looked at if it is not ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

# The ASCII sets of git's wildmatch.
_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": r"\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e",
    "space": r" \t\n\r\f\v",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One pattern: what it matches, whether it takes back in (``!``), and what it is compared with."""

    regex: re.Pattern[str]
    ignores: bool
    folders_only: bool
    whole_path: bool


def parse(lines: Iterable[str]) -> tuple[Rule, ...]:
    """The rules of an ignore file's lines. Blank lines, comments and patterns that match nothing are left out."""
    return tuple(rule for rule in map(_rule, lines) if rule is not None)


def verdict(rules: tuple[Rule, ...], name: str, is_folder: bool) -> bool | None:
    """Whether an entry is ignored by the rules of one file; None if they don't speak of it. The last match decides.

    ``name`` is the entry's path from the ignore file's folder, with ``/``, in which no parent is ignored.
    """
    base = name.rpartition("/")[2]
    for rule in reversed(rules):
        if (is_folder or not rule.folders_only) and rule.regex.fullmatch(name if rule.whole_path else base):
            return rule.ignores
    return None


def _rule(line: str) -> Rule | None:
    if line.startswith("#"):
        return None
    ignores = not line.startswith("!")
    pattern = line if ignores else line[1:]
    while pattern.endswith(" ") and not pattern.endswith("\\ "):
        pattern = pattern[:-1]
    folders_only = pattern.endswith("/")
    pattern = pattern.removesuffix("/")
    whole_path = "/" in pattern
    source = _translate(pattern.removeprefix("/"))
    return Rule(re.compile(source, re.DOTALL), ignores, folders_only, whole_path) if source else None


def _translate(pattern: str) -> str | None:
    """A regular expression for a pattern, None if it can match nothing."""
    out = []
    at, end = 0, len(pattern)
    while at < end:
        char = pattern[at]
        if char == "*":
            stars = at
            while at < end and pattern[at] == "*":
                at += 1
            opens = stars == 0 or pattern[stars - 1] == "/"
            if at - stars >= 2 and opens and at == end:
                out.append(".+")
            elif at - stars >= 2 and opens and pattern[at : at + 1] == "/":
                out.append("(?:.*/)?")
                at += 1
            else:
                out.append("[^/]*")
            continue
        if char == "?":
            out.append("[^/]")
        elif char == "[":
            found = _bracket(pattern, at + 1)
            if found is None:
                return None
            source, at = found
            out.append(source)
            continue
        elif char == "\\":
            at += 1
            if at == end:
                return None
            out.append(re.escape(pattern[at]))
        else:
            out.append(re.escape(char))
        at += 1
    return "".join(out)


def _bracket(pattern: str, at: int) -> tuple[str, int] | None:
    """The character set that starts behind a ``[``, and where it ends; None if it never does."""
    negated = pattern[at : at + 1] in ("!", "^")
    at += negated
    parts = []
    first = True
    while first or pattern[at : at + 1] != "]":
        first = False
        if pattern.startswith("[:", at) and ":]" in pattern[at + 2 :]:
            close = pattern.index(":]", at + 2)
            known = _CLASSES.get(pattern[at + 2 : close])
            if known is None:
                return None
            parts.append(known)
            at = close + 2
            continue
        low, at = _member(pattern, at)
        if low is None:
            return None
        high: str | None = low
        if pattern[at : at + 1] == "-" and pattern[at + 1 : at + 2] not in ("]", ""):
            high, at = _member(pattern, at + 1)
            if high is None:
                return None
        if high is not None and low <= high:
            parts.append(f"{re.escape(low)}-{re.escape(high)}")
    inside = "".join(parts)
    if not inside:
        return ("[^/]" if negated else "(?!)"), at + 1
    return f"(?!/)[{'^' if negated else ''}{inside}]", at + 1


def _member(pattern: str, at: int) -> tuple[str | None, int]:
    if pattern[at : at + 1] == "\\":
        at += 1
    return (pattern[at], at + 1) if at < len(pattern) else (None, at)
