"""`shardfix verify --loader`: factories by name, in the project's interpreter, with errors that say what to write."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

DATA = """\
import os
import time

import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

MADE_IN_A_GROUP = dist.is_initialized()


class Images(Dataset):
    def __len__(self):
        return 21

    def __getitem__(self, index):
        raise RuntimeError("a sample was fetched")


def right(batch_size):
    images = Images()
    return DataLoader(images, batch_size=batch_size, sampler=DistributedSampler(images))


def both(batch_size=4, shuffle=True):
    return {"train": right(batch_size), "val": DataLoader(Images(), batch_size=2)}


def sharded_twice():
    from accelerate import Accelerator

    return Accelerator().prepare(right(4))


def nothing():
    return None


def raises():
    raise ValueError("no such folder: images")


def stuck():
    with open(f"pid{os.environ.get('RANK')}", "w") as file:
        file.write(str(os.getpid()))
    time.sleep(600)


standing = DataLoader(Images(), batch_size=4)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "data.py").write_text(DATA)
    return tmp_path


def verify(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "shardfix", "verify", *arguments],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "NO_COLOR": "1"},
    )


def test_a_factory_is_called_with_its_arguments_and_nothing_is_left_behind(project: Path) -> None:
    done = verify(project, "--loader", "data:right", "--arg", "batch_size=4")
    assert done.returncode == 0, done.stderr
    assert "data:right" in done.stdout
    assert "proven" in done.stdout
    assert [path.name for path in project.iterdir()] == ["data.py"]


def test_several_factories_share_arguments_and_each_loader_is_judged(project: Path) -> None:
    done = verify(
        project, "--loader", "data:both", "--loader", "data:sharded_twice", "--arg", "batch_size=2", "--format", "json"
    )
    assert done.returncode == 4, done.stderr
    said = {proof["site"]: (proof["verdict"], proof["cause"]) for proof in proofs_in(json.loads(done.stdout))}
    assert said == {
        "data:both['train']": ("proven", ""),
        "data:both['val']": ("refuted", "unsharded"),
        "data:sharded_twice": ("refuted", "sharded-twice"),
    }


def proofs_in(document: object) -> list[dict[str, object]]:
    """The proofs of a document, wherever they stand in it."""
    if isinstance(document, dict):
        if "verdict" in document and "site" in document:
            return [document]
        return [proof for value in document.values() for proof in proofs_in(value)]
    return [proof for value in document for proof in proofs_in(value)] if isinstance(document, list) else []


def test_what_returns_no_loader_or_raises_in_one_process_too_is_unproven(project: Path) -> None:
    done = verify(project, "--loader", "data:nothing", "--loader", "data:raises")
    assert done.returncode == 8, done.stderr
    assert "it returns None" in done.stdout
    assert "ValueError: no such folder: images" in done.stdout


def test_a_loader_that_a_module_holds_and_one_that_is_prepared_later(project: Path) -> None:
    assert verify(project, "--loader", "data:standing").returncode == 4
    assert verify(project, "--loader", "data:standing", "--prepare").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--loader", "dat:right"], "--loader dat:right: there is no module dat in "),
        (["--loader", "data:rigth"], "--loader data:rigth: data has no 'rigth'; did you mean right?"),
        (["--loader", "data:right"], "--loader data:right: it needs an argument batch_size; add --arg batch_size=.."),
        (
            ["--loader", "data:both", "--arg", "batchsize=2"],
            "--loader data:both: it takes no argument 'batchsize'; its arguments are batch_size, shuffle",
        ),
        (["--loader", "data:MADE_IN_A_GROUP"], "--loader data:MADE_IN_A_GROUP: it is a bool; name a function"),
        (["--loader", "src/data.py:right"], "--loader src/data.py:right: name the module as it is imported, src.data:"),
        (["--loader", "data"], "--loader data: it must be pkg.mod:function"),
        (["--loader", "data:both", "--arg", "batch_size"], "--arg batch_size: it must be NAME=VALUE"),
        (["--loader", "data:both", "--python", "/no/python"], "can't start /no/python: No such file or directory"),
    ],
)
def test_an_error_says_in_one_line_what_to_write(project: Path, arguments: list[str], said: str) -> None:
    done = verify(project, *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith(f"shardfix: error: {said}")


def test_the_module_is_imported_in_the_group_on_each_rank(project: Path) -> None:
    (project / "early.py").write_text(
        "from torch.utils.data import DataLoader\n"
        "from torch.utils.data.distributed import DistributedSampler\n"
        "numbers = list(range(16))\n"
        "sampler = DistributedSampler(numbers)\n"  # raises where there is no group
        "def make():\n"
        "    return DataLoader(numbers, sampler=sampler)\n"
    )
    assert verify(project, "--loader", "early:make").returncode == 0


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_ranks_end_with_the_command_that_started_them(project: Path, end: signal.Signals) -> None:
    command = subprocess.Popen(
        [sys.executable, "-m", "shardfix", "verify", "--loader", "data:stuck"],
        cwd=project,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    wait_for(lambda: all((project / f"pid{rank}").exists() and pid_of(project, rank) for rank in (0, 1)))
    pids = [pid_of(project, rank) for rank in (0, 1)]
    command.send_signal(end)
    command.communicate(timeout=120)
    wait_for(lambda: not any(runs(pid) for pid in pids))


def pid_of(project: Path, rank: int) -> int:
    return int((project / f"pid{rank}").read_text() or 0)


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def wait_for(true: object) -> None:
    deadline = time.monotonic() + 180
    assert callable(true)
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)
