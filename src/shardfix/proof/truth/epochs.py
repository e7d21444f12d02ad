"""Who is told the epoch, and what decides the order of each."""

from __future__ import annotations

from shardfix.proof.truth.cell import Before, Cell, Numbers
from shardfix.proof.truth.preludes import ACCELERATE, DRAWS_ALONE, PLAIN, PREPARED, configured

EPOCHS = (
    Cell(
        "epoch/never-told",
        "a DistributedSampler that is never told the epoch repeats the order of the first",
        PLAIN,
        "loader = DataLoader(dataset, batch_size=4, sampler=DistributedSampler(dataset))\n",
        Numbers((11, 11), 1, 21, epochs="same"),
        "set_epoch is put into the epoch loop",
        decides=("SHD401",),
    ),
    Cell(
        "epoch/told",
        "a DistributedSampler that is told the epoch shuffles anew, alike on all ranks",
        PLAIN,
        "loader = DataLoader(dataset, batch_size=4, sampler=DistributedSampler(dataset))\n",
        Numbers((11, 11), 1, 21, ordered=False, epochs="differ"),
        "set_epoch is put into the epoch loop",
        decides=("SHD301", "SHD401"),
        each_epoch="loader.sampler.set_epoch(epoch)",
    ),
    Cell(
        "epoch/told-in-order",
        "a DistributedSampler with shuffle=False reads in order, whatever epoch it is told",
        PLAIN,
        "loader = DataLoader(dataset, batch_size=4, sampler=DistributedSampler(dataset, shuffle=False))\n",
        Numbers((11, 11), 1, 21, read=(tuple(range(0, 21, 2)), (*range(1, 21, 2), 0)), epochs="same"),
        "evaluations get shuffle=False, and set_epoch does no harm there",
        decides=("SHD302", "SHD501"),
        each_epoch="loader.sampler.set_epoch(epoch)",
    ),
    Cell(
        "epoch/shuffles-by-default",
        "a DistributedSampler shuffles unless it is told not to",
        PLAIN,
        "loader = DataLoader(dataset, batch_size=4, sampler=DistributedSampler(dataset))\n",
        Numbers(ordered=False),
        "evaluations get shuffle=False",
        decides=("SHD501",),
        epochs=1,
    ),
    Cell(
        "epoch/told-on-one-rank",
        "set_epoch on one rank only makes parts overlap",
        PLAIN,
        """
        loader = DataLoader(dataset, batch_size=4, sampler=DistributedSampler(dataset))
        if dist.get_rank() == 0:
            loader.sampler.set_epoch(1)
        """,
        Numbers((11, 11), ">1", "<21"),
        "it is told",
        decides=("SHD403",),
    ),
    Cell(
        "epoch/seed-by-rank",
        "a DistributedSampler whose seed= differs by rank makes parts overlap",
        PLAIN,
        "loader = DataLoader(dataset, batch_size=4, sampler=DistributedSampler(dataset, seed=dist.get_rank()))\n",
        Numbers((11, 11), ">1", "<21"),
        "it is told",
        decides=("SHD704",),
    ),
    Cell(
        "epoch/placeholder",
        "the sampler of a prepared loader is a placeholder: set_epoch on it raises",
        ACCELERATE,
        """
        loader = accelerator.prepare(DataLoader(dataset, batch_size=4, sampler=RandomSampler(dataset)))
        loader.sampler.set_epoch(1)
        """,
        Numbers(error="AttributeError: 'SequentialSampler' object has no attribute 'set_epoch'"),
        "such a call becomes loader.set_epoch(epoch)",
        ("accelerate",),
        ("SHD402",),
    ),
    Cell(
        "epoch/placeholder-guarded",
        "guards around the placeholder (hasattr, isinstance) are never true",
        ACCELERATE,
        """
        loader = accelerator.prepare(DataLoader(dataset, batch_size=4, sampler=DistributedSampler(dataset)))
        assert not hasattr(loader.sampler, 'set_epoch'), 'the sampler has set_epoch'
        assert not isinstance(loader.sampler, DistributedSampler), 'the sampler is the DistributedSampler'
        """,
        Numbers(),
        "such a call becomes loader.set_epoch(epoch)",
        ("accelerate",),
        ("SHD402",),
    ),
    Cell(
        "epoch/prepared",
        "a prepared loader has set_epoch, and still reads every sample once",
        ACCELERATE,
        "loader = accelerator.prepare(DataLoader(dataset, batch_size=4, shuffle=True))\n",
        PREPARED,
        "a set_epoch call that is there becomes loader.set_epoch(epoch)",
        ("accelerate",),
        ("SHD201", "SHD402"),
        each_epoch="loader.set_epoch(epoch)",
        before=(DRAWS_ALONE, Before("accelerate", "0.25", PREPARED, "before 0.25 the ranks shuffle alike")),
    ),
    Cell(
        "epoch/prepared-order",
        "set_epoch does not decide the order of a prepared shuffled loader: that comes from the seed",
        ACCELERATE,
        """
        def order(epoch):
            torch.manual_seed(7)
            loader = accelerator.prepare(DataLoader(dataset, batch_size=4, shuffle=True))
            loader.set_epoch(epoch)
            return [int(i) for batch in loader for i in batch]


        assert order(0) == order(5), 'the order depends on the epoch that it is told'
        loader = []
        """,
        Numbers(),
        "taking out a DistributedSampler loses its order by seed and epoch, which is told; with a seed= it is unsafe",
        ("accelerate",),
        ("SHD201",),
    ),
    Cell(
        "epoch/seedable",
        "with use_seedable_sampler=True and one seed the epoch decides the order of a prepared loader",
        configured("use_seedable_sampler=True"),
        """
        set_seed(7)
        loader = accelerator.prepare(DataLoader(dataset, batch_size=4, shuffle=True))
        passes = []
        for epoch in (0, 5, 0):
            loader.set_epoch(epoch)
            passes.append([int(i) for batch in loader for i in batch])
        assert passes[0] == passes[2] != passes[1], 'the order does not depend on the epoch alone'
        """,
        PREPARED,
        "it is named as the way to an order by epoch",
        ("accelerate",),
        ("SHD201",),
        before=(
            Before(
                "accelerate",
                "0.29",
                Numbers(error="the order does not depend on the epoch alone"),
                "before 0.29 the seedable sampler counts its passes itself",
            ),
        ),
    ),
    Cell(
        "epoch/seedable-by-rank",
        "use_seedable_sampler=True shuffles by each rank's own seed: parts overlap unless ranks are seeded alike",
        configured("use_seedable_sampler=True"),
        "loader = accelerator.prepare(DataLoader(dataset, batch_size=4, shuffle=True))\n",
        Numbers((12, 12), ">3", "<21"),
        "it is told",
        ("accelerate",),
        ("SHD718",),
    ),
    Cell(
        "epoch/persistent-workers",
        "persistent workers keep the dataset that they started with: its own set_epoch never reaches them",
        PLAIN,
        """
        class Told(list):
            epoch = 0

            def __getitem__(self, index):
                return self.epoch


        def passes():
            told = Told(range(2))
            kept = DataLoader(told, num_workers=1, persistent_workers=True)
            for told.epoch in range(2):
                yield from kept


        loader = passes()
        """,
        Numbers(read=((0, 0, 0, 0),)),
        "it is told",
        decides=("SHD708",),
        world=1,
        grouped=False,
        epochs=1,
    ),
)
