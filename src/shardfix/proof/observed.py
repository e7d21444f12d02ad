"""What was seen of real loaders: by creation line, rank and pass, and how each rank's process ended.

A recipe's observations (``model.Observation``) are of programs that the proof made up; these are of the user's own
factory or script, read by the interpreter that runs it. The dictionaries that ``observe.py`` writes have these fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Item = int | str  # the id of a sample in the base dataset, or the digest of what a stream yielded
Kind = Literal["map", "stream"]
Sharder = Literal["", "accelerate", "accelerate-dispatcher", "fabric", "lightning"]
End = Literal["returned", "raised", "signal", "exit", "stopped", "hang"]


@dataclass(frozen=True, slots=True)
class Built:
    """What a rank's loader says of itself; ``None`` where it says nothing.

    ``samples`` is the length of the base dataset, through ``Subset`` and the like, ``subset`` the length of what the
    loader reads; ``draws`` is what the sampler yields in all ranks together, ``shard`` its (number of shards, own
    shard). ``batch_size`` is that of a rank's own step. ``manual`` says that the program gave a sampler or batch
    sampler itself, ``sharder`` which library shards the batches. A stream is ``shuffled`` if it is to be told the
    epoch. ``subset_digest`` tells the base ids of a subset apart, ``data_digest`` datasets: ranks whose digests differ
    read other subsets, or hold other data under the same ids. Both are empty where they were not taken.
    """

    kind: Kind = "map"
    samples: int | None = None
    subset: int | None = None
    draws: int | None = None
    sampler: str = ""
    shard: tuple[int, int] | None = None
    manual: bool = False
    shuffled: bool | None = None
    replacement: bool = False
    batch_size: int | None = None
    drop_last: bool = False
    sampler_drop_last: bool = False
    seed: int | None = None
    workers: int = 0
    sharder: Sharder = ""
    split_batches: bool = False
    even_batches: bool = True
    dispatched: bool = False
    subset_digest: str = ""
    data_digest: str = ""


@dataclass(frozen=True, slots=True)
class Pass:
    """One iteration over a loader on one rank: what its steps held, in order.

    ``complete`` is whether the loader came to its own end; ``epoch`` what its sampler said its epoch is, if it counts.
    ``contents`` are digests of what the first steps yielded, where they were taken: ranks that draw the same ids from
    datasets of their own (one file a rank) yield other contents.
    """

    batches: tuple[tuple[Item, ...], ...]
    complete: bool
    epoch: int | None = None
    contents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reader:
    """One rank's side of a loader."""

    rank: int
    built: Built
    passes: tuple[Pass, ...] = ()


@dataclass(frozen=True, slots=True)
class Observed:
    """One loader of a program: where it is made, and who read what.

    ``loader`` is ``train.py:41``; the second one made there is ``train.py:41#2``. ``replicas`` is the number of
    data-parallel ranks, 0 where that is the world: ranks of one model-parallel group may read the same. ``alone`` is
    the same loader in a program of one process, where that was run too.
    """

    loader: str
    world: int
    readers: tuple[Reader, ...]
    replicas: int = 0
    alone: Reader | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """How one rank's process ended: ``text`` is its own traceback or the place where it stood.

    ``loader``, ``passes`` (counted from 0) and ``step`` are where it was in its reading; ``loader`` is empty before.
    """

    rank: int
    end: End
    code: int = 0
    text: str = ""
    loader: str = ""
    passes: int = 0
    step: int = 0


@dataclass(frozen=True, slots=True)
class Watched:
    """A program that was run on several ranks: its loaders, and how its processes ended."""

    world: int
    loaders: tuple[Observed, ...]
    endings: tuple[Ending, ...]
    seconds: float = 0.0


def reader_from_json(data: Mapping[str, Any]) -> Reader:
    built = dict(data["built"])
    shard = built.get("shard")
    built["shard"] = (int(shard[0]), int(shard[1])) if shard else None
    return Reader(
        rank=data["rank"],
        built=Built(**built),
        passes=tuple(
            Pass(
                batches=tuple(tuple(batch) for batch in item["batches"]),
                complete=item["complete"],
                epoch=item.get("epoch"),
                contents=tuple(item.get("contents", ())),
            )
            for item in data["passes"]
        ),
    )
