"""Samplers of lhotse give each rank its share by themselves, and want to be told the epoch where they shuffle."""

from __future__ import annotations

import pytest
from plans import codes, planned

HEAD = (
    "import torch.distributed as dist\nfrom lhotse.dataset import DynamicBucketingSampler, SimpleCutSampler\n"
    "from torch.utils.data import DataLoader\n"
    "dist.init_process_group('gloo')\n"
)
LOOP = (
    "train_dl = DataLoader(train_set, sampler={}, batch_size=None)\n"
    "for epoch in range(3):\n    {}for batch in train_dl:\n        model(batch).backward()\n"
)
TELL = "train_dl.sampler.set_epoch(epoch)\n    "


@pytest.mark.parametrize(
    ("made", "tell", "why"),
    [
        pytest.param(
            "DynamicBucketingSampler(cuts, max_duration=9, shuffle=args.shuffle)",
            TELL,
            "its sampler is told the epoch",
            id="told",
        ),
        pytest.param(
            "DynamicBucketingSampler(cuts, shuffle=True) if args.bucketing else SimpleCutSampler(cuts, shuffle=True)",
            TELL,
            "its sampler is told the epoch",
            id="one of two, told",
        ),
        pytest.param(
            "SimpleCutSampler(cuts, max_duration=9)", "", "SimpleCutSampler gives each rank its share", id="in order"
        ),
        pytest.param(
            "SimpleCutSampler(cuts, shuffle=False)", "", "SimpleCutSampler gives each rank its share", id="told so"
        ),
    ],
)
def test_a_sampler_of_lhotse_shares_out(made: str, tell: str, why: str) -> None:
    (report,) = planned(HEAD + LOOP.format(made, tell)).reports
    assert (report.verdict, report.why) == ("right", why)


def test_one_that_shuffles_and_that_nobody_tells_is_named() -> None:
    (report,) = planned(HEAD + LOOP.format("SimpleCutSampler(cuts, shuffle=True)", "")).reports
    assert [f.code for f in report.findings] == ["SHD909"]
    assert report.why == "SimpleCutSampler gives each rank its share, and nothing calls its set_epoch"


@pytest.mark.parametrize(
    "made",
    [
        pytest.param("SimpleCutSampler(cuts, world_size=1, rank=0)", id="told of a world of its own"),
        pytest.param("SimpleCutSampler(cuts, **settings)", id="settings that are not seen"),
        pytest.param("other.SimpleCutSampler(cuts)", id="of another library"),
        pytest.param("lhotse.dataset.ZipSampler(a, b)", id="one around others"),
    ],
)
def test_what_is_not_seen_to_share_out(made: str) -> None:
    assert codes(HEAD + "import lhotse\nimport other\n" + LOOP.format(made, "")) == [["SHD915"]]
