"""Data is said to be split by rank already only where what the loader reads of it is seen to be cut by a rank."""

from __future__ import annotations

import pytest
from plans import codes

HEAD = (
    "import os\nimport torch\nimport torch.distributed as dist\nimport torchvision\n"
    "from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset\n"
    "dist.init_process_group()\nrank, world_size = dist.get_rank(), dist.get_world_size()\n"
)
LOADER = (
    "sampler = DistributedSampler(data)\nloader = DataLoader(data, sampler=sampler)\n"
    "for epoch in range(3):\n    sampler.set_epoch(epoch)\n    for b in loader:\n        b.backward()\n"
)


def rows(body: str, given: str = "files, rank, world_size", base: str = "Dataset") -> str:
    """A dataset of the project's own, made with rank and size."""
    return (
        f"class Rows({base}):\n    def __init__(self, files=None, rank=0, world_size=1, train=True):\n        {body}\n"
        "    def __getitem__(self, i):\n        return self.files[i]\n"
        + ("    def __len__(self):\n        return len(self.files)\n" if base == "Dataset" else "")
        + f"data = Rows({given})\n"
    )


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(rows("self.files = files[rank::world_size]"), id="what its length counts"),
        pytest.param(
            rows("self.files = files\n        self.files = self.files[rank::world_size]"), id="cut after it is kept"
        ),
        pytest.param(
            rows(
                "self.files = []\n        for i, f in enumerate(files):\n            if i % world_size == rank:\n"
                "                self.files.append(f)"
            ),
            id="filled with what is the rank's",
        ),
        pytest.param(
            rows(
                "self.files = []\n        for i, f in enumerate(files):\n            if i % world_size != rank:\n"
                "                continue\n            self.files.append(f)"
            ),
            id="the others' are skipped",
        ),
        pytest.param(
            rows(
                "super().__init__(files)\n        self.files = self.files[rank::world_size]", base="torchvision.Files"
            ),
            id="an inherited list put anew",
        ),
        pytest.param(
            rows("super().__init__(files, range(rank, 20, world_size))", base="Subset"), id="the indices of a Subset"
        ),
        pytest.param(rows("self.files = files", "files[rank::world_size]"), id="it is given a part"),
        pytest.param(
            rows("self.files = files[rank::world_size] if train else files"), id="cut for training, which this is"
        ),
        pytest.param(
            "def load(n, shard):\n    return torch.arange(20).chunk(n)[shard]\ndata = load(world_size, rank)\n",
            id="by a function that is told the rank by another name",
        ),
        pytest.param(
            "def load(n, i):\n    return x, y[i::n]\n_, data = load(world_size, rank)\n", id="the item that is cut"
        ),
        pytest.param(
            "parts = {'train': x[rank::world_size], 'val': x}\ndata = parts['train']\n", id="the part of a dict"
        ),
        pytest.param(
            "def load():\n    for i, x in enumerate(files):\n        if i % world_size == rank:\n            yield x\n"
            "data = list(load())\n",
            id="what a generator yields",
        ),
        pytest.param("data = list(filter(lambda i: i % world_size == rank, files))\n", id="filtered"),
        pytest.param("data = ds.shard(num_shards=world_size, index=rank)\n", id="shard"),
        pytest.param("mine = int(os.environ['RANK'])\ndata = files[mine::world_size]\n", id="a rank by another name"),
    ],
)
def test_data_that_a_rank_cuts_is_split_twice_under_a_sampler(made: str) -> None:
    assert codes(HEAD + made + LOADER) == [["SHD715"]]


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(
            rows("self.files = files\n        self.cache = {i: read(i) for i in range(9) if i % world_size == rank}"),
            id="a cache that is warmed for the rank's part",
        ),
        pytest.param(
            rows(
                "self.files = []\n        for i, f in enumerate(files):\n"
                "            if train and i % world_size == rank:\n"
                "                self.files.append(read(f))\n            else:\n                self.files.append(f)"
            ),
            id="read now where they are the rank's, later where not",
        ),
        pytest.param(
            "def load():\n    for i, x in enumerate(files):\n"
            "        if i % world_size == rank:\n            yield read(x)\n            continue\n"
            "        yield x\ndata = list(load())\n",
            id="yielded in either way",
        ),
        pytest.param(rows("self.files = files\n        self.seed = SEEDS[rank]"), id="a seed"),
        pytest.param(
            rows("self.files = files", "files, int(os.environ['LOCAL_RANK']), int(os.environ['WORLD_SIZE'])"),
            id="told by the environment",
        ),
        pytest.param(rows("self.files = files[rank::world_size]", "files"), id="not told: one part of one"),
        pytest.param(
            rows(
                "self.files = files\n        if not train:\n            self.files = files[rank::world_size]",
                "files, rank, world_size, train=True",
            ),
            id="cut for evaluation, which this is not",
        ),
        pytest.param(
            "def load(n, i):\n    return x, y[i::n]\ndata, _ = load(world_size, rank)\n", id="the item that is whole"
        ),
        pytest.param(
            "parts = {'train': x, 'val': x[rank::world_size]}\ndata = parts['train']\n", id="the whole of a dict"
        ),
        pytest.param("data = library.Rows(files, rank, world_size)\n", id="a library's class that is told"),
        pytest.param("data = ds.shard(num_shards=4, index=0)\n", id="one shard of all, for every rank"),
        pytest.param("if rank % 8 == 0:\n    fetch()\ndata = load(rank % 8 == 0)\n", id="which process fetches"),
        pytest.param("data = max((load(rank) for rank in range(3)), key=len)\n", id="each in turn"),
    ],
)
def test_a_rank_that_is_only_told_to_the_data_splits_nothing(made: str) -> None:
    assert codes(HEAD + made + LOADER) == [[]]
