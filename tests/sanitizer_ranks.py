"""One rank of the program that `test_sanitizer.py` runs twice at once: what the check says, and what is really read.

Usage: WORLD_SIZE=2 RANK=r LOCAL_RANK=r python sanitizer_ranks.py FOLDER (rendezvous and results go there)
"""

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    SequentialSampler,
    SubsetRandomSampler,
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
RANK = int(os.environ["RANK"])


def loader(**options: Any) -> DataLoader[int]:
    return DataLoader(NUMBERS, **({"batch_size": 2} if "batch_sampler" not in options else {}) | options)


def read(batches: Iterable[Any]) -> list[int]:
    return [int(index) for batch in batches for index in batch]


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


def main(folder: Path) -> None:
    results = before_the_group()
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", world_size=2, rank=RANK)
    results |= with_the_group()
    results |= with_accelerate()
    for name, result in results.items():
        given = result.pop("loader")
        wanted = given is not None and not name.startswith(("no group", "prepared")) and "not prepared" not in name
        result["read"] = read(given) if wanted else None
    (folder / f"rank{RANK}.json").write_text(json.dumps(results))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
