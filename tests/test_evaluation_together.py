"""The functions that keep a metric whole: real gloo ranks count each sample once and get the values of one process."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from evaluation_ranks import DRIVEN, SHAPES, WORLDS

from shardfix.evaluation import EvaluationError, all_here, in_order, of_all_batches, reduced, unpadded

SEVERAL = WORLDS[1:]
Ranks = dict[int, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Ranks:
    """What each rank kept, by number of ranks."""
    folder = tmp_path_factory.mktemp("ranks")
    program = [sys.executable, str(Path(__file__).with_name("evaluation_ranks.py")), str(folder)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    files = {world: [folder / f"{world}-{rank}.pickle" for rank in range(world)] for world in WORLDS}
    return {world: [pickle.loads(path.read_bytes()) for path in paths] for world, paths in files.items()}


def can_be_shared(size: int, batch: int, world: int) -> bool:
    return size >= world and (batch > 1 or size % world == 0)


@pytest.mark.parametrize("world", WORLDS)
def test_every_sample_is_read_by_exactly_one_rank(ranks: Ranks, world: int) -> None:
    for size, batch in SHAPES:
        if can_be_shared(size, batch, world):
            shares = [one["read"][size, batch] for one in ranks[world]]
            assert sorted(index for share in shares for part in share for index in part) == list(range(size))


@pytest.mark.parametrize("world", WORLDS)
def test_all_ranks_do_the_steps_of_a_padded_share_and_none_is_empty(ranks: Ranks, world: int) -> None:
    for size, batch in SHAPES:
        if can_be_shared(size, batch, world):
            share = -(-size // world)
            for one in ranks[world]:
                steps = [len(part) for part in one["read"][size, batch]]
                assert len(steps) == -(-share // batch)
                assert min(steps) > 0
                assert max(steps) <= batch


def test_the_last_batches_share_their_samples_where_one_would_be_empty_or_of_one_sample(ranks: Ranks) -> None:
    assert [one["read"][9, 4] for one in ranks[2]] == [[[0, 2, 4], [6, 8]], [[1, 3], [5, 7]]]
    first, second = (one["read"][13, 3] for one in ranks[2])
    assert [first, second] == [[[0, 2, 4], [6, 8], [10, 12]], [[1, 3], [5, 7], [9, 11]]]
    assert ranks[2][0]["read"][12, 4] == [[0, 2, 4, 6], [8, 10]]


@pytest.mark.parametrize("world", SEVERAL)
def test_no_batch_is_of_one_sample_where_that_can_be_avoided(ranks: Ranks, world: int) -> None:
    for size, batch in SHAPES:
        for one in ranks[world] if can_be_shared(size, batch, world) else ():
            steps = [len(part) for part in one["read"][size, batch]]
            if batch > 2 and sum(steps) >= 2 * len(steps):
                assert min(steps) > 1, (size, batch, steps)


@pytest.mark.parametrize("world", SEVERAL)
def test_a_sampler_told_of_its_ranks_before_there_is_a_group_loses_its_padding_too(ranks: Ranks, world: int) -> None:
    shares = [[index for batch in one["early"] for index in batch] for one in ranks[world]]
    assert sorted(index for share in shares for index in share) == list(range(7))
    assert [one["early, in order"] for one in ranks[world]] == [list(range(7))] * world


@pytest.mark.parametrize("world", SEVERAL)
def test_what_has_no_equal_steps_is_refused_on_every_rank_alike(ranks: Ranks, world: int) -> None:
    expected = {shape for shape in SHAPES if not can_be_shared(shape[0], shape[1], world)}
    assert expected
    for one in ranks[world]:
        assert set(one["refused"]) == expected
    (said,) = {one["refused"][1, 16] for one in ranks[world]}
    assert said.split(": ", 1)[1] == (
        f"{world} ranks can't share 1 samples in equal numbers of batches of 16, and with unequal numbers they would"
        " wait for each other for ever; use a batch size of 2 or more and no more ranks than samples"
    )


@pytest.mark.parametrize("world", SEVERAL)
def test_the_loader_is_kept_but_for_its_batches(ranks: Ranks, world: int) -> None:
    for rank, one in enumerate(ranks[world]):
        kept = one["kept"]
        assert (kept["class"], kept["changed"], kept["again"], kept["None"]) == ("Plain", [], True, None)
        own = list(range(rank, 23, world))
        for epoch in kept["epochs"]:  # with persistent workers
            assert [index for part in epoch for index in part] == own
            assert len(epoch) == kept["steps"]
        assert kept["given reads"] == -(-23 // world)
        assert kept["unbatched"] == list(range(rank, 24, world))


@pytest.mark.parametrize("world", SEVERAL)
def test_a_shuffled_loader_is_still_told_the_epoch(ranks: Ranks, world: int) -> None:
    for one in ranks[world]:
        (first, twin_first), (second, twin_second) = one["kept"]["shuffled"]
        assert (twin_first, twin_second) == (first, second)
        assert first != second


@pytest.mark.parametrize("world", WORLDS)
def test_without_a_group_everything_is_given_back(ranks: Ranks, world: int) -> None:
    assert [one["without a group"] for one in ranks[world]] == [[True, True, True, True]] * world


def test_without_torch_distributed_everything_is_given_back() -> None:
    values = [1, 2]
    assert unpadded(values) is values
    assert reduced(1, 0.5) == (1, 0.5)
    assert reduced(values) is values
    assert in_order(values, None) is values
    assert of_all_batches(values) is values
    all_here()


@pytest.mark.parametrize("world", WORLDS)
def test_sums_are_those_of_all_ranks_in_the_types_of_the_values(ranks: Ranks, world: int) -> None:
    total = world * (world + 1) // 2
    expected: dict[str, Any] = {
        "several": (total, 10 * total, sum(0.1 * n for n in range(1, world + 1))),
        "one": total,
        "none": None,
        "nothing": (),
        "large": 2**70 * total,
        "float32": (torch.tensor(0.1) * torch.arange(1, world + 1)).double().sum().float(),
        "float16": torch.full((2,), float(total), dtype=torch.float16),
        "bfloat16": torch.tensor([float(total)], dtype=torch.bfloat16),
        "int32 matrix": torch.full((2, 2), total, dtype=torch.int32),
        "uint8": torch.tensor(100 * world % 256, dtype=torch.uint8),
        "with a graph": torch.ones(2) * total,
        "a view": torch.tensor(total),
        "numpy float32": numpy.float32(0.5 * total),
        "numpy int64": numpy.int64(total),
        "array": numpy.full((3,), total, dtype=numpy.int32),
        "array without dimensions": numpy.array(total),
        "counter": Counter({f"rank {n}": n + 1 for n in range(world)} | {"all": world}),
        "default": (
            {key: value for key, value in ((1, (1, 1, 4, 4)[world - 1]), (0, (0, 2, 2, 6)[world - 1])) if value},
            0,
        ),
        "list": [total, 0.5 * total],
        "tuple": (total, torch.tensor(total)),
        "nested": {"loss": {"sum": 1.0 * total, "count": total}},
    }
    for one in ranks[world]:
        for name, value in expected.items():
            assert_same(one["sums"][name], value, name)


@pytest.mark.parametrize("world", SEVERAL)
def test_a_value_that_some_ranks_have_not_counts_nothing_there(ranks: Ranks, world: int) -> None:
    for one in ranks[world]:
        assert_same(one["sums"]["None on others"], (5, torch.tensor(1.5)), "None on others")
        assert_same(one["sums"]["number here, tensor there"], torch.tensor(2.5 * (world - 1)), "mixed")


@pytest.mark.parametrize("world", SEVERAL)
def test_what_each_rank_has_written_is_there_for_all_that_waited(ranks: Ranks, world: int) -> None:
    assert [one["written"] for one in ranks[world]] == [[f"written by {rank}" for rank in range(world)]] * world


def assert_same(value: Any, expected: Any, name: str) -> None:
    """Equal, and of the same types all the way down."""
    assert type(value) is type(expected), name
    if isinstance(expected, dict):
        assert value.keys() == expected.keys(), name
        for key in expected:
            assert_same(value[key], expected[key], name)
    elif isinstance(expected, (list, tuple)):
        assert len(value) == len(expected), name
        for pair in zip(value, expected, strict=True):
            assert_same(*pair, name)
    elif hasattr(expected, "dtype"):
        assert (value.dtype, value.shape) == (expected.dtype, expected.shape), name
        assert (value == expected).all(), name
        assert not getattr(value, "grad_fn", None), name
    else:
        assert value == expected, name


@pytest.mark.parametrize("world", SEVERAL)
def test_what_has_no_sum_is_refused_on_every_rank_where_it_was_asked_for(ranks: Ranks, world: int) -> None:
    numbers, shapes = list(range(1, world + 1)), [(n,) for n in range(1, world + 1)]
    for one in ranks[world]:
        said = {name: error.split(": ", 1) for name, error in one["sums"]["refused"].items()}
        assert {name: why for name, (_, why) in said.items()} == {
            "bool": "reduced sums numbers, arrays and tensors, and there is a bool",
            "string on one rank": "reduced sums numbers, arrays and tensors, and there is a str",
            "bool tensor": "reduced sums numbers, arrays and tensors, and there is a torch.bool",
            "other lengths": f"reduced needs the same shape on every rank, and there are {numbers}",
            "other shapes": f"reduced needs the same shape on every rank, and there are {shapes}",
        }
        file, line = said["bool"][0].rsplit(":", 1)
        assert Path(file).name == "evaluation_ranks.py"
        assert "reduced(True)" in Path(file).read_text().splitlines()[int(line) - 1]


@pytest.mark.parametrize("world", WORLDS)
def test_results_come_in_the_order_of_the_dataset_as_in_one_process(ranks: Ranks, world: int) -> None:
    (alone,) = ranks[1]
    for one in ranks[world]:
        assert len(one["ordered"]) > 10
        for shape, values in one["ordered"].items():
            for name, value in values.items():
                if "pieces" in name and shape[0] == world:  # each rank has one piece of one sample: as good as a value
                    assert [int(row) for piece in value for row in piece] == list(range(world))
                    continue
                assert_same(value, alone["ordered"][shape][name], f"{name} of {shape}")
    assert alone["ordered"][4, 3]["list"] == ["sample 0", "sample 1", "sample 2", "sample 3"]
    assert alone["ordered"][4, 3]["list pieces"] == [[0, 1, 2], [3]]


def test_results_that_are_not_one_for_each_sample_are_refused_on_every_rank(ranks: Ranks) -> None:
    needed = "in_order needs one value for each sample"
    for one in ranks[2]:
        assert {name: error.split(": ", 1)[1] for name, error in one["ordered wrongly"].items()} == {
            "padded": "the loader reads samples twice to fill its ranks; pass the one that unpadded(loader) returns",
            "too many on one rank": f"{needed}; there are 5 for 4 on rank 0, 3 for 3 on rank 1",
            "a number": f"{needed}; there are a float for 4 on rank 0, a float for 3 on rank 1",
            "a dict": f"{needed}; there are a dict for 4 on rank 0, a dict for 3 on rank 1",
            "None on one rank": f"{needed}; there are a NoneType for 4 on rank 0, 3 for 3 on rank 1",
            "no sampler": (
                "no DistributedSampler: with SequentialSampler it is not known what each of 2 ranks reads; build the"
                " DataLoader with sampler=DistributedSampler(dataset, shuffle=False)"
            ),
        }


def test_ranks_that_are_at_different_evaluations_are_all_told(ranks: Ranks) -> None:
    text = Path(__file__).with_name("evaluation_ranks.py").read_text().splitlines()
    first, second = (1 + next(n for n, line in enumerate(text) if words in line) for words in ("[1, 2]", "(1, 2)"))
    for one in ranks[2]:
        assert one["out of step"].split(": ", 1)[1] == (
            "the ranks wait for each other at different lines: "
            f"evaluation_ranks.py:{first}, evaluation_ranks.py:{second}, first rank first"
        )


@pytest.mark.parametrize("world", [2, 3])
def test_one_value_for_each_batch_comes_batch_by_batch_first_rank_first(ranks: Ranks, world: int) -> None:
    expected = [0, 10, 1, 11, 12] if world == 2 else [0, 10, 20, 1, 11, 21, 12]
    needed = "of_all_batches needs a list with one item for each batch, and there is a"
    for one in ranks[world]:
        found = one["of batches"]
        assert (found["list"], found["tuple"], found["none"]) == (expected, tuple(expected), None)
        assert found["pairs"] == [(value, {"n": value}) for value in expected]
        assert_same(found["tensors"], [torch.tensor(float(value)) for value in expected], "tensors")
        assert_same(found["array"], numpy.array(expected, dtype=numpy.float32), "array")
        assert_same(found["tensor"], torch.tensor(expected), "tensor")
        assert [error.split(": ", 1)[1] for error in found["refused"]] == [
            f"{needed} float",
            f"{needed} NoneType",
            f"{needed} Tensor",
        ]


@pytest.mark.parametrize("world", [2, 3])
def test_two_copies_of_the_file_in_one_program_know_each_others_loaders(ranks: Ranks, world: int) -> None:
    assert [one["by another copy"] for one in ranks[world]] == [list(range(9))] * world


def test_a_loader_whose_padding_is_not_known_is_refused(ranks: Ranks) -> None:
    unknown = (
        "no DistributedSampler: with SequentialSampler it is not known what each of 2 ranks reads; build the DataLoader"
        " with sampler=DistributedSampler(dataset, shuffle=False)"
    )
    for one in ranks[2]:
        assert {name: error.split(": ", 1)[1] for name, error in one["unpadded wrongly"].items()} == {
            "plain": unknown,
            "batch sampler": unknown,
            "other ranks": (
                "its DistributedSampler is made for 5 ranks, and 2 are running; pass num_replicas=2, or leave it out"
            ),
            "drop_last": ("with drop_last=True the samples that are left out depend on the number of ranks; remove it"),
            "own iteration": "Own iterates in a way of its own, so its padding can't be left out",
            "no loader": "a DataLoader is needed, and there is a list",
        }


@pytest.mark.parametrize("world", SEVERAL)
def test_a_model_with_buffers_evaluates_to_the_metric_of_one_process(ranks: Ranks, world: int) -> None:
    (alone,) = ranks[1]
    for shape in DRIVEN:
        correct, total, loss = alone["evaluated"][shape]
        assert total == shape[0]
        for one in ranks[world]:
            assert one["evaluated"][shape] == (correct, total, pytest.approx(loss, rel=1e-6))
        assert len({one["evaluated"][shape] for one in ranks[world]}) == 1


@pytest.mark.parametrize(
    ("local_rank", "current", "count", "own"),
    [
        pytest.param(1, 1, 4, 1, id="set by the program"),
        pytest.param(2, 3, 4, 3, id="set to another one"),
        pytest.param(2, 0, 4, 2, id="not set"),
        pytest.param(5, 0, 4, 1, id="ranks counted through all machines"),
        pytest.param(3, 0, 1, 0, id="one to be seen by each rank"),
        pytest.param(0, 0, 4, 0, id="the first rank"),
    ],
)
def test_nccl_sends_by_a_gpu_of_each_rank_s_own(local_rank: int, current: int, count: int, own: int) -> None:
    from shardfix.evaluation import _gpu_of

    assert _gpu_of(local_rank, current, count) == own


def test_the_file_stands_alone_and_is_exported() -> None:
    import ast

    import shardfix
    from shardfix import evaluation

    text = Path(evaluation.__file__).read_text()
    imported = {n.module.split(".")[0] for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ImportFrom) and n.module}
    assert imported == {"__future__", "typing", "collections", "torch"}
    ast.parse(text, feature_version=(3, 8))
    assert (shardfix.unpadded, shardfix.reduced, shardfix.in_order) == (unpadded, reduced, in_order)
    assert (shardfix.of_all_batches, shardfix.all_here) == (of_all_batches, all_here)
    assert shardfix.EvaluationError is EvaluationError
