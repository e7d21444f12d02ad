"""Loaders built by functions that a program keeps in a dict are followed to where an item of it is called."""

from __future__ import annotations

import pytest
from plans import codes, edited

HEAD = (
    "import torch.distributed as dist\nfrom torch.utils.data import DataLoader, DistributedSampler\n"
    "dist.init_process_group('gloo')\n"
    "def digits(args):\n    sampler = DistributedSampler(digit_set)\n"
    "    return DataLoader(digit_set, sampler=sampler), sampler\n"
    "def words(args):\n    sampler = DistributedSampler(word_set)\n"
    "    return DataLoader(word_set, sampler=sampler), sampler\n"
)
NESTED = 'MAKERS = {}\nMAKERS["digits"] = {"train": digits, "test": None}\nMAKERS["words"] = {"train": words}\n'
LOOP = "loader, sampler = {}(args)\nfor epoch in range(3):\n    {}for x in loader:\n        model(x).backward()\n"
TELL = "sampler.set_epoch(epoch)\n    "


@pytest.mark.parametrize(
    ("kept", "called"),
    [
        pytest.param(NESTED, 'MAKERS[args.data]["train"]', id="a dict of dicts"),
        pytest.param('MAKERS = {"digits": digits, "words": words}\n', "MAKERS[args.data]", id="a dict"),
        pytest.param("MAKERS = [digits, words]\n", "MAKERS[args.data]", id="a list"),
        pytest.param('MAKERS = {"digits": digits, "words": words}\n', "MAKERS.get(args.data)", id="asked for"),
    ],
)
def test_who_calls_an_item_of_a_dict_runs_its_functions(kept: str, called: str) -> None:
    assert codes(HEAD + kept + LOOP.format(called, TELL)) == [[], []]
    text = HEAD + kept + LOOP.format(called, "")
    assert codes(text) == [["SHD401"], ["SHD401"]]
    told = "if isinstance(loader.sampler, DistributedSampler):\n        loader.sampler.set_epoch(epoch)\n    "
    assert edited(text) == HEAD + kept + LOOP.format(called, told)


def test_of_an_item_that_is_written_out_only_its_own_function_runs() -> None:
    kept = 'MAKERS = {"digits": digits, "words": words}\n'
    assert codes(HEAD + kept + LOOP.format('MAKERS["words"]', "")) == [["SHD909"], ["SHD401"]]


@pytest.mark.parametrize(
    "more",
    [
        pytest.param("MAKERS.update(others)\n", id="filled out of sight"),
        pytest.param('MAKERS["more"] = partial(digits, 1)\n', id="an item that is no function"),
        pytest.param("for k in others:\n    MAKERS[k] = others[k]\n", id="items of what is not seen"),
        pytest.param("register(MAKERS)\n", id="handed to what is not seen"),
    ],
)
def test_a_dict_of_which_not_all_is_seen_runs_nothing_that_is_known(more: str) -> None:
    kept = 'MAKERS = {"digits": digits, "words": words}\n'
    assert codes(HEAD + kept + more + LOOP.format("MAKERS[args.data]", "")) == [["SHD909"], ["SHD909"]]
