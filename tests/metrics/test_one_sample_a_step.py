"""Evaluations of one sample a step: ranks make other numbers of steps, and each has the metric of one process."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from shape_ranks import CASES, WORLDS
from shapes import DATA, EVALUATE, HEAD, SHARDED

from shardfix.config import Asked, load
from shardfix.engine import migrate

DDP = "from torch.nn.parallel import DistributedDataParallel as DDP\n"
SAMPLER = "from torch.utils.data import DistributedSampler\n"
NORMED = """

def make_model():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))
    for _ in range(3):
        net(torch.randn(6, 3))
    if dist.is_initialized():
        net = DDP(net)
    return net.eval()

"""
OWN = """

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])
        self.head = nn.Linear(3, 4)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.head(x)


def make_model():
    torch.manual_seed(0)
    return Net().eval()


def right(out, y):
    return (out.argmax(1) == y).sum().item()

"""
COUNTS = """
@torch.no_grad()
def validate(model, val_loader):
    correct = seen = 0
    loss = 0.0
    for x, y in val_loader:
        out = model(x)
        loss += F.cross_entropy(out, y).item()
        correct += (out.argmax(1) == y).sum().item()
        seen += 1
    return loss / len(val_loader), correct, seen
"""
OF_ONE = """
@torch.no_grad()
def validate(model, val_loader):
    preds, hits, worst = [], 0, 0.0
    for x, y in val_loader:
        pred = model(x)[0].argmax().item()
        preds.append(pred)
        if pred == y[0].item():
            hits += 1
        worst += (x[0] - x.mean(0)).abs().max().item() + x.std().item()
    return preds, hits, worst
"""
LOSSES = """
def validate(model, val_loader):
    losses = []
    with torch.inference_mode():
        for i, (x, y) in enumerate(val_loader):
            losses.append(F.cross_entropy(model(x), y).item())
    return losses, float(np.mean(losses))
"""
HELPED = """
@torch.no_grad()
def validate(model, val_loader):
    correct = 0
    for x, y in val_loader:
        correct += right(model(x), y)
    return correct
"""
# name: the program, and what the change puts in behind the loop.
PROGRAMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "sums, a mean over the steps and a count of them": (
        HEAD + DATA + COUNTS + EVALUATE,
        ("loss, correct, seen = reduced(loss, correct, seen)",),
    ),
    "a model with buffers in DistributedDataParallel, without gradients": (
        HEAD + DDP + DATA + NORMED + COUNTS + EVALUATE,
        ("loss, correct, seen = reduced(loss, correct, seen)",),
    ),
    "what is made of the one sample of a batch": (
        HEAD + DATA + OF_ONE + EVALUATE,
        ("hits, worst = reduced(hits, worst)", "preds = in_order(preds, val_loader)"),
    ),
    "one value for each step is one for each sample": (
        HEAD + DATA + LOSSES + EVALUATE,
        ("losses = in_order(losses, val_loader)",),
    ),
    "a model and a function of the project": (HEAD + DATA + OWN + HELPED + EVALUATE, ("correct = reduced(correct)",)),
    "sharded, and not put together": (HEAD + SAMPLER + DATA + HELPED + OWN + SHARDED, ("correct = reduced(correct)",)),
    "a batch size that is written out": (
        HEAD + DATA + OWN + HELPED + EVALUATE.replace("batch_size=batch_size", "batch_size=1, num_workers=0"),
        ("correct = reduced(correct)",),
    ),
}
NAMES = list(PROGRAMS)


def single(text: str) -> str:
    return text.replace("DataLoader(val_set, batch_size=batch_size", "DataLoader(val_set")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs before and after, and what each rank made of them."""
    folder = tmp_path_factory.mktemp("single")
    for number, (text, _) in enumerate(PROGRAMS.values()):
        before, after = folder / str(number) / "before", folder / str(number) / "after"
        for place in (before, after):
            place.mkdir(parents=True)
            (place / "train.py").write_text(single(text))
        migrate([after], config=load(after, Asked(sanitizer="off")), write=True, allow_no_vcs=True, verify="no")
    program = [sys.executable, str(Path(__file__).with_name("shape_ranks.py")), str(folder)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def results(folder: Path, world: int, name: str, variant: str) -> list[dict[tuple[int, int], dict[str, Any]]]:
    key = (str(NAMES.index(name)), variant)
    return [pickle.loads((folder / f"{world}-{r}.pickle").read_bytes())[key] for r in range(max(world, 1))]


def close(value: Any) -> Any:
    if isinstance(value, list):
        return [close(item) for item in value]
    return pytest.approx(value, rel=1e-5, abs=1e-6) if isinstance(value, float) else value


@pytest.mark.parametrize("name", NAMES)
def test_just_these_lines_are_added(folder: Path, name: str) -> None:
    lines = [line.strip() for line in (folder / str(NAMES.index(name)) / "after" / "train.py").read_text().splitlines()]

    assert [line for line in lines if "reduced(" in line or "in_order(" in line] == [
        *PROGRAMS[name][1],
        *(["return loss / reduced(len(val_loader)), correct, seen"] if "seen" in PROGRAMS[name][0] else []),
    ]
    assert lines.count("val_loader = unpadded(val_loader, uneven=True)") == 1


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", NAMES)
def test_every_rank_gives_the_metric_of_one_process(folder: Path, name: str, world: int) -> None:
    (alone,) = results(folder, 0, name, "before")
    ranks = results(folder, world, name, "after")

    for case in CASES:
        assert [rank[case]["error"] for rank in ranks] == [""] * len(ranks)
        assert sorted(i for rank in ranks for i in rank[case]["read"]) == list(range(case[0]))
        for rank in ranks:
            assert rank[case]["value"] == close(alone[case]["value"]), case
        steps = [len(rank[case]["read"]) for rank in ranks]
        assert max(steps) - min(steps) == (1 if case[0] % len(ranks) else 0)
