"""One rank of the program that `test_sanitizer.py` runs: what the check says of a loader, and what is really read.

Usage: WORLD_SIZE=2|3 RANK=r LOCAL_RANK=r python sanitizer_ranks.py FOLDER (rendezvous and results go there)
"""

import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from shardfix.sanitizer import DataLoaderSanitizer, sanitize


class Numbers(Dataset[int]):
    """24 samples, each of which is its own index: a multiple of 2 ranks times a batch of 2, so nothing is padded."""

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> int:
        return index


class Stream(IterableDataset[int]):
    """Would decide by itself what each rank reads."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(24))


NUMBERS = Numbers()
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def loader(**options: Any) -> DataLoader[int]:
    return DataLoader(NUMBERS, **({"batch_size": 2} if "batch_sampler" not in options else {}) | options)


def read(batches: Iterable[Any]) -> list[int]:
    return [
        int(index)
        for batch in batches
        for index in (batch if isinstance(batch, list) else torch.atleast_1d(torch.as_tensor(batch)))
    ]


def told(given: Any, check: Callable[..., Any] = sanitize, **options: Any) -> dict[str, Any]:
    """What the check does with a loader: `same` object back, an `error`, `warnings`; and the loader that comes back."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result, error = check(given, **options), ""
        except ValueError as refused:
            result, error = None, str(refused)
    return {
        "same": result is given,
        "error": error,
        "warnings": [str(one.message) for one in caught if one.category.__name__ == "ShardingWarning"],
        "loader": result,
    }


def first_come(worker: int) -> None:
    torch.utils.data.get_worker_info().dataset.started = worker  # type: ignore[union-attr]


def listed(batch: list[int]) -> list[int]:
    """Each sample with the worker that loaded it, as one number."""
    return [100 * torch.utils.data.get_worker_info().dataset.started + index for index in batch]  # type: ignore[union-attr]


WORKERS: dict[str, Any] = {
    "num_workers": 2,
    "persistent_workers": True,
    "prefetch_factor": 3,
    "worker_init_fn": first_come,
    "collate_fn": listed,
    "generator": torch.Generator().manual_seed(3),
}


def before_the_group() -> dict[str, dict[str, Any]]:
    right = loader(sampler=DistributedSampler(NUMBERS, num_replicas=2, rank=RANK, shuffle=False))
    return {
        "no group: plain": told(loader(), owner="ddp"),
        "no group: plain, owner guessed": told(loader()),
        "no group: plain, warn": told(loader(), owner="ddp", on_violation="warn"),
        "no group: explicit numbers": told(right, owner="ddp"),
        "no group: stream": told(DataLoader(Stream()), owner="ddp"),
        "no group: plain, accelerate": told(loader(), owner="accelerate"),
        "no group: numbers given": told(loader(), owner="accelerate", num_replicas=2, rank=RANK),
    }


def with_the_group() -> dict[str, dict[str, Any]]:
    plain = loader()
    fix: dict[str, Any] = {"owner": "ddp", "on_violation": "fix"}
    subset = SubsetRandomSampler(range(8))
    first: DistributedSampler[int] = DistributedSampler(NUMBERS, num_replicas=2, rank=0, shuffle=False)
    results = {
        "ddp: right": told(loader(sampler=DistributedSampler(NUMBERS)), owner="ddp"),
        "ddp: right, owner guessed": told(loader(sampler=DistributedSampler(NUMBERS))),
        "ddp: unsharded": told(plain, owner="ddp"),
        "ddp: unsharded, owner guessed": told(loader(shuffle=True)),
        "ddp: constant rank": told(loader(sampler=first), owner="ddp"),
        "fix: plain": told(loader(), **fix),
        "fix: shuffled": told(loader(shuffle=True), **fix),
        "fix: subset": told(loader(sampler=subset), **fix),
        "fix: batch sampler": told(loader(batch_sampler=BatchSampler(SequentialSampler(NUMBERS), 2, False)), **fix),
        "fix: constant rank": told(loader(sampler=first), **fix),
        "fix: Trainer override": told(loader(), owner="hf-trainer", on_violation="fix"),
        "fix: with workers": told(loader(shuffle=True, **WORKERS), **fix),
    }
    results["ddp: unsharded"]["loader"] = plain  # refused, and read to see that it is right to refuse it
    return results


def with_accelerate() -> dict[str, dict[str, Any]]:
    from accelerate import Accelerator, DataLoaderConfiguration

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")  # asked for, not used: the group is there already
    accelerator = Accelerator(cpu=True)
    plain, twice = loader(shuffle=True), loader(sampler=DistributedSampler(NUMBERS))
    results = {
        "accelerate: plain": told(plain, owner="accelerate"),
        "accelerate: plain, owner guessed": told(loader()),
        "accelerate: sharded twice": told(twice, owner="accelerate"),
        "accelerate: sharded twice, owner guessed": told(twice),
        "fix: sharded twice": told(twice, owner="accelerate", on_violation="fix"),
        "accelerate: plain, not prepared": told(loader(), owner="ddp"),
    }
    results["accelerate: sharded twice"]["loader"] = twice
    for name in ("accelerate: plain", "accelerate: sharded twice", "fix: sharded twice"):
        results[name]["loader"] = accelerator.prepare(results[name]["loader"])
    prepared = results["accelerate: plain"]["loader"]
    for owner in ("accelerate", "ddp", "hf-trainer"):
        results[f"prepared: {owner}"] = told(prepared, owner=owner)

    dispatching = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(dispatch_batches=True))
    check = DataLoaderSanitizer(dispatching.num_processes, dispatching.process_index, dispatch_batches=True).sanitize
    for name, given in (("plain", loader()), ("distributed", loader(sampler=DistributedSampler(NUMBERS)))):
        results[f"dispatch: {name}"] = told(given, check) | {"loader": dispatching.prepare(given)}
    return results


# ---------------------------------------------------------------- every sampler for every owner and configuration

COLUMNS: dict[str, dict[str, Any] | None] = {
    "ddp": None,
    "hf-trainer": None,  # its Trainer reads the loader as it is, as is done here
    "accelerate": {},
    "uneven": {"even_batches": False},
    "split": {"split_batches": True},
    "dispatch": {"dispatch_batches": True},
}
EVERY, SIZE = 72, 6  # a multiple of 2 and of 3 ranks times the batch size, as is half of it: nothing is padded


ODD = range(1, EVERY, 2)


class Many(Numbers):
    def __len__(self) -> int:
        return EVERY


class ShardedStream(IterableDataset[int]):
    """Reads this rank's part by itself."""

    def __init__(self) -> None:
        self.rank, self.world_size = RANK, WORLD

    def __iter__(self) -> Iterator[int]:
        return iter(range(EVERY)[RANK::WORLD])


class WholeStream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(EVERY))


class Custom(Sampler[int]):
    """Ordered, which nothing shows."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(EVERY))

    def __len__(self) -> int:
        return EVERY


class Global(Custom):
    """Shuffles by the global generator, which is seeded by rank here."""

    def __iter__(self) -> Iterator[int]:
        return iter(torch.randperm(EVERY).tolist())


class Generated(Custom):
    """Shuffles by a generator that accelerate finds, sets and keeps alike on all ranks."""

    generator: Any = None

    def __iter__(self) -> Iterator[int]:
        return iter(torch.randperm(EVERY, generator=self.generator).tolist())


class RankAware(Custom):
    def __init__(self, num_replicas: int = WORLD, rank: int = RANK) -> None:
        self.num_replicas, self.rank = num_replicas, rank

    def __iter__(self) -> Iterator[int]:
        return iter(range(EVERY)[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return EVERY // self.num_replicas


class Lists:
    """A batch sampler that says nothing of itself."""

    def __iter__(self) -> Iterator[list[int]]:
        return iter(list(range(start, start + SIZE)) for start in range(0, EVERY, SIZE))

    def __len__(self) -> int:
        return EVERY // SIZE


class Ragged(Lists):
    """Batches of 6, 4 and 8, all of which it calls 6."""

    batch_size: Any = SIZE

    def __iter__(self) -> Iterator[list[int]]:
        for start in range(0, EVERY, 18):
            yield from (list(range(start + a, start + b)) for a, b in ((0, 6), (6, 10), (10, 18)))


class RaggedSayingSo(Ragged):
    """And calls None: with this, prepare() keeps all of them."""

    batch_size: Any = None


class Ordered(SequentialSampler):
    """A subclass may read anything."""


class OwnBatches(BatchSampler):
    """So may this one."""


def samplers() -> dict[str, DataLoader[int]]:
    many = Many()

    def made(**options: Any) -> DataLoader[int]:
        return DataLoader(
            many, **({"batch_size": SIZE} if not {"batch_sampler", "batch_size"} & {*options} else {}) | options
        )

    def distributed(parts: int = WORLD, own: int = RANK, shuffle: bool = True) -> DistributedSampler[int]:
        return DistributedSampler(many, num_replicas=parts, rank=own, shuffle=shuffle)

    def batches(sampler: Any, kind: type[BatchSampler] = BatchSampler) -> DataLoader[int]:
        return made(batch_sampler=kind(sampler, SIZE, False))

    return {
        "default": made(),
        "shuffle=True": made(shuffle=True),
        "Sequential": made(sampler=SequentialSampler(many)),
        "Random": made(sampler=RandomSampler(many)),
        "Distributed": made(sampler=distributed()),
        "Distributed ordered": made(sampler=distributed(shuffle=False)),
        "Distributed alone": made(sampler=distributed(1, 0)),
        "Distributed rank 0": made(sampler=distributed(own=0)),
        "Distributed of half": made(sampler=DistributedSampler(range(36), num_replicas=WORLD, rank=RANK)),
        "Random of half": made(sampler=RandomSampler(range(36))),
        "Distributed too many": made(sampler=distributed(2 * WORLD)),
        "SubsetRandom": made(sampler=SubsetRandomSampler(ODD)),
        "Weighted": made(sampler=WeightedRandomSampler([1.0] * EVERY, EVERY)),
        "replacement": made(sampler=RandomSampler(many, replacement=True, num_samples=36)),
        "Batch(Sequential)": batches(SequentialSampler(many)),
        "Batch(Random)": batches(RandomSampler(many)),
        "Batch(Distributed)": batches(distributed()),
        "sampler=Batch": made(batch_size=None, sampler=BatchSampler(RandomSampler(many), SIZE, False)),
        "sampler=Batch(Dist)": made(batch_size=None, sampler=BatchSampler(distributed(), SIZE, False)),
        "no batches": made(batch_size=None),
        "no batches, Dist": made(batch_size=None, sampler=distributed()),
        "Custom": made(sampler=Custom()),
        "Ordered": made(sampler=Ordered(many)),
        "Global": made(sampler=Global()),
        "Generated": made(sampler=Generated()),
        "RankAware": made(sampler=RankAware()),
        "RankAware rank 0": made(sampler=RankAware(rank=0)),
        "Lists": made(batch_sampler=Lists()),
        "Ragged": made(batch_sampler=Ragged()),
        "RaggedSayingSo": made(batch_sampler=RaggedSayingSo()),
        "OwnBatches": batches(RandomSampler(many), OwnBatches),
        "OwnBatches(Dist)": batches(distributed(), OwnBatches),
        "size 7": made(batch_size=7),
        "WholeStream": DataLoader(WholeStream(), batch_size=SIZE),
        "ShardedStream": DataLoader(ShardedStream(), batch_size=SIZE),
    }


def matrix() -> dict[str, dict[str, Any]]:
    """What is said of each sampler and what is read, under each owner and each of accelerate's configurations; and the
    same again once what the message says is done."""
    from accelerate import Accelerator, DataLoaderConfiguration

    results: dict[str, dict[str, Any]] = {}
    for column, config in COLUMNS.items():
        accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(**(config or {})))
        policy = DataLoaderSanitizer(
            WORLD, RANK, split_batches=column == "split", dispatch_batches=column == "dispatch"
        )
        prepare = accelerator.prepare if config is not None else lambda loader: loader
        if column in ("split", "dispatch"):
            check: Callable[[Any], Any] = policy.sanitize
        else:
            check = partial(sanitize, owner=column if config is None else "accelerate")
        for name, given in samplers().items():
            if column == "dispatch" and given.batch_sampler is None:
                continue  # the dispatcher puts what it reads together, which is not what is asked here
            results[f"{column}: {name}"] = told(given, check) | prepared(given, prepare)
            if results[f"{column}: {name}"]["error"].endswith("or hand the loader to accelerator.prepare()"):
                results[f"handed {column}: {name}"] = told(accelerator.prepare(samplers()[name]), check)
            better, said = follow(samplers()[name], check, accelerator)
            if said:
                results[f"followed {column}: {name}"] = told(better, check) | prepared(better, prepare) | {"said": said}
            if column in ("ddp", "hf-trainer", "accelerate"):
                fixed = told(samplers()[name], check, on_violation="fix")
                results[f"fixed {column}: {name}"] = fixed | prepared(fixed["loader"], prepare)
            if column == "accelerate" and results[f"{column}: {name}"]["loader"] is not None:
                results[f"prepared: {name}"] = told(results[f"{column}: {name}"]["loader"], owner="ddp")
    return results


def prepared(loader: Any, prepare: Callable[[Any], Any]) -> dict[str, Any]:
    if loader is None:
        return {}
    try:
        return {"loader": prepare(loader)}
    except (ValueError, TypeError) as refused:
        return {"loader": None, "crash": str(refused)}


def follow(loader: Any, check: Callable[[Any], Any], accelerator: Any) -> tuple[Any, list[str]]:
    """Does what the messages say until nothing new is said; the loader that comes of it, and what was said."""
    said: list[str] = []
    while True:
        result = told(loader, check)
        message = result["error"] or "".join(result["warnings"])
        todo = message.split(". ", 1)[1] if message else ""
        if not todo or todo in said:
            return loader, said
        said.append(todo)
        loader = followed(todo, loader, accelerator)


# ---------------------------------------------------------------- what a message says to do, done


class RankAwareLists(Lists):
    def __init__(self) -> None:
        self.rank, self.num_replicas = RANK, WORLD

    def __iter__(self) -> Iterator[list[int]]:
        return iter([*super().__iter__()][RANK::WORLD])


class OwnShare(Custom):
    """Draws with the same seed on every rank and keeps a part, as a message says to."""

    def __init__(self, part: str, drawn: int) -> None:
        self.part, self.drawn, self.rank, self.num_replicas = part, drawn, RANK, WORLD

    def __iter__(self) -> Iterator[int]:
        indices = torch.randint(EVERY, (self.drawn,), generator=torch.Generator().manual_seed(0)).tolist()
        return iter(eval(self.part, {"indices": indices, "r": RANK, "num_replicas": WORLD}))


def remade(given: DataLoader[int], **changed: Any) -> DataLoader[int]:
    """The loader, built again with other arguments; what is None is left out."""
    options: dict[str, Any] = {"dataset": given.dataset, "batch_size": given.batch_size, "sampler": given.sampler}
    if given.batch_size is None and given.batch_sampler is not None:
        options = {"dataset": given.dataset, "batch_sampler": given.batch_sampler}
    if isinstance(given.dataset, IterableDataset):
        options.pop("sampler")
    options |= changed
    return DataLoader(**{name: value for name, value in options.items() if value is not None or name == "batch_size"})


def batches_of(given: Any, sampler: Any) -> DataLoader[int]:
    name = "sampler" if given.batch_sampler is None else "batch_sampler"
    old = getattr(given, name)
    return remade(given, **{name: type(old)(sampler, old.batch_size, old.drop_last)})


def followed(todo: str, given: Any, accelerator: Any) -> Any:
    """A loader built as a message says, by the very code that it names; None if it says nothing known."""
    names = vars(torch.utils.data) | {"dataset": given.dataset, "torch": torch, "os": os, "accelerator": accelerator}
    names |= {
        "loader": given,
        "sampler": given.sampler,
        "self": SimpleNamespace(accelerator=accelerator),
        "indices": ODD,
    }

    def code(pattern: str) -> Any:
        found = re.search(pattern, todo)
        return found and [eval(group, names) if group else None for group in found.groups()]

    if re.search(r"Let dataset = Subset\(dataset, indices\) be what it loads", todo):
        exec(re.findall(r"dataset = [^)]+\)", todo)[0], names)
        given = remade(given, dataset=names["dataset"])
    if todo.startswith("Pass DataLoader batch_size= and return "):
        names["loader"] = remade(given, batch_size=SIZE)
    if found := code(r"eturn (self\.accelerator\.prepare\(loader\))$"):
        return found[0]
    if found := re.search(r"Pass DataLoader (sampler=.*\)) in place of its sampler= or shuffle=", todo):
        return remade(given, **eval(f"dict({found[1]})", names))
    if found := code(r"Make its (?:\w+) of (\w+\(.*?\)) instead"):
        return batches_of(given, found[0])
    if found := re.search(r"^Remove sampler=(?: and pass (.*) instead)?: prepare\(\) shards", todo):
        return remade(given, sampler=None, **eval(f"dict({found[1] or ''})"))
    if found := re.search(r"^Pass DataLoader sampler=(.*\)) instead: prepare\(\) shards", todo):
        return remade(given, sampler=eval(found[1], names))
    if todo == "Leave out num_replicas= and rank=: the process group knows them":
        return remade(given, sampler=type(given.sampler)(given.dataset))
    if found := re.search(
        r"^Give it (torch.distributed.get_world_size\(\)) and (torch.distributed.get_rank\(\))$", todo
    ):
        return remade(given, sampler=RankAware(eval(found[1], names), eval(found[2], names)))
    if re.search(r"^Let RankAware yield the indices of all ranks: prepare\(\) splits them$", todo):
        return remade(given, sampler=Generated())
    if todo == "Let one of the two shard it":
        return remade(given, dataset=WholeStream())
    if found := re.search(r"Draw with the same seed on every rank and let rank r keep (indices\[.*\])", todo):
        return remade(given, sampler=OwnShare(found[1], len(given.sampler)))
    if todo.startswith("If it gives each rank its part, keep those two as its attributes or pass sanitize"):
        if isinstance(given.dataset, IterableDataset):
            return remade(given, dataset=ShardedStream())
        own = given.batch_size is None
        return remade(given, **({"batch_sampler": RankAwareLists()} if own else {"sampler": RankAware()}))
    if found := re.search(r"^Pass DataLoader a batch_size= that is a multiple of (\d)$", todo):
        size = 4 * int(found[1])
        return remade(given, batch_size=size, sampler=SequentialSampler(Many()), batch_sampler=None)
    if todo.startswith("Pass DataLoader batch_size=, or"):
        return remade(given, batch_size=SIZE)
    if todo.startswith("Give it the attribute generator = None and let what it draws at random use that"):
        return remade(given, sampler=Generated())
    if todo == "Seed it alike on every rank":
        return given
    if todo == "Seed it alike on every rank; where its batches differ in length, let its batch_size be None":
        if isinstance(given.batch_sampler, Ragged):
            given.batch_sampler.batch_size = None
        return given
    return None


def main(folder: Path) -> None:
    torch.manual_seed(RANK)  # a program whose ranks are not seeded alike
    results = before_the_group() if WORLD == 2 else {}
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/rendezvous",
        world_size=WORLD,
        rank=RANK,
        timeout=timedelta(seconds=60),
    )
    if WORLD == 2:
        results |= with_the_group()
        results |= with_accelerate()
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")  # asked for, not used: the group is there already
    results |= matrix()
    for name, result in results.items():
        given = result.pop("loader")
        wanted = given is not None and not name.startswith(("no group", "prepared")) and "not prepared" not in name
        try:
            result["read"] = read(given) if wanted else None
        except TypeError as crash:
            result |= {"read": None, "crash": str(crash)}
    (folder / f"rank{RANK}.json").write_text(json.dumps(results))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
