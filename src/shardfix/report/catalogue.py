"""Every code that shardfix can say, gathered from what the codemods and the refusals declare."""

from __future__ import annotations

from dataclasses import dataclass

from shardfix.analysis.refusals import REFUSALS, Refusal
from shardfix.analysis.rules import Rule
from shardfix.codemods import RULES


@dataclass(frozen=True, slots=True)
class Entry:
    """A code: what it says, and the codemod or the refusal that says it."""

    code: str
    title: str
    rule: Rule | None = None
    refusal: Refusal | None = None

    @property
    def codemod(self) -> str:
        return self.rule.name if self.rule else ""

    @property
    def tier(self) -> str:
        return self.rule.tier_of(self.code) if self.rule else "refusal"


def entries() -> tuple[Entry, ...]:
    """All codes, in order."""
    found = [Entry(code, title, rule=rule) for rule in RULES for code, title in rule.codes.items()]
    found += [Entry(code, refusal.title, refusal=refusal) for code, refusal in REFUSALS.items()]
    return tuple(sorted(found, key=lambda entry: entry.code))


def titles() -> dict[str, str]:
    """The title of each code."""
    return {entry.code: entry.title for entry in entries()}


def selectors() -> frozenset[str]:
    """The codes and the codemods' names: what `--select`, `--ignore` and `explain` take."""
    return frozenset(entry.code for entry in entries()) | frozenset(rule.name for rule in RULES)
