"""Know files that other files are made of: their text is Python only once an engine (Jinja, Cookiecutter) filled it."""

from __future__ import annotations

import re

REASON = "a template"
_STRING = re.compile(r"""(?P<quote>["'])(?:[^\\]|\\.)*?(?P=quote)|\#.*""")
_TAG = re.compile(r"\{%[-+]?\s*\w[^%]*%\}|\{\{[-+]?\s*[A-Za-z_][^{}]*\}\}")


def named_so(name: str) -> bool:
    """Whether the name of a file or folder is still to be filled in: ``{{cookiecutter.name}}``."""
    return "{{" in name or "{%" in name


def breaks_at_tag(text: str, line: int) -> bool:
    """Whether what keeps a text from being parsed, in a line from 1, is a template's tag; not one within a string."""
    lines = re.split(r"\r\n|\r|\n", text)
    broken = lines[line - 1] if 0 < line <= len(lines) else ""
    return _TAG.search(_STRING.sub("", broken)) is not None
