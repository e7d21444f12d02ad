"""What is repeated or dropped where a set does not divide by the ranks and their batches."""

from __future__ import annotations

from shardfix.proof.truth.cell import Cell, Numbers
from shardfix.proof.truth.preludes import ACCELERATE, PLAIN

PADDING = (
    Cell(
        "padding/distributed",
        "a DistributedSampler fills each part up to ceil(M/W) by repeating samples",
        PLAIN,
        "loader = DataLoader(dataset, batch_size=4, sampler=DistributedSampler(dataset, shuffle=False))\n",
        Numbers((3, 3, 3), 2, 7, read=((0, 3, 6), (1, 4, 0), (2, 5, 1))),
        "a proof takes as many repeats as this for padding, and counts them",
        decides=("SHD502", "SHD906"),
        world=3,
        size=7,
    ),
    Cell(
        "padding/distributed-drop-last",
        "a DistributedSampler with drop_last=True cuts each part to floor(M/W)",
        PLAIN,
        """
        loader = DataLoader(
            dataset, batch_size=4, sampler=DistributedSampler(dataset, shuffle=False, drop_last=True)
        )
        """,
        Numbers((2, 2, 2), 0, 6, read=((0, 3), (1, 4), (2, 5))),
        "an inserted sampler keeps drop_last as it is, and never sets it in an evaluation",
        world=3,
        size=7,
    ),
    Cell(
        "padding/below-the-world",
        "a DistributedSampler of fewer samples than ranks repeats them",
        PLAIN,
        "loader = DataLoader(dataset, sampler=DistributedSampler(dataset, shuffle=False))\n",
        Numbers((1, 1, 1), 1, 1),
        "a set below the number of ranks is padded, not empty",
        world=3,
        size=1,
    ),
    Cell(
        "padding/below-the-world-drop-last",
        "with drop_last=True a set of fewer samples than ranks is never read",
        PLAIN,
        "loader = DataLoader(dataset, sampler=DistributedSampler(dataset, shuffle=False, drop_last=True))\n",
        Numbers((0, 0, 0), 0, 0),
        "a proof asks for at least one step wherever the original has one",
        world=3,
        size=2,
    ),
    Cell(
        "padding/accelerate",
        "prepare() fills up to ceil(M/(W*B))*W*B samples",
        ACCELERATE,
        "loader = accelerator.prepare(DataLoader(dataset, batch_size=2))\n",
        Numbers((4, 4, 4), covered=7, batches=(2, 2)),
        "a proof takes as many repeats as this for padding, and counts them",
        ("accelerate",),
        ("SHD201",),
        world=3,
        size=7,
    ),
    Cell(
        "padding/accelerate-drop-last",
        "prepare() of a loader with drop_last=True drops what does not fill a batch on every rank",
        ACCELERATE,
        "loader = accelerator.prepare(DataLoader(dataset, batch_size=4, drop_last=True))\n",
        Numbers((8, 8), 0, 16, batches=(4, 4)),
        "drop_last is kept where a sampler is taken out",
        ("accelerate",),
        ("SHD201",),
    ),
)
