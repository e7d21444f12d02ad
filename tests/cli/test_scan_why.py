"""`scan --why` shows the way of all loaders, of those of a path, or of one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import RIGHT, SHARDED_TWICE, project, shardfix
from jsonschema import Draft202012Validator

from shardfix import report

SCHEMA = json.loads((Path(report.__file__).parent / "schema.json").read_text("utf-8"))
STEPS = """\
    train.py:7  loader = DataLoader(dataset, batch_size=2, sampler=DistributedSampler(dataset, shuffle=False))  \
# the loader is built; its sampler: DistributedSampler; named `loader`
    train.py:8  loader = accelerator.prepare(loader)  # accelerator.prepare() gets it; named `loader`
    train.py:9  for batch in loader:  # read, as prepare() gave it
"""


def test_only_where_asked_and_beside_the_owner(tmp_path: Path) -> None:
    place = project(tmp_path, train=SHARDED_TWICE)
    plain = shardfix("scan", cwd=place).stdout.decode()
    owner = "    accelerate: loader = accelerator.prepare(loader)  (line 8)\n"
    assert (owner in plain, STEPS in plain) == (True, False)
    assert owner + STEPS in shardfix("scan", "--why", cwd=place).stdout.decode()


@pytest.mark.parametrize("asked", ["train.py:7", "train.py:7:10", "train.py"])
def test_of_one_loader_or_path(tmp_path: Path, asked: str) -> None:
    place = project(tmp_path, train=SHARDED_TWICE, right=RIGHT)
    done = shardfix("scan", "--why", asked, cwd=place)
    assert done.returncode == 1
    assert STEPS in done.stdout.decode()
    assert b"1 loader in 1 file" in done.stdout


def test_json_keeps_to_the_schema(tmp_path: Path) -> None:
    place = project(tmp_path, train=SHARDED_TWICE)
    data = json.loads(shardfix("scan", "--why", "--format", "json", cwd=place).stdout)
    Draft202012Validator(SCHEMA).validate(data)
    assert [(step["line"], step["what"]) for step in data["sites"][0]["chain"]][1:] == [
        (8, "accelerator.prepare() gets it; named `loader`"),
        (9, "read, as prepare() gave it"),
    ]
    assert "chain" not in json.loads(shardfix("scan", "--format", "json", cwd=place).stdout)["sites"][0]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (["--why", "train.py:8"], "train.py:8: no loader is built in this line; lines of this file: 7"),
        (["--why", "gone.py:8"], "gone.py: no such file or folder; correct the path"),
        (["train.py", "--why", "train.py:7"], "--why PATH:LINE is about one loader; leave the other paths out"),
    ],
)
def test_what_is_not_there_is_an_error(tmp_path: Path, asked: list[str], message: str) -> None:
    done = shardfix("scan", *asked, cwd=project(tmp_path, train=SHARDED_TWICE))
    assert done.returncode == 2
    assert message in done.stderr.decode()
