"""`shardfix verify --run` on the command line: its verdict, its exit code, and mistakes in one clear line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

import shardfix.report

SCHEMA = json.loads((Path(shardfix.report.__file__).parent / "schema.json").read_text("utf-8"))

TRAIN = """\
import argparse
import torch.distributed as dist
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

parser = argparse.ArgumentParser()
parser.add_argument("--plain", action="store_true")
plain = parser.parse_args().plain
dist.init_process_group("nccl")
data = list(range(16))
loader = DataLoader(data, 2, sampler=None if plain else DistributedSampler(data, shuffle=False))
for epoch in range(2):
    for batch in loader:
        dist.all_reduce(batch)
print("rank", dist.get_rank(), "is done")
dist.destroy_process_group()
"""


STREAM = """\
import sys
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
open(f"{world}-{rank}", "a").close()

class Lines(IterableDataset):
    def __iter__(self):
        for line in range(12):
            if line % world == rank and not (line == 5 and world > 1 and "lose" in sys.argv):
                yield torch.tensor([line])

for batch in DataLoader(Lines(), 1):
    pass
dist.destroy_process_group()
if world == 1 and "fail" in sys.argv:
    raise ValueError("one process is not enough")
"""


def verify(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "shardfix", "verify", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def test_a_right_script_is_proven_and_a_wrong_one_refuted_by_the_arguments_after_the_dashes(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    right = verify(tmp_path, "--run", "train.py", "--verbose")
    assert (right.returncode, right.stdout.splitlines()[:2]) == (
        0,
        ["train.py:11  read by ranks 0 and 1 of 2, 2 passes", "    proof: proven"],
    )
    assert sorted(line for line in right.stderr.splitlines() if "is done" in line) == [
        "[0] rank 0 is done",
        "[1] rank 1 is done",
    ]
    wrong = verify(tmp_path, "--run", "train.py", "--format", "json", "--", "--plain")
    assert wrong.returncode == 4
    Draft202012Validator(SCHEMA).validate(json.loads(wrong.stdout))
    assert [(one["site"], one["verdict"], one["cause"]) for one in json.loads(wrong.stdout)["loaders"]] == [
        ("train.py:11", "refuted", "unsharded")
    ]


def test_one_process_shows_what_there_is_to_read_if_it_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "stream.py").write_text(STREAM)
    without = verify(tmp_path, "--run", "stream.py", "--", "a b")
    assert without.returncode == 8
    assert "a stronger proof: shardfix verify --control --run stream.py -- 'a b'\n" in without.stdout
    assert sorted(path.name for path in tmp_path.glob("?-?")) == ["2-0", "2-1"]  # nothing runs twice unasked
    proven = verify(tmp_path, "--run", "stream.py", "--control")
    assert proven.returncode == 0
    assert "        2 ranks read every one of 12 items once\n" in proven.stdout
    assert "    batch         1 on one process, 2 on 2  (as they were read)\n" in proven.stdout
    assert "the control  one process, " in proven.stdout
    assert (tmp_path / "1-0").exists()
    lost = verify(tmp_path, "--run", "stream.py", "--control", "--format", "json", "--", "lose")
    data = json.loads(lost.stdout)
    Draft202012Validator(SCHEMA).validate(data)
    assert (lost.returncode, data["loaders"][0]["cause"], data["control"]["verdict"]) == (4, "missing", "proven")


def test_a_control_that_fails_is_told_and_refutes_nothing(tmp_path: Path) -> None:
    (tmp_path / "stream.py").write_text(STREAM)
    done = verify(tmp_path, "--run", "stream.py", "--control", "--", "fail")
    assert done.returncode == 0
    assert done.stdout.split("the control")[1].splitlines()[1:3] == [
        "    ending: failed: raises",
        "        it raises ValueError: one process is not enough (at stream.py:16, pass 0, step 12)",
    ]


def test_where_passes_are_cut_one_process_goes_as_far_as_the_ranks_together(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    done = verify(tmp_path, "--run", "train.py", "--control", "--max-batches", "4", "--format", "json")
    (loader,) = json.loads(done.stdout)["loaders"]
    assert (done.returncode, loader["verdict"], loader["conditions"]["one process"]) == (0, "proven", "held")


def test_a_module_is_run_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").touch()
    (tmp_path / "pkg" / "train.py").write_text("print('no torch here')\n")
    done = verify(tmp_path, "--run", "-m pkg.train", "--epochs", "0")
    assert done.returncode == 8
    assert "the program made no loader that could be watched" in done.stdout
    assert "no torch here" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--run", "gone.py"), "--run gone.py: there is no such file; a module is run by --run '-m gone.py'"),
        (("--run", "train.sh"), "--run train.sh: this runs Python; name the script that it starts"),
        (("--run", "train.py", "src"), "--run watches one script; leave out paths and --loader"),
        (("--run", "train.py", "--loader", "a:b"), "--run watches one script; leave out paths and --loader"),
        (("--run", "train.py", "--control", "--launch", "self"), "--control is for ranks that this command starts"),
        (("--run", "train.py", "--python", "/no/python"), "--python /no/python: there is no such program"),
    ],
)
def test_a_mistake_is_told_in_one_line(tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "train.sh").touch()
    (tmp_path / "src").mkdir()
    done = verify(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
