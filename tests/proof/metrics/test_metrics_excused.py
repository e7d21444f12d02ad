"""A metric of code as it stands that is another one only where samples are read twice is left open where that is seen
not to be so in the program, or to be what it means to do; never refuted, and never proven."""

from __future__ import annotations

import ast

import pytest

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.metrics.literal_length import literal_length
from shardfix.analysis.model import Options
from shardfix.config import Config
from shardfix.engine import verify
from shardfix.proof.model import Proof

DDP = """\
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, Subset

dist.init_process_group("gloo")
whole = [(torch.tensor([float(i)]), i % 2) for i in range(25)]
val_set = Subset(whole, range(SIZE))
val_loader = DataLoader(val_set, batch_size=4, sampler=DistributedSampler(val_set, shuffle=False))

@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    correct = total = 0
    for x, label in loader:
        correct += (model(x).argmax(1) == label).sum().item()
        total += label.size(0)
    both = torch.tensor([correct, total])
    dist.all_reduce(both)
    return (both[0] / both[1]).item()

print(evaluate(torch.nn.Linear(1, 2), val_loader))
"""
REPEATED = """\
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

accelerator = Accelerator()
whole = [(torch.tensor([float(i)]), i % 2) for i in range(25)]
model = torch.nn.Linear(1, 2)
val_loader = accelerator.prepare(DataLoader(whole, batch_size=4))

@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    losses = []
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x), y)
        losses.append(accelerator.GATHER(loss.repeat(4)))
    return torch.cat(losses).mean().item()

accelerator.print(evaluate(model, val_loader))
"""
PROGRAMS = {
    "divides": DDP.replace("SIZE", "24"),
    "by_two_only": DDP.replace("SIZE", "22"),
    "not_reduced": DDP.replace("SIZE", "24").replace("    dist.all_reduce(both)\n", ""),
    "repeated": REPEATED.replace("GATHER", "gather_for_metrics"),
}


@pytest.fixture(scope="module")
def proofs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Proof]:
    folder = tmp_path_factory.mktemp("excused")
    for name, text in PROGRAMS.items():
        (folder / f"{name}.py").write_text(text)
    found = verify([], config=Config(folder, Options()), timeout=300).proofs
    return {proof.site.partition(".py")[0]: proof for proof in found}


def test_a_number_of_samples_that_the_ranks_divide_is_told_beside_the_value_of_another_number(
    proofs: dict[str, Proof],
) -> None:
    assert proofs["divides"].verdict == "unproven"
    assert (
        "1 sample is read twice; the 24 samples that the program says divide evenly among 2 and 3 ranks, which read"
        " none twice; on a number of ranks that does not divide them it would be another value"
    ) in proofs["divides"].reasons[-1]


@pytest.mark.parametrize("name", ["by_two_only", "not_reduced"])
def test_a_number_of_samples_excuses_nothing_else(proofs: dict[str, Proof], name: str) -> None:
    assert (proofs[name].verdict, proofs[name].cause) == ("refuted", "other-metric")


def test_a_mean_that_is_gathered_once_for_each_sample_is_told_of_and_how_to_have_it_exactly(
    proofs: dict[str, Proof],
) -> None:
    proof = proofs["repeated"]
    assert proof.verdict == "unproven"
    assert (
        "22 samples are read twice; `loss.repeat(4)` gives each sample of a batch the mean of all" in proof.reasons[-1]
    )
    assert proof.reasons[-1].endswith("gather the loss of each sample (reduction='none') to have it exactly")


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("Subset(whole, range(24))", 24),
        ("Subset(whole, indices=list(range(4, 24, 2)))", 10),
        ("Subset(whole, [1, 2, 3])", 3),
        ("range(7)", 7),
        ("part", 5),
        ("Subset(whole, range(n))", None),
        ("Subset(whole, range(len(whole)))", None),
        ("[*whole, 1]", None),
        ("either", None),
        ("whole", None),
    ],
)
def test_the_number_of_samples_is_read_where_it_is_written(text: str, length: int | None) -> None:
    head = "from torch.utils.data import Subset\npart = Subset(whole, range(5))\neither = range(5)\n"
    module = parse("train.py", f"{head}if some:\n    either = range(6)\nused({text})\n")
    link({"train.py": module})
    (call,) = [n for n in ast.walk(module.tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == "used"]
    assert literal_length(module, call.args[0]) == length
