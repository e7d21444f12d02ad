"""Put programs through the ranks of a group, and see which of their answers count.

The ranks are handed many programs at a time and each answer is looked at: the ranks must have taken part in equally
many collectives, so that no program's can have met another's. Where they did not, or a rank raises alone, hangs or
dies, the group is ended and that program run again by itself in a fresh one (25 to 50 ms) before the rest goes on.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from .forking import Forked
from .program import NOT_BUILT, Program, Task
from .serving import frame_of, serve, unframed
from .standard_input import STDIN, ParentGone

STAGES = (
    "before it was asked",
    "while the loader was built",
    "before the epoch's pass",
    "while it waited for a batch",
    "while the project's code was imported",
)
NOTHING: dict[str, Any] = {"epochs": "[]", "error": "", "where": "", "unable": "", "value": "null", "share": None}
STARVED = 6  # times as long where the machine does not let a rank run
LOOKED_AFTER = 0.25  # seconds after which ranks that say nothing are looked at
IMPORTING = 5  # times as long as a rank may take for any other step


class Where(NamedTuple):
    """Where a program runs: how many ranks, in one process group or without (then one process).

    ``imports``: the folders that trusted programs import from; such ranks run nothing else.
    """

    world: int
    grouped: bool
    imports: tuple[str, ...] | None


class Group:
    """Ranks that are forked when they are first needed, and again after they were ended."""

    def __init__(self, where: Where) -> None:
        self.where = where
        self.forked: Forked | None = None

    def open(self) -> Forked:
        if self.forked is None:
            self.forked = Forked(self.where.world)
            self.forked.start(lambda seat: serve(seat, *self.where))
        return self.forked

    def close(self) -> None:
        if self.forked is not None:
            self.forked.close()
            self.forked = None

    def run(self, task: Task, patience: float) -> dict[str, Any]:
        """Put one program through all ranks; ranks that stop or die are part of the answer."""
        batch = Batch(self, [task], patience)
        with selectors.DefaultSelector() as selector:
            watch_standard_input(selector)
            batch.send(selector)
            while not all(one.settle(selector) for one in hear(selector, [batch])):
                pass
        return batch.results[0] or {}


class Batch:
    """Programs on their way through the ranks of one group.

    ``first`` is the first one without a result, ``end`` the end of what the ranks were given; ``alone``: they were
    given one only, in a fresh group, so that its answer counts whatever it is. With ``put_off`` a program that must be
    run alone has no result here, so that nothing waits for it.
    """

    def __init__(self, group: Group, tasks: list[Task], patience: float, put_off: bool = False) -> None:
        self.group = group
        self.tasks = tasks
        self.patience = patience
        self.put_off = put_off
        self.results: list[dict[str, Any] | None] = []
        self.told = 0
        self.stuck: dict[Program, dict[str, Any]] = {}
        self.used: list[float] | None = None
        self.end = len(tasks)
        self.alone = False

    @property
    def first(self) -> int:
        return len(self.results)

    def news(self) -> Iterator[tuple[Task, dict[str, Any] | None]]:
        """The results that there were none of when it was last asked."""
        since, self.told = self.told, len(self.results)
        return zip(self.tasks[since : self.told], self.results[since : self.told])  # noqa: B905 - Python 3.8

    def send(self, selector: selectors.BaseSelector) -> None:
        """Give the ranks the programs from the first one on, up to the end."""
        self.alone = self.end == self.first + 1 and self.group.forked is None
        self.forked = self.group.open()
        self.answers: list[deque[dict[str, Any]]] = [deque() for _ in range(self.forked.world)]
        self.parts = [b""] * self.forked.world
        self.ended: dict[int, str] = {}
        self.seen, self.moved = bytes(self.forked.memory), time.monotonic()
        self.looked = self.moved
        line = frame_of(self.tasks[self.first : self.end])
        for rank, fd in enumerate(self.forked.commands):
            selector.register(self.forked.answers[rank], selectors.EVENT_READ, (self, rank))
            data = line
            with contextlib.suppress(BrokenPipeError):  # its answer pipe says how it ended
                while data:
                    data = data[os.write(fd, data) :]

    def take(self, rank: int, selector: selectors.BaseSelector) -> None:
        """What a rank has to say: answers, or its end."""
        chunk = os.read(self.forked.answers[rank], 1 << 16)
        self.moved = time.monotonic()
        answers, self.parts[rank] = unframed(self.parts[rank] + chunk)
        self.answers[rank] += answers
        if not chunk:
            self.ended[rank] = how_it_ended(*self.forked.ended(rank))
            selector.unregister(self.forked.answers[rank])

    def settle(self, selector: selectors.BaseSelector) -> bool:
        """Take the answers that all ranks have given; whether there is nothing left to do."""
        self.looked = time.monotonic()
        while self.first < self.end and all(self.answers):
            answers = {rank: given[0] for rank, given in enumerate(self.answers)}
            steady = in_step(list(answers.values()))
            if not steady and not self.alone:
                return self.suspect(selector)
            for given in self.answers:
                given.popleft()
            self.results.append(result_of(self.forked.world, answers, {}))
            if not steady:
                return self.restart(selector, len(self.tasks))
        if self.first == self.end:
            if self.end == len(self.tasks):
                self.leave(selector)
                return True
            self.leave(selector)
            self.end = len(self.tasks)
            self.send(selector)
            return False
        if self.ended or self.waited_for_ever():
            return self.stopped(selector)
        return False

    def waited_for_ever(self) -> bool:
        now = bytes(self.forked.memory)
        if now != self.seen:
            self.seen, self.moved = now, time.monotonic()
        # where one rank has raised, the others may wait for it in vain
        broken = any(answers[0]["error"] for answers in self.answers if answers)
        wait = min(self.patience, 2.0) if broken else self.patience
        stages = [self.forked.place(rank)[0] for rank in range(self.forked.world)]
        wait *= IMPORTING if 4 in stages else 1
        waited = time.monotonic() - self.moved
        if waited <= wait / 2:
            self.used = None
        elif self.used is None:
            self.used = [used for used, _ in map(cpu_of, self.forked.pids)]
        elif waited > wait:
            # a rank that wants to run and is not let (a busy machine) is waited for longer
            starved = [
                used - before < wait / 4
                for before, (used, runs) in zip(self.used, map(cpu_of, self.forked.pids))  # noqa: B905
                if runs
            ]
            return waited > STARVED * wait or not any(starved)
        return False

    def stopped(self, selector: selectors.BaseSelector) -> bool:
        """Some rank died or does not come on."""
        if self.alone:
            if self.ended and len(self.ended) + sum(map(bool, self.answers)) < self.forked.world:
                if time.monotonic() - self.moved <= min(self.patience, 2.0):
                    return False  # the others may still end by themselves
            answers = {rank: given[0] for rank, given in enumerate(self.answers) if given}
            missing = [rank for rank in range(self.forked.world) if rank not in answers]
            stops = {rank: self.ended.get(rank) or stands(self.forked, rank) for rank in missing}
            self.results.append(result_of(self.forked.world, answers, stops))
            self.stuck[self.tasks[self.first - 1].program] = self.results[-1] or {}
            self.same_again()
            return self.restart(selector, len(self.tasks))
        done = min((len(self.answers[rank]) for rank in self.ended), default=0)
        if done:  # those before the one in which a rank died go once more, in a group that does not come to that
            return self.restart(selector, self.first + done)
        return self.suspect(selector)

    def suspect(self, selector: selectors.BaseSelector) -> bool:
        """The first program must be run alone, or is left to whoever asks for it again."""
        if not self.put_off:
            return self.restart(selector, self.first + 1)
        self.results.append(None)
        self.same_again()
        return self.restart(selector, len(self.tasks))

    def same_again(self) -> None:
        """What has hung once is not waited for again: the same program at the next sizes gets the same result."""
        program = self.tasks[self.first - 1].program
        while self.first < len(self.tasks) and self.tasks[self.first].program == program:
            self.results.append(self.results[-1])

    def restart(self, selector: selectors.BaseSelector, end: int) -> bool:
        """End the group, and go on in a fresh one up to ``end``."""
        self.leave(selector)
        self.group.close()
        self.end = end
        if self.first == len(self.tasks):
            return True
        self.send(selector)
        return False

    def leave(self, selector: selectors.BaseSelector) -> None:
        for fd in self.forked.answers:
            with contextlib.suppress(KeyError):
                selector.unregister(fd)


def how_it_ended(end: str, code: int) -> str:
    if end == "signal":
        return f"the process was ended by {signal.Signals(code).name}"
    return f"the process left with exit code {code}"


def stands(forked: Forked, rank: int) -> str:
    """Where a rank that does not answer stands: its stage, and the call it is in."""
    stage, _, epoch, step = forked.place(rank)
    place = STAGES[stage]
    if stage in (2, 3):
        place = f"epoch {epoch}, {place}" + (f" after {step} steps" if stage == 3 else "")
    for file, line, name in forked.calls(rank):
        return f"{place}, in {name} ({os.path.basename(file)}:{line})"
    return place


def cpu_of(pid: int) -> tuple[float, bool]:
    """The seconds that a process has run, and whether it wants to; (0, False) where that is not known."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return 0.0, False
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), fields[0] == "R"


def in_step(answers: list[dict[str, Any]]) -> bool:
    """Whether all ranks took part in equally many collectives, so that the next program finds them together."""
    counts = {answer["collectives"] for answer in answers}
    if None not in counts:
        return len(counts) == 1
    steps = {tuple(len(epoch) for epoch in json.loads(answer["epochs"])) for answer in answers}
    return len(answers) == 1 or (len(steps) == 1 and not any(answer["error"] for answer in answers))


def result_of(world: int, answers: dict[int, dict[str, Any]], stops: dict[int, str]) -> dict[str, Any]:
    """What all ranks of one run said; ``stops`` says where those stand that said nothing."""
    ranks = []
    unable = ""
    for rank in range(world):
        answer = answers.get(rank, NOTHING)
        kept = {key: answer[key] for key in ("epochs", "error", "where", "value", "share")}
        ranks.append({"rank": rank, **kept, "stopped": stops.get(rank, "")})
        if answer["unable"]:
            unable = unable or answer["unable"] + (f" ({answer['where']})" if answer["where"] else "")
    said = answers[min(answers)]["declared"] if answers else NOT_BUILT
    read = bool(stops) or any(answer["read"] or answer["error"] for answer in answers.values())
    return {"ranks": ranks, "declared": said, "unable": unable, "read": read}


def watch_standard_input(selector: selectors.BaseSelector) -> None:
    if STDIN.watched:
        selector.register(0, selectors.EVENT_READ, None)


def hear(selector: selectors.BaseSelector, batches: list[Batch]) -> list[Batch]:
    """Wait for what ranks have to say, and take it; the batches to be settled now.

    Raises ParentGone.
    """
    heard = set()
    for key, _ in selector.select(LOOKED_AFTER):
        if key.data is None:
            if not STDIN.more():
                raise ParentGone
            continue
        batch, rank = key.data
        batch.take(rank, selector)
        heard.add(batch)
    late = time.monotonic() - LOOKED_AFTER
    return [batch for batch in batches if batch in heard or batch.looked <= late]
