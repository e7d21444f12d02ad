"""Tell a code or a codemod at length, and list them all: from what the codemods and refusals declare."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from shardfix.analysis.rules import Example, Rule
from shardfix.report.catalogue import Entry, entries
from shardfix.report.terminal import Page, Styled, table

_TIERS = {
    "safe": "applied",
    "cosmetic": "changes no behaviour; applied by migrate, by batch only if selected",
    "unsafe": "applied only with --unsafe",
    "report": "reported, never edited",
}


def explain_page(word: str, *, width: int = 80) -> Page | None:
    """What a code or a codemod is about; None if there is none of that name."""
    code, name = word.strip().upper(), word.strip().lower().replace("-", "_")
    everything = entries()
    page = Page()
    for entry in everything:
        if entry.code == code:
            page.line(Styled(entry.code, "bold yellow"), "  ", Styled(entry.title, "bold"))
            if entry.refusal:
                _refusal(page, entry, width)
            elif entry.rule:
                _rule(page, entry.rule, code, width)
            return page
    for entry in everything:
        if entry.rule and entry.rule.name == name:
            page.line(Styled(name, "bold yellow"))
            for own, title in entry.rule.codes.items():
                page.line("  ", Styled(own, "yellow"), f"  {title}")
            _rule(page, entry.rule, "", width)
            return page
    return None


def _refusal(page: Page, entry: Entry, width: int) -> None:
    assert entry.refusal is not None
    page.line("A reason to leave a loader alone.")
    _part(page, "Why", entry.refusal.missing, width)
    _part(page, "What to do", entry.refusal.remedy, width)


def _rule(page: Page, rule: Rule, code: str, width: int) -> None:
    tier = rule.tier_of(code)
    page.line(f"By {rule.name}; tier {tier}: {_TIERS[tier]}.")
    _part(page, "Why", rule.why, width)
    # An example without a code stands for all of its rule's.
    examples = [example for example in rule.invalid if not code or example.code in (code, "")]
    for number, example in enumerate(examples):
        _example(page, "Before and after" if number == 0 else "", example)
    _part(page, "Left alone", rule.refuses, width)
    for example in rule.valid:
        if not code or example.code in (code, ""):
            page.line("  - ", example.why)
    if code and tier != "report":
        _part(page, "To keep a line as it is", f"# shardfix: keep[{code}] reason", width)


def _part(page: Page, title: str, text: str, width: int) -> None:
    if text:
        page.blank()
        page.line(Styled(title, "bold"))
        for paragraph in text.strip().split("\n\n"):
            for line in textwrap.wrap(" ".join(paragraph.split()), width - 2, break_on_hyphens=False):
                page.line("  ", line)


def _example(page: Page, title: str, example: Example) -> None:
    import difflib

    page.blank()
    if title:
        page.line(Styled(title, "bold"))
    page.line("  ", Styled(f"# {example.why}", "dim"))
    before, after = example.before.strip("\n").splitlines(), example.after.strip("\n").splitlines()
    for line in difflib.ndiff(before, after):
        if not line.startswith("?"):
            page.line("  ", Styled(line.rstrip(), {"+": "green", "-": "red"}.get(line[:1], "")))


def rules_page() -> Page:
    """The table of all codes."""
    page = Page()
    rows = [(Styled(entry.code, "yellow"), entry.tier, entry.codemod, entry.title) for entry in entries()]
    table(page, ("code", "tier", "codemod", "title"), rows)
    return page


def rules_json() -> list[dict[str, str]]:
    """All codes as data."""
    return [
        {
            "code": entry.code,
            "title": entry.title,
            "kind": "refusal" if entry.refusal else "rule",
            "codemod": entry.codemod,
            "tier": entry.tier,
            "why": entry.refusal.missing if entry.refusal else _one_line(entry),
            "remedy": entry.refusal.remedy if entry.refusal else "",
        }
        for entry in entries()
    ]


def rules_markdown() -> str:
    """Two Markdown tables, as they stand in the README: what is found, and why a loader may be left alone."""
    found = [(f"`{entry.code}`", entry.title, f"`{entry.codemod}`", entry.tier) for entry in entries() if entry.rule]
    left = [
        (f"`{entry.code}`", entry.title, entry.refusal.missing, entry.refusal.remedy)
        for entry in entries()
        if entry.refusal
    ]
    return (
        _markdown(("code", "what", "codemod", "tier"), found)
        + "\n"
        + _markdown(("code", "left alone because", "what is missing", "what to do"), left)
    )


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _one_line(entry: Entry) -> str:
    return " ".join(entry.rule.why.split()) if entry.rule else ""
