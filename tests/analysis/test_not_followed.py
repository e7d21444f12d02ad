"""A loader is not followed through what may give something else, and a choice on one path is no choice."""

from __future__ import annotations

import pytest
from loaders import module, site

from shardfix.analysis.programs.frameworks import is_lightning_hook

HEAD = "from torch.utils.data import DataLoader\nx = {'a': DataLoader(d)}\n"


@pytest.mark.parametrize(
    ("through", "uses"),
    [
        ("x['a']", 1),
        ("x.get('a')", 1),
        ("x.pop('a')", 1),
        ("x.copy()['a']", 1),
        ("list(x.values())[0]", 1),
        ("x.shown()['a']", 0),
        ("x.keys()", 0),
    ],
)
def test_a_method_of_a_dict_that_gives_its_items(through: str, uses: int) -> None:
    found = site(f"{HEAD}for b in {through}:\n    pass\n")
    assert len(found.flow.of("iterate")) == uses


@pytest.mark.parametrize(
    ("base", "hook"),
    [("pl.LightningModule", True), ("pl.LightningDataModule", True), ("object", False), ("Unseen", False)],
)
def test_a_hook_is_one_of_lightning(base: str, hook: bool) -> None:
    text = "import pytorch_lightning as pl\nclass M({}):\n    def val_dataloader(self):\n        return 1\n"
    found = module(text.format(base))
    (function,) = found.functions
    assert is_lightning_hook(found, function) == hook


def test_a_hook_without_a_class_is_none() -> None:
    found = module("def val_dataloader():\n    return 1\n")
    assert not is_lightning_hook(found, found.functions[0])
