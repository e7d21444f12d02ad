"""Start the worker with the chosen interpreter, hand it the recipes, and judge what it saw."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from shardfix.proof.judging.judge import judge, unproven
from shardfix.proof.model import Observation, Proof, RankRun, Recipe, observation_from_json, recipe_to_json

IMPORTING = "while the project's code was imported"  # as the worker says it
Found = TypeVar("Found")
WORKER = Path(__file__).with_name("worker.py")


class VerifierError(Exception):
    """The proof can't be run at all: no torch, no fork, or the worker broke; the message says what to do."""


def torch_available(python: str | None = None) -> str | None:
    """The version of torch that an interpreter has, without importing it; ``None`` where it has none."""
    if python is None or python == sys.executable:
        if importlib.util.find_spec("torch") is None:
            return None
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("torch")
        except PackageNotFoundError:
            return "of unknown version"
    question = "import importlib.metadata as m; print(m.version('torch'))"
    try:
        answer = subprocess.run(
            [python, "-c", question], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, cwd=os.sep
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() or None


class Verifier:
    """A worker that is started early, so that importing torch overlaps other work, and asked any number of times.

    ``python`` is the interpreter whose torch and accelerate are used (default: this one). ``nproc`` ranks are
    started, and ``nproc + 1`` as well, so that padding is exercised. ``timeout`` bounds each call of ``prove``, in
    seconds; what is not reached by then is unproven. ``patience`` is how many seconds a rank may take for one step
    before it counts as hanging. ``env``: more variables for the interpreter's environment.

    Raises VerifierError: from ``prove``, when the interpreter can't be started or has no torch.
    """

    def __init__(
        self,
        *,
        python: str | None = None,
        nproc: int = 2,
        timeout: float = 120.0,
        patience: float | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        if nproc < 2:
            raise ValueError(f"nproc is {nproc}; a proof needs two ranks or more")
        python = python or sys.executable
        # the worker runs in its own folder; not resolved further, since a link is how a venv knows itself
        self.python = os.path.abspath(python) if os.path.dirname(python) else python
        self.nproc = nproc
        self.timeout = timeout
        self.patience = max(1.0, min(8.0, timeout / 8)) if patience is None else patience
        self.env = env or {}
        self.torch = ""
        self._worker: subprocess.Popen[bytes] | None = None
        self._results = -1
        self._pending = b""
        self._lines: deque[bytes] = deque()
        self._ready = False

    def __enter__(self) -> Verifier:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start the interpreter; returns at once."""
        if self._worker is not None:
            return
        self._folder = tempfile.TemporaryDirectory(prefix="shardfix-proof-")
        self._errors = open(os.path.join(self._folder.name, "stderr"), "w+b")  # noqa: SIM115
        self._results, write_end = os.pipe()
        try:
            self._worker = subprocess.Popen(
                [self.python, str(WORKER), "jobs", f"fd:{write_end}", self._folder.name],
                stdin=subprocess.PIPE,
                stdout=self._errors,
                stderr=self._errors,
                pass_fds=(write_end,),
                cwd=self._folder.name,
                env={
                    **os.environ,
                    "TMPDIR": self._folder.name,
                    "PYTHONDONTWRITEBYTECODE": "1",
                    "OBJC_DISABLE_INITIALIZE_FORK_SAFETY": "YES",  # macOS reads it before Python starts
                    **self.env,
                },
                start_new_session=True,  # Ctrl-C reaches this process only, which then ends the worker and its ranks
            )
        except OSError as error:
            self._forget()
            raise VerifierError(
                f"can't start {self.python}: {error.strerror}; name an interpreter with --python"
            ) from None
        finally:
            os.close(write_end)

    def close(self) -> None:
        """End the worker and its ranks, whatever they are doing."""
        worker = self._worker
        if worker is None:
            return
        if worker.returncode is None:  # not reaped yet, so the number of its session is still its own
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(worker.pid, signal.SIGKILL)
            worker.kill()
        worker.wait()
        if worker.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                worker.stdin.close()
        self._forget()

    def _forget(self) -> None:
        self._worker = None
        self._pending = b""
        self._lines.clear()
        self._ready = False
        os.close(self._results)
        self._errors.close()
        self._folder.cleanup()

    def prove(self, recipes: Sequence[Recipe]) -> list[Proof]:
        """Run all recipes in one launch; one proof for each, in their order.

        A loader that hangs, a rank that dies and a launch that takes too long are verdicts. The worker is
        ended whenever this is left by an exception (Ctrl-C too).
        """
        return self._each(recipes, _judged)

    def observe(self, recipes: Sequence[Recipe]) -> list[list[Observation] | str]:
        """Run all recipes in one launch; what was read of each one, or why nothing was, in their order."""
        return self._each(recipes, lambda recipe, seen: seen)

    def _each(self, recipes: Sequence[Recipe], take: Callable[[Recipe, list[Observation] | str], Found]) -> list[Found]:
        """What is made of each recipe's observations, which is done while the ranks go on with the next."""
        found: dict[int, Found] = {}
        try:
            for number, seen in self._answers(recipes):
                found[number] = take(recipes[number], seen)
        except BaseException:
            self.close()
            raise
        return [found[number] for number in range(len(recipes))]

    def _answers(self, recipes: Sequence[Recipe]) -> Iterator[tuple[int, list[Observation] | str]]:
        """The observations of each recipe, or why there are none, by its number, as they come."""
        if not recipes:
            return
        deadline = time.monotonic() + self.timeout
        self.start()
        left = set(range(len(recipes)))
        begun: set[int] = set()
        if self._wait_until_ready(deadline):
            self._send(recipes)
            for message in self._messages(deadline):
                if message["kind"] == "begin":
                    begun.add(message["recipe"])
                elif message["kind"] == "recipe":
                    left.discard(message["recipe"])
                    yield message["recipe"], message["error"] or observations_of(message)
                elif message["kind"] == "done":
                    break
        if left:
            why = self._why_it_ended(deadline)
            self.close()
            for number in sorted(left):
                place = "while this loader ran" if number in begun else "before this loader's turn"
                yield number, f"{why} {place}"

    def hear(self, job: Mapping[str, Any]) -> tuple[list[dict[str, Any]], str]:
        """Hand the worker a job that holds no recipes; its messages, and why they ended early, if they did."""
        try:
            deadline = time.monotonic() + self.timeout
            self.start()
            messages: list[dict[str, Any]] = []
            if self._wait_until_ready(deadline):
                self._write(job)
                for message in self._messages(deadline):
                    if message["kind"] == "done":
                        return messages, ""
                    messages.append(message)
            return messages, self._why_it_ended(deadline)
        except BaseException:
            self.close()
            raise

    def _wait_until_ready(self, deadline: float) -> bool:
        if not self._ready:
            for message in self._messages(deadline):
                if message["error"]:
                    way_out = "install it there (python -m pip install torch) or name another interpreter with --python"
                    raise VerifierError(f"{message['error']}; {way_out}")
                self.torch = message["torch"]
                self._ready = True
                break
        return self._ready

    def _send(self, recipes: Sequence[Recipe]) -> None:
        self._write({"recipes": [recipe_to_json(recipe) for recipe in recipes], "nproc": self.nproc})

    def _write(self, job: Mapping[str, Any]) -> None:
        assert self._worker is not None
        assert self._worker.stdin is not None
        job = {**job, "patience": self.patience, "watch_stdin": True}
        with contextlib.suppress(BrokenPipeError):  # the results pipe says why
            self._worker.stdin.write(json.dumps(job).encode() + b"\n")
            self._worker.stdin.flush()

    def _messages(self, deadline: float) -> Iterator[dict[str, Any]]:
        """The worker's messages until it ends or the time is over."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._results, selectors.EVENT_READ)
            while True:
                while self._lines:
                    yield json.loads(self._lines.popleft())
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    return
                chunk = os.read(self._results, 1 << 20)
                if not chunk:
                    return
                *lines, self._pending = (self._pending + chunk).split(b"\n")
                self._lines.extend(lines)

    def _why_it_ended(self, deadline: float) -> str:
        assert self._worker is not None
        if time.monotonic() >= deadline:
            return f"the run was stopped after {self.timeout:g} s"
        code = self._worker.wait(timeout=10)
        self._errors.seek(0)
        text = self._errors.read().decode(errors="replace").strip()
        if not self._ready:
            raise VerifierError(f"{self.python} ended with exit code {code} before it was ready:\n{text[-2000:]}")
        last = text.splitlines()[-1] if text else "it said nothing"
        return f"the worker ended with exit code {code} ({last})"


def observations_of(message: Mapping[str, Any]) -> list[Observation]:
    """What was read of a recipe, as the worker hands it on: what each rank read is JSON within JSON."""
    for run in (run for observation in message["observations"] for run in observation["ranks"]):
        run["epochs"] = json.loads(run["epochs"])
    return [observation_from_json(observation) for observation in message["observations"]]


def _judged(recipe: Recipe, seen: list[Observation] | str) -> Proof:
    if isinstance(seen, str):
        return unproven(recipe, seen)
    # the project's own code may fail on what a recipe hands to it: that says nothing about the loader
    grouped = {(o.variant, o.size, o.unknown) for o in seen if o.world == 1 and o.grouped}
    for o in seen:
        outside = o.world == 1 and not o.grouped and (o.variant, o.size, o.unknown) in grouped
        failed = [run for run in o.ranks if run.where]
        if failed and o.variant == "after" and not outside:  # outside of a group it was run again inside
            return unproven(recipe, f"the project's own code raised {failed[0].error} ({failed[0].where})")
        waiting = [run.stopped for run in o.ranks if run.stopped.startswith(IMPORTING)]
        if waiting:
            return unproven(recipe, f"a rank did not come on {waiting[0]}")
    if recipe.worlds:
        whole = [by_groups(o) for o in seen]
        if None in whole:
            return unproven(recipe, "ranks of one data-parallel group read different samples")
        proof = judge(replace(recipe, owner="ddp"), [o for o in whole if o is not None])
        ran = " and ".join(map(str, recipe.worlds))
        return replace(
            proof, reasons=(*proof.reasons, f"{ran} ranks ran: those of one data-parallel group read the same")
        )
    return judge(recipe, seen)


def by_groups(observation: Observation) -> Observation | None:
    """An observation with one rank for each data-parallel group, whose ranks all read the same; None if they don't."""
    groups: dict[int, RankRun] = {}
    for run in observation.ranks:
        if run.share is None:
            return observation
        first = groups.setdefault(run.share[1], run)
        if first.epochs != run.epochs or first.share != run.share:
            return None
    ranks = tuple(replace(run, rank=number) for number, run in sorted(groups.items()))
    return replace(observation, world=len(ranks), ranks=ranks)


def prove(
    recipes: Sequence[Recipe],
    *,
    python: str | None = None,
    nproc: int = 2,
    timeout: float = 120.0,
    patience: float | None = None,
) -> list[Proof]:
    """Prove all recipes in one launch of ``python`` (default: this interpreter). See Verifier."""
    with Verifier(python=python, nproc=nproc, timeout=timeout, patience=patience) as verifier:
        return verifier.prove(recipes)
