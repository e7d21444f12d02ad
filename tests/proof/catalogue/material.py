"""What the loaders of the catalogue are made of: datasets of which no sample may be fetched, samplers, streams."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler, get_worker_info
from torch.utils.data.distributed import DistributedSampler

Make = Callable[..., Any]


def rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def world() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


class Samples(Dataset[int]):
    """A map-style dataset that is read by index only."""

    def __init__(self, size: int = 21) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> int:
        raise RuntimeError("a sample was fetched")


class Lines(IterableDataset[Any]):
    """A stream of ``size`` lines; ``takes(line, rank, world, worker, workers)`` says which of them a reader gets."""

    def __init__(self, takes: Callable[..., bool] | None = None, size: int = 24) -> None:
        self.takes = takes or (lambda *_: True)
        self.size = size

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        for line in range(self.size):
            if self.takes(line, rank(), world(), worker, workers):
                yield torch.tensor([line, line * line])


class ShuffledLines(IterableDataset[Any]):
    """A stream that is shuffled by an epoch that it must be told, and dealt out to ranks and workers."""

    def __init__(self, size: int = 48) -> None:
        self.size = size
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        lines = random.Random(self.epoch).sample(range(self.size), self.size)
        for line in lines[rank() * workers + worker :: world() * workers]:
            yield torch.tensor([line])


class Listed(Sampler[Any]):
    """A sampler whose indices a function gives, anew in each epoch; it listens to the epoch if ``listens``."""

    def __init__(self, draw: Callable[[int], list[Any]]) -> None:
        self.draw = draw
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[Any]:
        return iter(self.draw(self.epoch))

    def __len__(self) -> int:
        return len(self.draw(0))


class Pairs(Sampler[int]):
    """Keeps (2k, 2k+1) together and shuffles the pairs by the random module's own state."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __iter__(self) -> Iterator[int]:
        pairs = [(i, i + 1) for i in range(0, self.size, 2)]
        random.shuffle(pairs)
        return (i for pair in pairs for i in pair)

    def __len__(self) -> int:
        return self.size


class Generated(Sampler[int]):
    """Shuffles with a generator of its own, which accelerate keeps in step by its name."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.generator = torch.Generator()

    def __iter__(self) -> Iterator[int]:
        return iter(torch.randperm(self.size, generator=self.generator).tolist())

    def __len__(self) -> int:
        return self.size


class Around:
    """What a project puts around a loader to change its batches."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        yield from self.loader


def by_rank(line: int, rank: int, world: int, worker: int, workers: int) -> bool:
    return line % (world * workers) == rank * workers + worker


def distributed(size: int = 21, batch: int = 4, drop_last: bool = False, **sampler: Any) -> Any:
    samples = Samples(size)
    return DataLoader(samples, batch, sampler=DistributedSampler(samples, **sampler), drop_last=drop_last)


def prepared(loader: Any, **settings: Any) -> Any:
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration

    return Accelerator(dataloader_config=DataLoaderConfiguration(**settings)).prepare(loader)


def by_fabric(loader: Any) -> Any:
    os.environ.setdefault("NODE_RANK", "0")
    try:
        from lightning.fabric import Fabric
    except ModuleNotFoundError:  # the package that is the Trainer's alone brings it under this name
        from lightning_fabric import Fabric

    fabric = Fabric(accelerator="cpu", devices=world(), strategy="ddp" if world() > 1 else "auto")
    fabric.launch()
    return fabric.setup_dataloaders(loader)
