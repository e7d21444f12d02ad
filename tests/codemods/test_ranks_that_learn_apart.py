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


def _codes(files: dict[str, str], path: str) -> list[str]:
    """What is said of the one loader of a file, or made of it."""
    plan = make_plan(link({p: parse(p, t) for p, t in files.items()}), (path,), Options(sanitizer="off"))
    (report,) = plan.reports
    return [*(f.code for f in report.findings), *(code for c in plan.changes for code in c.codes)]


OTHER = "import shared\nfrom torch.nn.parallel import DistributedDataParallel as DDP\nmodel = DDP(shared.net())\n"
SHARED = "import torch\ndef net():\n    return torch.nn.Linear(1, 1)\n"
USING = "import shared\n" + PLAIN.replace("torch.nn.Linear(1, 1)", "shared.net()")


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param(
            {"train.py": USING, "shared.py": SHARED, "other.py": OTHER}, ["SHD936"], id="shares a file with it"
        ),
        pytest.param(
            {"train.py": USING, "shared.py": SHARED, "other.py": "import train\n" + OTHER},
            ["SHD301"],
            id="is run by it",
        ),
        pytest.param(
            {"train.py": "import other\n" + USING, "shared.py": SHARED, "other.py": OTHER}, ["SHD301"], id="imports it"
        ),
        pytest.param(
            {
                "train.py": "import middle\n" + USING,
                "middle.py": "import other\n",
                "shared.py": SHARED,
                "other.py": OTHER,
            },
            ["SHD301"],
            id="imports it through another",
        ),
        pytest.param(
            {"train.py": USING, "shared.py": SHARED, "go.py": "import train\nimport other\n", "other.py": OTHER},
            ["SHD301"],
            id="is run beside it",
        ),
    ],
)
def test_what_another_program_does_joins_nothing_of_one_that(files: dict[str, str], expected: list[str]) -> None:
    assert _codes(files, "train.py") == expected


def test_a_file_of_loaders_belongs_to_each_program_that_imports_it() -> None:
    data = "from torch.utils.data import DataLoader\ndef make(d):\n    return DataLoader(d, shuffle=True)\n"
    train = PLAIN.replace("DataLoader(data, batch_size=4, shuffle=True)", "make(data)")
    joined = train.replace("torch.nn.Linear(1, 1)", "torch.nn.parallel.DistributedDataParallel(net)")
    files = {"data.py": data, "a.py": "from data import make\n" + train, "b.py": "from data import make\n" + joined}
    assert "SHD936" not in _codes(files, "data.py")
    assert "SHD936" in _codes({"data.py": data, "a.py": files["a.py"]}, "data.py")
