"""A sampler's arms are all the values it may have, each with the assignments and the condition that choose it."""

from __future__ import annotations

import pytest
from loaders import site

HEAD = (
    "from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler, SubsetRandomSampler\n"
    "from torch.utils.data import WeightedRandomSampler\n"
    "from torch.utils.data.distributed import DistributedSampler\n"
)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        pytest.param("DataLoader(d)\n", [], id="none given"),
        pytest.param("DataLoader(d, sampler=None)\n", ["none"], id="None given"),
        pytest.param("DataLoader(d, sampler=SequentialSampler(d))\n", ["sequential"], id="constructor"),
        pytest.param("DataLoader(d, 8, False, DistributedSampler(d))\n", ["distributed"], id="by position"),
        pytest.param("s = RandomSampler(d)\nDataLoader(d, sampler=s)\n", ["random"], id="variable"),
        pytest.param(
            "s = RandomSampler(d)\nt = s\nDataLoader(d, sampler=t)\n", ["random"], id="variable of a variable"
        ),
        pytest.param(
            "s = DistributedSampler(d) if a else None\nDataLoader(d, sampler=s)\n",
            ["distributed", "none"],
            id="conditional expression",
        ),
        pytest.param(
            "s = A(d) if a else RandomSampler(d) if b else None\nDataLoader(d, sampler=s)\n",
            ["custom", "random", "none"],
            id="nested conditional expression",
        ),
        pytest.param(
            "if a:\n    s = DistributedSampler(d)\nelse:\n    s = RandomSampler(d)\nDataLoader(d, sampler=s)\n",
            ["distributed", "random"],
            id="if and else",
        ),
        pytest.param(
            "s = None\nif a:\n    s = DistributedSampler(d)\nDataLoader(d, sampler=s)\n",
            ["none", "distributed"],
            id="None, and a sampler under a condition",
        ),
        pytest.param(
            "s = RandomSampler(d)\ns = DistributedSampler(d)\nDataLoader(d, sampler=s)\n",
            ["distributed"],
            id="assigned anew",
        ),
        pytest.param(
            'kw = {"sampler": RandomSampler(d)}\nDataLoader(d, **kw)\n', ["random"], id="in a dict of arguments"
        ),
        pytest.param("def f(s):\n    DataLoader(d, sampler=s)\n", ["parameter"], id="parameter"),
        pytest.param("DataLoader(d, sampler=make(d))\n", ["unknown"], id="a factory"),
        pytest.param("DataLoader(d, sampler=Own(d))\n", ["custom"], id="a class that is not seen"),
        pytest.param("DataLoader(d, sampler=make(d, rank, world_size))\n", ["custom"], id="told rank and size"),
        pytest.param("a, s = make(d)\nDataLoader(d, sampler=s)\n", ["unknown"], id="an item of a factory's result"),
        pytest.param("DataLoader(d, sampler=samplers[0])\n", ["unknown"], id="an item"),
        pytest.param("DataLoader(d, sampler=WeightedRandomSampler(w, 8))\n", ["weighted"], id="weighted"),
        pytest.param("DataLoader(d, sampler=SubsetRandomSampler(i))\n", ["subset-random"], id="subset"),
        pytest.param(
            "class C:\n    def f(self):\n        self.s = RandomSampler(d)\n"
            "    def g(self):\n        DataLoader(d, sampler=self.s)\n",
            ["random"],
            id="an attribute that another method sets",
        ),
        pytest.param("s = s if a else None\nDataLoader(d, sampler=s)\n", ["unknown", "none"], id="never bound"),
    ],
)
def test_the_arms_of_a_sampler(text: str, kinds: list[str]) -> None:
    assert [arm.kind for arm in site(HEAD + text).arms] == kinds


RANK_AWARE = "class Mine(DistributedSampler):\n    pass\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(RANK_AWARE + "DataLoader(d, sampler=Mine(d))\n", [("custom", True)], id="a subclass"),
        pytest.param(
            "class Mine:\n    pass\nDataLoader(d, sampler=Mine(d))\n", [("custom", False)], id="another class"
        ),
        pytest.param(
            "from timm.data import OrderedDistributedSampler\nDataLoader(d, sampler=OrderedDistributedSampler(d))\n",
            [("custom", True)],
            id="a library's by its name",
        ),
        pytest.param(
            "def make(d):\n    return RandomSampler(d)\nDataLoader(d, sampler=make(d))\n",
            [("random", False)],
            id="a function called once gives its own arms",
        ),
        pytest.param(
            "def make(d):\n    if a:\n        return DistributedSampler(d)\n    return None\n"
            "s = make(d)\nDataLoader(d, sampler=s)\n",
            [("distributed", False), ("none", False)],
            id="each return is an arm",
        ),
        pytest.param(
            "def make(d):\n    return DistributedSampler(d)\nmake(e)\nDataLoader(d, sampler=make(d))\n",
            [("unknown", True)],
            id="a function that others call too",
        ),
        pytest.param(
            "def make(d, shuffle):\n    return DistributedSampler(d, shuffle=shuffle)\n"
            "DataLoader(d, sampler=make(d, True))\n",
            [("unknown", True)],
            id="settings that the function is given",
        ),
        pytest.param(
            "def make(d, n):\n    return RandomSampler(d, num_samples=n)\nDataLoader(d, sampler=make(d, 4))\n",
            [("custom", False)],
            id="a function that makes no sampler that knows the rank",
        ),
        pytest.param(
            "def make(s):\n    return s\nDataLoader(d, sampler=make(t))\n", [("unknown", False)], id="what it was given"
        ),
    ],
)
def test_what_makes_the_sampler_is_looked_into(text: str, expected: list[tuple[str, bool]]) -> None:
    assert [(arm.kind, arm.rank_aware) for arm in site(HEAD + text).arms] == expected


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ("class make(DistributedSampler):\n    pass\n", [("custom", True)]),
        ("def make(d):\n    return DistributedSampler(d)\n", [("distributed", False)]),
        ("def make(d, n=None):\n    return RandomSampler(d, num_samples=n)\n", [("custom", False)]),
        ("def make(d):\n    return RandomSampler(d)\nmake(0)\n", [("custom", False)]),
    ],
)
def test_what_makes_the_sampler_in_another_file_is_looked_into(made: str, expected: list[tuple[str, bool]]) -> None:
    files = {
        "samplers.py": HEAD + made,
        "train.py": HEAD + "from samplers import make\nDataLoader(d, sampler=make(d))\n",
    }
    assert [(arm.kind, arm.rank_aware) for arm in site(files).arms] == expected


def test_a_conditional_arm_knows_its_condition() -> None:
    found = site(HEAD + "s = RandomSampler(d) if rank == -1 else DistributedSampler(d)\nDataLoader(d, sampler=s)\n")
    source = found.module.source.source
    assert [(a.label, source(a.test) if a.test else "", a.when) for a in found.arms] == [
        ("RandomSampler", "rank == -1", True),
        ("DistributedSampler", "rank == -1", False),
    ]


def test_an_arm_knows_the_assignments_it_came_through_the_nearest_first() -> None:
    found = site(HEAD + "s = RandomSampler(d)\nt = s\nDataLoader(d, sampler=t)\n")
    (arm,) = found.arms
    assert [d.key for d in arm.definitions] == ["t", "s"]


def test_arguments_of_an_arm_bind_by_its_signature() -> None:
    found = site(HEAD + "DataLoader(d, sampler=DistributedSampler(d, 4, dist.get_rank(), False))\n")
    (arm,) = found.arms
    assert (arm.constant("num_replicas"), arm.constant("rank"), arm.constant("shuffle")) == (4, ..., False)
    assert arm.constant("seed") is None


def test_a_batch_sampler_holds_the_arms_of_its_sampler() -> None:
    found = site(HEAD + "DataLoader(d, batch_sampler=BatchSampler(RandomSampler(d), 8, False))\n")
    (batch,) = found.batch_arms
    assert (batch.kind, [a.kind for a in batch.inner]) == ("batch", ["random"])
    assert found.sampler == "batch_sampler=BatchSampler(RandomSampler)"


def test_the_sampler_in_words() -> None:
    text = "s = RandomSampler(d) if a else DistributedSampler(d)\nDataLoader(d, sampler=s)\n"
    assert site(HEAD + text).sampler == "RandomSampler | DistributedSampler"
    assert site(HEAD + "DataLoader(d, shuffle=True)\n").sampler == "default, shuffle=True"
    assert site(HEAD + "DataLoader(d)\n").sampler == "default"
    assert site(HEAD + "DataLoader(d, **make())\n").sampler == "not seen (**make())"


@pytest.mark.parametrize(
    ("text", "sampler"),
    [
        pytest.param(
            "def build(d, s):\n    return DataLoader(d, sampler=s)\n"
            "build(a, RandomSampler(a))\nbuild(b, RandomSampler(b))\n",
            "RandomSampler",
            id="callers that agree",
        ),
        pytest.param(
            "def build(d, s=None):\n    return DataLoader(d, sampler=s)\nbuild(a, RandomSampler(a))\nbuild(b)\n",
            "parameter s",
            id="callers that do not",
        ),
        pytest.param(
            "def build(d, s):\n    return DataLoader(d, sampler=s)\nbuild(*both)\n",
            "parameter s",
            id="a caller not seen",
        ),
        pytest.param(
            "def build(d, s):\n    return DataLoader(d, sampler=s)\n"
            "build(a, RandomSampler(a))\npool.submit(build, b, t)\n",
            "parameter s",
            id="a caller out of sight",
        ),
        pytest.param(
            "def both(a, b):\n    return RandomSampler(a), DistributedSampler(b)\n_, s = both(a, b)\n"
            "DataLoader(b, sampler=s)\n",
            "DistributedSampler",
            id="one of two that a function returns",
        ),
        pytest.param(
            "samplers = [RandomSampler(a), DistributedSampler(b)]\nfor d, s in zip([a, b], samplers):\n"
            "    DataLoader(d, sampler=s)\n",
            "RandomSampler | DistributedSampler",
            id="a list beside another",
        ),
        pytest.param(
            "samplers = [RandomSampler(a)]\nsamplers.append(s)\nfor s in samplers:\n    DataLoader(d, sampler=s)\n",
            "s?",
            id="a list that grows",
        ),
        pytest.param(
            "class Base:\n    def __init__(self, d):\n        self.s = RandomSampler(d)\n"
            "class T(Base):\n    def run(self):\n        DataLoader(d, sampler=self.s)\n",
            "RandomSampler",
            id="an attribute of the base class",
        ),
        pytest.param(
            "def make(d, mode):\n    if mode:\n        return RandomSampler(d, num_samples=mode)\n"
            "    return DistributedSampler(d)\nDataLoader(d, sampler=make(d, 1))\n",
            "make?(RandomSampler | DistributedSampler)",
            id="what a function may return, by what it is given",
        ),
    ],
)
def test_a_sampler_is_followed_to_what_makes_it(text: str, sampler: str) -> None:
    assert site(HEAD + text).sampler == sampler


def test_a_copy_of_distributed_sampler_takes_its_rank_s_part() -> None:
    text = "class Mine(Sampler):\n    def __init__(self, d, num_replicas=None, rank=None):\n        pass\n"
    (arm,) = site(HEAD + text + "DataLoader(d, sampler=Mine(d))\n").arms
    assert (arm.kind, arm.rank_aware) == ("custom", True)
