"""Samplers beside the table: arguments that a rank gets wrong, orders that stay or change."""

from __future__ import annotations

from shardfix.proof.truth.cell import Before, Cell, Numbers
from shardfix.proof.truth.preludes import ACCELERATE, DRAWS_ALONE, PLAIN, PREPARED, SHARDED, UNSHARDED

SAMPLERS = (
    Cell(
        "sampler/one-replica",
        "DistributedSampler(ds, num_replicas=1, rank=0) in a prepared loader does not shard twice",
        ACCELERATE,
        """
        sampler = DistributedSampler(dataset, num_replicas=1, rank=0)
        loader = accelerator.prepare(DataLoader(dataset, batch_size=4, sampler=sampler))
        """,
        PREPARED,
        "it is not taken for double sharding",
        ("accelerate",),
        ("SHD201",),
    ),
    Cell(
        "sampler/unprepared",
        "a DistributedSampler shards a loader of an Accelerate program that is not prepared",
        ACCELERATE,
        """
        sampler = DistributedSampler(
            dataset, num_replicas=accelerator.num_processes, rank=accelerator.process_index
        )
        loader = DataLoader(dataset, batch_size=4, sampler=sampler)
        """,
        SHARDED,
        "it is what such a loader gets",
        ("accelerate",),
        ("SHD301", "SHD302"),
    ),
    Cell(
        "sampler/unprepared-plain",
        "an Accelerator alone shards nothing: a loader that is not prepared is read whole by every rank",
        ACCELERATE,
        "loader = DataLoader(dataset, batch_size=4, shuffle=True)\n",
        UNSHARDED,
        "it gets a DistributedSampler",
        ("accelerate",),
        ("SHD301", "SHD302"),
    ),
    Cell(
        "sampler/both",
        "DataLoader refuses shuffle=True beside a sampler",
        PLAIN,
        "loader = DataLoader(dataset, batch_size=4, shuffle=True, sampler=DistributedSampler(dataset))\n",
        Numbers(error="ValueError: sampler option is mutually exclusive with shuffle"),
        "shuffle= is taken out where a sampler is put in",
        decides=("SHD303",),
    ),
    Cell(
        "sampler/constant-replicas",
        "num_replicas= above the number of ranks leaves samples unread",
        PLAIN,
        """
        sampler = DistributedSampler(dataset, num_replicas=4, rank=dist.get_rank())
        loader = DataLoader(dataset, batch_size=4, sampler=sampler)
        """,
        Numbers((6, 6), covered="<21"),
        "a constant is told",
        decides=("SHD705",),
    ),
    Cell(
        "sampler/constant-rank",
        "rank=0 on every rank reads one part only",
        PLAIN,
        "loader = DataLoader(dataset, batch_size=4, sampler=DistributedSampler(dataset, rank=0))\n",
        Numbers((11, 11), 11, 11),
        "a constant is told",
        decides=("SHD705",),
    ),
    Cell(
        "sampler/of-a-subset",
        "DistributedSampler(Subset(ds, indices)) deals out the samples of those indices",
        PLAIN,
        """
        part = Subset(dataset, [1, 3, 5, 7])
        loader = DataLoader(part, sampler=DistributedSampler(part, shuffle=False))
        """,
        Numbers((2, 2), 0, 4, read=((1, 5), (3, 7))),
        "it takes the place of a SubsetRandomSampler",
        decides=("SHD301",),
    ),
    Cell(
        "sampler/of-a-stream",
        "DataLoader refuses a sampler for an IterableDataset",
        PLAIN,
        "loader = DataLoader(Stream(range(21)), batch_size=4, sampler=DistributedSampler(range(21)))\n",
        Numbers(error="ValueError: DataLoader with IterableDataset: expected unspecified sampler"),
        "no sampler is put in",
        decides=("SHD711", "SHD908"),
    ),
    Cell(
        "sampler/of-a-part",
        "prepare() shards a rank's part of the data again",
        ACCELERATE,
        """
        part = Subset(dataset, range(dist.get_rank(), 21, dist.get_world_size()))
        loader = accelerator.prepare(DataLoader(part, batch_size=4))
        """,
        Numbers((8, 8), 0, 13),
        "it is told",
        ("accelerate",),
        ("SHD715", "SHD917"),
    ),
    Cell(
        "sampler/own-generator",
        "accelerate synchronises the attribute `generator` of a sampler of one's own",
        ACCELERATE,
        """
        class Own(Sampler):
            def __init__(self):
                self.generator = torch.Generator()
                self.generator.manual_seed(dist.get_rank())

            def __iter__(self):
                return iter(torch.randperm(21, generator=self.generator).tolist())

            def __len__(self):
                return 21


        loader = accelerator.prepare(DataLoader(dataset, batch_size=4, sampler=Own()))
        """,
        PREPARED,
        "it is named as the way out",
        ("accelerate",),
        ("SHD701",),
        before=(DRAWS_ALONE,),
    ),
    Cell(
        "sampler/same-order",
        "under one seed a prepared loader has one order, with shuffle=True as with sampler=RandomSampler(ds)",
        ACCELERATE,
        """
        def order(**arguments):
            torch.manual_seed(7)
            loader = accelerator.prepare(DataLoader(dataset, batch_size=4, **arguments))
            return [int(i) for batch in loader for i in batch]


        assert order(shuffle=True) == order(sampler=RandomSampler(dataset)), 'the orders are not the same'
        loader = []
        """,
        Numbers(),
        "the edit is safe",
        ("accelerate",),
        ("SHD101",),
    ),
    Cell(
        "sampler/generator-order",
        "with generator= the order changes when sampler=RandomSampler(ds, generator=g) becomes shuffle=True",
        ACCELERATE,
        """
        def order(sampled):
            torch.manual_seed(7)
            g = torch.Generator().manual_seed(3)
            given = {'sampler': RandomSampler(dataset, generator=g)} if sampled else {'shuffle': True, 'generator': g}
            loader = accelerator.prepare(DataLoader(dataset, batch_size=4, **given))
            return [int(i) for batch in loader for i in batch]


        assert order(True) != order(False), 'the orders are the same'
        loader = []
        """,
        Numbers(),
        "the edit is refused",
        ("accelerate",),
        ("SHD914",),
        before=(Before("accelerate", "0.26", Numbers(error="the orders are the same"), "before 0.26 the order stays"),),
    ),
)
