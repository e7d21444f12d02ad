"""A loader is followed to everything that uses it: through names, containers, attributes, parameters and returns."""

from __future__ import annotations

import pytest
from loaders import site, sites

HEAD = "from torch.utils.data import DataLoader\n"


def uses(text: str, *kinds: str) -> list[tuple[str, int]]:
    """The loader's uses as (kind, line), line 1 being the first after the import of DataLoader."""
    found = site(HEAD + text)
    return [(u.kind, u.node.lineno - 1) for u in found.flow.uses if not kinds or u.kind in kinds]  # type: ignore[attr-defined]


def iterated(text: str) -> list[int]:
    """The lines whose loops iterate the loader."""
    found = site(HEAD + text)
    lines = []
    for use in found.flow.of("iterate"):
        node = use.node if hasattr(use.node, "lineno") else use.value  # a comprehension's clause has no line
        lines.append(node.lineno - 1)  # type: ignore[attr-defined]
    return sorted(lines)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param("for b in DataLoader(d):\n    pass\n", [1], id="inline"),
        pytest.param("x = DataLoader(d)\nfor b in x:\n    pass\n", [2], id="a name"),
        pytest.param("x = DataLoader(d)\ny = x\nfor b in y:\n    pass\n", [3], id="another name"),
        pytest.param("x = DataLoader(d)\nx = 1\nfor b in x:\n    pass\n", [], id="the name is bound anew"),
        pytest.param("x = DataLoader(d)\nfor i, b in enumerate(x):\n    pass\n", [2], id="enumerate"),
        pytest.param("x = DataLoader(d)\nfor b in tqdm(x, desc='a'):\n    pass\n", [2], id="a progress bar"),
        pytest.param(
            "x = DataLoader(d)\nbar = tqdm(x)\nfor b in bar:\n    pass\n", [3], id="a progress bar with a name"
        ),
        pytest.param("x = DataLoader(d)\nfor a, b in zip(x, y):\n    pass\n", [2], id="zip"),
        pytest.param("x = DataLoader(d)\nr = [f(b) for b in x]\n", [2], id="a comprehension"),
        pytest.param("a, x = 1, DataLoader(d)\nfor b in x:\n    pass\n", [2], id="a tuple written out"),
        pytest.param("a, x = 1, DataLoader(d)\nfor b in a:\n    pass\n", [], id="its neighbour in the tuple"),
        pytest.param('x = {"train": DataLoader(d)}\nfor b in x["train"]:\n    pass\n', [2], id="a dict"),
        pytest.param('x = {"train": DataLoader(d), "val": 1}\nfor b in x["val"]:\n    pass\n', [], id="another key"),
        pytest.param(
            'x = {p: DataLoader(d) for p in ("train", "val")}\nfor b in x["val"]:\n    pass\n',
            [2],
            id="a dict of loaders",
        ),
        pytest.param('x = {}\nx["a"] = DataLoader(d)\nfor b in x["a"]:\n    pass\n', [3], id="put into a dict"),
        pytest.param("x = []\nx.append(DataLoader(d))\nfor l in x:\n    for b in l:\n        pass\n", [4], id="a list"),
        pytest.param(
            'x = {"a": DataLoader(d)}\nfor k, l in x.items():\n    for b in l:\n        pass\n', [3], id="dict items"
        ),
        pytest.param(
            "def make():\n    return DataLoader(d)\nx = make()\nfor b in x:\n    pass\n",
            [4],
            id="returned by a factory",
        ),
        pytest.param(
            "def make():\n    return 1, DataLoader(d)\na, x = make()\nfor b in x:\n    pass\n",
            [4],
            id="a returned tuple",
        ),
        pytest.param(
            "def make():\n    return 1, DataLoader(d)\na, x = make()\nfor b in a:\n    pass\n", [], id="its other item"
        ),
        pytest.param(
            "def run(l):\n    for b in l:\n        pass\nrun(DataLoader(d))\n", [2], id="handed to a function"
        ),
        pytest.param(
            "def run(a, l=None):\n    for b in l:\n        pass\nrun(1, l=DataLoader(d))\n", [2], id="handed by keyword"
        ),
        pytest.param(
            "class T:\n    def __init__(self):\n        self.l = DataLoader(d)\n"
            "    def run(self):\n        for b in self.l:\n            pass\n",
            [5],
            id="an attribute of self",
        ),
        pytest.param(
            "class T:\n    def __init__(self):\n        self.l = DataLoader(d)\n"
            "class U:\n    def run(self):\n        for b in self.l:\n            pass\n",
            [],
            id="another class's attribute",
        ),
        pytest.param(
            "class T:\n    def __init__(self, l):\n        self.l = l\n"
            "    def run(self):\n        for b in self.l:\n            pass\nT(DataLoader(d)).run()\n",
            [5],
            id="through a constructor",
        ),
        pytest.param(
            "class T:\n    @property\n    def l(self):\n        return DataLoader(d)\n"
            "    def run(self):\n        for b in self.l:\n            pass\n",
            [6],
            id="a property",
        ),
        pytest.param("x = DataLoader(d) if a else None\nfor b in x:\n    pass\n", [2], id="a conditional expression"),
        pytest.param("if (x := DataLoader(d)):\n    for b in x:\n        pass\n", [2], id="walrus"),
    ],
)
def test_loops_over_the_loader(text: str, lines: list[int]) -> None:
    assert iterated(text) == lines


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("x = DataLoader(d)\nn = len(x)\n", [("length", 2)], id="its length"),
        pytest.param("x = DataLoader(d)\nb = next(iter(x))\n", [("next", 2)], id="next"),
        pytest.param("x = DataLoader(d)\nx.sampler\n", [("attribute", 2)], id="an attribute"),
        pytest.param("x = DataLoader(d)\nother.fit(x)\n", [("argument", 2)], id="handed to unseen code"),
        pytest.param("def make():\n    return DataLoader(d)\n", [("returned", 1)], id="returned to unseen code"),
        pytest.param("f = lambda: DataLoader(d)\n", [("escape", 1)], id="in a lambda"),
        pytest.param("DataLoader(d)\n", [("discarded", 1)], id="dropped"),
        pytest.param("x = DataLoader(d)\nprint(x)\nisinstance(x, T)\n", [], id="looked at"),
        pytest.param("x = DataLoader(d)\nsanitize(x)\n", [("sanitize", 2), ("discarded", 2)], id="checked"),
    ],
)
def test_other_uses_of_the_loader(text: str, expected: list[tuple[str, int]]) -> None:
    assert uses(text) == expected


def test_recursion_ends() -> None:
    assert iterated("def run(l):\n    run(l)\n    for b in l:\n        pass\nrun(DataLoader(d))\n") == [3]


BRANCHES = (
    "def make(d, train, mode='a'):\n    if train:\n        one = DataLoader(d)\n        return one, 1\n"
    "    two = DataLoader(d)\n    if mode == 'b':\n        raise ValueError\n    return two\n"
)


@pytest.mark.parametrize(
    ("call", "lines"),
    [
        pytest.param("make(d, True)", [[11], []], id="the one that is asked for"),
        pytest.param("make(d, train=False)", [[], [11]], id="the other one"),
        pytest.param("make(d, args.train)", [[11], [11]], id="either"),
    ],
)
def test_a_call_gets_what_it_asks_for(call: str, lines: list[list[int]]) -> None:
    found = sites(HEAD + BRANCHES + f"x = {call}\nuse(x[0], x)\n")
    assert [sorted({u.node.lineno for u in s.flow.uses if u.node.lineno > 10}) for s in found] == lines
