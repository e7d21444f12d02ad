"""Run many projects, each in a process of its own, so that none can end the run."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Literal

from shardfix.batch.outcomes import BatchResult, Outcome, failed, judged
from shardfix.batch.projects import Project
from shardfix.config import Asked

_PATIENCE = 5.0  # seconds for a process to end its own children when it is told to stop


@dataclass(frozen=True, slots=True)
class Job:
    """What is done to every project. ``limit`` bounds the time of one project, in seconds."""

    asked: Asked
    apply: bool = False
    allow_dirty: bool = False
    allow_no_vcs: bool = False
    verify: Literal["auto", "yes", "no"] = "auto"
    require_proof: bool = False
    strict: bool = False
    python: str | None = None
    nproc: int = 2
    timeout: float = 120.0
    limit: float = 1800.0


Work = Callable[[Project, Job], Outcome]


@dataclass(slots=True)
class _Running:
    place: int
    root: Path
    process: BaseProcess
    answer: Connection
    started: float


def migrate_project(project: Project, job: Job) -> Outcome:
    """Migrate one project; raises what keeps it from being migrated."""
    from shardfix import engine
    from shardfix.config import load
    from shardfix.sources.discover import project_root

    started = time.monotonic()
    if not project.path.is_dir():
        return failed(project, f"{project.path}: no such folder; correct the path")
    result = engine.migrate(
        [project.path],
        config=load(project_root(project.path), job.asked),
        write=job.apply,
        allow_dirty=job.allow_dirty,
        allow_no_vcs=job.allow_no_vcs,
        verify=job.verify,
        python=job.python,
        nproc=job.nproc,
        timeout=job.timeout,
        require_proof=job.require_proof,
    )
    seconds = time.monotonic() - started
    return judged(project, result, strict=job.strict, require_proof=job.require_proof, seconds=seconds)


def run(
    projects: Sequence[Project],
    job: Job,
    *,
    jobs: int = 1,
    work: Work = migrate_project,
    done: Callable[[Outcome], None] = lambda outcome: None,
) -> BatchResult:
    """Run all projects, ``jobs`` at a time; ``done`` hears of each as it ends.

    A project whose process breaks, is killed or takes longer than ``job.limit`` has failed; the others go on. Projects
    of one root are not run at the same time, since each may write there. After Ctrl-C what has ended is returned.
    """
    from shardfix.sources.discover import project_root

    context = _context()
    outcomes: dict[int, Outcome] = {}
    waiting = [(place, project_root(project.path)) for place, project in enumerate(projects)]
    running: list[_Running] = []
    interrupted = False
    try:
        while waiting or running:
            for place, root in list(waiting):
                busy = any(other.root == root for other in running)
                if len(running) < jobs and not busy:
                    waiting.remove((place, root))
                    running.append(_start(context, place, root, projects[place], job, work))
            for one in _ended(running, job.limit):
                running.remove(one)
                outcomes[one.place] = _outcome(one, projects[one.place], job.limit)
                done(outcomes[one.place])
    except KeyboardInterrupt:
        interrupted = True
    finally:
        _stop(running)
    return BatchResult(
        tuple(outcomes[place] for place in sorted(outcomes)),
        job.apply,
        tuple(project for place, project in enumerate(projects) if place not in outcomes),
        interrupted,
    )


def _context() -> BaseContext:
    """Processes forked from a server that has loaded the engine once; fresh ones where there is no fork."""
    if "forkserver" in multiprocessing.get_all_start_methods():
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["shardfix.engine", "shardfix.batch.executor"])
        return context
    return multiprocessing.get_context("spawn")


def _start(context: BaseContext, place: int, root: Path, project: Project, job: Job, work: Work) -> _Running:
    answer, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(sender, project, job, work))  # type: ignore[attr-defined]
    process.start()
    sender.close()
    return _Running(place, root, process, answer, time.monotonic())


def _child(sender: Connection, project: Project, job: Job, work: Work) -> None:
    """In the project's own process: do the work, send the outcome."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides, and tells by SIGTERM
    signal.signal(signal.SIGTERM, _stopped)
    try:
        outcome = work(project, job)
    except Exception as error:
        from shardfix.report.errors import line_of

        if os.environ.get("SHARDFIX_DEBUG", "0") not in ("", "0"):
            import traceback

            traceback.print_exc()
        outcome = failed(project, line_of(error))
    sender.send(outcome)
    sender.close()


def _stopped(number: int, frame: object) -> None:
    raise SystemExit(128 + number)  # runs the clean-up of whatever is open, the proof's ranks above all


def _ended(running: Sequence[_Running], limit: float) -> list[_Running]:
    """Those that have answered, died or used up their time; waits for the first."""
    now = time.monotonic()
    soonest = min((one.started + limit - now for one in running), default=0.0)
    told = [thing for one in running for thing in (one.answer, one.process.sentinel)]
    ready = set(wait(told, max(0.0, soonest)))
    now = time.monotonic()
    return [
        one for one in running if one.answer in ready or one.process.sentinel in ready or now - one.started >= limit
    ]


def _outcome(one: _Running, project: Project, limit: float) -> Outcome:
    seconds = time.monotonic() - one.started
    try:
        if one.answer.poll():
            outcome: Outcome = one.answer.recv()
            one.process.join(_PATIENCE)
            return outcome
        dead = not one.process.is_alive()
    except (EOFError, OSError):  # the pipe closed before, or within, the answer
        dead = True
        one.process.join(_PATIENCE)
    finally:
        code = one.process.exitcode
        _stop([one])
    if dead:
        return failed(project, f"its process {_death(code)} before it was done; run it alone to see why", seconds)
    return failed(project, f"stopped after {limit:g} s; give it more with --project-timeout", seconds)


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        try:
            return f"was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"was ended by signal {-code}"
    return f"ended with exit code {code}"


def _stop(running: Sequence[_Running]) -> None:
    """End processes that are still at work, with their children."""
    for one in running:
        if one.process.is_alive():
            one.process.terminate()
    for one in running:
        one.process.join(_PATIENCE)
        if one.process.is_alive():
            one.process.kill()
            one.process.join()
        one.answer.close()
        one.process.close()
