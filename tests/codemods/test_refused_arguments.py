"""Where a loader's arguments are seen from all sides they are edited; where one side is out of sight they are not."""

from __future__ import annotations

import pytest
from plans import codes, edited, planned

PREPARED = (
    "import copy\nfrom accelerate import Accelerator\nfrom torch.utils.data import DataLoader, DistributedSampler\n"
    "accelerator = Accelerator()\n{}loader = accelerator.prepare(DataLoader(ds, **kw))\n"
    "for batch in loader:\n    model(batch).backward()\n{}"
)
DICT = "kw = {'num_workers': 2, 'sampler': DistributedSampler(ds)}\n"
TRAINER = (
    "from torch.utils.data import DataLoader, Sampler\nfrom transformers import Trainer\n"
    "class Own(Sampler):\n    pass\n"
    "class T(Trainer):\n    def get_train_dataloader(self):\n"
    "        return DataLoader(self.train_dataset, sampler={})\n"
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(DICT, "", id="a dict"),
        pytest.param(DICT, "print(kw)\n", id="a dict that is printed"),
        pytest.param(DICT.replace("kw", "base") + "kw = base.copy()\n", "", id="a copy"),
        pytest.param(DICT.replace("kw", "base") + "kw = copy.deepcopy(base)\n", "", id="a deep copy"),
        pytest.param(DICT.replace("kw", "base") + "kw = dict(base)\n", "", id="a dict of it"),
    ],
)
def test_a_sampler_in_a_dict_that_is_followed(before: str, after: str) -> None:
    text = PREPARED.format(before, after)
    assert edited(text) == text.replace("'sampler': DistributedSampler(ds)", "'shuffle': True").replace(
        "DataLoader, DistributedSampler", "DataLoader"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(DICT, "show(kw)\n", id="handed on"),
        pytest.param(DICT, "show(settings=kw)\n", id="handed on by a keyword"),
        pytest.param(DICT, "kept[0] = kw\n", id="kept elsewhere"),
    ],
)
def test_a_sampler_in_a_dict_that_goes_elsewhere(before: str, after: str) -> None:
    assert planned(PREPARED.format(before, after)).changes == ()


def test_a_trainers_own_sampler_is_known_and_one_of_the_project_is_not() -> None:
    assert codes(TRAINER.format("Own(self.train_dataset)")) == [["SHD915"]]
    assert codes(TRAINER.format("self._get_train_sampler()")) == [["SHD304"]]
