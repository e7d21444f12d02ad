"""The checklist of a loader: each row answered as the source shows it, and said unknown where it does not."""

from __future__ import annotations

from textwrap import dedent

import pytest
from loaders import project

from shardfix.analysis.checklist import checklist
from shardfix.analysis.model import Options
from shardfix.planning import make_plan


def rows(text: str, number: int = 0) -> dict[str, str]:
    """Question and answer of one loader of a file, the note in brackets."""
    plan = make_plan(project({"train.py": dedent(text)}), ("train.py",), Options())
    report = plan.reports[number]
    return {
        check.question: check.answer + (f" ({check.note})" if check.note else "")
        for check in checklist(plan.sites[report.location], report)
    }


ACCELERATE = """\
from accelerate import Accelerator, DataLoaderConfiguration
from torch.utils.data import DataLoader, DistributedSampler

accelerator = Accelerator({settings})
loader = DataLoader(data, {arguments})
loader = accelerator.prepare(loader)
for epoch in range(3):
    for batch in loader:
        accelerator.backward(model(batch))
"""

DDP = """\
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler

dist.init_process_group("nccl")
model = DistributedDataParallel(net)
{sampler}
loader = DataLoader(data, {arguments})
for epoch in range(3):
    {told}
    for batch in loader:
        model(batch).backward()
"""

EVALUATION = """\
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

dist.init_process_group("nccl")
model = DistributedDataParallel(net)
loader = DataLoader(data, batch_size=8{sampler})

def evaluate(val_loader):
    model.eval()
    correct = torch.zeros(1)
    with torch.no_grad():
        for x, y in val_loader:
            correct += (model(x).argmax(1) == y).sum()
    {reduction}
    return correct

{call}
"""


def accelerate(arguments: str, settings: str = "") -> str:
    return ACCELERATE.format(arguments=arguments, settings=settings)


def ddp(arguments: str, sampler: str = "", told: str = "pass") -> str:
    return DDP.format(arguments=arguments, sampler=sampler, told=told)


def evaluation(sampler: str = "", reduction: str = "pass", call: str = "evaluate(loader)") -> str:
    return EVALUATION.format(sampler=sampler, reduction=reduction, call=call)


SHARD = "shard: each rank reads its own batches"
PIECE = f"{SHARD}, each a piece of one batch (split_batches)"
MESHED = "between data-parallel ranks, which parallelism_config= decides"


def test_a_prepared_loader_is_answered_in_every_row() -> None:
    assert rows(accelerate("batch_size=32, shuffle=True")) == {
        "sampler": "RandomSampler (shuffle=True)",
        "by hand": "no",
        "split by": "accelerate (shard: each rank reads its own batches)",
        "batch": "32 on one process, 32 x N on N",
        "counted once": "- (not an evaluation)",
        "sanitizer": "no",
        "epoch told": "yes (a prepared loader tells it by itself)",
    }


def test_a_distributed_loader_is_answered_in_every_row() -> None:
    sampler = "sampler = DistributedSampler(data)"
    assert rows(ddp("batch_size=args.batch, sampler=sampler", sampler, "sampler.set_epoch(epoch)")) == {
        "sampler": "DistributedSampler, shuffled",
        "by hand": "yes (sampler=)",
        "split by": "its sampler",
        "batch": "args.batch on one process, x N on N",
        "counted once": "- (not an evaluation)",
        "sanitizer": "no",
        "epoch told": "yes (line 10)",
    }


@pytest.mark.parametrize(
    ("settings", "split", "batch"),
    [
        ("split_batches=True", PIECE, "the same on N"),
        ("dataloader_config=DataLoaderConfiguration(split_batches=True)", PIECE, "the same on N"),
        ("dispatch_batches=True", "dispatch: rank 0 reads and deals out", "32 x N on N"),
        ("gradient_accumulation_steps=4", SHARD, "32 x N on N (4 such steps are accumulated)"),
        ("gradient_accumulation_steps=args.steps", SHARD, "32 x N on N (accumulated over `args.steps` steps)"),
        ("split_batches=args.split", "how is unknown: split_batches=`args.split`", None),
        ("**o", "how is unknown: `**o` may hold split_batches; `**o` may hold dispatch_batches", None),
        ("dataloader_config=made()", "how is unknown: dataloader_config=`made()` is not seen into", None),
        ("parallelism_config=made()", MESHED, "32 x N on N (N data-parallel ranks)"),
    ],
)
def test_what_the_accelerator_is_told_decides_who_splits_and_how_large_a_step_is(
    settings: str, split: str, batch: str | None
) -> None:
    found = rows(accelerate("batch_size=32", settings))
    assert found["split by"] == f"accelerate ({split})"
    if batch is None:
        assert found["batch"].startswith("32 on one process (on N unknown: ")
    else:
        assert found["batch"] == f"32 on one process, {batch}"


def test_a_loader_that_is_sharded_twice_is_called_so() -> None:
    found = rows(accelerate("batch_size=4, sampler=DistributedSampler(data)"))
    assert found["split by"] == "accelerate (and by itself before that: sharded twice)"


@pytest.mark.parametrize(
    ("source", "sampler", "by_hand", "split"),
    [
        (ddp("shuffle=True"), "RandomSampler (shuffle=True)", "no", "nobody (every rank reads all of it)"),
        (ddp("shuffle=args.s"), "default, shuffle=args.s", "no", "nobody (every rank reads all of it)"),
        (
            ddp("sampler=s", "s = DistributedSampler(data) if args.distributed else None"),
            "DistributedSampler, shuffled | default, in order",
            "yes (sampler=, on some paths only)",
            "its sampler (in runs of several processes)",
        ),
        (
            ddp("sampler=made()", "from elsewhere import made"),
            "made?",
            "unknown (sampler=made? comes from what is not seen)",
            "unknown (what made? gives each rank is not seen)",
        ),
        (
            ddp("**options", "from elsewhere import options"),
            "unknown (`**options` may hold one)",
            "unknown (`**options` may hold one)",
            "unknown (`**options` may hold one)",
        ),
    ],
)
def test_the_sampler_is_named_whoever_made_it_and_unknown_where_it_is_hidden(
    source: str, sampler: str, by_hand: str, split: str
) -> None:
    found = rows(source)
    assert (found["sampler"], found["by hand"], found["split by"]) == (sampler, by_hand, split)


@pytest.mark.parametrize(
    ("source", "batch"),
    [
        (ddp("batch_size=SIZE", "SIZE = 16"), "16 on one process, 16 x N on N (the same samples on every rank)"),
        (ddp(""), "1 on one process, 1 x N on N (the same samples on every rank)"),
        (
            ddp("batch_size=args.b, sampler=DistributedSampler(data)", "args.b = int(args.b / ngpus)"),
            "args.b on one process, x N on N (which line 7 sets anew)",
        ),
        (
            ddp("batch_size=args.b // 2, sampler=DistributedSampler(data)"),
            "(args.b // 2) on one process, x N on N",
        ),
        (
            ddp("batch_sampler=Own(data)", "from elsewhere import Own"),
            "unknown (Own makes the batches)",
        ),
    ],
)
def test_the_batch_is_said_as_the_source_says_it(source: str, batch: str) -> None:
    assert rows(source)["batch"] == batch


SHARDED = ", sampler=DistributedSampler(data, shuffle=False)"


@pytest.mark.parametrize(
    ("source", "counted"),
    [
        (evaluation(), "yes (every rank evaluates all of it, for itself)"),
        (evaluation(SHARDED), "no (each rank evaluates its own part, and nothing is seen to combine them)"),
        (evaluation(SHARDED, "dist.all_reduce(correct)"), "no (padding is counted too (line 16))"),
        (
            evaluation(SHARDED.replace("False", "False, drop_last=True"), "dist.all_reduce(correct)"),
            "yes (without the tail, which the sampler's drop_last=True leaves out)",
        ),
        (
            evaluation(SHARDED, call="if dist.get_rank() == 0:\n    evaluate(loader)"),
            "no (one rank evaluates, its own part only (line 19))",
        ),
        (
            evaluation(call="if dist.get_rank() == 0:\n    evaluate(loader)"),
            "yes (one process evaluates it whole (line 19))",
        ),
        (
            evaluation(reduction="dist.all_reduce(correct)"),
            "no (every rank counts all of it, then they are combined (line 16))",
        ),
    ],
)
def test_an_evaluation_counts_each_sample_once_or_says_why_not(source: str, counted: str) -> None:
    assert rows(source)["counted once"] == counted


def test_gather_for_metrics_takes_the_padding_out_of_a_prepared_evaluation() -> None:
    text = """\
    import torch
    from accelerate import Accelerator
    from torch.utils.data import DataLoader

    accelerator = Accelerator()
    eval_loader = accelerator.prepare(DataLoader(data, batch_size=4))
    model.eval()
    with torch.no_grad():
        for batch in eval_loader:
            metric.add_batch(accelerator.{}(model(batch)))
    """
    counted = rows(text.format("gather_for_metrics"))["counted once"]
    assert counted == "yes (padding does not reach it (line 10))"
    assert rows(text.format("gather"))["counted once"] == "no (padding is counted too (line 10))"


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (ddp("sampler=s", "s = DistributedSampler(data)"), "no (every epoch repeats the first one's order)"),
        (ddp("sampler=s", "s = DistributedSampler(data, shuffle=False)"), "- (it does not shuffle)"),
        (ddp("shuffle=True"), "- (no sampler of it knows epochs)"),
        (ddp("sampler=Own(data)", "from elsewhere import Own"), "unknown (whether Own asks for it is not seen)"),
        ("from torch.utils.data import DataLoader\nfor b in DataLoader(data): print(b)\n", "- (one process)"),
    ],
)
def test_the_epoch_is_told_or_not_or_need_not_be(source: str, told: str) -> None:
    assert rows(source)["epoch told"] == told


def test_a_check_at_run_time_is_seen() -> None:
    text = ddp("batch_size=2", "from shardfix import sanitize", "sanitize(loader)")
    assert rows(text)["sanitizer"] == "yes"


def test_of_an_owner_that_is_not_shown_nothing_is_guessed() -> None:
    text = """\
    from torch.utils.data import DataLoader
    from accelerate import Accelerator

    accelerator = Accelerator()
    loader = DataLoader(data, batch_size=4)
    if fast:
        loader = accelerator.prepare(loader)
    for batch in loader:
        train(batch)
    """
    found = rows(text)
    assert found["split by"].startswith("unknown (")
    assert found["batch"] == "4 on one process (on N unknown: so is who splits it)"
