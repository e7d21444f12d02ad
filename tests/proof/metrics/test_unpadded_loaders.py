"""A migrated evaluation is proven as it is iterated: without its padding, whoever brings the function along."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardfix.analysis.model import Options
from shardfix.config import Config
from shardfix.engine import verify
from shardfix.proof.model import Proof

PROGRAM = """\
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler
from {source} import reduced, unpadded

dist.init_process_group("gloo")
val_set = [(torch.tensor([float(i)]), i % 2) for i in range(7)]
val_loader = {loader}
{more}

@torch.no_grad()
def evaluate(model, loader):
    total = 0
    for x, label in loader:
        total += label.size(0)
    return reduced(total)


print(evaluate(None, val_loader))
"""
LOADER = "DataLoader(val_set, batch_size=4, sampler=DistributedSampler(val_set, shuffle=False))"


def proof(folder: Path, source: str, loader: str, more: str) -> Proof:
    (folder / "train.py").write_text(PROGRAM.format(source=source, loader=loader, more=more))
    (found,) = verify([], config=Config(folder, Options()), timeout=100).proofs
    return found


@pytest.mark.parametrize("source", ["shardfix", "shardfix_evaluation"])
@pytest.mark.parametrize(
    ("loader", "more"),
    [(LOADER, "val_loader = unpadded(val_loader)\n"), (f"unpadded({LOADER})", "")],
    ids=["behind the construction", "around it"],
)
def test_a_loader_without_padding_is_proven_as_it_is_iterated(
    tmp_path: Path, source: str, loader: str, more: str
) -> None:
    found = proof(tmp_path, source, loader, more)
    assert (found.verdict, found.padded) == ("proven", 0)
    assert found.reasons[0] == "2 and 3 ranks read every sample once an epoch"


def test_a_loader_whose_padding_is_not_left_out_is_not(tmp_path: Path) -> None:
    assert proof(tmp_path, "shardfix", LOADER, "").padded == 1
