"""Samplers that a function makes for several loaders: each loader is judged by what its call gives, none is edited."""

from __future__ import annotations

import pytest
from plans import codes, edited, planned

from shardfix.analysis.model import Options

HEAD = (
    "import torch.distributed as dist\nfrom torch.utils.data import DataLoader, DistributedSampler\n"
    "dist.init_process_group('gloo')\n"
)
MAKE = "def make(dataset{}):\n    return DistributedSampler(dataset{})\n"
TWO = (
    "train_sampler = make(train_set)\ntrain_loader = DataLoader(train_set, sampler=train_sampler)\n"
    "val_sampler = make(val_set{})\nval_loader = DataLoader(val_set, sampler=val_sampler)\n"
    "for epoch in range(3):\n    {}for x in train_loader:\n        model(x).backward()\n"
    "    with torch.no_grad():\n        for x in val_loader:\n            print(model(x))\n"
)
TELL = "train_sampler.set_epoch(epoch)\n    "


def test_an_evaluation_is_shuffled_by_a_function_that_makes_the_sampler_of_training_too() -> None:
    text = HEAD + MAKE.format("", "") + TWO.format("", TELL)
    assert codes(text) == [[], ["SHD501"]]
    (finding,) = planned(text).reports[1].findings
    assert finding.message == (
        "evaluation in shuffled order: make() makes its sampler as it makes those of other loaders"
    )
    assert planned(text, Options(unsafe=True)).changes == ()


def test_an_evaluation_is_put_in_order_by_what_the_function_is_given() -> None:
    text = HEAD + MAKE.format(", shuffle=True", ", shuffle=shuffle") + TWO.format("", TELL)
    assert codes(text) == [[], ["SHD501"]]
    assert edited(text) == text.replace("make(val_set)", "make(val_set, shuffle=False)")


@pytest.mark.parametrize("given", [", shuffle=True", ", False", ", shuffle=args.shuffle", ", **more"])
def test_an_evaluation_whose_order_is_said_is_left_alone(given: str) -> None:
    text = HEAD + MAKE.format(", shuffle=True", ", shuffle=shuffle") + TWO.format(given, TELL)
    assert edited(text) == text
    assert "SHD501" not in codes(text)[1]


def test_an_evaluation_that_a_function_puts_in_order_unasked_is_left_alone() -> None:
    text = HEAD + MAKE.format(", shuffle=False", ", shuffle=shuffle") + TWO.format("", TELL)
    assert edited(text) == text


def test_a_training_whose_sampler_nobody_tells_is_told_in_its_loop() -> None:
    text = HEAD + MAKE.format(", shuffle=True", ", shuffle=shuffle") + TWO.format(", False", "")
    assert codes(text) == [["SHD401"], []]
    assert edited(text) == HEAD + MAKE.format(", shuffle=True", ", shuffle=shuffle") + TWO.format(", False", TELL)


def test_the_other_loaders_sampler_tells_this_one_nothing() -> None:
    told = TELL.replace("train_sampler", "val_sampler")
    text = HEAD + MAKE.format(", shuffle=True", ", shuffle=shuffle") + TWO.format(", False", told)
    assert codes(text)[0] == ["SHD401"]


def test_a_sampler_of_a_function_is_not_taken_out_of_it() -> None:
    text = (
        "from accelerate import Accelerator\nfrom torch.utils.data import DataLoader, DistributedSampler\n"
        + MAKE.format("", "")
        + "accelerator = Accelerator()\n"
        "a = accelerator.prepare(DataLoader(d, sampler=make(d)))\nb = DataLoader(e, sampler=make(e))\n"
        "for x in a:\n    model(x).backward()\n"
    )
    found = planned(text, Options(unsafe=True))
    assert found.changes == ()
    assert [f.code for f in found.reports[0].findings] == ["SHD201"]
