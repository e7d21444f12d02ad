"""Patches: which stretches of a text get which new text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shardfix.rewrite.edits import Span


@dataclass(frozen=True, slots=True)
class Patch:
    """New text for a stretch of the original."""

    span: Span
    text: str


def splice(text: str, patches: Sequence[Patch]) -> str:
    """The text with patches made; they are in order and disjoint."""
    parts, at = [], 0
    for patch in patches:
        parts += [text[at : patch.span.start], patch.text]
        at = patch.span.end
    return "".join([*parts, text[at:]])
