"""A sharded evaluation is edited for its order, and reported for a metric that is one rank's or counts padding."""

from __future__ import annotations

import pytest
from plans import codes, edited, planned

from shardfix.analysis.model import Options

HEAD = (
    "import torch\nimport torch.distributed as dist\n"
    "from torch.utils.data import DataLoader, DistributedSampler, Subset\n"
    "dist.init_process_group()\n"
)
SHUFFLED = HEAD + "val_loader = DataLoader(val_set, sampler=DistributedSampler(val_set))\n"
LAST = HEAD + "val_loader = DataLoader(val_set, sampler=DistributedSampler(val_set, shuffle=False, drop_last=True))\n"
LOOP = "with torch.no_grad():\n    for b in val_loader:\n        "


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(SHUFFLED + LOOP + "print(b)\n", ["SHD501"], id="order alone"),
        pytest.param(SHUFFLED + LOOP + "n += b\n", ["SHD501", "SHD503"], id="not reduced"),
        pytest.param(SHUFFLED + LOOP + "n = n + b\n", ["SHD501", "SHD503"], id="not reduced, written out"),
        pytest.param(SHUFFLED + LOOP + "n += b\ndist.all_reduce(n)\n", ["SHD501", "SHD502"], id="padding is counted"),
        pytest.param(LAST + LOOP + "n += b\ndist.all_reduce(n)\n", [], id="no padding with drop_last"),
        pytest.param(LAST + LOOP + "n += b\n", ["SHD503"], id="not reduced with drop_last"),
        pytest.param(SHUFFLED + LOOP + "print(b)\n        if done(b): break\n", [], id="some batches, drawn at random"),
        pytest.param(
            SHUFFLED + LOOP + "for x in b:\n            if x: break\n", ["SHD501"], id="all batches, some of each"
        ),
        pytest.param(
            SHUFFLED + LOOP.replace("val_loader", "itertools.islice(val_loader, 9)") + "print(b)\n", [], id="cut off"
        ),
        pytest.param(
            SHUFFLED + "for epoch in range(3):\n    for b in val_loader:\n        trainer.step(b)\n",
            ["SHD916"],
            id="its name says evaluation, its loop trains",
        ),
    ],
)
def test_sharded(text: str, expected: list[str]) -> None:
    assert codes(text) == [expected]


def test_results_written_by_each_rank_are_a_consequence_of_the_order() -> None:
    (change,) = planned(SHUFFLED + LOOP + "out.write(b)\n").changes
    assert "line 8 still goes by the order of each rank's own part" in change.consequences


def test_the_rest_that_drop_last_leaves_is_read_whole_by_each_rank() -> None:
    rest = "Subset(val_set, range(len(val_loader.sampler) * world_size, len(val_set)))"
    text = LAST + LOOP + "n += b\ndist.all_reduce(n)\n" + f"rest_loader = DataLoader({rest})\n"
    text += "with torch.no_grad():\n    for b in rest_loader:\n        n += b\n"
    assert codes(text) == [[], []]
    assert codes(text.replace(" * world_size", "")) == [[], ["SHD906"]]


def test_drop_last_makes_a_sharded_evaluation_inexact() -> None:
    text = (
        HEAD
        + "hits = torch.zeros(len(val_set))\nval_loader = DataLoader(val_set)\n"
        + LOOP.replace("b in", "x, idx in")
    )
    text += "hits[idx] = x == 1\ndist.all_reduce(hits, op=dist.ReduceOp.MAX)\n"
    assert codes(text) == [["SHD302"]]
    assert codes(text.replace("(val_set)", "(val_set, drop_last=True)")) == [["SHD906"]]


def test_a_loader_that_one_process_builds_is_right_whatever_other_guards_there_are() -> None:
    text = HEAD + "if rank != -1:\n    pass\nelse:\n    val_loader = DataLoader(val_set)\n    with torch.no_grad():\n"
    text += "        for b in val_loader:\n            n += b\n"
    assert codes(text) == [[]]


def test_what_the_accelerator_gathers_of_an_unprepared_loader_keeps_its_padding() -> None:
    text = "from accelerate import Accelerator\n" + HEAD + "accelerator = Accelerator()\n"
    text += "val_loader = DataLoader(val_set)\n" + LOOP + "n = accelerator.gather_for_metrics(n)\n"
    assert ["SHD302"] not in codes(text)


ONE_RANK = HEAD + "sampler = {} if args.local_rank == -1 else DistributedSampler(val_set)\n"
ONE_RANK += (
    "val_loader = DataLoader(val_set, sampler=sampler)\n{}:\n    with torch.no_grad():\n        for b in val_loader:\n"
)
ONE_RANK += "            n += b\n"
UNSAFE = Options(sanitizer="off", unsafe=True)


@pytest.mark.parametrize(
    ("plain", "guard", "expected"),
    [
        pytest.param("torch.utils.data.SequentialSampler(val_set)", "if rank == 0", "SHD505", id="in order"),
        pytest.param("None", "if args.local_rank in [-1, 0]", "SHD505", id="none"),
        pytest.param("torch.utils.data.SequentialSampler(other)", "if rank == 0", "SHD706", id="of another dataset"),
        pytest.param("torch.utils.data.RandomSampler(val_set)", "if rank == 0", "SHD706", id="shuffled"),
        pytest.param("None", "if args.local_rank == -1", "", id="a run of one process only"),
    ],
)
def test_one_rank_that_evaluates_alone_reads_everything(plain: str, guard: str, expected: str) -> None:
    text = ONE_RANK.format(plain, guard)
    reported = expected.replace("505", "706")
    assert codes(text) == [[reported] if reported else []]
    assert codes(text, UNSAFE) == [[expected] if expected else []]
    if expected == "SHD505":
        assert edited(text, UNSAFE) == text.replace(
            f"{plain} if args.local_rank == -1 else DistributedSampler(val_set)", plain
        ).replace("DataLoader, DistributedSampler, Subset", "DataLoader, Subset")


def test_one_of_two_callers_that_lets_rank_0_in_is_enough_to_lose_samples() -> None:
    text = HEAD + "def check():\n    sampler = None if args.local_rank == -1 else DistributedSampler(val_set)\n"
    text += "    val_loader = DataLoader(val_set, sampler=sampler)\n    with torch.no_grad():\n"
    text += "        for b in val_loader:\n            n += b\nif args.local_rank == -1:\n    check()\n"
    assert codes(text) == [[]]
    assert codes(text + "if args.local_rank in [-1, 0]:\n    check()\n") == [["SHD706"]]


def test_a_sampler_that_is_read_elsewhere_too_is_left_to_one_rank() -> None:
    text = ONE_RANK.format("None", "if rank == 0") + "sampler.set_epoch(1)\n"
    assert codes(text, UNSAFE) == [["SHD706"]]


def test_a_guess_at_the_role_edits_nothing() -> None:
    text = HEAD + "x = DataLoader(val_set, sampler=DistributedSampler(val_set))\nRunner(x)\n"
    assert codes(text) == [["SHD501"]]
    guessed = text.replace("val_set", "ds").replace("Runner", "TextInferencer")
    assert codes(guessed) == [["SHD916"]]
    assert codes(guessed.replace("Runner", "TextInferencer").replace("(ds))", "(ds))  # shardfix: role=eval")) == [
        ["SHD501"]
    ]
