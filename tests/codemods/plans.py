"""What the codemods plan for one small file: codes of changes and findings, and the edited text."""

from __future__ import annotations

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Options
from shardfix.planning import Plan, make_plan
from shardfix.rewrite.applier import apply

PATH = "train.py"


def planned(text: str, options: Options | None = None) -> Plan:
    """The plan for one file, without the sanitizer; nothing that came to no end passes for left alone."""
    found = make_plan(link({PATH: parse(PATH, text)}), (PATH,), options or Options(sanitizer="off"))
    assert found.problems == ()
    return found


def codes(text: str, options: Options | None = None) -> list[list[str]]:
    """For each loader in source order the codes of its changes, then of its findings; empty where it is right."""
    return [
        [*(c for change in r.changes for c in change.codes), *(f.code for f in r.findings)]
        for r in planned(text, options).reports
    ]


def edited(text: str, options: Options | None = None) -> str:
    """The text after the planned changes."""
    edits = [e for c in planned(text, options).changes for e in c.edits]
    return apply(text, list(dict.fromkeys(edits)), path=PATH).text
