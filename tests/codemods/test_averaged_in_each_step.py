"""What each step averages over the ranks is left to each rank, and its sums are put together behind the loop."""

from __future__ import annotations

import pytest
from plans import codes, edited, planned

from shardfix.analysis.model import Options

UNSAFE = Options(sanitizer="off", unsafe=True)
HEAD = (
    "import torch\nimport torch.distributed as dist\nimport torch.nn.functional as F\n"
    "from torch.utils.data import DataLoader, DistributedSampler\n"
)
MEAN = (
    "def mean_of_ranks(t, n=None):\n    if n is None:\n        n = dist.get_world_size()\n"
    "    rt = t.clone()\n    dist.all_reduce(rt, op=dist.ReduceOp.SUM)\n    rt /= n\n    return rt\n"
).replace("mean_of_ranks", "reduce_mean")
METER = (
    "class AverageMeter:\n    def __init__(self):\n        self.sum = self.count = self.avg = 0\n"
    "    def update(self, val, n=1):\n        self.sum += val * n\n        self.count += n\n"
    "        self.avg = self.sum / self.count\n"
)
HEAD += METER + (
    "dist.init_process_group()\n"
    "loader = DataLoader(d, batch_size=4, sampler=DistributedSampler(d, shuffle=False))\n"
    "losses, total = AverageMeter(), 0\nm.eval()\nwith torch.no_grad():\n    for x, y in loader:\n"
    "        loss = F.cross_entropy(m(x), y)\n"
)
AGAIN = "        loss = reduce_mean(loss)\n"
UPDATE = "        losses.update(loss.item(), len(y))\n"
END = "print(losses.avg)\n"


def test_a_mean_of_the_ranks_means_becomes_that_of_all_samples() -> None:
    text = MEAN + HEAD + AGAIN + UPDATE + END

    (change,) = planned(text).changes

    assert (change.codes, change.tier) == (("SHD506",), "safe")
    after = edited(text)
    assert (
        "        loss = F.cross_entropy(m(x), y)\n        losses.update(loss.item(), len(y))\n"
        "    losses.sum, losses.count = reduced(losses.sum, losses.count)\n"
    ) in after
    assert codes(after) == [[]]


@pytest.mark.parametrize(
    ("body", "line"),
    [
        pytest.param("        own = reduce_mean(loss, world_size)\n", "        own = loss\n", id="by another name"),
        pytest.param(
            "        own = reduce_mean(loss + 0.0).item()\n", "        own = (loss + 0.0).item()\n", id="a sum"
        ),
        pytest.param(
            "        own = loss\n        if world_size > 1:\n            loss = reduce_mean(loss)\n",
            "        own = loss\n        losses",
            id="under a condition",
        ),
    ],
)
def test_the_value_stands_where_its_mean_stood(body: str, line: str) -> None:
    after = edited(MEAN + HEAD + body + UPDATE + END)

    assert line in after
    assert "reduce_mean(loss" not in after.partition("for x, y")[2]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(
            AGAIN + UPDATE + "        print(losses.avg)\n",
            "line 26: without `reduce_mean(loss)` the loop shows each rank's own values",
            id="the loop shows it",
        ),
        pytest.param(
            "        total += reduce_mean((m(x).argmax(1) == y).float().sum()).item()\n",
            "line 26: `total` added up means over the ranks, and is the sum over all of them now",
            id="a sum of means over ranks",
        ),
    ],
)
def test_a_number_that_becomes_another_one_is_not_changed_unasked(body: str, reason: str) -> None:
    text = MEAN + HEAD + body + END.replace("losses.avg", "losses.avg, total / 20")

    kept = planned(text)
    assert kept.changes == ()
    assert kept.reports[0].findings[0].remedy.startswith("`--unsafe` leaves them out, and puts the metric together")
    (change,) = planned(text, UNSAFE).changes
    assert (change.codes, change.tier, change.reason) == (("SHD506",), "unsafe", reason)


@pytest.mark.parametrize(
    "mean",
    [
        pytest.param("", id="not read"),
        pytest.param(MEAN.replace(".SUM", ".MAX"), id="the largest"),
        pytest.param(MEAN.replace("    rt /= n\n", "    rt /= 2\n"), id="divided by something else"),
        pytest.param(MEAN.replace("    rt /= n\n", ""), id="a sum"),
        pytest.param(MEAN.replace("t.clone()", "t"), id="in place"),
        pytest.param(MEAN.replace("return rt", "return t"), id="thrown away"),
        pytest.param(MEAN.replace("    rt /= n\n", "    rt /= n\n    log(rt)\n"), id="and something else"),
        pytest.param("def twice(f):\n    return f\n@twice\n" + MEAN, id="decorated"),
    ],
)
def test_what_is_not_read_to_be_a_mean_over_the_ranks_stays(mean: str) -> None:
    (report,) = planned(mean + HEAD + AGAIN + UPDATE + END, UNSAFE).reports

    assert [f.code for f in report.findings] == ["SHD502"]
    assert "it combines the ranks' values of each batch, padding among them" in report.why


def test_a_number_that_is_no_number_of_ranks_divides_by_something_else() -> None:
    (report,) = planned(MEAN + HEAD + AGAIN.replace("(loss)", "(loss, 8)") + UPDATE + END, UNSAFE).reports

    assert [f.code for f in report.findings] == ["SHD502"]
