"""Metrics of libraries that put the ranks' parts together by themselves, and MONAI's loader, which is torch's."""

from __future__ import annotations

import pytest
from plans import codes, planned

HEAD = (
    "import torch\nimport torch.distributed as dist\nimport monai\n"
    "from monai.metrics import CumulativeAverage, DiceMetric, compute_meandice\nfrom ignite.metrics import Accuracy\n"
    "from torch.utils.data import DistributedSampler\nfrom {} import {}\n"
    "dist.init_process_group()\n"
)
TORCH = HEAD.format("torch.utils.data", "DataLoader")
EVAL = (
    "sampler = DistributedSampler(val_set, shuffle=False, drop_last=True)\n"
    "val_loader = DataLoader(val_set, sampler=sampler)\nmetric, results = {}, []\n"
    "with torch.no_grad():\n    for b in val_loader:\n        {}\nprint({})\n"
)


@pytest.mark.parametrize(
    ("made", "told", "read"),
    [
        pytest.param("CumulativeAverage()", "metric.append(model(b))", "metric.aggregate()", id="CumulativeAverage"),
        pytest.param("monai.metrics.Cumulative()", "metric.extend(model(b))", "metric.get_buffer()", id="Cumulative"),
        pytest.param(
            "DiceMetric()", "metric(model(b), b)\n        results.extend(b)", "metric.aggregate()", id="a MONAI metric"
        ),
        pytest.param("Accuracy()", "metric.update((model(b), b))", "metric.compute()", id="ignite"),
    ],
)
def test_a_metric_that_gathers_by_itself_is_combined(made: str, told: str, read: str) -> None:
    assert codes(TORCH + EVAL.format(made, told, read)) == [[]]


@pytest.mark.parametrize(
    ("made", "told", "read"),
    [
        pytest.param("CumulativeAverage()", "metric.append(model(b))", "metric.sum / metric.count", id="its own sums"),
        pytest.param("0", "results.append(compute_meandice(model(b), b))", "sum(results)", id="a function of MONAI"),
        pytest.param("Average()", "metric.append(model(b))", "metric.aggregate()", id="another class"),
    ],
)
def test_what_no_metric_gathers_is_one_ranks(made: str, told: str, read: str) -> None:
    assert codes(TORCH + EVAL.format(made, told, read)) == [["SHD503"]]


TRAIN = (
    "model = torch.nn.parallel.DistributedDataParallel(model)\n"
    "train_loader = {}\nfor epoch in range(3):\n    for b in train_loader:\n        model(b).backward()\n"
)


@pytest.mark.parametrize(
    ("module", "name", "made", "expected"),
    [
        pytest.param("monai.data", "DataLoader", "DataLoader(ds, batch_size=2, shuffle=True)", "SHD301", id="MONAI"),
        pytest.param(
            "monai.data.dataloader", "DataLoader", "DataLoader(ds, shuffle=True)", "SHD301", id="where it is defined"
        ),
        pytest.param("monai", "data", "data.DataLoader(dataset=ds, shuffle=True)", "SHD301", id="by its package"),
        pytest.param("monai.data", "DataLoader", "DataLoader(ds, 4, shuffle=True)", "SHD919", id="by position"),
        pytest.param("torch.utils.data", "DataLoader", "DataLoader(ds, 4, True)", "SHD301", id="torch by position"),
        pytest.param("monai.data", "ThreadDataLoader", "ThreadDataLoader(ds, shuffle=True)", "not-ours", id="threads"),
    ],
)
def test_monais_loader_is_torchs(module: str, name: str, made: str, expected: str) -> None:
    (report,) = planned(HEAD.format(module, name) + TRAIN.format(made)).reports
    told = [*(c for change in report.changes for c in change.codes), *(f.code for f in report.findings)]
    assert (told or [report.verdict]) == [expected]
