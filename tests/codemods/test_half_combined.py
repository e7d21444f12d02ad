"""A result that each rank keeps to itself beside one that is combined is put together as well, or named."""

from __future__ import annotations

import pytest
from plans import codes, edited, planned

HEAD = (
    "import torch\nimport torch.distributed as dist\nimport torch.nn.functional as F\n"
    "from torch.utils.data import DataLoader, DistributedSampler\n"
    "dist.init_process_group()\n"
    "val_loader = DataLoader(val_set, batch_size=4, sampler=DistributedSampler(val_set, shuffle=False))\n"
    "@torch.no_grad()\n"
    "def evaluate(model, loader):\n"
    "    model.eval()\n"
    "    loss, correct, total, rows = torch.zeros(1), 0, 0, 0\n"
)
COUNTED = "        total += len(y)\n"
LOOP = (
    "    for x, y in loader:\n"
    '        loss += F.cross_entropy(model(x), y, reduction="sum")\n'
    "        correct += (model(x).argmax(1) == y).sum().item()\n"
) + COUNTED
MEANS = LOOP.replace(', reduction="sum"', "")
END = "    dist.all_reduce(loss)\n    return loss / len(val_set), correct / total\n"
RUN = "print(evaluate(model, val_loader))\n"


def test_what_is_left_alone_is_summed_behind_the_loop_and_what_the_program_sums_is_not() -> None:
    text = HEAD + LOOP + END + RUN

    (change,) = planned(text).changes

    assert (change.codes, change.tier) == (("SHD506",), "safe")
    after = edited(text)
    assert "        total += len(y)\n    correct, total = reduced(correct, total)\n    dist.all_reduce(loss)\n" in after
    assert codes(after) == [[]]


@pytest.mark.parametrize(
    ("loop", "end", "named"),
    [
        pytest.param(
            MEANS,
            END.replace("len(val_set)", "len(loader)"),
            "its own share of `correct` and `total` (line 13), and combines `loss`",
            id="a mean of means is combined",
        ),
        pytest.param(
            LOOP,
            "    both = torch.tensor([loss, total])\n    dist.all_reduce(both)\n    return both, correct / total\n",
            "its own share of `correct` (line 13), and combines `loss` and `total`",
            id="divided by what is combined later",
        ),
        pytest.param(
            "    for x, y in loader:\n        hit = (model(x).argmax(1) == y).float().sum()\n"
            "        dist.all_reduce(hit)\n        correct += hit.item()\n"
            '        loss += F.cross_entropy(model(x), y, reduction="sum")\n',
            "    return correct / len(val_set), loss / len(val_set)\n",
            "its own share of `loss` (line 15), and combines `correct`",
            id="combined in the loop",
        ),
    ],
)
def test_what_can_not_be_put_together_is_named(loop: str, end: str, named: str) -> None:
    (report,) = planned(HEAD + loop + end + RUN).reports

    assert [f.code for f in report.findings] == ["SHD503"]
    assert named in report.why


@pytest.mark.parametrize(
    ("loop", "end"),
    [
        pytest.param(
            MEANS + "        rows += len(y)\n",
            "    t = torch.tensor([correct, total])\n    dist.all_reduce(t)\n    dist.all_reduce(loss)\n"
            "    return t[0] / t[1], loss / len(loader), rows\n",
            id="a number of samples",
        ),
        pytest.param(
            MEANS,
            "    out = {'loss': loss, 'correct': correct, 'total': total}\n"
            "    for v in out.values():\n        dist.all_reduce(v)\n    return out\n",
            id="combined by another name",
        ),
        pytest.param(
            "    for x, y in loader:\n        hits = (model(x).argmax(1) == y).sum()\n"
            "        if several:\n            correct += reduce_sum(hits)\n        else:\n            correct += hits\n"
            "        loss += reduce_sum(F.cross_entropy(model(x), y))\n",
            "    return correct / len(val_set), loss\n",
            id="combined in the loop where several ranks run it",
        ),
        pytest.param(
            MEANS,
            "    dist.all_reduce(loss)\n    return loss / len(loader), send(correct, total)\n",
            id="given to what is not read",
        ),
    ],
)
def test_what_is_combined_or_may_be_is_not_said_to_be_left_alone(loop: str, end: str) -> None:
    (report,) = planned(HEAD + loop + end + RUN).reports

    assert [f.code for f in report.findings] == ["SHD502"]
