"""What one file of a program keeps of one rank's samples and another one reads is found as in one file."""

from __future__ import annotations

import pytest
from counting import counting

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Options
from shardfix.planning import make_plan

NET = "import torch\n{}class Net(torch.nn.Module):\n    def forward(self, x):\n        {}\n        return x\n"
USES = "from net import Net\nmodel = Net()\n"


def tiers(files: dict[str, str]) -> list[str]:
    """The tiers of what is planned for a project."""
    modules = link({path: parse(path, text) for path, text in files.items()})
    found = make_plan(modules, tuple(files), Options(sanitizer="off"))
    assert found.problems == ()
    return [change.tier for report in found.reports for change in report.changes]


def by_model(line: str, head: str = "", returns: str = "n", uses: str = "", **more: str) -> dict[str, str]:
    """A model in a file of its own that runs a line."""
    return {
        "train.py": counting(head=uses + USES, returns=returns),
        "net.py": NET.format(head, line),
        **{f"{name}.py": text for name, text in more.items()},
    }


def by_loop(line: str, returns: str, state: str, uses: str = "import state\n") -> dict[str, str]:
    """A loop that calls what is in another file."""
    return {"train.py": counting(line, head=uses, returns=returns), "state.py": state}


KEEP = "ROWS = []\ndef keep(y):\n    ROWS.append(y)\n    return y\n"
METER = "class Meter:\n    n = 0\n    def note(self, y):\n        self.n += len(y)\n        return y\nmeter = Meter()\n"
REFUSED = {
    "a model": by_model("self.seen += len(x)", returns="n / max(1, model.seen)"),
    "a model, by a program that imports it": by_model(
        "self.seen += len(x)",
        main="from train import model, val_loader, validate\nprint(validate(model, val_loader) / model.seen)\n",
    ),
    "the class above a model": {
        "train.py": counting(head=USES, returns="n / max(1, model.seen)"),
        "net.py": "from base import Base\nclass Net(Base):\n    pass\n",
        "base.py": NET.format("", "self.seen += len(x)").replace("class Net", "class Base"),
    },
    "a list of a file": by_model(
        "state.ROWS.append(x)", "import state\n", "n, state.ROWS", "import state\n", state="ROWS = []\n"
    ),
    "a list that is imported": by_model(
        "ROWS.append(x)", "from state import ROWS\n", "n, ROWS", "from state import ROWS\n", state="ROWS = []\n"
    ),
    "a function": by_loop("z = state.keep(y)", "n, state.ROWS", KEEP),
    "a function that is imported": by_loop("z = keep(y)", "n, ROWS", KEEP, "from state import ROWS, keep\n"),
    "a list that is handed on": by_loop(
        "z = keep(y, ROWS)",
        "n, ROWS",
        "ROWS = []\ndef keep(y, rows):\n    rows.append(y)\n    return y\n",
        "from state import ROWS, keep\n",
    ),
    "an object": by_loop("z = state.meter.note(y)", "n, state.meter.n", METER),
    "what a function gives back": by_loop(
        "r = state.rows()\nr.append(y)", "n, state.rows()", "ROWS = []\ndef rows():\n    return ROWS\n"
    ),
}
NEAR = {
    "a model that another program asks": by_model(
        "self.last = x", show="from net import Net\nnet = Net()\nnet(1)\nprint(net.last)\n"
    ),
    "a class that has nothing to do with it": by_model(
        "self.last = x",
        log="class Log:\n    def __init__(self): self.last = 1\n    def show(self): return self.last\n",
    ),
    "a function that keeps nothing": by_loop("z = state.keep(y)", "n", "def keep(y):\n    return [y]\n"),
    "a number that is imported": by_loop("z = y * K", "n", "K = 3\n", "from state import K\n"),
}


@pytest.mark.parametrize("files", REFUSED.values(), ids=REFUSED)
def test_what_is_kept_in_one_file_and_read_in_another(files: dict[str, str]) -> None:
    assert tiers(files) == []


@pytest.mark.parametrize("files", NEAR.values(), ids=NEAR)
def test_what_has_nothing_to_do_with_it(files: dict[str, str]) -> None:
    assert tiers(files) == ["safe"]
