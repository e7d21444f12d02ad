"""Processes that are this one's own: started in sessions of their own, watched, and ended with all they started.

Whatever ends this process ends them too: each holds on to a fifo in the run's folder (see ``shardfix_observe.life``),
and a shell that waits for the end of its input removes the folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

_CLEANER = 'cat >/dev/null; sleep 1; rm -rf -- "$1"'
_LONGEST = 44  # of the path for temporary files: those that the ranks bind sockets in are longer, and 107 is the most
_BUSY = frozenset("RD")  # running or on the disk, as /proc has it
_GONE = frozenset("ZX")  # ended


class Folder:
    """A run's own folder; it goes when this process goes, and so does every process that watches its fifo."""

    def __enter__(self) -> Path:
        where = tempfile.gettempdir()
        path = tempfile.mkdtemp(prefix="shardfix-run-", dir="/tmp" if len(where) > _LONGEST else where)
        self.path = Path(path)
        fifo = os.path.join(path, "life")
        os.mkfifo(fifo, 0o600)
        self._life = os.open(fifo, os.O_RDWR)  # both ends, so that opening waits for nobody
        self._lock = open(os.path.join(path, "lock"), "w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._cleaner = subprocess.Popen(
            ["/bin/sh", "-c", _CLEANER, "sh", path],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=os.sep,
            start_new_session=True,  # Ctrl-C is not for it
        )
        return self.path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._life)
        self._lock.close()
        for _ in range(20):  # a process that was just ended may still hold a file
            shutil.rmtree(self.path, ignore_errors=True)
            if not self.path.exists():
                break
            time.sleep(0.05)
        self._cleaner.kill()
        self._cleaner.wait()
        assert self._cleaner.stdin is not None
        self._cleaner.stdin.close()


class Processes:
    """Children of this process, each the leader of a session. Not one is left when this is left, however that is."""

    def __init__(self) -> None:
        self.children: list[subprocess.Popen[bytes]] = []
        self.ended_at: dict[int, float] = {}  # by place among the children
        self.cut: set[int] = set()  # the places of those that this process ended

    def __enter__(self) -> Processes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def start(self, command: Sequence[str], env: Mapping[str, str], output: Path) -> None:
        """Raises OSError if the command can't be started."""
        with open(output, "ab") as file:
            child = subprocess.Popen(
                list(command), env=dict(env), stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
            )
        self.children.append(child)

    def running(self) -> list[int]:
        """The places of those that run, after reaping those that do not, with what they left running."""
        for place, child in enumerate(self.children):
            if child.returncode is None and _has_ended(child):
                self._end(child)
                self.ended_at[place] = time.monotonic()
        return [place for place, child in enumerate(self.children) if child.returncode is None]

    def end(self) -> None:
        """End all that run and all that they started, at once, and reap them."""
        started = self._started()
        for place, child in enumerate(self.children):
            if child.returncode is None:
                self.cut.add(place)
                _kill_group(child)
        for pid in started:  # some start sessions of their own, as torchrun does
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        _wait_for_end_of(set(started), {child.pid for child in self.children if child.returncode is None})
        for place, child in enumerate(self.children):
            if child.returncode is None:
                child.wait()
                self.ended_at[place] = time.monotonic()

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        _kill_group(child)  # it is not reaped yet, so the number of its group is still its own
        _wait_for_end_of(set(), {child.pid})
        child.wait()

    def busy(self) -> dict[int, float]:
        """The processor time of each process that these started, in seconds; infinite while it runs right now."""
        return {one.pid: float("inf") if one.state in _BUSY else one.seconds for one in self._started().values()}

    def signal(self, pids: Iterable[int], number: int) -> None:
        """Send a signal to some of the processes that these started."""
        for pid in self._started().keys() & set(pids):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    def _started(self) -> dict[int, _Process]:
        """The children that run, what they started, and what is left in their sessions of what these started."""
        own = {child.pid for child in self.children if child.returncode is None}
        everything = {one.pid: one for one in _all_processes()}
        found: dict[int, _Process] = {}

        def is_own(one: _Process) -> bool:
            above: _Process | None = one
            while above is not None and above.pid not in own and above.pid not in found:
                above = everything.get(above.parent)
            return above is not None or one.session in own

        for pid, one in everything.items():
            if is_own(one):
                found[pid] = one
        return found


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    parent: int
    session: int
    seconds: float  # of processor time
    state: str


def _has_ended(child: subprocess.Popen[bytes]) -> bool:
    """Whether a child has ended, without reaping it where that can be asked."""
    if not hasattr(os, "waitid"):  # macOS before Python 3.13
        return child.poll() is not None
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _kill_group(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)


def _wait_for_end_of(pids: set[int], sessions: set[int]) -> None:
    """What is killed takes a moment to go; nothing may be there any more once the leaders are reaped."""
    deadline = time.monotonic() + 5.0
    while time.monotonic() < deadline and any(
        one.state not in _GONE and (one.pid in pids or one.session in sessions) for one in _all_processes()
    ):
        time.sleep(0.01)


def _all_processes() -> Iterator[_Process]:
    if sys.platform == "linux":
        ticks = os.sysconf("SC_CLK_TCK")
        for name in os.listdir("/proc"):
            if name.isdigit():
                with contextlib.suppress(OSError, IndexError, ValueError):
                    text = Path("/proc", name, "stat").read_text(errors="replace")
                    fields = text[text.rindex(")") + 2 :].split()
                    spent = (int(fields[11]) + int(fields[12])) / ticks
                    yield _Process(int(name), int(fields[1]), int(fields[3]), spent, fields[0])
        return
    command = ["ps", "-axo", "pid=,ppid=,pgid=,cputime=,state="]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    for line in shown.stdout.splitlines():
        with contextlib.suppress(ValueError):
            pid, parent, group, cpu, state = line.split(None, 4)
            parts = [float(part) for part in cpu.replace("-", ":").split(":")]
            spent = sum(part * 60**at for at, part in enumerate(reversed(parts)))
            yield _Process(int(pid), int(parent), int(group), spent, state[:1])
