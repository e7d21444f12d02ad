"""gather_for_metrics is offered for a stream only where rank 0 deals it out: else it drops nothing."""

from __future__ import annotations

import pytest
from plans import codes, planned

TEXT = (
    "import torch\nfrom accelerate import Accelerator\nfrom accelerate.utils import DataLoaderConfiguration\n"
    "from torch.utils.data import DataLoader, Dataset, IterableDataset\n"
    "class Rows({}):\n    pass\n"
    "accelerator = Accelerator({})\neval_loader = accelerator.prepare(DataLoader(Rows(), batch_size=4))\nout = []\n"
    "with torch.no_grad():\n    for b in eval_loader:\n        out.append(accelerator.gather(model(b)))\n"
)
ALONE = "dataloader_config=DataLoaderConfiguration(dispatch_batches=False)"


@pytest.mark.parametrize(
    ("base", "told", "expected"),
    [
        pytest.param("IterableDataset", "", "SHD507", id="rank 0 deals it out by default"),
        pytest.param("IterableDataset", ALONE.replace("False", "True"), "SHD507", id="told so"),
        pytest.param("IterableDataset", ALONE, "SHD707", id="each rank reads it"),
        pytest.param("IterableDataset", "dispatch_batches=False", "SHD707", id="in the old way"),
        pytest.param("Dataset", ALONE, "SHD507", id="no stream"),
    ],
)
def test_a_streams_repeated_samples_are_dropped_only_where_rank_0_deals_it_out(
    base: str, told: str, expected: str
) -> None:
    assert codes(TEXT.format(base, told)) == [[expected]]


def test_why_nothing_would_be_dropped_is_said() -> None:
    (report,) = planned(TEXT.format("IterableDataset", ALONE)).reports
    assert report.why == (
        "gather() keeps the samples that prepare() repeats to fill the last batch: they are counted twice; a stream is "
        "prepared with dispatch_batches=False: each rank fills its own last batch, and gather_for_metrics drops "
        "nothing of it"
    )
