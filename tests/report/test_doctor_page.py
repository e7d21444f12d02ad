"""What `shardfix doctor` shows: the table, what differs with the codes it touches, and JSON that says the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from jsonschema import Draft202012Validator

from shardfix.proof.truth.cell import Cell, Numbers, Outcome
from shardfix.proof.truth.check import CELLS, Checkup
from shardfix.report import doctor
from shardfix.report.doctor import doctor_document, doctor_page

FACT = Cell(
    "epoch/never-told",
    "a sampler that is never told the epoch repeats its order",
    "",
    "",
    Numbers((11, 11), epochs="same"),
    "set_epoch is put in",
    decides=("SHD401",),
)
(SHUFFLED,) = (cell for cell in CELLS if cell.id == "accelerate/shuffle")
(FABRIC,) = (cell for cell in CELLS if cell.id == "fabric/shuffle")
RIGHT = Numbers((12, 12), 3, 21, ordered=False, epochs="differ")
CHECKUP = Checkup(
    "/project/.venv/bin/python",
    "3.11.7",
    {"torch": "2.13.0+cpu", "accelerate": "0.29.3"},
    {"lightning": "ModuleNotFoundError: No module named 'lightning'"},
    (
        Outcome(
            SHUFFLED,
            "differs",
            replace(RIGHT, overlap=7, covered=17),
            ("samples read by several ranks: 7, not 3", "samples read by any rank: 17, not 21"),
            "before 0.30 each rank shuffles by its own seed",
        ),
        Outcome(FABRIC, "not-installed", None, ("lightning not installed",)),
        Outcome(FACT, "holds", Numbers((11, 11), epochs="same")),
    ),
)
TITLES = {"SHD201": "sharded twice", "SHD401": "every epoch repeats one order", "SHD709": "accelerate below 0.30"}


def lines(checkup: Checkup) -> list[str]:
    return doctor_page(checkup, TITLES).plain().splitlines()


def test_the_page_says_what_is_there_what_differs_and_what_that_touches() -> None:
    shown = lines(CHECKUP)
    assert shown[:6] == [
        "python 3.11.7  /project/.venv/bin/python",
        "torch 2.13.0+cpu",
        "accelerate 0.29.3",
        "lightning can't be imported: ModuleNotFoundError: No module named 'lightning'",
        "transformers not asked",
        "Two and three ranks over gloo, forked, seeded differently.",
    ]
    row = next(line for line in shown if line.startswith("shuffle=True"))
    assert " ".join(row.split()) == "shuffle=True not run 12,12 / 7 / 17 not installed"
    assert shown[shown.index("Beside the table") :] == [
        "Beside the table",
        "  holds         a sampler that is never told the epoch repeats its order",
        "",
        "Differs from what is believed",
        f"  accelerate/shuffle  {SHUFFLED.belief}",
        "      samples read by several ranks: 7, not 3",
        "      samples read by any rank: 17, not 21",
        "      known: before 0.30 each rank shuffles by its own seed",
        f"      believed, so: {SHUFFLED.so}",
        "      touches SHD201 sharded twice",
        "      touches SHD709 accelerate below 0.30",
        "",
        "3 beliefs: 1 hold, 1 differ, 1 need what is not installed (lightning)",
        "Read what SHD201, SHD709 say with that in mind; a proof (`shardfix verify`) runs on these versions and says "
        "what they really do.",
    ]


def test_a_page_without_differences_ends_with_that() -> None:
    shown = lines(replace(CHECKUP, outcomes=CHECKUP.outcomes[1:]))
    assert shown[-2:] == [
        "2 beliefs: 1 hold, 0 differ, 1 need what is not installed (lightning)",
        "What shardfix says and does rests on nothing that differs here.",
    ]


def test_a_run_that_did_not_end_is_never_called_right() -> None:
    stopped = replace(CHECKUP, outcomes=CHECKUP.outcomes[1:], ended="the run was stopped after 1 s")
    assert lines(stopped)[-1] == "The run did not come to its end: the run was stopped after 1 s."


def test_a_loader_that_raises_or_waits_has_its_place_in_the_table() -> None:
    raised = replace(CHECKUP.outcomes[0], measured=Numbers(error="RuntimeError: no"))
    waits = replace(CHECKUP.outcomes[0], measured=Numbers(waits=(0,)))
    for outcome, word in ((raised, "RuntimeError"), (waits, "waits")):
        shown = lines(replace(CHECKUP, outcomes=(outcome,)))
        assert word in next(line for line in shown if line.startswith("shuffle=True"))


def test_json_says_the_same_in_the_form_that_the_schema_gives() -> None:
    data = json.loads(json.dumps(doctor_document(CHECKUP)))
    schema = json.loads(Path(doctor.__file__).with_name("doctor_schema.json").read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(data)
    believed = replace(CHECKUP, outcomes=tuple(Outcome(cell, "holds", cell.expect) for cell in CELLS))
    Draft202012Validator(schema).validate(json.loads(json.dumps(doctor_document(believed))))
    assert data["versions"] == {"torch": "2.13.0+cpu", "accelerate": "0.29.3"}
    assert data["counts"] == {"holds": 1, "differs": 1, "not-installed": 1, "not-run": 0}
    differs, missing, _ = data["cells"]
    assert differs["answer"] == "differs"
    assert differs["believed"] == {
        "visits": [12, 12],
        "overlap": 3,
        "covered": 21,
        "ordered": False,
        "epochs": "differ",
    }
    assert (differs["measured"]["overlap"], differs["measured"]["covered"]) == (7, 17)
    assert differs["decides"] == ["SHD201", "SHD709"]
    assert (missing["answer"], missing["measured"]) == ("not-installed", None)


def test_in_a_narrow_terminal_each_row_of_the_table_has_two_lines() -> None:
    wide = doctor_page(CHECKUP, TITLES).plain().splitlines()
    narrow = doctor_page(CHECKUP, TITLES, width=80).plain().splitlines()
    assert wide == doctor_page(CHECKUP, TITLES, width=110).plain().splitlines()
    at = narrow.index("shuffle=True")
    assert narrow[at + 1].split() == [
        *("nobody", "not", "run", "accelerate", "12,12", "/", "7", "/", "17", "fabric", "not", "installed")
    ]
    assert {line.index("fabric") for line in narrow if line.startswith("    nobody")} == {
        narrow[at + 1].index("fabric")
    }
