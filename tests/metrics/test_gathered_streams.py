"""What gather_for_metrics makes of a stream: its rows are right, a mean loss once for each sample is not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """\
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, IterableDataset

accelerator = Accelerator()


class Numbers(IterableDataset):
    def __init__(self, size):
        self.size = size

    def __iter__(self):
        return (torch.tensor(i) for i in range(self.size))


def evaluate(size):
    loader = accelerator.prepare(DataLoader(Numbers(size), batch_size=4))
    rows, means = [], []
    for batch in loader:
        rows += accelerator.gather_for_metrics(batch).tolist()
        mean = batch.float().mean()
        means += accelerator.gather_for_metrics(mean.repeat(4)).tolist()
    return [rows, means]
"""


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Any]:
    folder = tmp_path_factory.mktemp("streams")
    (folder / "train.py").write_text(PROGRAM)
    run = [sys.executable, str(Path(__file__).with_name("gathered_ranks.py")), str(folder)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return {world: json.loads((folder / f"{world}-{world - 1}.json").read_text()) for world in (1, 2, 3)}


@pytest.mark.parametrize("world", [1, 2, 3])
def test_rows_of_a_stream_are_those_of_one_process(given: dict[int, Any], world: int) -> None:
    for size, (rows, _) in given[world].items():
        assert rows == list(range(int(size)))


def test_a_mean_loss_is_that_of_the_first_ranks_for_too_many_samples(given: dict[int, Any]) -> None:
    # the last five of 13: two ranks have [8 9 10] and [11 12 0], and the mean of the first counts for four of them
    assert given[2]["13"][1][8:] == [9.0] * 4 + [pytest.approx(23 / 3)]
    # the seven of 7: three ranks have [0 1 2], [3 4 5] and [6 0 1]
    assert given[3]["7"][1] == [1.0] * 4 + [4.0] * 3
