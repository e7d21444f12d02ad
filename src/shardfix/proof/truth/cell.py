"""What is believed of the libraries that hand out data, as cells that can be run, and how a run is held against them.

A cell is one sentence, the program that shows it, and the numbers that must come out. Pure: nothing here runs them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

Library = Literal["torch", "accelerate", "lightning", "transformers"]
Answer = Literal["holds", "differs", "not-installed", "not-run"]
Orders = Literal["same", "differ"]

LIBRARIES: tuple[Library, ...] = ("torch", "accelerate", "lightning", "transformers")


@dataclass(frozen=True, slots=True)
class Numbers:
    """What the ranks read, or must read; what is not given says nothing.

    Attributes:
        visits: samples that each rank reads in the first epoch.
        overlap: samples that more than one rank reads in it; ``>0`` where only that much is believed.
        covered: different samples that all ranks read in it, together; ``<21`` likewise.
        batches: the sizes of rank 0's batches in it.
        read: the very samples of each rank in it.
        ordered: whether each rank reads in ascending order.
        epochs: whether each rank reads every epoch in the same order, or no two in one.
        error: what an exception of the program says, of the lowest rank that raised one; or how a rank's process ended.
        waits: the ranks that never come to an end.
    """

    visits: tuple[int, ...] | None = None
    overlap: int | str | None = None
    covered: int | str | None = None
    batches: tuple[int, ...] | None = None
    read: tuple[tuple[int, ...], ...] | None = None
    ordered: bool | None = None
    epochs: Orders | Literal["mixed"] | None = None
    error: str = ""
    waits: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Before:
    """What releases of a library below a version do instead."""

    of: Library
    version: str
    numbers: Numbers
    why: str


@dataclass(frozen=True, slots=True)
class Cell:
    """One belief with the program that shows it.

    Attributes:
        id: stable; ``owner/loader`` or ``owner/fact``.
        belief: one sentence.
        prelude: the imports and classes that the program uses, and what stands for the whole column.
        program: builds ``loader`` in each rank, of ``dataset`` with ``size`` samples; the ranks are seeded differently.
        expect: what comes out where the belief holds.
        needs: the libraries that the program imports beside torch.
        decides: the codes whose advice rests on the belief.
        so: what the tool does because of it.
        each_epoch: what the program does before it reads each epoch.
        before: what older releases do; the oldest that applies counts.
        world: ranks; grouped: whether they have a process group.
        epochs: how often the loader is read.
    """

    id: str
    belief: str
    prelude: str
    program: str
    expect: Numbers
    so: str
    needs: tuple[Library, ...] = ()
    decides: tuple[str, ...] = ()
    each_epoch: str = ""
    before: tuple[Before, ...] = ()
    world: int = 2
    grouped: bool = True
    size: int = 21
    epochs: int = 3


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a cell on one set of versions.

    ``known`` says why an older release differs, where that is known. ``differences`` has one sentence for each number
    that is not as believed.
    """

    cell: Cell
    answer: Answer
    measured: Numbers | None = None
    differences: tuple[str, ...] = ()
    known: str = ""


def judge_cell(cell: Cell, versions: Mapping[str, str], ranks: Sequence[Mapping[str, Any]] | None) -> Outcome:
    """Hold what the ranks did against the belief.

    Args:
        versions: of each library that is installed.
        ranks: one for each rank, ``{"epochs": epochs x batches x indices, "error": str, "stopped": str}``; None where
            the cell was not run.
    """
    missing = [name for name in cell.needs if name not in versions]
    if missing:
        return Outcome(cell, "not-installed", differences=(f"{' and '.join(missing)} not installed",))
    if ranks is None:
        return Outcome(cell, "not-run", differences=("the run ended before this one's turn",))
    measured = measure(ranks)
    if measured.error.startswith(("ImportError", "ModuleNotFoundError")):  # releases that do not go together
        return Outcome(cell, "not-run", measured, (measured.error,))
    differences = tuple(compare(cell.expect, measured))
    era = era_of(cell, versions)
    known = era.why if era is not None and not list(compare(era.numbers, measured)) else ""
    return Outcome(cell, "differs" if differences else "holds", measured, differences, known)


def expected(cell: Cell, versions: Mapping[str, str]) -> Numbers:
    """What these versions are known to do: the belief, or what releases of their age do instead."""
    era = era_of(cell, versions)
    return cell.expect if era is None else era.numbers


def era_of(cell: Cell, versions: Mapping[str, str]) -> Before | None:
    """The entry of ``cell.before`` that applies to these versions."""
    older = [b for b in cell.before if b.of in versions and release(versions[b.of]) < release(b.version)]
    return min(older, key=lambda before: release(before.version), default=None)


def release(version: str) -> tuple[int, ...]:
    """The numbers at the head of a version, to be compared: ``2.13.0+cpu`` is ``(2, 13, 0)``."""
    head = re.match(r"\d+(?:\.\d+)*", version)
    numbers = tuple(map(int, head[0].split("."))) if head else ()
    return (*numbers, 0, 0, 0)[: max(3, len(numbers))]


def measure(ranks: Sequence[Mapping[str, Any]]) -> Numbers:
    """The numbers of a run."""
    died = [rank["stopped"] for rank in ranks if rank["stopped"].startswith("the process ")]
    error = next((rank["error"] for rank in ranks if rank["error"]), died[0] if died else "")
    waits = tuple(number for number, rank in enumerate(ranks) if rank["stopped"] and rank["stopped"] not in died)
    flat = [[[i for batch in epoch for i in batch] for epoch in rank["epochs"]] for rank in ranks]
    if not all(flat):
        return Numbers(error=error, waits=waits)
    first = [epochs[0] for epochs in flat]
    everything = set().union(*map(set, first))
    repeats = [any(a == b for n, a in enumerate(epochs) for b in epochs[:n]) for epochs in flat if len(epochs) > 1]
    alike = [all(epoch == epochs[0] for epoch in epochs) for epochs in flat if len(epochs) > 1]
    order: Orders | Literal["mixed"] | None = None
    if alike:
        order = "same" if all(alike) else "mixed" if any(repeats) else "differ"
    return Numbers(
        visits=tuple(map(len, first)),
        overlap=sum(sum(index in read for read in map(set, first)) > 1 for index in everything),
        covered=len(everything),
        batches=tuple(map(len, ranks[0]["epochs"][0])),
        read=tuple(map(tuple, first)),
        ordered=all(read == sorted(read) for read in first),
        epochs=order,
        error=error,
        waits=waits,
    )


def compare(believed: Numbers, measured: Numbers) -> list[str]:
    """What differs, a sentence for each number."""
    found: list[str] = []
    for name in (field.name for field in fields(Numbers)):
        want, have = getattr(believed, name), getattr(measured, name)
        if want is None or _meets(name, want, have):
            continue
        found.append(_difference(name, want, have))
    return found


def _meets(name: str, want: Any, have: Any) -> bool:
    if name == "error":
        return bool(re.search(want, have)) if want else not have
    if name in ("overlap", "covered") and isinstance(want, str):
        if have is None:
            return False
        bound = int(want[1:])
        return bool(have > bound) if want[0] == ">" else bool(have < bound)
    return bool(want == have)


_WORDS = {
    "visits": "samples read by each rank",
    "overlap": "samples read by several ranks",
    "covered": "samples read by any rank",
    "batches": "batch sizes of rank 0",
    "read": "samples of each rank",
    "ordered": "in order",
    "epochs": "orders of the epochs",
    "waits": "ranks that wait for ever",
}


def _difference(name: str, want: Any, have: Any) -> str:
    if name == "error":
        if not want:
            return f"raised {have}"
        return f"raised {have}, not {want}" if have else f"did not raise {want}"
    return f"{_WORDS[name]}: {show(have)}, not {show(want)}"


def show(value: Any) -> str:
    """A number of a cell in words."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        if any(isinstance(item, tuple) for item in value):
            return " | ".join(show(item) for item in value)
        return ", ".join(map(str, value)) or "none"
    return str(value)
