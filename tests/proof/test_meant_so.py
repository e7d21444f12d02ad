"""What a right program may do on purpose is never refuted, and its neighbour that is at fault always is: real ranks."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from shardfix.analysis.model import Options
from shardfix.config import Config
from shardfix.engine import verify
from shardfix.proof.model import Proof

pytest.importorskip("torch")

HEAD = """\
import os
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, SequentialSampler
"""
GROUP = 'dist.init_process_group("gloo")\n'
EVALUATES = """
def evaluate(model, loader):
    model.eval()
    right = 0
    with torch.no_grad():
        for x, y in loader:
            right += (model(x).argmax(1) == y).sum()
{}    return right
"""
READS_ALL = "2 ranks, 24 samples: every rank reads all 24 samples"
ALONE = f"{READS_ALL}; each rank evaluates all of it for itself: the number is the same, the work is done on every rank"
FROZEN = "2 ranks, 24 samples{}: epoch 1 repeats epoch 0's order: rank 0 reads [20, 3, 7, 13, 4, 19, ..] in both"
FACTORY = """
def make(data, several=True, shuffle=True):
    sampler = DistributedSampler(data, shuffle=shuffle) if several else None
    return DataLoader(data, batch_size=4, sampler=sampler)
"""
EPOCHS = """
for epoch in range(9):
{}    for batch in {}:
        model(batch).backward()
        optimizer.step()
"""
TOLD = "    if {}:\n        {}.sampler.set_epoch(epoch)\n"

# files -> verdict, cause, reason
PROGRAMS: dict[str, tuple[str, tuple[str, str, str]]] = {
    "each rank evaluates all of it for itself": (
        GROUP + EVALUATES.format("") + "evaluate(net, DataLoader(ds, batch_size=4, sampler=SequentialSampler(ds)))",
        ("unproven", "", ALONE),
    ),
    "an evaluation whose ranks are put together": (
        GROUP
        + EVALUATES.format("    dist.all_reduce(right)\n    right = right / dist.get_world_size()\n")
        + "evaluate(net, DataLoader(ds, batch_size=4, sampler=SequentialSampler(ds)))",
        (
            "unproven",
            "",
            f"{READS_ALL}; right where case.py:13 makes a mean of what the ranks count; the work is done N times",
        ),
    ),
    "an evaluation that is gathered, of a loader that nobody shares": (
        "from accelerate import Accelerator\naccelerator = Accelerator()\n"
        + EVALUATES.format("").replace("model(x)", "accelerator.gather(model(x))")
        + "evaluate(net, DataLoader(ds, batch_size=4))",
        ("refuted", "unsharded", READS_ALL),
    ),
    "training on all of it": (
        GROUP + "loader = DataLoader(ds, batch_size=4, shuffle=True)" + EPOCHS.format("", "loader"),
        ("refuted", "unsharded", READS_ALL),
    ),
    "an evaluation that shuffles unasked": (
        GROUP + EVALUATES.format("") + "evaluate(net, DataLoader(ds, batch_size=4, sampler=DistributedSampler(ds)))",
        ("refuted", "shuffled-eval", "2 ranks, 24 samples: rank 0 reads [20, 3, 7, 13, 4, 19, ..], out of order"),
    ),
    "a data set that is given the rank": (
        GROUP + "from lddl import Parquet\nds = Parquet(path, **{'local_rank': dist.get_rank()})\n"
        "loader = DataLoader(ds, batch_size=4)" + EPOCHS.format("", "loader"),
        (
            "unproven",
            "",
            f"{READS_ALL}; its dataset is made with the rank (case.py:7:23), and may be split by it",
        ),
    ),
    "told where it is the loader that is told": (
        GROUP
        + FACTORY
        + "if args.fast:\n    loader = Fast()\n    other = Fast()\nelse:\n    loader = make(ds)\n"
        + "    other = make(dv, shuffle=False)\n"
        + EPOCHS.format(TOLD.format("not args.fast", "loader"), "loader"),
        ("proven", "", "2 and 3 ranks read every sample once an epoch, 1 padded at 25 samples on 2 ranks"),
    ),
    "told where a condition that is not seen holds": (
        GROUP + "loader = DataLoader(ds, batch_size=4, sampler=DistributedSampler(ds))\n"
        "def run(epoch, train):\n    if train:\n        loader.sampler.set_epoch(epoch)\n    for batch in loader:\n"
        "        model(batch).backward()\n        optimizer.step()\n"
        "for epoch in range(9):\n    run(epoch, args.train)\n",
        ("unproven", "", FROZEN.format(", train=False") + "; whether it is told the epoch depends on `train`"),
    ),
    "trained on in order by one process, shuffled by several": (
        "several = int(os.environ.get('WORLD_SIZE', 1)) > 1\nif several:\n    dist.init_process_group('gloo')\n"
        "sampler = DistributedSampler(ds) if several else None\nloader = DataLoader(ds, batch_size=4, sampler=sampler)"
        + EPOCHS.format("    if several:\n        sampler.set_epoch(epoch)\n", "loader"),
        ("proven", "", "2 and 3 ranks read every sample once an epoch, 1 padded at 25 samples on 2 ranks"),
    ),
    "an evaluation that is asked to shuffle": (
        GROUP
        + "net.eval()\nwith torch.no_grad():\n"
        + "    for x in DataLoader(ds, batch_size=4, sampler=DistributedSampler(ds, shuffle=True)):\n"
        + "        show(net(x))\n",
        ("proven", "", "2 and 3 ranks read every sample once an epoch, 1 padded at 25 samples on 2 ranks"),
    ),
    "a function that makes two loaders, of which one is told": (
        GROUP
        + FACTORY.replace("several=True", "train").replace(
            "if several else None", "if train else SequentialSampler(data)"
        )
        + "loader = make(ds, True)\nother = make(dv, False)\n"
        + EPOCHS.format(TOLD.format("True", "loader"), "loader")
        + "    for batch in other:\n        print(batch)\n",
        (
            "unproven",
            "",
            "2 ranks, 24 samples, train=False: every rank reads all 24 samples; "
            "the program chooses that sampler there, by a condition that says nothing of processes",
        ),
    ),
    "told by an object that keeps what it was made for": (
        GROUP
        + "class Data:\n    def __init__(self, data, train):\n        self.train = train\n"
        + "        self.sampler = DistributedSampler(data, shuffle=train)\n"
        + "        self.loader = DataLoader(data, batch_size=4, sampler=self.sampler)\n"
        + "    def start(self, epoch):\n        if self.train:\n            self.sampler.set_epoch(epoch)\n"
        + "        return self.loader\n"
        + "train, val = Data(ds, True), Data(dv, False)\n"
        + EPOCHS.format("", "train.start(epoch)")
        + "    for batch in val.start(epoch):\n        print(batch)\n",
        ("proven", "", "2 and 3 ranks read every sample once an epoch, 1 padded at 25 samples on 2 ranks"),
    ),
    "read for what is not shown": (
        GROUP + "def loader():\n    return DataLoader(ds, batch_size=4, sampler=DistributedSampler(ds, shuffle=True))\n"
        "def retrieve(batches):\n    return [index(batch) for batch in batches]\n"
        "for epoch in range(9):\n    retrieve(loader())\n",
        ("unproven", "", FROZEN.format("") + "; whether it trains is not shown, and an evaluation may keep its order"),
    ),
    "told nowhere": (
        GROUP + "loader = DataLoader(ds, batch_size=4, sampler=DistributedSampler(ds))" + EPOCHS.format("", "loader"),
        ("refuted", "frozen-epoch", FROZEN.format("")),
    ),
    "told where another sampler is there": (
        GROUP + "train_sampler = other_sampler = None\nif dist.get_world_size() > 1:\n"
        "    train_sampler = DistributedSampler(ds)\n    other_sampler = DistributedSampler(dv)\n"
        "train = DataLoader(ds, sampler=train_sampler, shuffle=train_sampler is None)\n"
        "loader = DataLoader(dv, batch_size=4, sampler=other_sampler, shuffle=other_sampler is None)"
        + EPOCHS.format(
            "    if train_sampler is not None:\n"
            "        train_sampler.set_epoch(epoch)\n        other_sampler.set_epoch(epoch)\n",
            "loader",
        ),
        ("proven", "", "2 and 3 ranks read every sample once an epoch, 1 padded at 25 samples on 2 ranks"),
    ),
}
TEST = """
def test_shares():
    sampler = DistributedSampler(range(3), num_replicas=2, rank=0)
    for batch in DataLoader(range(3), sampler=sampler):
        assert batch
"""


def proven(root: Path, files: dict[str, str]) -> dict[str, Proof]:
    """The proof of the last loader of each file."""
    for path, text in files.items():
        (root / path).write_text(HEAD + textwrap.dedent(text), encoding="utf-8")
    found = verify([], config=Config(root, Options()), timeout=200)
    assert not found.problems
    return {proof.site.split(":")[0]: proof for proof in found.proofs}


def test_what_may_be_meant_is_left_open_and_its_neighbour_is_refuted(tmp_path: Path) -> None:
    names = {f"{'case' if not i else f'case{i}'}.py": name for i, name in enumerate(PROGRAMS)}
    proofs = proven(tmp_path, {path: PROGRAMS[name][0] for path, name in names.items()})
    found = {names[path]: (p.verdict, p.cause, p.reasons[0].replace(path, "case.py")) for path, p in proofs.items()}
    assert found == {name: expected for name, (_, expected) in PROGRAMS.items()}


def test_a_loader_that_a_test_makes_is_not_refuted(tmp_path: Path) -> None:
    (proof,) = proven(tmp_path, {"test_loader.py": "import pytest\n" + TEST}).values()
    assert (proof.verdict, proof.cause) == ("unproven", "")
    assert all(reason.endswith("; a test makes it, and may be made to see just that") for reason in proof.reasons)


def test_what_is_built_after_an_assertion_of_one_process_is_not_shared(tmp_path: Path) -> None:
    program = "several = multi_gpu\nif args.one:\n    assert not multi_gpu, 'one process only'\n"
    program += "    loader = DataLoader(ds, batch_size=4)\n    for batch in loader:\n        net(batch)\n"
    assert proven(tmp_path, {"case.py": GROUP + program}) == {}


def test_what_one_rank_alone_hands_to_an_evaluation_is_not_shared(tmp_path: Path) -> None:
    program = "loader = DataLoader(ds, batch_size=4)\nif dist.get_rank() == 0:\n    evaluate(loader)\n"
    assert proven(tmp_path, {"case.py": GROUP + program}) == {}
