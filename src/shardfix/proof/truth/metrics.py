"""What reaches a metric when its loader is sharded."""

from __future__ import annotations

from shardfix.proof.truth.cell import Cell, Numbers
from shardfix.proof.truth.preludes import ACCELERATE, PLAIN

METRICS = (
    Cell(
        "metric/gather-for-metrics",
        "gather_for_metrics drops what prepare() repeated",
        ACCELERATE,
        """
        prepared = accelerator.prepare(DataLoader(dataset, batch_size=4))
        loader = [accelerator.gather_for_metrics(batch) for batch in prepared]
        """,
        Numbers((21, 21), covered=21, ordered=True),
        "it is what a gathered metric should use",
        ("accelerate",),
        ("SHD502", "SHD507", "SHD707", "SHD906"),
    ),
    Cell(
        "metric/gather",
        "plain gather counts what prepare() repeated",
        ACCELERATE,
        """
        prepared = accelerator.prepare(DataLoader(dataset, batch_size=4))
        loader = [accelerator.gather(batch) for batch in prepared]
        """,
        Numbers((24, 24), covered=21),
        "it is told",
        ("accelerate",),
        ("SHD507", "SHD707"),
    ),
    Cell(
        "metric/gather-unprepared",
        "gather_for_metrics knows only prepared loaders: it keeps what a DistributedSampler repeated",
        ACCELERATE,
        """
        unprepared = DataLoader(dataset, batch_size=4, sampler=DistributedSampler(dataset, shuffle=False))
        loader = [accelerator.gather_for_metrics(batch) for batch in unprepared]
        """,
        Numbers((22, 22), covered=21),
        "such a metric is not taken for exact",
        ("accelerate",),
        ("SHD502", "SHD906"),
    ),
    Cell(
        "metric/padding",
        "what a DistributedSampler repeats reaches a reduced metric: 1 of 7 becomes 2 of 8",
        PLAIN,
        """
        counts = torch.zeros(2)
        for batch in DataLoader(dataset, batch_size=4, sampler=DistributedSampler(dataset, shuffle=False)):
            counts += torch.tensor([float((batch == 0).sum()), float(len(batch))])
        dist.all_reduce(counts)
        loader = [counts.long()]
        """,
        Numbers(read=((2, 8), (2, 8))),
        "such an edit is unsafe",
        decides=("SHD305", "SHD502", "SHD506", "SHD906"),
        size=7,
    ),
    Cell(
        "metric/unreduced",
        "a metric that nobody reduces covers one rank's part once the loader is sharded",
        PLAIN,
        """
        sampler = DistributedSampler(dataset, shuffle=False)
        loader = [[sum(len(batch) for batch in DataLoader(dataset, batch_size=4, sampler=sampler))]]
        """,
        Numbers(read=((11,), (11,))),
        "such an evaluation is not sharded",
        decides=("SHD305", "SHD503", "SHD506", "SHD904"),
    ),
)
