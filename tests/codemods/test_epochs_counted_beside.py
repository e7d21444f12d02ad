"""Epochs that are counted beside other things, and counted on in the loop, are told at its top; others are not."""

from __future__ import annotations

import pytest
from plans import codes, edited

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
