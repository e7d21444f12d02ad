"""Samplers that stand in a dict of keywords or a partial: edited where they stand, if they feed this loader only."""

from __future__ import annotations

import pytest
from plans import codes, edited

PREPARED = (
    "from functools import partial\n"
    "from accelerate import Accelerator\n"
    "from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler\n"
    "from torch.utils.data.distributed import DistributedSampler\n"
    "accelerator = Accelerator()\n"
    "{}\n"
    "loader = accelerator.prepare(loader)\n"
    "for batch in loader:\n"
    "    model(batch).backward()\n"
)
DDP = (
    "import torch.distributed as dist\n"
    "from torch.utils.data import DataLoader, RandomSampler\n"
    "from torch.utils.data.distributed import DistributedSampler\n"
    "dist.init_process_group()\n"
    "{}\n"
    "for epoch in range(3):\n"
    "    for batch in loader:\n"
    "        model(batch).backward()\n"
    "        optimizer.step()\n"
)


def body(text: str) -> str:
    """What stands between the imports and the loop."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(("accelerator =", "dist.init"))) + 1
    end = next(i for i, line in enumerate(lines) if line.startswith(("loader = accelerator", "for epoch")))
    return "\n".join(lines[start:end])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            'kw = {"num_workers": 2, "sampler": DistributedSampler(ds)}\nloader = DataLoader(ds, **kw)',
            'kw = {"num_workers": 2, "shuffle": True}\nloader = DataLoader(ds, **kw)',
            id="display",
        ),
        pytest.param(
            "kw = {\n    'sampler': SequentialSampler(ds),  # in order\n    'num_workers': 2,\n}\n"
            "loader = DataLoader(ds, **kw)",
            "kw = {\n    # in order\n    'num_workers': 2,\n}\nloader = DataLoader(ds, **kw)",
            id="display over several lines",
        ),
        pytest.param(
            "kw = dict(num_workers=2, sampler=RandomSampler(ds))\nloader = DataLoader(ds, **kw)",
            "kw = dict(num_workers=2, shuffle=True)\nloader = DataLoader(ds, **kw)",
            id="dict call",
        ),
        pytest.param(
            "kw = {}\nkw['sampler'] = SequentialSampler(ds)\nloader = DataLoader(ds, **kw)",
            "kw = {}\nloader = DataLoader(ds, **kw)",
            id="item, dropped",
        ),
        pytest.param(
            "kw = {}\nkw['sampler'] = RandomSampler(ds)\nloader = DataLoader(ds, **kw)",
            "kw = {}\nkw['shuffle'] = True\nloader = DataLoader(ds, **kw)",
            id="item, renamed",
        ),
        pytest.param(
            "kw = {}\nkw.update(sampler=SequentialSampler(ds))\nloader = DataLoader(ds, **kw)",
            "kw = {}\nloader = DataLoader(ds, **kw)",
            id="updated",
        ),
        pytest.param(
            'sampler = DistributedSampler(ds)\nkw = {"sampler": sampler}\nmore = {"shuffle": False}\nkw.update(more)\n'
            "loader = DataLoader(ds, **kw)",
            'kw = {}\nmore = {"shuffle": True}\nkw.update(more)\nloader = DataLoader(ds, **kw)',
            id="updated with another dict, the sampler in a variable",
        ),
        pytest.param(
            'kw = {"shuffle": True}\nif distributed:\n    kw = {"sampler": DistributedSampler(ds)}\n'
            "loader = DataLoader(ds, **kw)",
            'kw = {"shuffle": True}\nif distributed:\n    kw = {"shuffle": True}\nloader = DataLoader(ds, **kw)',
            id="another dict in several processes",
        ),
        pytest.param(
            "make = partial(DataLoader, num_workers=2, sampler=RandomSampler(ds))\nloader = make(ds)",
            "make = partial(DataLoader, num_workers=2, shuffle=True)\nloader = make(ds)",
            id="partial",
        ),
        pytest.param(
            "make = partial(DataLoader, shuffle=False)\nloader = make(ds, sampler=SequentialSampler(ds))",
            "make = partial(DataLoader, shuffle=False)\nloader = make(ds)",
            id="beside a partial",
        ),
        pytest.param(
            "loader = DataLoader(ds, sampler=SequentialSampler(ds), **config.loader)",
            "loader = DataLoader(ds, **config.loader)",
            id="dropped beside what is not seen",
        ),
        pytest.param(
            "kw = {}\nif distributed:\n    kw['sampler'] = DistributedSampler(ds)\nloader = DataLoader(ds, **kw)",
            "kw = {}\nif distributed:\n    kw['shuffle'] = True\nloader = DataLoader(ds, **kw)",
            id="shuffled on one way, which stays the only one",
        ),
        pytest.param(
            "loaders = {n: accelerator.prepare(DataLoader(ds, sampler=SequentialSampler(ds))) for n in s}\nloader = 0",
            "loaders = {n: accelerator.prepare(DataLoader(ds)) for n in s}\nloader = 0",
            id="dict comprehension",
        ),
    ],
)
def test_a_sampler_goes_from_where_it_stands(before: str, after: str) -> None:
    assert body(edited(PREPARED.format(before))) == after


@pytest.mark.parametrize(
    ("made", "code"),
    [
        pytest.param(
            "kw = {'shuffle': False}\nif distributed:\n    kw['sampler'] = DistributedSampler(ds)\n"
            "loader = DataLoader(ds, **kw)",
            "SHD903",
            id="one entry says how both ways shuffle",
        ),
        pytest.param(
            "def build(d, kw):\n    return DataLoader(d, **kw)\nloader = build(ds, {'sampler': SequentialSampler(ds)})",
            "SHD907",
            id="the dataset goes another way",
        ),
        pytest.param(
            "kw = {'sampler': SequentialSampler(ds)}\nkeep(kw)\nloader = DataLoader(ds, **kw)",
            "SHD903",
            id="given away",
        ),
        pytest.param(
            "kw = {}\nother = kw\nother['sampler'] = SequentialSampler(ds)\nloader = DataLoader(ds, **kw)",
            "SHD903",
            id="two names",
        ),
        pytest.param(
            "kw = {}\nfor name in names:\n    kw[name] = options[name]\nloader = DataLoader(ds, **kw)",
            "SHD903",
            id="keys not seen",
        ),
        pytest.param(
            "loader = DataLoader(ds, batch_sampler=BatchSampler(RandomSampler(ds), 2, True), **config.loader)",
            "SHD903",
            id="a batch sampler beside what is not seen",
        ),
        pytest.param(
            "loader = DataLoader(ds, sampler=RandomSampler(ds), **config.loader)",
            "SHD903",
            id="a keyword would be added",
        ),
    ],
)
def test_a_dict_that_is_not_seen_through_is_left(made: str, code: str) -> None:
    assert codes(PREPARED.format(made)) == [[code]]


def test_a_batch_sampler_on_one_way_only_is_left_to_prepare() -> None:
    made = "kw = {}\nif a:\n    kw = {'batch_sampler': BatchSampler(RandomSampler(ds), 2, True)}"
    assert codes(PREPARED.format(made + "\nloader = DataLoader(ds, **kw)")) == [[]]


def test_a_dict_for_two_loaders_is_edited_for_both_or_not_at_all() -> None:
    made = "kw = {'sampler': SequentialSampler(ds)}\nloader = DataLoader(ds, **kw)\nother = DataLoader(ds, **kw)"
    assert codes(PREPARED.format(made + "\nfor batch in other:\n    print(batch)"))[0] == ["SHD903"]
    both = PREPARED.format(made + "\nother = accelerator.prepare(other)\nfor batch in other:\n    print(batch)")
    assert codes(both) == [["SHD101"], ["SHD101"]]
    assert "kw = {}\n" in edited(both)


def test_what_was_changed_after_the_call_is_another_loader_s() -> None:
    made = "kw = {'sampler': SequentialSampler(ds)}\nloader = DataLoader(ds, **kw)\nkw['sampler'] = None"
    assert "kw = {}\nloader = DataLoader(ds, **kw)\n" in edited(PREPARED.format(made))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "kw = {'batch_size': 2, 'shuffle': True}\nloader = DataLoader(ds, **kw)",
            "kw = {'batch_size': 2}\ntrain_sampler = DistributedSampler(ds, shuffle=True)\n"
            "loader = DataLoader(ds, sampler=train_sampler, **kw)",
            id="shuffle in the dict",
        ),
        pytest.param(
            "kw = {'sampler': RandomSampler(ds)}\nloader = DataLoader(ds, **kw)",
            "kw = {'sampler': DistributedSampler(ds, shuffle=True)}\nloader = DataLoader(ds, **kw)",
            id="sampler in the dict",
        ),
        pytest.param(
            "class Fast(DataLoader):\n    pass\nloader = Fast(ds, shuffle=True)",
            "class Fast(DataLoader):\n    pass\ntrain_sampler = DistributedSampler(ds, shuffle=True)\n"
            "loader = Fast(ds, sampler=train_sampler)",
            id="a class that leaves sampling to torch",
        ),
    ],
)
def test_a_loader_is_sharded_where_its_keywords_stand(before: str, after: str) -> None:
    assert body(edited(DDP.format(before))) == after


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(
            "kw = {'shuffle': True}\nloader = DataLoader(ds, **kw)\nother = DataLoader(val_set, **kw)", id="two loaders"
        ),
        pytest.param("loader = DataLoader(ds, shuffle=True, **config.loader)", id="a keyword would be added"),
    ],
)
def test_a_loader_whose_keywords_are_others_too_is_not_sharded(made: str) -> None:
    assert codes(DDP.format(made))[0] == ["SHD903"]


def test_a_sampler_beside_what_is_not_seen_is_told_the_epoch() -> None:
    text = DDP.format("loader = DataLoader(ds, sampler=DistributedSampler(ds), **config.loader)")
    assert codes(text) == [["SHD401"]]
    assert codes(text.replace("    for batch", "    loader.sampler.set_epoch(epoch)\n    for batch")) == [[]]


def test_a_sampler_in_one_of_two_dicts_is_told_the_epoch_where_it_is_there() -> None:
    text = DDP.replace("dist.init", "if distributed:\n    dist.init").format(
        "kw = {'shuffle': True}\nif distributed:\n    kw = {'sampler': DistributedSampler(ds)}\n"
        "loader = DataLoader(ds, **kw)"
    )
    assert (
        "    if isinstance(loader.sampler, DistributedSampler):\n        loader.sampler.set_epoch(epoch)\n"
        in edited(text)
    )
