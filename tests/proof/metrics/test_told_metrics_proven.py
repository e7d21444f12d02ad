"""A metric that is told of the samples of all ranks is run for its proof, with what it is told on each of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from shardfix.codemods import _gathered_rows

from shardfix.analysis.model import Options
from shardfix.config import Config
from shardfix.engine import migrate
from shardfix.result import RunResult

PROGRAM = """\
import evaluate
from accelerate import Accelerator
from torch.utils.data import DataLoader


def run():
    accelerator = Accelerator()
    val_loader = DataLoader([(i, i % 5) for i in range(25)], batch_size=4)
    val_loader = accelerator.prepare(val_loader)
    metric = evaluate.load("accuracy")
    for batch, other in val_loader:
        preds = {}
        metric.add_batch(predictions=preds, references=preds)
    return metric.compute()


print(run())
"""


def migrated(folder: Path, preds: str) -> RunResult:
    (folder / "train.py").write_text(PROGRAM.format(preds))
    return migrate([], config=Config(folder, Options(sanitizer="off")), write=False, verify="yes", timeout=100)


@pytest.mark.parametrize("preds", ["batch % 3", "(batch % 3).tolist()"], ids=["tensors", "lists"])
def test_a_metric_that_every_rank_tells_of_all_samples_is_proven(tmp_path: Path, preds: str) -> None:
    result = migrated(tmp_path, preds)
    (proof,) = result.proofs
    assert [change.codes[0] for change in result.changes] == ["SHD508"]
    assert (proof.verdict, proof.reasons) == ("proven", ("2 and 3 ranks get the metric of one process",))
    assert any(
        line == "the original: `metric.compute()` is metric.compute(48 rows) on rank 0 of 2, in one process"
        " metric.compute(73 rows)"
        for line in proof.told
    )


def test_a_metric_that_is_not_told_of_all_samples_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def but_one(accelerator: str, name: str, *, objects: bool) -> str:
        return f"{name} = {accelerator}.gather_for_metrics({name})[1:]"

    monkeypatch.setattr(_gathered_rows, "_line", but_one)
    result = migrated(tmp_path, "batch % 3")
    assert result.changes == ()
    ((_, why),) = result.dropped
    assert "in one process metric.compute(7" in why
