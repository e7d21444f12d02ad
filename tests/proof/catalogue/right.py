"""Loaders that are right, in the ways in which projects write them: none may be refuted."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from material import (
    Around,
    Generated,
    Lines,
    Listed,
    Make,
    Samples,
    ShuffledLines,
    by_fabric,
    by_rank,
    distributed,
    prepared,
    rank,
    world,
)
from torch.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    random_split,
)
from torch.utils.data.distributed import DistributedSampler


@dataclass(frozen=True)
class Right:
    """A factory, and how its launch differs."""

    make: Make
    launch: str = ""


RIGHTS: dict[str, Right] = {}


def right(make: Make | None = None, *, launch: str = "") -> Any:
    def register(make: Make) -> Make:
        RIGHTS[make.__name__] = Right(make, launch)
        return make

    return register if make is None else register(make)


# --- DistributedSampler ---


@right
def shuffled() -> Any:
    return distributed()


@right
def ordered() -> Any:
    return distributed(shuffle=False)


@right
def even() -> Any:
    return distributed(24)


@right
def one_a_step() -> Any:
    return distributed(21, 1)


@right
def one_batch_for_all() -> Any:
    return distributed(21, 64)


@right
def large() -> Any:
    return distributed(1000, 32)


@right
def two_samples() -> Any:
    return distributed(2, 4)


@right
def one_sample() -> Any:
    return distributed(1, 4)


@right
def loader_drops_its_last() -> Any:
    return distributed(43, 4, drop_last=True)


@right
def sampler_drops_its_last() -> Any:
    samples = Samples(43)
    return DataLoader(samples, 4, sampler=DistributedSampler(samples, drop_last=True))


@right
def both_drop_their_last() -> Any:
    samples = Samples(47)
    return DataLoader(samples, 4, sampler=DistributedSampler(samples, drop_last=True), drop_last=True)


@right
def with_a_seed() -> Any:
    return distributed(seed=17)


@right
def by_number() -> Any:
    return distributed(num_replicas=world(), rank=rank())


@right
def in_a_batch_sampler() -> Any:
    return DataLoader(Samples(), batch_sampler=BatchSampler(DistributedSampler(Samples()), 4, False))


@right
def batches_as_indices() -> Any:
    return DataLoader(Samples(), batch_size=None, sampler=BatchSampler(DistributedSampler(Samples()), 4, False))


@right
def workers_that_persist() -> Any:
    samples = Samples()
    return DataLoader(
        samples, 4, sampler=DistributedSampler(samples), num_workers=2, persistent_workers=True, prefetch_factor=4
    )


@right
def if_distributed() -> Any:
    samples = Samples()
    sampler = DistributedSampler(samples) if dist.is_initialized() else None
    return DataLoader(samples, 4, sampler=sampler, shuffle=sampler is None)


@right
def if_distributed_ordered() -> Any:
    samples = Samples()
    return DataLoader(samples, 4, sampler=DistributedSampler(samples, shuffle=False) if dist.is_initialized() else None)


@right
def tensors() -> Any:
    samples = TensorDataset(torch.arange(21), torch.arange(21))
    return DataLoader(samples, 4, sampler=DistributedSampler(samples))


@right
def concatenated() -> Any:
    samples = ConcatDataset([Samples(9), Samples(12)])
    return DataLoader(samples, 4, sampler=DistributedSampler(samples))


@right
def a_list() -> Any:
    samples = [f"{number}" for number in range(21)]
    return DataLoader(samples, 4, sampler=DistributedSampler(samples))


@right
def a_subset() -> Any:
    samples = Subset(Samples(40), range(5, 26))
    return DataLoader(samples, 4, sampler=DistributedSampler(samples))


@right
def a_subset_of_a_subset() -> Any:
    samples = Subset(Subset(Samples(60), range(10, 50)), range(0, 40, 2))
    return DataLoader(samples, 4, sampler=DistributedSampler(samples, shuffle=False))


@right
def a_split_with_a_generator() -> Any:
    parts = random_split(Samples(40), [32, 8], generator=torch.Generator().manual_seed(3))
    return [DataLoader(part, 4, sampler=DistributedSampler(part)) for part in parts]


@right
def a_split_after_seeding() -> Any:
    torch.manual_seed(5)
    part = random_split(Samples(40), [0.8, 0.2])[0]
    return DataLoader(part, 4, sampler=DistributedSampler(part))


@right
def a_subset_as_sampler_was() -> Any:
    part = Subset(Samples(40), list(range(3, 27)))
    return DataLoader(part, 4, sampler=DistributedSampler(part))


@right
def train_and_evaluation() -> Any:
    return {"train": distributed(40), "val": distributed(20, shuffle=False), "classes": 10}


@right
def in_a_namespace() -> Any:
    return SimpleNamespace(train=distributed(), lr=0.1)


@right
def loader_and_sampler() -> Any:
    loader = distributed()
    return loader, loader.sampler


@right
def evaluation_on_the_main_process() -> Any:
    return distributed(), DataLoader(Samples(), 8) if rank() == 0 else None


@right
def inside_a_wrapper() -> Any:
    return Around(distributed_tensors())


def distributed_tensors() -> Any:
    samples = TensorDataset(torch.arange(21))
    return DataLoader(samples, 4, sampler=DistributedSampler(samples))


@right
def inside_a_generator() -> Any:
    def batches() -> Iterator[Any]:
        for (batch,) in distributed_tensors():
            yield batch.float()

    return batches()


class Repeating(DataLoader[Any]):
    """Iterates in its own way, as projects that keep their workers do."""

    def __iter__(self) -> Any:
        yield from super().__iter__()


@right
def a_class_of_its_own() -> Any:
    samples = TensorDataset(torch.arange(21))
    return Repeating(samples, 4, sampler=DistributedSampler(samples))


@right(launch="eval")
def evaluation_in_order() -> Any:
    return distributed(24, shuffle=False)


@right(launch="no padding")
def evaluation_without_padding() -> Any:
    return distributed(24, shuffle=False)


@right(launch="mesh")
def by_data_parallel_rank() -> Any:
    groups = max(1, world() // 2)
    return distributed(num_replicas=groups, rank=rank() // 2 if world() > 1 else 0)


# --- samplers of their own ---


@right
def own_sampler_with_padding() -> Any:
    def draw(epoch: int) -> list[int]:
        indices = random.Random(epoch).sample(range(21), 21)
        indices += indices[: -len(indices) % world()]
        return indices[rank() :: world()]

    return DataLoader(Samples(), 4, sampler=Listed(draw))


@right
def own_blocks() -> Any:
    size = 24 // world()
    return DataLoader(Samples(24), 2, sampler=Listed(lambda _: list(range(rank() * size, (rank() + 1) * size))))


@right
def own_batches() -> Any:
    def draw(epoch: int) -> list[list[int]]:
        indices = random.Random(epoch).sample(range(24), 24)
        batches = [indices[start : start + 2] for start in range(0, 24, 2)]
        return batches[rank() :: world()]

    return DataLoader(Samples(24), batch_sampler=Listed(draw))


@right
def weighted_by_rank() -> Any:
    def draw(epoch: int) -> list[int]:
        generator = torch.Generator().manual_seed(epoch)
        drawn = torch.multinomial(torch.ones(24), 24, replacement=True, generator=generator).tolist()
        return drawn[rank() :: world()]

    return DataLoader(Samples(24), 2, sampler=Listed(draw))


@right
def a_part_for_each_rank() -> Any:
    return DataLoader(Subset(Samples(24), range(rank(), 24, world())), 2, shuffle=True)


# --- streams ---


@right
def a_stream_by_rank() -> Any:
    return DataLoader(Lines(by_rank), 4)


@right
def a_stream_by_rank_and_worker() -> Any:
    return DataLoader(Lines(by_rank), 2, num_workers=2)


@right
def a_stream_in_blocks() -> Any:
    return DataLoader(Lines(lambda line, rank, world, *_: line * world // 24 == rank), 4)


@right
def a_stream_that_is_told_the_epoch() -> Any:
    return DataLoader(ShuffledLines(), 2)


@right
def streams_in_a_chain() -> Any:
    return DataLoader(ChainDataset([Lines(by_rank), Lines(lambda line, *r: by_rank(line, *r) and line > 40, 60)]), 4)


@right
def a_stream_that_is_not_batched() -> Any:
    return DataLoader(Lines(by_rank), batch_size=None)


# --- accelerate ---


@right
def prepared_default() -> Any:
    return prepared(DataLoader(Samples(), 4))


@right
def prepared_shuffled() -> Any:
    return prepared(DataLoader(Samples(), 4, shuffle=True))


@right
def prepared_sequential() -> Any:
    return prepared(DataLoader(Samples(), 4, sampler=SequentialSampler(Samples())))


@right
def prepared_random() -> Any:
    return prepared(DataLoader(Samples(), 4, sampler=RandomSampler(Samples())))


@right
def prepared_weighted() -> Any:
    return prepared(DataLoader(Samples(), 4, sampler=WeightedRandomSampler([1.0, 2.0, 3.0] * 7, 21)))


@right
def prepared_subset_random() -> Any:
    return prepared(DataLoader(Samples(40), 4, sampler=SubsetRandomSampler(range(3, 27))))


@right
def prepared_replacement() -> Any:
    return prepared(DataLoader(Samples(), 2, sampler=RandomSampler(Samples(), replacement=True, num_samples=12)))


@right
def prepared_batch_sampler() -> Any:
    return prepared(DataLoader(Samples(), batch_sampler=BatchSampler(SequentialSampler(Samples()), 4, False)))


@right
def prepared_own_generator() -> Any:
    return prepared(DataLoader(Samples(40), 4, sampler=Generated(40)))


@right
def prepared_by_the_epoch() -> Any:
    return prepared(
        DataLoader(Samples(40), 4, sampler=Listed(lambda epoch: random.Random(epoch).sample(range(40), 40)))
    )


@right
def prepared_batches_without_attributes() -> Any:
    return prepared(DataLoader(Samples(24), batch_sampler=[[i, i + 1] for i in range(0, 24, 2)]), even_batches=False)


@right
def prepared_with_a_generator() -> Any:
    return prepared(DataLoader(Samples(), 4, shuffle=True, generator=torch.Generator().manual_seed(4)))


@right
def prepared_seedable() -> Any:
    torch.manual_seed(11)  # accelerate takes the sampler's seed from here, on each rank
    return prepared(DataLoader(Samples(), 4, shuffle=True), use_seedable_sampler=True)


@right
def prepared_drop_last() -> Any:
    return prepared(DataLoader(Samples(43), 4, shuffle=True, drop_last=True))


@right
def prepared_split_batches() -> Any:
    return prepared(DataLoader(Samples(), 12, shuffle=True), split_batches=True)


@right
def prepared_uneven() -> Any:
    return prepared(DataLoader(Samples(24), 2), even_batches=False)


@right
def prepared_tiny() -> Any:
    return prepared(DataLoader(Samples(3), 4))


@right
def prepared_one_replica() -> Any:
    return prepared(distributed(num_replicas=1, rank=0))


@right
def prepared_in_workers() -> Any:
    return prepared(DataLoader(Samples(), 4, shuffle=True, num_workers=2, persistent_workers=True))


@right
def prepared_split_with_a_generator() -> Any:
    train, val = random_split(Samples(40), [32, 8], generator=torch.Generator().manual_seed(3))
    return prepared(DataLoader(train, 4, shuffle=True)), prepared(DataLoader(val, 2))


@right
def dispatched() -> Any:
    return prepared(DataLoader(Samples(), 4, shuffle=True), dispatch_batches=True)


@right
def dispatched_in_order() -> Any:
    return prepared(DataLoader(Samples(24), 4), dispatch_batches=True)


@right
def dispatched_split_batches() -> Any:
    return prepared(DataLoader(Samples(24), 12), dispatch_batches=True, split_batches=True)


@right
def dispatched_stream() -> Any:
    return prepared(DataLoader(Lines(), 4))


@right
def prepared_stream() -> Any:
    return prepared(DataLoader(Lines(), 2), dispatch_batches=False)


@right(launch="prepare")
def prepared_later() -> Any:
    return DataLoader(Samples(), 4, shuffle=True)


# --- fabric ---


@right(launch="fabric")
def fabric_shuffled() -> Any:
    samples = TensorDataset(torch.arange(21))
    return by_fabric(DataLoader(samples, 4, shuffle=True))


@right(launch="fabric")
def fabric_distributed() -> Any:
    return by_fabric(distributed_tensors())
