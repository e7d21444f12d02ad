"""Arguments bind by the real signature: by keyword, by position, or as items of a dict that the file shows."""

from __future__ import annotations

import inspect

import pytest
import torch.utils.data
from loaders import site

from shardfix.analysis.names import SIGNATURES

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
