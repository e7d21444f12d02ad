"""What a program combines in part, or in each step, is run after its edit: every rank has the metric of one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardfix.analysis.model import Options
from shardfix.config import Config
from shardfix.engine import migrate

pytest.importorskip("torch")

HEAD = """\
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.utils.data import DataLoader, DistributedSampler


class AverageMeter:
    def __init__(self):
        self.sum = self.count = self.avg = 0

    def update(self, val, n=1):
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count


def reduce_mean(t, n):
    rt = t.clone()
    dist.all_reduce(rt, op=dist.ReduceOp.SUM)
    rt /= n
    return rt


dist.init_process_group("gloo")
loader = DataLoader(d, batch_size=4, sampler=DistributedSampler(d, shuffle=False))
model.eval()
"""
PROGRAMS = {
    "half.py": """
loss, correct = torch.zeros(1), 0
with torch.no_grad():
    for x, y in loader:
        loss += F.cross_entropy(model(x), y, reduction="sum")
        correct += (model(x).argmax(1) == y).sum().item()
dist.all_reduce(loss)
print(loss / len(d), correct / len(d))
""",
    "each_step.py": """
losses = AverageMeter()
with torch.no_grad():
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        loss = reduce_mean(loss, dist.get_world_size())
        losses.update(loss.item(), y.size(0))
print(losses.avg)
""",
}


def test_every_rank_has_the_metric_of_one_process(tmp_path: Path) -> None:
    for path, program in PROGRAMS.items():
        (tmp_path / path).write_text(HEAD + program, encoding="utf-8")

    result = migrate([], config=Config(tmp_path, Options(sanitizer="off")), write=False, verify="yes", timeout=100)

    assert {change.site.path: (change.codes, change.tier) for change in result.changes} == dict.fromkeys(
        PROGRAMS, (("SHD506",), "safe")
    )
    assert [proof.verdict for proof in result.proofs] == ["proven", "proven"]
    told = "2 and 3 ranks evaluate every sample once and get the metric of one process"
    assert all(told in " ".join(proof.reasons) for proof in result.proofs)
