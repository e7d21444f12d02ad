"""The JSON report says everything and keeps to its schema."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from results_by_hand import AFTER, BEFORE, everything

import shardfix.report
from shardfix.report.json import document, to_json
from shardfix.result import FileChange, RunResult

SCHEMA = json.loads((Path(shardfix.report.__file__).parent / "schema.json").read_text("utf-8"))


def validate(data: Any) -> None:
    Draft202012Validator.check_schema(SCHEMA)
    Draft202012Validator(SCHEMA).validate(json.loads(json.dumps(data)))


@pytest.mark.parametrize("written", [False, True])
def test_what_is_said_keeps_to_the_schema(tmp_path: Path, written: bool) -> None:
    validate(to_json(everything(tmp_path, written=written)))
    validate(to_json(RunResult(tmp_path)))
    validate(document([everything(tmp_path), RunResult(tmp_path)]))


def test_schema_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    data = to_json(everything(tmp_path))
    for place in (data, data["sites"][0], data["changes"][0], data["files"][0]):
        place["surprise"] = 1
        assert not Draft202012Validator(SCHEMA).is_valid(json.loads(json.dumps(data)))
        del place["surprise"]
    validate(data)


def test_every_change_is_there_with_what_became_of_it(tmp_path: Path) -> None:
    data = to_json(everything(tmp_path))
    assert {change["id"]: (change["state"], change["proof"]) for change in data["changes"]} == {
        "gone.py:1:1:SHD201": ("dropped", "refuted"),
        "train.py:4:10:SHD201": ("ready", "proven"),
        "train.py:9:10:SHD301": ("shown", None),
    }
    assert [site["changes"] for site in data["sites"] if site["verdict"] == "edit"] == [
        ["gone.py:1:1:SHD201"],
        ["train.py:4:10:SHD201"],
        ["train.py:9:10:SHD301"],
    ]
    assert data["changes"][1]["edits"] == [
        {"kind": "DropKeyword", "path": "train.py", "call": {"start": 15, "end": 40}, "name": "sampler"}
    ]
    assert to_json(everything(tmp_path, written=True))["changes"][1]["state"] == "written"


def test_files_are_told_by_digest_and_diff(tmp_path: Path) -> None:
    changed, new = to_json(everything(tmp_path))["files"]
    assert (new["path"], new["sha256_before"]) == ("shard_check.py", None)
    assert changed["sha256_before"] == hashlib.sha256(BEFORE).hexdigest()
    assert changed["sha256_after"] == hashlib.sha256(AFTER).hexdigest()
    assert "+loader = DataLoader(ds, shuffle=True)\n" in changed["diff"]


def test_names_that_are_no_text_are_written_as_escapes(tmp_path: Path) -> None:
    result = RunResult(tmp_path, files=(FileChange("caf\udce9.py", b"\xe9\n", b"\xe8\n"),))
    (file,) = to_json(result)["files"]
    assert file["path"] == "caf\\udce9.py"
    assert "-\\xe9\n+\\xe8\n" in file["diff"]
    json.dumps(to_json(result), ensure_ascii=False).encode("utf-8")
