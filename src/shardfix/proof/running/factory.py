"""Prove the loaders that a user's own factory returns: called on each rank of a gloo group, and in one process.

What the ranks say becomes ``observed.Observed``, which ``verdicts`` judges; a factory that raises, hangs or dies on a
rank is judged by how it ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shardfix.proof.judging.endings import judge_run
from shardfix.proof.judging.verdicts import judge_observed
from shardfix.proof.model import CONDITIONS, Proof, StandIn
from shardfix.proof.observed import Ending, Observed, Reader, Watched, reader_from_json
from shardfix.wording import plural

from .launch import WORKER, VerifierError

SHOWN_LINES = 12  # of a traceback


class FactoryError(Exception):
    """The user named something that is no factory, or gave it the wrong arguments; one line that says what to do."""


@dataclass(frozen=True, slots=True)
class Call:
    """A factory as the user names it, ``pkg.mod:function``, and what it is called with."""

    target: str
    arguments: Mapping[str, Any]
    asked: Asked | None = None  # where it is run or judged otherwise than the others of its launch


@dataclass(frozen=True, slots=True)
class Asked:
    """How factories are run and judged.

    ``set_epoch`` is True (each loader is told the epoch as a training loop does), False, or ``pkg.mod:function``, which
    is called with the factory's result and the epoch. ``owner`` is ``accelerate`` where the program hands the factory's
    loaders to ``Accelerator().prepare``. ``replicas`` is the number of data-parallel ranks if that is not the world
    (which is then not made larger by one).
    ``padding_allowed`` False refuses repeated samples that the owner's padding rule accounts for. ``one_more`` runs
    ``nproc + 1`` ranks too.
    """

    nproc: int = 2
    epochs: int = 3
    set_epoch: bool | str | Callable[[Any, int], None] = True
    role: str = "unknown"
    owner: str = ""
    replicas: int = 0
    padding_allowed: bool = True
    one_more: bool = True
    timeout: float = 120.0
    patience: float = 15.0


def prove_factories(calls: Sequence[Call], asked: Asked, *, python: str | None = None) -> list[Proof]:
    """Call each factory on ``asked.nproc`` ranks, on one more, and in one process; a proof for each loader.

    The ranks run in ``python`` (default: this interpreter) with the current folder importable.

    Raises:
        FactoryError: there is no such module or function, or it can't be called with these arguments.
        VerifierError: the interpreter can't be started, or has no torch.
    """
    heard: dict[int, list[dict[str, Any]]] = {number: [] for number in range(len(calls))}
    ended = ""
    with _Launch(python, calls, asked) as launch:
        ended = launch.hear(heard)
    proofs: list[Proof] = []
    for number, call in enumerate(calls):
        runs = heard[number]
        usage = next((m["text"] for m in _said(runs) if m["kind"] == "usage"), "")
        if usage:
            raise FactoryError(f"--loader {call.target}: {usage}")
        if not runs:
            proofs.append(_unproven(call.target, ended or f"not reached within {asked.timeout:g} s"))
        else:
            proofs.extend(proofs_of(call.target, runs, call.asked or asked))
    return proofs


def prove_callable(factory: Callable[[], Any], name: str, asked: Asked) -> list[Proof]:
    """The same for a function of this process, from which the ranks are forked.

    Raises VerifierError: ranks can't be forked here, or this process has no torch or is in a process group itself.
    """
    if not hasattr(os, "fork"):
        raise VerifierError(f"{sys.platform} has no os.fork; the ranks are forked (Linux, macOS, WSL)")
    try:
        import torch.distributed as dist
    except ImportError as error:
        raise VerifierError(f"{sys.executable} can't import torch ({error}); python -m pip install torch") from None
    if not (dist.is_available() and dist.is_gloo_available()):
        raise VerifierError(f"the torch of {sys.executable} has no gloo backend")
    if dist.is_initialized():
        raise VerifierError("this process is in a process group, which its ranks would inherit; destroy it first")
    from . import calling

    try:
        runs = list(calling.runs(factory, deadline=time.monotonic() + asked.timeout, **_how(asked)))
    except OSError as error:
        raise VerifierError(f"the ranks can't be forked: {error}") from None
    usage = next((m["text"] for m in _said(runs) if m["kind"] == "usage"), "")
    if usage:
        raise FactoryError(usage)
    return proofs_of(name, runs, asked)


# --- from what the ranks said to proofs ---


def proofs_of(name: str, runs: Sequence[Mapping[str, Any]], asked: Asked) -> list[Proof]:
    """The proofs of one factory's loaders from its runs (``calling.runs``), in the order in which it returns them."""
    shared = [run for run in runs if run["world"] > 1]
    parts = list(dict.fromkeys(m["name"] for m in _said(runs) if m["kind"] == "loader"))
    if not parts:
        return [_without_loaders(name, runs)]
    alone = {part: _alone(part, runs) for part in parts}
    proofs = []
    for part in parts:
        verdicts = [_judged(name, part, run, alone[part], asked) for run in shared]
        proofs.append(_joined(verdicts, [run["world"] for run in shared], _told(part, runs)))
    return proofs


def _said(runs: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for run in runs:
        for attempt in run["tries"]:
            for rank in attempt["ranks"]:
                yield from rank["said"]


def _alone(part: str, runs: Sequence[Mapping[str, Any]]) -> Reader | None:
    """A loader as it is read in one process, without a group if that works."""
    for run in runs:
        if run["world"] == 1:
            attempt = _attempt(run, part)
            reader = _reader(attempt["ranks"][0], part)
            if reader is not None and attempt["ranks"][0]["end"] == "returned":
                return reader
    return None


def _attempt(run: Mapping[str, Any], part: str) -> Mapping[str, Any]:
    """The try that tells of a loader: the one that stopped at it, else the last."""
    tries: list[Mapping[str, Any]] = run["tries"]
    return next((attempt for attempt in tries if attempt["stopped_at"] == part), tries[-1])


def _reader(rank: Mapping[str, Any], part: str) -> Reader | None:
    """What one rank read of a loader; ``None`` where it has no such loader."""
    said = [m for m in rank["said"] if m.get("name") == part]
    built = [m["built"] for m in said if m["kind"] in ("loader", "built")]
    if not built:
        return None
    return reader_from_json(
        {"rank": rank["rank"], "built": built[-1], "passes": [m for m in said if m["kind"] == "pass"]}
    )


def _judged(name: str, part: str, run: Mapping[str, Any], alone: Reader | None, asked: Asked) -> Proof:
    """The verdict on one loader at one number of ranks."""
    attempt = _attempt(run, part)
    found = [_reader(rank, part) for rank in attempt["ranks"]]
    readers = tuple(reader for reader in found if reader is not None)
    observed = Observed(name + part, run["world"], readers, replicas=asked.replicas, alone=alone)
    if any(rank["end"] != "returned" for rank in attempt["ranks"]):
        proof = _ended(name + part, attempt, (observed,))
        if proof.verdict == "unproven" and proof.cause == "raises" and alone is not None:
            reasons = (*proof.reasons[:1], "in one process it runs", *proof.reasons[1:])
            return replace(proof, verdict="refuted", reasons=reasons)
        return proof
    proof = judge_observed(observed, role=asked.role, padding_removed=asked.padding_allowed)
    if proof.verdict == "proven" and proof.padded and not asked.padding_allowed:
        text = f"{plural(proof.padded, 'visit')} of an epoch are padding, which makes the shares equal"
        return replace(proof, verdict="refuted", cause="padding", reasons=(text,))
    return proof


def _endings(attempt: Mapping[str, Any], name: str) -> tuple[Ending, ...]:
    return tuple(
        Ending(
            rank=rank["rank"],
            end="stopped" if rank["end"] == "returned" else rank["end"],  # it did not leave: there is no program here
            code=rank["code"],
            text=rank["text"],
            loader=name if rank["stage"] >= 2 else "",
            passes=rank["epoch"],
            step=rank["step"],
        )
        for rank in attempt["ranks"]
    )


def _ended(name: str, attempt: Mapping[str, Any], loaders: tuple[Observed, ...]) -> Proof:
    """The proof of a loader that did not come through, from how the ranks ended."""
    ranks = attempt["ranks"]
    conditions = dict.fromkeys(CONDITIONS, "not judged: the ranks did not come through")
    out_of_time = [rank for rank in ranks if rank["end"] == "stopped"]
    if out_of_time and all(rank["end"] in ("stopped", "returned") for rank in ranks):
        stood = [f"rank {rank['rank']} stood {rank['text']}" for rank in out_of_time]
        reasons = (
            "the time was over before the ranks were done: allow more, or see where they stood",
            *stood,
        )
        return Proof(name, "unproven", reasons, conditions)
    run = judge_run(Watched(len(ranks), loaders, _endings(attempt, name)))
    told = [re.sub(r"^(rank \d+) was stopped.*", r"\1 came through", reason) for reason in run.reasons]
    return Proof(
        site=name,
        verdict=run.verdict if run.verdict != "proven" else "unproven",
        reasons=(*told, *_shortened(run.text)),
        conditions=conditions,
        cause=run.cause,
    )


def _shortened(text: str) -> list[str]:
    """The lines of a traceback; a single line is among the reasons already."""
    lines = text.splitlines()
    if len(lines) < 2:
        return []
    return lines if len(lines) <= SHOWN_LINES else ["..", *lines[-SHOWN_LINES:]]


def _without_loaders(name: str, runs: Sequence[Mapping[str, Any]]) -> Proof:
    """The proof of a factory of which no loader came: it returned something else, raised, hung or died."""
    nothing = list(dict.fromkeys(m["text"] for m in _said(runs) if m["kind"] == "nothing"))
    if nothing:
        return _unproven(name, f"it returns {' or '.join(nothing)}: no loader to read")
    attempt = runs[0]["tries"][-1]
    proof = _ended(name, attempt, ())
    alone = [run["tries"][-1]["ranks"][0] for run in runs if run["world"] == 1]
    if all(rank["end"] != "returned" for rank in alone):
        proof = replace(proof, verdict="unproven", cause="")  # that it is several ranks is not why it fails
    return proof if proof.verdict == "refuted" else replace(proof, cause="")


def _told(part: str, runs: Sequence[Mapping[str, Any]]) -> tuple[StandIn, ...]:
    told = dict.fromkeys(m["told"] for m in _said(runs) if m["kind"] == "loader" and m["name"] == part)
    calls = [call for call in told if call]
    if not calls:
        return ()
    told_by = f"told by {' or '.join(calls)} before each pass; the program's own loop is not seen"
    return (StandIn("the epoch", told_by),)


def _joined(proofs: Sequence[Proof], worlds: Sequence[int], stand_ins: tuple[StandIn, ...]) -> Proof:
    """One proof of a loader from those at each number of ranks: the worst, which says at which."""
    order = {"refuted": 0, "unproven": 1, "proven": 2}
    proof, world = min(zip(proofs, worlds, strict=True), key=lambda pair: order[pair[0].verdict])
    reasons = proof.reasons
    if proof.verdict != "proven" and reasons:
        reasons = (f"{world} ranks: {reasons[0]}", *reasons[1:])
    padded = max(other.padded for other in proofs)
    cause = proof.cause if proof.verdict == "refuted" else ""
    return replace(proof, reasons=reasons, cause=cause, padded=padded, stand_ins=(*proof.stand_ins, *stand_ins))


def _unproven(name: str, why: str) -> Proof:
    return Proof(name, "unproven", (why,), dict.fromkeys(CONDITIONS, "not judged: not run"))


# --- the launch ---


def _how(asked: Asked) -> dict[str, Any]:
    """The arguments of ``calling.runs``, as they travel."""
    return {
        "nproc": asked.nproc,
        "epochs": asked.epochs,
        "set_epoch": asked.set_epoch,
        "patience": asked.patience,
        "owner": asked.owner,
        "one_more": asked.one_more and not asked.replicas,
    }


class _Launch:
    """The interpreter that forks the ranks: started, listened to, ended."""

    def __init__(self, python: str | None, calls: Sequence[Call], asked: Asked) -> None:
        python = python or sys.executable
        self.python = os.path.abspath(python) if os.path.dirname(python) else python
        self.asked = asked
        self.job = {
            "calls": [
                {
                    "target": call.target,
                    "arguments": dict(call.arguments),
                    "strict": len(calls) == 1,
                    **_how(call.asked or asked),
                }
                for call in calls
            ],
            "timeout": asked.timeout,
        }

    def __enter__(self) -> _Launch:
        self.results, write_end = os.pipe()
        try:
            self.process = subprocess.Popen(
                [self.python, str(WORKER), "calling", f"fd:{write_end}"],
                stdin=subprocess.PIPE,
                stdout=sys.stderr.fileno() if _has_descriptor(sys.stderr) else subprocess.DEVNULL,
                stderr=None,
                pass_fds=(write_end,),
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "OBJC_DISABLE_INITIALIZE_FORK_SAFETY": "YES"},
                start_new_session=True,
            )
        except OSError as error:
            os.close(self.results)
            raise VerifierError(
                f"can't start {self.python}: {error.strerror}; name an interpreter with --python"
            ) from None
        finally:
            os.close(write_end)
        return self

    def hear(self, heard: dict[int, list[dict[str, Any]]]) -> str:
        """Collect the runs of each call; why they are not all there, if they are not."""
        stdin = self.process.stdin
        assert stdin is not None
        with contextlib.suppress(BrokenPipeError):
            stdin.write(json.dumps(self.job).encode() + b"\n")
            stdin.flush()
        deadline = (
            time.monotonic() + self.asked.timeout + 30
        )  # the launch keeps the time itself; this is for one that can't
        for message in self._messages(deadline):
            if message["kind"] == "ready" and message["error"]:
                way_out = "install it there (python -m pip install torch) or name another interpreter with --python"
                raise VerifierError(f"{message['error']}; {way_out}")
            if message["kind"] == "run":
                heard[message["call"]].append(message)
            if message["kind"] == "done":
                return ""
        code = self.process.poll()
        return f"the launch ended with exit code {code}" if code is not None else "the launch did not answer"

    def _messages(self, deadline: float) -> Iterator[dict[str, Any]]:
        pending = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(self.results, selectors.EVENT_READ)
            while selector.select(max(0.0, deadline - time.monotonic())):
                chunk = os.read(self.results, 1 << 20)
                if not chunk:
                    return
                pending += chunk
                if b"\n" in chunk:
                    *lines, pending = pending.split(b"\n")
                    yield from map(json.loads, lines)

    def __exit__(self, *exception: object) -> None:
        process = self.process
        if process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()  # it ends its ranks, with the workers of their loaders
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=3)
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        os.close(self.results)


def _has_descriptor(stream: Any) -> bool:
    try:
        return isinstance(stream.fileno(), int)
    except (AttributeError, OSError, ValueError):
        return False
