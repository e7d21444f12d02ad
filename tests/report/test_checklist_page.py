"""How the checklist is shown: a block for each loader where they are few or when asked, and of loaders that ran."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import resources
from pathlib import Path

import jsonschema
import pytest
from results_by_hand import site

from shardfix.analysis.model import Check, Location
from shardfix.proof.observed import Built
from shardfix.report.checklist import FEW, checklist_of_built, is_shown
from shardfix.report.json import to_json
from shardfix.report.text import verify_page
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


DISTRIBUTED = Built(
    samples=21,
    subset=21,
    draws=21,
    sampler="DistributedSampler",
    shard=(2, 1),
    manual=True,
    shuffled=True,
    batch_size=4,
)
PREPARED = Built(
    samples=21, subset=21, draws=21, sampler="RandomSampler", shuffled=True, batch_size=4, sharder="accelerate"
)


@pytest.mark.parametrize(
    ("built", "rows"),
    [
        (
            DISTRIBUTED,
            (
                "DistributedSampler, shuffled",
                "yes",
                "its sampler (part 1 of 2)",
                "4 on one process, 8 on 2",
                "no: 1 sample comes twice, unless the metric drops it",
                "unknown (the passes show it)",
            ),
        ),
        (
            PREPARED,
            (
                "RandomSampler, shuffled",
                "no",
                "accelerate (each rank its own batches)",
                "4 on one process, 8 on 2",
                "no: 3 samples come twice, unless the metric drops them",
                "yes (a prepared loader tells it by itself)",
            ),
        ),
        (
            replace(PREPARED, split_batches=True, batch_size=2),
            (
                "RandomSampler, shuffled",
                "no",
                "accelerate (each rank its own batches, each a piece of one batch (split_batches))",
                "4 on one process, 4 on 2",
                "no: 3 samples come twice, unless the metric drops them",
                "yes (a prepared loader tells it by itself)",
            ),
        ),
        (
            Built(kind="stream", batch_size=None),
            (
                "none (a stream)",
                "no",
                "unknown (a stream decides by itself)",
                "unknown (its batch sampler says no size)",
                "unknown (what a metric makes of it is not seen)",
                "- (it asks for none)",
            ),
        ),
        (
            Built(draws=20, samples=20, subset=20, sampler="SequentialSampler", shuffled=False, batch_size=5),
            (
                "SequentialSampler, in order",
                "no",
                "nobody (every rank reads all of it)",
                "5 on one process, 10 on 2",
                "unknown (what a metric makes of it is not seen)",
                "- (it asks for none)",
            ),
        ),
    ],
)
def test_a_loader_that_was_seen_answers_the_same_questions(built: Built, rows: tuple[str, ...]) -> None:
    found = checklist_of_built(built, 2)
    assert tuple(question for question, _ in found) == QUESTIONS
    assert tuple(answer for question, answer in found if question != "sanitizer") == rows
