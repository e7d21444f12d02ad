"""Run the command line as a user does: a process of its own, in a project under git."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

# What the user's shell may have set and these tests decide.
_DECIDED = ("NO_COLOR", "FORCE_COLOR", "SHARDFIX_DEBUG", "PYTHONPATH", "TERM")

SHARDED_TWICE = """\
from accelerate import Accelerator
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

accelerator = Accelerator()
dataset = list(range(16))
loader = DataLoader(dataset, batch_size=2, sampler=DistributedSampler(dataset, shuffle=False))
loader = accelerator.prepare(loader)
for batch in loader:
    pass
"""
RIGHT = """\
from accelerate import Accelerator
from torch.utils.data import DataLoader

accelerator = Accelerator()
dataset = list(range(16))
loader = DataLoader(dataset, batch_size=2)
loader = accelerator.prepare(loader)
for batch in loader:
    pass
"""
REFUSED = """\
from torch.utils.data import DataLoader
import torch.distributed as dist


def make(dataset, sampler):
    dist.init_process_group("gloo")
    return DataLoader(dataset, batch_size=2, sampler=sampler)
"""
THEIRS = """\
import lightning as L
from torch.utils.data import DataLoader, SequentialSampler


class Data(L.LightningDataModule):
    def train_dataloader(self):
        return DataLoader(self.dataset, sampler=SequentialSampler(self.dataset))
"""
UNPARSABLE = "from torch.utils.data import DataLoader\nloader = DataLoader(\n"


def shardfix(
    *args: str, cwd: Path, env: Mapping[str, str] | None = None, input: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run `shardfix` and wait for its end."""
    return subprocess.run(
        [sys.executable, "-m", "shardfix", *args],
        cwd=cwd,
        env=environment(env),
        input=input,
        capture_output=True,
        timeout=300,
    )


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    return {**{name: value for name, value in os.environ.items() if name not in _DECIDED}, **(more or {})}


def project(folder: Path, **files: str) -> Path:
    """A committed project of Python files (``train="..."`` is train.py)."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, "utf-8")
    git("init", "-q", cwd=folder)
    git("add", ".", cwd=folder)
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "all", "--allow-empty", cwd=folder)
    return folder


def git(*args: str, cwd: Path, input: bytes = b"") -> bytes:
    done = subprocess.run(["git", *args], cwd=cwd, input=input, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout
