"""How the checklist is shown: a block for each loader where they are few or when asked, of watched ones too."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import resources
from pathlib import Path

import jsonschema
from results_by_hand import site

from shardfix.analysis.model import Check, Location
from shardfix.proof.model import Proof, StandIn
from shardfix.report.checklist import FEW, checks_of, is_shown
from shardfix.report.json import to_json
from shardfix.report.text import verify_page
from shardfix.report.watched import watched_json, watched_page
from shardfix.result import RunResult

QUESTIONS = ("sampler", "by hand", "split by", "batch", "counted once", "sanitizer", "epoch told")
CHECKS = (
    Check("sampler", "DistributedSampler, shuffled"),
    Check("by hand", "yes", "sampler="),
    Check("split by", "its sampler"),
    Check("batch", "32 on one process, 32 x N on N"),
    Check("counted once", "-", "not an evaluation"),
    Check("sanitizer", "no"),
    Check("epoch told", "yes", "line 9"),
)


def result(loaders: int) -> RunResult:
    places = [Location("train.py", line + 1, 1) for line in range(loaders)]
    return RunResult(Path.cwd(), sites=tuple(replace(site(place, "right"), checklist=CHECKS) for place in places))


def page(loaders: int, asked: bool | None = None) -> str:
    return verify_page(result(loaders), checklist=asked).plain()


def test_a_block_of_seven_lines_stands_under_each_loader() -> None:
    assert page(1).splitlines()[2:9] == [
        "    sampler       DistributedSampler, shuffled",
        "    by hand       yes  (sampler=)",
        "    split by      its sampler",
        "    batch         32 on one process, 32 x N on N",
        "    counted once  -  (not an evaluation)",
        "    sanitizer     no",
        "    epoch told    yes  (line 9)",
    ]


def test_many_loaders_have_it_only_when_it_is_asked_for() -> None:
    assert (is_shown(None, FEW), is_shown(None, FEW + 1), is_shown(True, 99), is_shown(False, 1)) == (1, 0, 1, 0)
    assert page(FEW).count("epoch told") == FEW
    many = page(FEW + 1)
    assert "epoch told" not in many
    assert "`--checklist` answers the checklist for each of them." in many
    assert page(FEW + 1, asked=True).count("epoch told") == FEW + 1
    assert "checklist" not in page(1, asked=False)


def test_json_holds_every_row_and_the_schema_names_the_questions() -> None:
    data = to_json(result(2))
    schema = json.loads((resources.files("shardfix.report") / "schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(data, schema)
    assert data["sites"][1]["checklist"][1] == {"question": "by hand", "answer": "yes", "note": "sampler="}
    assert schema["$defs"]["check"]["properties"]["question"]["enum"] == list(QUESTIONS)


SHARED = Proof(
    "train.py:41",
    "proven",
    ("2 ranks read every one of 20 samples once",),
    {},
    checklist=CHECKS,
    told=("read by both",),
)
PADLESS = replace(SHARED, checklist=(*CHECKS[:4], Check("counted once", "yes", "nothing is padded"), *CHECKS[5:]))


def test_a_watched_loader_has_the_same_block_below_its_proof() -> None:
    block = page(1).splitlines()[2:9]
    assert watched_page([SHARED]).plain().splitlines()[3:10] == block
    assert "epoch told" not in watched_page([SHARED], checklist=False).plain()
    many = watched_page([SHARED] * (FEW + 1)).plain()
    assert "epoch told" not in many
    assert "`--checklist` answers the checklist for each of them." in many


def test_json_has_the_rows_of_a_watched_loader_however_many_there_are() -> None:
    loaders = json.loads(json.dumps(watched_json([SHARED] * (FEW + 1))))["loaders"]
    assert [len(loader["checklist"]) for loader in loaders] == [7] * (FEW + 1)


def test_what_a_factory_is_told_by_the_run_says_nothing_of_the_program() -> None:
    by_the_run = replace(SHARED, stand_ins=(StandIn("the epoch", "told by loader.set_epoch(epoch) before each pass"),))
    assert checks_of(by_the_run)[-1] == Check(
        "epoch told", "unknown", "told by loader.set_epoch(epoch) before each pass"
    )
    assert checks_of(SHARED)[-1] == CHECKS[-1]


def test_padding_at_another_number_of_ranks_counts_too() -> None:
    assert checks_of(PADLESS)[4].answer == "yes"
    assert checks_of(replace(PADLESS, padded=2))[4] == Check(
        "counted once", "no", "2 samples come twice, unless the metric drops them"
    )
