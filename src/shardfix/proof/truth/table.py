"""The table: each loader, handed to nobody, to Accelerate and to Fabric; two ranks, 21 samples, batches of 4."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from shardfix.proof.truth.cell import Before, Cell, Library, Numbers
from shardfix.proof.truth.preludes import (
    ACCELERATE,
    DRAWS_ALONE,
    FABRIC,
    ONE_ORDER,
    OVERLAPPING,
    PLAIN,
    PREPARED,
    SHARDED,
    UNSHARDED,
)


@dataclass(frozen=True, slots=True)
class Says:
    """One cell of the table: what comes out, in words and numbers, and what the tool does because of it."""

    belief: str
    numbers: Numbers
    so: str
    decides: tuple[str, ...] = ()
    before: tuple[Before, ...] = ()
    loader: str = ""  # where this one needs another than the row's


@dataclass(frozen=True, slots=True)
class Row:
    """A loader, and what becomes of it in each of those hands."""

    id: str
    name: str
    loader: str
    plain: Says
    accelerate: Says
    fabric: Says


_BOTH = ("SHD301", "SHD302")
_REPORTED = "it is told with the way out, and not rewritten"
_PLAIN_ADVICE = "it gets a DistributedSampler"
_LEFT_TO_FABRIC = "Fabric's loaders are left to Fabric"

ROWS = (
    Row(
        "default",
        "a plain loader",
        "DataLoader(dataset, batch_size=4)",
        Says("a plain loader that nobody owns is read whole by every rank", UNSHARDED, _PLAIN_ADVICE, _BOTH),
        Says(
            "prepare() shards a plain loader, and repeats samples to fill the last batches",
            Numbers(
                (12, 12),
                3,
                21,
                (4, 4, 4),
                ((*range(4), *range(8, 12), *range(16, 20)), (*range(4, 8), *range(12, 16), 20, 0, 1, 2)),
            ),
            "a prepared loader without a sampler is right, and is what other loaders are turned into",
            ("SHD101", "SHD201"),
        ),
        Says("Fabric shards a plain loader", SHARDED, _LEFT_TO_FABRIC),
    ),
    Row(
        "sequential",
        "SequentialSampler",
        "DataLoader(dataset, batch_size=4, sampler=SequentialSampler(dataset))",
        Says("a SequentialSampler shards nothing", UNSHARDED, _PLAIN_ADVICE, _BOTH),
        Says(
            "a SequentialSampler in a prepared loader changes nothing: each rank reads what it reads without it",
            Numbers(
                (12, 12),
                3,
                21,
                (4, 4, 4),
                ((*range(4), *range(8, 12), *range(16, 20)), (*range(4, 8), *range(12, 16), 20, 0, 1, 2)),
            ),
            "it is taken out as redundant",
            ("SHD101",),
        ),
        Says("Fabric puts a DistributedSampler in the place of a SequentialSampler", SHARDED, _LEFT_TO_FABRIC),
    ),
    Row(
        "shuffle",
        "shuffle=True",
        "DataLoader(dataset, batch_size=4, shuffle=True)",
        Says("shuffle=True alone shards nothing", UNSHARDED, _PLAIN_ADVICE, _BOTH),
        Says(
            "prepare() shards a shuffled loader, in one order for all ranks and another in each epoch",
            Numbers((12, 12), 3, 21, ordered=False, epochs="differ"),
            "a prepared loader with shuffle=True is right, and is what a DistributedSampler is turned into",
            ("SHD201", "SHD709"),
            (DRAWS_ALONE, ONE_ORDER),
        ),
        Says("Fabric shards a shuffled loader", SHARDED, _LEFT_TO_FABRIC),
    ),
    Row(
        "random",
        "RandomSampler",
        "DataLoader(dataset, batch_size=4, sampler=RandomSampler(dataset))",
        Says("a RandomSampler shards nothing", UNSHARDED, _PLAIN_ADVICE, _BOTH),
        Says(
            "a RandomSampler in a prepared loader is sharded as shuffle=True is",
            Numbers((12, 12), 3, 21, ordered=False, epochs="differ"),
            "it is taken out as redundant, shuffle=True put in its place",
            ("SHD101", "SHD709"),
            (DRAWS_ALONE, ONE_ORDER),
        ),
        Says("Fabric puts a DistributedSampler in the place of a RandomSampler", SHARDED, _LEFT_TO_FABRIC),
    ),
    Row(
        "distributed",
        "DistributedSampler",
        "DataLoader(dataset, batch_size=4, sampler=DistributedSampler(dataset))",
        Says("a DistributedSampler gives each rank its part", SHARDED, "it is what an unsharded loader gets", _BOTH),
        Says(
            "a DistributedSampler in a prepared loader shards twice: a third of 21 samples is never read",
            Numbers((8, 8), 0, 14),
            "it is taken out",
            ("SHD201",),
        ),
        Says("Fabric leaves a DistributedSampler alone", SHARDED, _LEFT_TO_FABRIC),
    ),
    Row(
        "weighted",
        "WeightedRandomSampler",
        "DataLoader(dataset, batch_size=4, sampler=WeightedRandomSampler([1.0] * 21, 21, replacement=False))",
        Says("a WeightedRandomSampler shards nothing", UNSHARDED, _REPORTED, ("SHD915",)),
        Says(
            "prepare() shards one draw of a WeightedRandomSampler, the same on all ranks",
            PREPARED,
            "a prepared loader keeps it",
            ("SHD709",),
            (DRAWS_ALONE,),
        ),
        Says(
            "under Fabric each rank draws for itself from a WeightedRandomSampler: parts overlap",
            OVERLAPPING,
            _LEFT_TO_FABRIC,
        ),
    ),
    Row(
        "subset",
        "SubsetRandomSampler",
        "DataLoader(dataset, batch_size=4, sampler=SubsetRandomSampler(range(21)))",
        Says(
            "a SubsetRandomSampler shards nothing", UNSHARDED, "it becomes DistributedSampler(Subset(...))", ("SHD301",)
        ),
        Says(
            "prepare() shards one draw of a SubsetRandomSampler, the same on all ranks",
            PREPARED,
            "a prepared loader keeps it",
            ("SHD709",),
            (DRAWS_ALONE,),
        ),
        Says(
            "under Fabric each rank draws for itself from a SubsetRandomSampler: parts overlap",
            OVERLAPPING,
            _LEFT_TO_FABRIC,
        ),
    ),
    Row(
        "replacement",
        "RandomSampler(replacement=True, num_samples=6)",
        "DataLoader(dataset, batch_size=2, sampler=RandomSampler(dataset, replacement=True, num_samples=6))",
        Says(
            "a RandomSampler that draws 6 with replacement draws 6 on each rank",
            Numbers((6, 6)),
            _REPORTED,
            ("SHD915",),
        ),
        Says(
            "prepare() shards the 6 draws of a RandomSampler, 4 a rank in full batches",
            Numbers((4, 4), batches=(2, 2)),
            "a prepared loader keeps it",
            before=(
                Before(
                    "accelerate",
                    "0.25",
                    Numbers(error="UnboundLocalError"),
                    "before 0.25 an odd number of batches raises",
                ),
            ),
        ),
        Says("Fabric reads a full epoch where a RandomSampler would draw 6", Numbers((11, 11), 1, 21), _LEFT_TO_FABRIC),
    ),
    Row(
        "batch-sampler",
        "batch_sampler=BatchSampler(...)",
        "DataLoader(dataset, batch_sampler=BatchSampler(SequentialSampler(dataset), 4, False))",
        Says("a BatchSampler shards nothing", UNSHARDED, _REPORTED, ("SHD915",)),
        Says(
            "prepare() shards a plain BatchSampler as it shards batch_size=",
            PREPARED,
            "it is taken out as redundant",
            ("SHD102",),
        ),
        Says(
            "Fabric drops a plain BatchSampler: tensors come one by one",
            Numbers((11, 11), 1, 21, (1,) * 11),
            _LEFT_TO_FABRIC,
            loader="DataLoader(TensorDataset(torch.arange(21)), "
            "batch_sampler=BatchSampler(SequentialSampler(dataset), 4, False))",
        ),
    ),
    Row(
        "custom",
        "a sampler that draws from the global generator",
        "DataLoader(dataset, batch_size=4, sampler=Shuffles(21))",
        Says("a sampler of one's own shards nothing", UNSHARDED, _REPORTED, ("SHD915",)),
        Says(
            "prepare() cuts what each rank draws for itself from the global generator: parts overlap",
            Numbers((12, 12), ">0", "<21"),
            "it is told, with the generator that would be synchronised",
            ("SHD701",),
        ),
        Says("Fabric cuts what each rank draws for itself: parts overlap", OVERLAPPING, _LEFT_TO_FABRIC),
    ),
    Row(
        "rank-aware",
        "a sampler that takes its rank's part",
        "DataLoader(dataset, batch_size=4, sampler=TakesItsPart(21))",
        Says(
            "a sampler that takes its rank's part is enough where nobody else shards",
            Numbers((11, 10), 0, 21),
            "it is kept as right",
        ),
        Says("prepare() shards a rank's part again", Numbers((8, 8), 0, 13), "it is told", ("SHD702",)),
        Says("Fabric shards a rank's part again", Numbers((6, 5), 0, 11), _LEFT_TO_FABRIC),
    ),
    Row(
        "stream",
        "an IterableDataset",
        "DataLoader(Stream(range(21)), batch_size=4)",
        Says("a stream is read whole by every rank", UNSHARDED, "it is told", ("SHD711",)),
        Says(
            "rank 0 reads a prepared stream and deals it out",
            Numbers((11, 11), 1, 21),
            "a prepared stream is right",
            ("SHD703",),
        ),
        Says("Fabric leaves a stream as it is: every rank reads all of it", UNSHARDED, _LEFT_TO_FABRIC),
    ),
    Row(
        "own-part-stream",
        "an IterableDataset that takes its rank's part",
        "DataLoader(Stream(range(dist.get_rank(), 21, dist.get_world_size())), batch_size=4)",
        Says(
            "a stream that takes its rank's part is enough where nobody else shards",
            Numbers((11, 10), 0, 21),
            "it is kept as right",
            ("SHD711",),
        ),
        Says(
            "rank 0 deals out its own part of a prepared stream that splits by rank: the rest is never read",
            Numbers((6, 6), 1, 11),
            "it is told",
            ("SHD703",),
        ),
        Says("Fabric leaves a stream that takes its rank's part as it is", Numbers((11, 10), 0, 21), _LEFT_TO_FABRIC),
    ),
)

HANDS: tuple[tuple[str, str, str, tuple[Library, ...]], ...] = (
    ("plain", PLAIN, "{}", ()),
    ("accelerate", ACCELERATE, "accelerator.prepare({})", ("accelerate",)),
    ("fabric", FABRIC, "fabric.setup_dataloaders({})", ("lightning",)),
)


def table() -> Iterator[Cell]:
    """The cells of the table, row by row."""
    for row in ROWS:
        for owner, prelude, call, needs in HANDS:
            says: Says = getattr(row, owner)
            program = f"loader = {call.format(says.loader or row.loader)}\n"
            yield Cell(
                f"{owner}/{row.id}",
                says.belief,
                prelude,
                program,
                says.numbers,
                says.so,
                needs,
                says.decides,
                before=says.before,
            )
