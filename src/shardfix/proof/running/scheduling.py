"""Keep every group of ranks busy with the runs of many recipes, and answer for each recipe when its runs are done."""

from __future__ import annotations

import itertools
import selectors
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Tuple  # noqa: UP035 - Python 3.8 can't subscript the other one

from .asking import Ask, observe
from .dispatch import Batch, Group, Where, hear, watch_standard_input
from .program import Program, Task

TOGETHER = 32  # recipes that are under way at the same time
Run = Tuple[Where, Task]  # noqa: UP006


@dataclass(eq=False)
class Observing:
    """A recipe under way: what it asked for last, and which of that has no result yet.

    ``put_off``: something of that gets no result now, since it must be run alone.
    """

    number: int
    recipe: dict[str, Any]
    asking: Generator[list[Ask], dict[Ask, dict[str, Any]], list[dict[str, Any]]]
    asked: dict[Ask, Run] | None = None
    missing: set[Run] = field(default_factory=set)
    put_off: bool = False
    answer: dict[str, Any] | None = None


class Runs:
    """All groups of ranks, forked when first asked for, and what is known already: equal programs run once."""

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self.groups: dict[Where, Group] = {}
        self.known: dict[Run, dict[str, Any]] = {}
        self.stuck: dict[tuple[Where, Program], dict[str, Any]] = {}
        self.wanted_by: dict[Run, list[Observing]] = {}
        self.queued: dict[Where, list[Task]] = {}
        self.running: dict[Where, Batch] = {}

    def observe(
        self, recipes: Iterable[tuple[int, dict[str, Any]]], nproc: int, put_off: bool = False
    ) -> Iterator[tuple[int, dict[str, Any] | None]]:
        """The answer for each recipe by its number, as soon as it is known.

        With ``put_off``, None for one of which a program must be run alone.
        """
        coming = iter(recipes)
        under_way = 0
        with selectors.DefaultSelector() as selector:
            watch_standard_input(selector)
            while True:
                able = [
                    Observing(number, recipe, observe(recipe, nproc))
                    for number, recipe in itertools.islice(coming, TOGETHER - under_way)
                ]
                under_way += len(able)
                if not under_way:
                    return
                if not able:
                    able = self.take(selector)
                for one in able:
                    if self.goes_on(one):
                        continue
                    under_way -= 1
                    yield one.number, one.answer
                for where in [where for where in self.queued if where not in self.running]:
                    group = self.groups.setdefault(where, Group(where))
                    batch = self.running[where] = Batch(group, self.queued.pop(where), self.patience, put_off)
                    batch.send(selector)

    def goes_on(self, one: Observing) -> bool:
        """Let a recipe that misses nothing ask on until it does; False where it has no more to ask."""
        while not one.missing:
            if one.put_off:
                return False
            results = {ask: self.known[run] for ask, run in (one.asked or {}).items()}
            unable = next((result["unable"] for result in results.values() if result["unable"]), "")
            if unable:
                one.answer = {"observations": [], "error": unable}
                return False
            try:
                self.want(one, next(one.asking) if one.asked is None else one.asking.send(results))
            except StopIteration as stop:
                one.answer = {"observations": stop.value, "error": ""}
                return False
        return True

    def want(self, one: Observing, asks: list[Ask]) -> None:
        """Put what is not known yet into the queues."""
        one.asked = {ask: run_of(one.recipe, ask) for ask in asks}
        for run in dict.fromkeys(one.asked.values()):
            if run in self.known:
                continue
            where, task = run
            stuck = self.stuck.get((where, task.program))
            if stuck is not None:  # what has hung once is not waited for again
                self.known[run] = stuck
                continue
            one.missing.add(run)
            if run not in self.wanted_by:
                self.wanted_by[run] = []
                self.queued.setdefault(where, []).append(task)
            self.wanted_by[run].append(one)

    def take(self, selector: selectors.BaseSelector) -> list[Observing]:
        """Wait for results; the recipes that miss nothing any more."""
        able = []
        for batch in hear(selector, list(self.running.values())):
            where = batch.group.where
            over = batch.settle(selector)
            for task, result in batch.news():
                if result is not None:
                    self.known[where, task] = result
                for one in self.wanted_by.pop((where, task)):
                    one.missing.discard((where, task))
                    one.put_off = one.put_off or result is None
                    if not one.missing:
                        able.append(one)
            self.stuck.update(((where, program), result) for program, result in batch.stuck.items())
            if over:
                del self.running[where]
        return able

    def close(self) -> None:
        for group in self.groups.values():
            group.close()


def run_of(recipe: dict[str, Any], ask: Ask) -> Run:
    """What a recipe asks for: where it runs, and what."""
    program = recipe[ask.variant]
    texts = (program["build"], program["each_epoch"], recipe["prelude"])
    imports = tuple(recipe["imports"]) if recipe["imports"] is not None else None
    task = Task(Program(*texts, recipe["needs_accelerate"], ask.unknown), ask.size, ask.epochs, ask.probe)
    return Where(ask.world, ask.grouped, imports), task
