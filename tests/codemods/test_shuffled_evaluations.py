"""An evaluation that shuffles can be shared out where no order reaches its metric; what draws a part of it can't."""

from __future__ import annotations

import pytest
from plans import planned

from shardfix.analysis.model import Options

HEAD = (
    "import numpy as np\nimport torch\nimport torch.distributed as dist\n"
    "from torch.utils.data import DataLoader, RandomSampler, SubsetRandomSampler\ndist.init_process_group()\n"
    "val_loader = DataLoader(val_set, batch_size=4, {})\n"
    "preds, n = [], 0\nfor x, y in val_loader:\n    preds.extend(model(x).argmax(1).tolist())\n"
    "    n += (model(x).argmax(1) == y).sum().item()\n"
)
SHUFFLES = ["shuffle=True", "sampler=RandomSampler(val_set)", "shuffle=args.shuffle"]


@pytest.mark.parametrize("given", SHUFFLES)
def test_sums_and_results_that_are_read_in_any_order(given: str) -> None:
    (change,) = planned(HEAD.format(given) + "print(n, np.mean(preds))\n").changes
    assert (change.codes, change.tier) == (("SHD305",), "safe")


@pytest.mark.parametrize("given", SHUFFLES)
def test_results_that_are_read_by_their_order(given: str) -> None:
    text = HEAD.format(given) + "print(n, preds[:5])\n"
    assert planned(text).changes == ()
    (change,) = planned(text, Options(unsafe=True)).changes
    assert change.tier == "unsafe"
    assert "`preds` is read here by the order of its items, which the original shuffles" in change.reason


def test_results_in_the_datasets_order_may_be_read_by_it() -> None:
    (change,) = planned(HEAD.format("shuffle=False") + "print(n, preds[:5])\n").changes
    assert change.tier == "safe"


@pytest.mark.parametrize("given", ["num_samples=5", "replacement=True", "True, 40"])
def test_a_sampler_that_draws_some_of_the_samples(given: str) -> None:
    found = planned(HEAD.format(f"sampler=RandomSampler(val_set, {given})") + "print(n)\n", Options(unsafe=True))
    assert [c for c in found.changes if c.codemod == "reduce_eval_metrics"] == []
