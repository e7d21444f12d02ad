"""What is put into epoch loops of every form is run in two and three processes: the orders of the epochs differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardfix.analysis.model import Options
from shardfix.config import Config
from shardfix.engine import migrate

pytest.importorskip("torch")

HEAD = """\
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler

dist.init_process_group("gloo")
"""
PROGRAMS = {
    "attribute.py": """
class Trainer:
    def __init__(self, ds):
        self.loader = DataLoader(ds, sampler=DistributedSampler(ds))
    def train_epoch(self):
        for b in self.loader:
            b.backward()
    def fit(self):
        while self.epoch < 3:
            self.train_epoch()
            self.epoch += 1
Trainer(d).fit()
""",
    "rebuilt.py": """
for _ in range(3):
    sampler = DistributedSampler(d) if args.distributed else None
    loader = DataLoader(d, sampler=sampler, shuffle=sampler is None)
    for b in loader:
        b.backward()
""",
    "in_order_alone.py": """
sampler = DistributedSampler(d) if args.distributed else None
loader = DataLoader(d, shuffle=False, sampler=sampler, batch_size=4)
model.train()
for epoch in range(3):
    for b in loader:
        b.backward()
""",
    "handed.py": """
def train(e):
    loader = DataLoader(d, sampler=DistributedSampler(d))
    for b in loader:
        b.backward()
for epoch in range(3):
    train(epoch)
""",
    "refilled.py": """
loader = DataLoader(d, sampler=DistributedSampler(d))
batches = iter(loader)
epoch = 0
for step in range(99):
    try:
        b = next(batches)
    except StopIteration:
        epoch += 1
        batches = iter(loader)
        b = next(batches)
    b.backward()
""",
    "prefetched.py": """
class Prefetcher:
    def __init__(self, loader):
        self.loader = loader
    def __iter__(self):
        for b in self.loader:
            yield b.cuda()
batches = Prefetcher(DataLoader(d, sampler=DistributedSampler(d)))
for epoch in range(3):
    for b in batches:
        b.backward()
""",
    "twice.py": """
sampler = DistributedSampler(d)
loader = DataLoader(d, sampler=sampler)
for epoch in range(3):
    sampler.set_epoch(epoch)
    for b in loader:
        b.backward()
for epoch in range(3, 6):
    for b in loader:
        b.backward()
""",
    "apart.py": """
from engine import fit
loader = DataLoader(d, sampler=DistributedSampler(d))
fit(loader)
fit(lines)
""",
}
ENGINE = """
def fit(loader):
    for epoch in range(3):
        for b in loader:
            b.backward()
"""
STARTED = {
    "deepspeed.py": """
import deepspeed
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler
if args.local_rank != -1:
    deepspeed.init_distributed()
sampler = RandomSampler(d) if args.local_rank == -1 else DistributedSampler(d)
loader = DataLoader(d, sampler=sampler, batch_size=4)
engine, *_ = deepspeed.initialize(model=model)
for epoch in range(3):
    for b in loader:
        engine.backward(engine(b))
""",
    "horovod.py": """
import horovod.torch as hvd
from torch.utils.data import DataLoader, DistributedSampler
hvd.init()
sampler = DistributedSampler(d, num_replicas=hvd.size(), rank=hvd.rank())
loader = DataLoader(d, sampler=sampler, batch_size=4)
for epoch in range(3):
    for b in loader:
        model(b).backward()
""",
}


def test_a_program_that_torch_does_not_start_is_run_on_its_ranks_too(tmp_path: Path) -> None:
    for path, program in STARTED.items():
        (tmp_path / path).write_text(program, encoding="utf-8")

    result = migrate([], config=Config(tmp_path, Options(sanitizer="off")), write=False, verify="yes", timeout=100)

    assert {str(change.site.path): change.codes for change in result.changes} == dict.fromkeys(STARTED, ("SHD401",))
    assert [proof.verdict for proof in result.proofs] == ["proven", "proven"]


def test_each_form_of_loop_shows_one_order_before_and_several_after(tmp_path: Path) -> None:
    for path, program in PROGRAMS.items():
        (tmp_path / path).write_text(HEAD + program, encoding="utf-8")
    (tmp_path / "engine.py").write_text(ENGINE, encoding="utf-8")

    result = migrate([], config=Config(tmp_path, Options(sanitizer="off")), write=False, verify="yes", timeout=100)

    assert {str(change.site.path): change.codes for change in result.changes} == dict.fromkeys(PROGRAMS, ("SHD401",))
    assert [(proof.verdict, proof.reasons) for proof in result.proofs if proof.verdict != "proven"] == []
    assert len(result.proofs) == len(PROGRAMS)
