"""Training data is shared out where the ranks share what they learn: else each would learn from its part alone."""

from __future__ import annotations

import pytest
from plans import codes, planned

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Options
from shardfix.planning import make_plan

PLAIN = (
    "import torch\nimport torch.distributed as dist\nfrom torch.utils.data import DataLoader\n"
    "dist.init_process_group('gloo')\n"
    "loader = DataLoader(data, batch_size=4, shuffle=True)\n"
    "model = torch.nn.Linear(1, 1)\n"
    "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    "for epoch in range(3):\n"
    "    for x in loader:\n"
    "        optimizer.zero_grad()\n"
    "        model(x).sum().backward()\n"
    "        optimizer.step()\n"
)


def test_a_plain_model_that_no_rank_shares_is_trained_on_all_samples() -> None:
    (report,) = planned(PLAIN).reports
    assert (report.verdict, [f.code for f in report.findings]) == ("refused", ["SHD936"])
    (change,) = planned(PLAIN, Options(sanitizer="off", unsafe=True)).changes
    assert (change.tier, change.codes) == ("unsafe", ("SHD301",))
    assert "each would train on its share alone" in change.reason


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("torch.nn.Linear(1, 1)", "torch.nn.parallel.DistributedDataParallel(net)", id="wrapped"),
        pytest.param("torch.nn.Linear(1, 1)", "wrap_for_training(torch.nn.Linear(1, 1))", id="wrapped out of sight"),
        pytest.param(
            "        optimizer.step()", "        average_gradients(model)\n        optimizer.step()", id="by hand"
        ),
        pytest.param(
            "        optimizer.step()",
            "        for p in model.parameters():\n            dist.all_reduce(p.grad)\n        optimizer.step()",
            id="a collective",
        ),
        pytest.param("torch.optim.SGD(model.parameters(), lr=0.1)", "make_optimizer(cfg)", id="built out of sight"),
    ],
)
def test_where_something_may_join_the_gradients_the_data_is_shared_out(old: str, new: str) -> None:
    assert codes(PLAIN.replace(old, new)) == [["SHD301"]]


def test_what_joins_them_may_stand_in_a_file_that_is_imported() -> None:
    net = "from torch.nn.parallel import DistributedDataParallel as DDP\ndef make():\n    return DDP(Net())\n"
    text = "import net\n" + PLAIN.replace("torch.nn.Linear(1, 1)", "net.make()")
    files = {"net.py": net, "train.py": text}
    plan = make_plan(link({p: parse(p, t) for p, t in files.items()}), ("train.py",), Options(sanitizer="off"))
    assert [c.codes for c in plan.changes] == [("SHD301",)]
