"""A DistributedSampler needs a process group: whether one is sure to exist where a loader is built."""

from __future__ import annotations

import pytest
from loaders import site

from shardfix.analysis.programs.groups import group_at

HEAD = "import torch.distributed as dist\nfrom torch.utils.data import DataLoader\n"


def exists(text: str) -> tuple[str, str]:
    found = site(HEAD + text)
    group = group_at(found.module, found.call)
    return group.exists, group.condition


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("dist.init_process_group()\nDataLoader(d)\n", ("always", ""), id="made before"),
        pytest.param("DataLoader(d)\ndist.init_process_group()\n", ("unknown", ""), id="made after"),
        pytest.param("DataLoader(d)\n", ("unknown", ""), id="never made"),
        pytest.param(
            "def start():\n    dist.init_process_group()\n"
            "def setup():\n    seed()\n    start()\nsetup()\nDataLoader(d)\n",
            ("always", ""),
            id="made by a helper's helper",
        ),
        pytest.param(
            "def build():\n    DataLoader(d)\ndef main():\n    build()\n    dist.init_process_group()\nmain()\n",
            ("unknown", ""),
            id="made after the call that builds it, by what runs both",
        ),
        pytest.param(
            "def main(args):\n    if args.distributed:\n        dist.init_process_group()\n    DataLoader(d)\n",
            ("optional", "args.distributed"),
            id="under the project's own condition",
        ),
        pytest.param(
            "def main(args):\n    if args.verbose:\n        dist.init_process_group()\n    DataLoader(d)\n",
            ("optional", ""),
            id="under a condition that says nothing of processes",
        ),
        pytest.param(
            "def main(args):\n    if args.local_rank == -1:\n        pass\n    else:\n"
            "        dist.init_process_group()\n    DataLoader(d)\n",
            ("optional", ""),
            id="in the other branch",
        ),
        pytest.param(
            "def main(args):\n    if args.distributed:\n        dist.init_process_group()\n"
            "    else:\n        DataLoader(d)\n",
            ("unknown", ""),
            id="the loader in the branch without it",
        ),
        pytest.param(
            "def setup():\n    dist.init_process_group()\nsetup()\nDataLoader(d)\n", ("always", ""), id="by a helper"
        ),
        pytest.param(
            "def setup():\n    if a:\n        return\n    dist.init_process_group()\nsetup()\nDataLoader(d)\n",
            ("optional", ""),
            id="by a helper that may leave before",
        ),
        pytest.param(
            "def make():\n    return DataLoader(d)\ndist.init_process_group()\nmake()\n",
            ("always", ""),
            id="before the factory is called",
        ),
        pytest.param(
            "def make():\n    return DataLoader(d)\nmake()\ndist.init_process_group()\nmake()\n",
            ("unknown", ""),
            id="before one of two calls of the factory",
        ),
        pytest.param(
            "def make():\n    return DataLoader(d)\ndist.init_process_group()\n",
            ("unknown", ""),
            id="the factory is not called",
        ),
        pytest.param(
            "loader = DataLoader(d)\ndef main():\n    dist.init_process_group()\nmain()\n",
            ("unknown", ""),
            id="at import",
        ),
        pytest.param(
            "try:\n    dist.init_process_group()\nfinally:\n    pass\nDataLoader(d)\n", ("always", ""), id="in a try"
        ),
        pytest.param("with a:\n    dist.init_process_group()\nDataLoader(d)\n", ("always", ""), id="in a with"),
        pytest.param(
            "for i in x:\n    dist.init_process_group()\nDataLoader(d)\n",
            ("optional", ""),
            id="in a loop that may not run",
        ),
    ],
)
def test_the_group_where_the_loader_is_built(text: str, expected: tuple[str, str]) -> None:
    assert exists(text) == expected


@pytest.mark.parametrize(
    ("before", "exists", "condition"),
    [
        ('match mode:\n    case "ddp":\n        dist.init_process_group()\n', "optional", ""),
        ("try:\n    dist.init_process_group()\nexcept RuntimeError:\n    pass\n", "optional", ""),
        ("try:\n    dist.init_process_group()\nexcept RuntimeError:\n    raise\n", "always", ""),
        ("dist.init_process_group()\ndist.destroy_process_group()\n", "unknown", ""),
        ("if distributed:\n    dist.init_process_group()\n", "optional", "distributed"),
        ("if distributed:\n    dist.init_process_group()\ndistributed = False\n", "optional", ""),
        ("if (distributed and\n        True):\n    dist.init_process_group()\n", "optional", ""),
        ("if distributed:\n    dist.init_process_group()\nother = DistributedSampler(ds)\n", "always", ""),
        (
            "if distributed:\n    dist.init_process_group()\nother = DistributedSampler(ds, 2, 0)\n",
            "optional",
            "distributed",
        ),
    ],
)
def test_what_stands_before_the_loader_shows_the_group(before: str, exists: str, condition: str) -> None:
    found = site(
        "import torch.distributed as dist\nfrom torch.utils.data import DataLoader, DistributedSampler\n"
        f"{before}loader = DataLoader(ds)\n"
    )
    group = group_at(found.module, found.call)
    assert (group.exists, group.condition) == (exists, condition)


@pytest.mark.parametrize(
    ("call", "condition"),
    [("build(cfg)", "cfg.distributed"), ("build(cfg.data)", "")],
)
def test_a_condition_goes_with_its_name_into_a_function(call: str, condition: str) -> None:
    found = site(
        "import torch.distributed as dist\nfrom torch.utils.data import DataLoader\n"
        "def build(cfg):\n    return DataLoader(cfg.ds)\n"
        f"def main(cfg):\n    if cfg.distributed:\n        dist.init_process_group()\n    {call}\n"
    )
    assert group_at(found.module, found.call).condition == condition


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        pytest.param("from train import make\nmake()\n", ("optional", ""), id="its name"),
        pytest.param("import train\ntrain.make()\n", ("optional", ""), id="its module"),
        pytest.param("from train import main\nmain()\n", ("always", ""), id="what makes the group first"),
    ],
)
def test_a_function_that_another_file_calls_may_run_without_a_group(other: str, expected: tuple[str, str]) -> None:
    text = HEAD + "def make():\n    return DataLoader(d)\ndef main():\n    dist.init_process_group()\n    make()\n"
    found = site({"train.py": text, "other.py": other})
    group = group_at(found.module, found.call)
    assert (group.exists, group.condition) == expected
