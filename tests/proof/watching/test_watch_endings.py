"""How watched scripts end: told with the rank, the loader, the step and the place; and nothing stays behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shardfix.proof.observed import Ending
from shardfix.proof.watching import watch as watching
from shardfix.proof.watching.watch import Program, Run, watch

HEAD = """\
import os, sys, time, signal
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler
dist.init_process_group("nccl")
rank = dist.get_rank()
data = list(range(16))
"""
LOOP = (
    HEAD
    + """\
loader = DataLoader(data, 2, sampler=DistributedSampler(data), num_workers=1)
for step, batch in enumerate(loader):
    if step == 2 and rank == 1:
        {what}
    total = batch.sum()
    dist.all_reduce(total)
dist.destroy_process_group()
"""
)
LOADER = "train.py:9"


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "PATIENCE_IN_VAIN", 2.0)
    monkeypatch.setattr(watching, "PATIENCE", 6.0)


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder for temporary files with a short path, as sockets in it need."""
    with tempfile.TemporaryDirectory(prefix="w", dir="/tmp") as folder:
        yield Path(folder)


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str, **asked: object) -> Run:
    (folder / "train.py").write_text(text)
    monkeypatch.chdir(folder)
    done = watch(Program(("train.py",), **{"timeout": 60.0, "epochs": 0, **asked}))  # type: ignore[arg-type]
    assert left_behind(folder) == []
    return done


def left_behind(folder: Path) -> list[str]:
    """The processes that run in a folder, but this one."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                if os.readlink(f"/proc/{name}/cwd") == str(folder):
                    found.append(Path(f"/proc/{name}/cmdline").read_text().replace("\0", " "))
            except OSError:
                continue
    return found


def ending(done: Run, rank: int) -> Ending:
    return {one.rank: one for one in done.watched.endings}[rank]


def where(one: Ending) -> tuple[str, int, int]:
    return one.loader, one.passes, one.step


def test_a_rank_that_is_killed_is_told_with_its_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run(tmp_path, monkeypatch, LOOP.format(what="os.kill(os.getpid(), signal.SIGKILL)"))
    dead = ending(done, 1)
    assert (dead.end, dead.code, dead.text) == ("signal", 9, "ended by SIGKILL")
    assert where(dead) == (LOADER, 0, 3)
    assert done.watched.endings[0].rank == 1


def test_a_rank_that_crashes_in_c_is_told_with_its_own_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run(tmp_path, monkeypatch, LOOP.format(what="import ctypes; ctypes.string_at(0)"))
    dead = ending(done, 1)
    assert (dead.end, dead.code) == ("signal", int(signal.SIGSEGV))
    assert dead.text == "train.py:12 in <module>\n    import ctypes; ctypes.string_at(0)"


def test_a_rank_that_raises_is_told_with_its_own_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run(tmp_path, monkeypatch, LOOP.format(what="raise ValueError('bad sample')"))
    raised = ending(done, 1)
    assert (raised.end, where(raised)) == ("raised", (LOADER, 0, 3))
    assert raised.text.splitlines()[1:3] == [
        f'  File "{tmp_path}/train.py", line 12, in <module>',
        "    raise ValueError('bad sample')",
    ]
    assert raised.text.endswith("ValueError: bad sample\n")
    assert "Connection" in ending(done, 0).text


@pytest.mark.parametrize(("what", "code", "end"), [("sys.exit(0)", 0, "returned"), ("os._exit(3)", 3, "exit")])
def test_a_rank_that_leaves_early_is_told_with_the_line_where_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, code: int, end: str
) -> None:
    done = run(tmp_path, monkeypatch, LOOP.format(what=what))
    left = ending(done, 1)
    assert (left.end, left.code, left.text) == (end, code, f"exit({code}) at train.py:12")
    assert where(left) == (LOADER, 0, 3)


def test_a_process_that_is_aborted_after_the_scripts_end_came_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As gloo's threads do to an interpreter that leaves with its group still standing."""
    at_the_end = "class Last:\n    def __del__(self, abort=os.abort):\n        abort()\nsys.last = Last()\n"
    done = run(tmp_path, monkeypatch, LOOP.format(what="pass") + at_the_end)
    assert [one.end for one in done.watched.endings] == ["returned", "returned"]
    told = "rank 0 and rank 1 came to the script's end and was aborted"
    assert any(note.startswith(told) for note in done.notes), done.notes


def test_a_collective_on_one_rank_only_is_a_hang_with_the_line_of_each_rank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = LOOP.format(what="dist.all_reduce(torch.ones(1))").replace("    dist.all_reduce(total)\n", "")
    text = text.replace("dist.destroy", "dist.barrier()\ntime.sleep(1000)\ndist.destroy")
    done = run(tmp_path, monkeypatch, text)
    assert [one.end for one in done.watched.endings] == ["hang", "hang"]
    assert ending(done, 1).text == "train.py:12 in <module>\n    dist.all_reduce(torch.ones(1))"
    assert where(ending(done, 1)) == (LOADER, 0, 3)
    assert ending(done, 0).text == "train.py:14 in <module>\n    dist.barrier()"
    assert where(ending(done, 0)) == (LOADER, 0, 4)


def test_a_rank_that_is_left_alone_does_not_wait_for_the_whole_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = HEAD + "if rank == 0:\n    for batch in DataLoader(data):\n        time.sleep(1000)\nos._exit(0)\n"
    done = run(tmp_path, monkeypatch, text)
    assert not [note for note in done.notes if "the time was over" in note]
    assert [(one.rank, one.end) for one in done.watched.endings] == [(1, "returned"), (0, "hang")]
    assert ending(done, 0).text == "train.py:11 in <module>\n    time.sleep(1000)"
    assert where(ending(done, 0)) == ("train.py:10", 0, 1)


def test_the_time_is_over_while_the_ranks_still_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run(tmp_path, monkeypatch, "while True:\n    sum(range(100000))\n", timeout=2.0)
    assert [one.end for one in done.watched.endings] == ["stopped", "stopped"]
    assert "the time was over after 2 s; give more (--timeout) or ask for less (--max-batches)" in done.notes


def test_a_script_without_loaders_ends_well_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run(tmp_path, monkeypatch, "print('nothing to do')\n")
    assert (done.watched.loaders, [one.end for one in done.watched.endings]) == ((), ["returned", "returned"])
    assert dict(done.output) == {0: "nothing to do", 1: "nothing to do"}


def test_two_runs_at_once_do_not_meet_though_both_name_one_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = LOOP.format(what="time.sleep(0.5)").replace(
        'dist.init_process_group("nccl")',
        'dist.init_process_group("nccl", "tcp://127.0.0.1:29511", rank=int(os.environ["RANK"]), world_size=2)',
    )
    (tmp_path / "train.py").write_text(text)
    command = [sys.executable, "-m", "shardfix", "verify", "--run", "train.py", "--format", "json"]
    command += ["--timeout", "280"]
    both = [subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for one in both:
        output = one.communicate(timeout=300)[0]
        assert one.returncode == 0, output


def started(folder: Path, temporary: Path, text: str) -> subprocess.Popen[bytes]:
    """shardfix at work on a script, once both ranks and their DataLoader workers are in the loop."""
    (folder / "train.py").write_text(text)
    command = [sys.executable, "-m", "shardfix", "verify", "--run", "train.py", "--epochs", "0", "--timeout", "600"]
    env = {**os.environ, "TMPDIR": str(temporary)}
    child = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env)
    deadline = time.monotonic() + 300
    while len(list(folder.glob("at-*"))) < 2:
        assert time.monotonic() < deadline
        assert child.poll() is None, child.communicate()[0].decode()
        time.sleep(0.02)
    return child


ENDLESS = LOOP.format(what="pass").replace(
    "for step, batch in enumerate(loader):",
    "for step, batch in enumerate(b for _ in range(100000) for b in loader):\n    open(f'at-{rank}', 'w').close()",
)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_whatever_ends_shardfix_ends_the_ranks_and_their_workers_and_its_folder(
    tmp_path: Path, temporary: Path, number: int
) -> None:
    child = started(tmp_path, temporary, ENDLESS)
    deadline = time.monotonic() + 120  # each pass starts its workers anew: between two passes there is none
    while len(left_behind(tmp_path)) < 4:  # shardfix, two ranks and a worker
        assert time.monotonic() < deadline, left_behind(tmp_path)
    child.send_signal(number)
    child.communicate(timeout=120)
    assert child.returncode == (130 if number == signal.SIGINT else -number)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (left_behind(tmp_path) or os.listdir(temporary)):
        time.sleep(0.05)
    assert (left_behind(tmp_path), os.listdir(temporary)) == ([], [])


def test_killing_any_rank_at_any_moment_leaves_no_process_and_a_clear_verdict(tmp_path: Path, temporary: Path) -> None:
    luck = random.Random(4)
    for attempt in range(5):
        for path in tmp_path.glob("at-*"):
            path.unlink()
        child = started(tmp_path, temporary, ENDLESS)
        time.sleep(luck.random() * 0.3)
        victim = luck.choice([0, 1])
        os.kill(rank_of(tmp_path, victim), signal.SIGKILL)
        output = child.communicate(timeout=300)[0].decode()
        assert child.returncode & 4, output
        assert f"rank {victim} was ended by SIGKILL (at {LOADER}, pass" in output, (attempt, output)
        assert (left_behind(tmp_path), os.listdir(temporary)) == ([], [])


def rank_of(folder: Path, rank: int) -> int:
    """The process that is a rank of the script in a folder: a session's leader with that RANK."""
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.readlink(f"/proc/{name}/cwd") == str(folder) and os.getsid(int(name)) == int(name):
                if f"RANK={rank}" in Path(f"/proc/{name}/environ").read_text().split("\0"):
                    return int(name)
        except OSError:
            continue
    raise AssertionError(f"no rank {rank} in {folder}")
