"""What an Accelerator's settings, and other things that it prepares, make of a loader."""

from __future__ import annotations

from shardfix.proof.truth.cell import Cell, Numbers
from shardfix.proof.truth.preludes import ACCELERATE, configured

SETTINGS = (
    Cell(
        "setting/split-batches",
        "with split_batches=True the ranks share the batch that the loader names",
        configured("split_batches=True"),
        "loader = accelerator.prepare(DataLoader(dataset, batch_size=4))\n",
        Numbers((12, 12), covered=21, batches=(2,) * 6),
        "the setting is part of the proof",
        ("accelerate",),
    ),
    Cell(
        "setting/even-batches",
        "with even_batches=False nothing is repeated, and ranks may take unequal numbers of steps",
        configured("even_batches=False"),
        "loader = accelerator.prepare(DataLoader(dataset, batch_size=4))\n",
        Numbers((12, 9), 0, 21),
        "the setting is part of the proof",
        ("accelerate",),
    ),
    Cell(
        "setting/dispatch-batches",
        "with dispatch_batches=True rank 0 reads a shuffled loader and deals it out",
        configured("dispatch_batches=True"),
        "loader = accelerator.prepare(DataLoader(dataset, batch_size=4, shuffle=True))\n",
        Numbers((11, 11), 1, 21),
        "the setting is part of the proof",
        ("accelerate",),
    ),
    Cell(
        "setting/dispatch-distributed",
        "with dispatch_batches=True a DistributedSampler gives rank 0 its part to deal out: half is never read",
        configured("dispatch_batches=True"),
        "loader = accelerator.prepare(DataLoader(dataset, batch_size=4, sampler=DistributedSampler(dataset)))\n",
        Numbers((6, 6), covered=11),
        "it is taken out",
        ("accelerate",),
        ("SHD201",),
    ),
    Cell(
        "setting/no-batch-size",
        "prepare() of a loader with batch_size=None raises, at its first use or before",
        ACCELERATE,
        "loader = accelerator.prepare(DataLoader(dataset, batch_size=None))\n",
        Numbers(error="(TypeError|ValueError|AttributeError): "),
        "it is told",
        ("accelerate",),
        ("SHD712",),
    ),
    Cell(
        "setting/dispatched-widths",
        "dispatched batches of different widths raise",
        ACCELERATE,
        """
        class Wide(IterableDataset):
            def __iter__(self):
                return iter([torch.zeros(1 + n % 3, dtype=torch.long) for n in range(6)])


        loader = accelerator.prepare(DataLoader(Wide(), batch_size=1))
        """,
        Numbers(
            error="RuntimeError: (You can't use batches of different size|Sizes of tensors must match)", waits=(1,)
        ),
        "it is told",
        ("accelerate",),
        ("SHD714",),
    ),
    Cell(
        "setting/scheduler",
        "a prepared scheduler takes as many steps a call as there are ranks",
        ACCELERATE,
        """
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
        optimizer, schedule = accelerator.prepare(optimizer, schedule)
        optimizer.step()
        schedule.step()
        loader = [[schedule.scheduler.last_epoch]]
        """,
        Numbers(read=((2,), (2,))),
        "a schedule that takes the prepared loader's length is told",
        ("accelerate",),
        ("SHD713",),
    ),
)
