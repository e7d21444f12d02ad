"""The process that an interpreter is started for: take jobs, put what they ask for through the ranks, answer."""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from .dispatch import Group, Where
from .forking import HELD
from .gloo import Emit, on_the_cpu, ready
from .program import Program, Task, words_of
from .scheduling import Runs
from .standard_input import STDIN, ParentGone


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
    """Run recipes; an answer for each, as its runs are done."""
    missing = ""
    if any(recipe["needs_accelerate"] for recipe in job["recipes"]):
        try:
            import accelerate  # noqa: F401
        except ImportError as exception:
            missing = f"{type(exception).__name__}: {exception} ({sys.executable} -m pip install accelerate)"

    def able() -> Iterator[tuple[int, dict[str, Any]]]:
        for number, recipe in enumerate(job["recipes"]):
            emit({"kind": "begin", "recipe": number})
            if missing and recipe["needs_accelerate"]:
                emit({"kind": "recipe", "recipe": number, "observations": [], "error": missing})
            else:
                yield number, recipe

    gc.freeze()  # torch's objects are many, and none of them goes
    runs = Runs(job["patience"])
    try:
        late: list[int] = []
        for number, answer in runs.observe(able(), job["nproc"], put_off=True):
            if answer is None:
                late.append(number)
            else:
                emit({"kind": "recipe", "recipe": number, **answer})
        for number in late:  # what hangs or dies is waited for when all others are done
            for _, answer in runs.observe([(number, job["recipes"][number])], job["nproc"]):
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
                rank.update(epochs=json.loads(rank["epochs"]), value=json.loads(rank["value"]))
            emit({"kind": "cell", "cell": number, "ranks": ranks})
            if "program" in cell and any(rank["stopped"] for rank in ranks):
                stuck.add(cell["program"])  # what has hung once is not waited for again
    finally:
        for group in groups.values():
            group.close()
    emit({"kind": "done"})
