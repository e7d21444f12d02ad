"""Stops a training run in which a DataLoader would give its processes the wrong share of the data.

`shardfix migrate` copies this one file, unchanged, into the projects it migrates as `shardfix_sanitizer.py`; `shardfix`
itself need not be installed there. It may be deleted together with the `sanitize(...)` calls: they change nothing in a
program that is right. It imports the standard library only (torch and accelerate are looked at once the program itself
has loaded them), runs once for each loader and returns the same loader, so the training loop pays nothing.

It reads the attributes of samplers and draws nothing from them: what they don't tell is warned about, not guessed.
"""

from __future__ import annotations

import numbers
import os
import sys
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DataLoaderSanitizer", "ShardingError", "ShardingWarning", "sanitize"]

T = TypeVar("T")


class ShardingError(ValueError):
    """A loader that would give the running processes the wrong share of the data."""


class ShardingWarning(UserWarning):
    """A loader that was let through although it is wrong, was rebuilt, or can't be judged."""


class Running(NamedTuple):
    """How many processes share the data, and which of them this one is."""

    world: int
    rank: int | None  # None: several processes, but nothing says which of them this is
    source: Literal["accelerator", "group", "environment", "arguments"]


class Verdict(NamedTuple):
    """What the loader's samplers say. `wrong` is refused, `unsure` only warned about."""

    kind: Literal["right", "wrong", "unsure"]
    why: str = ""
    todo: str = ""


RIGHT = Verdict("right")
OWNERS = ("accelerate", "ddp", "hf-trainer")
ACTIONS = ("raise", "fix", "warn")

# Those whose indices are known from their attributes. What a subclass reads is not.
KNOWN_SAMPLERS = (
    "BatchSampler",
    "DistributedSampler",
    "RandomSampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
)

# The names under which samplers keep their number of shards and their own shard: torch's, accelerate's, others'.
SHARD_ATTRIBUTES = (
    ("num_replicas", "rank"),
    ("num_processes", "process_index"),
    ("world_size", "rank"),
    ("_world_size", "_rank"),
    ("num_shards", "shard_id"),
)


def sanitize(
    loader: T,
    *,
    owner: str | None = None,
    on_violation: Literal["raise", "fix", "warn"] = "raise",
    num_replicas: int | None = None,
    rank: int | None = None,
) -> T:
    """Returns `loader` itself if each process reads its own share of it, and refuses it otherwise.

    Call it right after the loader is built; for owner "accelerate" before `prepare()` (after it is fine too). In a
    program of one process it returns the loader untouched, whatever it is. What samplers and datasets of your own read
    can't always be told: then it returns the loader with a `ShardingWarning`.

    Args:
        loader: a torch `DataLoader`, or None where the program has no such loader (returned as it is).
        owner: who shards the loader. "accelerate": it is handed to `Accelerator.prepare()`, which shards any sampler.
            "ddp": nobody but its own sampler. "hf-trainer": it is returned by an override of a `transformers.Trainer`,
            which uses it as it is. None: "accelerate" if an `Accelerator` is running, else "ddp". A loader that Fabric
            or Lightning puts samplers into needs no check before they did; Horovod's is "ddp" with its own numbers.
        on_violation: "raise"; "warn" (a `ShardingWarning`); or "fix": returns a loader with the same dataset, batches
            and workers that shards rightly, with a `ShardingWarning` that says so. What can't be rebuilt raises.
            A rebuilt loader has a new sampler: `loader.sampler.set_epoch(epoch)` must be called on that one, and for
            accelerate the order that a `DistributedSampler` made of its seed is replaced by the program's own seed.
        num_replicas: how many processes share the data, where this is not the number of all processes (with tensor or
            pipeline parallelism: the data-parallel size; 1 if the dataset is already this process's own part).
        rank: which of them this process is.

    Raises:
        ShardingError: the loader is refused, or a process group is missing that `WORLD_SIZE` promises.
        ValueError: an argument that is none of the above.
        TypeError: `loader` is not a loader.
    """
    if owner is not None and owner not in OWNERS:
        raise ValueError(f"owner={owner!r} is none of {', '.join(OWNERS)}")
    if on_violation not in ACTIONS:
        raise ValueError(f"on_violation={on_violation!r} is none of {', '.join(ACTIONS)}")
    _check_loader(loader)
    assumed, owner = owner is None, owner or ("accelerate" if _accelerator() else "ddp")
    running = _running(owner, num_replicas, rank)
    if loader is None or running.world == 1:
        return loader
    verdict = _judge(loader, running, owner)
    if running.source == "environment":
        verdict = _without_group(verdict, running, owner)
    if verdict.kind == "right":
        return loader
    if assumed:
        there = "an" if owner == "accelerate" else "no"
        verdict = verdict._replace(
            todo=f'{verdict.todo}. (owner="{owner}" was assumed: {there} Accelerator is running)'
        )
    message = f"{verdict.why}. {verdict.todo}"
    if verdict.kind == "unsure" or on_violation == "warn":
        _warn(message)
        return loader
    if on_violation == "raise":
        raise ShardingError(_located(message))
    rebuilt, obstacle = _rebuild(loader, running, owner)
    if rebuilt is None:
        raise ShardingError(_located(f"{message}. It can't be rebuilt at run time: {obstacle}"))
    _warn(f"{verdict.why}. It was rebuilt for this run; for good: {verdict.todo}")
    return cast("T", rebuilt)


@dataclass(frozen=True)
class DataLoaderSanitizer:
    """Holds every loader that is handed to `Accelerator.prepare()` to one policy: `DataLoader`'s default sampler.

    Args:
        num_processes: how many processes share the data, `accelerator.num_processes`.
        process_index: which of them this one is, `accelerator.process_index`.
        dispatch_batches: as in accelerate's `DataLoaderConfiguration`: only rank 0 reads and hands out the batches. A
            default sampler is then right and a `DistributedSampler` still loses data, since rank 0 sees its own part.
        strict: also refuse samplers and batch samplers that are right but made by hand. An explicit
            `SequentialSampler(dataset)` or `RandomSampler(dataset)` is the very object that `DataLoader` makes by
            itself, so it passes: torch keeps no trace of who made it, and it reads the same samples.
        split_batches: as in `DataLoaderConfiguration`: each batch is cut into one piece for each process, so its size
            must be a multiple of their number. (`even_batches` decides about padding only, so it is not asked for.)

    Raises:
        ValueError: there is no process `process_index` among `num_processes`.
    """

    num_processes: int
    process_index: int
    dispatch_batches: bool = False
    strict: bool = False
    split_batches: bool = False

    def __post_init__(self) -> None:
        _check_numbers(self.num_processes, self.process_index)

    def sanitize(self, loader: T, dataset: object | None = None) -> T:
        """Returns `loader` itself if `prepare()` will shard it rightly.

        Args:
            loader: a torch `DataLoader` that is about to be prepared, or one that already is, or None.
            dataset: what the loader is meant to read; `loader.dataset` by default. `strict` refuses a sampler that
                was made for something else.

        Raises:
            ShardingError: the loader would be sharded wrongly, or `strict` and its sampler is made by hand.
            TypeError: `loader` is not a loader.
        """
        _check_loader(loader)
        if loader is None or self.num_processes == 1:
            return loader
        running = Running(self.num_processes, self.process_index, "arguments")
        verdict = _judge(loader, running, "accelerate", self.dispatch_batches, self.split_batches)
        if verdict.kind != "wrong" and self.strict:
            strictly = _judge_strictly(loader, dataset)
            verdict = verdict if strictly.kind == "right" else strictly
        if verdict.kind == "wrong":
            raise ShardingError(_located(f"{verdict.why}. {verdict.todo}"))
        if verdict.kind == "unsure":
            _warn(f"{verdict.why}. {verdict.todo}")
        return loader


# ---------------------------------------------------------------------------------------------- who is running


def _accelerator() -> Running | None:
    """The numbers of the running `Accelerator`; a bare `PartialState` is none (`TrainingArguments` makes one too)."""
    state = sys.modules.get("accelerate.state")
    shared: Mapping[str, Any] = state.AcceleratorState._shared_state if state else {}
    return (
        Running(shared["num_processes"], shared["process_index"], "accelerator") if "num_processes" in shared else None
    )


def _group() -> Running | None:
    """The numbers of torch's default process group."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not (distributed.is_available() and distributed.is_initialized()):
        return None
    return Running(distributed.get_world_size(), distributed.get_rank(), "group")


def _environment() -> Running:
    """What torchrun and `accelerate launch` tell every process; one process where they tell nothing."""
    world, rank = _number("WORLD_SIZE"), _number("RANK")
    if world is None or world < 2:
        return Running(1, 0, "environment")
    return Running(world, rank if rank is not None and rank < world else None, "environment")


def _number(variable: str) -> int | None:
    text = os.environ.get(variable, "")
    return int(text) if text.isdecimal() else None


def _running(owner: str, num_replicas: int | None, rank: int | None) -> Running:
    """The arguments before what runs, what runs before what the environment promises."""
    accelerator, group, environment = _accelerator(), _group(), _environment()
    found = (accelerator or group) if owner == "accelerate" else (group or accelerator)
    running = found or environment
    if num_replicas is not None or rank is not None:
        world = running.world if num_replicas is None else num_replicas
        if rank is None and world == running.world:
            rank = running.rank
        _check_numbers(world, rank)
        return Running(world, rank, "arguments")
    others = max(environment.world, group.world if group else 1)
    if running.world == 1 and others > 1:
        one = "the Accelerator" if running.source == "accelerator" else "the process group"
        _warn(
            f"{one} that is running has one process, where there seem to be {others}: each of them would train alone "
            "on all samples. Start the program with torchrun or accelerate launch"
        )
    return running


def _check_loader(loader: object) -> None:
    if loader is not None and not hasattr(loader, "dataset"):
        raise TypeError(f"sanitize() takes a torch.utils.data.DataLoader, not a {type(loader).__name__}")


def _check_numbers(world: int, rank: int | None) -> None:
    if world < 1 or (rank is not None and not 0 <= rank < world):
        raise ValueError(f"there is no rank {rank} among {world} processes: ranks are 0 to the number of processes - 1")


# ------------------------------------------------------------------------------------------- what the loader says


def _judge(loader: Any, running: Running, owner: str, dispatch: bool = False, split: bool = False) -> Verdict:
    from torch.utils.data import DataLoader

    if not (hasattr(loader, "sampler") and hasattr(loader, "batch_sampler")):
        why = f"{type(loader).__name__} is no DataLoader, so it can't be seen what it reads"
        return Verdict("unsure", why, "Shard it by hand")
    # prepare() hands back what is no DataLoader as it is (Fabric's wrapper is none): only its sampler shards it.
    if _is_prepared(loader) or (owner == "accelerate" and isinstance(loader, DataLoader)):
        return _judge_accelerate(loader, running, dispatch or _is_of(loader, "DataLoaderDispatcher"), split)
    return _judge_plain(loader, running, owner)


def _judge_accelerate(loader: Any, running: Running, dispatch: bool, split: bool) -> Verdict:
    """A loader for `prepare()`, which splits the batches of any sampler between the ranks (measured, 0.5.1 to 1.15)."""
    data = loader.dataset.dataset if _is_of(loader.dataset, "IterableDatasetShard") else loader.dataset
    shard, name = _shard_of(data), type(data).__name__
    if shard is not None and shard[0] > 1:
        why = f"{name} seems to read one of {shard[0]} shards by itself, and Accelerator.prepare() splits what it reads"
        return Verdict("unsure", f"{why} again", "Let one of the two shard it")
    if _is_iterable(loader):
        return RIGHT
    sampler, shard = _sharding_sampler(loader)
    if shard is not None and shard[0] > 1:
        return _sharded_twice(loader, sampler, shard[0], running, dispatch)
    if split and not _is_prepared(loader):
        size = getattr(loader.batch_sampler, "batch_size", None)
        if not size or size % running.world:
            why = f"split_batches=True cuts each batch into {running.world} pieces, and the batch size is {size}"
            return Verdict("wrong", why, f"Pass DataLoader a batch_size= that is a multiple of {running.world}")
    # Under dispatch_batches one process draws for all.
    return RIGHT if dispatch else _judge_draws(loader, running)


def _judge_draws(loader: Any, running: Running) -> Verdict:
    """Whether every rank makes the same batches, of which `prepare()` then gives it its part."""
    chain = _chain(loader)
    parts = f"{running.world} ranks get parts of the same epoch only if it yields the same on each of them"
    if not chain or (loader.batch_sampler is None and not hasattr(chain[0], "batch_size")):
        why = "prepare() hands out batches and this loader makes none (batch_size=None), so reading it raises TypeError"
        return Verdict("unsure", why, "Pass DataLoader batch_size=, or the Accelerator dispatch_batches=True")
    if not _is_torch(chain[0], *KNOWN_SAMPLERS):
        why, todo = f"{type(chain[0]).__name__} is no batch sampler of torch's: {parts}", "Seed it alike on every rank"
        if getattr(chain[0], "batch_size", None) is not None:
            why += f", and prepare() drops batches of another length than its batch_size of {chain[0].batch_size}"
            todo += "; where its batches differ in length, let its batch_size be None"
        return Verdict("unsure", why, todo)
    # prepare() keeps the generator of the sampler in the batch sampler alike on all ranks, and looks no deeper.
    for inner in chain[1:2]:
        if not (_is_torch(inner, *KNOWN_SAMPLERS) or _shard_of(inner) or hasattr(inner, "generator")):
            why = f"{type(inner).__name__} has no generator that prepare() could keep alike: {parts}"
            todo = "Give it the attribute generator = None and let what it draws at random use that"
            if not hasattr(inner, "__dict__"):  # a list of indices
                todo = "Seed it alike on every rank"
            return Verdict("unsure", why, todo)
    return RIGHT


def _sharded_twice(loader: Any, sampler: Any, parts: int, running: Running, dispatch: bool) -> Verdict:
    name, count, world = _shown(sampler), _samples(sampler), running.world
    if dispatch:
        why = (
            f"data lost: with dispatch_batches=True only rank 0 reads, and {name} leaves it 1 of {parts} parts, so the "
            f"{world} ranks together would read {_percent(parts)} of the {count}"
        )
    else:
        why = (
            f"sharded twice: {name} splits the data and Accelerator.prepare() splits what is left again, so each of "
            f"{world} ranks would read about {_percent(parts * world)} of the {count}, and all of them together "
            f"{_percent(parts)}"
        )
    if not _is_torch(sampler, "DistributedSampler"):
        todo = f"Let {type(sampler).__name__} yield the indices of all ranks: prepare() splits them"
        return Verdict("wrong", why, todo)
    batches, plain = _own_batches(loader), "RandomSampler" if sampler.shuffle else "SequentialSampler"
    if _is_prepared(loader):
        todo = "Hand prepare() a loader without it" + (", with shuffle=True" if sampler.shuffle else "")
    elif batches is not None:
        todo = f"Make its {type(batches).__name__} of {plain}({_source(loader, sampler)}) instead"
    elif _source(loader, sampler) != "dataset":
        todo = f"Pass DataLoader sampler={plain}({_source(loader, sampler)}) instead"
    else:
        todo = "Remove sampler=" + (" and pass shuffle=True instead" if sampler.shuffle else "")
    return Verdict("wrong", why, f"{todo}: prepare() shards the loader by itself")


def _judge_plain(loader: Any, running: Running, owner: str) -> Verdict:
    """A loader that is iterated as it is: the sampler must give each rank its part."""
    sampler, shard = (None, None) if _is_iterable(loader) else _sharding_sampler(loader)
    if shard is not None:
        return _judge_shard(sampler, shard, running)
    shard = _shard_of(loader.dataset)
    if shard is not None:
        verdict = _judge_shard(loader.dataset, shard, running)
        # What a dataset makes of such numbers is its own affair; a stream has them for nothing else.
        if verdict.kind == "wrong" or _is_iterable(loader):
            return verdict._replace(kind="unsure") if verdict.kind == "wrong" else verdict
        why = f"{type(loader.dataset).__name__} seems to read one of {shard[0]} shards by itself"
        return Verdict("unsure", why, "If it does, pass sanitize num_replicas=1; if not, every rank reads it all")
    chain = [loader.dataset] if _is_iterable(loader) else _chain(loader)
    unknown = next((type(each).__name__ for each in chain if not _is_torch(each, *KNOWN_SAMPLERS)), None)
    if unknown is None and _reads_by_itself(loader):
        unknown = type(loader).__name__
    if unknown is not None:
        return Verdict(
            "unsure",
            f"{unknown} has no num_replicas and rank, so it can't be seen what each of {running.world} ranks reads",
            "If it gives each rank its part, keep those two as its attributes or pass sanitize num_replicas=1; if not, "
            "every rank reads it all",
        )
    sampler = chain[-1]
    if _draws_freely(sampler):
        why = f"not sharded: every rank would draw its own {_samples(sampler)} with {_shown(sampler)}"
        todo = "Draw with the same seed on every rank and let rank r keep indices[r::num_replicas]"
        return Verdict("wrong", why, todo)
    why = f"not sharded: {_shown(sampler)} knows no ranks, so every rank would read all {_samples(sampler)}"
    return Verdict("wrong", why, _what_to_add(loader, owner))


def _judge_shard(sampler: Any, shard: tuple[int, int], running: Running) -> Verdict:
    (parts, own), name, count = shard, _shown(sampler), _samples(sampler)
    if parts == running.world and own == (own if running.rank is None else running.rank):
        return RIGHT
    if running.source == "arguments":
        todo = "Give it the num_replicas= and rank= that sanitize() is given"
    elif running.source == "environment":
        todo = f'Pass num_replicas={running.world}, rank=int(os.environ["RANK"])'
    elif _is_torch(sampler, "DistributedSampler"):
        todo = "Leave out num_replicas= and rank=: the process group knows them"
    else:
        todo = "Give it torch.distributed.get_world_size() and torch.distributed.get_rank()"
    if parts == 1:
        return Verdict("wrong", f"not sharded: with {name} every rank would read all {count}", todo)
    if parts == running.world:
        why = f"wrong rank: {name} on rank {running.rank} reads another rank's part of the {count} a second time"
    elif parts > running.world:
        lost = _percent(parts, parts - running.world)
        why = f"wrong number of ranks: {name} among {running.world} ranks leaves {lost} of the {count} to nobody"
    else:
        why = f"wrong number of ranks: {name} among {running.world} ranks makes some of them read the same {count}"
    return Verdict("wrong", why, todo)


def _judge_strictly(loader: Any, dataset: object | None) -> Verdict:
    """The policy of `strict`: of the samplers that `prepare()` shards rightly, only `DataLoader`'s own."""
    if _is_prepared(loader) or _is_iterable(loader):
        return RIGHT
    batches = _own_batches(loader)
    sampler = loader.sampler if batches is None else batches
    if _is_torch(sampler, "DistributedSampler"):  # num_replicas=1, or it would have been refused before
        return RIGHT
    # A RandomSampler with a generator of its own differs from the one that DataLoader(shuffle=True) makes.
    if not _is_torch(sampler, "SequentialSampler", "RandomSampler") or (
        _draws_freely(sampler) or getattr(sampler, "generator", None) not in (None, loader.generator)
    ):
        why = f"strict: {type(sampler).__name__} is made by hand, it is not the one that DataLoader makes"
        return Verdict("wrong", why, "Remove it, or check this loader without strict=True")
    if sampler.data_source is not (loader.dataset if dataset is None else dataset):
        why = f"strict: {type(sampler).__name__} is made by hand, for another dataset than the loader's"
        return Verdict("wrong", why, "Remove it, or give it the dataset of the loader")
    return RIGHT


def _without_group(verdict: Verdict, running: Running, owner: str) -> Verdict:
    """`WORLD_SIZE` promises several processes that nothing here has joined: never passed in silence."""
    missing = f"WORLD_SIZE is {running.world} but the process group is not initialised yet"
    if owner == "accelerate":
        if verdict.kind == "wrong":
            return verdict
        return Verdict("unsure", f"{missing} and no Accelerator is running", "Make the Accelerator before the loaders")
    first = "Call torch.distributed.init_process_group() before the loaders are built"
    if verdict.kind != "right":
        return Verdict(verdict.kind, f"{missing}; {verdict.why}", f"{first}. {verdict.todo}")
    if running.rank is None:
        return Verdict("unsure", f"{missing} and RANK is none of its ranks, so the sampler's can't be checked", first)
    return verdict


def _is_prepared(loader: Any) -> bool:
    return _is_of(loader, "DataLoaderShard", "DataLoaderDispatcher", "MpDeviceLoaderWrapper")


def _is_of(thing: Any, *names: str) -> bool:
    """Whether it is of one of these classes of accelerate's: by name, they may not be there (XLA's only on XLA)."""
    return any(c.__name__ in names and c.__module__.startswith("accelerate.") for c in type(thing).__mro__)


def _is_iterable(loader: Any) -> bool:
    from torch.utils.data import IterableDataset

    return isinstance(loader.dataset, IterableDataset)


def _is_torch(thing: object, *names: str) -> bool:
    """Whether it is exactly one of torch's own samplers: what a subclass reads can't be known."""
    from torch.utils import data

    return any(type(thing) is getattr(data, name) for name in names)


def _reads_by_itself(loader: Any) -> bool:
    """Whether its class iterates otherwise than torch's DataLoader, and so may shard in a way that nothing shows."""
    reader = next((c for c in type(loader).__mro__ if "__iter__" in vars(c)), None)
    return reader is not None and not reader.__module__.startswith(("torch.", "torchdata."))


def _chain(loader: Any) -> list[Any]:
    """The samplers from the one that the loader iterates inwards, through `BatchSampler.sampler` and the like; in a
    prepared loader those that it was prepared with."""
    # With a batch_sampler= of the user's, loader.sampler is a placeholder that nobody reads.
    outer = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    chain: list[Any] = []
    while outer is not None and not any(outer is seen for seen in chain):
        chain.append(outer)
        # None is asked for by name: a sampler without end has no truth value, for want of a length.
        inner = _attribute(outer, "sampler")
        outer = _attribute(outer, "batch_sampler") if inner is None else inner
    own = ("BatchSamplerShard", "SkipBatchSampler") if _is_prepared(loader) else ()
    return [sampler for sampler in chain if not _is_of(sampler, *own)]


def _sharding_sampler(loader: Any) -> tuple[Any, tuple[int, int] | None]:
    """The outermost sampler that knows of ranks, with its (number of shards, own shard)."""
    for sampler in _chain(loader):
        shard = _shard_of(sampler)
        if shard is not None:
            return sampler, shard
    return None, None


def _attribute(thing: Any, name: str) -> Any:
    try:
        return getattr(thing, name, None)
    except Exception:  # a class may look up what it does not have in any way of its own
        return None


def _shard_of(thing: Any) -> tuple[int, int] | None:
    # datasets.distributed.split_dataset_by_node() keeps them in a stream's _distributed.
    for keeper in (thing, _attribute(thing, "_distributed")):
        for names in SHARD_ATTRIBUTES:
            parts, own = (_attribute(keeper, name) for name in names)
            if isinstance(parts, numbers.Integral) and isinstance(own, numbers.Integral):
                return int(parts), int(own)
    return None


def _own_batches(loader: Any) -> Any:
    """The batch sampler that the loader was given, as batch_sampler= or as a sampler= that yields batches."""
    if loader.batch_size is not None:  # torch leaves it None beside a batch sampler of the user's
        return None
    if loader.batch_sampler is not None:
        return loader.batch_sampler
    return loader.sampler if hasattr(loader.sampler, "batch_size") else None


def _draws_freely(sampler: Any) -> bool:
    """Whether it draws with replacement or another number of samples, so that no rank's part can be cut from it."""
    drawn = getattr(sampler, "_num_samples", None) is not None or getattr(sampler, "replacement", False)
    return bool(drawn) or _is_torch(sampler, "WeightedRandomSampler")


# ------------------------------------------------------------------------------------------------ what is told


def _shown(sampler: Any) -> str:
    shard, name = _shard_of(sampler), type(sampler).__name__
    return name if shard is None else f"{name} (part {shard[1]} of {shard[0]})"


def _samples(sampler: Any) -> str:
    """How many samples all ranks share, as in "21 samples"; the length of a sampler that knows ranks may be a part."""
    count = _length(getattr(sampler, "dataset", None if _shard_of(sampler) else sampler))
    return "samples" if count is None else f"{count} samples"


def _length(thing: Any) -> int | None:
    try:
        return len(thing)
    except Exception:  # none, or one that is not told
        return None


def _source(loader: Any, sampler: Any) -> str:
    """What a sampler that takes this one's place is to be made for, as code."""
    kept = "dataset" if hasattr(sampler, "dataset") else "data_source"
    source = getattr(sampler, kept, loader.dataset)
    return "dataset" if source is loader.dataset or _length(source) == _length(loader.dataset) else f"sampler.{kept}"


def _percent(parts: int, taken: int = 1) -> str:
    return f"{100 * taken / parts:.3g} %"


def _what_to_add(loader: Any, owner: str) -> str:
    sampler, batches = _chain(loader)[-1], _own_batches(loader)
    unbatched = loader.batch_sampler is None and batches is None  # prepare() can't split it
    if owner == "hf-trainer":
        # A DistributedSampler would read the same order in every epoch: the Trainer tells it none.
        return (
            "Pass DataLoader batch_size= and return " if unbatched else "Return "
        ) + "self.accelerator.prepare(loader)"
    shuffled = not _is_torch(sampler, "SequentialSampler")
    new = f"DistributedSampler({_source(loader, sampler)}, shuffle={shuffled})"
    todo = f"Pass DataLoader sampler={new} in place of its sampler= or shuffle="
    if batches is not None:
        todo = f"Make its {type(batches).__name__} of {new} instead"
    if _is_torch(sampler, "SubsetRandomSampler"):
        todo = f"Let dataset = Subset(dataset, indices) be what it loads. {todo}"
    if shuffled:
        todo += " and call its set_epoch(epoch) at the start of each epoch"
    return todo + (", or hand the loader to accelerator.prepare()" if _accelerator() and not unbatched else "")


def _caller() -> tuple[str, int]:
    """`file:line` of the call into this file, and how many frames up that is from whoever asks."""
    frame, depth = sys._getframe(1), 1
    while frame.f_code.co_filename == _caller.__code__.co_filename and frame.f_back is not None:
        frame, depth = frame.f_back, depth + 1
    return f"{frame.f_code.co_filename}:{frame.f_lineno}", depth


def _located(message: str) -> str:
    return f"{_caller()[0]}: {message}"


def _warn(message: str) -> None:
    where, depth = _caller()
    warnings.warn(f"{where}: {message}", ShardingWarning, stacklevel=depth)


# ---------------------------------------------------------------------------------------------- the rebuilt loader


def _rebuild(loader: Any, running: Running, owner: str) -> tuple[Any, str]:
    """The same loader with the right sampler, or None and why there can be none."""
    import inspect

    from torch.utils.data import DataLoader, DistributedSampler, Subset

    kind = type(loader)
    if kind is not DataLoader:
        return None, f"{kind.__name__} is not torch's own DataLoader"
    if running.rank is None:
        return None, "RANK does not say which rank this is"
    chain, batches, dataset = _chain(loader), loader.batch_sampler, loader.dataset
    sampler = chain[-1]
    unknown = next((type(each).__name__ for each in chain if not _is_torch(each, *KNOWN_SAMPLERS)), None)
    if unknown is not None:
        return None, f"what {unknown} would yield for all ranks is not known"
    if len(chain) > (1 if batches is None else 2):
        return None, "its batches come from a sampler within a sampler"
    if _draws_freely(sampler):
        return None, f"{type(sampler).__name__} draws with replacement or a number of its own"
    source: Any = getattr(sampler, "data_source", getattr(sampler, "dataset", None))
    shuffle = getattr(sampler, "shuffle", not _is_torch(sampler, "SequentialSampler"))
    options: dict[str, Any] = {"batch_size": None, "drop_last": False}
    if batches is not None:
        options = {"batch_size": batches.batch_size, "drop_last": batches.drop_last}
    if owner == "accelerate":
        if source is not dataset and _length(source) != _length(dataset):
            return None, "its sampler is made for another dataset than the loader's"
        if batches is None:
            return None, "it makes no batches that prepare() could split"
        options["shuffle"] = shuffle
    else:
        if source is None:
            dataset = source = Subset(dataset, sampler.indices)
        kept = {name: getattr(sampler, name) for name in ("seed", "drop_last") if hasattr(sampler, name)}
        # Not a sampler that counts its epochs: one extra look at the loader on one rank would part the ranks.
        options["sampler"] = DistributedSampler(source, running.world, running.rank, shuffle, **kept)
    decided = {"self", "dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "drop_last"}
    for name in inspect.signature(DataLoader.__init__).parameters:  # those that the installed torch has
        if name not in decided and hasattr(loader, name):
            options[name] = getattr(loader, name)
    try:
        return DataLoader(dataset, **options), ""
    except ValueError as error:  # an empty dataset can't be shuffled
        return None, str(error)
