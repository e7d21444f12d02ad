"""What is right in one branch must be right in the others: one process, one rank, another loader, another sampler."""

from __future__ import annotations

import pytest

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Options
from shardfix.planning import Plan, make_plan
from shardfix.rewrite.applier import apply
from shardfix.rewrite.edits import CreateFile

HEAD = (
    "import torch.distributed as dist\n"
    "from torch.utils.data import DataLoader, WeightedRandomSampler\n"
    "from torch.utils.data.distributed import DistributedSampler\n"
    "\n"
    "\n"
)
LOOP = "    for epoch in range(3):\n        for batch in loader:\n            model(batch).backward()\n"


def plan(text: str) -> Plan:
    found = make_plan(link({"train.py": parse("train.py", text)}), ("train.py",), Options(sanitizer="off"))
    assert found.problems == ()  # a file of which the analysis comes to no end is left alone too
    return found


def after(text: str) -> str:
    edits = [e for c in plan(text).changes for e in c.edits if not isinstance(e, CreateFile)]
    return apply(text, list(dict.fromkeys(edits)), path="train.py").text


@pytest.mark.parametrize(
    "built",
    [
        pytest.param(
            "    if args.distributed:\n"
            "        sampler = DistributedSampler(train_set)\n"
            "        loader = DataLoader(train_set, sampler=sampler)\n"
            "        sampler.set_epoch(0)\n"
            "    else:\n"
            "        loader = DataLoader(train_set, shuffle=True)\n",
            id="the else of a distributed run",
        ),
        pytest.param(
            "    dist.init_process_group()\n"
            "    if dist.get_world_size() == 1:\n"
            "        loader = DataLoader(train_set, shuffle=True)\n"
            "    else:\n"
            "        return\n",
            id="a world of one",
        ),
        pytest.param(
            "    dist.init_process_group()\n"
            "    if args.distributed:\n"
            "        return\n"
            "    loader = DataLoader(train_set, shuffle=True)\n",
            id="several processes have left",
        ),
        pytest.param(
            "    dist.init_process_group()\n"
            "    if dist.get_rank() != 0:\n"
            "        return\n"
            "    loader = DataLoader(train_set, shuffle=True)\n",
            id="all ranks but one have left",
        ),
    ],
)
def test_a_loader_of_one_process_is_left_whole(built: str) -> None:
    text = HEAD + "def main(args, train_set, model):\n" + built + LOOP
    assert after(text) == text


def test_a_loader_that_only_rank_0_trains_on_is_left_whole() -> None:
    text = HEAD + (
        "def train(loader, model):\n" + LOOP + "\n\ndef main(train_set, model):\n"
        "    dist.init_process_group()\n"
        "    train_loader = DataLoader(train_set, shuffle=True)\n"
        "    if dist.get_rank() == 0:\n"
        "        train(train_loader, model)\n"
    )
    (report,) = plan(text).reports
    assert report.verdict == "right"
    assert report.why == "only one process trains on it (line 15), so it reads everything, as it should"


def test_the_epoch_is_told_through_the_loader_where_the_sampler_is_bound_in_one_branch_only() -> None:
    built = (
        "def main(args, train_set, model):\n"
        "    if args.distributed:\n"
        "        sampler = DistributedSampler(train_set)\n"
        "        loader = DataLoader(train_set, sampler=sampler)\n"
        "    else:\n"
        "        loader = DataLoader(train_set, shuffle=True)\n"
    )
    assert after(HEAD + built + LOOP) == HEAD + built + (
        "    for epoch in range(3):\n"
        "        if isinstance(loader.sampler, DistributedSampler):\n"
        "            loader.sampler.set_epoch(epoch)\n"
        "        for batch in loader:\n"
        "            model(batch).backward()\n"
    )


def test_the_other_branch_s_sampler_is_not_told() -> None:
    built = (
        "def main(args, train_set, model):\n"
        "    dist.init_process_group()\n"
        "    if args.balanced:\n"
        "        loader = DataLoader(train_set, sampler=WeightedRandomSampler(args.weights, 9))\n"
        "    else:\n"
        "{loader}"
    )
    plain = "        loader = DataLoader(train_set, shuffle=True)\n"
    sharded = (
        "        train_sampler = DistributedSampler(train_set, shuffle=True)\n"
        "        loader = DataLoader(train_set, sampler=train_sampler)\n"
    )
    assert after(HEAD + built.format(loader=plain) + LOOP) == HEAD + built.format(loader=sharded) + (
        "    for epoch in range(3):\n"
        "        if isinstance(loader.sampler, DistributedSampler):\n"
        "            loader.sampler.set_epoch(epoch)\n"
        "        for batch in loader:\n"
        "            model(batch).backward()\n"
    )


def test_a_loader_that_may_be_something_else_is_refused() -> None:
    text = HEAD + (
        "def main(train_set, model):\n"
        "    dist.init_process_group()\n"
        "    try:\n"
        "        loader = DataLoader(train_set, shuffle=True)\n"
        "    except MemoryError:\n"
        "        loader = [model.example]\n" + LOOP
    )
    assert after(text) == text
    assert [f.code for r in plan(text).reports for f in r.findings] == ["SHD909"]


def test_the_same_condition_around_loader_and_loop_is_one_branch() -> None:
    text = HEAD + (
        "def main(args, train_set, model):\n"
        "    dist.init_process_group()\n"
        "    if args.train:\n"
        "        loader = DataLoader(train_set, sampler=DistributedSampler(train_set))\n"
        "    if args.train:\n"
        "        for epoch in range(3):\n"
        "            for batch in loader:\n"
        "                model(batch).backward()\n"
    )
    assert "            loader.sampler.set_epoch(epoch)\n            for batch" in after(text)
    assert "isinstance" not in after(text)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param("parts(rank=dist.get_rank(), world=dist.get_world_size())", id="told rank and world"),
        pytest.param("files[dist.get_rank() :: dist.get_world_size()]", id="cut by rank"),
        pytest.param("files[args.rank :: args.world_size]", id="cut by an argument"),
        pytest.param("Subset(files, range(rank, len(files), world_size))", id="a range by rank"),
        pytest.param("files.shard(world_size, rank)", id="sharded"),
        pytest.param("split_dataset_by_node(files, rank, world_size)", id="split by node"),
    ],
)
def test_a_dataset_that_is_split_by_rank_is_not_split_again(data: str) -> None:
    text = HEAD + (
        "def main(args, files, model, rank, world_size):\n"
        "    dist.init_process_group()\n"
        f"    train_set = {data}\n"
        "    loader = DataLoader(train_set, shuffle=True)\n" + LOOP
    )
    assert after(text) == text
    assert [f.code for r in plan(text).reports for f in r.findings] == ["SHD917"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param(
            "if i % dist.get_world_size() != dist.get_rank():\n                continue\n", "SHD917", id="skipped"
        ),
        pytest.param("batch = batch.chunk(dist.get_world_size())[dist.get_rank()]\n", "SHD917", id="cut"),
        pytest.param(
            "mine = gathered[rank * size : (rank + 1) * size]\n", "", id="gathered features are not the batch"
        ),
    ],
)
def test_batches_that_are_split_by_rank(body: str, code: str) -> None:
    text = HEAD + (
        "def main(train_set, model):\n"
        "    dist.init_process_group()\n"
        "    loader = DataLoader(train_set, shuffle=True)\n"
        "    for epoch in range(3):\n"
        "        for i, batch in enumerate(loader):\n"
        f"            {body}"
        "            model(batch).backward()\n"
    )
    assert [f.code for r in plan(text).reports for f in r.findings] == ([code] if code else [])
    assert bool(plan(text).changes) is not bool(code)


FUNCTION = (
    "def train(loader, model):\n"
    "    for epoch in range(3):\n"
    "{told}"
    "        for batch in loader:\n"
    "            model(batch).backward()\n"
    "\n"
    "\n"
    "dist.init_process_group()\n"
    "train_sampler = DistributedSampler(train_set)\n"
    "train_loader = DataLoader(train_set, sampler=train_sampler)\n"
    "train(train_loader, model)\n"
)


def test_a_function_tells_the_sampler_of_the_loader_that_it_is_given() -> None:
    told = "        loader.sampler.set_epoch(epoch)\n"
    assert after(HEAD + FUNCTION.format(told="")) == HEAD + FUNCTION.format(told=told)


def test_a_function_that_is_given_other_loaders_too_asks_first() -> None:
    told = (
        '        if isinstance(getattr(loader, "sampler", None), DistributedSampler):\n'
        "            loader.sampler.set_epoch(epoch)\n"
    )
    more = "train(model.own_loader, model)\n"
    assert after(HEAD + FUNCTION.format(told="") + more) == HEAD + FUNCTION.format(told=told) + more
