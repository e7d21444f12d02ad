"""Run a user's script as it is on several ranks, watch what its loaders read, and see how each rank ends."""

from __future__ import annotations

import contextlib
import linecache
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from shardfix.proof.judging.endings import OUT_OF_TIME
from shardfix.proof.observed import End, Ending, Observed, Watched
from shardfix.proof.running.own_processes import Folder, Processes
from shardfix.wording import join

from .observe.shardfix_observe.life import signal_for_stacks
from .observe.shardfix_observe.options import VARIABLE, Options, to_environment
from .observe.shardfix_observe.places import in_library
from .records import Event, observed_loaders, read_events, standing

OBSERVER = Path(__file__).parent / "observe"
PATIENCE_IN_VAIN = 5.0  # seconds without any movement, where all that run stand in collectives
PATIENCE = 20.0  # the same wherever they stand: a download may keep them waiting
Launch = Literal["ranks", "self"]
LOOK = 0.1  # seconds between two looks
ANSWER = 5.0  # seconds for a process to say where it stands
IDLE = 0.15  # of a processor: what waits in a collective uses less
_REGIME = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK", "TORCHELASTIC_RUN_ID")
_FRAME = re.compile(r'^  File "(?P<path>.*)", line (?P<line>\d+) in (?P<name>.+)$')


@dataclass(frozen=True, slots=True)
class Program:
    """What to run and how.

    ``command`` is what follows the interpreter: a script or ``-m`` and a module, and its arguments. ``launch`` is
    ``ranks`` where this starts the ranks, ``self`` where the program does. ``epochs`` and ``batches`` end it early, 0
    for never. ``cpu`` makes CUDA devices up.
    """

    command: tuple[str, ...]
    python: str = sys.executable
    nproc: int = 2
    timeout: float = 120.0
    epochs: int = 2
    batches: int = 0
    cpu: bool = False
    launch: Launch = "ranks"


@dataclass(frozen=True, slots=True)
class Run:
    """A program that was watched, with what it printed: the last lines of each rank."""

    watched: Watched
    output: Mapping[int, str]
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Rank:
    """A process that is a rank of the program: ``process`` is its place among the started ones."""

    number: int
    process: int
    pid: int
    events: Sequence[Event]


def watch(program: Program, *, hear: Callable[[int, str], None] | None = None) -> Run:
    """Run a program to its end, to the end that was asked for, to a hang or to the end of the time.

    Args:
        program: what to run, from the current folder.
        hear: is given each line that a started process prints, with its place among them.

    Raises OSError if the interpreter can't be started. Ctrl-C ends the program and is passed on.
    """
    begun = time.monotonic()
    root = Path.cwd()
    with Folder() as folder, Processes() as processes:
        number = program.nproc if program.launch == "ranks" else 1
        (folder / "tmp").mkdir()
        port = _free_port()
        for place in range(number):
            processes.start(
                [program.python, *program.command], _environment(program, folder, place, port), folder / f"out-{place}"
            )
        why, stacks = _wait(program, processes, folder, begun + program.timeout, hear)
        processes.end()
        ranks = _ranks(program, processes, folder)
        world = _world(program, ranks)
        loaders = observed_loaders({rank.number: rank.events for rank in ranks}, world=world, root=root)
        endings = [_ending(rank, processes, folder, why, stacks.get(rank.pid, ""), root) for rank in ranks]
        endings.sort(key=lambda ending: _ended_at(ending, ranks, processes))
        output = {place: _tail(folder / f"out-{place}") for place in range(number)}
        notes = _notes(program, processes, folder, ranks, loaders, why, root)
    watched = Watched(world, loaders, tuple(endings), round(time.monotonic() - begun, 3))
    return Run(watched, output, notes)


def _environment(program: Program, folder: Path, place: int, port: int) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if name not in _REGIME}
    cuda = program.nproc if program.cpu else 0
    options = Options(str(folder), epochs=program.epochs, batches=program.batches, cuda=cuda)
    env[VARIABLE] = to_environment(options)
    env["PYTHONPATH"] = os.pathsep.join([str(OBSERVER), *filter(None, [os.environ.get("PYTHONPATH")])])
    env["PYTHONUNBUFFERED"] = "1"  # what a killed rank printed is to be seen
    env["TMPDIR"] = str(folder / "tmp")  # it would leave its own files as well
    env["CUDA_VISIBLE_DEVICES"] = ""
    env.setdefault("OMP_NUM_THREADS", "1")
    env["ACCELERATE_USE_CPU"] = "true"
    env.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    if program.launch == "ranks":
        rank, world = str(place), str(program.nproc)
        env.update(RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=world, LOCAL_WORLD_SIZE=world)
        env.update(GROUP_RANK="0", NODE_RANK="0")
    return env


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


Why = Literal["ended", "asked", "hang", "time"]


def _wait(
    program: Program, processes: Processes, folder: Path, deadline: float, hear: Callable[[int, str], None] | None
) -> tuple[Why, dict[int, str]]:
    """Wait until the program is over, one way or another; with the stacks of those that wait in vain."""
    heard = [0] * len(processes.children)
    moved = time.monotonic()
    size, seconds = -1, processes.busy()
    looked, asked = moved, 0.0
    while True:
        running = processes.running()
        if hear is not None:
            _pass_on(folder, heard, hear)
        if not running:
            return "ended", {}
        now = time.monotonic()
        if now - looked >= 0.5:
            size, before = _written(folder), size
            used = processes.busy()
            spent = sum(used.values()) - sum(seconds.get(place, 0.0) for place in used)
            if size != before or not spent < IDLE * (now - looked):  # infinite, too, is movement
                moved = now
            seconds = {place: value for place, value in used.items() if value != float("inf")}
            looked = now
        stopped = _stopped(folder)
        if stopped >= len(running) and program.launch == "ranks":
            return "asked", {}
        if stopped and now - moved > PATIENCE_IN_VAIN / 2:
            return "asked", {}
        if now - moved > PATIENCE:
            return "hang", _stacks(processes, folder)
        if now - moved > PATIENCE_IN_VAIN and asked != moved:
            asked = moved  # once for each time that nothing moves
            stacks = _stacks(processes, folder)
            if stacks and all(map(_waits_for_others, stacks.values())):
                return "hang", stacks
        if now > deadline:
            return "time", _stacks(processes, folder)
        time.sleep(LOOK)


def _written(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.jsonl"))


def _stopped(folder: Path) -> int:
    """How many processes stand still because their loaders have been read as often as was asked."""
    return sum(1 for path in folder.glob("*.jsonl") if _last_line(path).startswith(b'{"e": "stop"'))


def _last_line(path: Path) -> bytes:
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - 4096))
        lines = file.read().splitlines()
    return lines[-1] if lines else b""


def _pass_on(folder: Path, heard: list[int], hear: Callable[[int, str], None]) -> None:
    for place in range(len(heard)):
        with open(folder / f"out-{place}", "rb") as file:
            file.seek(heard[place])
            new = file.read()
        whole = new.rfind(b"\n") + 1
        heard[place] += whole
        for line in new[:whole].decode(errors="replace").splitlines():
            hear(place, line)


def _stacks(processes: Processes, folder: Path) -> dict[int, str]:
    """Where each process stands, by its number."""
    before = {path: path.stat().st_size for path in folder.glob("stacks-*")}
    numbers = {path: int(path.name.partition("-")[2]) for path in before}
    running = processes.busy()
    processes.signal(numbers.values(), signal_for_stacks())
    _settle({path: size for path, size in before.items() if numbers[path] in running})
    said = {numbers[path]: path.read_bytes()[size:].decode(errors="replace") for path, size in before.items()}
    return {pid: text for pid, text in said.items() if text}


def _settle(before: Mapping[Path, int]) -> None:
    """Wait until each of these files has grown and grows no more: a process that gets no processor answers late."""
    deadline = time.monotonic() + ANSWER
    sizes: dict[Path, int] = {}
    while time.monotonic() < deadline:
        last, sizes = sizes, {path: path.stat().st_size for path in before}
        if sizes == last and all(sizes[path] > size for path, size in before.items()):
            return
        time.sleep(LOOK)


def _waits_for_others(stack: str) -> bool:
    """Whether a rank that uses no time stands in a collective, or in a backward pass, which ends in one."""
    return bool(re.search(r"torch/distributed/.*\.py|_engine_run_backward", _main_thread(stack)))


# --- who is a rank ---


def _ranks(program: Program, processes: Processes, folder: Path) -> list[_Rank]:
    files: dict[int, list[Event]] = {}
    for path in sorted(folder.glob("*.jsonl"), key=lambda path: int(path.stem.partition("-")[2])):
        files.setdefault(int(path.name.partition("-")[0]), []).extend(read_events(path))
    if program.launch == "ranks":
        return [_Rank(place, place, child.pid, files.get(child.pid, ())) for place, child in _each(processes)]
    found: dict[int, _Rank] = {}
    for pid, events in files.items():
        numbers = [event["rank"] for event in events if event["e"] == "rank"]
        if numbers and (numbers[-1] not in found or len(events) > len(found[numbers[-1]].events)):
            found[numbers[-1]] = _Rank(numbers[-1], 0, pid, events)
    if not found:  # one process, or many that know nothing of each other: the one that made most of the loaders
        own = processes.children[0].pid
        pid = max((own, *files), key=lambda pid: sum(event["e"] == "loader" for event in files.get(pid, ())))
        return [_Rank(0, 0, pid, files.get(pid, ()))]
    return [found[number] for number in sorted(found)]


def _each(processes: Processes) -> list[tuple[int, Any]]:
    return list(enumerate(processes.children))


def _world(program: Program, ranks: Sequence[_Rank]) -> int:
    if program.launch == "ranks":
        return program.nproc
    worlds = [event["world"] for rank in ranks for event in rank.events if event["e"] == "rank"]
    return max(worlds, default=1)


# --- how it ended ---


def _ending(rank: _Rank, processes: Processes, folder: Path, why: Why, stack: str, root: Path) -> Ending:
    code = processes.children[rank.process].returncode
    at = standing(rank.events, root)
    raised = next((event for event in rank.events if event["e"] == "raised"), None)
    left = next((event for event in reversed(rank.events) if event["e"] == "exit"), None)
    cut = code == -signal.SIGKILL and rank.process in processes.cut
    end: End
    if raised is not None:
        end, code, text = "raised", 1, raised["text"]
    elif cut:
        stood = readable_stack(stack, root)
        end, code, text = ("hang" if why == "hang" else "stopped"), 0, stood
        if why == "time":
            text = f"{stood}\n{OUT_OF_TIME}".strip()
    elif _aborted_after_its_end(rank, code):
        end, code, text = "returned", 0, ""
    elif code < 0:
        end, code = "signal", -code
        text = readable_stack(_text(folder / f"crash-{rank.pid}"), root) or f"ended by {_signal_name(code)}"
    elif code == 0:
        end, text = "returned", _place_of_exit(left, root)
    else:
        text = _traceback_in(_tail(folder / f"out-{rank.process}", 1 << 16))
        end = "raised" if text else "exit"
        text = text or _place_of_exit(left, root) or _tail(folder / f"out-{rank.process}", 2000)
    return Ending(rank.number, end, code, text, at.loader, max(0, at.passes - 1), at.step)


def _aborted_after_its_end(rank: _Rank, code: int) -> bool:
    """Whether the program was over when its process crashed: gloo's threads may abort an interpreter that is leaving.

    "terminate called without an active exception" of torch 2.13, with and without this observer, where the program does
    not call ``destroy_process_group``.
    """
    return code in (-signal.SIGABRT, -signal.SIGSEGV) and any(event["e"] == "over" for event in rank.events[-3:])


def _ended_at(ending: Ending, ranks: Sequence[_Rank], processes: Processes) -> float:
    process = next(rank.process for rank in ranks if rank.number == ending.rank)
    return processes.ended_at.get(process, float("inf"))


def _place_of_exit(event: Event | None, root: Path) -> str:
    if event is None or not event["path"]:
        return ""
    return f"exit({event['status']}) at {_shown(event['path'], root)}:{event['line']}"


def _signal_name(number: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"


def readable_stack(text: str, root: Path) -> str:
    """A stack as faulthandler writes it, innermost frame first, turned around, without frames of libraries.

    Only the thread that ran is shown; where all of it is a library's, its innermost frame is.
    """
    frames = [match for match in map(_FRAME.match, _main_thread(text).splitlines()) if match]
    own = [frame for frame in frames if not in_library(frame["path"])] or frames[:1]
    lines = []
    for frame in reversed(own):
        lines.append(f"{_shown(frame['path'], root)}:{frame['line']} in {frame['name']}")
        source = linecache.getline(frame["path"], int(frame["line"])).strip()
        if source:
            lines.append(f"    {source}")
    return "\n".join(lines)


def _main_thread(text: str) -> str:
    """The part of the thread that took the signal, which is the main one; else the last, which is the oldest."""
    parts = re.split(r"^(?=Current thread|Thread 0x)", text, flags=re.MULTILINE)
    parts = [part for part in parts if "most recent call first" in part]
    current = [part for part in parts if part.startswith("Current")]
    return (current or parts or [""])[-1]


def _shown(path: str, root: Path) -> str:
    return os.path.relpath(path, root) if Path(path).is_relative_to(root) else path


def _traceback_in(text: str) -> str:
    at = text.rfind("Traceback (most recent call last):")
    return text[at:].strip() if at >= 0 else ""


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def _tail(path: Path, size: int = 4000) -> str:
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - size))
        return file.read().decode(errors="replace").strip()


# --- what else is to be said ---


def _notes(
    program: Program,
    processes: Processes,
    folder: Path,
    ranks: Sequence[_Rank],
    loaders: Sequence[Observed],
    why: Why,
    root: Path,
) -> tuple[str, ...]:
    notes = []
    if why == "time":
        notes.append(
            f"the time was over after {program.timeout:g} s; give more (--timeout) or ask for less (--max-batches)"
        )
    spawns = next((event for rank in ranks for event in rank.events if event["e"] == "spawns"), None)
    if spawns is not None and program.launch == "ranks":
        place = f"{_shown(spawns['path'], root)}:{spawns['line']}"
        notes.append(f"the script starts ranks of its own ({place}); run it with --launch self")
    if loaders and not any("joined" in event for rank in ranks for event in rank.events):
        own = f"each of the {program.nproc} runs as a program of its own"
        alone = "no ranks are told apart" if program.launch == "self" else own
        notes.append(f"nothing in the script joins a process group: {alone}")
    unread = [one.loader for one in loaders if not any(reader.passes for reader in one.readers)]
    aborted = [rank.number for rank in ranks if _aborted_after_its_end(rank, _code(rank, processes))]
    if aborted:
        who = join([f"rank {number}" for number in aborted])
        notes.append(
            f"{who} came to the script's end and was aborted by torch while leaving: call destroy_process_group()"
        )
    if unread:
        notes.append(f"made and not read: {', '.join(unread)}")
    cut = [one.loader for one in loaders if any(not item.complete for reader in one.readers for item in reader.passes)]
    if cut:
        notes.append(f"not read to the end in every pass: {', '.join(cut)}")
    if not program.cpu and any(_needs_cuda(event["text"]) for rank in ranks for event in _raised(rank)):
        notes.append("the script asks for a CUDA device; --cpu makes them up on the CPU")
    return tuple(notes)


def _code(rank: _Rank, processes: Processes) -> int:
    code: int = processes.children[rank.process].returncode
    return code


def _raised(rank: _Rank) -> list[Event]:
    return [event for event in rank.events if event["e"] == "raised"]


def _needs_cuda(text: str) -> bool:
    return bool(
        re.search(r"not compiled with CUDA|No CUDA GPUs|NVIDIA driver|CUDA.*not available|requires a GPU", text)
    )
