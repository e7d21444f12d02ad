"""Arguments bind by the real signature: by keyword, by position, or as items of a dict that the file shows."""

from __future__ import annotations

import inspect

import pytest
import torch.utils.data
from loaders import site

from shardfix.analysis.code.names import SIGNATURES

HEAD = "from torch.utils.data import DataLoader\n"


def bound(call: str) -> dict[str, str]:
    found = site(HEAD + call)
    return {name: found.module.source.source(a.value) for name, a in found.arguments.bound.items()}


def test_the_signatures_are_those_of_the_installed_torch() -> None:
    for qualified, order in SIGNATURES.items():
        target: object = torch
        for part in qualified.split(".")[1:]:
            target = getattr(target, part)
        names = [
            p.name
            for p in inspect.signature(target).parameters.values()  # type: ignore[arg-type]
            if p.kind is p.POSITIONAL_OR_KEYWORD
        ]
        assert list(order) == names[: len(order)], qualified


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        pytest.param(
            "DataLoader(ds, 8, True)\n", {"dataset": "ds", "batch_size": "8", "shuffle": "True"}, id="by position"
        ),
        pytest.param("DataLoader(dataset=ds, sampler=s)\n", {"dataset": "ds", "sampler": "s"}, id="by keyword"),
        pytest.param(
            'kw = {"batch_size": 8, "sampler": s}\nDataLoader(ds, **kw)\n',
            {"dataset": "ds", "batch_size": "8", "sampler": "s"},
            id="dict display",
        ),
        pytest.param(
            "kw = dict(batch_size=8)\nDataLoader(ds, **kw)\n", {"dataset": "ds", "batch_size": "8"}, id="dict call"
        ),
        pytest.param(
            'kw = {}\nkw["shuffle"] = True\nDataLoader(ds, **kw)\n',
            {"dataset": "ds", "shuffle": "True"},
            id="item set later",
        ),
        pytest.param(
            'kw = {}\nkw.update({"shuffle": True})\nDataLoader(ds, **kw)\n',
            {"dataset": "ds", "shuffle": "True"},
            id="updated",
        ),
    ],
)
def test_arguments_that_the_file_shows(call: str, expected: dict[str, str]) -> None:
    assert bound(call) == expected


@pytest.mark.parametrize(
    ("call", "opaque"),
    [
        pytest.param("DataLoader(*args)\n", "*args", id="starred"),
        pytest.param("def f(**kw):\n    DataLoader(ds, **kw)\n", "**kw", id="a parameter"),
        pytest.param("DataLoader(ds, **make())\n", "**make()", id="a call's result"),
        pytest.param("kw = {}\nkw[name] = 1\nDataLoader(ds, **kw)\n", "**kw", id="an unseen key"),
        pytest.param(
            'kw = {"shuffle": True}\nif a:\n    kw["shuffle"] = False\nDataLoader(ds, **kw)\n',
            "**kw (several values of 'shuffle')",
            id="two values of one key",
        ),
    ],
)
def test_what_the_file_does_not_show_is_named(call: str, opaque: str) -> None:
    assert site(HEAD + call).arguments.opaque == opaque


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            'kw = {"shuffle": True}\nif a:\n    kw["sampler"] = s\n    del kw["shuffle"]\nDataLoader(ds, **kw)\n',
            [{"sampler": "s"}, {"shuffle": "True"}],
            id="changed under a condition",
        ),
        pytest.param(
            'kw = {}\nif a:\n    kw["sampler"] = s\nif not a:\n    kw["shuffle"] = True\nDataLoader(ds, **kw)\n',
            [{"sampler": "s"}, {"shuffle": "True"}],
            id="one condition asked twice",
        ),
        pytest.param(
            'kw = {}\nif a:\n    kw["sampler"] = s\n    raise E\nkw["shuffle"] = True\nDataLoader(ds, **kw)\n',
            [{"shuffle": "True"}],
            id="a way that ends",
        ),
        pytest.param(
            'kw = {"shuffle": True}\nDataLoader(ds, **kw)\nkw["shuffle"] = False\n',
            [{"shuffle": "True"}],
            id="afterwards",
        ),
        pytest.param(
            'for d in all:\n    kw = {}\n    kw["shuffle"] = d.train\n    DataLoader(d, **kw)\n',
            [{"shuffle": "d.train"}],
            id="made anew in each turn",
        ),
        pytest.param(
            "def f(**kw):\n    DataLoader(ds, **kw)\nf(shuffle=True)\nf(sampler=s)\n",
            [{"shuffle": "True"}, {"sampler": "s"}],
            id="what callers give",
        ),
        pytest.param(
            'base = {"shuffle": True}\nDataLoader(ds, **{**base, "sampler": None})\n',
            [{"shuffle": "True", "sampler": "None"}],
            id="one dict in another",
        ),
    ],
)
def test_a_dict_is_read_on_every_way_that_fills_it(text: str, expected: list[dict[str, str]]) -> None:
    found = site(HEAD + text)
    source = found.module.source.source
    ways = [{n: source(a.value) for n, a in way.items() if n != "dataset"} for way in found.arguments.paths]
    assert sorted(ways, key=str) == sorted(expected, key=str)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            'kw = {}\nfor n in names:\n    DataLoader(ds, **kw)\n    kw["sampler"] = s\n', id="in the turn before"
        ),
        pytest.param('kw = {}\ndef f():\n    kw["sampler"] = s\nf()\nDataLoader(ds, **kw)\n', id="in a function"),
        pytest.param('kw = {}\ntry:\n    kw["sampler"] = s\nexcept E:\n    pass\nDataLoader(ds, **kw)\n', id="tried"),
        pytest.param("kw = {}\nfill(kw)\nDataLoader(ds, **kw)\n", id="by what is not seen"),
    ],
)
def test_a_dict_changed_out_of_sight_is_not_known(text: str) -> None:
    assert site(HEAD + text).unseen == "**kw"


@pytest.mark.parametrize(
    ("call", "sampler"),
    [
        ("DataLoader(ds, sampler=RandomSampler(ds), **kw)", "RandomSampler"),
        ("DataLoader(ds, shuffle=True, **kw)", "default, shuffle=True"),
        ("DataLoader(ds, shuffle=False, **kw)", "not seen (**kw)"),
        ("DataLoader(ds, sampler=None, **kw)", "not seen (**kw)"),
    ],
)
def test_what_is_written_beside_unseen_keywords_is_the_sampler_where_they_can_hold_none(
    call: str, sampler: str
) -> None:
    text = "from torch.utils.data import DataLoader, RandomSampler\ndef f(**kw):\n    "
    assert site(text + call + "\n").sampler == sampler
