"""What one process goes on doing alone is written out; what waits for others, or is asked twice, lets nobody in."""

from __future__ import annotations

import pytest

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Options
from shardfix.planning import Plan, make_plan
from shardfix.rewrite.applier import apply

LOADER = "val_loader = unpadded(val_loader)\n"
HEAD = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from tqdm import tqdm

@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    n = 0
    for x, y in loader:
        n += (model(x).argmax(1) == y).sum().item()
    return n

dist.init_process_group()
rank = dist.get_rank()
net = nn.Linear(2, 2)
model = DistributedDataParallel(net)
val_loader = DataLoader(val_set, batch_size=4)
"""


def planned(text: str) -> Plan:
    found = make_plan(link({"train.py": parse("train.py", text)}), ("train.py",), Options(sanitizer="off", unsafe=True))
    assert found.problems == ()  # a file of which the analysis comes to no end is left alone too
    return found


def alone(*lines: str) -> str:
    """Lines that one process does."""
    return HEAD + "if rank == 0:\n" + "".join(f"    {line}\n" for line in lines)


EVALUATED = "acc = evaluate(model, val_loader)"
LOOP = (
    "    model.eval()\n    n = 0\n    for x, y in tqdm(val_loader):\n"
    "        n += (model(x).argmax(1) == y).sum().item()\n    print(n)\ntold()\n"
)
OPENED = (
    "@torch.no_grad()\ndef told():\n    model.eval()\n    n = 0\n    for x, y in tqdm(val_loader, disable=rank != 0):\n"
    "        n += (model(x).argmax(1) == y).sum().item()\n    n = reduced(n)\n"
    "    if rank == 0:\n        print(n)\ntold()\n"
)


@pytest.mark.parametrize(
    ("text", "after"),
    [
        pytest.param(
            alone(EVALUATED, "logger.info(acc)"), f"{EVALUATED}\nif rank == 0:\n    logger.info(acc)\n", id="a log"
        ),
        pytest.param(
            alone(EVALUATED, "print(dist.get_world_size())"),
            f"{EVALUATED}\nif rank == 0:\n    print(dist.get_world_size())\n",
            id="a number that is asked of the group",
        ),
        pytest.param(
            alone("print('a')", "print('b')", "print(evaluate(model, val_loader))"),
            "if rank == 0:\n    print('a')\n    print('b')\nmetric = evaluate(model, val_loader)\n"
            "if rank == 0:\n    print(metric)\n",
            id="what is shown before the evaluation",
        ),
        pytest.param(
            alone(EVALUATED, "for k in range(3):", "    print(k, acc)"),
            f"{EVALUATED}\nif rank == 0:\n    for k in range(3):\n        print(k, acc)\n",
            id="a loop that shows",
        ),
        pytest.param(
            HEAD + "def told():\n    if rank == 0:\n        print(evaluate(model, val_loader))\ntold()\n",
            "def told():\n    metric = evaluate(model, val_loader)\n    if rank == 0:\n        print(metric)\ntold()\n",
            id="a condition in a function",
        ),
        pytest.param(
            HEAD + "@torch.no_grad()\ndef told():\n    if rank != 0:\n        return\n" + LOOP,
            OPENED,
            id="others leave",
        ),
        pytest.param(
            HEAD
            + "@torch.no_grad()\ndef told():\n    if rank == 0:\n"
            + LOOP.replace("told()\n", "").replace("    ", "        ", 1).replace("\n    ", "\n        ")
            + "told()\n",
            OPENED,
            id="a loop in a condition",
        ),
    ],
)
def test_what_one_process_goes_on_doing(text: str, after: str) -> None:
    (change,) = planned(text).changes
    assert change.codes == ("SHD306",)
    edits = [e for e in change.edits if e.path == "train.py"]
    assert apply(text, edits, path="train.py").text.partition(LOADER)[2] == after


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param(alone(EVALUATED, "dist.new_group([0])"), "only the main process comes to", id="a new group"),
        pytest.param(alone(EVALUATED, "dist.send(acc, 1)"), "only the main process comes to", id="a message"),
        pytest.param(
            alone(EVALUATED, "dist.destroy_process_group()"), "only the main process comes to", id="the group's end"
        ),
        pytest.param(
            HEAD
            + "def told():\n    if rank == 0:\n        print(evaluate(model, val_loader))\nif rank == 0:\n    told()\n",
            "it stands in another condition on the rank, further up",
            id="asked twice",
        ),
    ],
)
def test_what_lets_nobody_in(text: str, why: str) -> None:
    found = planned(text)
    assert found.changes == ()
    assert why in found.reports[0].why
