"""Run a function in forked ranks that share one gloo group, and hear from all of them until each has ended.

It needs torch and nothing else, so that the project's own interpreter can run it; nothing here is about loaders. The
group meets in a file, so two runs on one machine can't meet each other.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import selectors
import sys
import time
import traceback
from typing import Any, Callable  # noqa: UP035 - Python 3.8 can't subscript the other one

from .forking import Forked, Seat
from .gloo import Emit, become_rank, forget_accelerators, on_the_cpu, seed_everything

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
    """Which rank a task runs on, and where it says how far it is."""

    def __init__(self, seat: Seat, world: int, grouped: bool) -> None:
        self.rank = seat.rank
        self.world = world
        self.grouped = grouped
        self.at = seat.at


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
    group = Group(world, grouped)
    try:
        group.forked.start(lambda seat: live(seat, group, task))
        group.listen(patience, deadline)
        return group.answers()
    finally:
        group.forked.close()


# --- in a rank ---


def live(seat: Seat, group: Group, task: Task) -> None:
    """A rank's life after the fork."""
    log = os.open(group.forked.file("log", seat.rank), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.stdout = sys.stderr = os.fdopen(1, "w", buffering=1, errors="replace", closefd=False)
    faulthandler.enable(log)

    def emit(message: dict[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(seat.answers, data) :]

    try:
        join(seat, group)
        seat.at(1)
        task(Place(seat, group.forked.world, group.grouped), emit)
        seat.at(4)
        emit({"kind": "end", "end": "returned", "code": 0, "text": ""})
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
        emit({"kind": "end", "end": "exit", "code": code, "text": own_traceback(leaving)})
    except BaseException as exception:
        emit({"kind": "end", "end": "raised", "code": 1, "text": own_traceback(exception)})
    with contextlib.suppress(OSError):
        os.read(seat.life, 1)  # a rank that leaves early would break the others' collectives in its own way


def join(seat: Seat, group: Group) -> None:
    """Become a rank of the group, by environment and by process group, with a seed of its own."""
    import torch.distributed as dist

    on_the_cpu()
    become_rank(seat.rank, group.forked.world, group.grouped, group.forked.file("store"))
    if group.grouped:
        # a factory that sets up and tears down the group as its program does finds it there and leaves it
        dist.init_process_group = lambda *arguments, **named: None
        dist.destroy_process_group = lambda *arguments, **named: None
    if "accelerate" in sys.modules:
        forget_accelerators()
    seed_everything(1234 + 7919 * seat.rank)  # ranks are seeded differently on purpose


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
    """What was heard of each rank, and how it ended."""

    def __init__(self, world: int, grouped: bool) -> None:
        self.forked = Forked(world, own_groups=True)
        self.grouped = grouped
        self.said: list[list[dict[str, Any]]] = [[] for _ in range(world)]
        self.ends: dict[int, dict[str, Any]] = {}
        for rank in range(world):
            open(self.forked.file("log", rank), "w").close()  # read where a rank dies, however early

    def listen(self, patience: float, deadline: float) -> None:
        """Hear the ranks until all have ended, or none has moved for too long."""
        forked = self.forked
        parts = [bytearray() for _ in range(forked.world)]
        seen, moved, asked = bytes(forked.memory), time.monotonic(), 0.0
        with selectors.DefaultSelector() as selector:
            for rank, pipe in enumerate(forked.answers):
                selector.register(pipe, selectors.EVENT_READ, rank)
            while len(self.ends) < forked.world:
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
                now = bytes(forked.memory)
                if now != seen:
                    seen, moved = now, time.monotonic()
                still, left = time.monotonic() - moved, [rank for rank in range(forked.world) if rank not in self.ends]
                if time.monotonic() > deadline:
                    break
                # where a rank has failed the others wait for it in vain
                failed = any(end["end"] != "returned" for end in self.ends.values())
                if failed and still > min(patience, 2.0) and all(forked.place(rank)[0] > 1 for rank in left):
                    break
                # else a rank may be slow, to read its data say: only those that all wait for others wait in vain
                if still > patience and time.monotonic() - asked > patience:
                    asked = time.monotonic()
                    if all(self._waits(rank) for rank in left):
                        break
        over = time.monotonic() > deadline
        for rank in range(forked.world):
            if rank not in self.ends:
                self.ends[rank] = {"end": "stopped" if over else "hang", "code": 0, "text": self._stands(rank)}

    def answers(self) -> list[dict[str, Any]]:
        found = []
        for rank in range(self.forked.world):
            stage, loader, epoch, step = self.forked.place(rank)
            where = {"rank": rank, "stage": stage, "loader": loader, "epoch": epoch, "step": step}
            found.append({**where, **self.ends[rank], "said": self.said[rank]})
        return found

    def _died(self, rank: int) -> dict[str, Any]:
        with open(self.forked.file("log", rank), encoding="utf-8", errors="replace") as log:
            lines = log.read().splitlines()
        end, code = self.forked.ended(rank)
        return {"end": end, "code": code, "text": "\n".join(lines[-LAST_LINES:])}

    def _stands(self, rank: int) -> str:
        """Where a rank that does not answer stands: its stage, and the user's call that it is in."""
        stage, _, epoch, step = self.forked.place(rank)
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
        """The calls of its task that a rank is in, the innermost first, as (file, line, function)."""
        calls = self.forked.calls(rank)
        below = next((at for at, call in enumerate(calls) if call[0] == OWN_FILE), len(calls))
        return calls[:below]  # not those in which it was forked
