"""A dataset whose items go by what was read before, or whose length changes, is not shared out; a cache is no such."""

from __future__ import annotations

import pytest
from plans import planned

from shardfix.analysis.model import Options

HEAD = (
    "import os\nimport random\nimport h5py\nimport numpy as np\nimport torch\nimport torch.distributed as dist\n"
    "from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset, random_split\n"
    "dist.init_process_group()\n"
    "class Base(Dataset):\n"
    "    def __init__(self, size):\n        self.y = list(range(size))\n        self.n = 0\n        self.kept = {}\n"
    "        self.file = None\n"
    "    def __len__(self):\n        return len(self.y)\n"
    "    def refresh(self):\n        self._shorten()\n"
    "    def _shorten(self):\n        self.y = self.y[:5]\n"
)
DATA = "class Data(Base):\n    def __getitem__(self, i):\n"
LOADER = "val_set = Data(9)\nval_loader = DataLoader(val_set, batch_size=4)\n"
LOOP = "total = 0\nwith torch.no_grad():\n    for x, y in val_loader:\n        total += y.size(0)\nprint(total)\n"
PLAIN = DATA + "        return torch.tensor(self.y[i])\n"


def outcome(text: str) -> str:
    """The tier of the one change, or why there is none."""
    (report,) = planned(HEAD + text).reports
    return report.changes[0].tier if report.changes else report.why


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("if self.file is None: self.file = h5py.File('d')\n        x = self.file[i]", id="opened once"),
        pytest.param(
            "if not self.file:\n            self.file = h5py.File('d')\n        x = self.file[i]", id="if not"
        ),
        pytest.param(
            "if not hasattr(self, 'f'): self.f = h5py.File('d')\n        x = self.f[i]", id="opened where it has none"
        ),
        pytest.param(
            "if i not in self.kept:\n            self.kept[i] = self.y[i]\n        x = self.kept[i]", id="a cache"
        ),
        pytest.param(
            "try:\n            x = self.f[i]\n        except AttributeError:\n            self.f = h5py.File('d')\n"
            "            x = self.f[i]",
            id="opened where it fails",
        ),
        pytest.param("self.n += 1\n        x = self.y[i]", id="counted, and nothing goes by it"),
        pytest.param(
            "self.n += 1\n        if self.n > 100:\n            self.kept = {}\n            self.n = 0\n"
            "        x = self.kept.setdefault(i, self.y[i])",
            id="counted for a cache",
        ),
        pytest.param(
            "self.n = self.n + 1\n        if self.n % 100 == 0: print(self.n)\n        x = self.y[i]", id="shown"
        ),
        pytest.param(
            "if len(self.kept) > 9: self.kept.pop(next(iter(self.kept)))\n        x = self.y[i]", id="kept small"
        ),
        pytest.param("self.file = open('d')\n        self.file.seek(i)\n        x = self.file.readline()", id="seek"),
        pytest.param("self.i = i\n        x = self.y[self.i]", id="set before it is read"),
        pytest.param("rng = np.random.default_rng(i)\n        x = rng.random()", id="drawn with the index as a seed"),
        pytest.param("torch.manual_seed(i)\n        x = torch.rand(1)", id="seeded by the index"),
        pytest.param("x = self.y[i]\n        if self.train: x = x + random.random()", id="drawn in training"),
        pytest.param("if not self.train: return self.y[i]\n        x = random.random()", id="drawn behind a return"),
        pytest.param("x = self.y[i] if self.plain else random.choice(self.y)", id="drawn by a setting"),
    ],
)
def test_an_item_that_follows_from_its_index(body: str) -> None:
    assert outcome(f"{DATA}        {body}\n        return x\n{LOADER}{LOOP}") == "safe"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("self.n += 1\n        x = self.y[i] + self.n", "`self.n` counts what was read, and an item goes by it"),
        ("self.n = getattr(self, 'n', 0) + 1\n        x = self.n", "`self.n` counts what was read"),
        ("self.n += 1\n        x = self.y[i] if self.n > 3 else 0", "`self.n` counts what was read"),
        ("self.n += 1\n        if self.n > 3: self.y = []\n        x = 1", "changes the dataset's length"),
        ("x = next(self.numbers)", "`next(self.numbers)` takes the next of something"),
        ("x = self.y[self.order.pop()]", "`self.order.pop()` takes the next of something"),
        ("x = self.file.readline()", "`self.file.readline()` takes the next of something"),
        ("x = self.y[i] - self.last\n        self.last = self.y[i]", "`self.last` is kept from the item that was read"),
        ("x = self.y.pop(i)\n        self.y.append(x)", "changes the dataset's length"),
        ("x = self.number()\n\n    def number(self):\n        self.n += 1\n        x = self.n", "`self.n` counts"),
    ],
)
@pytest.mark.parametrize("sharded", [False, True])
def test_an_item_that_goes_by_what_was_read_before(body: str, why: str, sharded: bool) -> None:
    loader = LOADER
    if sharded:
        loader = LOADER.replace("=4", "=4, sampler=DistributedSampler(val_set, shuffle=False)")
    assert why in outcome(f"{DATA}        {body}\n        return x\n{loader}{LOOP}")


@pytest.mark.parametrize(
    "dataset", ["Subset(Data(9), range(4))", "random_split(Data(9), [5, 4])[0]", "ready()[1]", "build(Data(9))"]
)
def test_a_dataset_is_followed_to_its_class(dataset: str) -> None:
    made = "def build(data):\n    return Subset(data, range(4))\n"
    text = f"{DATA}        self.n += 1\n        return self.n\n{made}val_set = {dataset}\n"
    if dataset.startswith("ready"):
        text = text.replace("val_set = ready()[1]", "def ready():\n    return 1, Data(9)\n_, val_set = ready()")
    elif "split" in dataset:
        text = text.replace(f"val_set = {dataset}", f"val_set, _ = {dataset[:-3]}")
    found = outcome(text + "val_loader = DataLoader(val_set, batch_size=4)\n" + LOOP)
    assert "`self.n` counts what was read" in found or dataset.startswith("build")


@pytest.mark.parametrize(
    "draw", ["torch.rand(1)", "random.choice(self.y)", "self.y[np.random.randint(3)]", "noise()", "self.noise()"]
)
def test_an_item_that_is_drawn_anew_is_shared_out_only_where_that_is_asked_for(draw: str) -> None:
    made = "def noise():\n    return random.random()\n"
    text = f"{made}{DATA}        return self.y[i] + {draw}\n    def noise(self):\n        return torch.randn(1)\n"
    text += LOADER + LOOP
    assert "draws anew for each item that is read" in outcome(text)
    (change,) = planned(HEAD + text, Options(sanitizer="off", unsafe=True)).changes
    assert change.tier == "unsafe"
    assert "draws anew for each item that is read" in change.reason


@pytest.mark.parametrize(
    "change",
    [
        "val_set.y = val_set.y[:5]\n",
        "val_set.y += [1]\n",
        "val_set.y.append(1)\n",
        "del val_set.y[3:]\n",
        "val_set.refresh()\n",
        "val_loader.dataset.y = []\n",
        "for epoch in range(3):\n    val_set.refresh()\n",
    ],
)
def test_a_length_that_changes_after_the_loader_is_built(change: str) -> None:
    assert "the dataset's length is changed after the loader is built" in outcome(PLAIN + LOADER + change + LOOP)
    assert (
        outcome(PLAIN + LOADER.replace("\nval_loader", f"\n{change}val_loader") + LOOP) == "safe" or "loader" in change
    )


@pytest.mark.parametrize(
    "change",
    ["val_set.transform = None\n", "val_set.y[3] = 1\n", "val_loader.dataset.train = False\n", "n = val_set.n\n"],
)
def test_what_does_not_change_the_length(change: str) -> None:
    assert outcome(PLAIN + LOADER + change + LOOP) == "safe"


def test_tasks_that_are_dealt_to_the_ranks() -> None:
    inner = "def evaluate(loader, task):\n    total = 0\n    with torch.no_grad():\n        for x, y in loader:\n"
    inner += "            total += y.size(0)\n    return total\n"
    dealt = "tasks = DataLoader(names, batch_size=2, sampler=DistributedSampler(names, shuffle=False))\n"
    around = "with torch.no_grad():\n    for task in tasks:\n        print(evaluate(val_loader, task))\n"
    text = HEAD + PLAIN + inner + LOADER + dealt + around

    for options in (None, Options(sanitizer="off", unsafe=True)):
        first, _ = planned(text, options).reports
        assert first.changes == ()
        assert "each rank is dealt other items of this loop" in first.why
    plain = dealt.replace(", sampler=DistributedSampler(names, shuffle=False)", "").replace("DataLoader", "list")
    assert "each rank is dealt" not in planned(text.replace(dealt, plain)).reports[0].why
