"""The examples that every codemod carries are true: each changes just so, or is left alone for the reason it names."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, cast

import pytest
from shardfix.codemods import RULES

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Options, Target
from shardfix.analysis.rules import Example, Rule
from shardfix.planning import Plan, make_plan
from shardfix.rewrite.applier import apply
from shardfix.rewrite.edits import CreateFile
from shardfix.rewrite.gates import check
from shardfix.vendored import Vendored

PATH = "program.py"


def plan(rule: Rule, example: Example, text: str) -> Plan:
    """The plan for one file as migrate makes it; the sanitizer is on for its own examples only."""
    sanitizer: Literal["changed", "off"] = "changed" if rule.name == "add_sanitizer" else "off"
    options = Options(target=cast(Target, example.target), unsafe=example.unsafe, sanitizer=sanitizer)
    return make_plan(
        link({PATH: parse(PATH, text)}), (PATH,), options, vendored=Vendored("# the check\n", "# the metric\n")
    )


def rewritten(text: str, found: Plan) -> str:
    """The text with all changes made, held against the gates."""
    edits = [e for change in found.changes for e in change.edits if not isinstance(e, CreateFile)]
    applied = apply(text, list(dict.fromkeys(edits)), path=PATH)
    check(text, applied, path=PATH)
    return applied.text


def cases(examples: Literal["valid", "invalid"]) -> list[object]:
    return [
        pytest.param(rule, example, id=f"{rule.name}: {example.why}")
        for rule in RULES
        for example in cast("tuple[Example, ...]", getattr(rule, examples))
    ]


@pytest.mark.parametrize(("rule", "example"), cases("invalid"))
def test_an_invalid_example_changes_just_so(rule: Rule, example: Example) -> None:
    found = plan(rule, example, example.before)

    result = rewritten(example.before, found)

    assert result == example.after
    assert [change.codes for change in found.changes if example.code in change.codes], "no change carries the code"
    if rule.name != "add_sanitizer":
        assert {change.codes[0] for change in found.changes} == {example.code}
        assert {change.codemod for change in found.changes} == {rule.name}
    compile(result, PATH, "exec")
    assert plan(rule, example, result).changes == ()


@pytest.mark.parametrize(("rule", "example"), cases("valid"))
def test_a_valid_example_is_left_alone_for_its_reason(rule: Rule, example: Example) -> None:
    found = plan(rule, example, example.before)

    assert found.changes == ()
    if example.code:
        assert example.code in {f.code for report in found.reports for f in report.findings}
    else:
        assert {report.verdict for report in found.reports} <= {"right", "not-ours"}
    compile(example.before, PATH, "exec")


@pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES])
def test_each_code_belongs_to_one_codemod_and_says_what_it_finds(rule: Rule) -> None:
    others = [code for other in RULES if other is not rule for code in other.codes]
    assert not set(rule.codes) & set(others)
    assert all(rule.codes.values())
    assert {e.code for e in rule.invalid} <= set(rule.codes)


def test_an_example_that_is_wrong_would_be_seen() -> None:
    rule = next(r for r in RULES if r.name == "remove_redundant_sampler")
    example = rule.invalid[0]

    with pytest.raises(AssertionError):
        test_an_invalid_example_changes_just_so(rule, replace(example, after=example.before))


@pytest.mark.parametrize("target", ["accelerate", "auto"])
def test_what_changes_no_behaviour_is_right_where_one_process_runs(target: str) -> None:
    example = next(e for rule in RULES for e in rule.invalid if e.code == "SHD103")
    module = parse("program.py", example.before)
    found = make_plan(link({"program.py": module}), ("program.py",), Options(target=target))  # type: ignore[arg-type]
    assert [c.codes for c in found.changes] == [("SHD103",)]
