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
            [("distributed", False)],
            id="a function that others call too",
        ),
        pytest.param(
            "def make(d, shuffle):\n    return DistributedSampler(d, shuffle=shuffle)\n"
            "DataLoader(d, sampler=make(d, True))\n",
            [("distributed", False)],
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
            "s?",
            id="a list of which some shard and others do not",
        ),
        pytest.param(
            "samplers = [RandomSampler(a), RandomSampler(b)]\nfor d, s in zip([a, b], samplers):\n"
            "    DataLoader(d, sampler=s)\n",
            "RandomSampler",
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


MAKE = (
    "def make(d, shuffle=True, distributed=False, order=None):\n"
    "    if not distributed:\n        return RandomSampler(d) if shuffle else SequentialSampler(d)\n"
    "    if order is not None:\n        return order\n"
    "    return DistributedSampler(d, shuffle=shuffle)\n"
    "make(e)\n"
)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        pytest.param("make(d, True, True)", [("distributed", True)], id="by position"),
        pytest.param("make(d, distributed=True, shuffle=False)", [("distributed", False)], id="by name"),
        pytest.param("make(d, distributed=True)", [("distributed", True)], id="by default"),
        pytest.param(
            "make(d, False, args.distributed)", [("sequential", None), ("distributed", False)], id="by the regime"
        ),
        pytest.param("make(d, args.shuffle, True)", [("distributed", ...)], id="settings that are not written out"),
        pytest.param("make(d)", [("unknown", None)], id="none that shards"),
        pytest.param("make(d, True, True, order)", [("unknown", None)], id="what it is given back, perhaps"),
        pytest.param("make(*these)", [("unknown", None)], id="given what is not seen"),
    ],
)
def test_what_a_function_makes_of_what_it_is_given(call: str, expected: list[tuple[str, object]]) -> None:
    found = site(HEAD + MAKE + f"DataLoader(d, sampler={call})\n").arms
    assert [(a.kind, a.constant("shuffle")) for a in found] == expected


def test_a_function_that_shards_in_one_mode_only_makes_what_is_not_seen() -> None:
    text = "def make(d, mode):\n    if mode == 1:\n        return RandomSampler(d)\n    return DistributedSampler(d)\n"
    kinds = {
        call: [a.kind for a in site(HEAD + text + f"make(e, 1)\nDataLoader(d, sampler={call})\n").arms]
        for call in ("make(d, 2)", "make(d, mode)", "make(d, 1)")
    }
    assert kinds == {"make(d, 2)": ["distributed"], "make(d, mode)": ["unknown"], "make(d, 1)": ["unknown"]}


def test_the_sampler_of_a_function_is_followed_from_the_call_that_makes_it() -> None:
    text = (
        "def make(d):\n    return DistributedSampler(d)\n"
        "a = make(d)\nb = make(e)\nDataLoader(d, sampler=a)\nb.set_epoch(1)\n"
    )
    assert site(HEAD + text).told == []
    assert len(site(HEAD + text.replace("b.set", "a.set")).told) == 1


LISTS = (
    "def make(datasets, shuffles):\n    samplers = []\n    for d, shuffle in zip(datasets, shuffles):\n"
    "        samplers.append(DistributedSampler(d, shuffle=shuffle))\n    return samplers\n"
    "def build(datasets, samplers):\n"
    "    return [DataLoader(d, sampler=s) for d, s in zip(datasets, samplers)]\n"
)


@pytest.mark.parametrize(
    ("text", "sampler"),
    [
        pytest.param("a, b = build([a, b], make([a, b], [True, False]))\n", "DistributedSampler", id="handed on"),
        pytest.param(
            "if args.distributed:\n    ss = make([a, b], [True, False])\nelse:\n    ss = [None] * 2\n"
            "a, b = build([a, b], ss)\n",
            "DistributedSampler | None",
            id="none in one process",
        ),
        pytest.param(
            "train_loader, val_loader = build([a, b], make([a], [True]) + [None])\n",
            "DistributedSampler",
            id="an evaluation without",
        ),
        pytest.param("one, two = build([a, b], make([a], [True]) + [None])\n", "s?", id="one without"),
        pytest.param(
            "val_loader, train_loader = build([a, b], make([a], [True]) + [None])\n", "s?", id="a training without"
        ),
        pytest.param("a, b = build(ds, [RandomSampler(d) for d in ds])\n", "s?", id="none that shards"),
        pytest.param("a, b = build([a, b], make([a], [True]) + rest)\n", "s?", id="joined with what is not seen"),
        pytest.param(
            "ss = make([a], [True])\nss.insert(0, s)\na, b = build([a, b], ss)\n", "s?", id="changed by its name"
        ),
    ],
)
def test_lists_of_samplers_are_followed(text: str, sampler: str) -> None:
    assert site(HEAD + LISTS + text).sampler == sampler


@pytest.mark.parametrize(
    ("text", "sampler"),
    [
        pytest.param(
            's = {"train": None, "dev": None}\nif args.distributed:\n    s["train"] = DistributedSampler(d)\n'
            '    s["dev"] = RandomSampler(e)\n',
            "None | DistributedSampler",
            id="stored under a condition",
        ),
        pytest.param('s = {}\ns["train"] = DistributedSampler(d)\n', "DistributedSampler", id="stored for good"),
        pytest.param(
            's = {"train": RandomSampler(d)}\ns["train"] = DistributedSampler(d)\n',
            "DistributedSampler",
            id="stored anew",
        ),
        pytest.param("s = dict(train=DistributedSampler(d))\n", "DistributedSampler", id="made with it"),
        pytest.param(
            's = {"train": None}\nfor k in names:\n    s[k] = DistributedSampler(d)\n',
            "None | DistributedSampler",
            id="stored under a name that is not written out",
        ),
        pytest.param('s = {"train": None}\ns.update(more)\n', 's["train"]?', id="changed out of sight"),
        pytest.param(
            'def fill(s):\n    s["train"] = RandomSampler(d)\ns = {"train": None}\nfill(s)\n',
            's["train"]?',
            id="filled by a function",
        ),
        pytest.param('s = {"dev": DistributedSampler(d)}\n', 's["train"]?', id="under another name"),
    ],
)
def test_dicts_of_samplers_are_followed(text: str, sampler: str) -> None:
    assert site(HEAD + text + 'DataLoader(d, sampler=s["train"])\n').sampler == sampler


WRAPS = (
    "class Turns:\n    def __init__(self, inner, n):\n        self.inner = inner\n"
    "    def __iter__(self):\n        for batch in self.inner:\n            yield batch\n"
)


@pytest.mark.parametrize(
    ("given", "sampler"),
    [
        ("Turns(DistributedSampler(d), 4)", "Turns(DistributedSampler)"),
        ("Turns(BatchSampler(DistributedSampler(d), 4, True), 4)", "Turns(DistributedSampler)"),
        ("Turns(BatchSampler(RandomSampler(d), 4, True), 4)", "Turns"),
        ("Turns(s, 4)", "Turns"),
    ],
)
def test_a_batch_sampler_around_one_that_shards_shards(given: str, sampler: str) -> None:
    assert site(HEAD + WRAPS + f"DataLoader(d, batch_sampler={given})\n").sampler == f"batch_sampler={sampler}"


def test_a_batch_sampler_that_does_not_iterate_what_it_is_made_with_is_its_own() -> None:
    text = WRAPS.replace("in self.inner", "in cut(self.inner)")
    assert site(HEAD + text + "DataLoader(d, batch_sampler=Turns(DistributedSampler(d), 4))\n").sampler.endswith(
        "=Turns"
    )


@pytest.mark.parametrize(
    "told",
    [
        "self.inner.sampler.set_epoch(3)",
        "s = self.inner.sampler if n else self.inner\n        s.set_epoch(3)",
    ],
)
def test_a_sampler_is_told_through_the_batch_samplers_around_it(told: str) -> None:
    text = WRAPS.replace("        for batch", f"        {told}\n        for batch")
    made = "BatchSampler(DistributedSampler(d), 4, True)"
    assert len(site(HEAD + text + f"DataLoader(d, batch_sampler=Turns({made}, 4))\n").told) == 1


def test_a_sampler_is_told_by_a_name_for_one_of_the_loaders_two() -> None:
    text = (
        "loader = DataLoader(d, sampler=DistributedSampler(d))\n"
        "s = loader.batch_sampler.sampler if batched else loader.sampler\ns.set_epoch(3)\n"
    )
    assert len(site(HEAD + text).told) == 1


def test_what_stands_behind_a_return_that_the_call_comes_to_is_not_made() -> None:
    text = "def make(d, own, s=None):\n    if own:\n        return DistributedSampler(d)\n    return s\nmake(e, True)\n"
    kinds = [[a.kind for a in site(HEAD + text + f"DataLoader(d, sampler=make(d, {own}))\n").arms] for own in (1, 0)]
    assert kinds == [["distributed"], ["unknown"]]
