"""Epochs that are counted beside other things, and counted on in the loop, are told at its top; others are not."""

from __future__ import annotations

import pytest
from plans import codes, edited, planned

HEAD = (
    "import torch.distributed as dist\nfrom torch.utils.data import DataLoader, DistributedSampler\n"
    "dist.init_process_group('gloo')\n"
    "sampler = DistributedSampler(train_set)\nloader = DataLoader(train_set, sampler=sampler)\n"
)
BODY = "for x in loader:\n        model(x).backward()\n"
TELL = "sampler.set_epoch(epoch)\n    "


@pytest.mark.parametrize(
    "loop",
    [
        pytest.param("for epoch, seed in enumerate(seeds[start:], start):\n    ", id="enumerated"),
        pytest.param("for epoch, seed in tqdm(enumerate(seeds)):\n    ", id="enumerated in a bar"),
        pytest.param("for epoch, rate in zip(range(start, n), rates):\n    ", id="beside others"),
        pytest.param("for rate, epoch in zip(rates, count()):\n    ", id="beside others, last"),
    ],
)
def test_epochs_that_are_counted_beside_other_items(loop: str) -> None:
    assert edited(HEAD + loop + BODY) == HEAD + loop + TELL + BODY
    assert codes(HEAD + loop + TELL + BODY) == [[]]


@pytest.mark.parametrize(
    ("loop", "code"),
    [
        pytest.param("for i, seed in enumerate(seeds):\n    ", "SHD909", id="a number that is not called an epoch's"),
        pytest.param("for epoch, rate in zip(epochs, rates):\n    ", "SHD909", id="items that are not seen"),
        pytest.param("for (epoch, seed), x in zip(range(n), rates):\n    ", "SHD909", id="a part of an item"),
        pytest.param("for epoch in epochs:\n    ", "SHD909", id="a list that is not seen"),
    ],
)
def test_what_is_not_seen_to_count_epochs(loop: str, code: str) -> None:
    assert codes(HEAD + loop + BODY) == [[code]]


def test_an_epoch_that_is_counted_on_is_told_before_that() -> None:
    loop = "for epoch in range(n):\n    {}epoch += 1\n    "
    assert edited(HEAD + loop.format("") + BODY) == HEAD + loop.format(TELL) + BODY


@pytest.mark.parametrize("bound", ["epoch += start", "epoch = epochs[epoch]", "epoch = epoch + start"])
def test_an_epoch_that_gets_another_value_in_the_loop_is_not_told(bound: str) -> None:
    assert codes(HEAD + f"for epoch in range(n):\n    {bound}\n    " + BODY) == [["SHD910"]]


def test_epochs_that_an_outer_loop_counts_anew_are_said_to_repeat() -> None:
    text = HEAD + "for cycle in range(2):\n    for epoch in range(n):\n        " + BODY.replace("\n    ", "\n        ")
    (change,) = planned(text).changes
    assert change.consequences[1] == (
        "each pass of the loop of line 6 counts the epochs anew, and has the same orders again"
    )


@pytest.mark.parametrize(
    ("test", "told"),
    [
        pytest.param("isinstance(sampler, RandomSampler)", False, id="of another class"),
        pytest.param("isinstance(sampler, (RandomSampler, SequentialSampler)) and args.a", False, id="of others"),
        pytest.param("isinstance(sampler, (RandomSampler, DistributedSampler))", True, id="of it or another"),
        pytest.param("isinstance(sampler, Mine)", True, id="of a class that is not seen"),
        pytest.param("isinstance(loader, RandomSampler)", True, id="of something else"),
        pytest.param("isinstance(sampler, RandomSampler) or args.a", True, id="or something else"),
        pytest.param("not isinstance(sampler, RandomSampler)", True, id="not of another class"),
    ],
)
def test_a_sampler_that_is_told_only_if_it_is_another_is_not_told(test: str, told: bool) -> None:
    head = HEAD.replace("import DataLoader,", "import DataLoader, RandomSampler, SequentialSampler,")
    loop = f"for epoch in range(n):\n    if {test}:\n        sampler.set_epoch(epoch)\n    "
    assert codes(head + loop + BODY) == [[] if told else ["SHD401"]]
    if not told:
        begin, end = loop.split("    if ", 1)
        assert edited(head + loop + BODY) == head + begin + "    " + TELL + "if " + end + BODY


def test_a_sampler_that_is_told_unless_it_is_another_is_told() -> None:
    head = HEAD.replace("import DataLoader,", "import DataLoader, RandomSampler,")
    other = (
        "    if isinstance(sampler, RandomSampler):\n        pass\n    else:\n        sampler.set_epoch(epoch)\n    "
    )
    assert codes(head + "for epoch in range(n):\n" + other + BODY) == [[]]
