"""A mean over the batches of one rank becomes that over the batches of all, beside what a prepared loop gathers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shardfix.config import Asked, load
from shardfix.engine import migrate

HEAD = """\
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

accelerator = Accelerator()
model = torch.nn.Identity().eval()
"""
ONE = """

def of_{}(size):
    val_loader = DataLoader([float(i) for i in range(size)], batch_size=4)
    val_loader = accelerator.prepare(val_loader)
    total_loss, steps, preds = 0.0, 0, []
    for i, x in enumerate(val_loader):
        # the mean of the batch's numbers
        loss = torch.nn.functional.l1_loss(model(x), torch.zeros_like(x))
        total_loss += loss.{}
        steps += 1
{}"""
ALL = """

def evaluate(size):
    return {}


if __name__ == "__main__":
    print(evaluate(9))
"""
GATHERED = "        preds += accelerator.gather(model(x)).tolist()\n"
LOOPS = {  # how a loss is added up, the rest of the loop and of the function, and the line that puts it together
    "counter": ("item()", GATHERED + "    return preds, total_loss / steps, steps\n", "total_loss, steps"),
    "length": ("item()", GATHERED + "    return preds, total_loss / len(val_loader)\n", "total_loss"),
    "last_step": ("item()", GATHERED + "    return preds, total_loss / (i + 1)\n", "total_loss"),
    "tensor": ("detach()", GATHERED + "    return preds, (total_loss / max(steps, 1)).item()\n", "total_loss, steps"),
    "nothing_gathered": (
        "item()",
        "    mean = total_loss / float(steps)\n    return preds, mean\n",
        "total_loss, steps",
    ),
}
PROGRAM = (
    HEAD
    + "".join(ONE.format(name, taken, rest) for name, (taken, rest, _) in LOOPS.items())
    + ALL.format("{" + ", ".join(f'"{name}": of_{name}(size)' for name in LOOPS) + "}")
)
# The means over the batches of all ranks, where the last of them are filled up with samples from the beginning.
FILLED = {
    # [0 1 2 3] [4 5 6 7] [8 9 10 11] [12 0 1 2], and on 3 ranks [3 4 5 6] [7 8 9 10] too
    (2, "13"): (1.5 + 5.5 + 9.5 + 3.75) / 4,
    (3, "13"): (1.5 + 5.5 + 9.5 + 3.75 + 4.5 + 8.5) / 6,
    # [0 1 2 3] [4 5 6 0], and on 3 ranks [1 2 3 4] too
    (2, "7"): (1.5 + 3.75) / 2,
    (3, "7"): (1.5 + 3.75 + 2.5) / 3,
}


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("means")
    (folder / "train.py").write_text(PROGRAM)
    config = load(folder, Asked(sanitizer="off", unsafe=True))
    migrate([folder / "train.py"], config=config, write=True, allow_no_vcs=True, verify="no")
    return folder


@pytest.fixture(scope="module")
def given(migrated: Path) -> dict[int, list[Any]]:
    return _run(migrated)


@pytest.mark.parametrize("name", LOOPS)
def test_a_line_behind_the_loop_puts_the_sums_together(migrated: Path, name: str) -> None:
    text = (migrated / "train.py").read_text()
    function = text[text.index(f"def of_{name}") :].split("\n\n\n")[0]

    assert f"    {LOOPS[name][2]} = reduced({LOOPS[name][2]})\n" in function
    assert ("accelerator.gather_for_metrics(" in function) == (name != "nothing_gathered")


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("name", LOOPS)
def test_every_rank_has_the_mean_over_all_ranks_batches(given: dict[int, list[Any]], name: str, world: int) -> None:
    (alone,) = given[1]
    for size in alone:
        first, *others = [rank[size][name] for rank in given[world]]
        assert others == [first] * (world - 1)
        assert first[0] == alone[size][name][0]  # what is gathered, each sample once
        if size == "24":  # full batches, as many on every rank: those of one process
            assert first[1:] == pytest.approx(alone[size][name][1:])
        if (world, size) in FILLED:
            assert first[1] == pytest.approx(FILLED[world, size])


def _run(folder: Path) -> dict[int, list[Any]]:
    """What each rank of one, two and three gives, by the number of ranks."""
    run = [sys.executable, str(Path(__file__).with_name("gathered_ranks.py")), str(folder)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return {w: [json.loads((folder / f"{w}-{r}.json").read_text()) for r in range(w)] for w in (1, 2, 3)}
