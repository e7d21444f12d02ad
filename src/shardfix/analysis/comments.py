"""What the user says in the source: ``# shardfix: keep[CODE] reason``, and answers such as ``owner=accelerate``."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass

from shardfix.analysis.answers import VOCABULARY, Answer
from shardfix.analysis.code.module import Module
from shardfix.analysis.model import Evidence, Location

_COMMENT = re.compile(r"#\s*shardfix:\s*")
_KEEP = re.compile(r"keep\b(?:\[(?P<codes>[^\]]*)\])?\s*(?P<reason>.*)$")
_ANSWER = re.compile(r"(?P<question>\w+)\s*=\s*(?P<word>[\w-]*)(?:\s*,\s*|\s+|$)")


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
    """The keeps and answers of one file by line, and comments that say neither."""

    keeps: Mapping[int, Keep]
    answers: Mapping[int, tuple[Answer, ...]]
    unknown: tuple[tuple[Location, str], ...] = ()


def read_comments(module: Module) -> Comments:
    """The comments addressed to shardfix in a file; strings that look like one are not taken."""
    keeps: dict[int, Keep] = {}
    answers: dict[int, tuple[Answer, ...]] = {}
    unknown: list[tuple[Location, str]] = []
    if "shardfix:" not in module.text:
        return Comments(keeps, answers)
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(module.text).readline))
    except (tokenize.TokenError, SyntaxError):
        return Comments(keeps, answers)
    for token in tokens:
        if token.type != tokenize.COMMENT:
            continue
        line = token.start[0]
        # `# shardfix: owner=ddp` and `# shardfix: role=eval  # shardfix: keep[SHD904]` are one token each.
        starts = list(_COMMENT.finditer(token.string))
        for start, following in zip(starts, [*starts[1:], None], strict=True):
            word = token.string[start.end() : following.start() if following else None].strip()
            location = Location(module.path, line, token.start[1] + start.start() + 1)
            keep = _KEEP.match(word)
            if keep:
                codes = tuple(c.strip().upper() for c in (keep["codes"] or "").split(",") if c.strip())
                keeps[line] = Keep(location, codes, keep["reason"].strip())
                continue
            given = _answers(word, Evidence(location, f"# shardfix: {word}"))
            if isinstance(given, str):
                unknown.append((location, given))
            else:
                answers[line] = (*answers.get(line, ()), *given)
    return Comments(keeps, answers, tuple(unknown))


def _answers(word: str, evidence: Evidence) -> tuple[Answer, ...] | str:
    """The answers with which a comment begins (what follows them is for people), or what is wrong with it."""
    found: list[Answer] = []
    rest = word
    while match := _ANSWER.match(rest):
        said = match["word"]
        question = next((q for q in VOCABULARY if q == match["question"]), None)
        if question is None:
            return f"`# shardfix: {word}` asks for {match['question']!r}; there are {', '.join(VOCABULARY)}"
        if said not in VOCABULARY[question]:
            return f"`# shardfix: {word}`: {question} is one of {', '.join(VOCABULARY[question])}"
        found.append(Answer(question, said, evidence))
        rest = rest[match.end() :]
    return tuple(found) if found else f"`# shardfix: {word}` says nothing that is known"
