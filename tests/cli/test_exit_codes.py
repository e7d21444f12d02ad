"""The exit contract, as a shell sees it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import REFUSED, RIGHT, SHARDED_TWICE, THEIRS, UNPARSABLE, environment, git, project, shardfix


@pytest.mark.parametrize(
    ("files", "asked", "code"),
    [
        pytest.param({"train": RIGHT}, [], 0, id="right"),
        pytest.param({"train": THEIRS}, [], 0, id="another framework's"),
        pytest.param({"train": REFUSED}, [], 0, id="refused"),
        pytest.param({"train": REFUSED}, ["--strict"], 1, id="refused, strictly"),
        pytest.param({"train": SHARDED_TWICE}, [], 1, id="a fault"),
        pytest.param({"train": SHARDED_TWICE}, ["--ignore", "SHD2"], 0, id="a fault left out"),
        pytest.param({"train": UNPARSABLE}, [], 2, id="not Python"),
        pytest.param({"train": SHARDED_TWICE, "bad": UNPARSABLE}, [], 3, id="both"),
    ],
)
def test_scan(tmp_path: Path, files: dict[str, str], asked: list[str], code: int) -> None:
    done = shardfix("scan", *asked, cwd=project(tmp_path, **files))
    assert done.returncode == code, done.stdout.decode() + done.stderr.decode()


@pytest.mark.parametrize(
    ("files", "asked", "code"),
    [
        pytest.param({"train": SHARDED_TWICE}, [], 0, id="done"),
        pytest.param({"train": SHARDED_TWICE}, ["--check"], 1, id="would change: check"),
        pytest.param({"train": SHARDED_TWICE}, ["--diff"], 1, id="would change: diff"),
        pytest.param({"train": SHARDED_TWICE}, ["--patch", "../out.patch"], 0, id="the patch is written: done"),
        pytest.param({"train": RIGHT}, ["--check"], 0, id="nothing to change"),
        pytest.param({"train": REFUSED}, [], 0, id="refused"),
        pytest.param({"train": REFUSED}, ["--strict"], 1, id="refused, strictly"),
        pytest.param({"train": UNPARSABLE}, [], 2, id="not Python"),
        pytest.param({"train": SHARDED_TWICE, "bad": UNPARSABLE}, ["--check"], 3, id="both"),
        pytest.param({"train": SHARDED_TWICE}, ["--require-proof"], 8, id="no proof was run"),
        pytest.param({"train": SHARDED_TWICE}, ["--check", "--require-proof"], 9, id="both again"),
    ],
)
def test_migrate(tmp_path: Path, files: dict[str, str], asked: list[str], code: int) -> None:
    done = shardfix("migrate", "--no-verify", *asked, cwd=project(tmp_path / "project", **files))
    assert done.returncode == code, done.stdout.decode() + done.stderr.decode()


def test_verify_exits_with_4_for_a_loader_that_loses_data_and_0_once_it_is_migrated(tmp_path: Path) -> None:
    place = project(tmp_path, train=SHARDED_TWICE)
    before = shardfix("verify", "--timeout", "100", cwd=place)
    assert before.returncode == 4, before.stdout.decode() + before.stderr.decode()
    migrated = shardfix("migrate", "--require-proof", "--timeout", "100", cwd=place)
    assert migrated.returncode == 0, migrated.stdout.decode() + migrated.stderr.decode()
    after = shardfix("verify", "--timeout", "100", cwd=place)
    assert after.returncode == 0, after.stdout.decode() + after.stderr.decode()


def test_verify_passes_over_what_one_process_alone_reads(tmp_path: Path) -> None:
    alone = (
        "import torch\n"
        "import torch.distributed as dist\n"
        "from torch.utils.data import DataLoader\n"
        "\n"
        'dist.init_process_group("gloo")\n'
        "val_loader = DataLoader(list(range(8)), batch_size=2)\n"
        "if dist.get_rank() == 0:\n"
        "    with torch.no_grad():\n"
        "        for batch in val_loader:\n"
        "            print(batch)\n"
    )
    done = shardfix("verify", "--timeout", "100", cwd=project(tmp_path, train=alone))
    assert (done.returncode, b"unproven" in done.stdout) == (0, False), done.stdout.decode()


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["sacn"], "no command 'sacn'; did you mean 'scan'?"),
        (["scan", "--fromat", "json"], "No such option"),
        (["scan", "gone.py"], "shardfix: error: gone.py: no such file or folder; correct the path\n"),
        (
            ["scan", "--select", "SHD291"],
            "shardfix: error: --select: unknown code or codemod 'SHD291'; did you mean SHD201",
        ),
        (["migrate", "--ignore", "add_sanitiser"], "did you mean add_sanitizer?"),
        (["migrate", "--select", ","], "names no code"),
        (["migrate", "--nproc", "1"], "1 is not in the range"),
        (["migrate", "--diff", "--format", "json"], "use --patch FILE"),
        (["migrate", "--verify", "--python", "/no/python"], "/no/python"),
        (["migrate", "--no-verify", "--patch", "/no/folder/a.patch"], "/no/folder/a.patch: the patch can't be written"),
        (["explain", "SHD291"], "shardfix: error: no code or codemod 'SHD291'; did you mean SHD201"),
        (["batch"], "no projects; name folders"),
        (["batch", "none*"], "shardfix: error: none*: matches no folder; correct the pattern\n"),
        (["batch", "--from", "gone.txt"], "shardfix: error: gone.txt: No such file or directory\n"),
    ],
)
def test_what_can_not_be_done_exits_with_2_and_says_why(tmp_path: Path, args: list[str], told: str) -> None:
    done = shardfix(*args, cwd=project(tmp_path, train=SHARDED_TWICE))
    assert done.returncode == 2
    assert told in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()
    assert git("status", "--porcelain", cwd=tmp_path) == b""


def test_mistake_in_the_settings_exits_with_2_in_one_line(tmp_path: Path) -> None:
    place = project(tmp_path, train=RIGHT)
    (place / "pyproject.toml").write_text('[tool.shardfix]\ntarget = "dpp"\n')
    for command in (["scan"], ["migrate"], ["verify"]):
        done = shardfix(*command, cwd=place)
        assert done.returncode == 2
        (line,) = done.stderr.decode().splitlines()
        assert line.endswith("""[tool.shardfix] target is 'dpp'; it must be "auto" or "accelerate" or "ddp\"""")


def test_uncaught_exception_exits_with_2_in_one_line_and_with_its_traceback_where_asked(tmp_path: Path) -> None:
    broken = "import shardfix.engine as e\ndef scan(*a, **k): raise LookupError('a\\nb')\ne.scan = scan\n"
    program = f"{broken}from shardfix.cli import main\nmain(['scan'])\n"
    for debug in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            env=environment({"SHARDFIX_DEBUG": debug}),
            capture_output=True,
            timeout=180,
        )
        lines = done.stderr.decode().splitlines()
        assert done.returncode == 2
        assert lines[-1] == (
            "shardfix: error: internal error: LookupError: a\\nb; please report it (SHARDFIX_DEBUG=1 shows where)"
        )
        assert ("Traceback (most recent call last):" in lines) is (debug == "1")
        assert len(lines) == 1 or debug == "1"


def test_interrupt_exits_with_130(tmp_path: Path) -> None:
    # Waits for its list of projects, so that the interrupt comes while the command runs.
    running = subprocess.Popen(
        [sys.executable, "-m", "shardfix", "batch", "--from", "-"],
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert running.stdin is not None
    _wait_until_it_reads(running.pid)
    running.send_signal(signal.SIGINT)
    _, told = running.communicate(timeout=180)
    assert running.returncode == 130
    assert told.strip() == b"shardfix: interrupted"


def _wait_until_it_reads(pid: int) -> None:
    """Until the process sleeps in a read of a pipe (Linux); elsewhere, for as long as a start takes."""
    deadline, asleep = time.monotonic() + 120, 0
    while time.monotonic() < deadline and asleep < 6:
        time.sleep(0.05)
        try:
            place = Path(f"/proc/{pid}/wchan").read_text()
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            time.sleep(3)
            return
        if place in ("pipe_read", "anon_pipe_read"):
            return
        asleep = asleep + 1 if state == "S" and place in ("", "0") else 0  # a kernel that does not say where


def test_closed_pipe_is_quiet(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "shardfix", "rules"],
        cwd=tmp_path,
        env=environment(),
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=180,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(sys.platform != "linux", reason="the children are looked up in /proc")
def test_interrupt_in_a_proof_ends_its_ranks_and_writes_nothing(tmp_path: Path) -> None:
    place = project(tmp_path, train=SHARDED_TWICE)
    running = subprocess.Popen(
        [sys.executable, "-m", "shardfix", "migrate", "--verify"],
        cwd=place,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    children: set[int] = set()
    while running.poll() is None and not children:
        children = _descendants(running.pid)
        time.sleep(0.02)
    assert children, "the proof was over before it was seen"
    running.send_signal(signal.SIGINT)
    children |= _descendants(running.pid)
    _, told = running.communicate(timeout=180)
    assert (running.returncode, told.strip()) == (130, b"shardfix: interrupted")
    assert [child for child in children if _is_alive(child)] == []
    assert git("status", "--porcelain", cwd=place) == b""


def _descendants(pid: int) -> set[int]:
    try:
        children = {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}
    except OSError:
        return set()
    # git is called too; it ends by itself.
    own = {child for child in children if b"worker.py" in _command(child)}
    return own.union(*(_descendants(child) | {child} for child in own))


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _is_alive(pid: int) -> bool:
    return b"worker.py" in _command(pid)
