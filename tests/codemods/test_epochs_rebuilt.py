"""A loader that is built anew, refilled or read in several loops is told the epoch of each pass, or says why not."""

from __future__ import annotations

import pytest
from plans import codes, edited, planned

HEAD = "import torch.distributed as dist\nfrom torch.utils.data import DataLoader, DistributedSampler\n"
GROUP = HEAD + "dist.init_process_group()\n"
BATCHES = "    for b in loader:\n        b.backward()\n"
MAKE = "def make():\n    return DataLoader(d, sampler=DistributedSampler(d))\n"
TRAIN = "def train({}):\n    loader = DataLoader(d, sampler=DistributedSampler(d))\n{}" + BATCHES


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "for epoch in range(3):\n    s = DistributedSampler(d)\n    loader = DataLoader(d, sampler=s)\n" + BATCHES,
            "for epoch in range(3):\n    s = DistributedSampler(d)\n    loader = DataLoader(d, sampler=s)\n"
            "    s.set_epoch(epoch)\n" + BATCHES,
            id="by its variable",
        ),
        pytest.param(
            "for _ in range(3):\n    loader = DataLoader(d, sampler=DistributedSampler(d))\n" + BATCHES,
            "for epoch in range(3):\n    loader = DataLoader(d, sampler=DistributedSampler(d))\n"
            "    loader.sampler.set_epoch(epoch)\n" + BATCHES,
            id="by the loader",
        ),
        pytest.param(
            "for e in range(3):\n    s = DistributedSampler(d) if n else None\n    loader = DataLoader(d, sampler=s)\n"
            + BATCHES,
            "for e in range(3):\n    s = DistributedSampler(d) if n else None\n    loader = DataLoader(d, sampler=s)\n"
            "    if s is not None:\n        s.set_epoch(e)\n" + BATCHES,
            id="where there is one",
        ),
        pytest.param(
            MAKE + "for epoch in range(3):\n    loader = make()\n" + BATCHES,
            MAKE + "for epoch in range(3):\n    loader = make()\n    loader.sampler.set_epoch(epoch)\n" + BATCHES,
            id="by a function that the loop calls",
        ),
        pytest.param(
            TRAIN.format("epoch", "") + "for e in range(3):\n    train(e)\n",
            TRAIN.format("epoch", "    loader.sampler.set_epoch(epoch)\n") + "for e in range(3):\n    train(e)\n",
            id="where the function that builds it is given the epoch",
        ),
    ],
)
def test_a_loader_built_in_each_epoch_is_told_behind_its_construction(before: str, after: str) -> None:
    assert edited(GROUP + before) == GROUP + after


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            TRAIN.format("", "") + "for e in range(3):\n    train()\n",
            "train() builds the loader anew in each epoch; in line 9 it is not given the epoch",
            id="the epoch stays outside",
        ),
        pytest.param(
            "for e in range(3):\n    for b in DataLoader(d, sampler=DistributedSampler(d)):\n        b.backward()\n",
            "the loader is built where it is read, anew in each epoch",
            id="it has no name",
        ),
    ],
)
def test_a_loader_built_in_each_epoch_that_can_not_be_told(text: str, message: str) -> None:
    (finding,) = planned(GROUP + text).reports[0].findings
    assert (finding.code, finding.message) == ("SHD924", message)


def test_a_sampler_told_before_the_epoch_builds_its_own_stays_at_zero() -> None:
    text = (
        GROUP + "s = DistributedSampler(d)\nfor e in range(3):\n    s.set_epoch(e)\n    s = DistributedSampler(d)\n"
        "    loader = DataLoader(d, sampler=s)\n" + BATCHES
    )
    assert codes(text) == [["SHD403"]]


LOADER = "s = DistributedSampler(d)\nloader = DataLoader(d, sampler=s)\n"
REFILLED = (
    LOADER + "it = iter(loader)\n{}for step in range(99):\n    try:\n        b = next(it)\n"
    "    except StopIteration:\n{}        it = iter(loader)\n        b = next(it)\n    b.backward()\n"
)


def test_what_counts_the_passes_is_told_as_the_next_one_starts() -> None:
    counted = REFILLED.format("n = 0\n", "        n += 1\n")
    assert edited(GROUP + counted) == GROUP + REFILLED.format("n = 0\n", "        n += 1\n        s.set_epoch(n)\n")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(REFILLED.format("n = -1\n", "        n += 1\n"), id="the second pass would be told zero"),
        pytest.param(REFILLED.format("n = 0\n", "        if b:\n            n += 1\n"), id="counted now and then"),
    ],
)
def test_passes_that_may_get_one_number_are_not_told_it(text: str) -> None:
    assert codes(GROUP + text) == [["SHD911"]]


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        pytest.param(
            REFILLED.format("", ""),
            "count the passes: `epoch += 1` and `s.set_epoch(epoch)` before line 11, with `epoch = 0` above the loop",
            id="nothing counts the passes",
        ),
        pytest.param(
            LOADER + "def forever(l):\n    while True:\n        for b in l:\n            yield b\n"
            "for b in forever(loader):\n    b.backward()\n",
            "in line 7 write `for epoch in itertools.count():` for `while True:`, and `l.sampler.set_epoch(epoch)` "
            "first in it",
            id="a generator without end",
        ),
    ],
)
def test_the_lines_to_write_are_said_where_nothing_counts(text: str, remedy: str) -> None:
    (finding,) = planned(GROUP + text).reports[0].findings
    assert (finding.code, finding.remedy) == ("SHD911", remedy)


LOOP = "for epoch in range({}):\n{}" + BATCHES
TOLD = "    s.set_epoch(epoch)\n"


def test_of_two_training_loops_the_one_that_tells_nothing_is_told() -> None:
    text = GROUP + LOADER + LOOP.format(3, TOLD)
    assert edited(text + LOOP.format("3, 9", "")) == text + LOOP.format("3, 9", TOLD)


def test_a_loop_that_only_evaluates_need_not_tell_again() -> None:
    check = "for epoch in range(3):\n    with torch.no_grad():\n        for b in loader:\n            model(b)\n"
    assert codes(GROUP + LOADER + LOOP.format(3, TOLD) + check) == [[]]


def test_a_function_that_two_loops_call_is_told_in_both() -> None:
    run = LOADER + "def run(l):\n    for b in l:\n        b.backward()\n"
    loops = "for epoch in range(3):\n{0}    run(loader)\nfor e in range(3, 6):\n{1}    run(loader)\n"
    told = loops.format(TOLD, "    s.set_epoch(e)\n")
    assert edited(GROUP + run + loops.format("", "")) == GROUP + run + told


def test_two_loaders_read_in_pairs_would_meet_alike_in_every_epoch() -> None:
    text = (
        GROUP + "one_loader = DataLoader(d, shuffle=True)\nother_loader = DataLoader(e, shuffle=True)\n"
        "for epoch in range(3):\n    for a, b in zip(one_loader, other_loader):\n        (a - b).backward()\n"
    )
    assert codes(text) == [["SHD933"], ["SHD933"]]


def test_a_comprehension_over_epochs_is_not_one_pass() -> None:
    assert codes(GROUP + LOADER + "losses = [sum(step(b) for b in loader) for epoch in range(3)]\n") == [["SHD909"]]
