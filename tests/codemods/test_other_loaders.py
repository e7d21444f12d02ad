"""A metric is put together only where its loop goes over nothing but loaders that are shared out with it."""

from __future__ import annotations

import pytest
from plans import PATH, codes, planned

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Options
from shardfix.planning import make_plan

HEAD = (
    "import random\nimport torch\nimport torch.distributed as dist\nfrom collections import namedtuple\n"
    "from contextlib import contextmanager\nfrom dataclasses import dataclass\n"
    "from torch.utils.data import DataLoader\ndist.init_process_group()\n"
    "val_loader = DataLoader(val_set, batch_size=4)\nother = make()\n"
    "@torch.no_grad()\ndef validate(model, loader):\n    model.eval()\n    n = 0\n    for x, y in loader:\n"
    "        n += (model(x).argmax(1) == y).sum().item()\n    return n\n"
)
RUN = "validate(model, {0})\n"
KEEPS = "class T:\n    def __init__(self):\n        self.loader = val_loader\n    def run(self):\n"
KEEPS += "        return validate(model, self.loader)\n"


def on_condition(line: str) -> str:
    return f"if args.small:\n    {line}\n"


CHOSEN = {
    "or": "args.loader or val_loader",
    "and or": "args.small and other or val_loader",
    "conditional": "other if args.small else val_loader",
    "dict by a setting": '{"val": val_loader, "test": other}[args.split]',
    "get with a default": '{"val": val_loader}.get(args.split, other)',
    "list by a setting": "[other, val_loader].pop(args.number)",
}


@pytest.mark.parametrize("value", [pytest.param(v, id=k) for k, v in CHOSEN.items()])
def test_what_is_chosen_where_it_is_handed_over(value: str) -> None:
    assert codes(HEAD + RUN.format(value)) == [["SHD904"]]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param('loaders["val"] = other', id="an item"),
        pytest.param("loaders[args.split] = other", id="some item"),
        pytest.param("loaders.update(val=other)", id="update by a keyword"),
        pytest.param('loaders.update({"val": other})', id="update by a dict"),
        pytest.param('loaders |= {"val": other}', id="augmented"),
        pytest.param('loaders.__setitem__("val", other)', id="a method by its name"),
        pytest.param("small(loaders)", id="in a function"),
    ],
)
def test_what_is_put_into_a_dict_later(change: str) -> None:
    small = 'def small(given):\n    given["val"] = other\n'
    text = HEAD + small + 'loaders = {"val": val_loader}\n' + on_condition(change) + RUN.format('loaders["val"]')
    assert codes(text) == [["SHD904"]]


@pytest.mark.parametrize(
    ("change", "taken"),
    [
        pytest.param("loaders.append(other)", "random.choice([0]) or loaders[-1]", id="appended"),
        pytest.param("loaders.insert(0, other)", "loaders[0]", id="inserted"),
        pytest.param("loaders[:] = [other]", "loaders[0]", id="a slice"),
        pytest.param("loaders[0] = other", "loaders[0]", id="an item"),
        pytest.param("del loaders[0]", "loaders[0]", id="deleted"),
        pytest.param("loaders.reverse()", "loaders[0]", id="turned"),
    ],
)
def test_what_is_done_to_a_list_later(change: str, taken: str) -> None:
    text = HEAD + "loaders = [val_loader]\n" + on_condition(change) + RUN.format(taken)
    assert codes(text) == [["SHD904"]]


LOOP = "    validate(model, loader)\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("for loader in [val_loader, other]:\n" + LOOP, id="a list"),
        pytest.param('for k, loader in {"a": val_loader, "b": other}.items():\n' + LOOP, id="items"),
        pytest.param('for loader in {"a": val_loader, "b": other}.values():\n' + LOOP, id="values"),
        pytest.param("for i, loader in enumerate((val_loader, other)):\n" + LOOP, id="enumerate"),
        pytest.param("for k, loader in zip('ab', (val_loader, other)):\n" + LOOP, id="zip"),
        pytest.param(
            "loaders = [val_loader]\nloaders.append(other)\nfor loader in loaders:\n" + LOOP, id="a list that grew"
        ),
        pytest.param(
            "def each():\n    yield val_loader\n    yield other\nfor loader in each():\n" + LOOP, id="a generator"
        ),
        pytest.param("for loader in [l for l in (val_loader, other)]:\n" + LOOP, id="a comprehension"),
    ],
)
def test_what_a_loop_goes_through(text: str) -> None:
    assert codes(HEAD + text) == [["SHD904"]]


SWAP = "def small():\n    global val_loader\n    val_loader = other\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(SWAP + on_condition("small()") + RUN.format("val_loader"), id="global"),
        pytest.param(on_condition('globals()["val_loader"] = other') + RUN.format("val_loader"), id="globals"),
        pytest.param("globals().update(val_loader=other)\n" + RUN.format("val_loader"), id="globals, updated"),
        pytest.param(
            "def main():\n    loader = val_loader\n    def small():\n        nonlocal loader\n        loader = other\n"
            "    small()\n    validate(model, loader)\nmain()\n",
            id="nonlocal",
        ),
        pytest.param(
            "def run(model, loader=other):\n    validate(model, loader)\nrun(model)\nrun(model, val_loader)\n",
            id="a default",
        ),
        pytest.param(
            "def get():\n    if args.small:\n        return other\n    return val_loader\n" + RUN.format("get()"),
            id="one of two returns",
        ),
        pytest.param(
            "def get():\n    if args.small:\n        return val_loader, other\n    return other, val_loader\n"
            "a, b = get()\n" + RUN.format("b"),
            id="one of two returns, as an item",
        ),
        pytest.param("l = val_loader\n" + on_condition("from data import l") + RUN.format("l"), id="imported"),
        pytest.param("l = val_loader\nfor l in [other]:\n    pass\n" + RUN.format("l"), id="the target of a loop"),
        pytest.param(
            "@contextmanager\ndef opened():\n    yield other\nl = val_loader\n"
            + on_condition("with opened() as l:\n        pass")
            + RUN.format("l"),
            id="the target of a context",
        ),
    ],
)
def test_what_a_name_stands_for_besides(text: str) -> None:
    assert codes(HEAD + text) == [["SHD904"]]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(KEEPS + "t = T()\n" + on_condition("t.loader = other") + "t.run()\n", id="from outside"),
        pytest.param(KEEPS + 't = T()\nsetattr(t, "loader", other)\nt.run()\n', id="setattr"),
        pytest.param(
            KEEPS + "t = T()\nfor k, v in more.items():\n    setattr(t, k, v)\nt.run()\n", id="setattr of any name"
        ),
        pytest.param(KEEPS + 't = T()\nt.__dict__["loader"] = other\nt.run()\n', id="in its dict"),
        pytest.param(KEEPS + "t = T()\nvars(t).update(loader=other)\nt.run()\n", id="by vars"),
        pytest.param(KEEPS + "t = T()\nfor t.loader in [other]:\n    pass\nt.run()\n", id="as the target of a loop"),
        pytest.param(
            KEEPS + "    def __getattribute__(self, name):\n        return other\nT().run()\n",
            id="what gives any attribute",
        ),
        pytest.param(
            "class Swap:\n    def called(self, trainer):\n        trainer.loader = other\n" + KEEPS + "T().run()\n",
            id="in a method of another class",
        ),
        pytest.param(
            KEEPS + "class S(T):\n    def __init__(self):\n        super().__init__()\n        self.loader = other\n"
            "T().run()\nS().run()\n",
            id="in a class that derives from it",
        ),
        pytest.param(
            "class T:\n    @property\n    def loader(self):\n        return other if args.small else val_loader\n"
            "    def run(self):\n        return validate(model, self.loader)\nT().run()\n",
            id="a property",
        ),
        pytest.param(
            "class T:\n    loader = other\ndef run(t):\n    if args.full:\n        t.loader = val_loader\n"
            "    validate(model, t.loader)\nrun(T())\n",
            id="set on a condition",
        ),
        pytest.param(
            "class T:\n    pass\ndef small(t):\n    t.loader = other\ndef run(t):\n    t.loader = val_loader\n"
            "    small(t)\n    validate(model, t.loader)\nrun(T())\n",
            id="set by what is called in between",
        ),
        pytest.param(
            "@dataclass\nclass T:\n    loader: object\nd = T(val_loader)\ne = T(loader=other)\n"
            "def run(t):\n    validate(model, t.loader)\nrun(d)\nrun(e)\n",
            id="a field of a data class",
        ),
    ],
)
def test_what_an_object_holds_besides(text: str) -> None:
    assert codes(HEAD + text) == [["SHD904"]]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(RUN.format("val_loader if args.full else None"), id="or none"),
        pytest.param(RUN.format('{"val": val_loader, "test": other}["val"]'), id="its item of a dict"),
        pytest.param(
            'loaders = {"val": val_loader}\nloaders["test"] = other\n' + RUN.format('loaders["val"]'), id="another item"
        ),
        pytest.param("loaders = [val_loader]\nloaders.append(other)\n" + RUN.format("loaders[0]"), id="behind it"),
        pytest.param("a, (b, c) = other, (val_loader, 3)\n" + RUN.format("b"), id="unpacked"),
        pytest.param("a, *b = val_loader, other, other\n" + RUN.format("val_loader"), id="unpacked beside it"),
        pytest.param(
            "def get():\n    return other, val_loader\na, b = get()\n" + RUN.format("b"),
            id="its item of what is returned",
        ),
        pytest.param(
            "for loader in [None, val_loader]:\n    if loader:\n        validate(model, loader)\n", id="in a list"
        ),
        pytest.param(
            "class T:\n    def __init__(self, loader, test):\n        self.loader = loader\n        self.test = test\n"
            "    def run(self):\n        return validate(model, self.loader)\nT(val_loader, other).run()\n",
            id="its attribute of an object",
        ),
        pytest.param(
            "class U:\n    def __init__(self):\n        self.loader = other\n" + KEEPS + "T().run()\nU()\n",
            id="an attribute of another class",
        ),
        pytest.param(KEEPS + "t = T()\nvars(t).update(vars(args))\nt.run()\n", id="an object that is given settings"),
        pytest.param(
            "class U:\n    pass\nu = U()\nu.loader = other\n" + KEEPS + "T().run()\n",
            id="set in an object of another class",
        ),
        pytest.param(
            "@dataclass\nclass T:\n    loader: object\n    test: object = None\nt = T(val_loader, test=other)\n"
            + RUN.format("t.loader"),
            id="its field of a data class",
        ),
        pytest.param(
            "class T:\n    pass\ndef small(t):\n    t.loader = other\ndef run(t):\n    small(t)\n"
            "    t.loader = val_loader\n    validate(model, t.loader)\nrun(T())\n",
            id="set anew behind that",
        ),
        pytest.param(
            "def main():\n    other_loader = other\n    def small():\n        nonlocal other_loader\n"
            "        other_loader = None\n    validate(model, val_loader)\nmain()\n",
            id="another name set elsewhere",
        ),
    ],
)
def test_a_loop_over_nothing_else(text: str) -> None:
    (change,) = planned(HEAD + text).changes
    assert (change.codes, change.tier) == (("SHD305",), "safe")


def test_two_loaders_of_one_loop_by_any_way_are_shared_out_together() -> None:
    test = "test_loader = DataLoader(test_set, batch_size=4)\n"
    text = HEAD + test + 'for k, l in {"val": val_loader, "test": test_loader}.items():\n    validate(model, l)\n'
    assert codes(text) == [["SHD305"], ["SHD305"]]


@pytest.mark.parametrize(("swap", "expected"), [("", ["SHD305"]), ("data.val_loader = other\n", ["SHD904"])])
def test_a_loader_that_another_file_puts_in_the_place_of_one(swap: str, expected: list[str]) -> None:
    start = "import torch.distributed as dist\nfrom torch.utils.data import DataLoader\ndist.init_process_group()\n"
    data = start + "val_loader = DataLoader(val_set, batch_size=4)\n"
    main = HEAD.replace("val_loader = DataLoader(val_set, batch_size=4)\n", "import data\n")
    files = {"data.py": parse("data.py", data), PATH: parse(PATH, main + swap + RUN.format("data.val_loader"))}
    (report,) = make_plan(link(files), tuple(files), Options(sanitizer="off")).reports
    assert [*(c for change in report.changes for c in change.codes), *(f.code for f in report.findings)] == expected
