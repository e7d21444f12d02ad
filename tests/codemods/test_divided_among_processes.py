"""A metric that is reckoned with the number of processes, whatever that is called, was one rank's part already."""

from __future__ import annotations

import pytest
from plans import planned

HEAD = (
    "import os\nimport torch\nimport torch.distributed as dist\nfrom torch.utils.data import DataLoader\n"
    "dist.init_process_group()\nW = dist.get_world_size()\nval_loader = DataLoader(val_set, batch_size=4)\n"
    "def mean(a, b):\n    return a / b\ndef parts():\n    return len(val_set) // W\n"
    "def evaluate(model, loader):\n    model.eval()\n    n, k = 0, 0\n    with torch.no_grad():\n"
    "        for x, y in loader:\n            n += (model(x).argmax(1) == y).sum().item()\n            k += len(y)\n"
)


def program(returned: str, behind: str = "print(evaluate(model, val_loader))\n", before: str = "") -> str:
    """An evaluation that returns this, and what is done with it."""
    return HEAD + f"    return {returned}\n{before}{behind}"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(program("n / (k * W)"), id="a name"),
        pytest.param(program("n / k / W"), id="once more"),
        pytest.param(program("n / (len(loader.dataset) // W)"), id="a share of the dataset"),
        pytest.param(program("n / int(len(loader.dataset) / W)"), id="a share, rounded"),
        pytest.param(program("n / parts()"), id="a function"),
        pytest.param(program("mean(n, k * W)"), id="handed on"),
        pytest.param(program("n", "print(evaluate(model, val_loader) / W)\n"), id="in the caller"),
        pytest.param(
            program("n", "n = evaluate(model, val_loader)\nn /= part\n", "part = 20 / W\n"), id="by a name there"
        ),
        pytest.param(
            program("n", "print(evaluate(model, val_loader) / args.part)\n", "args.part = 20 / W\n"),
            id="by an attribute",
        ),
    ],
)
def test_it_is_not_put_together_again(text: str) -> None:
    (report,) = planned(text).reports
    assert report.changes == ()
    assert "it reckons with the number of processes already" in report.why


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(program("n / len(loader.dataset)"), id="the dataset"),
        pytest.param(program("100 * n / max(k, 1)"), id="what is counted"),
        pytest.param(program("n / k", before="rate = 0.1 * W\nprint(rate)\n"), id="another number"),
        pytest.param(
            program(
                "n / len(loader.dataset)",
                before="class D:\n    def __init__(self, d):\n        self.dataset = d[::W]\n",
            ),
            id="an object that holds a share",
        ),
    ],
)
def test_a_metric_of_all_samples(text: str) -> None:
    (change,) = planned(text).changes
    assert (change.codes, change.tier) == (("SHD305",), "safe")
