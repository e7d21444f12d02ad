"""What ``--target`` does to a program that the source shows to run in one process."""

from __future__ import annotations

from pathlib import Path

import pytest
from plans import codes, edited, planned

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Options, Target
from shardfix.config import Config
from shardfix.engine import migrate
from shardfix.planning import make_plan

ONE = (
    "import torch\n"
    "from torch.utils.data import DataLoader, DistributedSampler, RandomSampler\n"
    "\n"
    "\n"
    "def main(model, optimizer):\n"
    "    train_set = torch.arange(21.0)\n"
    "    train_loader = DataLoader(train_set, batch_size=2, {})\n"
    "    for epoch in range(3):\n"
    "        for batch in train_loader:\n"
    "            model(batch).backward()\n"
    "            optimizer.step()\n"
    "\n"
    "\n"
    "main(torch.nn.Identity(), torch.optim.SGD([]))\n"
)


def asked(target: Target, sanitizer: str = "off") -> Options:
    return Options(target=target, sanitizer=sanitizer)  # type: ignore[arg-type]


def test_under_ddp_it_is_proven_with_and_without_a_process_group(tmp_path: Path) -> None:
    for i, given in enumerate(("shuffle=True", "sampler=RandomSampler(train_set)", "shuffle=False")):
        (tmp_path / f"train_{i}.py").write_text(ONE.format(given), "utf-8")

    result = migrate([], config=Config(tmp_path, asked("ddp")), write=False, verify="yes")

    assert [r.verdict for r in result.sites] == ["edit"] * 3
    assert [p.verdict for p in result.proofs] == ["proven"] * 3


def test_the_check_stands_behind_it_so_that_a_group_made_too_late_is_not_passed_in_silence() -> None:
    (change,) = planned(ONE.format("shuffle=True"), asked("ddp", "changed")).changes
    assert change.codes == ("SHD301", "SHD601")
    assert any("init_process_group has to run before" in said for said in change.consequences)


@pytest.mark.parametrize("target", ["ddp", "accelerate"])
def test_an_answer_that_one_process_runs_holds_against_a_target(target: Target) -> None:
    text = ONE.format("shuffle=True").replace("shuffle=True)", "shuffle=True)  # shardfix: owner=single")
    plan = planned(text, asked(target))
    assert [(r.verdict, r.why) for r in plan.reports] == [("right", "one process reads everything")]
    assert plan.notes == ()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param("loader = DataLoader(train_set, shuffle=True)\n", id="at its top level"),
        pytest.param(
            "def make():\n    return DataLoader(train_set, shuffle=True)\nloader = make()\n", id="in what that calls"
        ),
    ],
)
def test_a_loader_built_while_its_file_is_imported_is_refused(data: str) -> None:
    files = {
        "data.py": "from torch.utils.data import DataLoader\ntrain_set = list(range(8))\n" + data,
        "train.py": "from data import loader\n\n\ndef main(model, optimizer):\n    for epoch in range(3):\n"
        "        for batch in loader:\n            model(batch).backward()\n            optimizer.step()\n",
    }
    plan = make_plan(link({p: parse(p, text) for p, text in files.items()}), ("data.py",), asked("ddp"))
    assert [[f.code for f in r.findings] for r in plan.reports] == [["SHD913"]]


def test_under_accelerate_nothing_is_put_in_and_what_is_missing_is_said() -> None:
    assert codes(ONE.format("shuffle=True"), asked("accelerate")) == [["SHD934"]]


def test_under_accelerate_a_redundant_sampler_goes_and_a_distributed_sampler_stays() -> None:
    redundant = ONE.format("sampler=RandomSampler(train_set)")
    assert "DataLoader(train_set, batch_size=2, shuffle=True)" in edited(redundant, asked("accelerate"))
    sharded = ONE.format("sampler=DistributedSampler(train_set, num_replicas=2, rank=0)")
    assert edited(sharded, asked("accelerate")) == sharded


def test_a_stream_takes_no_sampler_under_any_target() -> None:
    text = ONE.replace("torch.arange(21.0)", 'Multi30k(split="train")').replace("import torch\n", "import torch\n{}", 1)
    head = "from torchtext.datasets import Multi30k\n"
    assert codes(text.format(head, "shuffle=False"), asked("ddp")) == [["SHD711"]]
