"""All ranks must share out the same samples, and know each other when they do."""

from __future__ import annotations

import pytest
from plans import planned

from shardfix.analysis.model import Options

HEAD = (
    "import os\nimport random\nimport numpy as np\nimport torch\nimport torch.distributed as dist\n"
    "from torch.utils.data import DataLoader, DistributedSampler, Subset, random_split\n"
)
GROUP = "dist.init_process_group()\n"
LOADER = "val_loader = DataLoader(val_set, batch_size=4)\n"
LOOP = "n = 0\nwith torch.no_grad():\n    for x, y in val_loader:\n        n += y.size(0)\nprint(n)\n"


@pytest.mark.parametrize(
    ("made", "seed"),
    [
        ("_, val_set = random_split(data, [5, 21])\n", "torch.manual_seed(0)\n"),
        ("val_set = Subset(data, torch.randperm(26)[:21])\n", "torch.manual_seed(args.seed)\n"),
        ("indices = np.random.permutation(26)\nval_set = Subset(data, indices[:21])\n", "set_seed(0)\n"),
        (
            "indices = list(range(26))\nrandom.shuffle(indices)\nval_set = Subset(data, indices[:21])\n",
            "random.seed(0)\n",
        ),
        (
            "def load(lines):\n    if args.some:\n        lines = random.sample(lines, 20)\n"
            "    return lines, Lines(lines)\n"
            "lines, val_set = load(data)\n",
            "random.seed(0)\n",
        ),
        (
            "def make(chosen):\n    return chosen\nval_set = make(Subset(data, torch.randperm(26)[:21]))\n",
            "torch.manual_seed(0)\n",
        ),
    ],
    ids=["random_split", "Subset", "numpy", "shuffled in place", "what a function returns", "what a function is given"],
)
def test_samples_that_each_rank_draws_for_itself(made: str, seed: str) -> None:
    found = planned(HEAD + GROUP + made + LOADER + LOOP)
    (unsafe,) = planned(HEAD + GROUP + made + LOADER + LOOP, Options(sanitizer="off", unsafe=True)).changes
    (seeded,) = planned(HEAD + "from seeds import set_seed\n" + GROUP + seed + made + LOADER + LOOP).changes

    assert found.changes == ()
    assert "other samples on each rank" in unsafe.reason or "each rank another order" in unsafe.reason
    assert (unsafe.tier, seeded.tier) == ("unsafe", "safe")
    (by_rank,) = planned(HEAD + GROUP + "torch.manual_seed(dist.get_rank())\n" + made + LOADER + LOOP).reports
    assert by_rank.changes == ()


def test_a_split_that_is_given_a_generator() -> None:
    made = "_, val_set = random_split(data, [5, 21], generator=torch.Generator().manual_seed(0))\n"
    (change,) = planned(HEAD + GROUP + made + LOADER + LOOP).changes
    assert change.tier == "safe"


def test_a_sampler_that_is_built_before_the_group() -> None:
    numbers = "world, rank = int(os.environ['WORLD_SIZE']), int(os.environ['RANK'])\n"
    sampler = "sampler = DistributedSampler(val_set, num_replicas=world, rank=rank, shuffle=False)\n"
    loader = LOADER.replace("=4", "=4, sampler=sampler")
    for before, after in ((GROUP, ""), ("", GROUP)):  # its padding is left out by what it is told
        (change,) = planned(HEAD + before + numbers + sampler + loader + after + LOOP).changes
        assert (change.codes, change.tier) == (("SHD506",), "safe")

    never, late = (planned(HEAD + numbers + sampler + loader + LOOP + after) for after in ("", GROUP))
    for found in (never, late):
        assert found.changes == ()
        assert "no process group is seen to be made before the loop" in found.reports[0].why
