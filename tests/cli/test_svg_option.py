"""`--svg FILE`: one picture of every loader that was run, written whole or not at all, and told in a line."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from command_line import RIGHT, SHARDED_TWICE, THEIRS, project, shardfix

SVG = "{http://www.w3.org/2000/svg}"
PLAIN = """\
from torch.utils.data import DataLoader
import torch.distributed as dist

def make():
    return DataLoader(list(range(8)), 2)

if __name__ == "__main__":
    dist.init_process_group("gloo")
    for batch in make():
        pass
    dist.destroy_process_group()
"""


def titles(file: Path) -> list[str]:
    """The large words of a picture, and its verdicts."""
    shown = ("title", "head proven", "head refuted", "head unproven")
    return [text.text or "" for text in ET.parse(file).iter(f"{SVG}text") if text.get("class") in shown]


def heads(file: Path) -> list[str]:
    return [span.text or "" for span in ET.parse(file).iter(f"{SVG}tspan") if span.get("class") == "head"]


def test_verify_draws_every_loader_that_it_ran(tmp_path: Path) -> None:
    place = project(tmp_path / "p", right=RIGHT, wrong=SHARDED_TWICE, theirs=THEIRS)
    done = shardfix("verify", "--svg", "../all.svg", cwd=place)
    assert done.stdout.decode().splitlines()[-1] == "picture of 2 of 3 loaders: ../all.svg"
    assert titles(tmp_path / "all.svg") == [
        "2 loaders: 1 proven, 1 refuted",
        *("right.py:6:10", "proven", "wrong.py:7:10", "refuted: sharded-twice"),
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.svg", "p"]


def test_migrate_draws_before_and_after_beside_a_diff_that_stays_a_diff(tmp_path: Path) -> None:
    place = project(tmp_path / "p", wrong=SHARDED_TWICE)
    done = shardfix("migrate", "--diff", "--svg", "../change.svg", cwd=place)
    assert done.stderr.decode().splitlines()[-1] == "picture of 1 loader: ../change.svg"
    assert done.stdout == shardfix("migrate", "--diff", "--no-verify", cwd=place).stdout
    assert heads(tmp_path / "change.svg") == ["before", "after"]


def test_a_factory_and_a_script_are_drawn_too(tmp_path: Path) -> None:
    place = project(tmp_path / "p", train=PLAIN)
    factory = shardfix("verify", "--loader", "train:make", "--svg", "factory.svg", "--format", "json", cwd=place)
    assert factory.stderr.decode().splitlines()[-1] == "picture of 1 loader: factory.svg"
    assert json.loads(factory.stdout)["verdict"] == "refuted"
    assert titles(place / "factory.svg") == ["train:make", "refuted: unsharded"]
    run = shardfix("verify", "--run", "train.py", "--svg", "run.svg", cwd=place)
    assert run.stdout.decode().splitlines()[-1] == "picture of 1 loader: run.svg"
    assert titles(place / "run.svg") == ["train.py:5", "refuted: unsharded"]


def test_where_nothing_was_run_an_earlier_picture_stays(tmp_path: Path) -> None:
    place = project(tmp_path / "p", theirs=THEIRS)
    (place / "old.svg").write_text("old")
    done = shardfix("verify", "--svg", "old.svg", cwd=place)
    assert done.stdout.decode().splitlines()[-1] == "no picture: no loader was run, so old.svg is left as it is"
    assert (place / "old.svg").read_text() == "old"


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("train.py", "train.py: name a file that ends in .svg"),
        ("none/a.svg", "none/a.svg: there is no folder none"),
    ],
)
def test_a_file_that_can_not_be_meant_is_told_before_anything_runs(tmp_path: Path, file: str, told: str) -> None:
    place = project(tmp_path / "p", train=PLAIN)
    done = shardfix("verify", "--svg", file, cwd=place)
    assert (done.returncode, done.stdout) == (2, b"")
    assert told in done.stderr.decode()
    assert (place / "train.py").read_text() == PLAIN


def test_a_picture_that_can_not_be_written_is_an_error_after_the_report(tmp_path: Path) -> None:
    place = project(tmp_path / "p", right=RIGHT)
    (place / "link.svg").symlink_to("gone/picture.svg")
    done = shardfix("verify", "--svg", "link.svg", cwd=place)
    assert done.returncode == 2
    assert "proofs: 1 proven" in done.stdout.decode()
    told = "shardfix: error: link.svg: the picture can't be written (No such file or directory); name another file\n"
    assert done.stderr.decode() == told
