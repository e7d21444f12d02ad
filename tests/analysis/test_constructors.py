"""Which calls build a loader whose arguments torch's DataLoader gets as they are."""

from __future__ import annotations

import pytest
from loaders import site, sites

HEAD = "from functools import partial\nfrom torch.utils.data import DataLoader, RandomSampler\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("class Fast(DataLoader):\n    pass\nFast(d, sampler=RandomSampler(d))\n", id="nothing of its own"),
        pytest.param(
            "class Fast(DataLoader):\n    def __init__(self, *args, pad=0, **kwargs):\n"
            "        super().__init__(*args, collate_fn=pad_to(pad), **kwargs)\n        self.pad = pad\n"
            "Fast(d, sampler=RandomSampler(d))\n",
            id="hands its arguments on",
        ),
        pytest.param(
            "class Fast(DataLoader):\n    def name(self):\n        return 'fast'\nfast = Fast if a else DataLoader\n"
            "fast(d, sampler=RandomSampler(d))\n",
            id="chosen at run time",
        ),
        pytest.param("make = partial(DataLoader, num_workers=2)\nmake(d, sampler=RandomSampler(d))\n", id="partial"),
        pytest.param(
            "def build(cls=DataLoader):\n    return cls(d, sampler=RandomSampler(d))\nbuild()\n", id="a parameter"
        ),
    ],
)
def test_a_loader_of_torch_by_whatever_name(text: str) -> None:
    found = site(HEAD + text)
    assert (found.kind, found.sampler) == ("torch", "RandomSampler")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("def __iter__(self):\n        yield 1", "Fast defines __iter__"),
        ("batch_sampler = None", "Fast defines batch_sampler"),
        ("def __init__(self, dataset):\n        super().__init__(dataset)", "Fast.__init__ has arguments of its own"),
        (
            "def __init__(self, *args, **kwargs):\n        super().__init__(*args, shuffle=True, **kwargs)",
            "Fast.__init__ gives DataLoader arguments of its own",
        ),
        (
            "def __init__(self, *args, **kwargs):\n        kwargs.pop('sampler')\n"
            "        super().__init__(*args, **kwargs)",
            "Fast.__init__ looks into its arguments",
        ),
        (
            "def __init__(self, *args, **kwargs):\n        super().__init__(*args, **kwargs)\n"
            "        object.__setattr__(self, 'batch_sampler', repeat(self.batch_sampler))",
            "Fast.__init__ sets attributes by name",
        ),
        ("def start(self):\n        self.sampler = None", "Fast.start sets sampler"),
    ],
)
def test_a_class_that_may_sample_otherwise_says_in_what(body: str, why: str) -> None:
    found = site(HEAD + f"class Fast(DataLoader):\n    {body}\nFast(d, sampler=RandomSampler(d))\n")
    assert (found.kind, found.deviates) == ("subclass", why)
    assert found.sampler == "RandomSampler (given to Fast)"


def test_a_base_class_that_is_not_seen_may_sample_otherwise() -> None:
    text = "from mixins import Fast\nclass Mine(Fast, DataLoader):\n    pass\nMine(d)\n"
    assert site(HEAD + text).deviates == "Mine derives from Fast, which is not seen"


def test_of_a_name_that_may_be_something_else_the_class_is_not_known() -> None:
    assert site(HEAD + "make = DataLoader if a else build()\nmake(d)\n").kind == "subclass"
    found = site(HEAD + "def f(cls):\n    return cls(d, batch_size=2)\nf(DataLoader)\nf(other)\n")
    assert (found.kind, found.deviates) == ("subclass", "which class it is, is not seen")


def test_a_partial_that_also_goes_elsewhere_is_a_loader_in_itself() -> None:
    found = sites(HEAD + "make = partial(DataLoader, num_workers=2)\nkeep(make)\nmake(d)\n")
    assert [s.kind for s in found] == ["partial", "torch"]


@pytest.mark.parametrize(
    ("init", "made", "sampler"),
    [
        pytest.param(
            "(self, n, *args, **kw): super().__init__(d, *args, **kw)",
            "L(2, batch_size=2)",
            "default (given on by L)",
            id="all handed on",
        ),
        pytest.param(
            "(self, n=None, **kw): super().__init__(d)", "L(d, sampler=s)", "default (given on by L)", id="none"
        ),
        pytest.param(
            "(self, r, *args, **kw): kw.pop('shuffle', 0); super().__init__(*args, shuffle=r, **kw)",
            "L(False, [])",
            "default, shuffle=r (given on by L)",
            id="its own shuffle",
        ),
        pytest.param(
            "(self, n, **kw): super().__init__(d, **kw)", "L(2, sampler=s)", "s? (given to L)", id="a sampler"
        ),
        pytest.param("(self, n, **kw): super().__init__(d, **kw)", "L(2, **k)", "L (its own)", id="an unseen dict"),
        pytest.param(
            "(self, n, *args): super().__init__(d, *args)", "L(2, 4, True, s)", "L (its own)", id="more by position"
        ),
        pytest.param(
            "(self, n, **kw): kw['sampler'] = n; super().__init__(d, **kw)", "L(2)", "L (its own)", id="a changed dict"
        ),
    ],
)
def test_what_a_class_lets_dataloader_draw_with_is_told(init: str, made: str, sampler: str) -> None:
    text = f"from torch.utils.data import DataLoader\nclass L(DataLoader):\n    def __init__{init}\nloader = {made}\n"
    assert site(text).sampler == sampler
