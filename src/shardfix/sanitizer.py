"""Stops a training run in which a DataLoader would give its processes the wrong share of the data.

`shardfix migrate` copies this one file, unchanged, into the projects it migrates as `shardfix_sanitizer.py`; `shardfix`
itself need not be installed there. It may be deleted together with the `sanitize(...)` calls: they change nothing in a
program that is right. It imports the standard library only (torch and accelerate are looked at once the program itself
has loaded them), runs once for each loader and returns the same loader, so the training loop pays nothing.
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
    program of one process it returns the loader untouched, whatever it is.

    Args:
        loader: a torch `DataLoader`, or None where the program has no such loader (returned as it is).
        owner: who shards the loader. "accelerate": it is handed to `Accelerator.prepare()`, which shards any sampler.
            "ddp": nobody but its own sampler. "hf-trainer": it is returned by an override of a `transformers.Trainer`,
            which uses it as it is. None: "accelerate" if an `Accelerator` is running, else "ddp".
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
    owner = owner or ("accelerate" if _accelerator() else "ddp")
    running = _running(owner, num_replicas, rank)
    if loader is None or running.world == 1:
        return loader
    verdict = _judge(loader, running, owner)
    if running.source == "environment":
        verdict = _without_group(verdict, running, owner)
    if verdict.kind == "right":
        return loader
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

    Raises:
        ValueError: there is no process `process_index` among `num_processes`.
    """

    num_processes: int
    process_index: int
    dispatch_batches: bool = False
    strict: bool = False

    def __post_init__(self) -> None:
        _check_numbers(self.num_processes, self.process_index)

    def sanitize(self, loader: T, dataset: object | None = None) -> T:
        """Returns `loader` itself if `prepare()` will shard it rightly.

        Args:
            loader: a torch `DataLoader` that is about to be prepared, or one that already is, or None.
            dataset: what the loader is meant to read; `loader.dataset` by default. `strict` refuses a sampler that
                was made for something else.

        Raises:
            ShardingError: the loader would be sharded twice, or `strict` and its sampler is made by hand.
            TypeError: `loader` is not a loader.
        """
        _check_loader(loader)
        if loader is None or self.num_processes == 1:
            return loader
        running = Running(self.num_processes, self.process_index, "arguments")
        verdict = _judge(loader, running, "accelerate", self.dispatch_batches)
        if verdict.kind == "right" and self.strict:
            verdict = _judge_strictly(loader, dataset)
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


def _judge(loader: Any, running: Running, owner: str, dispatch: bool = False) -> Verdict:
    from torch.utils.data import DataLoader

    if _is_prepared(loader):
        return RIGHT
    if not isinstance(loader, DataLoader):
        return Verdict(
            "unsure", f"{type(loader).__name__} is no DataLoader, so it can't be seen what it reads", "Shard it by hand"
        )
    if owner == "accelerate":
        return _judge_accelerate(loader, running, dispatch)
    return _judge_plain(loader, running, owner)


def _judge_accelerate(loader: Any, running: Running, dispatch: bool) -> Verdict:
    """A loader for `prepare()`, which splits the batches of any sampler between the ranks (measured, 0.5.1 to 1.15)."""
    if _is_iterable(loader):
        shard = _shard_of(loader.dataset)
        if shard is None or shard[0] == 1:
            return RIGHT
        return Verdict(
            "unsure",
            f"{type(loader.dataset).__name__} seems to read one of {shard[0]} shards by itself, and "
            "Accelerator.prepare() splits what it reads again",
            "Let one of the two shard it",
        )
    sampler, shard = _sharding_sampler(loader)
    if shard is None or shard[0] == 1:
        return RIGHT
    parts, count, name = shard[0], _samples(sampler), _shown(sampler)
    if dispatch:
        why = (
            f"data lost: with dispatch_batches=True only rank 0 reads, and {name} leaves it 1 of {parts} parts, so the "
            f"{running.world} ranks together would read {_percent(parts)} of the {count}"
        )
    else:
        why = (
            f"sharded twice: {name} splits the data and Accelerator.prepare() splits what is left again, so each of "
            f"{running.world} ranks would read about {_percent(parts * running.world)} of the {count}, and all of them "
            f"together {_percent(parts)}"
        )
    if not _is_torch(sampler, "DistributedSampler"):
        return Verdict(
            "wrong", why, f"Let {type(sampler).__name__} yield the indices of all ranks: prepare() splits them"
        )
    argument = "batch_sampler=" if _has_own_batches(loader) else "sampler="
    instead = " and pass shuffle=True instead" if sampler.shuffle else ""
    return Verdict("wrong", why, f"Remove {argument}{instead}: prepare() shards the loader by itself")


def _judge_plain(loader: Any, running: Running, owner: str) -> Verdict:
    """A loader that is iterated as it is: the sampler must give each rank its part."""
    if _is_iterable(loader):
        return Verdict("right", f"{type(loader.dataset).__name__} decides by itself what each rank reads")
    sampler, shard = _sharding_sampler(loader)
    if shard is not None:
        return _judge_shard(sampler, shard, running)
    chain = _chain(loader)
    unknown = next((type(each).__name__ for each in chain if not _is_torch(each, *KNOWN_SAMPLERS)), None)
    if unknown is not None:
        return Verdict(
            "unsure",
            f"{unknown} has no num_replicas and rank, so it can't be seen what each of {running.world} ranks reads",
            "If it gives each rank its part, keep those two numbers as its attributes; if not, every rank reads it all",
        )
    sampler = chain[-1]
    if _draws_freely(sampler):
        why = f"not sharded: every rank would draw its own {_samples(sampler)} with {_shown(sampler)}"
        return Verdict(
            "wrong", why, "Draw with the same seed on every rank and let rank r keep indices[r::num_replicas]"
        )
    why = f"not sharded: {_shown(sampler)} knows no ranks, so every rank would read all {_samples(sampler)}"
    return Verdict("wrong", why, _what_to_add(loader, owner))


def _judge_shard(sampler: Any, shard: tuple[int, int], running: Running) -> Verdict:
    (parts, own), name, count = shard, _shown(sampler), _samples(sampler)
    if parts == running.world and own == (own if running.rank is None else running.rank):
        return RIGHT
    todo = f"Pass num_replicas={running.world} and the rank of the process among all processes"
    if _group():
        todo += ", or leave both out: the process group knows them"
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
    sampler = loader.batch_sampler if _has_own_batches(loader) else loader.sampler
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
        return Verdict("unsure", f"{missing} and RANK is not set, so the sampler's rank can't be checked", first)
    return Verdict("unsure", f"{missing}; {verdict.why}", first) if verdict.why else verdict


def _is_prepared(loader: Any) -> bool:
    # By name: the classes exist only where accelerate does, and MpDeviceLoaderWrapper only on XLA.
    prepared = ("DataLoaderShard", "DataLoaderDispatcher", "MpDeviceLoaderWrapper")
    return any(c.__name__ in prepared and c.__module__.startswith("accelerate.") for c in type(loader).__mro__)


def _is_iterable(loader: Any) -> bool:
    from torch.utils.data import IterableDataset

    return isinstance(loader.dataset, IterableDataset)


def _is_torch(thing: object, *names: str) -> bool:
    """Whether it is exactly one of torch's own samplers: what a subclass reads can't be known."""
    from torch.utils import data

    return any(type(thing) is getattr(data, name) for name in names)


def _chain(loader: Any) -> list[Any]:
    """The samplers from the one that the loader iterates inwards, through `BatchSampler.sampler` and the like."""
    # With a batch_sampler= of the user's, loader.sampler is a placeholder that nobody reads.
    chain = [loader.sampler if loader.batch_sampler is None else loader.batch_sampler]
    while True:
        inner = getattr(chain[-1], "sampler", None) or getattr(chain[-1], "batch_sampler", None)
        if inner is None or any(inner is seen for seen in chain):
            return chain
        chain.append(inner)


def _sharding_sampler(loader: Any) -> tuple[Any, tuple[int, int] | None]:
    """The outermost sampler that knows of ranks, with its (number of shards, own shard)."""
    for sampler in _chain(loader):
        shard = _shard_of(sampler)
        if shard is not None:
            return sampler, shard
    return None, None


def _shard_of(thing: Any) -> tuple[int, int] | None:
    for names in SHARD_ATTRIBUTES:
        parts, own = (getattr(thing, name, None) for name in names)
        if isinstance(parts, numbers.Integral) and isinstance(own, numbers.Integral):
            return int(parts), int(own)
    return None


def _has_own_batches(loader: Any) -> bool:
    """Whether the loader was given batch_sampler=: only then torch leaves `batch_size` None beside one."""
    return loader.batch_size is None and loader.batch_sampler is not None


def _draws_freely(sampler: Any) -> bool:
    """Whether it draws with replacement or another number of samples, so that no rank's part can be cut from it."""
    drawn = getattr(sampler, "_num_samples", None) is not None or getattr(sampler, "replacement", False)
    return bool(drawn) or _is_torch(sampler, "WeightedRandomSampler")


# ------------------------------------------------------------------------------------------------ what is told


def _shown(sampler: Any) -> str:
    shard, name = _shard_of(sampler), type(sampler).__name__
    return name if shard is None else f"{name} (part {shard[1]} of {shard[0]})"


def _samples(sampler: Any) -> str:
    """How many samples all ranks share, as in "21 samples"."""
    source = getattr(sampler, "dataset", None)
    try:
        return f"{len(sampler if source is None else source)} samples"
    except TypeError:
        return "samples"


def _percent(parts: int, taken: int = 1) -> str:
    return f"{100 * taken / parts:.3g} %"


def _what_to_add(loader: Any, owner: str) -> str:
    sampler = _chain(loader)[-1]
    shuffled = not _is_torch(sampler, "SequentialSampler")
    source = "Subset(dataset, indices)" if _is_torch(sampler, "SubsetRandomSampler") else "dataset"
    argument = f"sampler=DistributedSampler({source}, shuffle={shuffled})"
    if _has_own_batches(loader):
        add = f"Pass DataLoader batch_size= and {argument} in place of its batch_sampler="
    else:
        add = f"Pass DataLoader {argument} in place of its sampler= or shuffle="
    if owner == "hf-trainer":
        return f"Return self.accelerator.prepare(loader), or: {add[0].lower()}{add[1:]}"
    epoch = " and call its set_epoch(epoch) at the start of each epoch" if shuffled else ""
    return add + epoch + (", or hand the loader to accelerator.prepare()" if _accelerator() else "")


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
        return None, "RANK is not set"
    chain, batches, dataset = _chain(loader), loader.batch_sampler, loader.dataset
    sampler = chain[-1]
    unknown = next((type(each).__name__ for each in chain if not _is_torch(each, *KNOWN_SAMPLERS)), None)
    if unknown is not None:
        return None, f"what {unknown} would yield for all ranks is not known"
    if len(chain) > (1 if batches is None else 2):
        return None, "its batches are batched again"
    if _draws_freely(sampler):
        return None, f"{type(sampler).__name__} draws with replacement or a number of its own"
    source: Any = getattr(sampler, "data_source", getattr(sampler, "dataset", None))
    shuffle = getattr(sampler, "shuffle", not _is_torch(sampler, "SequentialSampler"))
    options: dict[str, Any] = {"batch_size": None, "drop_last": False}
    if batches is not None:
        options = {"batch_size": batches.batch_size, "drop_last": batches.drop_last}
    if owner == "accelerate":
        if len(source) != len(dataset):
            return None, "its sampler is made for another dataset than the loader's"
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
    return DataLoader(dataset, **options), ""
