"""From what each process wrote down to what each loader of a program gave to each rank."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardfix.proof.observed import Built, Item, Observed, Pass, Reader

Event = Mapping[str, Any]  # "e" says what happened; see shardfix_observe.recorder


@dataclass(slots=True)
class _Pass:
    batches: list[tuple[Item, ...]] = field(default_factory=list)
    contents: list[str] = field(default_factory=list)
    drawn: list[tuple[Item, ...]] = field(default_factory=list)  # of all ranks together, where rank 0 hands out
    skip: int = 0
    length: int | None = None
    ended: bool = False
    complete: bool = False
    epoch: int | None = None


@dataclass(slots=True)
class _Loader:
    path: str
    line: int
    via: str
    nth: int
    origin: int | None
    how: str
    built: Built = field(default_factory=Built)
    passes: dict[int, _Pass] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a rank is: the loader that it read last, in which pass, after how many steps."""

    loader: str = ""
    passes: int = 0
    step: int = 0
    within: bool = False  # the pass has not come to its end


def read_events(path: str | os.PathLike[str]) -> list[Event]:
    """The lines of one process; the last one may be cut off where it was killed."""
    events = []
    for line in Path(path).read_bytes().splitlines():
        try:
            events.append(json.loads(line))
        except ValueError:
            continue
    return events


def observed_loaders(ranks: Mapping[int, Sequence[Event]], *, world: int, root: Path) -> tuple[Observed, ...]:
    """What was seen of each loader, in the order in which they were made.

    Args:
        ranks: the events of each rank that is known.
        root: paths inside it are told from there.
    """
    made = {rank: _loaders(events) for rank, events in ranks.items()}
    names = {rank: _names(loaders, root) for rank, loaders in made.items()}
    order = dict.fromkeys(name for rank in sorted(names) for name in names[rank].values())
    replicas = _replicas(ranks, world)
    found = []
    for name in order:
        mine = {
            rank: made[rank][number] for rank in sorted(made) for number, known in names[rank].items() if known == name
        }
        if any(loader.built.dispatched for loader in mine.values()):
            _hand_out(mine, world)
        readers = tuple(Reader(rank, loader.built, _passes(loader)) for rank, loader in mine.items())
        found.append(Observed(name, world, readers, replicas))
    return tuple(found)


def standing(events: Sequence[Event], root: Path) -> Standing:
    """Where a rank is after all that it wrote down."""
    loaders = _loaders(events)
    names = _names(loaders, root)
    where = Standing()
    for event in events:
        name = names.get(event.get("id", -1), "")
        if event["e"] == "pass":
            where = Standing(name, event["pass"] + 1, 0, True)
        elif event["e"] == "step":
            same = where.loader == name and where.passes == event["pass"] + 1
            where = Standing(name, event["pass"] + 1, where.step + 1 if same else _steps(loaders, event), True)
        elif event["e"] == "end" and where.loader == name:
            where = Standing(name, where.passes, where.step, False)
    return where


def _steps(loaders: Mapping[int, _Loader], event: Event) -> int:
    """How far a pass is that goes on after another loader's; seldom, so by its final count."""
    return len(loaders[event["id"]].passes[event["pass"]].batches)


def _loaders(events: Iterable[Event]) -> dict[int, _Loader]:
    loaders: dict[int, _Loader] = {}
    for event in events:
        kind = event["e"]
        if kind == "loader":
            loaders[event["id"]] = _Loader(*(event[key] for key in ("path", "line", "via", "nth", "origin", "how")))
            continue
        loader = loaders.get(event.get("id", -1))
        if loader is None:
            continue
        if kind == "built":
            shard = event["built"].get("shard")
            loader.built = Built(**{**event["built"], "shard": (shard[0], shard[1]) if shard else None})
        elif kind in ("pass", "draw", "step", "end"):
            one = loader.passes.setdefault(event["pass"], _Pass())
            if kind == "pass":
                one.epoch, one.skip, one.length = event["epoch"], event["skip"], event["length"]
            elif kind == "draw":
                one.drawn.append(tuple(event["ids"]))
            elif kind == "step":
                one.batches.append(tuple(event.get("ids", ())))
                if "content" in event:
                    one.contents.append(event["content"])
            else:
                one.ended, one.complete = True, event["complete"]
    return loaders


def _names(loaders: Mapping[int, _Loader], root: Path) -> dict[int, str]:
    """The names of those that count: what a library made of a loader goes by that one's name."""
    families: dict[int, list[int]] = {}
    for number, loader in loaders.items():
        first = number
        while (origin := loaders[first].origin) is not None:
            first = origin
        families.setdefault(first, []).append(number)
        del loader
    names = {}
    for first, members in families.items():
        name = _name(loaders[first], root)
        read = [number for number in members if loaders[number].passes] or [members[-1]]
        owned = [number for number in read if number != first]
        for number in read:
            note = ""
            if number == first and owned:
                note = f" (not from {_maker(loaders[owned[0]].how)})"
            elif len(owned) > 1 and number != owned[0]:
                note = f" (by {loaders[number].how})"
            names[number] = name + note
    return names


def _maker(how: str) -> str:
    return {"accelerate": "prepare()", "fabric": "setup_dataloaders()"}.get(how, how)


def _name(loader: _Loader, root: Path) -> str:
    path = Path(loader.path) if loader.path else Path("?")
    shown = path.relative_to(root) if path.is_relative_to(root) else path
    via = f" ({loader.via})" if loader.via else ""
    return f"{shown.as_posix()}:{loader.line}{via}" + (f"#{loader.nth}" if loader.nth > 1 else "")


def _passes(loader: _Loader) -> tuple[Pass, ...]:
    """The passes in order; what only looks at a batch, ``next(iter(loader))``, is none unless there is no other."""
    passes = [one for _, one in sorted(loader.passes.items())]
    passes = [one for one in passes if not _is_look(one)] or passes
    return tuple(Pass(tuple(one.batches), _is_complete(one), one.epoch, tuple(one.contents)) for one in passes)


def _is_look(one: _Pass) -> bool:
    return not one.ended and len(one.batches) == 1 and one.length != 1


def _is_complete(one: _Pass) -> bool:
    """Whether a pass came to the loader's end, or was left after as many steps as the loader says it has."""
    return one.complete if one.ended else one.length is not None and 0 < one.length <= len(one.batches)


def _hand_out(mine: Mapping[int, _Loader], world: int) -> None:
    """What rank 0 drew and each rank took of it, by the rule of accelerate's DataLoaderDispatcher.

    Source: accelerate 1.15, ``data_loader.py``, ``DataLoaderDispatcher.__iter__``: the batches of one step are joined,
    filled up from the first joined batch if they are the last ones and do not divide, and cut into equal slices.
    """
    first = mine.get(0)
    if first is None:
        return
    for number, source in first.passes.items():
        per_step = 1 if first.built.split_batches else world
        steps = [
            tuple(item for batch in source.drawn[at : at + per_step] for item in batch)
            for at in range(0, len(source.drawn), per_step)
        ]
        last = len(steps) - 1
        for rank, loader in mine.items():
            one = loader.passes.get(number)
            if one is None:
                continue
            for step in range(len(one.batches)):
                at = step + source.skip
                if at > last:
                    break
                items = steps[at]
                size = len(items) // world
                if at == last and len(items) % world and not first.built.drop_last:
                    items, size = items + steps[0][:world], size + 1
                one.batches[step] = items[rank * size : (rank + 1) * size]


MODEL_PARALLEL = ("tp", "cp", "sp", "pp", "tensor", "context", "sequence", "pipeline", "model", "mp")


def _replicas(ranks: Mapping[int, Sequence[Event]], world: int) -> int:
    """The number of data-parallel ranks where the program laid out a mesh in which some share their data, else 0."""
    for event in next(iter(ranks.values()), ()):
        if event["e"] == "mesh":
            shared = 1
            for name, size in zip(event["names"], event["shape"], strict=False):
                words = str(name).lower().replace("-", "_").split("_")
                if any(word in MODEL_PARALLEL for word in words):
                    shared *= size
            if 1 < shared <= world and world % shared == 0:
                return world // shared
    return 0
