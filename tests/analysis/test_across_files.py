"""A loader is followed into the other files of its project: by what they import, call, return, keep and derive from."""

from __future__ import annotations

import pytest
from loaders import site

TORCH = "from torch.utils.data import DataLoader\n"
MAKE = TORCH + "def make(d):\n    return DataLoader(d)\n"
LOOP = "for batch in loader:\n    pass\n"


def read(files: dict[str, str], path: str) -> list[str]:
    """Where the loops stand that iterate the one loader of a file."""
    found = site(files, path)
    return sorted(str(found.module.location(u.node)).rpartition(":")[0] for u in found.flow.of("iterate"))


@pytest.mark.parametrize(
    ("files", "loops"),
    [
        pytest.param(
            {"data.py": MAKE, "train.py": f"from data import make\nloader = make(d)\n{LOOP}"},
            ["train.py:3"],
            id="a script imports its sibling",
        ),
        pytest.param(
            {"data.py": MAKE, "train.py": f"from data import make as build\nloader = build(d)\n{LOOP}"},
            ["train.py:3"],
            id="under another name",
        ),
        pytest.param(
            {"data.py": MAKE, "train.py": f"import data\nloader = data.make(d)\n{LOOP}"},
            ["train.py:3"],
            id="through the module",
        ),
        pytest.param(
            {"data.py": MAKE, "train.py": f"from data import *\nloader = make(d)\n{LOOP}"},
            ["train.py:3"],
            id="by a star",
        ),
        pytest.param(
            {"pkg/data.py": MAKE, "pkg/train.py": f"from .data import make\nloader = make(d)\n{LOOP}"},
            ["pkg/train.py:3"],
            id="a relative import",
        ),
        pytest.param(
            {
                "pkg/__init__.py": "from .data import make\n",
                "pkg/data.py": MAKE,
                "train.py": f"from pkg import make\nloader = make(d)\n{LOOP}",
            },
            ["train.py:3"],
            id="through its package",
        ),
        pytest.param(
            {"src/pkg/data.py": MAKE, "scripts/train.py": f"from pkg.data import make\nloader = make(d)\n{LOOP}"},
            ["scripts/train.py:3"],
            id="a src layout",
        ),
        pytest.param(
            {"a/src/pkg/data.py": MAKE, "a/bin/train.py": f"from pkg.data import make\nloader = make(d)\n{LOOP}"},
            ["a/bin/train.py:3"],
            id="a src layout in a folder",
        ),
        pytest.param(
            {"src/data.py": MAKE, "train.py": f"from src.data import make\nloader = make(d)\n{LOOP}"},
            ["train.py:3"],
            id="a package called src",
        ),
        pytest.param(
            {
                "data.py": MAKE,
                "a/data.py": "def make(d):\n    return d\n",
                "a/train.py": f"from data import make\nloader = make(d)\n{LOOP}",
            },
            [],
            id="the nearer file of that name is meant",
        ),
    ],
)
def test_what_imports_the_factory_reads_its_loader(files: dict[str, str], loops: list[str]) -> None:
    assert read(files, next(path for path, text in files.items() if "DataLoader" in text)) == loops


@pytest.mark.parametrize(
    ("data", "train", "loops"),
    [
        pytest.param(
            "def make(d):\n    return DataLoader(d), 1\n",
            "from data import make\nloader, other = make(d)\nfor b in other:\n    pass\n" + LOOP,
            ["train.py:5"],
            id="a place in a tuple",
        ),
        pytest.param(
            'def make(d):\n    return {"train": DataLoader(d), "val": 1}\n',
            'from data import make\nx = make(d)\nfor b in x["val"]:\n    pass\nfor b in x["train"]:\n    pass\n',
            ["train.py:5"],
            id="a key of a dict",
        ),
        pytest.param(
            "loader = DataLoader(d)\n",
            "from data import loader\n" + LOOP,
            ["train.py:2"],
            id="a variable",
        ),
        pytest.param(
            "loader = DataLoader(d)\n",
            "import data\nfor b in data.loader:\n    pass\n",
            ["train.py:2"],
            id="a variable through its module",
        ),
        pytest.param(
            "loader = DataLoader(d)\nloader = None\n",
            "from data import loader\n" + LOOP,
            [],
            id="a variable that is bound anew before anyone imports it",
        ),
        pytest.param(
            "class Data:\n    def __init__(self, d):\n        self.loader = DataLoader(d)\n",
            "from data import Data\nfound = Data(d)\nfor b in found.loader:\n    pass\n",
            ["train.py:3"],
            id="an attribute of an object",
        ),
        pytest.param(
            "class Data:\n    def __init__(self, d):\n        self.loader = DataLoader(d)\n",
            "from data import Data\nclass A(Data):\n    def run(self):\n        for b in self.loader:\n            b\n",
            ["train.py:4"],
            id="an attribute in a derived class",
        ),
        pytest.param(
            "class Data:\n    def __init__(self, d):\n        self.loader = DataLoader(d)\n",
            "class Other:\n    pass\nfound = Other()\nfor b in found.loader:\n    pass\n",
            [],
            id="an attribute of that name of another class",
        ),
        pytest.param(
            "class Data:\n    @property\n    def loader(self):\n        return DataLoader(self.d)\n",
            "from data import Data\ndef fit(found: Data):\n    for b in found.loader:\n        pass\n",
            ["train.py:3"],
            id="a property of an object of which the annotation says the class",
        ),
        pytest.param(
            "class Data:\n    def loader(self):\n        return DataLoader(self.d)\n",
            "from data import Data\nclass Trainer:\n    def __init__(self):\n        self.data = Data()\n"
            "    def fit(self):\n        for b in self.data.loader():\n            pass\n",
            ["train.py:6"],
            id="a method of an object that is kept",
        ),
        pytest.param(
            "from engine import fit\nloader = DataLoader(d)\nfit(model, loader)\n",
            "",
            ["engine.py:3"],
            id="a function of another file reads it",
        ),
        pytest.param(
            "import engine\nloader = DataLoader(d)\nengine.fit(model, data=loader)\n",
            "",
            ["engine.py:3"],
            id="by a keyword, through the module",
        ),
        pytest.param(
            "from engine import Engine\nloader = DataLoader(d)\nEngine(loader).run()\n",
            "",
            ["engine.py:12"],
            id="a class of another file keeps and reads it",
        ),
        pytest.param(
            "from engine import Loaders\nloaders = Loaders(DataLoader(d), val=None)\n",
            "def run(loaders):\n    for b in loaders.train:\n        pass\nfrom data import loaders\nrun(loaders)\n",
            ["train.py:2"],
            id="a field of a data class",
        ),
    ],
)
def test_what_holds_the_loader_is_known_in_other_files(data: str, train: str, loops: list[str]) -> None:
    engine = (
        "from dataclasses import dataclass\n"
        "def fit(model, data):\n    for b in data:\n        pass\n"
        "class Base:\n    def run(self):\n        self.epoch()\n"
        "class Engine(Base):\n"
        "    def __init__(self, loader):\n        self.loader = loader\n"
        "    def epoch(self):\n        for b in self.loader:\n            pass\n"
        "@dataclass\nclass Loaders:\n    train: object\n    val: object\n"
    )
    assert read({"data.py": TORCH + data, "train.py": train, "engine.py": engine}, "data.py") == loops


def test_what_a_function_returns_comes_back_to_the_call_that_handed_it_over() -> None:
    """Not to every call of a function that many loaders go through."""
    files = {
        "wrap.py": "def wrap(loader):\n    return loader\n",
        "train.py": TORCH
        + "from wrap import wrap\nfor b in wrap(DataLoader(d)):\n    pass\nfor b in wrap(x):\n    pass\n",
    }
    assert read(files, "train.py") == ["train.py:3"]


def test_a_loader_handed_to_what_is_not_read_says_to_what() -> None:
    found = site(TORCH + "from engine import fit\nfit(DataLoader(d))\n")
    assert found.flow.lost == {"engine.fit"}
    assert [u.kind for u in found.flow.uses] == ["argument"]


ACCELERATOR = "from accelerate import Accelerator\naccelerator = Accelerator()\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "class Trainer:\n    def __init__(self):\n        self.accelerator = Accelerator()\n"
            "        self.loader = DataLoader(d)\n"
            "    def setup(self):\n        self.loader = self.accelerator.prepare(self.loader)\n"
            "    def fit(self):\n        for b in self.loader:\n            pass\n",
            id="an attribute that another method replaces",
        ),
        pytest.param(
            "a, b = map(accelerator.prepare, [DataLoader(d), x])\nfor batch in a:\n    pass\n", id="mapped over a list"
        ),
    ],
)
def test_what_prepare_returns_takes_the_loaders_place(text: str) -> None:
    found = site(TORCH + ACCELERATOR + text)
    assert [u.prepared is not None for u in found.flow.of("iterate")] == [True]
    assert found.owner == "accelerate"


@pytest.mark.parametrize(
    ("data", "loop"),
    [
        pytest.param(
            "from collections import namedtuple\nLoaders = namedtuple('Loaders', 'train val')\n"
            "def make(d):\n    return Loaders(DataLoader(d), other)\n",
            "for batch in make(d).train:\n    pass\n",
            id="a named tuple, by name",
        ),
        pytest.param(
            "from collections import namedtuple\nLoaders = namedtuple('Loaders', ['val', 'train'])\n"
            "def make(d):\n    return Loaders(train=DataLoader(d), val=other)\n",
            "_, loader = make(d)\nfor batch in loader:\n    pass\n",
            id="a named tuple, by position",
        ),
        pytest.param(
            "from types import SimpleNamespace\n"
            "def make(d):\n    return SimpleNamespace(train=DataLoader(d), val=other)\n",
            "loaders = make(d)\nfor batch in loaders.train:\n    pass\n",
            id="a namespace",
        ),
        pytest.param(
            "class Building:\n    def build(self):\n        self.train = DataLoader(d)\n",
            "from data import Building\nclass Looping:\n    def fit(self):\n        for batch in self.train:\n"
            "            pass\nclass Trainer(Building, Looping):\n    pass\n",
            id="two bases of one class",
        ),
    ],
)
def test_a_loader_kept_under_a_name_is_read_by_that_name(data: str, loop: str) -> None:
    files = {"data.py": TORCH + data, "train.py": "from data import *\n" + loop}
    assert len(read(files, "data.py")) == 1
    files["train.py"] = files["train.py"].replace("train", "val")
    assert read(files, "data.py") == ([] if "train" in loop else ["train.py:3"])


def prepared(files: dict[str, str]) -> list[bool]:
    """Whether the loops over the loader of data.py read what prepare() returned."""
    found = site(files, "data.py")
    return sorted({u.prepared is not None for u in found.flow.of("iterate")})


BASE = (
    TORCH + "class Base:\n    def __init__(self, d):\n        self.loader = DataLoader(d)\n        self.setup()\n"
    "    def setup(self):\n        pass\n    def fit(self):\n        for b in self.loader:\n            pass\n"
)
FULL = (
    "from accelerate import Accelerator\nfrom data import Base\n"
    "class Full(Base):\n    def setup(self):\n        self.loader = Accelerator().prepare(self.loader)\n"
)


@pytest.mark.parametrize(
    ("use", "found"),
    [
        pytest.param("Full(d).fit()\n", [True], id="the class that prepares it is the one that is made"),
        pytest.param(
            "Full(d).fit()\nclass Plain(Base):\n    pass\nPlain(d).fit()\n", [False, True], id="another is, too"
        ),
        pytest.param("Full(d).fit()\nBase(d).fit()\n", [False, True], id="so is the base"),
    ],
)
def test_a_derived_class_prepares_for_its_own_instances(use: str, found: list[bool]) -> None:
    assert prepared({"data.py": BASE, "train.py": FULL + use}) == found


def test_a_helper_that_prepares_whatever_it_is_given() -> None:
    files = {
        "utils.py": "def prepare_all(accelerator, *objects):\n    return accelerator.prepare(*objects)\n",
        "data.py": TORCH + ACCELERATOR + "from utils import prepare_all\n"
        "model, loader = prepare_all(accelerator, m, DataLoader(d))\n"
        "for b in model:\n    pass\nfor b in loader:\n    pass\n",
    }
    assert read(files, "data.py") == ["data.py:8"]
    assert prepared(files) == [True]


def test_the_fields_of_an_object_are_prepared_in_place() -> None:
    files = {
        "bundle.py": "from dataclasses import dataclass\n"
        "@dataclass\nclass Bundle:\n    train: object\n    val: object\n",
        "data.py": TORCH + ACCELERATOR + "from bundle import Bundle\nfrom loop import run\n"
        "bundle = Bundle(DataLoader(d), x)\n"
        "model, bundle.train, bundle.val = accelerator.prepare(m, bundle.train, bundle.val)\nrun(bundle)\n",
        "loop.py": "from bundle import Bundle\ndef run(bundle: Bundle):\n    for b in bundle.train:\n        pass\n",
    }
    assert prepared(files) == [True]


def test_of_several_importers_the_first_by_name_is_named() -> None:
    start = "import torch.distributed as dist\ndef start():\n    dist.init_process_group()\n"
    importers = {f"{name}.py": "from start import start\nimport data\ndef go():\n    start()\n" for name in "hgfedcba"}
    files = {"data.py": TORCH + "def make(d):\n    return DataLoader(d)\n", "start.py": start, **importers}
    found = site(files, "data.py")
    assert "a.py imports this module" in found.ownership.missing
