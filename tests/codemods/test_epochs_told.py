"""The epoch is told where its counter and the sampler surely are what they look like; else the site says why not."""

from __future__ import annotations

import pytest
from plans import codes, edited, planned

HEAD = "import torch.distributed as dist\nfrom torch.utils.data import DataLoader, DistributedSampler\n"
GROUP = HEAD + "dist.init_process_group()\n"
PLAIN = GROUP + "train_loader = DataLoader(train_set, shuffle=True)\n"
FROZEN = GROUP + "sampler = DistributedSampler(train_set)\ntrain_loader = DataLoader(train_set, sampler=sampler)\n"
BATCHES = "for b in train_loader:\n"


def loop(head: str, *before: str, after: str = "") -> str:
    lines = [head, *(f"    {line}" for line in before), "    for b in train_loader:", "        b.backward()"]
    return "\n".join([*lines, *([f"    {after}"] if after else [])]) + "\n"


@pytest.mark.parametrize(
    ("head", "told"),
    [
        ("for idx, _ in enumerate(range(n)):", "for idx, _ in enumerate(range(n)):\n    sampler.set_epoch(idx)\n"),
        (
            "for idx, _ in enumerate(range(0, n)):",
            "for idx, _ in enumerate(range(0, n)):\n    sampler.set_epoch(idx)\n",
        ),
        (
            "for idx, _ in enumerate(trange(start, n)):",
            "for idx, epoch in enumerate(trange(start, n)):\n    sampler.set_epoch(epoch)\n",
        ),
        (
            "for idx, e in enumerate(range(start, n)):",
            "for idx, e in enumerate(range(start, n)):\n    sampler.set_epoch(e)\n",
        ),
    ],
)
def test_the_index_of_a_range_that_starts_late_is_not_the_epoch(head: str, told: str) -> None:
    assert told in edited(FROZEN + loop(head))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(PLAIN + loop("for epoch in range(3):"), ["SHD301"], id="a plain loop"),
        pytest.param(PLAIN + loop("for epoch in range(3):", "epoch += start"), ["SHD910"], id="an offset is added"),
        pytest.param(PLAIN + BATCHES + "    b.backward()\n", ["SHD301"], id="read once"),
        pytest.param(PLAIN + loop("while True:"), ["SHD909"], id="while True"),
        pytest.param(PLAIN + loop("while step < 100:"), ["SHD909"], id="while step"),
        pytest.param(PLAIN + loop("for lr in rates:"), ["SHD909"], id="another loop"),
        pytest.param(
            PLAIN + "def run():\n    for b in train_loader:\n        b.backward()\nrun()\nrun()\n",
            ["SHD909"],
            id="called twice",
        ),
        pytest.param(
            GROUP
            + "def run():\n    train_loader = DataLoader(train_set, shuffle=True)\n    for b in train_loader:\n"
            + "        b.backward()\nfor epoch in range(3):\n    run()\n",
            ["SHD924"],
            id="built in the loop",
        ),
        pytest.param(
            GROUP
            + "train_loader = DataLoader(train_set, sampler=DistributedSampler(train_set))\n"
            + "for epoch in range(3):\n    train_loader = tqdm(train_loader)\n    "
            + BATCHES
            + "        b.backward()\n",
            ["SHD909"],
            id="its name is bound anew in the loop",
        ),
    ],
)
def test_a_loader_that_is_told_nothing(text: str, expected: list[str]) -> None:
    assert codes(text) == [expected]


def test_a_loop_whose_sampler_has_no_name_there_is_said_to_be_seen() -> None:
    text = (
        GROUP
        + "class T:\n    def __init__(self, ds):\n        if ds:\n"
        + "            self.loader = DataLoader(ds, sampler=DistributedSampler(ds))\n"
        + "    def run(self):\n        for b in self.loader:\n            b.backward()\n"
        + "    def fit(self):\n        for epoch in range(3):\n            self.run()\n"
    )
    (finding,) = planned(text).reports[0].findings
    assert finding.message == "the epoch loop in line 12 is seen, but no name at its start for this sampler"


@pytest.mark.parametrize(
    ("loaders", "loop", "read"),
    [
        pytest.param(
            "loaders = {'train': DataLoader(d, sampler=DistributedSampler(d))}\n",
            "    for phase in phases:\n        loader = loaders[phase]\n",
            "loader",
            id="an item by a key that varies",
        ),
        pytest.param(
            "loaders = [DataLoader(x, sampler=DistributedSampler(x)) for x in sets]\n",
            "    for loader in loaders:\n",
            "loader",
            id="each of a list",
        ),
        pytest.param(
            "loaders = {'train': DataLoader(d, sampler=DistributedSampler(d))}\n",
            "    for part in parts:\n",
            "loaders['train']",
            id="an item by its key",
        ),
    ],
)
def test_what_gets_its_name_in_the_loop_is_told_before_its_batches(loaders: str, loop: str, read: str) -> None:
    text = GROUP + loaders + "for epoch in range(3):\n" + loop
    batches = f"        for b in {read}:\n            b.backward()\n"
    told = (
        f'        if isinstance(getattr({read}, "sampler", None), DistributedSampler):\n'
        f"            {read}.sampler.set_epoch(epoch)\n"
    )
    assert edited(text + batches) == text + told + batches


def test_a_deleted_sampler_is_reached_by_its_loader() -> None:
    assert "    train_loader.sampler.set_epoch(epoch)\n" in edited(
        FROZEN + "del sampler\n" + loop("for epoch in range(3):")
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(loop("for epoch in range(3):", "sampler.set_epoch(epoch)"), [], id="right"),
        pytest.param(
            loop("for epoch in range(3):", "if resumed:", "    sampler.set_epoch(epoch)"), [], id="a condition"
        ),
        pytest.param(
            loop("for epoch in range(3):", "if rank != -1:", "    sampler.set_epoch(epoch)"),
            [],
            id="in several processes",
        ),
        pytest.param(
            loop("for epoch in range(3):", "if rank == 0:", "    sampler.set_epoch(epoch)"), ["SHD403"], id="on rank 0"
        ),
        pytest.param(
            loop("for epoch in range(3):", "if rank > 0:", "    sampler.set_epoch(epoch)"),
            ["SHD403"],
            id="not on rank 0",
        ),
        pytest.param(
            loop("for epoch in range(3):", "if epoch == 2:", "    sampler.set_epoch(epoch)"),
            ["SHD403"],
            id="in one epoch",
        ),
        pytest.param(
            "fold = 1\n" + loop("for epoch in range(3):", "sampler.set_epoch(fold)"), ["SHD403"], id="a number"
        ),
        pytest.param(loop("for epoch in range(3):", after="sampler.set_epoch(epoch)"), ["SHD403"], id="too late"),
        pytest.param(loop("for epoch in range(3):", after="sampler.set_epoch(epoch + 1)"), [], id="the next one's"),
        pytest.param(
            "for epoch in range(3):\n    for i, b in enumerate(train_loader):\n        sampler.set_epoch(i)\n"
            "        b.backward()\n",
            ["SHD403"],
            id="in the batch loop",
        ),
    ],
)
def test_a_sampler_that_is_told(text: str, expected: list[str]) -> None:
    assert codes(FROZEN + text) == [expected]


def test_gradients_that_update_nothing_are_an_evaluation_whose_order_is_left() -> None:
    masks = "def mask(loader):\n    while going:\n        for b in loader:\n            b.sum().backward()\n"
    text = GROUP + masks + "eval_loader = DataLoader(ds, sampler=DistributedSampler(ds))\nmask(eval_loader)\n"
    assert codes(text) == [["SHD916"]]


def test_an_evaluation_whose_order_is_a_setting_is_told_no_epoch() -> None:
    text = GROUP + "sampler = DistributedSampler(val_set, shuffle=config.TEST.SHUFFLE)\n"
    text += "val_loader = DataLoader(val_set, sampler=sampler)\nfor epoch in range(3):\n    with torch.no_grad():\n"
    text += "        for b in val_loader:\n            model(b)\n"
    assert codes(text) == [[]]


def test_an_evaluation_that_shuffles_keeps_one_order_so_that_one_models_metric_stays_the_same() -> None:
    text = GROUP + "sampler = DistributedSampler(val_set, shuffle=True)\n"
    text += "val_loader = DataLoader(val_set, sampler=sampler)\nfor epoch in range(3):\n    with torch.no_grad():\n"
    text += "        for b in val_loader:\n            model(b)\n"
    assert codes(text) == [[]]
    assert codes(text.replace("with torch.no_grad()", "if True").replace("val_", "train_")) == [["SHD401"]]


@pytest.mark.parametrize(
    ("other", "expected"),
    [pytest.param("step(epoch, loader)", [], id="both arms"), pytest.param("pass", ["SHD403"], id="one arm")],
)
def test_a_function_that_both_arms_of_a_rank_call_tells_all_ranks(other: str, expected: list[str]) -> None:
    text = (
        "import torch.distributed as dist\nfrom torch.utils.data import DataLoader, DistributedSampler\n"
        "dist.init_process_group()\nrank = dist.get_rank()\n"
        "loader = DataLoader(ds, sampler=DistributedSampler(ds))\n"
        "def step(epoch, loader):\n    loader.sampler.set_epoch(epoch)\n"
        "for epoch in range(3):\n    if rank == 0:\n        step(epoch, loader)\n    else:\n"
        f"        {other}\n    for x in loader:\n        model(x).backward()\n"
    )
    assert codes(text) == [expected]
