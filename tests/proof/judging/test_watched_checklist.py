"""The checklist of a watched loader: seven questions, answered from what it says of itself and from what was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from simulated import Batches, Case, alone, batched, built, distributed, permuted, shard, watched

from shardfix.proof.judging.verdicts import judge_observed
from shardfix.proof.observed import Built, Observed, Reader

QUESTIONS = ("sampler", "by hand", "split by", "batch", "counted once", "sanitizer", "epoch told")
ASSUMED = "one process was not run"


def rows(observed: Observed, **more: object) -> Mapping[str, tuple[str, str]]:
    """The answers with their notes, by question."""
    found = judge_observed(observed, **more).checklist  # type: ignore[arg-type]
    assert tuple(check.question for check in found) == QUESTIONS
    return {check.question: (check.answer, check.note) for check in found}


def sampled(size: int, *, told: tuple[int, ...] = (0, 1, 2), on_rank: int = 0, shuffle: bool = True) -> Case:
    """A DistributedSampler on two ranks; rank ``on_rank`` is told these epochs, the other 0, 1, 2."""

    def epochs(rank: int) -> tuple[int, ...]:
        return told if rank == on_rank else (0, 1, 2)

    def read(rank: int, epoch: int) -> Batches:
        order = permuted(size, epochs(rank)[epoch]) if shuffle else range(size)
        return batched(distributed(order, rank, 2), 4)

    said = built(size, 4, sampler="DistributedSampler", manual=True, shuffled=shuffle, seed=0)
    case = watched(read, lambda rank: replace(said, shard=(2, rank)), 2)
    return replace(case, epochs=(epochs(0), epochs(1)))


def prepared(size: int, **more: object) -> Case:
    said = built(size, 4, shuffled=True, sharder="accelerate", **more)
    return watched(lambda rank, epoch: shard(batched(permuted(size, epoch), 4), 4, rank, 2), said, 2)


def plain(size: int, **more: object) -> Case:
    return watched(lambda rank, _: batched(range(size), 5), built(size, 5, **more), 2)


def one_process(size: int, batch: int) -> Reader:
    return alone(lambda epoch: batched(permuted(size, 50 + epoch), batch), built(size, batch, shuffled=True))


def test_a_distributed_sampler() -> None:
    assert rows(sampled(21).observed()) == {
        "sampler": ("DistributedSampler, shuffled", ""),
        "by hand": ("yes", "sampler= or batch_sampler="),
        "split by": ("its sampler", "a part for each of 2"),
        "batch": ("4 on one process, 8 on 2", ASSUMED),
        "counted once": ("no", "1 sample comes twice, unless the metric drops it"),
        "sanitizer": ("unknown", "it leaves no trace at run time"),
        "epoch told": ("yes", "at 0, 1 and 2 in its passes"),
    }


def test_a_prepared_loader() -> None:
    assert rows(prepared(21).observed()) == {
        "sampler": ("RandomSampler, shuffled", ""),
        "by hand": ("no", ""),
        "split by": ("accelerate", "shard: each rank reads its own batches"),
        "batch": ("4 on one process, 8 on 2", ASSUMED),
        "counted once": ("no", "3 samples come twice, unless the metric drops them"),
        "sanitizer": ("unknown", "it leaves no trace at run time"),
        "epoch told": ("yes", "a prepared loader tells it by itself"),
    }


def test_a_loader_that_nobody_shards() -> None:
    found = rows(plain(20).observed())
    assert found["split by"] == ("nobody", "every rank reads all of it")
    assert found["counted once"] == ("no", "unsharded")
    assert found["epoch told"] == ("-", "it does not shuffle")


def test_dispatch_and_split_batches_are_told() -> None:
    assert rows(prepared(21, split_batches=True).observed())["split by"] == (
        "accelerate",
        "shard: each rank reads its own batches, each a piece of one batch (split_batches)",
    )
    assert rows(prepared(24, dispatched=True).observed())["split by"][1] == "dispatch: rank 0 reads and deals out"


def test_a_loader_that_is_sharded_twice_says_so() -> None:
    def read(rank: int, epoch: int) -> Batches:
        return shard(batched(distributed(permuted(40, epoch), rank, 2), 4), 4, rank, 2)

    said = built(40, 4, sampler="DistributedSampler", manual=True, shuffled=True, sharder="accelerate")
    found = rows(watched(read, lambda rank: replace(said, shard=(2, rank)), 2).observed())
    assert found["split by"] == ("accelerate", "and by itself before that: sharded twice")
    assert found["counted once"] == ("no", "sharded-twice")


@pytest.mark.parametrize(
    ("batch", "said"),
    [(4, "4 on one process, 8 on 2"), (8, "8 on one process, the same on 2")],
    ids=["given to each rank", "divided by the ranks"],
)
def test_the_effective_batch_is_measured_where_one_process_ran_too(batch: int, said: str) -> None:
    found = rows(sampled(40).observed(alone=one_process(40, batch)))
    assert found["batch"] == (said, "as they were read")


def test_a_program_that_divides_its_batch_by_the_ranks_is_right() -> None:
    proof = judge_observed(sampled(40).observed(alone=one_process(40, 8)))
    assert proof.verdict == "proven"
    assert proof.conditions["preserved"] == "held: the program divides its batch of 8 by the ranks"


def test_a_framework_that_drops_a_batch_sampler_is_no_such_program() -> None:
    of_rank = watched(
        lambda rank, epoch: batched(distributed(permuted(40, epoch), rank, 2), 1),
        lambda rank: built(40, 1, sampler="DistributedSampler", shard=(2, rank), shuffled=True, sharder="fabric"),
        2,
    )
    proof = judge_observed(of_rank.observed(alone=one_process(40, 2)))
    assert (proof.verdict, proof.cause) == ("refuted", "batch-size")


@pytest.mark.parametrize(
    ("told", "on_rank", "answer"),
    [
        ((0, 0, 0), 0, ("no", "not on every rank")),
        ((0, 0, 0), 1, ("no", "not on every rank")),
        ((0, 1, 2), 0, ("yes", "at 0, 1 and 2 in its passes")),
    ],
)
def test_the_epoch_is_told_where_the_samplers_say_another_one_in_each_pass(
    told: tuple[int, ...], on_rank: int, answer: tuple[str, str]
) -> None:
    assert rows(sampled(40, told=told, on_rank=on_rank).observed())["epoch told"] == answer


def test_a_sampler_that_is_told_nothing_stays_at_its_first_epoch() -> None:
    case = sampled(40, told=(0, 0, 0))
    same = replace(case, reads=(case.reads[0][:1] * 3, case.reads[1][:1] * 3), epochs=((0, 0, 0), (0, 0, 0)))
    assert rows(same.observed())["epoch told"] == ("no", "at 0, 0 and 0 in its passes")


def test_of_one_pass_it_is_not_known_whether_the_epoch_is_told() -> None:
    case = sampled(40)
    once = replace(case, reads=tuple(passes[:1] for passes in case.reads), epochs=((0,), (0,)))
    assert rows(once.observed())["epoch told"] == ("unknown", "only one pass was seen")


def test_an_evaluation_that_drops_what_is_padded_counts_once() -> None:
    found = rows(sampled(21, shuffle=False).observed(), role="eval", padding_removed=True)
    assert found["counted once"] == ("yes", "1 padded, which the program drops")
    assert rows(sampled(20, shuffle=False).observed(), role="eval")["counted once"] == ("yes", "nothing is padded")
    assert rows(sampled(21).observed(), role="train")["counted once"] == ("-", "not an evaluation")


def test_streams_whose_ranks_share_nothing_are_split_by_their_dataset() -> None:
    stream = Built(kind="stream", batch_size=4)
    apart = watched(lambda rank, _: [[10 * rank + item for item in range(4)]] * 1, stream, 2)
    assert rows(apart.observed())["split by"] == ("its dataset", "")
    assert rows(apart.observed())["sampler"][0] == "none"
    same = watched(lambda rank, _: [[0, 1, 2, 3]], stream, 2)
    assert rows(same.observed())["split by"] == ("nobody", "every rank reads all of it")


def test_a_loader_that_was_never_read_says_what_it_can() -> None:
    never = Observed("train.py:9", 2, (Reader(0, built(20, 4, shuffled=True)),))
    found = rows(never)
    assert found["sampler"] == ("RandomSampler, shuffled", "")
    assert found["batch"] == ("4 a rank", "it was never read")
    assert found["split by"] == ("unknown", "it was never read")


def test_one_rank_alone_or_one_process_has_nobody_to_share_with() -> None:
    sole = plain(20).observed()
    assert rows(replace(sole, readers=sole.readers[:1]))["split by"] == ("nobody", "rank 0 alone reads it")
    found = rows(replace(sole, world=1, readers=sole.readers[:1]))
    assert (found["split by"], found["batch"]) == (("nobody", "one process"), ("5", "one process"))


def test_one_process_with_another_split_of_the_same_size_is_not_compared() -> None:
    """``random_split`` without a seed that every run has: all ranks hold one subset, the control another one."""
    parts = watched(
        lambda rank, epoch: batched(distributed(range(20), rank, 2), 5),
        lambda rank: replace(built(30, 5), subset=20, draws=20, shard=(2, rank), subset_digest="a"),
        2,
    )
    other = replace(built(30, 5), subset=20, draws=20, subset_digest="b")
    proof = judge_observed(parts.observed(alone=alone(lambda _: batched(range(10, 30), 5), other)))
    assert proof.verdict == "proven"
    assert "drawn anew in each run" in "; ".join(proof.told)
    smaller = replace(other, subset=24, draws=24)
    read_less = judge_observed(parts.observed(alone=alone(lambda _: batched(range(6, 30), 5), smaller)))
    assert read_less.verdict == "refuted"
