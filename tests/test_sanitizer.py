"""The run-time check: what it lets through, refuses and rebuilds, judged by what two real processes then read."""

from __future__ import annotations

import ast
import contextlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

import shardfix
from shardfix import sanitizer
from shardfix.sanitizer import DataLoaderSanitizer, ShardingError, ShardingWarning, sanitize

SOURCE = Path(sanitizer.__file__)
EVERY = set(range(24))  # what sanitizer_ranks.py reads
DATA: Any = list(range(21))
LONGER: Any = list(range(50))

# ------------------------------------------------------------------------------------ two real processes


def ranks(folder: Path, world: int = 2) -> list[dict[str, dict[str, Any]]]:
    """Runs sanitizer_ranks.py in several processes and returns what each of them saw."""
    program = Path(__file__).with_name("sanitizer_ranks.py")
    told = {"WORLD_SIZE": str(world), "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, str(program), str(folder)],
            env=os.environ | told | {"RANK": str(r), "LOCAL_RANK": str(r)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for r in range(world)
    ]
    try:
        errors = [process.communicate(timeout=180)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    # The exit code is not looked at: what counts is written by then, and forked helpers may abort on the way out.
    written = [folder / f"rank{r}.json" for r in range(world)]
    assert all(path.exists() for path in written), errors
    return [json.loads(path.read_text()) for path in written]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, dict[str, Any]]]:
    return ranks(tmp_path_factory.mktemp("two"))


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, dict[str, Any]]]:
    return ranks(tmp_path_factory.mktemp("three"), 3)


@pytest.fixture(scope="module")
def both(two: Any) -> Callable[[str], tuple[dict[str, Any], dict[str, Any]]]:
    """What rank 0 and rank 1 saw, by the name of the case."""
    return lambda name: (two[0][name], two[1][name])


# What is said of each sampler: + right, - refused, ? warned about, ! refused on all ranks but 0, a blank: not asked.
SAID = """
                      ddp hf-trainer accelerate uneven split dispatch prepared
default                -      -          +        +      +       +        +
shuffle=True           -      -          +        +      +       +        +
Sequential             -      -          +        +      +       +        +
Random                 -      -          +        +      +       +        +
Distributed            +      +          -        -      -       -        -
Distributed ordered    +      +          -        -      -       -        -
Distributed alone      -      -          +        +      +       +        +
Distributed rank 0     !      !          -        -      -       -        -
Distributed of half    +      +          -        -      -       -        -
Random of half         -      -          +        +      +       +        +
Distributed too many   -      -          -        -      -       -        -
SubsetRandom           -      -          +        +      +       +        +
Weighted               -      -          +        +      +       +        +
replacement            -      -          +        +      +       +        +
Batch(Sequential)      -      -          +        +      +       +        +
Batch(Random)          -      -          +        +      +       +        +
Batch(Distributed)     +      +          -        -      -       -        -
sampler=Batch          -      -          +        +      -                +
sampler=Batch(Dist)    +      +          -        -      -                -
no batches             -      -          ?        ?      -                ?
no batches, Dist       +      +          -        -      -                ?
Custom                 ?      ?          ?        ?      ?       +        ?
Ordered                ?      ?          ?        ?      ?       +        ?
Global                 ?      ?          ?        ?      ?       +        ?
Generated              ?      ?          +        +      +       +        +
RankAware              +      +          -        -      -       -        -
RankAware rank 0       !      !          -        -      -       -        -
Lists                  ?      ?          ?        ?      -       +        ?
Ragged                 ?      ?          ?        ?      ?       +        ?
RaggedSayingSo         ?      ?          ?        ?      -       +        ?
OwnBatches             ?      ?          ?        ?      ?       +        ?
OwnBatches(Dist)       +      +          -        -      -       -        -
size 7                 -      -          +        +      -       +        +
WholeStream            ?      ?          +        +      +       +        +
ShardedStream          +      +          ?        ?      ?       ?        ?
"""
SAMPLERS = [line[:21].strip() for line in SAID.splitlines()[2:]]
COLUMNS = SAID.splitlines()[1].split()
DRAWN = {"replacement": 36, "Distributed of half": 36, "Random of half": 36}  # of 72


def mark(seen: list[dict[str, Any]]) -> str:
    marks = "".join("-" if one["error"] else "?" if one["warnings"] else "+" for one in seen)
    return "!" if set(marks[1:]) == {"-"} and marks[0] == "+" else marks[0] if len({*marks}) == 1 else marks


def is_right(sampler: str, seen: list[dict[str, Any]]) -> bool:
    """Whether the ranks together read what one process would, once, in as many steps. (Drawn with replacement, the
    number of draws tells: all ranks' own draws are more than one process's.)"""
    if any(one["read"] is None for one in seen):
        return False
    read = [index for one in seen for index in one["read"]]
    every = DRAWN.get(sampler, 72)
    if sampler in ("Weighted", "replacement"):
        return len(read) == every
    if sampler == "size 7":  # 11 batches, not a multiple of the ranks: the last ones are padded
        return {*read} == {*range(72)} and len(read) <= 72 + 7 * len(seen)
    return sorted(read) == ([*range(1, 72, 2)] if sampler == "SubsetRandom" else [*range(every)])


@pytest.mark.parametrize("world", ["two", "three"])
def test_what_is_said_of_every_sampler_under_every_owner_is_what_the_ranks_really_read(
    world: str, request: pytest.FixtureRequest
) -> None:
    seen = request.getfixturevalue(world)
    said, wrongly = [SAID.splitlines()[1]], []
    for sampler in SAMPLERS:
        line = sampler.ljust(23)
        for column in COLUMNS:
            case = [one[f"{column}: {sampler}"] for one in seen if f"{column}: {sampler}" in one]
            place = SAID.splitlines()[1].index(column) + len(column) // 2
            told = mark(case) if case else " "
            line = line.ljust(place) + told
            if case and column != "prepared" and told in "+-!" and is_right(sampler, case) != (told == "+"):
                wrongly.append((column, sampler, told, [one["read"] for one in case]))
        said.append(line.rstrip())
    assert wrongly == []
    table = [re.sub(r"(?<=.{22}) +", " ", line).split() for line in said]
    assert table == [line.split() for line in SAID.splitlines()[1:]]


def test_a_loader_is_right_once_it_is_built_as_the_message_says(two: Any, three: Any) -> None:
    for seen in (two, three):
        names = [name for name in seen[-1] if name.startswith("followed ")]
        assert len(names) > 100
        for name in names:
            case = [one.get(name, one[name.removeprefix("followed ")]) for one in seen]
            assert is_right(name.split(": ")[1], case), (name, case[-1]["said"])
            # Whether batches of the project's own are alike on all ranks stays unknown.
            own = case[-1]["said"][-1].startswith("Seed it alike on every rank")
            assert mark(case) == ("?" if own else "+"), name


def test_handing_the_loader_to_prepare_makes_it_right_where_a_message_says_so(two: Any) -> None:
    names = [name for name in two[0] if name.startswith("handed ddp: ")]
    assert len(names) > 8
    for name in names:
        case = [one[name] for one in two]
        assert (mark(case), is_right(name.removeprefix("handed ddp: "), case)) == ("+", True), name


def assert_right(one: dict[str, Any], other: dict[str, Any], every: set[int] = EVERY) -> None:
    """Disjoint, complete, and nothing twice (24 samples are a multiple of 2 ranks times a batch of 2: no padding)."""
    assert sorted(one["read"] + other["read"]) == sorted(every)
    assert len(one["read"]) == len(other["read"])


@pytest.mark.parametrize(
    "name", ["ddp: right", "ddp: right, owner guessed", "accelerate: plain", "dispatch: plain"], ids=str
)
def test_a_right_loader_comes_back_as_the_same_object_and_is_right(both: Any, name: str) -> None:
    one, other = both(name)
    assert [(x["same"], x["error"], x["warnings"]) for x in (one, other)] == [(True, "", [])] * 2
    assert_right(one, other)


def test_an_unsharded_loader_is_refused_and_each_rank_would_have_read_everything(both: Any) -> None:
    for rank in both("ddp: unsharded"):
        assert "not sharded: SequentialSampler knows no ranks, so every rank would read all 24 samples" in rank["error"]
        assert rank["read"] == sorted(EVERY)
    for rank in both("ddp: unsharded, owner guessed"):
        assert "not sharded: RandomSampler" in rank["error"]


def test_a_loader_sharded_twice_is_refused_and_would_have_lost_what_the_message_says(both: Any) -> None:
    one, other = both("accelerate: sharded twice")
    for rank in (one, other):
        assert "each of 2 ranks would read about 25 % of the 24 samples, and all of them together 50 %" in rank["error"]
        assert len(rank["read"]) == 24 * 25 / 100
    assert len({*one["read"], *other["read"]}) == 24 * 50 / 100
    assert "sharded twice" in both("accelerate: sharded twice, owner guessed")[0]["error"]


def test_a_distributed_sampler_under_dispatch_is_refused_and_would_have_lost_what_the_message_says(both: Any) -> None:
    one, other = both("dispatch: distributed")
    assert "the 2 ranks together would read 50 % of the 24 samples" in one["error"]
    assert len({*one["read"], *other["read"]}) == 24 * 50 / 100


def test_a_constant_rank_is_refused_on_the_rank_that_would_read_a_part_again(both: Any) -> None:
    one, other = both("ddp: constant rank")
    assert one["same"]
    assert "wrong rank: DistributedSampler (part 0 of 2) on rank 1" in other["error"]


@pytest.mark.parametrize(
    ("name", "every"),
    [
        ("fix: plain", EVERY),
        ("fix: shuffled", EVERY),
        ("fix: subset", set(range(8))),
        ("fix: batch sampler", EVERY),
        ("fix: constant rank", EVERY),
        ("fix: Trainer override", EVERY),
        ("fix: sharded twice", EVERY),
    ],
)
def test_a_rebuilt_loader_is_right_and_says_that_it_was_rebuilt(both: Any, name: str, every: set[int]) -> None:
    one, other = both(name)
    assert_right(one, other, every)
    assert "It was rebuilt for this run" in other["warnings"][0]
    assert other["error"] == ""


REBUILT = {
    "ddp": "default, shuffle=True, Sequential, Random, Distributed alone, Distributed rank 0, Random of half, "
    "Distributed too many, SubsetRandom, Batch(Sequential), Batch(Random), no batches, size 7",
    "accelerate": "Distributed, Distributed ordered, Distributed rank 0, Distributed too many, Batch(Distributed)",
}


@pytest.mark.parametrize("owner", ["ddp", "hf-trainer", "accelerate"])
def test_fix_rebuilds_what_it_understands_and_what_it_rebuilds_is_right(two: Any, three: Any, owner: str) -> None:
    for seen in (two, three):
        rebuilt = []
        for name in SAMPLERS:
            case = [one[f"fixed {owner}: {name}"] for one in seen]
            if not any("It was rebuilt for this run" in text for text in case[-1]["warnings"]):
                assert (
                    mark([one[f"{owner}: {name}"] for one in seen]) in "+?" or "can't be rebuilt" in case[-1]["error"]
                )
                continue
            rebuilt.append(name)
            assert is_right(name, case), name
        assert rebuilt == REBUILT["ddp" if owner == "hf-trainer" else owner].split(", ")


def test_a_rebuilt_loader_has_its_workers_their_start_and_what_they_collate(both: Any) -> None:
    one, other = both("fix: with workers")
    assert sorted(code % 100 for code in one["read"] + other["read"]) == sorted(EVERY)
    assert {code // 100 for code in one["read"]} == {0, 1}  # started by worker_init_fn, collated by collate_fn


def test_fix_keeps_the_order_of_an_ordered_loader_and_the_shuffling_of_a_shuffled_one(both: Any) -> None:
    assert [rank["read"] == sorted(rank["read"]) for rank in both("fix: plain")] == [True, True]
    assert [rank["read"] == sorted(rank["read"]) for rank in both("fix: shuffled")] == [False, False]
    assert [rank["read"] == sorted(rank["read"]) for rank in both("fix: sharded twice")] == [False, False]


@pytest.mark.parametrize("owner", ["accelerate", "ddp", "hf-trainer"])
def test_a_prepared_loader_is_right_for_every_owner(both: Any, owner: str) -> None:
    assert [rank["same"] for rank in both(f"prepared: {owner}")] == [True, True]


def test_a_loader_that_nobody_prepares_is_unsharded_in_an_accelerate_program_too(both: Any) -> None:
    for rank in both("accelerate: plain, not prepared"):
        assert rank["error"].endswith("or hand the loader to accelerator.prepare()")
    assert both("accelerate: plain, owner guessed")[0]["same"]


MISSING = "WORLD_SIZE is 2 but the process group is not initialised yet"


def test_a_group_that_is_not_there_yet_is_never_passed_in_silence(both: Any) -> None:
    for name in ("no group: plain", "no group: plain, owner guessed"):
        assert [MISSING in rank["error"] for rank in both(name)] == [True, True]
    for name in ("no group: plain, warn", "no group: stream", "no group: plain, accelerate"):
        assert [(rank["same"], MISSING in rank["warnings"][0]) for rank in both(name)] == [(True, True)] * 2


def test_without_a_group_explicit_numbers_are_judged(both: Any) -> None:
    for name in ("no group: explicit numbers", "no group: numbers given"):
        assert [(rank["same"], rank["warnings"]) for rank in both(name)] == [(True, [])] * 2


# ------------------------------------------------------------------------------------ one process


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.delenv("RANK", raising=False)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("owner", [None, "accelerate", "ddp", "hf-trainer"])
@pytest.mark.parametrize("action", ["raise", "fix", "warn"])
def test_one_process_gets_its_loader_back_untouched(owner: str | None, action: Any) -> None:
    for loader in (DataLoader(DATA), DataLoader(DATA, sampler=DistributedSampler(DATA, num_replicas=1, rank=0)), None):
        assert sanitize(loader, owner=owner, on_violation=action) is loader
    loader = DataLoader(DATA)
    assert DataLoaderSanitizer(1, 0, strict=True).sanitize(loader) is loader


@pytest.mark.usefixtures("alone")
def test_a_world_size_of_one_or_of_nonsense_is_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    loader = DataLoader(DATA)
    for value in ("1", "0", "", "two", "-3"):
        monkeypatch.setenv("WORLD_SIZE", value)
        assert sanitize(loader, owner="ddp") is loader


def test_without_a_rank_a_sampler_is_not_passed_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("RANK", raising=False)
    loader = DataLoader(DATA, sampler=DistributedSampler(DATA, num_replicas=2, rank=0))
    with pytest.warns(ShardingWarning, match="RANK is none of its ranks"):
        assert sanitize(loader, owner="ddp") is loader
    with pytest.raises(ShardingError, match="can't be rebuilt at run time: RANK does not say"):
        sanitize(DataLoader(DATA), owner="ddp", on_violation="fix")


# ------------------------------------------------------------------------------------ what is let through, what is not


class Custom(Sampler[int]):
    """Says nothing about ranks."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(21))

    def __len__(self) -> int:
        return 21


class Generated(Custom):
    """Has the generator that accelerate looks for."""

    generator = None


class RankAware(Custom):
    def __init__(self, parts: int, own: int) -> None:
        self.num_replicas, self.rank = parts, own


class Ordered(SequentialSampler):
    """A subclass may read anything."""


class OwnBatches(BatchSampler):
    """Makes its own batches."""


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(21))


class ShardedStream(Stream):
    world_size, rank = 2, 0


class OwnLoader(DataLoader[int]):
    """Its constructor may take anything."""


def distributed(parts: int = 2, own: int = 0, **options: Any) -> DistributedSampler[int]:
    return DistributedSampler(DATA, num_replicas=parts, rank=own, **options)


def by_batch(sampler: Any, kind: type[BatchSampler] = BatchSampler) -> DataLoader[int]:
    return DataLoader(DATA, batch_sampler=kind(sampler, 4, False))


def weighted() -> WeightedRandomSampler:
    return WeightedRandomSampler([1.0] * 21, 21)


def outcome(loader: Any, owner: str, **options: Any) -> str:
    """Rank 0 of two: "passes", or the message of the warning or of the error, without its place."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ShardingWarning)
        try:
            assert sanitize(loader, owner=owner, num_replicas=2, rank=0, **options) is loader
        except ShardingError as error:
            return "refused: " + str(error).split(": ", 1)[1]
    told = [str(one.message) for one in caught if one.category is ShardingWarning]
    return "warned: " + told[0].split(": ", 1)[1] if told else "passes"


@pytest.mark.parametrize(
    ("owner", "loader"),
    [
        pytest.param("accelerate", DataLoader(DATA), id="prepare() shards the default sampler"),
        pytest.param("accelerate", DataLoader(DATA, shuffle=True), id="prepare() shards shuffle=True"),
        pytest.param("accelerate", DataLoader(DATA, sampler=weighted()), id="prepare() shards weighted draws"),
        pytest.param("accelerate", DataLoader(DATA, sampler=SubsetRandomSampler(range(5))), id="and subsets"),
        pytest.param("accelerate", DataLoader(DATA, sampler=Generated()), id="and what draws by a generator it syncs"),
        pytest.param("accelerate", by_batch(SequentialSampler(DATA)), id="prepare() shards a batch sampler"),
        pytest.param("accelerate", DataLoader(DATA, sampler=distributed(1, 0)), id="one replica splits nothing"),
        pytest.param("accelerate", DataLoader(DATA, sampler=RankAware(1, 0)), id="one rank splits nothing"),
        pytest.param("accelerate", DataLoader(Stream()), id="a stream is dispatched from rank 0"),
        pytest.param("ddp", DataLoader(DATA, sampler=distributed()), id="the sampler is for this rank"),
        pytest.param("ddp", by_batch(distributed()), id="seen through BatchSampler"),
        pytest.param("ddp", by_batch(distributed(), OwnBatches), id="seen through a subclass of BatchSampler"),
        pytest.param("ddp", DataLoader(DATA, batch_size=None, sampler=distributed()), id="without batches"),
        pytest.param("ddp", DataLoader(DATA, sampler=RankAware(2, 0)), id="a custom sampler for this rank"),
        pytest.param("ddp", DataLoader(ShardedStream()), id="a stream that is for this rank"),
        pytest.param("hf-trainer", DataLoader(DATA, sampler=distributed()), id="the Trainer uses it as it is"),
    ],
)
def test_what_is_right_passes(owner: str, loader: Any) -> None:
    assert outcome(loader, owner) == "passes"


PARTS = "Give it the num_replicas= and rank= that sanitize() is given"
BY_HAND = "Draw with the same seed on every rank and let rank r keep indices[r::num_replicas]"


@pytest.mark.parametrize(
    ("owner", "loader", "message"),
    [
        (
            "accelerate",
            DataLoader(DATA, sampler=distributed(shuffle=False)),
            "refused: sharded twice: DistributedSampler (part 0 of 2) splits the data and Accelerator.prepare() splits "
            "what is left again, so each of 2 ranks would read about 25 % of the 21 samples, and all of them together "
            "50 %. Remove sampler=: prepare() shards the loader by itself",
        ),
        (
            "accelerate",
            by_batch(distributed(4)),
            "refused: sharded twice: DistributedSampler (part 0 of 4) splits the data and Accelerator.prepare() splits "
            "what is left again, so each of 2 ranks would read about 12.5 % of the 21 samples, and all of them "
            "together 25 %. Make its BatchSampler of RandomSampler(dataset) instead: prepare() shards the loader by "
            "itself",
        ),
        (
            "accelerate",
            DataLoader(DATA, sampler=RankAware(2, 0)),
            "refused: sharded twice: RankAware (part 0 of 2) splits the data and Accelerator.prepare() splits what is "
            "left again, so each of 2 ranks would read about 25 % of the samples, and all of them together 50 %. "
            "Let RankAware yield the indices of all ranks: prepare() splits them",
        ),
        (
            "accelerate",
            DataLoader(ShardedStream()),
            "warned: ShardedStream seems to read one of 2 shards by itself, and Accelerator.prepare() splits what it "
            "reads again. Let one of the two shard it",
        ),
        (
            "ddp",
            DataLoader(DATA),
            "refused: not sharded: SequentialSampler knows no ranks, so every rank would read all 21 samples. Pass "
            "DataLoader sampler=DistributedSampler(dataset, shuffle=False) in place of its sampler= or shuffle=",
        ),
        (
            "ddp",
            by_batch(RandomSampler(DATA)),
            "refused: not sharded: RandomSampler knows no ranks, so every rank would read all 21 samples. Make its "
            "BatchSampler of DistributedSampler(dataset, shuffle=True) instead and call its set_epoch(epoch) at the "
            "start of each epoch",
        ),
        (
            "ddp",
            DataLoader(DATA, sampler=SubsetRandomSampler(range(5))),
            "refused: not sharded: SubsetRandomSampler knows no ranks, so every rank would read all 5 samples. Let "
            "dataset = Subset(dataset, indices) be what it loads. Pass DataLoader sampler=DistributedSampler(dataset, "
            "shuffle=True) in place of its sampler= or shuffle= and call its set_epoch(epoch) at the start of each "
            "epoch",
        ),
        (
            "ddp",
            DataLoader(DATA, sampler=weighted()),
            "refused: not sharded: every rank would draw its own 21 samples with WeightedRandomSampler. " + BY_HAND,
        ),
        (
            "ddp",
            DataLoader(DATA, sampler=RandomSampler(DATA, num_samples=6)),
            "refused: not sharded: every rank would draw its own 6 samples with RandomSampler. " + BY_HAND,
        ),
        (
            "ddp",
            DataLoader(DATA, sampler=distributed(1)),
            "refused: not sharded: with DistributedSampler (part 0 of 1) every rank would read all 21 samples. "
            + PARTS,
        ),
        (
            "ddp",
            DataLoader(DATA, sampler=distributed(2, 1)),
            "refused: wrong rank: DistributedSampler (part 1 of 2) on rank 0 reads another rank's part of the 21 "
            "samples a second time. " + PARTS,
        ),
        (
            "ddp",
            DataLoader(DATA, sampler=distributed(8)),
            "refused: wrong number of ranks: DistributedSampler (part 0 of 8) among 2 ranks leaves 75 % of the 21 "
            "samples to nobody. " + PARTS,
        ),
        (
            "ddp",
            DataLoader(DATA, sampler=Custom()),
            "warned: Custom has no num_replicas and rank, so it can't be seen what each of 2 ranks reads. If it gives "
            "each rank its part, keep those two as its attributes or pass sanitize num_replicas=1; if not, every rank "
            "reads it all",
        ),
        (
            "hf-trainer",
            DataLoader(DATA, shuffle=True),
            "refused: not sharded: RandomSampler knows no ranks, so every rank would read all 21 samples. Return "
            "self.accelerator.prepare(loader)",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_loss_and_its_repair(owner: str, loader: Any, message: str) -> None:
    assert outcome(loader, owner) == message
    if message.startswith("refused"):
        assert outcome(loader, owner, on_violation="warn") == message.replace("refused", "warned", 1)


def test_the_numbers_that_a_message_names_are_those_that_make_the_sampler_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(ShardingError) as refused:
        sanitize(DataLoader(DATA, sampler=distributed(2, 0)), owner="ddp")
    first, todo = str(refused.value).split(". ")[1:]
    assert first == "Call torch.distributed.init_process_group() before the loaders are built"
    assert todo == 'Pass num_replicas=2, rank=int(os.environ["RANK"])'
    right = DataLoader(DATA, sampler=eval(f"DistributedSampler(DATA, {todo.removeprefix('Pass ')})"))
    assert sanitize(right, owner="ddp") is right


def test_a_message_says_which_owner_was_assumed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ShardingError, match=re.escape('(owner="ddp" was assumed: no Accelerator is running)')):
        sanitize(DataLoader(DATA), num_replicas=2, rank=0)
    with pytest.raises(ShardingError) as refused:
        sanitize(DataLoader(DATA), owner="ddp", num_replicas=2, rank=0)
    assert "assumed" not in str(refused.value)


def test_what_only_looks_like_a_loader_is_not_passed_in_silence() -> None:
    told = "warned: SimpleNamespace is no DataLoader, so it can't be seen what it reads. Shard it by hand"
    assert outcome(SimpleNamespace(dataset=DATA), "ddp") == told
    assert outcome(SimpleNamespace(dataset=DATA), "accelerate") == told


class OwnReader(DataLoader[int]):
    def __iter__(self) -> Any:
        return iter([])


class Part(Stream):
    """A dataset of this rank's samples, as far as its attributes tell."""

    num_shards, shard_id = 2, 0


class PartOfMany(torch.utils.data.Dataset[int]):
    rank, world_size = 0, 2

    def __len__(self) -> int:
        return 10


class SplitByNode(Stream):
    """As datasets.distributed.split_dataset_by_node leaves it."""

    _distributed = SimpleNamespace(rank=0, world_size=2)


class Around:
    """A sampler of a library, with the one that it reads under a name of its own."""

    def __init__(self, inner: Any, name: str) -> None:
        setattr(self, name, inner)

    def __iter__(self) -> Iterator[Any]:
        return iter([])


def around(inner: Any, name: str = "sampler") -> DataLoader[int]:
    return DataLoader(DATA, sampler=Around(inner, name))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("owner", "loader", "said"),
    [
        pytest.param("ddp", OwnLoader(DATA), "refused: not sharded", id="a subclass that reads as torch does"),
        pytest.param("ddp", OwnReader(DATA), "warned: OwnReader has no", id="one that reads otherwise"),
        pytest.param("ddp", OwnReader(DATA, sampler=distributed()), "passes", id="but its sampler is for this rank"),
        pytest.param("ddp", around(distributed()), "passes", id="a wrapper that shows what it wraps"),
        pytest.param("ddp", around(distributed(), "inner"), "warned: Around has no", id="one that hides it"),
        pytest.param("ddp", around(RandomSampler(DATA)), "warned: Around has no", id="around one that knows no ranks"),
        pytest.param("ddp", DataLoader(DATA, sampler=[3, 1]), "warned: list has no", id="a list of indices"),
        pytest.param("ddp", DataLoader(DATA, batch_sampler=[[3, 1]]), "warned: list has no", id="a list of batches"),
        pytest.param("ddp", DataLoader(Part()), "passes", id="a stream that is this rank's part"),
        pytest.param("ddp", DataLoader(SplitByNode()), "passes", id="a stream that was split by node"),
        pytest.param("ddp", DataLoader(PartOfMany()), "warned: PartOfMany seems to read", id="a dataset that may be"),
        pytest.param("ddp", DataLoader(Stream()), "warned: Stream has no", id="a stream that says nothing"),
        pytest.param("accelerate", around(distributed()), "refused: sharded twice", id="prepare() splits it again"),
        pytest.param("accelerate", around(RandomSampler(DATA)), "warned: Around has no gen", id="too deep to sync"),
        pytest.param("accelerate", DataLoader(DATA, sampler=[3, 1]), "warned: list has no gen", id="drawn by whom?"),
        pytest.param("accelerate", DataLoader(SplitByNode()), "warned: SplitByNode seems", id="split, split again"),
        pytest.param("accelerate", DataLoader(PartOfMany()), "warned: PartOfMany seems", id="a part, split again"),
        pytest.param("accelerate", SimpleNamespace(**vars(DataLoader(DATA))), "refused: not shard", id="not torch's"),
    ],
)  # fmt: skip
def test_odd_loaders_are_judged_by_what_they_show_and_no_further(owner: str, loader: Any, said: str) -> None:
    assert outcome(loader, owner).startswith(said)


class Endless(Sampler[int]):
    """Has no length, and so neither has the batch sampler around it."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(10**9))


class Lookup:
    """Looks up what it does not have, and fails in a way of its own."""

    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)

    def __getitem__(self, index: int) -> int:
        return index


@pytest.mark.parametrize("owner", ["ddp", "accelerate", "hf-trainer"])
@pytest.mark.parametrize("action", ["raise", "warn", "fix"])
@pytest.mark.parametrize(
    "loader",
    [
        DataLoader(DATA, sampler=Endless()),
        DataLoader(DATA, batch_sampler=BatchSampler(Endless(), 2, False)),
        DataLoader(DATA, batch_size=None, sampler=BatchSampler(Endless(), 2, False)),
        DataLoader(Lookup(), sampler=DistributedSampler(range(5), num_replicas=2, rank=1)),  # type: ignore[arg-type]
        DataLoader(Lookup(), sampler=SequentialSampler(range(5))),  # type: ignore[arg-type]
        DataLoader(Lookup(), sampler=SubsetRandomSampler(range(5))),  # type: ignore[arg-type]
        DataLoader([], sampler=DistributedSampler([], num_replicas=2, rank=0)),
    ],
    ids=[
        "endless",
        "endless batches",
        "endless, unbatched",
        "looks up, sharded",
        "looks up, in order",
        "looks up, a subset",
        "empty",
    ],
)
def test_no_loader_makes_the_check_itself_fail(loader: Any, owner: str, action: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShardingWarning)
        # Whatever it says of them: it is no other error than its own.
        with contextlib.suppress(ShardingError):
            assert isinstance(sanitize(loader, owner=owner, on_violation=action, num_replicas=2, rank=0), DataLoader)
        with contextlib.suppress(ShardingError):
            assert DataLoaderSanitizer(2, 0, strict=True).sanitize(loader) is loader


def test_what_a_message_says_to_pass_ends_the_warning() -> None:
    for loader in (DataLoader(DATA, sampler=Custom()), DataLoader(Stream()), DataLoader(PartOfMany())):
        assert "pass sanitize num_replicas=1" in outcome(loader, "ddp")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert sanitize(loader, owner="ddp", num_replicas=1) is loader


@pytest.mark.parametrize(
    "loader", [DataLoader(DATA, sampler=Ordered(DATA)), by_batch(SequentialSampler(DATA), OwnBatches)]
)
def test_what_a_subclass_of_a_known_sampler_reads_is_not_guessed(loader: Any) -> None:
    assert outcome(loader, "ddp").startswith("warned: O")


def test_the_error_and_the_warning_name_the_line_of_the_call() -> None:
    place = f"{__file__}:{inspect.currentframe().f_lineno + 2}: "  # type: ignore[union-attr]
    with pytest.raises(ShardingError) as refused:
        sanitize(DataLoader(DATA), owner="ddp", num_replicas=2, rank=0)
    assert str(refused.value).startswith(place)
    with pytest.warns(ShardingWarning) as caught:
        sanitize(DataLoader(DATA), owner="ddp", num_replicas=2, rank=0, on_violation="warn")
    assert f"{caught[0].filename}:{caught[0].lineno}: " == str(caught[0].message)[: len(place)]


def test_a_group_that_shards_by_data_parallel_rank_is_judged_by_the_numbers_that_are_passed() -> None:
    loader = DataLoader(DATA, sampler=distributed(4, 3))
    assert sanitize(loader, owner="ddp", num_replicas=4, rank=3) is loader
    assert sanitize(loader, owner="ddp", num_replicas=4) is loader  # this process's rank among the four is not known
    own_part = DataLoader(DATA)
    assert sanitize(own_part, owner="ddp", num_replicas=1) is own_part


@pytest.mark.parametrize(
    ("error", "options"),
    [
        (ValueError, {"owner": "horovod"}),
        (ValueError, {"on_violation": "ignore"}),
        (ValueError, {"num_replicas": 2, "rank": 2}),
        (ValueError, {"num_replicas": 0}),
    ],
)
def test_a_wrong_argument_is_an_error_that_is_not_taken_for_a_violation(error: type, options: dict[str, Any]) -> None:
    with pytest.raises(error) as caught:
        sanitize(DataLoader(DATA), **options)
    assert not isinstance(caught.value, ShardingError)
    with pytest.raises(TypeError, match="not a list"):
        sanitize([1, 2])
    with pytest.raises(ValueError, match="no rank 2 among 2 processes"):
        DataLoaderSanitizer(2, 2)


# ------------------------------------------------------------------------------------ the policy of DataLoaderSanitizer


@pytest.mark.parametrize(
    "loader",
    [
        pytest.param(DataLoader(DATA), id="the default"),
        pytest.param(DataLoader(DATA, shuffle=True, generator=torch.Generator()), id="the default, seeded"),
        pytest.param(DataLoader(DATA, sampler=SequentialSampler(DATA)), id="the same object as the default"),
        pytest.param(DataLoader(DATA, sampler=distributed(1)), id="one replica"),
        pytest.param(DataLoader(Stream()), id="a stream"),
    ],
)
def test_strict_lets_through_the_samplers_that_dataloader_makes(loader: Any) -> None:
    assert DataLoaderSanitizer(2, 0, strict=True).sanitize(loader) is loader


@pytest.mark.parametrize(
    ("loader", "message"),
    [
        (DataLoader(DATA, sampler=weighted()), "strict: WeightedRandomSampler is made by hand"),
        (DataLoader(DATA, sampler=SubsetRandomSampler(range(5))), "strict: SubsetRandomSampler is made by hand"),
        (DataLoader(DATA, sampler=Custom()), "strict: Custom is made by hand"),
        (DataLoader(DATA, sampler=RandomSampler(DATA, True, 6)), "strict: RandomSampler is made by hand"),
        (DataLoader(DATA, sampler=RandomSampler(DATA, generator=torch.Generator())), "strict: RandomSampler is made"),
        (by_batch(SequentialSampler(DATA)), "strict: BatchSampler is made by hand"),
        (DataLoader(DATA, sampler=SequentialSampler(range(9))), "for another dataset than the loader's"),
    ],
)
def test_strict_refuses_samplers_made_by_hand_that_are_right_otherwise(loader: Any, message: str) -> None:
    assert DataLoaderSanitizer(2, 0).sanitize(loader) is loader
    with pytest.raises(ShardingError, match=re.escape(message)):
        DataLoaderSanitizer(2, 0, strict=True).sanitize(loader)


@pytest.mark.parametrize(
    ("loader", "size"),
    [(DataLoader(DATA, batch_size=3), 3), (DataLoader(DATA), 1), (DataLoader(DATA, batch_size=None), None)],
)
def test_split_batches_refuses_a_batch_that_it_can_not_cut(loader: Any, size: int | None) -> None:
    told = (
        f"split_batches=True cuts each batch into 2 pieces, and the batch size is {size}. Pass DataLoader a batch_size="
    )
    with pytest.raises(ShardingError, match=re.escape(told)):
        DataLoaderSanitizer(2, 0, split_batches=True).sanitize(loader)
    even = DataLoader(DATA, batch_size=4)
    assert DataLoaderSanitizer(2, 0, split_batches=True).sanitize(even) is even


def test_strict_compares_with_the_dataset_that_is_meant() -> None:
    with pytest.raises(ShardingError, match="another dataset"):
        DataLoaderSanitizer(2, 0, strict=True).sanitize(DataLoader(DATA), dataset=[0])


def test_the_policy_refuses_a_distributed_sampler_on_every_rank() -> None:
    for own in (0, 1):
        with pytest.raises(ShardingError, match="sharded twice"):
            DataLoaderSanitizer(2, own).sanitize(DataLoader(DATA, sampler=distributed(2, own)))


# ------------------------------------------------------------------------------------ the rebuilt loader


def rebuilt(loader: Any, owner: str) -> Any:
    with pytest.warns(ShardingWarning, match="rebuilt"):
        return sanitize(loader, owner=owner, on_violation="fix", num_replicas=2, rank=1)


def collate(batch: list[int]) -> list[int]:
    return batch


def start(worker: int) -> None:
    pass


@pytest.mark.parametrize(("owner", "sampler"), [("ddp", SequentialSampler(DATA)), ("accelerate", distributed())])
def test_fix_keeps_everything_that_is_not_the_sampler(owner: str, sampler: Any) -> None:
    options: dict[str, Any] = {
        "batch_size": 3,
        "drop_last": True,
        "num_workers": 1,
        "collate_fn": collate,
        "timeout": 5.0,
        "worker_init_fn": start,
        "multiprocessing_context": torch.multiprocessing.get_context("spawn"),
        "generator": torch.Generator(),
        "prefetch_factor": 4,
        "persistent_workers": True,
        "pin_memory": True,
        "in_order": False,
    }
    given: DataLoader[int] = DataLoader(DATA, sampler=sampler, **options)
    fixed = rebuilt(given, owner)
    assert fixed is not given
    assert fixed.dataset is DATA
    assert {name: getattr(fixed, name) for name in options} == options
    # Nothing that torch's DataLoader takes is forgotten here.
    taken = set(inspect.signature(DataLoader.__init__).parameters) - {"self", "dataset", "sampler", "batch_sampler"}
    assert taken - {*options} == {"shuffle", "pin_memory_device"}


def test_fix_keeps_a_loader_without_batches() -> None:
    fixed = rebuilt(DataLoader(DATA, batch_size=None), "ddp")
    assert (fixed.batch_size, list(fixed)) == (None, [*range(1, 21, 2), 0])


def test_fix_keeps_the_shuffling_seed_and_tail_of_a_distributed_sampler() -> None:
    given = distributed(4, 0, shuffle=False, seed=7, drop_last=True)
    sampler = rebuilt(DataLoader(DATA, sampler=given), "ddp").sampler
    kept = (sampler.num_replicas, sampler.rank, sampler.shuffle, sampler.seed, sampler.drop_last)
    assert kept == (2, 1, False, 7, True)
    assert type(rebuilt(DataLoader(DATA, sampler=given), "accelerate").sampler) is SequentialSampler
    assert type(rebuilt(DataLoader(DATA, sampler=distributed()), "accelerate").sampler) is RandomSampler


@pytest.mark.parametrize(
    ("owner", "loader", "obstacle"),
    [
        ("accelerate", by_batch(distributed(), OwnBatches), "what OwnBatches would yield for all ranks is not known"),
        ("accelerate", DataLoader(DATA, sampler=RankAware(2, 0)), "what RankAware would yield"),
        ("accelerate", DataLoader(LONGER, sampler=distributed()), "made for another dataset"),
        ("ddp", DataLoader(DATA, sampler=weighted()), "WeightedRandomSampler draws with replacement"),
        ("ddp", DataLoader(DATA, sampler=RandomSampler(DATA, num_samples=6)), "a number of its own"),
        ("ddp", OwnLoader(DATA), "OwnLoader is not torch's own DataLoader"),
        (
            "ddp",
            DataLoader(DATA, batch_size=None, sampler=BatchSampler(SequentialSampler(DATA), 2, False)),
            "its batches come from a sampler within a sampler",
        ),
    ],
)
def test_what_can_not_be_rebuilt_is_refused_with_the_obstacle(owner: str, loader: Any, obstacle: str) -> None:
    with pytest.raises(ShardingError, match="It can't be rebuilt at run time: .*" + re.escape(obstacle)):
        sanitize(loader, owner=owner, on_violation="fix", num_replicas=2, rank=0)


# ------------------------------------------------------------------------------------ the file itself


def run(folder: Path, *command: str, program: str | None = None) -> str:
    """What a Python command in a folder prints, as rank 0 of two without a group and without the package's help."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=os.environ | {"WORLD_SIZE": "2", "RANK": "0", "OMP_NUM_THREADS": "1"},
        input=program,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


VENDORED = """\
import sys
from torch.utils.data import DataLoader, DistributedSampler
from {module} import DataLoaderSanitizer, ShardingError, sanitize
data = list(range(6))
right = DataLoader(data, sampler=DistributedSampler(data, num_replicas=2, rank=0))
print(sanitize(right, owner="ddp") is right)
try:
    sanitize(DataLoader(data), owner="ddp")
except ShardingError as error:
    print(str(error).split(": ")[0].replace("\\\\", "/").rsplit("/", 1)[-1])
print([name for name in sys.modules if name.split(".")[0] == "shardfix"])
"""


def test_a_copy_works_beside_a_script(tmp_path: Path) -> None:
    shutil.copy(SOURCE, tmp_path / "shardfix_sanitizer.py")
    (tmp_path / "train.py").write_text(VENDORED.format(module="shardfix_sanitizer"))
    (tmp_path / "elsewhere").mkdir()
    assert run(tmp_path / "elsewhere", "../train.py") == "True\ntrain.py:8\n[]\n"


def test_a_copy_works_in_a_package(tmp_path: Path) -> None:
    package = tmp_path / "project"
    package.mkdir()
    (package / "__init__.py").touch()
    shutil.copy(SOURCE, package / "shardfix_sanitizer.py")
    (package / "train.py").write_text(VENDORED.format(module=".shardfix_sanitizer"))
    assert run(tmp_path, "-m", "project.train") == "True\ntrain.py:8\n[]\n"


def test_a_copy_works_in_the_folder_of_a_notebook(tmp_path: Path) -> None:
    # A kernel runs cells that are in no file, in the notebook's folder, which is first on sys.path.
    shutil.copy(SOURCE, tmp_path / "shardfix_sanitizer.py")
    output = run(tmp_path, "-", program=VENDORED.format(module="shardfix_sanitizer"))
    assert output == "True\n<stdin>:8\n[]\n"


def test_a_group_of_one_where_several_processes_are_promised_is_not_passed_in_silence(tmp_path: Path) -> None:
    program = (
        "import warnings, torch.distributed as dist, shardfix\n"
        "from torch.utils.data import DataLoader\n"
        "dist.init_process_group('gloo', store=dist.HashStore(), rank=0, world_size=1)\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    loader = DataLoader([1])\n"
        "    print(shardfix.sanitize(loader) is loader, caught[0].message)\n"
        "dist.destroy_process_group()\n"
    )
    assert run(tmp_path, "-", program=program) == (
        "True <stdin>:6: the process group that is running has one process, where there seem to be 2: each of them "
        "would train alone on all samples. Start the program with torchrun or accelerate launch\n"
    )


def test_neither_the_file_nor_its_use_in_one_process_loads_torch() -> None:
    code = (
        "import sys, types, shardfix\n"
        "loader = types.SimpleNamespace(dataset=[])\n"
        "assert 'shardfix.sanitizer' not in sys.modules\n"
        "assert shardfix.sanitize(loader) is loader\n"
        "assert shardfix.DataLoaderSanitizer(1, 0).sanitize(loader) is loader\n"
        "print(sorted({'torch', 'accelerate', 'libcst', 'click', 'rich', 'numpy'} & {*sys.modules}))\n"
    )
    environment = {name: value for name, value in os.environ.items() if name not in ("WORLD_SIZE", "RANK")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"


def test_the_package_exports_the_check() -> None:
    exported = (shardfix.sanitize, shardfix.DataLoaderSanitizer, shardfix.ShardingError)
    assert exported == (sanitize, DataLoaderSanitizer, ShardingError)
    assert issubclass(ShardingError, ValueError)
    with pytest.raises(AttributeError, match="no attribute 'sanitise'"):
        shardfix.sanitise  # noqa: B018


def test_the_file_needs_the_standard_library_only_and_an_old_python() -> None:
    # Projects that are migrated may run an older Python than shardfix itself.
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"), feature_version=(3, 8))
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in imports if isinstance(node, ast.ImportFrom)}
    assert all(node.level == 0 for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    assert names <= sys.stdlib_module_names
    assert "may be deleted" in (ast.get_docstring(tree) or "")


def told_names() -> set[str]:
    """Everything in the file's messages that looks like an API: `calls(`, `keywords=` and CamelCase."""
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {id(node.body[0].value) for node in ast.walk(tree) if isinstance(node, documented) and node.body
                  if isinstance(node.body[0], ast.Expr)}  # fmt: skip
    texts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
    ]
    found = re.findall(
        r"[A-Za-z_][\w.]*(?=\()|\b[a-z_]+=|\b(?:[a-z]+\.)*[A-Z][a-z]+[A-Za-z]*[A-Z]\w*", "\n".join(texts)
    )
    return {*found}


def resolves(place: object, name: str) -> bool:
    for part in name.split("."):
        if not hasattr(place, part):
            return False
        place = getattr(place, part)
    return True


def test_every_api_name_in_a_message_exists() -> None:
    import accelerate
    import accelerate.data_loader
    import accelerate.state
    import torch.utils.data

    names = told_names()
    assert {"DistributedSampler", "torch.distributed.init_process_group", "sampler=", "accelerator.prepare"} <= names
    names -= {"MpDeviceLoaderWrapper", "int", "TypeError"}  # the first is there only where torch_xla is installed
    roots = SimpleNamespace(torch=torch, accelerator=accelerate.Accelerator)
    places = [roots, torch.utils.data, DistributedSampler, accelerate, accelerate.Accelerator, accelerate.data_loader]
    places += [accelerate.state, sanitizer]
    signatures = [DataLoader, DistributedSampler, accelerate.DataLoaderConfiguration, sanitize, DataLoaderSanitizer]
    keywords = {f"{name}=" for function in signatures for name in inspect.signature(function).parameters}
    # `self.accelerator` is what a transformers.Trainer calls its Accelerator.
    apis = {name.removeprefix("self.") for name in names - keywords}
    assert {name for name in apis if not any(resolves(place, name) for place in places)} == set()
