"""Run factories on forked ranks and hand on what the ranks say: in any interpreter that has torch, which needs nothing
else of this tool, or in the process that asks.

As a program (``worker.py calling``) it reads one JSON job from standard input, writes JSON lines to its descriptor,
and ends with all its ranks when standard input ends.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import inspect
import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from . import ranks
from .called import is_loader, read_factory
from .forking import HELD, OPEN
from .gloo import Emit, ready
from .ranks import Place

WORTH_KEEPING = (
    "numpy",
    "accelerate",
    "torchvision",
    "transformers",
    "datasets",
    "PIL",
    "lightning",
    "lightning_fabric",
    "pandas",
)


class NoSuchFactory(Exception):
    """The user named something that is no factory, or gave it the wrong arguments; the message is for them."""


def runs(
    factory: Callable[[], Any],
    *,
    nproc: int,
    epochs: int,
    set_epoch: bool | Callable[[Any, int], None],
    patience: float,
    deadline: float,
    owner: str = "",
    one_more: bool = True,
) -> Iterator[dict[str, Any]]:
    """Read a factory's loaders on ``nproc`` ranks, on one more, and in one process (in a group only if it must be).

    Each run has ``world``, ``grouped`` and ``tries``: the ranks' answers, once more without the loader at which they
    stopped, until they come through.
    """

    def run(world: int, grouped: bool) -> dict[str, Any]:
        tries: list[dict[str, Any]] = []
        skip: set[str] = set()
        while True:
            left_out = frozenset(skip)

            def task(place: Place, emit: Emit) -> None:
                try:
                    read_factory(
                        factory,
                        place,
                        emit,
                        epochs=epochs,
                        set_epoch=set_epoch,
                        owner=owner,
                        skip=left_out,  # noqa: B023
                    )
                except NoSuchFactory as error:
                    emit({"kind": "usage", "text": str(error)})
                emit({"kind": "imported", "names": [name for name in WORTH_KEEPING if name in sys.modules]})

            answers = ranks.run(task, world, grouped, patience=patience, deadline=deadline)
            stopped = [answer for answer in answers if answer["end"] != "returned"]
            reading = [answer for answer in stopped if answer["stage"] >= 2]
            first = min(reading, key=lambda answer: (answer["epoch"], answer["loader"]), default=None)
            said = first["said"] if first else []
            at = next(
                (m["name"] for m in said if m["kind"] == "loader" and first and m["number"] == first["loader"]), None
            )
            tries.append({"ranks": answers, "stopped_at": at})
            known = {m["name"] for answer in answers for m in answer["said"] if m["kind"] == "loader"}
            if at is None or len(reading) < len(stopped) or time.monotonic() > deadline:
                break
            skip.add(at)
            if not known - skip:
                break
        return {"world": world, "grouped": grouped, "tries": tries}

    for world in (nproc, nproc + 1) if one_more else (nproc,):
        seen = run(world, True)
        yield seen
        if any(answer["end"] in ("hang", "stopped") for attempt in seen["tries"] for answer in attempt["ranks"]):
            break  # what has hung once is not waited for again
    alone = run(1, False)
    yield alone
    if any(answer["end"] != "returned" for attempt in alone["tries"] for answer in attempt["ranks"]):
        yield run(1, True)


# --- as a program ---


def main(results: int) -> int:
    HELD.add(results)

    def emit(message: dict[str, Any]) -> None:
        data = memoryview(json.dumps(message).encode() + b"\n")
        while data:
            data = data[os.write(results, data) :]

    line = b""
    while not line.endswith(b"\n"):
        chunk = os.read(0, 1 << 16)
        if not chunk:
            return 1
        line += chunk
    threading.Thread(target=end_with_standard_input, daemon=True).start()
    job = json.loads(line)
    if not ready(emit):
        return 2
    import torch.utils.data  # noqa: F401 - once, before the ranks are forked

    sys.path.insert(0, os.getcwd())
    deadline = time.monotonic() + job["timeout"]
    keep({name for call in job["calls"] for name in named_in(call["target"])})
    for number, call in enumerate(job["calls"]):
        set_epoch = call["set_epoch"]
        if isinstance(set_epoch, str):
            named = set_epoch

            def set_epoch(made: Any, epoch: int) -> None:
                found(named)(made, epoch)  # noqa: B023

        def factory() -> Any:
            return called(call["target"], call["arguments"], call["strict"])  # noqa: B023

        for run in runs(
            factory,
            nproc=call["nproc"],
            epochs=call["epochs"],
            set_epoch=set_epoch,
            patience=call["patience"],
            deadline=deadline,
            owner=call["owner"],
            one_more=call["one_more"],
        ):
            emit({"kind": "run", "call": number, **run})
            said = [message for attempt in run["tries"] for rank in attempt["ranks"] for message in rank["said"]]
            if any(message["kind"] == "usage" for message in said):
                break
            keep({name for message in said if message["kind"] == "imported" for name in message["names"]})
    emit({"kind": "done"})
    return 0


def keep(names: set[str]) -> None:
    """Import what the ranks need, so that it is there already in those that are forked from here on."""
    for name in sorted(names):
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def named_in(target: str) -> Iterator[str]:
    """The large libraries that a factory's own file imports; the file is not run for that."""
    file = os.path.join(os.getcwd(), *target.partition(":")[0].split(".")) + ".py"
    try:
        with open(file, encoding="utf-8") as source:
            text = source.read()
    except (OSError, UnicodeDecodeError):
        return
    for name in WORTH_KEEPING:
        if re.search(rf"^\s*(import|from) {name}\b", text, re.MULTILINE):
            yield name


def end_with_standard_input() -> None:
    os.read(0, 1)
    for group in list(OPEN):
        group.kill()
    os._exit(1)


def called(target: str, arguments: dict[str, Any], strict: bool) -> Any:
    """Call ``pkg.mod:function`` with the arguments that it takes; a loader that a module holds is taken as it is.

    Raises NoSuchFactory, in one line with what to do: no such module or function, an argument that is missing, or (if
    ``strict``) one that the function does not take.
    """
    function = found(target)
    if is_loader(function):
        return function
    if not callable(function):
        raise NoSuchFactory(f"it is a {type(function).__name__}; name a function that returns a loader")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return function(**arguments)
    parameters = signature.parameters.values()
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    names = [p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    given = {name: value for name, value in arguments.items() if takes_any or name in names}
    for name in arguments:
        if name not in given and strict:
            known = f"its arguments are {', '.join(names)}" if names else "it has none"
            raise NoSuchFactory(f"it takes no argument {name!r}; {known}")
    variadic = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    missing = [p.name for p in parameters if p.default is p.empty and p.kind not in variadic and p.name not in given]
    if missing:
        ways = " ".join(f"--arg {name}=.." for name in missing)
        raise NoSuchFactory(
            f"it needs {'an argument' if len(missing) == 1 else 'arguments'} {', '.join(missing)}; add {ways}"
        )
    positional = [given.pop(p.name) for p in parameters if p.kind is p.POSITIONAL_ONLY and p.name in given]
    return function(*positional, **given)


def found(target: str) -> Any:
    """What ``pkg.mod:name`` names.

    Raises NoSuchFactory if the module can't be imported or has no such name.
    """
    module_name, _, path = target.partition(":")
    try:
        thing: Any = importlib.import_module(module_name)
    except ImportError as error:
        lacking = error.name or ""
        if isinstance(error, ModuleNotFoundError) and (module_name == lacking or module_name.startswith(lacking + ".")):
            raise NoSuchFactory(f"there is no module {lacking} in {os.getcwd()} or in {sys.executable}") from None
        raise NoSuchFactory(f"{module_name} can't be imported: {type(error).__name__}: {error}") from None
    for name in path.split("."):
        if not hasattr(thing, name):
            others = [other for other, value in vars(thing).items() if callable(value) and not other.startswith("_")]
            near = difflib.get_close_matches(name, others, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise NoSuchFactory(f"{getattr(thing, '__name__', module_name)} has no {name!r}{hint}")
        thing = getattr(thing, name)
    return thing
