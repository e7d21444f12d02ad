"""Fork ranks that share one gloo group, run a function in each, and hear from all of them until each has ended.

It needs torch and nothing else, so that the project's own interpreter can run it; nothing here is about loaders. The
group meets in a file, so two runs on one machine can't meet each other.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import mmap
import os
import re
import selectors
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

from .worker import become_rank, end_with_parent, forget_accelerators, on_the_cpu, seed_everything

Emit = Callable[[dict[str, Any]], None]
PLACE = struct.Struct("iiii")  # stage, loader, epoch, step
STAGES = (
    "before it began",
    "while the loaders were built",
    "before a pass",
    "while it waited for a batch",
    "at its end",
)
OWN_FILE = os.path.abspath(__file__)
OWN = os.path.dirname(OWN_FILE)
LAST_LINES = 6


class Place:
    """Where a rank stands; its parent reads it from shared memory when the rank does not answer."""

    def __init__(self, rank: int, world: int, grouped: bool, memory: mmap.mmap) -> None:
        self.rank = rank
        self.world = world
        self.grouped = grouped
        self.memory = memory

    def at(self, stage: int, loader: int = 0, epoch: int = 0, step: int = 0) -> None:
        PLACE.pack_into(self.memory, self.rank * PLACE.size, stage, loader, epoch, step)


Task = Callable[[Place, Emit], None]


def run(task: Task, world: int, grouped: bool, *, patience: float, deadline: float) -> list[dict[str, Any]]:
    """Run ``task(place, emit)`` in ``world`` forked ranks; one answer for each, in order.

    An answer holds ``said``, the rank's messages, and how its process ended: ``end`` (as ``observed.End``), ``code``,
    ``text`` (its traceback, or where it stands), and where: ``stage``, ``loader``, ``epoch``, ``step``.

    Args:
        grouped: whether the ranks are in a process group; without one there is one rank.
        patience: seconds without a sign of life from any rank before it is looked whether all that are left wait for
            one another; then they are ended.
        deadline: the time (``time.monotonic``) at which all are ended.

    No process is left when this returns or raises.
    """
    folder = tempfile.mkdtemp(prefix="shardfix-ranks-")
    group = Group(world, grouped, folder)
    try:
        group.start(task)
        group.listen(patience, deadline)
        return group.answers()
    finally:
        group.close()
        shutil.rmtree(folder, ignore_errors=True)


# --- in a rank ---


def live(rank: int, group: Group, task: Task, answers: int, parent: int, life: int) -> NoReturn:
    """A rank's life, from the fork to its end; nothing of the process that it was forked from goes on here."""
    log = os.open(group.file("log", rank), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.stdout = sys.stderr = os.fdopen(1, "w", buffering=1, errors="replace", closefd=False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)  # so that the workers of its loaders end with it
    end_with_parent(parent, life)
    faulthandler.enable(log)
    trace = open(group.file("trace", rank), "w")  # noqa: SIM115
    faulthandler.register(signal.SIGUSR1, file=trace, all_threads=False)

    def emit(message: dict[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(answers, data) :]

    try:
        join(rank, group)
        place = Place(rank, group.world, group.grouped, group.memory)
        place.at(1)
        task(place, emit)
        place.at(4)
        emit({"kind": "end", "end": "returned", "code": 0, "text": ""})
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
        emit({"kind": "end", "end": "exit", "code": code, "text": own_traceback(leaving)})
    except BaseException as exception:
        emit({"kind": "end", "end": "raised", "code": 1, "text": own_traceback(exception)})
    with contextlib.suppress(OSError):
        os.read(life, 1)  # a rank that leaves early would break the others' collectives in its own way
    os._exit(0)


def join(rank: int, group: Group) -> None:
    """Become a rank of the group, by environment and by process group, with a seed of its own."""
    import torch.distributed as dist

    on_the_cpu()
    become_rank(rank, group.world, group.grouped, group.file("store"))
    if group.grouped:
        # a factory that sets up and tears down the group as its program does finds it there and leaves it
        dist.init_process_group = lambda *arguments, **named: None
        dist.destroy_process_group = lambda *arguments, **named: None
    if "accelerate" in sys.modules:
        forget_accelerators()
    seed_everything(1234 + 7919 * rank)  # ranks are seeded differently on purpose


def own_traceback(exception: BaseException) -> str:
    """A traceback of the user's frames only: without those of libraries and of this tool."""
    frames = traceback.extract_tb(exception.__traceback__)
    own = [frame for frame in frames if users(frame.filename)]
    lines = traceback.format_list(own or frames[-1:])
    told = traceback.format_exception_only(type(exception), exception)
    return "".join([*lines, *told]).rstrip()


def users(file: str) -> bool:
    """Whether a file is the user's: not of this tool, of the standard library, or of an installed package."""
    if file.startswith("<") or os.path.abspath(file).startswith(OWN + os.sep):
        return False
    library = os.path.dirname(os.__file__)
    installed = f"{os.sep}site-packages{os.sep}" in file or f"{os.sep}dist-packages{os.sep}" in file
    return not installed and not file.startswith(library + os.sep)


# --- in the parent ---


class Group:
    """The forked ranks, which are this process's own children, and what was heard of each."""

    def __init__(self, world: int, grouped: bool, folder: str) -> None:
        self.world = world
        self.grouped = grouped
        self.folder = folder
        self.memory = mmap.mmap(-1, PLACE.size * world)
        self.pids: dict[int, int] = {}
        self.pipes: dict[int, int] = {}
        self.life = -1
        self.said: list[list[dict[str, Any]]] = [[] for _ in range(world)]
        self.ends: dict[int, dict[str, Any]] = {}

    def file(self, kind: str, rank: int | str = "") -> str:
        return os.path.join(self.folder, f"{kind}{rank}")

    def start(self, task: Task) -> None:
        OPEN.add(self)
        life_read, self.life = os.pipe()
        parent = os.getpid()
        try:
            for rank in range(self.world):
                read, write = os.pipe()
                self.pipes[rank] = read
                for stream in (sys.stdout, sys.stderr):
                    with contextlib.suppress(Exception):
                        stream.flush()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of threads: the rank uses none of this process's
                    pid = os.fork()
                if pid == 0:
                    try:
                        for descriptor in (*self.pipes.values(), self.life):
                            os.close(descriptor)
                        live(rank, self, task, write, parent, life_read)
                    except BaseException as exception:
                        os.write(2, f"shardfix rank {rank}: {type(exception).__name__}: {exception}\n".encode())
                    finally:
                        os._exit(1)
                self.pids[rank] = pid
                os.close(write)
        finally:
            os.close(life_read)

    def listen(self, patience: float, deadline: float) -> None:
        """Hear the ranks until all have ended, or none has moved for too long."""
        parts = {rank: bytearray() for rank in range(self.world)}
        seen, moved, asked = bytes(self.memory), time.monotonic(), 0.0
        with selectors.DefaultSelector() as selector:
            for rank, pipe in self.pipes.items():
                selector.register(pipe, selectors.EVENT_READ, rank)
            while len(self.ends) < self.world:
                for key, _ in selector.select(0.1):
                    rank, moved = key.data, time.monotonic()
                    chunk = os.read(key.fd, 1 << 16)
                    parts[rank] += chunk
                    if b"\n" not in chunk and chunk:
                        continue
                    *lines, parts[rank] = parts[rank].split(b"\n")
                    for message in map(json.loads, lines):
                        if message["kind"] == "end":
                            self.ends[rank] = message
                            selector.unregister(key.fd)
                        else:
                            self.said[rank].append(message)
                    if not chunk:
                        self.ends[rank] = self._died(rank)
                        selector.unregister(key.fd)
                now = bytes(self.memory)
                if now != seen:
                    seen, moved = now, time.monotonic()
                still, left = time.monotonic() - moved, [rank for rank in self.pipes if rank not in self.ends]
                if time.monotonic() > deadline:
                    break
                # where a rank has failed the others wait for it in vain
                failed = any(end["end"] != "returned" for end in self.ends.values())
                if failed and still > min(patience, 2.0) and all(self._place(rank)[0] > 1 for rank in left):
                    break
                # else a rank may be slow, to read its data say: only those that all wait for others wait in vain
                if still > patience and time.monotonic() - asked > patience:
                    asked = time.monotonic()
                    if all(self._waits(rank) for rank in left):
                        break
        over = time.monotonic() > deadline
        for rank in self.pids:
            if rank not in self.ends:
                self.ends[rank] = {"end": "stopped" if over else "hang", "code": 0, "text": self._stands(rank)}

    def answers(self) -> list[dict[str, Any]]:
        found = []
        for rank in range(self.world):
            stage, loader, epoch, step = self._place(rank)
            where = {"rank": rank, "stage": stage, "loader": loader, "epoch": epoch, "step": step}
            found.append({**where, **self.ends[rank], "said": self.said[rank]})
        return found

    def kill(self) -> None:
        """End the ranks with the workers of their loaders."""
        for pid in self.pids.values():  # not reaped yet, so the number is still its own
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        """End the ranks and reap them."""
        OPEN.discard(self)
        self.kill()
        for pid in self.pids.values():
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
        self.pids = {}
        for descriptor in (*self.pipes.values(), self.life):
            if descriptor >= 0:
                os.close(descriptor)
        self.memory.close()

    def _place(self, rank: int) -> tuple[int, int, int, int]:
        stage, loader, epoch, step = PLACE.unpack_from(self.memory, rank * PLACE.size)
        return stage, loader, epoch, step

    def _died(self, rank: int) -> dict[str, Any]:
        with open(self.file("log", rank), encoding="utf-8", errors="replace") as log:
            lines = log.read().splitlines()
        # not reaped: close() does that, and until then the number of its group can't become another's
        status = os.waitid(os.P_PID, self.pids[rank], os.WEXITED | os.WNOWAIT)
        assert status is not None
        end = "exit" if status.si_code == os.CLD_EXITED else "signal"
        return {"end": end, "code": status.si_status, "text": "\n".join(lines[-LAST_LINES:])}

    def _stands(self, rank: int) -> str:
        """Where a rank that does not answer stands: its stage, and the user's call that it is in."""
        stage, _, epoch, step = self._place(rank)
        text = STAGES[stage] + (f" of epoch {epoch}" if stage == 2 else "")
        if stage == 3:
            text = f"epoch {epoch}, {text} after {step} steps"
        calls = self._calls(rank)
        if calls:
            file, line, name = next((call for call in calls if users(call[0])), calls[0])
            text += f", in {name} ({os.path.basename(file)}:{line})"
            if users(file) and calls[0][2] != name:
                text += f", which waits in {calls[0][2]}"
        return text

    def _waits(self, rank: int) -> bool:
        """Whether a rank is in a collective."""
        calls = self._calls(rank)
        return bool(calls) and f"torch{os.sep}distributed{os.sep}" in calls[0][0]

    def _calls(self, rank: int) -> list[tuple[str, str, str]]:
        """The calls that a rank is in, the innermost first, as (file, line, function)."""
        file = self.file("trace", rank)
        before = os.path.getsize(file)
        os.kill(self.pids[rank], signal.SIGUSR1)
        calls: list[tuple[str, str, str]] = []
        for _ in range(25):
            time.sleep(0.02)
            with open(file, encoding="utf-8", errors="replace") as trace:
                trace.seek(before)
                calls = re.findall(r'File "([^"]*)", line (\d+) in (\S+)', trace.read())
            if calls:
                break
        below = next((at for at, call in enumerate(calls) if call[0] == OWN_FILE), len(calls))
        return [call for call in calls[:below] if "c10d_logger" not in call[0]]  # not those it was forked in


OPEN: set[Group] = set()  # the groups of this process whose ranks may be running
