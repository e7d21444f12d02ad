"""Loaders with a fault: what each cell of the truth table that is wrong hands over, what people reported, and right
loaders with one thing changed. Each names the cause that must be found."""

from __future__ import annotations

import os
import random
import signal
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from material import (
    Around,
    Lines,
    Listed,
    Make,
    Pairs,
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
class Fault:
    """A factory, the causes of which one must be named, and how its launch differs."""

    make: Make
    causes: tuple[str, ...]
    launch: str = ""


FAULTS: dict[str, Fault] = {}


def fault(*causes: str, launch: str = "") -> Any:
    def register(make: Make) -> Make:
        FAULTS[make.__name__] = Fault(make, causes, launch)
        return make

    return register


def tell_main_process_only(made: Any, epoch: int) -> None:
    if rank() == 0:
        made.sampler.set_epoch(epoch)


# --- plain torch: nobody shards ---


@fault("unsharded")
def plain_default() -> Any:
    return DataLoader(Samples(), 4)


@fault("unsharded")
def plain_shuffled() -> Any:
    return DataLoader(Samples(), 4, shuffle=True)


@fault("unsharded")
def plain_shuffled_with_one_seed() -> Any:
    return DataLoader(Samples(), 4, shuffle=True, generator=torch.Generator().manual_seed(0))


@fault("unsharded")
def plain_sequential() -> Any:
    return DataLoader(Samples(), 4, sampler=SequentialSampler(Samples()))


@fault("unsharded")
def plain_random() -> Any:
    return DataLoader(Samples(), 4, sampler=RandomSampler(Samples()))


@fault("unsharded")
def plain_weighted() -> Any:
    return DataLoader(Samples(), 4, sampler=WeightedRandomSampler([1.0, 2.0, 3.0] * 7, 21))


@fault("unsharded")
def plain_subset_random() -> Any:
    return DataLoader(Samples(), 4, sampler=SubsetRandomSampler(range(3, 18)))


@fault("unsharded")
def plain_replacement() -> Any:
    return DataLoader(Samples(), 2, sampler=RandomSampler(Samples(), replacement=True, num_samples=6))


@fault("unsharded")
def plain_batch_sampler() -> Any:
    return DataLoader(Samples(), batch_sampler=BatchSampler(SequentialSampler(Samples()), 4, False))


@fault("unsharded")
def plain_own_sampler() -> Any:
    return DataLoader(Samples(20), 4, sampler=Pairs(20))


@fault("unsharded")
def plain_stream() -> Any:
    return DataLoader(Lines(), 4)


@fault("unsharded")
def plain_tensors_in_workers() -> Any:
    return DataLoader(TensorDataset(torch.arange(21)), 4, shuffle=True, num_workers=2)


@fault("unsharded")
def plain_concatenated() -> Any:
    return DataLoader(ConcatDataset([Samples(9), Samples(12)]), 4)


@fault("unsharded")
def plain_inside_a_wrapper() -> Any:
    return Around(DataLoader(TensorDataset(torch.arange(21)), 4, shuffle=True))


@fault("unsharded")
def plain_drop_last() -> Any:
    return DataLoader(Samples(), 4, shuffle=True, drop_last=True)


# --- accelerate: sharded twice, or in no step ---


@fault("sharded-twice")
def prepared_distributed() -> Any:
    return prepared(distributed())


@fault("sharded-twice")
def prepared_distributed_ordered() -> Any:
    return prepared(distributed(shuffle=False))


@fault("sharded-twice")
def prepared_distributed_drop_last() -> Any:
    return prepared(distributed(40, 4, drop_last=True))


@fault("sharded-twice")
def prepared_distributed_by_number() -> Any:
    return prepared(distributed(num_replicas=world(), rank=rank()))


@fault("sharded-twice")
def prepared_distributed_in_batches() -> Any:
    return prepared(DataLoader(Samples(), batch_sampler=BatchSampler(DistributedSampler(Samples()), 4, False)))


@fault("sharded-twice")
def prepared_distributed_split_batches() -> Any:
    return prepared(distributed(48, 12), split_batches=True)


@fault("sharded-twice")
def prepared_distributed_uneven() -> Any:
    return prepared(distributed(40, 4), even_batches=False)


@fault("dispatched-part")
def dispatched_distributed() -> Any:
    return prepared(distributed(40, 4), dispatch_batches=True)


@fault("sharded-twice")
def prepared_blocks_by_rank() -> Any:
    size = 24 // world()
    return prepared(DataLoader(Samples(24), 2, sampler=Listed(lambda _: list(range(24))[rank() * size :][:size])))


@fault("sharded-twice")
def prepared_stride_by_rank() -> Any:
    return prepared(DataLoader(Samples(24), 2, sampler=Listed(lambda _: list(range(rank(), 24, world())))))


@fault("sharded-twice", "per-rank-subset")
def prepared_subset_by_rank() -> Any:
    return prepared(DataLoader(Subset(Samples(24), range(rank(), 24, world())), 2))


@fault("unsynced-rng")
def prepared_global_random_state() -> Any:
    return prepared(DataLoader(Samples(40), 4, sampler=Pairs(40)))


@fault("unsynced-rng")
def prepared_numbers_of_its_own() -> Any:
    return prepared(DataLoader(Samples(40), 4, sampler=Listed(lambda _: torch.randperm(40).tolist())))


@fault("dispatched-part")
def dispatched_stream_by_rank() -> Any:
    return prepared(DataLoader(Lines(by_rank), 4))


@fault("sharded-twice")
def prepared_stream_by_rank() -> Any:
    return prepared(DataLoader(Lines(by_rank), 2), dispatch_batches=False)


@fault("raises")
def prepared_without_batches() -> Any:
    return prepared(DataLoader(Samples(), batch_size=None))


@fault("per-rank-subset")
def prepared_split_by_rank_seed() -> Any:
    return prepared(DataLoader(random_split(Samples(40), [32, 8])[0], 4, shuffle=True))


@fault("part-only")
def prepared_on_one_rank() -> Any:
    return prepared(DataLoader(Samples(), 4, shuffle=True)) if rank() == 0 else None


@fault("per-rank-seed", "unsynced-rng")
def prepared_seedable_without_a_seed() -> Any:
    return prepared(DataLoader(Samples(40), 4, shuffle=True), use_seedable_sampler=True)


# --- a DistributedSampler with the wrong numbers ---


@fault("wrong-replicas")
def four_replicas() -> Any:
    return distributed(40, 4, num_replicas=8, rank=rank(), shuffle=False)


@fault("unsharded")
def one_replica() -> Any:
    return distributed(num_replicas=1, rank=0)


@fault("wrong-rank")
def everyone_is_rank_zero() -> Any:
    return distributed(num_replicas=world(), rank=0)


@fault("wrong-rank")
def half_the_ranks() -> Any:
    return distributed(num_replicas=world(), rank=rank() // 2)


@fault("wrong-rank")
def node_rank() -> Any:
    return distributed(num_replicas=world(), rank=int(os.environ.get("NODE_RANK", "0")), shuffle=False)


@fault("per-rank-seed")
def seed_by_rank() -> Any:
    return distributed(40, seed=1000 * rank())


@fault("per-rank-seed")
def seed_by_chance() -> Any:
    return distributed(40, seed=random.randrange(1 << 30))


@fault("per-rank-subset")
def split_by_rank_seed() -> Any:
    part = random_split(Samples(40), [32, 8])[0]
    return DataLoader(part, 4, sampler=DistributedSampler(part))


@fault("per-rank-subset")
def subset_by_chance() -> Any:
    part = Subset(Samples(40), torch.randperm(40)[:24].tolist())
    return DataLoader(part, 4, sampler=DistributedSampler(part))


@fault("per-rank-subset", "sharded-twice")
def subset_by_rank_and_distributed() -> Any:
    part = Subset(Samples(40), range(rank(), 40, world()))
    return DataLoader(part, 2, sampler=DistributedSampler(part, shuffle=False))


@fault("unshuffled")
def shuffle_is_lost() -> Any:
    sampler = DistributedSampler(Samples(40), shuffle=False) if world() > 1 else None
    return DataLoader(Samples(40), 4, sampler=sampler, shuffle=sampler is None)


# --- the epoch ---


@fault("frozen-epoch", launch="never")
def never_told() -> Any:
    return distributed(40)


@fault("frozen-epoch", launch="never")
def never_told_in_batches() -> Any:
    return DataLoader(Samples(40), batch_sampler=BatchSampler(DistributedSampler(Samples(40)), 4, True))


@fault("frozen-epoch", launch="never")
def never_told_stream() -> Any:
    return DataLoader(ShuffledLines(), 2)


@fault("stale-epoch-on-one-rank", launch="main process")
def told_on_the_main_process() -> Any:
    return distributed(40)


@fault("frozen-epoch")
def persistent_workers_keep_the_epoch() -> Any:
    return DataLoader(ShuffledLines(), 2, num_workers=1, persistent_workers=True)


@fault("frozen-epoch")
def the_same_seed_in_each_epoch() -> Any:
    def draw(epoch: int) -> list[int]:
        shuffled = random.Random(0).sample(range(40), 40)
        return shuffled[rank() :: world()]

    return DataLoader(Samples(40), 2, sampler=Listed(draw)) if world() > 1 else DataLoader(Samples(40), 2, shuffle=True)


@fault("shuffled-eval", launch="eval")
def evaluation_is_shuffled() -> Any:
    return distributed(40)


@fault("padding", launch="no padding")
def evaluation_is_padded() -> Any:
    return distributed(21, shuffle=False)


@fault("padding", launch="no padding")
def prepared_evaluation_is_padded() -> Any:
    return prepared(DataLoader(Samples(21), 4))


# --- shares by hand ---


@fault("uneven")
def uneven_strides() -> Any:
    return DataLoader(Samples(25), 1, sampler=Listed(lambda _: list(range(rank(), 25, world()))))


@fault("uneven")
def uneven_stream() -> Any:
    return DataLoader(Lines(lambda line, rank, world, *_: line % world == rank, 25), 1)


@fault("missing")
def the_rest_is_lost() -> Any:
    size = 25 // world()
    return DataLoader(Samples(25), 2, sampler=Listed(lambda _: list(range(rank() * size, (rank() + 1) * size))))


@fault("overlap")
def blocks_that_overlap() -> Any:
    size = 24 // world()
    sampler = Listed(lambda _: [i % 24 for i in range(rank() * size, (rank() + 1) * size + 4)])
    return DataLoader(Samples(24), 1, sampler=sampler) if world() > 1 else DataLoader(Samples(24), 1)


@fault("per-rank-seed", "overlap", "unsynced-rng")
def shares_of_own_permutations() -> Any:
    share = -(-40 // world())
    return DataLoader(Samples(40), 2, sampler=Listed(lambda _: torch.randperm(40).tolist()[rank() :: world()][:share]))


@fault("repeats")
def a_rank_reads_twice() -> Any:
    return (
        DataLoader(
            Samples(24),
            1,
            sampler=Listed(lambda _: [i for i in range(rank(), 24, world()) for _ in (0, 1)][: 24 // world()]),
        )
        if world() > 1
        else DataLoader(Samples(24), 1)
    )


@fault("draws")
def every_rank_makes_all_draws() -> Any:
    return DataLoader(
        Samples(40), 2, sampler=RandomSampler(Samples(40), replacement=True, num_samples=24 if rank() else 12)
    )


@fault("worker-copies")
def each_worker_yields_everything() -> Any:
    return DataLoader(Lines(lambda line, rank, world, *_: line % world == rank), 2, num_workers=2)


@fault("unsharded")
def workers_split_but_ranks_do_not() -> Any:
    return DataLoader(Lines(lambda line, rank, world, worker, workers: line % workers == worker), 2, num_workers=2)


@fault("overlap", "missing", "sharded-twice")
def ranks_and_workers_by_the_same_number() -> Any:
    return DataLoader(
        Lines(lambda line, rank, world, worker, workers: line % (world * workers) == rank + worker), 2, num_workers=2
    )


@fault("uneven")
def batch_size_by_rank() -> Any:
    samples = Samples(40)
    return DataLoader(samples, 2 if rank() else 4, sampler=DistributedSampler(samples))


@fault("uneven")
def drop_last_on_one_rank() -> Any:
    return distributed(42, 4, drop_last=rank() == 0)


# --- how a factory ends ---


@fault("raises")
def one_rank_raises() -> Any:
    if world() > 1 and rank() == 1:
        raise FileNotFoundError("shard-1.tar")
    return distributed()


@fault("exits")
def one_rank_leaves() -> Any:
    if world() > 1 and rank() == 1:
        os._exit(3)
    return distributed()


@fault("died")
def one_rank_is_killed() -> Any:
    if world() > 1 and rank() == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return distributed()


@fault("hang")
def one_rank_waits() -> Any:
    if world() > 1 and rank() == 1:
        dist.barrier()
    return distributed()


# --- fabric ---


@fault("unsynced-rng", "overlap", "missing", "draws", "per-rank-seed", launch="fabric")
def fabric_weighted() -> Any:
    return by_fabric(DataLoader(TensorDataset(torch.arange(40)), 4, sampler=SubsetRandomSampler(range(40))))


@fault("draws", "foreign", "changed", launch="fabric")
def fabric_replacement() -> Any:
    samples = TensorDataset(torch.arange(40))
    return by_fabric(DataLoader(samples, 2, sampler=RandomSampler(samples, replacement=True, num_samples=6)))


@fault("batch-size", launch="fabric")
def fabric_batch_sampler() -> Any:
    samples = TensorDataset(torch.arange(40))
    return by_fabric(DataLoader(samples, batch_sampler=BatchSampler(SequentialSampler(samples), 4, False)))


@fault("unsynced-rng", "overlap", "missing", "per-rank-seed", launch="fabric")
def fabric_global_random_state() -> Any:
    sampler = Listed(lambda _: torch.randperm(40).tolist())
    return by_fabric(DataLoader(TensorDataset(torch.arange(40)), 4, sampler=sampler))


@fault("sharded-twice", "missing", launch="fabric")
def fabric_stride_by_rank() -> Any:
    sampler = Listed(lambda _: list(range(rank(), 40, world())))
    return by_fabric(DataLoader(TensorDataset(torch.arange(40)), 2, sampler=sampler))


@fault("unsharded", launch="fabric")
def fabric_stream() -> Any:
    return by_fabric(DataLoader(Lines(), 4))
