"""Every construction of a loader is a site, under whatever name; nothing of it is passed over in silence."""

from __future__ import annotations

import pytest
from loaders import project, site

from shardfix.analysis.model import Options
from shardfix.planning import make_plan

GROUP = "import torch.distributed as dist\ndist.init_process_group()\n"


@pytest.mark.parametrize(
    ("text", "sampler"),
    [
        pytest.param("import functools\nmake = functools.partial(DataLoader, d)\n", "functools.partial", id="in full"),
        pytest.param("from functools import partial\nmake = partial(DataLoader, d)\n", "partial", id="by its name"),
        pytest.param(
            "from functools import partial\nclass Mine(DataLoader):\n    pass\nmake = partial(Mine, d)\n",
            "partial",
            id="of a subclass",
        ),
    ],
)
def test_a_partial_of_a_loader_class_is_a_site(text: str, sampler: str) -> None:
    text = "from torch.utils.data import DataLoader\n" + text
    assert (site(text).kind, site(text).sampler) == ("partial", f"not seen ({sampler})")
    (alone,) = make_plan(project({"train.py": text}), ("train.py",), Options()).reports
    assert alone.verdict == "right"
    (report,) = make_plan(project({"train.py": GROUP + text}), ("train.py",), Options()).reports
    assert (report.verdict, [f.code for f in report.findings]) == ("refused", ["SHD903"])
    assert report.why == f"arguments not seen: {sampler} leaves the rest of them to calls elsewhere"


def test_a_partial_of_something_else_is_none() -> None:
    text = (
        "from functools import partial\nfrom torch.utils.data import DataLoader\nf = partial(print, 1)\nDataLoader(d)\n"
    )
    assert site(text).kind == "torch"
