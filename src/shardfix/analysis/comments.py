"""What the user says in the source: ``# shardfix: keep[CODE] reason`` and ``# shardfix: owner=NAME``."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from shardfix.analysis.model import Location, Owner
from shardfix.analysis.module import Module

_COMMENT = re.compile(r"#\s*shardfix:\s*(?P<word>.*)$")
_KEEP = re.compile(r"keep(?:\[(?P<codes>[^\]]*)\])?\s*(?P<reason>.*)$")
_OWNER = re.compile(r"owner\s*=\s*(?P<owner>[\w-]+)")


@dataclass(frozen=True, slots=True)
class Keep:
    """A request to leave a site as it is. No codes: every code."""

    location: Location
    codes: tuple[str, ...]
    reason: str

    def covers(self, code: str) -> bool:
        """Whether the request holds for a code (``SHD2`` holds for all that begin so)."""
        return not self.codes or any(code.startswith(c) for c in self.codes)


@dataclass(frozen=True)
class Comments:
    """The keeps and owners of one file by line, and comments that say neither."""

    keeps: Mapping[int, Keep]
    owners: Mapping[int, Owner]
    unknown: tuple[tuple[Location, str], ...] = ()


def read_comments(module: Module) -> Comments:
    """The comments addressed to shardfix in a file; strings that look like one are not taken."""
    keeps: dict[int, Keep] = {}
    owners: dict[int, Owner] = {}
    unknown: list[tuple[Location, str]] = []
    if "shardfix:" not in module.text:
        return Comments(keeps, owners)
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(module.text).readline))
    except (tokenize.TokenError, SyntaxError):
        return Comments(keeps, owners)
    for token in tokens:
        found = _COMMENT.match(token.string) if token.type == tokenize.COMMENT else None
        if found is None:
            continue
        line, word = token.start[0], found["word"].strip()
        location = Location(module.path, line, token.start[1] + 1)
        keep, owner = _KEEP.match(word), _OWNER.match(word)
        if keep:
            codes = tuple(c.strip().upper() for c in (keep["codes"] or "").split(",") if c.strip())
            keeps[line] = Keep(location, codes, keep["reason"].strip())
        elif owner and owner["owner"] in get_args(Owner):
            owners[line] = owner["owner"]  # type: ignore[assignment]
        else:
            unknown.append((location, f"`# shardfix: {word}` says nothing that is known"))
    return Comments(keeps, owners, tuple(unknown))


def lines_of(module: Module, node: ast.AST) -> range:
    """The lines of the simple statement, or of the header, that a node stands in."""
    statement = module.statement(node)
    end = getattr(node, "end_lineno", None) or statement.lineno
    if not hasattr(statement, "body"):
        end = statement.end_lineno or end
    return range(statement.lineno, end + 1)
