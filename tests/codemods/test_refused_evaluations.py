"""Samplers, numbers of shares and conditions of an evaluation that are not those of all ranks leave it as it is."""

from __future__ import annotations

import pytest
from plans import codes, edited, planned

LOADER = "val_loader = DataLoader(val_set, batch_size=4{more})\n"
REST = (
    "@torch.no_grad()\ndef validate(model, loader):\n    model.eval()\n    n = 0\n    for x, y in loader:\n"
    "        n += (model(x).argmax(1) == y).sum().item()\n    return n\n"
)
HEAD = (
    "import torch\nimport torch.distributed as dist\n"
    "from torch.utils.data import BatchSampler, DataLoader, DistributedSampler\n"
    "from torch.utils.data import SequentialSampler, WeightedRandomSampler\n"
    "dist.init_process_group()\nrank = dist.get_rank()\n"
)


def program(more: str = "", before: str = "", call: str = "validate(model, val_loader)\n") -> str:
    """An evaluation by a loader with these arguments."""
    return HEAD + before + LOADER.format(more=more) + REST + call


OWN = "class Own(torch.utils.data.Sampler):\n    pass\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(program(", sampler=Own(val_set)", OWN), id="a sampler of the project"),
        pytest.param(program(", sampler=WeightedRandomSampler(weights, 9)"), id="weighted"),
        pytest.param(
            program().replace("batch_size=4", "batch_sampler=BatchSampler(SequentialSampler(val_set), 4, False)"),
            id="a batch sampler",
        ),
    ],
)
def test_a_sampler_that_is_not_of_one_order(text: str) -> None:
    assert codes(text) == [["SHD915"]]


SHARDED = ", sampler=DistributedSampler(val_set, num_replicas={}, rank=rank, shuffle=False)"


@pytest.mark.parametrize(
    ("shares", "before"),
    [
        pytest.param("None", "", id="by the group"),
        pytest.param("w", "w = dist.get_world_size()\n", id="a name"),
        pytest.param("w", "w = dist.get_world_size() if dist.is_initialized() else 1\n", id="all, or one"),
    ],
)
def test_shares_of_all_ranks(shares: str, before: str) -> None:
    assert codes(program(SHARDED.format(shares), before)) == [["SHD506"]]


@pytest.mark.parametrize(
    ("shares", "before"),
    [
        pytest.param("2", "", id="a number"),
        pytest.param("w", "w = 2\n", id="a number by name"),
        pytest.param("w", "w = 2\nif args.all:\n    w = dist.get_world_size()\n", id="a number on some paths"),
        pytest.param("w", "v = dist.get_world_size()\nw = make(v)\n", id="made of it"),
    ],
)
def test_shares_that_may_be_others(shares: str, before: str) -> None:
    (report,) = planned(program(SHARDED.format(shares), before)).reports
    assert report.changes == ()
    assert "its sampler is not seen to share the samples among all ranks" in report.why


CLASS = "class Job:\n    def {}(self):\n        validate(model, val_loader)\n"
MADE = (
    "def make(rank):\n    if rank == 0:\n        return open('log')\ndef outer(rank):\n    return {}\n"
    "log = outer(rank)\nif log:\n    validate(model, val_loader)\n"
)
LOGGER = "def make(rank):\n    if rank == 0:\n        return open('log')\nargs.log = make(rank)\n"


@pytest.mark.parametrize(
    "call",
    [
        pytest.param("import submitit\n" + CLASS.format("__call__") + "executor.submit(Job())\n", id="a job"),
        pytest.param(
            "def run():\n    pass\n" + CLASS.format("run") + "run()\njob = make()\njob.run()\n",
            id="a method, and a function of its name",
        ),
        pytest.param(CLASS.format("__call__") + "job = Job()\njob()\n", id="an object that is called"),
        pytest.param("if args.k in [1, 2]:\n    validate(model, val_loader)\n", id="one of some numbers"),
        pytest.param(
            "conf = load('a.yaml')\nif conf.last:\n    validate(model, val_loader)\n", id="settings that are read"
        ),
        pytest.param(MADE.format("3"), id="what a function gives to all"),
        pytest.param("if args.gpu is not None:\n    validate(model, val_loader)\n", id="a gpu is given to all"),
    ],
)
def test_what_all_ranks_come_to(call: str) -> None:
    assert codes(program(call=call)) == [["SHD305"]]


@pytest.mark.parametrize(
    ("call", "why"),
    [
        pytest.param(
            "import submitit\n" + CLASS.format("__call__") + "hand(Job())\n",
            "what runs `__call__` is not seen",
            id="an object that is handed on",
        ),
        pytest.param(
            "import submitit\n" + CLASS.format("__call__") + "job = Job()\nexecutor.submit(job)\nhand(job)\n",
            "what runs `__call__` is not seen",
            id="a job that is handed on too",
        ),
        pytest.param(
            "import concurrent.futures\n" + CLASS.format("__call__") + "executor.submit(Job())\n",
            "what runs `__call__` is not seen",
            id="a job of another library",
        ),
        pytest.param(
            CLASS.format("__call__") + "job = Job()\njob()\njobs = [job]\n",
            "what runs `__call__` is not seen",
            id="an object that is called, and kept",
        ),
        pytest.param(
            "if 3 in [rank, 2]:\n    validate(model, val_loader)\n",
            "`3 in [rank, 2]` is not seen to be alike",
            id="one of some ranks",
        ),
        pytest.param(
            "import random\nconf = random.choice([a, b])\nif conf.last:\n    validate(model, val_loader)\n",
            "`conf.last` is not seen to be alike",
            id="settings that are drawn",
        ),
        pytest.param(
            "with open('a.yaml') as conf:\n    if conf.last:\n        validate(model, val_loader)\n",
            "`conf.last` is not seen to be alike",
            id="a file by a name of settings",
        ),
        pytest.param(
            MADE.format("make(rank)"), "`log` is not seen to be alike", id="what one rank makes is given back"
        ),
        pytest.param(MADE.format("LOG"), "`log` is not seen to be alike", id="what is not seen is given back"),
        pytest.param(
            LOGGER + "if args.log is not None:\n    validate(model, val_loader)\n",
            "`args.log is not None` is not seen to be alike on all",
            id="what one rank makes is there",
        ),
        pytest.param(
            "way = torch.no_grad()\nfor _ in range(3):\n    with way:\n        validate(model, val_loader)\n"
            "    way = way\n",
            "what `with way` does on each rank is not known",
            id="a context that is made of itself",
        ),
    ],
)
def test_what_perhaps_not_all_ranks_come_to(call: str, why: str) -> None:
    (report,) = planned(program(call=call)).reports
    assert report.changes == ()
    assert why in report.why


def test_a_version_is_that_of_all_ranks() -> None:
    call = "if torch.__version__ > '1':\n    validate(model, val_loader)\n"
    assert codes(program(call=call)) == [["SHD305"]]


def test_a_platform_is_not_seen_to_be() -> None:
    (report,) = planned(
        "import sys\n" + program(call="if sys.platform > 'a':\n    validate(model, val_loader)\n")
    ).reports
    assert report.changes == ()
    assert "`sys.platform > 'a'` is not seen to be alike on all" in report.why


@pytest.mark.parametrize("body", ["kept[i] = y\n", "loss.backward()\n"])
def test_the_line_of_a_sharded_evaluation_that_is_not_understood(body: str) -> None:
    text = program(SHARDED.format("None")).replace("        n +=", f"        {body}        n +=")
    (report,) = planned(text).reports
    (finding,) = report.findings
    assert (finding.code, report.changes) == ("SHD503", ())
    assert finding.evidence[-1].location.line == 13


def test_a_data_set_of_several_lines_moves_as_it_is_unless_a_text_in_it_has_several() -> None:
    made = program().replace("DataLoader(val_set", "DataLoader(\n    Set(\n        {},\n        3,\n    )")

    after = edited(made.format("'a'"))

    assert "val_dataset = Set(\n    'a',\n    3,\n)\n" in after
    assert codes(made.format("'''a\nb'''")) == [["SHD903"]]


def test_an_evaluation_that_the_main_process_does_alone_at_times_says_where() -> None:
    text = program(call="if rank == 0:\n    validate(model, val_loader)\nvalidate(model, val_loader)\n")
    (report,) = planned(text).reports
    line = text.splitlines().index("if rank == 0:") + 1
    assert report.why == (
        "evaluated on the main process only: one way to its loop is the main process's alone "
        f"(line {line}), another is not"
    )
