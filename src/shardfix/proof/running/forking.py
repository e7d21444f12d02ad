"""Fork the ranks of a group: tell them, hear them, see where each stands and how it ended, and leave none of them."""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import mmap
import os
import re
import shutil
import signal
import struct
import sys
import tempfile
import threading
import time
import warnings
from dataclasses import dataclass
from typing import Any, Callable  # noqa: UP035 - Python 3.8 can't subscript the other one

PLACE = struct.Struct("iiii")  # stage, loader, epoch, step


@dataclass(frozen=True)
class Seat:
    """What a rank has from the fork: its number, where it is told and where it answers, where it says how far it is.

    ``life`` comes to its end when the parent is gone or ends the group.
    """

    rank: int
    commands: int
    answers: int
    life: int
    folder: str
    memory: mmap.mmap

    def at(self, stage: int, loader: int = 0, epoch: int = 0, step: int = 0) -> None:
        """Say where this rank stands; its parent reads that when the rank does not answer."""
        self.place(stage, loader, epoch, step)

    @property
    def place(self) -> Callable[[int, int, int, int], None]:
        """The same as ``at`` for whoever says it often: without a frame of Python's."""
        return functools.partial(PLACE.pack_into, self.memory, self.rank * PLACE.size)


class Forked:
    """The processes of a group of ranks, which are this process's own children, and the pipes to them, by rank.

    ``own_groups``: each leads a process group, so that the workers of its loaders end with it.
    """

    def __init__(self, world: int, own_groups: bool = False) -> None:
        self.world = world
        self.own_groups = own_groups
        self.pids: list[int] = []
        self.commands: list[int] = []
        self.answers: list[int] = []
        self.life = -1
        self.memory = mmap.mmap(-1, PLACE.size * world)
        self.folder = tempfile.mkdtemp(prefix="shardfix-ranks-")

    def start(self, live: Callable[[Seat], None]) -> None:
        """Fork the ranks; ``live(seat)`` is what each does until its end."""
        OPEN.add(self)
        life, self.life = os.pipe()
        HELD.add(self.life)
        parent = os.getpid()
        try:
            for rank in range(self.world):
                with open(self.file("trace", rank), "w"):
                    pass  # there before it can be asked for
                commands, tell = os.pipe()
                hear, answers = os.pipe()
                HELD.update((tell, hear))
                self.commands.append(tell)
                self.answers.append(hear)
                for stream in (sys.stdout, sys.stderr):
                    with contextlib.suppress(Exception):
                        stream.flush()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of threads: the rank uses none of this process's
                    pid = os.fork()
                if pid == 0:
                    self._be(Seat(rank, commands, answers, life, self.folder, self.memory), parent, live)
                self.pids.append(pid)
                os.close(commands)
                os.close(answers)
        finally:
            os.close(life)

    def _be(self, seat: Seat, parent: int, live: Callable[[Seat], None]) -> None:
        """A rank's life, from the fork to its end; nothing of the process that it was forked from goes on here."""
        try:
            for descriptor in HELD:
                os.close(descriptor)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # standard input is the parent's own
            if self.own_groups:
                with contextlib.suppress(OSError):
                    os.setpgid(0, 0)
            end_with_parent(parent, seat.life)
            trace = open(self.file("trace", seat.rank), "a")  # noqa: SIM115
            faulthandler.register(signal.SIGUSR1, file=trace, all_threads=False)
            live(seat)
            os._exit(0)
        except BaseException as exception:
            os.write(2, f"shardfix rank {seat.rank}: {type(exception).__name__}: {exception}\n".encode())
        finally:
            os._exit(1)

    def file(self, kind: str, rank: int | str = "") -> str:
        return os.path.join(self.folder, f"{kind}{rank}")

    def place(self, rank: int) -> tuple[int, int, int, int]:
        """Where a rank said that it stands: stage, loader, epoch, step."""
        stage, loader, epoch, step = PLACE.unpack_from(self.memory, rank * PLACE.size)
        return stage, loader, epoch, step

    def calls(self, rank: int) -> list[tuple[str, str, str]]:
        """The calls that a rank is in, the innermost first, as (file, line, function)."""
        file = self.file("trace", rank)
        before = os.path.getsize(file)
        os.kill(self.pids[rank], signal.SIGUSR1)
        for _ in range(25):
            time.sleep(0.02)
            with open(file, encoding="utf-8", errors="replace") as trace:
                trace.seek(before)
                calls = re.findall(r'File "([^"]*)", line (\d+) in (\S+)', trace.read())
            if calls:
                return [call for call in calls if "c10d_logger" not in call[0]]
        return []

    def ended(self, rank: int) -> tuple[str, int]:
        """How a rank that is heard no more has ended: ``exit`` and its code, or ``signal`` and its number."""
        pid = self.pids[rank]
        if hasattr(os, "waitid"):  # macOS has it from Python 3.13 on
            # not reaped: close() does that, and until then the number of its group can't become another's
            found: Any = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            return ("exit" if found.si_code == os.CLD_EXITED else "signal"), found.si_status
        _, status = os.waitpid(pid, 0)
        self.pids[rank] = 0
        return ("signal", os.WTERMSIG(status)) if os.WIFSIGNALED(status) else ("exit", os.WEXITSTATUS(status))

    def kill(self) -> None:
        """End the ranks, with the workers of their loaders."""
        for pid in filter(None, self.pids):  # not reaped yet, so the number is still its own
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if self.own_groups:
                    os.killpg(pid, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        """End the ranks, reap them, leave no file."""
        OPEN.discard(self)
        self.kill()
        for pid in filter(None, self.pids):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
        self.pids = []
        for descriptor in (*self.commands, *self.answers, self.life):
            if descriptor >= 0:
                HELD.discard(descriptor)
                os.close(descriptor)
        self.memory.close()
        shutil.rmtree(self.folder, ignore_errors=True)


HELD: set[int] = set()  # descriptors of this process that no rank may keep: who holds one keeps a pipe open
OPEN: set[Forked] = set()  # the groups of this process whose ranks may be running


def end_with_parent(parent: int, life: int) -> None:
    """Whatever happens to the parent, this process does not outlive it."""
    if sys.platform.startswith("linux"):
        import ctypes

        # the watcher below does the same, but not for a rank that holds the interpreter's lock
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)

    def watch() -> None:
        os.read(life, 1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
