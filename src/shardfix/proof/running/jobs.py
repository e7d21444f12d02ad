"""The process that an interpreter is started for: take jobs, put what they ask for through the ranks, answer."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Generator
from typing import Any

from .asking import Ask, observe
from .dispatch import Batch, Group, Where, run_batches
from .forking import HELD
from .gloo import Emit, on_the_cpu, ready
from .program import Program, Task, words_of
from .standard_input import STDIN, ParentGone

TOGETHER = 24  # recipes whose runs go through the ranks at the same time


def main(results: int) -> int:
    """Do one job after another, until standard input ends; 2 if this interpreter can run no ranks."""
    on_the_cpu()
    HELD.add(results)

    def emit(message: dict[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(results, data) :]

    if not ready(emit):
        return 2
    os.dup2(2, 1)  # what a program prints is no result
    try:
        for job in STDIN.jobs():
            (run_cells if "cells" in job else work)(job, emit)
    except (ParentGone, BrokenPipeError):
        return 1
    return 0


def work(job: dict[str, Any], emit: Emit) -> None:
    missing = ""
    if any(recipe["needs_accelerate"] for recipe in job["recipes"]):
        try:
            import accelerate  # noqa: F401
        except ImportError as exception:
            missing = f"{type(exception).__name__}: {exception} ({sys.executable} -m pip install accelerate)"
    runs = Runs(job["patience"])
    try:
        late: list[int] = []
        for start in range(0, len(job["recipes"]), TOGETHER):
            chunk = range(start, min(start + TOGETHER, len(job["recipes"])))
            for number in chunk:
                emit({"kind": "begin", "recipe": number})
            able = [n for n in chunk if not (missing and job["recipes"][n]["needs_accelerate"])]
            answers = runs.observe([job["recipes"][n] for n in able], job["nproc"], put_off=True)
            for number, answer in zip(able, answers):  # noqa: B905 - Python 3.8 has no strict=
                if answer is None:
                    late.append(number)
                else:
                    emit({"kind": "recipe", "recipe": number, **answer})
            for number in chunk:
                if number not in able:
                    emit({"kind": "recipe", "recipe": number, "observations": [], "error": missing})
        for number in late:  # what hangs or dies is waited for when all others are done
            (answer,) = runs.observe([job["recipes"][number]], job["nproc"])
            emit({"kind": "recipe", "recipe": number, **(answer or {})})
    finally:
        runs.close()
    emit({"kind": "done"})


def installed(libraries: dict[str, list[list[str]]]) -> tuple[dict[str, str], dict[str, str]]:
    """The versions of the libraries that can be imported, and why the others can't.

    Of each, the first set of modules that can be imported counts. They are imported here, once, before ranks are
    forked; what a library says while it is imported is nothing for the user.
    """
    versions: dict[str, str] = {}
    reasons: dict[str, str] = {}
    for library, sets in libraries.items():
        for modules in sets:
            try:
                found = [importlib.import_module(name) for name in modules]
            except Exception as exception:  # a release that does not fit the others raises anything
                reasons.setdefault(library, words_of(exception))
                continue
            top = sys.modules[found[0].__name__.partition(".")[0]]
            versions[library] = str(getattr(top, "__version__", "of unknown version"))
            reasons.pop(library, None)
            break
    return versions, reasons


def run_cells(job: dict[str, Any], emit: Emit) -> None:
    """Run programs that are not held against one another, each once, in as many ranks as it names."""
    versions, reasons = installed(job["libraries"])
    emit({"kind": "versions", "python": sys.version.split()[0], "versions": versions, "reasons": reasons})
    groups: dict[Where, Group] = {}
    stuck: set[str] = set()
    try:
        for number, cell in enumerate(job["cells"]):
            if not versions.keys() >= set(cell["needs"]) or cell.get("program") in stuck:
                continue
            where = Where(cell["world"], cell["grouped"], imports=())
            group = groups.setdefault(where, Group(where))
            if cell["waits"]:
                group.close()  # what does not end in a used group is tried again in a fresh one
            accelerate = not {"accelerate", "transformers"}.isdisjoint(cell["needs"])
            program = Program(cell["build"], cell["each_epoch"], cell["prelude"], accelerate)
            patience = min(job["patience"], 1.5) if cell["waits"] else job["patience"]
            ranks = group.run(Task(program, cell["size"], cell["epochs"]), patience)["ranks"]
            for rank in ranks:
                rank["epochs"] = json.loads(rank["epochs"])
            emit({"kind": "cell", "cell": number, "ranks": ranks})
            if "program" in cell and any(rank["stopped"] for rank in ranks):
                stuck.add(cell["program"])  # what has hung once is not waited for again
    finally:
        for group in groups.values():
            group.close()
    emit({"kind": "done"})


class Runs:
    """All groups of ranks, forked when first asked for, and what is known already: equal programs run once."""

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self.groups: dict[Where, Group] = {}
        self.known: dict[tuple[Where, Task], dict[str, Any]] = {}
        self.stuck: dict[tuple[Where, Program], dict[str, Any]] = {}

    def observe(self, recipes: list[dict[str, Any]], nproc: int, put_off: bool = False) -> list[dict[str, Any] | None]:
        """The answers for several recipes, whose runs go through the ranks together.

        With ``put_off``, None for one of which a program must be run alone.
        """
        answers: list[dict[str, Any] | None] = [None] * len(recipes)
        waiting: list[tuple[int, Generator[list[Ask], Any, Any], list[Ask]]] = []
        for number, recipe in enumerate(recipes):
            observing = observe(recipe, nproc)
            waiting.append((number, observing, next(observing)))
        while waiting:
            tasks = [{ask: task_of(recipes[number], ask) for ask in asks} for number, _, asks in waiting]
            self.run([task for wanted in tasks for task in wanted.values()], put_off)
            left = []
            for (number, observing, _), wanted in zip(waiting, tasks):  # noqa: B905 - Python 3.8 has no strict=
                results = {ask: self.known[task] for ask, task in wanted.items() if task in self.known}
                if len(results) < len(wanted):
                    continue
                unable = next((r["unable"] for r in results.values() if r["unable"]), "")
                if unable:
                    answers[number] = {"observations": [], "error": unable}
                    continue
                try:
                    left.append((number, observing, observing.send(results)))
                except StopIteration as stop:
                    answers[number] = {"observations": stop.value, "error": ""}
            waiting = left
        return answers

    def run(self, asked: list[tuple[Where, Task]], put_off: bool) -> None:
        """Run what is not known yet, each group its own."""
        wanted: dict[Where, dict[Task, None]] = {}
        for where, task in asked:
            if (where, task) in self.known:
                continue
            stuck = self.stuck.get((where, task.program))
            if stuck is not None:  # what has hung once is not waited for again
                self.known[where, task] = stuck
            else:
                wanted.setdefault(where, {})[task] = None
        batches: dict[Where, Batch] = {}
        for where, tasks in wanted.items():
            group = self.groups.setdefault(where, Group(where))
            batches[where] = Batch(group, list(tasks), self.patience, put_off)
        run_batches(list(batches.values()))
        for where, batch in batches.items():
            found = zip(batch.tasks, batch.results)  # noqa: B905 - Python 3.8 has no strict=
            self.known.update(((where, task), result) for task, result in found if result is not None)
            self.stuck.update(((where, program), result) for program, result in batch.stuck.items())

    def close(self) -> None:
        for group in self.groups.values():
            group.close()


def task_of(recipe: dict[str, Any], ask: Ask) -> tuple[Where, Task]:
    """Where and what a run of a recipe is."""
    program = recipe[ask.variant]
    texts = (program["build"], program["each_epoch"], recipe["prelude"])
    imports = tuple(recipe["imports"]) if recipe["imports"] is not None else None
    task = Task(Program(*texts, recipe["needs_accelerate"], ask.unknown), ask.size, ask.epochs, ask.probe)
    return Where(ask.world, ask.grouped, imports), task
