"""What the programs of the cells begin with, and the numbers that many of them share."""

from __future__ import annotations

from shardfix.proof.truth.cell import Before, Numbers

PLAIN = """\
import torch
import torch.distributed as dist
from torch.utils.data import (
    BatchSampler, DataLoader, IterableDataset, RandomSampler, Sampler, SequentialSampler, Subset, SubsetRandomSampler,
    TensorDataset, WeightedRandomSampler,
)
from torch.utils.data.distributed import DistributedSampler


class Shuffles(Sampler):
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        return iter(torch.randperm(self.count).tolist())

    def __len__(self):
        return self.count


class TakesItsPart(Sampler):
    def __init__(self, count):
        self.part = range(dist.get_rank(), count, dist.get_world_size())

    def __iter__(self):
        return iter(self.part)

    def __len__(self):
        return len(self.part)


class Stream(IterableDataset):
    def __init__(self, part):
        self.part = part

    def __iter__(self):
        return iter(self.part)


dataset = DATASET()
"""
ACCELERATE = PLAIN + "from accelerate import Accelerator\naccelerator = Accelerator()\n"
FABRIC = f"""{PLAIN}\
try:
    from lightning.fabric import Fabric
except ImportError:
    from lightning_fabric import Fabric
fabric = Fabric(accelerator="cpu", devices=dist.get_world_size(), strategy="ddp")
fabric.launch()
"""

UNSHARDED = Numbers(visits=(21, 21), overlap=21, covered=21)
SHARDED = Numbers(visits=(11, 11), overlap=1, covered=21)  # one of 21 is repeated, so that both ranks read as many
PREPARED = Numbers(visits=(12, 12), overlap=3, covered=21)  # filled up to full batches on both ranks
OVERLAPPING = Numbers(overlap=">0", covered="<21")

# What accelerate 0.30 changed: it hands one state of the sampler's generator to all ranks.
DRAWS_ALONE = Before("accelerate", "0.30", OVERLAPPING, "before 0.30 each rank shuffles by its own seed")
ONE_ORDER = Before(
    "accelerate", "0.25", Numbers((12, 12), 3, 21, epochs="same"), "before 0.25 every epoch repeats one order"
)


def configured(settings: str) -> str:
    return f"""{PLAIN}\
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration, set_seed
accelerator = Accelerator(dataloader_config=DataLoaderConfiguration({settings}))
"""
