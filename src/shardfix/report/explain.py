"""Tell a code or a codemod at length, and list them all: from what the codemods and refusals declare."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from shardfix.analysis.answers import VOCABULARY, Question
from shardfix.analysis.refusals import settled_by, settles
from shardfix.analysis.rules import Example, Rule
from shardfix.proof.judging.causes import CAUSES, Cause
from shardfix.report.catalogue import Entry, entries
from shardfix.report.terminal import Page, Styled, table

_TIERS = {
    "safe": "applied",
    "cosmetic": "changes no behaviour; applied by migrate, by batch only if selected",
    "unsafe": "applied only with --unsafe",
    "report": "reported, never edited",
}


COMMENTS, CAUSES_WORD = "comments", "causes"
_SETTINGS: Mapping[Question, str] = {"owner": "owners", "role": "roles"}
_KEEP = ("keep[SHD201] reason", "leave this loader as it is for these codes; without [...] for all", "any code")


def explain_page(word: str, *, width: int = 80) -> Page | None:
    """What a code, a cause, a codemod, ``comments`` or ``causes`` is about; None if there is none of that name."""
    code, name = word.strip().upper(), word.strip().lower().replace("-", "_")
    if name == COMMENTS:
        return _comments_page()
    if name == CAUSES_WORD:
        return _causes_page(CAUSES.values(), width)
    if word.strip().lower() in CAUSES:
        return _causes_page([CAUSES[word.strip().lower()]], width)
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
    _part(page, "What is missing", entry.refusal.missing, width)
    _part(page, "What to do", entry.refusal.remedy, width)
    _answers(page, entry.code)


def _answers(page: Page, code: str) -> None:
    """The answers that settle a code, as they are written in the source and in the settings."""
    answers = settled_by(code)
    if not answers:
        return
    page.blank()
    page.line(
        Styled("To settle it for good, on the statement that builds the loader or the head of its function", "bold")
    )
    for answer in answers:
        question, _, word = answer.partition("=")
        page.line("  ", Styled(f"# shardfix: {answer}", "green"), f"  {VOCABULARY[cast(Question, question)][word]}")
    settings = {_SETTINGS[q] for q in _SETTINGS if any(answer.startswith(f"{q}=") for answer in answers)}
    for name in sorted(settings):
        page.line("  or by name in pyproject.toml, in ", Styled(f"[tool.shardfix.{name}]", "green"))


def comments_rows() -> list[tuple[str, str, str]]:
    """What a ``# shardfix:`` comment can say: as it is written, what it says, and the codes that it settles."""
    rows = [_KEEP]
    for question, words in VOCABULARY.items():
        alike: dict[str, list[str]] = {}
        for word, says in words.items():
            alike.setdefault(says, []).append(word)
        for says, same in alike.items():
            codes = dict.fromkeys(code for word in same for code in settles(f"{question}={word}"))
            rows.append(
                (f"{question}={', '.join(same)}", says, ", ".join(codes or settles(f"{question}={next(iter(words))}")))
            )
    return rows


def _comments_page() -> Page:
    page = Page()
    page.line(
        "A comment `# shardfix: ...` on any line of the statement that builds a loader; answers (word=word) also on the"
    )
    page.line(
        "head of the function or class around it. Several answers are separated by commas; what follows is for people."
    )
    page.blank()
    table(page, ("# shardfix:", "says", "settles"), [(Styled(a, "green"), b, c) for a, b, c in comments_rows()])
    return page


def _causes_page(causes: Iterable[Cause], width: int) -> Page:
    """Why `verify` finds a loader or a run wrong, and what to do."""
    page = Page()
    for cause in causes:
        page.blank()
        page.line(Styled(cause.code, "bold yellow"), "  ", cause.means)
        for line in textwrap.wrap(f"what to do: {cause.remedy}", width - 4, break_on_hyphens=False):
            page.line("    ", line)
    return page


def comments_markdown() -> str:
    """The table of the README: what a comment can say."""
    rows = [(f"`{_first(written)}`{_others(written)}", says, codes) for written, says, codes in comments_rows()]
    return _markdown(("comment", "says", "settles"), rows)


def _first(written: str) -> str:
    return written.partition(", ")[0]


def _others(written: str) -> str:
    return "".join(f", `{word}`" for word in written.split(", ")[1:])


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
    _answers(page, code)
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


def rules_json() -> list[dict[str, Any]]:
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
            "settled_by": list(settled_by(entry.code)),
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
