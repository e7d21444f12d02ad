"""However a loader's call passes its arguments, the edited call passes each of them once; else it is refused."""

from __future__ import annotations

import pytest

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Options
from shardfix.planning import Plan, make_plan
from shardfix.rewrite.applier import apply

PREPARED = (
    "from accelerate import Accelerator\n"
    "from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler\n"
    "from torch.utils.data.distributed import DistributedSampler\n"
    "accelerator = Accelerator()\n"
    "{}\n"
    "loader = accelerator.prepare(loader)\n"
    "for batch in loader:\n"
    "    model(batch).backward()\n"
)
DDP = (
    "import torch.distributed as dist\n"
    "from torch.utils.data import DataLoader, RandomSampler\n"
    "from torch.utils.data.distributed import DistributedSampler\n"
    "dist.init_process_group()\n"
    "{}\n"
    "for epoch in range(3):\n"
    "    for batch in loader:\n"
    "        model(batch).backward()\n"
)


def plan(text: str) -> Plan:
    found = make_plan(link({"train.py": parse("train.py", text)}), ("train.py",), Options(sanitizer="off"))
    assert found.problems == ()  # a file of which the analysis comes to no end is left alone too
    return found


def call(text: str) -> str:
    """The loader's call after the changes."""
    edits = [e for c in plan(text).changes for e in c.edits]
    lines = apply(text, list(dict.fromkeys(edits)), path="train.py").text.splitlines()
    return next(line.removeprefix("loader = ") for line in lines if "= DataLoader(" in line)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("DataLoader(ds, sampler=RandomSampler(ds))", "DataLoader(ds, shuffle=True)"),
        ("DataLoader(ds, 2, False, SequentialSampler(ds))", "DataLoader(ds, 2, False, None)"),
        ("DataLoader(ds, 2, None, RandomSampler(ds), None, 4)", "DataLoader(ds, 2, True, None, None, 4)"),
        ("DataLoader(ds, 2, False, sampler=RandomSampler(ds))", "DataLoader(ds, 2, True)"),
        ("DataLoader(ds, shuffle=False, sampler=DistributedSampler(ds))", "DataLoader(ds, shuffle=True)"),
        (
            "DataLoader(ds, batch_sampler=BatchSampler(RandomSampler(ds), 4, True))",
            "DataLoader(ds, batch_size=4, shuffle=True, drop_last=True)",
        ),
        ("DataLoader(dataset=ds, sampler=SequentialSampler(ds), **more)", "DataLoader(dataset=ds, **more)"),
    ],
)
def test_a_sampler_is_taken_out_of_the_call(before: str, after: str) -> None:
    more = "more = {'num_workers': 2}\n" if "**more" in before else ""
    assert call(PREPARED.format(f"{more}loader = {before}")) == after


def test_the_variable_of_a_positional_sampler_goes_with_it() -> None:
    text = PREPARED.format("sampler = DistributedSampler(ds)\nloader = DataLoader(ds, 2, False, sampler)")
    assert call(text) == "DataLoader(ds, 2, True, None)"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("DataLoader(ds)", "DataLoader(ds, sampler=train_sampler)"),
        ("DataLoader(ds, shuffle=True)", "DataLoader(ds, sampler=train_sampler)"),
        ("DataLoader(ds, shuffle=True, sampler=None)", "DataLoader(ds, sampler=train_sampler)"),
        ("DataLoader(ds, sampler=None, shuffle=True)", "DataLoader(ds, sampler=train_sampler)"),
        ("DataLoader(ds, 2, True)", "DataLoader(ds, 2, False, sampler=train_sampler)"),
        ("DataLoader(ds, 2, True, None)", "DataLoader(ds, 2, False, train_sampler)"),
        ("DataLoader(ds, 2, True, None, None, 4)", "DataLoader(ds, 2, False, train_sampler, None, 4)"),
        (
            "DataLoader(ds, 2, False, RandomSampler(ds))",
            "DataLoader(ds, 2, False, DistributedSampler(ds, shuffle=True))",
        ),
    ],
)
def test_a_sampler_is_put_into_the_call(before: str, after: str) -> None:
    assert call(DDP.format(f"loader = {before}")) == after


def test_a_sampler_made_in_the_call_is_chosen_by_the_project_s_own_condition() -> None:
    text = (
        "import torch.distributed as dist\n"
        "from torch.utils.data import DataLoader, RandomSampler\n"
        "from torch.utils.data.distributed import DistributedSampler\n"
        "def main(args, ds):\n"
        "    if args.distributed:\n"
        "        dist.init_process_group()\n"
        "    loader = DataLoader(ds, sampler=RandomSampler(ds))\n"
        "    for epoch in range(3):\n"
        "        for batch in loader:\n"
        "            model(batch).backward()\n"
    )
    sampler = "(DistributedSampler(ds, shuffle=True) if args.distributed else RandomSampler(ds))"
    assert call(text).strip() == f"loader = DataLoader(ds, sampler={sampler})"


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(
            "kw = dict(batch_sampler=BatchSampler(RandomSampler(ds), 4, True))\nloader = DataLoader(ds, **kw)",
            id="batch sampler in a dict",
        ),
        pytest.param(
            "loader = DataLoader(ds, 1, None, None, BatchSampler(RandomSampler(ds), 4, True))",
            id="batch sampler by position",
        ),
        pytest.param("loader = DataLoader(*args, sampler=RandomSampler(ds))", id="starred"),
    ],
)
def test_what_the_call_does_not_show_is_refused(made: str) -> None:
    found = plan(PREPARED.format(made))
    assert found.changes == ()
    assert [f.code for r in found.reports for f in r.findings] == ["SHD903"]


def test_every_change_edits_something() -> None:
    for made in ("DataLoader(ds, 2, False, SequentialSampler(ds))", "DataLoader(ds, sampler=SequentialSampler(ds))"):
        assert all(change.edits for change in plan(PREPARED.format(f"loader = {made}")).changes)
