"""An evaluation that shuffles is proven as it is shared out: no order reaches its metric, so none is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardfix.config import Asked, load
from shardfix.engine import migrate

PROGRAM = """\
import numpy as np
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, RandomSampler

dist.init_process_group("gloo")
val_set = torch.arange(60)
val_loader = DataLoader(val_set, batch_size={})


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    preds, n = [], 0
    for x, y in loader:
        pred = model(x).argmax(1)
        preds.extend(pred.tolist())
        n += (pred == y).sum().item()
    return n, np.mean(preds)


print(evaluate(torch.nn.Linear(1, 2), val_loader))
"""


@pytest.mark.parametrize(
    "given",
    [
        pytest.param("4, shuffle=True", id="shuffle"),
        pytest.param("4, sampler=RandomSampler(val_set)", id="sampler"),
        pytest.param("9", id="last batches of uneven sizes"),
        pytest.param("int(8 / dist.get_world_size())", id="a size divided by the ranks"),
    ],
)
def test_a_shuffled_evaluation_is_proven(tmp_path: Path, given: str) -> None:
    (tmp_path / "train.py").write_text(PROGRAM.format(given))

    result = migrate(
        [tmp_path], config=load(tmp_path, Asked(sanitizer="off")), write=True, allow_no_vcs=True, verify="yes"
    )

    (proof,) = result.proofs
    assert (proof.verdict, proof.reasons[0][:44]) == ("proven", "2 and 3 ranks evaluate every sample once and")
    assert "val_loader = unpadded(val_loader)\n" in (tmp_path / "train.py").read_text()
