"""`migrate` proves a metric before it writes it, and drops a change whose metric is not that of one process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from shardfix.codemods import _mending

from shardfix.analysis.model import Options
from shardfix.config import Config
from shardfix.engine import migrate
from shardfix.result import RunResult
from shardfix.rewrite.edits import InsertStatements

PROGRAM = """\
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

dist.init_process_group("gloo")
val_set = [(torch.tensor([float(i)]), i % 2) for i in range(7)]
val_loader = DataLoader(val_set, batch_size=2)


@torch.no_grad()
def evaluate(model, loader):
    correct = total = 0
    for x, label in loader:
        correct += (model(x).argmax(1) == label).sum().item()
        total += label.size(0)
    return correct / total


print(evaluate(torch.nn.Linear(1, 2), val_loader))
"""


def migrated(folder: Path) -> RunResult:
    (folder / "train.py").write_text(PROGRAM)
    config = Config(folder, Options(sanitizer="off"))
    return migrate([], config=config, write=False, verify="yes", timeout=100)


def test_a_metric_that_is_put_together_is_proven_by_its_values(tmp_path: Path) -> None:
    result = migrated(tmp_path)
    (proof,) = result.proofs
    assert [change.codes[0] for change in result.changes] == ["SHD305"]
    assert (proof.verdict, proof.padded) == ("proven", 0)
    assert proof.reasons[0].startswith("2 and 3 ranks evaluate every sample once and get the metric of one process: ")
    assert "`correct / total` 0." in proof.reasons[0]
    stand_ins = {stand_in.expression: stand_in.value for stand_in in proof.stand_ins}
    assert stand_ins["model(x)"] == "a row for each sample, by that sample alone"
    assert not any("==" in text for text in stand_ins)  # what the loop itself makes of it is run as it is written


def test_a_metric_that_is_not_reduced_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _mending._behind

    def without_reduction(*args: object) -> object:
        edits = whole(*args)  # type: ignore[arg-type]
        assert isinstance(edits, list)
        lines = ("total = total + 0",)
        return [replace(e, lines=lines) if isinstance(e, InsertStatements) else e for e in edits]

    monkeypatch.setattr(_mending, "_behind", without_reduction)
    result = migrated(tmp_path)
    assert result.changes == ()
    ((_, why),) = result.dropped
    assert "`correct / total` is 0." in why
    assert "in one process 0." in why


SHARDED = PROGRAM.replace("(7)]", "(25)]").replace(
    "DataLoader(val_set, batch_size=2)",
    "DataLoader(val_set, batch_size=4, sampler=torch.utils.data.DistributedSampler(val_set, shuffle=False))",
)
BY_HAND = SHARDED.replace(
    "    return correct / total",
    "    both = torch.tensor([correct, total])\n    dist.all_reduce(both)\n    return (both[0] / both[1]).item()",
)


@pytest.mark.parametrize(
    ("program", "shown"),
    [
        pytest.param(SHARDED, "the original: `correct / total` is 0.", id="not reduced"),
        pytest.param(BY_HAND, "the original: `(both[0] / both[1]).item()` is ", id="reduced with its padding"),
    ],
)
def test_an_evaluation_that_is_sharded_already_is_mended_and_written(tmp_path: Path, program: str, shown: str) -> None:
    (tmp_path / "train.py").write_text(program)
    result = migrate([], config=Config(tmp_path, Options()), write=False, verify="yes", timeout=100)
    assert [change.codes[0] for change in result.changes] == ["SHD506"]
    (proof,) = result.proofs
    assert (proof.verdict, proof.padded) == ("proven", 0)
    assert any(line.startswith(shown) for line in proof.told)


GATHERED = """\
import evaluate
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

accelerator = Accelerator()
val_set = [{"labels": i % 2} for i in range(25)]
model = torch.nn.Linear(1, 2)
model, val_loader = accelerator.prepare(model, DataLoader(val_set, batch_size=4))
metric = evaluate.load("accuracy")

def run():
    model.eval()
    correct = total = 0
    for batch in val_loader:
        pred = model(**batch).logits.argmax(dim=-1)
        pred, labels = accelerator.gather((pred, batch["labels"]))
        correct += (pred == labels).sum().item()
        total += labels.shape[0]
    print(correct / total)

run()
"""
TOLD = (
    GATHERED.replace("        correct += (pred == labels).sum().item()\n", "")
    .replace("        total += labels.shape[0]\n", "        metric.add_batch(predictions=pred, references=labels)\n")
    .replace("    correct = total = 0\n", "")
    .replace("print(correct / total)", "accelerator.print(metric.compute())")
)


@pytest.mark.parametrize(
    ("program", "fault"),
    [
        pytest.param(GATHERED, "the original: `correct / total` is ", id="sums"),
        pytest.param(
            TOLD,
            "the original: `metric.compute()` is metric.compute(96 rows) on rank 0 of 2, in one process"
            " metric.compute(73 rows)",
            id="a metric that is told",
        ),
    ],
)
def test_a_gather_for_metrics_is_proven_by_the_metric_of_one_process(tmp_path: Path, program: str, fault: str) -> None:
    (tmp_path / "train.py").write_text(program)
    result = migrate([], config=Config(tmp_path, Options(sanitizer="off")), write=False, verify="yes", timeout=100)
    assert [change.codes[0] for change in result.changes] == ["SHD507"]
    (proof,) = result.proofs
    assert proof.verdict == "proven"
    assert proof.reasons[0].startswith("2 and 3 ranks get the metric of one process")
    assert any(line.startswith(fault) for line in proof.told), proof.told


# What a class of another library keeps is not followed, so that nothing puts it together from all ranks.
NOT_REDUCED = (
    PROGRAM.replace("import torch\n", "import kept\nimport torch\n", 1)
    .replace("    correct = total = 0\n", "    rows = kept.Rows()\n")
    .replace("        correct += (model(x).argmax(1) == label).sum().item()\n", "        rows.put(model(x), label)\n")
    .replace("        total += label.size(0)\n", "")
    .replace("return correct / total", "return rows.best()")
)


def test_a_loader_that_is_shared_out_does_not_prove_a_metric_that_becomes_a_part(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(NOT_REDUCED)
    config = Config(tmp_path, Options(sanitizer="off", unsafe=True))
    result = migrate([], config=config, write=False, verify="yes", timeout=100)
    assert [(c.codes[0], c.tier) for c in result.changes] == [("SHD302", "unsafe")]
    (proof,) = result.proofs
    assert proof.verdict == "unproven"
    assert proof.reasons[0] == (
        "its metric is not proven: the metric is not reduced across ranks: sharded, each rank's covers its own share"
        " only"
    )


def test_a_loader_whose_metric_is_said_to_be_exact_is_proven_as_it_is_read(tmp_path: Path) -> None:
    told = NOT_REDUCED.replace("batch_size=2)", "batch_size=2)  # shardfix: metric=exact")
    (tmp_path / "train.py").write_text(told)
    config = Config(tmp_path, Options(sanitizer="off"))
    result = migrate([], config=config, write=False, verify="yes", timeout=100)
    assert [(c.codes[0], c.tier) for c in result.changes] == [("SHD302", "safe")]
    assert [proof.verdict for proof in result.proofs] == ["proven"]
