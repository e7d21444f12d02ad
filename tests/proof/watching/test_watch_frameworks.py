"""Loaders that Lightning, Fabric and transformers' Trainer read go by the line at which the program made them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from shardfix.proof.watching.watch import Program, Run, watch

HEAD = """\
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset
data = TensorDataset(torch.arange(10.0).reshape(10, 1))
"""
LIGHTNING = """\
try:
    import lightning
    from lightning.fabric import Fabric
except ModuleNotFoundError:
    import pytorch_lightning as lightning
    from lightning_fabric import Fabric
"""


def needs_lightning() -> None:
    """As one package or as that of its Trainer alone; `.ci/run versions` fetches both."""
    if not any(map(importlib.util.find_spec, ("lightning", "pytorch_lightning"))):
        pytest.skip("neither lightning nor pytorch-lightning is installed; the versions group fetches them")


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str, **asked: object) -> Run:
    (folder / "either.py").write_text(LIGHTNING)
    (folder / "train.py").write_text(HEAD + body)
    monkeypatch.chdir(folder)
    done = watch(Program(("train.py",), timeout=300.0, **asked))  # type: ignore[arg-type]
    assert {one.end for one in done.watched.endings} <= {"returned", "stopped"}, done.watched.endings
    return done


def steps(done: Run, name: str) -> list[list[list[list[object]]]]:
    """By rank, pass and step."""
    observed = {one.loader: one for one in done.watched.loaders}[name]
    return [[[list(step) for step in one.batches] for one in reader.passes] for reader in observed.readers]


def sharder(done: Run, name: str) -> str:
    return {one.loader: one for one in done.watched.loaders}[name].readers[0].built.sharder


def test_what_fabric_makes_of_a_loader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_lightning()
    body = """\
from either import Fabric
fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
fabric.launch()
loader = fabric.setup_dataloaders(DataLoader(data, 2))
for epoch in range(2):
    for batch in loader:
        fabric.all_reduce(batch[0].sum())
for batch in DataLoader(data, 5):
    pass
"""
    done = run(tmp_path, monkeypatch, body, epochs=0)
    assert steps(done, "train.py:7") == [[[[0, 2], [4, 6], [8]]] * 2, [[[1, 3], [5, 7], [9]]] * 2]
    assert sharder(done, "train.py:7") == "fabric"
    assert steps(done, "train.py:11") == [[[[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]]] * 2


def test_what_lightnings_trainer_makes_of_a_loader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_lightning()
    body = """\
from either import lightning
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
    def training_step(self, batch, index):
        return self.layer(batch[0]).sum()
    def validation_step(self, batch, index):
        self.layer(batch[0])
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)
    def train_dataloader(self):
        return DataLoader(data, 2, shuffle=True)
quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
trainer = lightning.Trainer(max_epochs=9, accelerator="cpu", devices=2, strategy="ddp", **quiet)
trainer.fit(Model(), val_dataloaders=DataLoader(data, 2))
"""
    done = run(tmp_path, monkeypatch, body)
    evaluated = [[[0, 2], [4, 6], [8]], [[1, 3], [5, 7], [9]]]
    seen = steps(done, "train.py:19")
    assert [rank[-1] for rank in seen] == evaluated  # the first pass is Lightning's look at two steps
    assert sharder(done, "train.py:19") == "lightning"
    train = steps(done, "train.py:16")
    for number in range(2):
        assert sorted(item for rank in train for step in rank[number] for item in step) == list(range(10))
    assert train[0][0] != train[0][1]


def test_what_transformers_trainer_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    body = """\
from transformers import Trainer, TrainingArguments
class Samples(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        return {"x": torch.tensor([float(index)]), "labels": torch.tensor([1.0])}
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
    def forward(self, x, labels):
        found = self.layer(x)
        return {"loss": ((found - labels) ** 2).mean(), "logits": found}
class Own(Trainer):
    def get_eval_dataloader(self, eval_dataset=None):
        return DataLoader(self.eval_dataset, 4)
given = TrainingArguments("out", num_train_epochs=9, per_device_train_batch_size=2, eval_strategy="epoch",
                          save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True)
Own(Model(), given, train_dataset=Samples(), eval_dataset=Samples()).train()
"""
    done = run(tmp_path, monkeypatch, body)
    own = steps(done, "train.py:19")
    assert own == [[[[0, 1, 2, 3], [4, 5, 6, 7]]] * 2] * 2
    (train,) = [one.loader for one in done.watched.loaders if one.loader != "train.py:19"]
    assert train.startswith("train.py:22 (")
    for number in range(2):
        assert sorted(item for rank in steps(done, train) for step in rank[number] for item in step) == list(range(8))
    assert sharder(done, train) == "accelerate"
