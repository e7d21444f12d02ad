"""A prepared evaluation whose metric is told of one rank's samples is told of all, each once, as in one process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Options
from shardfix.config import Asked, load
from shardfix.engine import migrate
from shardfix.planning import make_plan

METRIC = '''\
"""As the library of this name: it keeps what it is told, and computes something of that."""


class Metric:
    def __init__(self):
        self.pairs = []

    def add_batch(self, predictions, references):
        self.pairs += [(str(p), str(r)) for p, r in zip(predictions, references, strict=True)]

    def compute(self):
        return {"pairs": self.pairs, "accuracy": sum(p == r for p, r in self.pairs) / len(self.pairs)}


def load(name):
    return Metric()
'''
PROGRAM = """\
import evaluate as metrics
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader


def spelled(numbers):
    words = []
    for n in numbers:
        words.append([int(n), "odd" if n % 2 else "even"])
    return words


def evaluate(size):
    accelerator = Accelerator()
    val_loader = DataLoader([(i, i % 5) for i in range(size)], batch_size=4)
    val_loader = accelerator.prepare(val_loader)
    metric = metrics.load("accuracy")
    for batch, other in val_loader:
{}
    return metric.compute()


if __name__ == "__main__":
    print(evaluate(9))
"""
LOOPS = {
    "tensors": ("preds = batch % 3", "labels = other % 2", "metric.add_batch(predictions=preds, references=labels)"),
    "lists": (
        "preds = spelled(batch)",
        "refs = spelled(batch // 2)",
        "metric.add_batch(predictions=preds, references=refs)",
    ),
    "a value and a list": ("preds = (batch % 3).tolist()", "metric.add_batch(predictions=preds, references=preds)"),
}


def program(lines: tuple[str, ...]) -> str:
    return PROGRAM.format("\n".join(f"        {line}" for line in lines))


@pytest.mark.parametrize("lines", LOOPS.values(), ids=LOOPS)
def test_every_rank_has_the_metric_of_one_process(tmp_path: Path, lines: tuple[str, ...]) -> None:
    (tmp_path / "evaluate.py").write_text(METRIC)
    (tmp_path / "train.py").write_text(program(lines))
    config = load(tmp_path, Asked(sanitizer="off"))
    migrate([tmp_path / "train.py"], config=config, write=True, allow_no_vcs=True, verify="no")

    assert "accelerator.gather_for_metrics(preds" in (tmp_path / "train.py").read_text()
    run = [sys.executable, str(Path(__file__).with_name("gathered_ranks.py")), str(tmp_path)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    alone = json.loads((tmp_path / "1-0.json").read_text())
    assert [len(given["pairs"]) for given in alone.values()] == [24, 13, 7, 25]
    for world in (2, 3):
        for rank in range(world):
            assert json.loads((tmp_path / f"{world}-{rank}.json").read_text()) == alone


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(("metric.add_batch(predictions=[batch.sum()], references=[1])",), id="one for a batch"),
        pytest.param(
            ("preds = batch % 3", "found.append(len(batch))", "metric.add_batch(predictions=preds, references=preds)"),
            id="something else is kept",
        ),
        pytest.param(
            ("preds = batch % 3", "if batch.sum() > 3:", "    metric.add_batch(predictions=preds, references=preds)"),
            id="for some batches",
        ),
        pytest.param(
            ("preds = parsed(batch)", "metric.add_batch(predictions=preds, references=preds)"), id="what is not seen"
        ),
    ],
)
def test_what_is_not_one_row_for_each_sample_is_reported_only(lines: tuple[str, ...]) -> None:
    text = program(lines).replace("    metric = ", "    found = []\n    metric = ")
    plan = make_plan(link({"train.py": parse("train.py", text)}), ("train.py",), Options(sanitizer="off"))
    assert plan.changes == ()
