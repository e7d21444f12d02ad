"""A loader is judged by what holds where it is built: two conditions on one unchanged name are one branch."""

from __future__ import annotations

import pytest
from plans import planned

HEAD = (
    "import torch\nimport torch.distributed as dist\n"
    "from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset, Subset\n"
    "class Stream(IterableDataset):\n    pass\n"
    "class Rows(Dataset):\n    pass\n"
)
MAIN = "def main(args, model, files, rank, world_size, stream):\n    dist.init_process_group()\n"
LOOP = (
    "    for epoch in range(3):\n        sampler.set_epoch(epoch)\n"
    "        for b in loader:\n            model(b).backward()\n"
)
LOADER = "        sampler = DistributedSampler(data)\n        loader = DataLoader(data, sampler=sampler)\n"


def verdict(body: str) -> list[str]:
    (report,) = planned(HEAD + MAIN + body + LOOP).reports
    return [f.code for f in report.findings] or [report.verdict]


@pytest.mark.parametrize(
    ("made", "asked", "expected"),
    [
        pytest.param("if stream:", "if not stream:", ["right"], id="the other arm"),
        pytest.param("if stream:", "if stream is not None and not stream:", ["right"], id="as a part of more"),
        pytest.param("if stream and args.web:", "if not stream:", ["right"], id="a part of what made it"),
        pytest.param("if args.stream:", "if not args.stream:", ["right"], id="an attribute"),
        pytest.param("if stream:", "if stream:", ["SHD711"], id="the same arm"),
        pytest.param("if stream:", "if args.go:", ["SHD711"], id="of another name"),
        pytest.param("if stream:", "stream = args.other\n    if not stream:", ["SHD711"], id="bound anew between"),
        pytest.param("if stream or args.web:", "if not stream:", ["SHD711"], id="either may have made it"),
    ],
)
def test_a_stream_of_the_other_arm_is_not_what_the_loader_reads(made: str, asked: str, expected: list[str]) -> None:
    body = f"    data = Rows()\n    {made}\n        data = Stream()\n    {asked}\n{LOADER}"
    assert verdict(body) == expected


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param("if not isinstance(data, IterableDataset):", ["right"], id="what is no stream"),
        pytest.param("if not isinstance(data, (IterableDataset, list)):", ["right"], id="nor a list"),
        pytest.param("if not isinstance(data, Rows):", ["SHD711"], id="what is another class"),
        pytest.param("if isinstance(data, IterableDataset):", ["SHD711"], id="what is a stream"),
    ],
)
def test_what_is_asked_to_be_no_stream_is_none(asked: str, expected: list[str]) -> None:
    assert verdict(f"    data = Stream() if stream else Rows()\n    {asked}\n{LOADER}") == expected


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param("if not args.own:", ["right"], id="the sampler shards what is whole"),
        pytest.param("if args.own:", ["SHD715"], id="the sampler shards what is cut"),
    ],
)
def test_data_cut_in_the_other_arm_is_not_split_twice(asked: str, expected: list[str]) -> None:
    body = f"    data = files\n    if args.own:\n        data = files[rank::world_size]\n    {asked}\n{LOADER}"
    assert verdict(body) == expected


SERVES = (
    "def get(mode, distributed, data):\n    {}return DataLoader(data, batch_size=4)\n"
    "def main(args, model, files):\n    dist.init_process_group()\n"
    "    train_loader = get('train', args.distributed, files)\n    val_loader = get('val', args.distributed, files)\n"
    "    for epoch in range(3):\n        for b in train_loader:\n            model(b).backward()\n"
    "        model.eval()\n        with torch.no_grad():\n            for b in val_loader:\n                model(b)\n"
)


@pytest.mark.parametrize(
    ("before", "said"),
    [
        pytest.param("", True, id="always"),
        pytest.param("if mode == 'train':\n        data = Rows()\n    ", True, id="behind a condition"),
        pytest.param("if data is None:\n        return None\n    ", False, id="not where something left before"),
        pytest.param("if data.small:\n        ", False, id="under a condition"),
    ],
)
def test_training_is_said_to_read_everything_only_where_no_condition_chooses_the_loader(
    before: str, said: bool
) -> None:
    (report,) = planned(HEAD + SERVES.format(before)).reports
    assert [f.code for f in report.findings] == ["SHD916"]
    assert ("reads everything on each rank" in report.why) is said


@pytest.mark.parametrize("before", ["if not distributed:\n        ", "if distributed:\n        return None\n    "])
def test_a_loader_of_one_process_is_right_whatever_it_serves(before: str) -> None:
    (report,) = planned(HEAD + SERVES.format(before)).reports
    line = HEAD.count("\n") + 2
    why = f"one process alone builds or reads it (line {line}), so it reads everything"
    assert (report.verdict, report.why) == ("right", why)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param("CIFAR10(root=f'./data_{rank}', train=True, download=True)", "edit", id="each downloads all"),
        pytest.param("CIFAR10(f'./data_{rank}', download=True)", "edit", id="by position"),
        pytest.param("CIFAR10('./data', cache_dir=f'./data_{rank}')", "edit", id="where it is cached"),
        pytest.param("ImageFolder(root=f'./data_{rank}')", "SHD917", id="a folder of each rank's own"),
        pytest.param("CIFAR10(root='./data', download=True).data[rank::world_size]", "SHD917", id="cut afterwards"),
    ],
)
def test_a_rank_in_the_name_of_a_folder_that_each_fills_with_everything_is_no_share(made: str, expected: str) -> None:
    text = (
        "from torchvision.datasets import CIFAR10, ImageFolder\n"
        + HEAD
        + MAIN
        + "    model = torch.nn.parallel.DistributedDataParallel(model)\n"
        + f"    train_set = {made}\n    train_loader = DataLoader(train_set, shuffle=True)\n"
        + "    for epoch in range(3):\n        for b in train_loader:\n            model(b).backward()\n"
    )
    (report,) = planned(text).reports
    assert ([f.code for f in report.findings] or [report.verdict]) == [expected]
