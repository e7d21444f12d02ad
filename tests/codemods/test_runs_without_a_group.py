"""A loader in an arm of a condition in whose other arm the process group is made is one process's, by any name."""

from __future__ import annotations

import pytest
from plans import codes

HEAD = (
    "import torch\nimport torch.distributed as dist\nfrom torch.utils.data import DataLoader, DistributedSampler\n"
    "def run(rank, n_gpus):\n"
    "    if n_gpus > 1:\n"
    "        dist.init_process_group('gloo', rank=rank, world_size=n_gpus)\n"
)
ARMS = (
    "    if n_gpus > 1:\n"
    "        sampler = DistributedSampler(data)\n"
    "        loader = DataLoader(data, batch_size=4, sampler=sampler)\n"
    "    else:\n"
    "        loader = DataLoader(data, batch_size=4, shuffle=True)\n"
    "    model = torch.nn.parallel.DistributedDataParallel(net)\n"
    "    for epoch in range(3):\n"
    "        if n_gpus > 1:\n"
    "            sampler.set_epoch(epoch)\n"
    "        for x in loader:\n"
    "            model(x).sum().backward()\n"
)


def test_the_other_arm_reads_everything_as_it_should() -> None:
    assert codes(HEAD + ARMS) == [[], []]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(
            "        dist.init_process_group", "        pass\n    dist.init_process_group", id="a group always"
        ),
        pytest.param(
            "    if n_gpus > 1:\n        sampler",
            "    n_gpus = ask()\n    if n_gpus > 1:\n        sampler",
            id="set anew",
        ),
        pytest.param(
            "    if n_gpus > 1:\n        sampler", "    if n_gpus > 2:\n        sampler", id="another condition"
        ),
    ],
)
def test_an_arm_that_may_run_in_a_group_does_not(old: str, new: str) -> None:
    assert codes((HEAD + ARMS).replace(old, new, 1))[1] != []
