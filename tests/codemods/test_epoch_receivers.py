"""set_epoch is called on what is surely the sampler at the top of the epoch loop, wherever the loader is read."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from plans import codes, edited

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Options
from shardfix.planning import Plan, make_plan
from shardfix.rewrite.applier import apply

IMPORTS = "import torch.distributed as dist\nfrom torch.utils.data import DataLoader, DistributedSampler\n"
HEAD = IMPORTS + "dist.init_process_group()\n"
INIT = "class T:\n    def __init__(self, ds):\n        self.loader = DataLoader(ds, sampler=DistributedSampler(ds))\n"
RUN = "    def run(self):\n        for b in self.loader:\n            b.backward()\n"
FIT = "    def fit(self):\n        for epoch in range(3):\n            self.run()\n"
GIVEN = "class T:\n    def __init__(self, loader):\n        self.loader = loader\n" + RUN + FIT
PREFETCHER = (
    "class P:\n    def __init__(self, loader):\n        self.inner = loader\n"
    "    def __iter__(self):\n        for b in self.inner:\n            yield b.cuda()\n"
)
LOADER = "loader = DataLoader(d, sampler=DistributedSampler(d))\n"
BATCHES = "        for b in loader:\n            b.backward()\n"


def added(text: str) -> list[str]:
    """The lines that the plan puts in, without their indentation."""
    before = text.splitlines()
    return [line.strip() for line in edited(text).splitlines() if line not in before]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param(
            INIT + RUN + FIT + "T(d).fit()\n", "self.loader.sampler.set_epoch(epoch)", id="read in another method"
        ),
        pytest.param(
            "if not args.evaluate:\n    s = DistributedSampler(d)\n    loader = DataLoader(d, sampler=s)\n"
            "if args.evaluate:\n    pass\nelse:\n    for epoch in range(3):\n" + BATCHES,
            "s.set_epoch(epoch)",
            id="built under a condition, on the other side of which the loop does not stand",
        ),
        pytest.param(
            INIT + "    def run(self):\n        loader = self.loader\n        for b in tqdm(loader):\n"
            "            b.backward()\n" + FIT,
            "self.loader.sampler.set_epoch(epoch)",
            id="by a variable of that method",
        ),
        pytest.param(
            INIT + RUN + "t = T(d)\nfor epoch in range(3):\n    t.run()\n",
            "t.loader.sampler.set_epoch(epoch)",
            id="a method that the loop calls on an object",
        ),
        pytest.param(
            "class A:\n" + FIT + INIT.replace("class T:", "class T(A):") + RUN,
            "self.loader.sampler.set_epoch(epoch)",
            id="the loop in a base class",
        ),
        pytest.param(
            "class T:\n    def __init__(self):\n        self.loader = None\n    def setup(self, ds):\n"
            "        self.loader = DataLoader(ds, sampler=DistributedSampler(ds))\n"
            + RUN
            + "    def fit(self):\n        self.setup(d)\n        for epoch in range(3):\n            self.run()\n",
            "self.loader.sampler.set_epoch(epoch)",
            id="built by a method that is called above the loop",
        ),
        pytest.param(
            GIVEN + LOADER + "T(loader).fit()\n", "self.loader.sampler.set_epoch(epoch)", id="handed to the one object"
        ),
        pytest.param(
            INIT + RUN + "    def fit(self):\n        while self.epoch < 3:\n            self.run()\n"
            "            self.epoch += 1\n",
            "self.loader.sampler.set_epoch(self.epoch)",
            id="counted by an attribute",
        ),
        pytest.param(
            "def main(ds):\n    loader = DataLoader(ds, sampler=DistributedSampler(ds))\n    def run():\n"
            + BATCHES
            + "    for epoch in range(3):\n        run()\nmain(d)\n",
            "loader.sampler.set_epoch(epoch)",
            id="read in a closure",
        ),
        pytest.param(
            LOADER + "def run():\n    for b in loader:\n        b.backward()\n"
            "def main():\n    for epoch in range(3):\n        run()\nmain()\n",
            "loader.sampler.set_epoch(epoch)",
            id="a loader of the module",
        ),
        pytest.param(
            PREFETCHER + LOADER + "batches, other = P(loader), P(lines)\nfor epoch in range(3):\n"
            "    for b in batches:\n        b.backward()\n",
            "batches.inner.sampler.set_epoch(epoch)",
            id="what a prefetcher wraps",
        ),
        pytest.param(
            LOADER + "for epoch in range(3):\n    batches = iter(loader)\n    for i in range(9):\n"
            "        next(batches).backward()\n",
            "loader.sampler.set_epoch(epoch)",
            id="iter() in the loop begins a pass",
        ),
    ],
)
def test_the_sampler_is_named_where_the_epochs_are_counted(text: str, line: str) -> None:
    assert added(HEAD + text) == [line]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(INIT + RUN + FIT + "t = T(d)\nt.loader = other\nt.fit()\n", id="replaced from outside"),
        pytest.param(
            INIT + "    def swap(self, other):\n        self.loader = other\n" + RUN + FIT, id="replaced by a method"
        ),
        pytest.param(
            INIT.replace("        self.loader", "        if d:\n            self.loader") + RUN + FIT, id="built or not"
        ),
        pytest.param(
            INIT + RUN + FIT + "class B(T):\n    def __init__(self, ds):\n        self.loader = list(ds)\n",
            id="something else in a derived class",
        ),
        pytest.param(
            INIT.replace("__init__", "setup") + RUN + FIT + "t = T()\nt.setup(d)\nt.fit()\n",
            id="built at a time that the loop does not show",
        ),
        pytest.param(GIVEN + LOADER + "T(loader).fit()\nT(lines).fit()\n", id="two objects, one with something else"),
        pytest.param(
            PREFETCHER + LOADER + "batches = P(loader)\nbatches = P(lines) if more else batches\n"
            "for epoch in range(3):\n    for b in batches:\n        b.backward()\n",
            id="one of two prefetchers",
        ),
    ],
)
def test_what_may_be_something_else_is_told_nothing(text: str) -> None:
    assert codes(HEAD + text) == [["SHD909"]]


def planned(files: Mapping[str, str]) -> Plan:
    project = link({path: parse(path, text) for path, text in files.items()})
    found = make_plan(project, tuple(files), Options(sanitizer="off"))
    assert found.problems == ()  # a file of which the analysis comes to no end is left alone too
    return found


def rewritten(files: Mapping[str, str]) -> dict[str, str]:
    """The files that the plan changes."""
    edits = list(dict.fromkeys(e for c in planned(files).changes for e in c.edits))
    texts = {p: apply(text, [e for e in edits if e.path == p], path=p).text for p, text in files.items()}
    return {path: text for path, text in texts.items() if text != files[path]}


ENGINE = "def fit(loader):\n    for _ in range(3):\n        for b in loader:\n            b.backward()\n"
TRAIN = HEAD + "from engine import fit\n"
MAYBE = "sampler = DistributedSampler(d) if args.distributed else None\nloader = DataLoader(d, sampler=sampler)\n"


@pytest.mark.parametrize(
    ("train", "engine"),
    [
        pytest.param(
            LOADER + "fit(loader)\n",
            "def fit(loader):\n    for epoch in range(3):\n        loader.sampler.set_epoch(epoch)\n" + BATCHES,
            id="always the same",
        ),
        pytest.param(
            MAYBE + "fit(loader)\n",
            "from torch.utils.data.distributed import DistributedSampler\n\n\n"
            "def fit(loader):\n    for epoch in range(3):\n"
            "        if isinstance(loader.sampler, DistributedSampler):\n"
            "            loader.sampler.set_epoch(epoch)\n" + BATCHES,
            id="a sampler in several processes only",
        ),
        pytest.param(
            LOADER + "fit(loader)\nfit(lines)\n",
            "from torch.utils.data.distributed import DistributedSampler\n\n\n"
            "def fit(loader):\n    for epoch in range(3):\n"
            '        if isinstance(getattr(loader, "sampler", None), DistributedSampler):\n'
            "            loader.sampler.set_epoch(epoch)\n" + BATCHES,
            id="something that is no loader too",
        ),
    ],
)
def test_a_loop_of_another_file_is_edited_there(train: str, engine: str) -> None:
    assert rewritten({"engine.py": ENGINE, "train.py": TRAIN + train}) == {"engine.py": engine}


def test_a_loader_that_another_file_builds_is_told_in_the_loop() -> None:
    data = IMPORTS + "def make(ds):\n    sampler = DistributedSampler(ds)\n    return DataLoader(ds, sampler=sampler)\n"
    train = "import torch.distributed as dist\nfrom data import make\ndist.init_process_group()\nloader = make(d)\n"
    loop = "for epoch in range(3):\n{}    for b in loader:\n        b.backward()\n"
    told = train + loop.format("    loader.sampler.set_epoch(epoch)\n")
    assert rewritten({"data.py": data, "train.py": train + loop.format("")}) == {"train.py": told}


@pytest.mark.parametrize(
    ("engine", "call"),
    [
        pytest.param(
            ENGINE.replace("for _", "for e").replace(
                ":\n        for", ":\n        loader.sampler.set_epoch(e)\n        for"
            ),
            "fit(loader)\n",
            id="in the loop",
        ),
        pytest.param(
            "def fit(loader, epoch):\n    if hasattr(loader.sampler, 'set_epoch'):\n"
            "        loader.sampler.set_epoch(epoch)\n",
            "for e in range(3):\n    fit(loader, e)\n    for b in loader:\n        b.backward()\n",
            id="by a function",
        ),
        pytest.param(
            "class fit:\n    def __init__(self, loader, sampler):\n        self.loader = loader\n"
            "        self.sampler = sampler\n    def set_epoch(self, e):\n        self.sampler.set_epoch(e)\n",
            "info = {'train': fit(loader, loader.sampler)}\nfor e in range(3):\n    info['train'].set_epoch(e)\n"
            "    for b in info['train'].loader:\n        b.backward()\n",
            id="by an object that holds it",
        ),
    ],
)
def test_a_sampler_that_another_file_tells_is_told(engine: str, call: str) -> None:
    (report,) = planned({"engine.py": engine, "train.py": TRAIN + LOADER + call}).reports
    assert (report.verdict, report.why) == ("right", "its sampler is told the epoch")
