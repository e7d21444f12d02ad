"""The number of batches is one rank's once the loader is shared out: what goes by it is reduced, or named."""

from __future__ import annotations

import pytest
from plans import codes, edited, planned

from shardfix.analysis.model import Options

IMPORTS = (
    "import torch\nimport torch.distributed as dist\nfrom torch.utils.data import DataLoader\n"
    "from torch.utils.data.distributed import DistributedSampler\nfrom tqdm import tqdm\n"
    "dist.init_process_group()\n"
)
MADE = "val_loader = DataLoader(val_set, batch_size=4)\n"
SHARDED = "val_loader = DataLoader(val_set, batch_size=4, sampler=DistributedSampler(val_set, shuffle=False))\n"
COUNT = "s += (model(x).argmax(1) == y).sum().item()"
LOOP = "    s = 0\n    for i, (x, y) in enumerate(loader):\n        {count}\n"
HEAD = "@torch.no_grad()\ndef validate(model, loader):\n"
VALIDATE = HEAD + LOOP.format(count=COUNT)
RUN = MADE + "validate(model, val_loader)\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param(
            VALIDATE + "    return s\n" + MADE + "print(validate(model, val_loader) / len(val_loader))\n",
            14,
            id="caller",
        ),
        pytest.param(
            "def mean(t, loader):\n    return t / len(loader)\n" + VALIDATE + "    return mean(s, loader)\n" + RUN,
            8,
            id="helper",
        ),
        pytest.param(
            VALIDATE.replace("loader):\n    s", "loader, steps):\n    s")
            + "    return s / steps\n"
            + MADE
            + "validate(model, val_loader, len(val_loader))\n",
            14,
            id="argument",
        ),
        pytest.param(
            HEAD + "    per = 1 / len(loader)\n" + LOOP.format(count=COUNT + " * per") + "    return s\n" + RUN,
            9,
            id="factor",
        ),
        pytest.param(HEAD + LOOP.format(count=COUNT + " / len(loader)") + "    return s\n" + RUN, 11, id="in the loop"),
        pytest.param(
            HEAD + "    avg = lambda t: t / len(loader)\n" + LOOP.format(count=COUNT) + "    return avg(s)\n" + RUN,
            9,
            id="lambda",
        ),
        pytest.param(
            "class Trainer:\n    def __init__(self, model, loader):\n        self.model, self.loader = model, loader\n"
            "        self.steps = len(loader)\n    @torch.no_grad()\n    def validate(self):\n        s = 0\n"
            "        for x, y in self.loader:\n            s += (self.model(x).argmax(1) == y).sum().item()\n"
            "        return s / self.steps\n" + MADE + "Trainer(model, val_loader).validate()\n",
            10,
            id="attribute",
        ),
    ],
)
def test_who_goes_by_the_number_of_batches_is_named(text: str, line: int) -> None:
    (report,) = planned(IMPORTS + text).reports

    assert report.changes == ()
    assert f"line {line} is not understood: the number of batches is read" in report.why


@pytest.mark.parametrize(
    ("behind", "expected"),
    [
        pytest.param("    print('of', len(loader.sampler))\n    return s\n", ["SHD305"], id="shown"),
        pytest.param("    logger.debug('%d', loader.sampler.num_samples)\n    return s\n", ["SHD305"], id="logged"),
        pytest.param("    return s / len(loader.sampler)\n", ["SHD904"], id="a denominator"),
        pytest.param("    n = len(loader.sampler)\n    print(s / n)\n", ["SHD904"], id="a denominator that is shown"),
    ],
)
def test_the_length_of_a_sampler_is_one_ranks_too(behind: str, expected: list[str]) -> None:
    assert codes(IMPORTS + VALIDATE + behind + RUN) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("    print(f'{i}/{len(loader)}', s)\n", id="printed"),
        pytest.param("    n = len(loader)\n    print('{}'.format(n), s)\n", id="printed by another name"),
        pytest.param("    progress = ProgressMeter(len(loader) + 1, 'Test')\n    print(s)\n", id="a progress meter"),
        pytest.param("    show(len(loader))\n    return s\n", id="a function that prints"),
    ],
)
def test_a_length_that_is_shown_may_be_one_ranks(text: str) -> None:
    show = "def show(n):\n    print('of', n)\n"
    text = show + VALIDATE.replace("enumerate(loader)", "enumerate(tqdm(loader, total=len(loader)))") + text
    (change,) = planned(IMPORTS + text.replace("'{i}/", "'") + RUN).changes
    assert (change.codes, change.tier) == (("SHD305",), "safe")


def test_a_condition_that_only_shows() -> None:
    text = IMPORTS + VALIDATE + "        if i == len(loader) - 1:\n            print(s)\n    return s\n" + RUN
    (change,) = planned(text).changes
    assert change.tier == "safe"


@pytest.mark.parametrize(
    ("behind", "why"),
    [
        ("    dist.get_rank() == 0 and print(s / len(loader))\n", "on some paths only"),
        ("    if dist.get_rank() != 0:\n        return None\n    return s / len(loader)\n", "on some paths only"),
        ("    return {k: s / len(loader) for k in 'ab'}\n", "on some paths only"),
    ],
)
def test_a_collective_is_put_only_where_every_rank_passes_once(behind: str, why: str) -> None:
    found = planned(IMPORTS + VALIDATE + behind + RUN, Options(sanitizer="off", unsafe=True))
    assert [c.codes for c in found.changes if c.codes != ("SHD302",)] == []
    assert why in planned(IMPORTS + VALIDATE + behind + RUN).reports[0].why


def test_a_number_of_batches_behind_the_loop_is_reduced() -> None:
    text = IMPORTS + VALIDATE + "    return s / len(loader)\n" + RUN
    after = edited(text, Options(sanitizer="off", unsafe=True))
    assert "    return s / reduced(len(loader))\n" in after


def test_what_the_sampler_deals_out_is_one_ranks() -> None:
    text = (
        IMPORTS + VALIDATE + "    return s / loader.sampler.num_samples\n" + SHARDED + "validate(model, val_loader)\n"
    )
    assert "`loader.sampler` is read, which deals out one rank's part" in planned(text).reports[0].why
    told = text.replace("s / loader.sampler.num_samples", "s").replace(
        "val_loader)\n", "val_loader)\nval_loader.sampler.set_epoch(0)\n"
    )
    assert [c.codes for c in planned(told).changes] == [("SHD506",)]
