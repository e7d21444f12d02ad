"""Watched loaders: right ones are proven at every size, broken ones refuted with the cause; no processes."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise, product

import pytest
from simulated import (
    Batches,
    Case,
    alone,
    batched,
    built,
    dispatched,
    distributed,
    permuted,
    shard,
    split,
    watched,
)

from shardfix.proof.judging.verdicts import judge_observed
from shardfix.proof.model import Proof
from shardfix.proof.observed import Built, Observed, Reader

WORLDS = (2, 3, 4)
SIZES = (1, 2, 3, 7, 16, 21, 24, 40, 41)


def ddp(rank: int, world: int, size: int, batch: int, **more: object) -> Built:
    base = built(size, batch, sampler="DistributedSampler", shard=(world, rank), manual=True, seed=0)
    return replace(base, **more)


def ddp_case(
    size: int, world: int, batch: int = 4, *, shuffle: bool = False, told: bool = True, **more: object
) -> Case:
    """A DistributedSampler; ``told``: set_epoch is called."""

    def read(rank: int, epoch: int) -> Batches:
        order = permuted(size, epoch if told else 0) if shuffle else range(size)
        mine = distributed(order, rank, world, bool(more.get("sampler_drop_last")))
        return batched(mine, batch, bool(more.get("drop_last")))

    return watched(read, lambda rank: ddp(rank, world, size, batch, shuffled=shuffle, **more), world)


def prepared(
    size: int, world: int, batch: int = 4, *, shuffle: bool = False, drop_last: bool = False, even: bool = True
) -> Case:
    def read(rank: int, epoch: int) -> Batches:
        order = permuted(size, epoch) if shuffle else range(size)
        batches = batched(order, batch, drop_last)
        return shard(batches, batch, rank, world, drop_last=drop_last, even=even)

    said = built(size, batch, shuffled=shuffle, drop_last=drop_last, sharder="accelerate", even_batches=even)
    return watched(read, said, world)


def judged(case: Case, **more: object) -> Proof:
    return judge_observed(case.observed(), **more)


def plainly(size: int, batch: int, *, shuffle: bool = False, drop_last: bool = False) -> Reader:
    """The loader in one process, where nothing shards it."""
    said = built(size, batch, shuffled=shuffle, drop_last=drop_last)
    return alone(lambda epoch: batched(permuted(size, 90 + epoch) if shuffle else range(size), batch, drop_last), said)


# --- right ones ---


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("shuffle", [False, True], ids=["ordered", "shuffled"])
def test_right_loaders_are_proven_at_every_size(world: int, shuffle: bool) -> None:
    for size, batch, drop_last in product(SIZES, (1, 2, 4), (False, True)):
        own = plainly(size, batch, shuffle=shuffle, drop_last=drop_last)
        cases = {
            "ddp": ddp_case(size, world, batch, shuffle=shuffle, drop_last=drop_last),
            "accelerate": prepared(size, world, batch, shuffle=shuffle, drop_last=drop_last),
        }
        if not drop_last:
            cases["ddp, sampler drops"] = ddp_case(size, world, batch, shuffle=shuffle, sampler_drop_last=True)
        for (name, case), with_alone in product(cases.items(), (False, True)):
            proof = judge_observed(case.observed(alone=own) if with_alone else case.observed())
            if any(passes[0] for passes in case.reads):
                expected = ("proven", "")
            elif with_alone and any(seen.batches for seen in own.passes):
                expected = ("refuted", "no-steps")
            else:
                expected = ("unproven", "")
            assert (proof.verdict, proof.cause) == expected, (name, size, batch, drop_last, proof)


@pytest.mark.parametrize("world", WORLDS)
def test_batches_that_are_split_or_dispatched_are_proven_at_every_size(world: int) -> None:
    for size, batch, drop_last in product(SIZES, (1, 2, 4), (False, True)):
        whole = batch * world
        said = built(size, batch, drop_last=drop_last, sharder="accelerate", split_batches=True)
        parts = watched(
            lambda rank, _, w=whole, s=size, d=drop_last: split(batched(range(s), w, d), w, rank, world, drop_last=d),
            said,
            world,
        )
        sent = replace(built(size, batch, drop_last=drop_last), sharder="accelerate-dispatcher", dispatched=True)
        rounds = watched(
            lambda rank, _, b=batch, s=size, d=drop_last: dispatched(batched(range(s), b, d), rank, world, drop_last=d),
            sent,
            world,
        )
        for case in (parts, rounds):
            if size < world and not drop_last and case is rounds:
                continue  # the dispatcher gives some ranks an empty batch there
            proof = judged(case)
            assert proof.verdict == ("proven" if any(passes[0] for passes in case.reads) else "unproven"), (
                size,
                batch,
                drop_last,
                proof,
            )


def test_the_padding_is_counted() -> None:
    assert judged(ddp_case(21, 2)).padded == 1
    assert judged(prepared(21, 2)).padded == 3
    assert judged(ddp_case(21, 2)).reasons == ("2 ranks read every one of 21 samples once, 1 padded",)
    assert judged(prepared(21, 4)).conditions == {
        "disjoint": "held: 11 padded",
        "covered": "held",
        "same steps": "held",
        "epochs": "held",
        "preserved": "not judged: it was not run in one process",
        "one process": "not judged: it was not run in one process",
        "control": "not judged: there is no earlier version to compare with",
    }


# --- wrong ones ---


def everything(size: int, world: int, *, shuffle: bool = False, batch: int = 4, **more: object) -> Case:
    """Nobody shards: every rank reads everything, in an order of its own where it shuffles."""

    def read(rank: int, epoch: int) -> Batches:
        return batched(permuted(size, 100 * rank + epoch) if shuffle else range(size), batch)

    return watched(read, built(size, batch, shuffled=shuffle, **more), world)


def double(size: int, world: int, *, told: bool = True, dispatch: bool = False) -> Case:
    """A DistributedSampler in a loader that is prepared: accelerate deals out the batches of each rank's own share."""

    def read(rank: int, epoch: int) -> Batches:
        if dispatch:
            return dispatched(batched(distributed(range(size), 0, world), 4), rank, world)
        return shard(batched(distributed(range(size), rank, world), 4), 4, rank, world)

    sharder = "accelerate-dispatcher" if dispatch else "accelerate"

    def said(rank: int) -> Built:
        known = ddp(rank, world, size, 4, shuffled=False, sharder=sharder, dispatched=dispatch)
        return (
            known
            if told
            else built(size, 4, shuffled=None, sampler="Ours", manual=True, sharder=sharder, dispatched=dispatch)
        )

    return watched(read, said, world)


def dealt_wrongly(
    size: int,
    world: int,
    *,
    replicas: int = 0,
    rank_of: object = None,
    seeds: bool = False,
    stale: int = 0,
    told: bool = True,
    batch: int = 4,
) -> Case:
    """A DistributedSampler with constant num_replicas, another rank, own seeds, or ``stale`` ranks at epoch 0."""
    shards = replicas or world

    def own(rank: int) -> int:
        return rank_of(rank) if callable(rank_of) else rank

    def read(rank: int, epoch: int) -> Batches:
        at = 0 if rank >= world - stale else epoch
        order = permuted(size, at + 1000 * rank * seeds) if seeds or stale else range(size)
        return batched(distributed(order, own(rank), shards), batch)

    case = watched(
        read,
        lambda rank: ddp(
            rank,
            world,
            size,
            batch,
            shuffled=seeds or bool(stale),
            shard=(shards, own(rank)),
            seed=rank if seeds else 0,
        ),
        world,
    )
    at = tuple((0, 0, 0) if rank >= world - stale else (0, 1, 2) for rank in range(world))
    return replace(case, epochs=at) if told else case


def unsynced(size: int, world: int) -> Case:
    """A sampler of the program's own that draws from the global random state, prepared."""
    return watched(
        lambda rank, epoch: shard(batched(permuted(size, 50 * rank + epoch), 4), 4, rank, world),
        built(size, 4, shuffled=None, sampler="Ours", manual=True, sharder="accelerate"),
        world,
    )


def unpadded(size: int, world: int) -> Case:
    """A sampler that splits by rank itself and pads nothing."""
    return watched(
        lambda rank, epoch: batched(range(rank, size, world), 4),
        lambda rank: built(size, 4, sampler="Ours", manual=True, shuffled=None, draws=len(range(rank, size, world))),
        world,
    )


def random_parts(size: int, world: int, *, digests: bool = True) -> Case:
    """random_split(...)[0] of four fifths, seeded by rank, with a DistributedSampler."""
    of = size * 4 // 5

    def subset(rank: int) -> list[int]:
        return permuted(size, 7 + rank)[:of]

    return watched(
        lambda rank, epoch: batched(distributed(subset(rank), rank, world), 4),
        lambda rank: ddp(
            rank, world, size, 4, subset=of, draws=of, shuffled=False, subset_digest=f"d{rank}" if digests else ""
        ),
        world,
    )


def in_eval_only_shuffled(size: int, world: int) -> Case:
    return ddp_case(size, world, shuffle=True, told=False)


FAULTS = {
    "unsharded": [everything, lambda size, world: everything(size, world, shuffle=True)],
    "sharded-twice": [double, lambda size, world: double(size, world, told=False)],
    "dispatched-part": [lambda size, world: double(size, world, dispatch=True)],
    "wrong-replicas": [lambda size, world: dealt_wrongly(size, world, replicas=2 * world)],
    "wrong-rank": [lambda size, world: dealt_wrongly(size, world, rank_of=lambda rank: 0)],
    "per-rank-seed": [lambda size, world: dealt_wrongly(size, world, seeds=True)],
    "stale-epoch-on-one-rank": [
        lambda size, world: dealt_wrongly(size, world, stale=1),
        lambda size, world: dealt_wrongly(size, world, stale=world - 1),
        lambda size, world: dealt_wrongly(size, world, stale=1, told=False),
    ],
    "frozen-epoch": [lambda size, world: ddp_case(size, world, shuffle=True, told=False)],
    "unsynced-rng": [unsynced],
    "per-rank-subset": [random_parts, lambda size, world: random_parts(size, world, digests=False)],
}


@pytest.mark.parametrize(("cause", "make"), [(cause, make) for cause, makes in FAULTS.items() for make in makes])
def test_wrong_loaders_are_refuted_with_their_cause(cause: str, make: object) -> None:
    for size, world in product((40, 41, 64), WORLDS):
        for own in (None, plainly(size, 4), plainly(size, 4, shuffle=True)):
            assert callable(make)
            case = make(size, world)
            said = case.built[0].shuffled
            if own is not None and said is not None and own.built.shuffled != said:
                continue
            proof = judge_observed(case.observed(alone=own))
            assert (proof.verdict, proof.cause) == ("refuted", cause), (size, world, own is not None, proof.reasons)


def test_the_reason_names_ranks_and_the_first_samples() -> None:
    said = {cause: judged(make(21, 2)).reasons[0] for cause, makes in FAULTS.items() for make in makes[:1]}
    assert said["unsharded"] == "every rank reads all 21 samples"
    assert said["sharded-twice"] == (
        "sharded twice: by DistributedSampler and by accelerate: 7 of 21 samples are never read; "
        "rank 0 reads [0, 2, 4, 6, 16, 18, ..]"
    )
    assert said["dispatched-part"] == (
        "rank 0 dispatches what its sampler gives it, one part of 2: 10 of 21 samples are never read; "
        "rank 0 reads [0, 2, 4, 6, 16, 18]"
    )
    assert said["wrong-replicas"] == (
        "num_replicas is 4 where 2 ranks read: 10 of 21 samples are never read; rank 0 reads [0, 4, 8, 12, 16, 20]"
    )
    assert said["wrong-rank"] == (
        "rank 1 reads rank 0's part: sample 0 is read by rank 0 and rank 1 (11 visits too many; padding accounts for 1)"
    )
    assert said["per-rank-seed"].startswith("the seeds differ, rank 0 draws with 0, rank 1 with 1: sample ")
    assert said["stale-epoch-on-one-rank"].startswith(
        "set_epoch reached rank 0 only, in pass 1 rank 1's sampler is at epoch 0, not 1: sample "
    )
    assert said["frozen-epoch"].startswith("epoch 1 repeats epoch 0's order: rank 0 reads [")
    assert said["frozen-epoch"].endswith("] in both")
    assert said["unsynced-rng"].startswith("the ranks drew from different permutations, Ours's random state differs: ")
    assert said["per-rank-subset"].startswith(
        "the ranks hold different subsets of the 21 samples, drawn with per-rank "
    )


def test_set_epoch_that_is_never_called_is_said_where_the_sampler_tells_its_epoch() -> None:
    case = replace(ddp_case(40, 2, shuffle=True, told=False), epochs=((0, 0, 0), (0, 0, 0)))
    assert judged(case).reasons[0].endswith("its sampler stays at epoch 0: set_epoch is never called")


# --- what is read by some, or by more than once ---


def test_a_loader_that_nobody_reads_is_unproven() -> None:
    for readers in ((), (Reader(0, built(8, 4)), Reader(1, built(8, 4)))):
        proof = judge_observed(Observed("train.py:7", 2, readers))
        assert (proof.verdict, proof.cause, proof.reasons) == ("unproven", "never-read", ("it was never read",))
        assert proof.told == (("made by ranks 0 and 1 of 2",) if readers else ())


def only(case: Case, *ranks: int) -> Observed:
    observed = case.observed()
    return replace(observed, readers=tuple(reader for reader in observed.readers if reader.rank in ranks))


def test_an_evaluation_of_the_main_process_is_right_and_told() -> None:
    proof = judge_observed(only(everything(21, 2), 0), role="eval")
    assert (proof.verdict, proof.told[0]) == ("proven", "read by rank 0 only of 2, 3 passes")
    assert proof.reasons == ("rank 0 reads all 21 samples",)
    assert proof.conditions["covered"] == "held: rank 0 alone reads everything: a loader of the main process"


def test_a_sharded_loader_that_one_rank_reads_is_a_part_only() -> None:
    for case in (ddp_case(21, 2), prepared(21, 2)):
        proof = judge_observed(only(case, 0), role="eval")
        assert (proof.verdict, proof.cause) == ("refuted", "part-only")
    assert judge_observed(only(ddp_case(21, 2), 0)).reasons == (
        "only rank 0 of 2 reads it, and it is sharded: rank 0 reads 11 of 21 samples",
    )


def test_a_training_loader_that_one_rank_reads_is_not_called_right() -> None:
    assert judge_observed(only(everything(21, 2), 0), role="train").verdict == "unproven"


def test_a_part_only_is_told_by_the_sampler_by_accelerate_or_by_one_process() -> None:
    dropping = judge_observed(only(ddp_case(21, 2, sampler_drop_last=True), 0))
    assert dropping.cause == "part-only"
    assert dropping.reasons[0].endswith("it is sharded: rank 0 reads 10 of 21 samples")
    assert judge_observed(only(prepared(24, 2, drop_last=True), 0)).cause == "part-only"
    by_itself = unpadded(24, 2)
    assert judge_observed(only(by_itself, 1)).verdict != "refuted"
    own = plainly(24, 4)
    assert judge_observed(replace(only(by_itself, 1), alone=own)).cause == "part-only"
    filled = prepared(3, 2)  # accelerate fills rank 0's batch up to all of it
    assert judge_observed(only(filled, 0)).reasons[0].endswith("all of it only because there is so little")
    left = judge_observed(only_cut(ddp_case(400, 2), 0))
    assert left.reasons == ("only rank 0 of 2 reads it, and it is sharded: rank 0 reads one part of 2",)
    left = judge_observed(only_cut(everything(400, 2), 0))
    assert left.reasons == ("only rank 0 of 2 came to read it, and not to its end",)


def only_cut(case: Case, rank: int) -> Observed:
    observed = cut(case, 3)
    return replace(observed, readers=tuple(reader for reader in observed.readers if reader.rank == rank))


def test_a_stream_of_the_main_process_is_right() -> None:
    proof = judge_observed(only(stream([digests(0, 21)] * 2), 0))
    assert (proof.verdict, proof.reasons) == ("proven", ("rank 0 reads all 21 items",))


def test_the_map_shows_the_pass_of_the_fault_else_the_first_whole_one() -> None:
    shown = judged(dealt_wrongly(40, 2, stale=1)).map_after
    assert shown is not None
    assert shown.epoch == 1
    observed = ddp_case(40, 2).observed()
    late = [
        replace(r, passes=(replace(r.passes[0], batches=r.passes[0].batches[:1], complete=False), *r.passes[1:]))
        for r in observed.readers
    ]
    shown = judge_observed(replace(observed, readers=tuple(late))).map_after
    assert shown is not None
    assert (shown.epoch, shown.size) == (1, 40)


def test_two_of_four_ranks_are_judged_as_the_two_that_read() -> None:
    proof = judge_observed(only(everything(21, 4), 1, 3))
    assert (proof.verdict, proof.cause) == ("refuted", "unsharded")
    proof = judge_observed(only(ddp_case(21, 4), 1, 3))
    assert (proof.verdict, proof.cause) == ("refuted", "wrong-replicas")
    assert proof.told[-1] == "ranks 0 and 2 never read it"
    assert "rank 1 reads [1, 5, 9, 13, 17, 0]" in proof.reasons[0]  # by its own number, not as the first row


# --- a data-parallel group smaller than the world ---


def mesh(size: int, *, neighbours: bool = True, by_world: bool = False) -> Observed:
    """Four ranks, two data-parallel ones: ranks of one model-parallel group read the same."""
    group = [0, 0, 1, 1] if neighbours else [0, 1, 0, 1]

    def own(rank: int) -> tuple[int, int]:
        return (rank, 4) if by_world else (group[rank], 2)

    case = watched(
        lambda rank, epoch: batched(distributed(permuted(size, epoch), *own(rank)), 4),
        lambda rank: ddp(rank, 4, size, 4, shuffled=True, shard=(own(rank)[1], own(rank)[0])),
        4,
    )
    return case.observed(replicas=2)


@pytest.mark.parametrize("neighbours", [True, False])
def test_shards_are_those_of_the_data_parallel_ranks(neighbours: bool) -> None:
    proof = judge_observed(mesh(41, neighbours=neighbours))
    assert (proof.verdict, proof.padded) == ("proven", 1)
    assert proof.reasons == ("2 data-parallel ranks read every one of 41 samples once, 1 padded",)
    group = (
        "0 and 1; data-parallel rank 1 is ranks 2 and 3"
        if neighbours
        else "0 and 2; data-parallel rank 1 is ranks 1 and 3"
    )
    assert proof.told[-1] == f"data-parallel rank 0 is ranks {group}"
    assert proof.map_after is not None
    assert proof.map_after.names == ("data-parallel rank 0", "data-parallel rank 1")


def test_shards_of_the_world_in_a_mesh_are_refuted() -> None:
    proof = judge_observed(mesh(41, by_world=True))
    assert (proof.verdict, proof.cause) == ("refuted", "replica-differs")
    assert proof.reasons[0] == "ranks 0 and 1 belong to one model-parallel group but read different data"


def test_a_mesh_that_nobody_named_is_told_by_its_number_of_replicas() -> None:
    proof = judge_observed(replace(mesh(41), replicas=0))
    assert (proof.verdict, proof.cause) == ("refuted", "wrong-replicas")
    assert proof.reasons[0].startswith("num_replicas is 2 where 4 ranks read: ")


# --- passes that were left early ---


def cut(case: Case, steps: int, **more: object) -> Observed:
    observed = case.observed(**more)
    return replace(
        observed,
        readers=tuple(
            replace(
                reader,
                passes=tuple(replace(seen, batches=seen.batches[:steps], complete=False) for seen in reader.passes),
            )
            for reader in observed.readers
        ),
    )


@pytest.mark.parametrize("world", WORLDS)
def test_a_right_loader_that_is_left_early_is_unproven_and_says_what_was_not_consumed(world: int) -> None:
    for case in (
        ddp_case(400, world, shuffle=True),
        ddp_case(400, world),
        prepared(400, world, shuffle=True),
        unpadded(400, world),
    ):
        proof = judge_observed(cut(case, 3))
        assert proof.verdict == "unproven"
        assert proof.reasons == ("no pass came to its end, so whether everything is read was not seen",)
        assert proof.told[1] == "every pass was left after 3 steps: what comes later was not consumed"
        assert {proof.conditions[name] for name in ("disjoint", "same steps")} == {
            "not judged: no pass came to its end"
        }


@pytest.mark.parametrize("world", WORLDS)
def test_what_is_wrong_shows_in_passes_that_are_left_early(world: int) -> None:
    for cause in ("unsharded", "wrong-rank", "frozen-epoch"):
        for make in FAULTS[cause]:
            proof = judge_observed(cut(make(400, world), 3))
            assert (proof.verdict, proof.cause) == ("refuted", cause), proof.reasons
    for cause in ("per-rank-seed", "stale-epoch-on-one-rank", "unsynced-rng"):
        for make in FAULTS[cause]:
            proof = judge_observed(cut(make(120, world), 7))
            assert (proof.verdict, proof.cause) == ("refuted", cause), proof.reasons


def test_a_large_shuffled_loader_that_nothing_shards_needs_no_overlap_to_be_refuted() -> None:
    proof = judge_observed(cut(everything(5000, 2, shuffle=True), 3))
    assert proof.reasons[0] == (
        "nothing shards it: on every rank RandomSampler draws all 5000 samples (left after 3 steps)"
    )


def test_the_passes_that_came_to_their_end_are_judged_beside_one_that_did_not() -> None:
    observed = ddp_case(40, 2, shuffle=True).observed()
    last = [
        replace(r, passes=(*r.passes[:2], replace(r.passes[2], batches=r.passes[2].batches[:2], complete=False)))
        for r in observed.readers
    ]
    proof = judge_observed(replace(observed, readers=tuple(last)))
    assert proof.verdict == "proven"
    assert proof.told[1] == "pass 2 was left after 2 steps: what comes later was not consumed"


def test_one_pass_of_a_shuffled_sampler_is_not_enough_unless_it_is_all_there_is() -> None:
    def once(case: Case) -> Observed:
        observed = case.observed()
        return replace(
            observed, readers=tuple(replace(reader, passes=reader.passes[:1]) for reader in observed.readers)
        )

    proof = judge_observed(once(ddp_case(40, 2, shuffle=True)))
    assert proof.reasons == ("only one pass was seen, so whether its order changes is not known",)
    assert judge_observed(once(ddp_case(40, 2, shuffle=True)), finished=True).verdict == "proven"
    assert judge_observed(once(ddp_case(40, 2))).verdict == "proven"


# --- steps ---


def test_uneven_steps_are_refuted_where_nothing_asked_for_them() -> None:
    proof = judged(unpadded(25, 2))
    assert (proof.verdict, proof.cause) == ("refuted", "uneven")
    assert proof.reasons == ("rank 1 makes 3 steps, rank 0 makes 4: the job would hang",)
    assert judged(unpadded(24, 2)).verdict == "proven"


def test_uneven_steps_of_a_run_that_came_to_its_end_are_not_refuted() -> None:
    proof = judged(unpadded(25, 2), finished=True)
    assert proof.verdict == "unproven"
    assert proof.reasons[0].startswith(
        "rank 1 makes 3 steps, rank 0 makes 4 (it did not hang here): training needs Join"
    )


@pytest.mark.parametrize("world", WORLDS)
def test_even_batches_false_is_proven_where_the_steps_are_equal_and_else_left_to_join(world: int) -> None:
    for size, batch in product(SIZES, (1, 2, 4)):
        case = prepared(size, world, batch, even=False)
        steps = {len(passes[0]) for passes in case.reads}
        proof = judged(case)
        assert proof.verdict == ("proven" if len(steps) == 1 else "unproven"), (size, batch, proof)
        assert proof.padded == 0


# --- draws, batch samplers, subsets ---


def drawn(size: int, draws: int, world: int, *, sharded: bool, replacement: bool = True) -> Case:
    """RandomSampler(num_samples=draws), prepared or not; the draws are alike on the ranks where they are kept so."""

    def read(rank: int, epoch: int) -> Batches:
        source = random.Random(epoch if sharded else 31 * rank + epoch)
        order = [source.randrange(size) for _ in range(draws)] if replacement else source.sample(range(size), draws)
        return shard(batched(order, 4), 4, rank, world) if sharded else batched(order, 4)

    said = built(size, 4, shuffled=True, draws=draws, replacement=replacement, sharder="accelerate" if sharded else "")
    return watched(read, said, world)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("replacement", [True, False])
def test_draws_are_counted_not_compared(world: int, replacement: bool) -> None:
    for draws in (6, 12, 20):
        assert judged(drawn(21, draws, world, sharded=True, replacement=replacement)).verdict == "proven", draws
        proof = judged(drawn(21, draws, world, sharded=False, replacement=replacement))
        assert (proof.verdict, proof.cause) == ("refuted", "unsharded"), (draws, proof)
    assert judged(drawn(21, 6, 2, sharded=True)).reasons == ("2 ranks share the 6 draws of a pass",)
    assert judged(drawn(21, 6, 2, sharded=False)).reasons == ("every rank makes all 6 draws",)


def test_a_sampler_that_a_framework_replaced_makes_other_draws() -> None:
    case = watched(
        lambda rank, epoch: batched(distributed(permuted(21, epoch), rank, 2), 4),
        lambda rank: ddp(rank, 2, 21, 4, shuffled=True, sharder="fabric"),
        2,
    )
    own = drawn(21, 6, 1, sharded=False).observed().readers[0]
    proof = judge_observed(case.observed(alone=own))
    assert (proof.verdict, proof.cause) == ("refuted", "draws")
    assert proof.reasons[0] == "rank 0 makes 11 draws where its share is 3"


@pytest.mark.parametrize("world", WORLDS)
def test_a_sampler_that_a_framework_wraps_counts_its_padding_but_draws_no_more(world: int) -> None:
    for draws in (8, 11, 13):

        def read(rank: int, epoch: int, draws: int = draws) -> Batches:
            return batched(distributed(permuted(40, epoch)[:draws], rank, world), 4)

        padded = -(-draws // world) * world

        def said(rank: int, padded: int = padded) -> Built:
            known = ddp(rank, world, 40, 4, draws=padded, sampler="SubsetRandomSampler", shuffled=True)
            return replace(known, sharder="lightning")

        proof = judged(watched(read, said, world))
        assert (proof.verdict, proof.padded) == ("proven", padded - draws), (draws, proof)
        short = watched(lambda rank, epoch, read=read: read(rank, epoch)[:-1], said, world)
        assert judged(short).verdict == "refuted"


def test_a_batch_size_that_a_framework_replaced_is_seen_against_one_process() -> None:
    case = watched(
        lambda rank, epoch: batched(distributed(range(21), rank, 2), 1),
        lambda rank: ddp(rank, 2, 21, 1, shuffled=False, sharder="fabric"),
        2,
    )
    proof = judge_observed(case.observed(alone=plainly(21, 4)))
    assert (proof.verdict, proof.cause) == ("refuted", "batch-size")
    assert proof.reasons == ("rank 0's batches hold 1 sample, those of one process 4",)


def in_subset(size: int, of: int, world: int, *, shuffle: bool) -> Case:
    """random_split(...)[0], drawn alike on every rank, with a DistributedSampler."""
    subset = permuted(size, 5)[:of]

    def read(rank: int, epoch: int) -> Batches:
        order = [subset[place] for place in permuted(of, epoch)] if shuffle else subset
        return batched(distributed(order, rank, world), 4)

    return watched(
        read,
        lambda rank: ddp(rank, world, size, 4, subset=of, draws=of, shuffled=shuffle, subset_digest="alike"),
        world,
    )


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("shuffle", [True, False])
def test_a_subset_is_what_is_to_be_read(world: int, shuffle: bool) -> None:
    for of in (16, 24, 33):
        assert judged(in_subset(40, of, world, shuffle=shuffle)).verdict == "proven"
        subset = permuted(40, 5)[:of]
        own = alone(lambda _, subset=subset: batched(subset, 4), built(40, 4, subset=of, draws=of))
        if not shuffle:
            assert judge_observed(in_subset(40, of, world, shuffle=False).observed(alone=own)).verdict == "proven"
            missing = alone(
                lambda _, subset=subset: batched([*subset, 98, 99], 4), built(40, 4, subset=of + 2, draws=of + 2)
            )
            proof = judge_observed(in_subset(40, of, world, shuffle=False).observed(alone=missing))
            assert proof.verdict == "refuted"


def untold(case: Case) -> Case:
    """The same where no digests of subsets were taken."""
    return replace(case, built=tuple(replace(one, subset_digest="") for one in case.built))


def test_subsets_that_the_program_deals_out_itself_are_right_where_they_make_up_the_whole() -> None:
    def parts(size: int, step: int) -> Case:
        return watched(
            lambda rank, epoch: batched(range(rank, size, step), 4),
            lambda rank: built(
                size,
                4,
                subset=len(range(rank, size, step)),
                draws=len(range(rank, size, step)),
                subset_digest=f"d{rank}",
            ),
            2,
        )

    for case in (parts(40, 2), untold(parts(40, 2))):
        assert judged(case).verdict == "proven"
        assert judge_observed(cut(case, 2)).verdict == "unproven"
    assert judged(parts(40, 2)).conditions["covered"] == "held: every rank's own subset, together all 40 samples"
    proof = judged(parts(40, 4))
    assert proof.verdict == "unproven"
    assert proof.reasons[0].startswith("every rank reads a subset of its own, together 20 of 40 samples")
    own = plainly(40, 4)
    assert judge_observed(parts(40, 2).observed(alone=own)).verdict == "proven"
    assert judge_observed(parts(40, 4).observed(alone=own)).cause == "wrong-replicas"


def test_subsets_of_a_ranks_own_that_are_sharded_again_are_refuted_where_no_two_meet() -> None:
    def parts(of: int, world: int) -> Case:
        return watched(
            lambda rank, epoch: batched(distributed(range(rank * of, rank * of + of), rank, world), 4),
            lambda rank: ddp(rank, world, 40, 4, subset=of, draws=of, shuffled=False, subset_digest=f"d{rank}"),
            world,
        )

    proof = judged(parts(20, 2))
    assert (proof.verdict, proof.cause) == ("refuted", "sharded-twice")
    assert proof.reasons == ("sharded twice: rank 0's subset holds 20 of 40 samples, and its loader is sharded again",)
    apart = replace(parts(20, 2), built=tuple(replace(one, samples=30) for one in parts(20, 2).built))
    assert judged(apart).cause == "per-rank-subset"


def test_a_batch_sampler_of_batches_of_any_size_is_dealt_out_by_accelerate() -> None:
    sizes = (3, 1, 4, 2, 5, 1, 2, 3)
    starts = [sum(sizes[:place]) for place in range(len(sizes) + 1)]
    whole = [list(range(one, two)) for one, two in pairwise(starts)]

    def dealt(batches: list[list[int]], world: int) -> Case:
        filled = batches + batches[: -len(batches) % world]
        said = built(starts[-1], 4, sampler="BySize", shuffled=None, manual=True, sharder="accelerate", batch_size=None)
        return watched(lambda rank, epoch: filled[rank::world], said, world)

    for world in WORLDS:
        assert judged(dealt(whole, world)).verdict == "proven"
        assert judged(dealt(whole[:-1], world)).verdict == "refuted"  # 3 samples fewer than it draws


def test_a_batch_sampler_that_has_no_length_is_not_measured_by_the_dataset() -> None:
    def tasks(count: int, world: int, *, sharded: bool = True) -> Case:
        whole = [[task * 10, task * 10 + 1] for task in range(count)]
        said = replace(built(60, 2, sampler="", shuffled=None, manual=True), draws=None, batch_size=None)
        said = replace(said, sharder="accelerate" if sharded else "")
        return watched(lambda rank, epoch: whole[rank::world] if sharded else whole, said, world)

    proof = judged(tasks(6, 2))
    assert proof.verdict == "unproven"
    assert proof.reasons == (
        "12 samples of 60, none of them on two ranks; what one process reads was not seen, so what is missing isn't "
        "known",
    )
    own = alone(lambda _: tasks(6, 1).reads[0][0], tasks(6, 1, sharded=False).built[0])
    assert judge_observed(tasks(6, 2).observed(alone=own)).verdict == "proven"
    assert judged(tasks(6, 2, sharded=False)).cause == "unsharded"
    assert judge_observed(tasks(6, 2, sharded=False).observed(alone=own)).cause == "unsharded"


def test_padding_that_reaches_a_metric_is_not_proven() -> None:
    assert judged(ddp_case(21, 2), role="eval").reasons == (
        "1 padded sample of a pass would be counted twice in the metric",
    )
    assert judged(ddp_case(21, 2), role="eval", padding_removed=True).verdict == "proven"
    assert judged(ddp_case(20, 2), role="eval").verdict == "proven"


def test_an_evaluation_whose_sampler_shuffles_is_refuted_and_a_training_is_not() -> None:
    case = ddp_case(40, 2, shuffle=True)
    assert judged(case, role="eval").cause == "shuffled-eval"
    assert judged(case, role="train").verdict == "proven"


def test_a_set_below_the_batch_is_gone_round_more_than_once_and_stays_in_order() -> None:
    proof = judged(prepared(8, 2, 64), role="eval", padding_removed=True)
    assert (proof.verdict, proof.cause) == ("proven", "")


def test_a_loader_that_no_longer_shuffles_or_that_a_framework_shuffles_is_refuted() -> None:
    own = plainly(40, 4, shuffle=True)
    assert judge_observed(ddp_case(40, 2).observed(alone=own)).cause == "unshuffled"
    ordered = plainly(40, 4)
    assert judge_observed(ddp_case(40, 2, shuffle=True).observed(alone=ordered), role="train").cause == "reordered"


def test_a_rank_that_repeats_and_samples_from_elsewhere_are_found() -> None:
    repeated = watched(
        lambda rank, _: batched([0, 0, 2, 4] if rank == 0 else [1, 3, 5, 6], 4),
        lambda rank: built(8, 4, sampler="Ours", shuffled=None),
        2,
    )
    assert judged(repeated).cause == "repeats"
    foreign = watched(lambda rank, _: batched(range(rank, 10, 2), 5), lambda rank: ddp(rank, 2, 8, 5), 2)
    assert judged(foreign).cause == "foreign"


# --- samplers of the program's own that draw less than there is ---


def own_part(size: int, world: int, batch: int, *, stretch: bool = False, prepare: bool = True) -> Case:
    """A sampler that takes its rank's part, in a loader that is prepared: by remainder or by stretch."""
    share = size // world

    def read(rank: int, epoch: int) -> Batches:
        mine = range(rank * share, (rank + 1) * share) if stretch else range(rank, size, world)
        return shard(batched(mine, batch), batch, rank, world) if prepare else batched(mine, batch)

    said = built(size, batch, sampler="ByRank", manual=True, shuffled=None, draws=share)
    return watched(read, replace(said, sharder="accelerate" if prepare else ""), world)


def chosen(size: int, of: int, world: int, batch: int) -> Case:
    """A sampler that chooses ``of`` of the samples, alike on every rank, in a loader that is prepared."""

    def read(rank: int, epoch: int) -> Batches:
        return shard(batched(permuted(size, 3)[:of], batch), batch, rank, world)

    return watched(
        read, built(size, batch, sampler="Chosen", manual=True, shuffled=None, draws=of, sharder="accelerate"), world
    )


@pytest.mark.parametrize("stretch", [True, False])
@pytest.mark.parametrize("world", WORLDS)
def test_a_sampler_that_takes_its_ranks_part_must_not_be_prepared(world: int, stretch: bool) -> None:
    proof = judged(own_part(288, world, 2, stretch=stretch))
    assert (proof.verdict, proof.cause) == ("refuted", "sharded-twice")
    share = 288 // world
    assert proof.reasons[0].startswith(
        f"sharded twice: ByRank draws {share} of 288 samples on a rank, its own part, and accelerate shards these "
        f"again: {288 - share} of 288 samples are never read; rank 0 reads [0, "
    )
    assert proof.map_after is not None
    assert len(proof.map_after.expected) == 288
    assert judged(own_part(288, world, 1)).verdict == "unproven"  # a choice of samples may look like that
    assert judge_observed(own_part(288, world, 1).observed(alone=plainly(288, 1))).cause == "sharded-twice"
    assert judged(own_part(288, world, 2, stretch=stretch, prepare=False)).verdict == "proven"


@pytest.mark.parametrize("world", WORLDS)
def test_a_choice_of_samples_is_proven_only_against_one_process(world: int) -> None:
    case = chosen(48, 48 // world, world, 2)
    proof = judged(case)
    assert proof.verdict == "unproven"
    assert proof.reasons == (
        f"Chosen draws {48 // world} of 48 samples on a rank: whether that is meant, or its own part, was not seen",
    )
    own = alone(lambda _: batched(permuted(48, 3)[: 48 // world], 2), replace(case.built[0], sharder=""))
    assert judge_observed(case.observed(alone=own)).verdict == "proven"


def test_a_sampler_that_says_it_is_never_told_the_epoch_needs_no_eight_draws() -> None:
    case = ddp_case(12, 2, shuffle=True, told=False)
    assert judged(case).verdict == "proven"  # that six draws are the same twice may be chance
    proof = judged(replace(case, epochs=((0, 0, 0), (0, 0, 0))))
    assert (proof.verdict, proof.cause) == ("refuted", "frozen-epoch")
    assert judged(replace(ddp_case(12, 2, shuffle=True), epochs=((0, 1, 2), (0, 1, 2)))).verdict == "proven"


# --- datasets that differ by rank ---


def own_tensors(size: int, world: int, *, sharded: bool, samples: int = 0) -> Case:
    """A dataset that each rank makes itself: other tensors under the same ids."""

    def read(rank: int, epoch: int) -> Batches:
        return batched(distributed(range(size), rank, world) if sharded else range(size), 4)

    def said(rank: int) -> Built:
        own = ddp(rank, world, size, 4, shuffled=False) if sharded else built(size, 4)
        return replace(own, samples=samples or size, data_digest=f"t{rank}")

    return watched(read, said, world)


def test_other_data_under_the_same_ids_is_neither_proven_nor_refuted_by_them() -> None:
    for sharded in (True, False):
        proof = judged(own_tensors(20, 2, sharded=sharded))
        assert proof.verdict == "unproven"
        assert proof.reasons[0].startswith("the ranks hold datasets of their own, 20 and 20 samples: ")


def test_other_data_under_the_same_ids_is_not_refuted_by_a_pass_that_was_left_early() -> None:
    assert judge_observed(cut(own_tensors(400, 2, sharded=False), 3)).verdict == "unproven"


def test_data_made_at_random_by_each_rank_is_judged_by_ids_where_one_process_has_as_much() -> None:
    own = plainly(20, 4)
    assert judge_observed(own_tensors(20, 2, sharded=True).observed(alone=own)).verdict == "proven"
    assert judge_observed(own_tensors(20, 2, sharded=False).observed(alone=own)).cause == "unsharded"


def test_parts_that_the_program_made_by_rank_must_not_be_sharded_again() -> None:
    own = plainly(20, 4)
    proof = judge_observed(own_tensors(10, 2, sharded=True).observed(alone=own))
    assert (proof.verdict, proof.cause) == ("refuted", "sharded-twice")
    assert proof.reasons == ("sharded twice: rank 0's dataset holds 10 of 20 samples, and its loader is sharded again",)
    proof = judge_observed(own_tensors(10, 2, sharded=False).observed(alone=own))
    assert proof.verdict == "unproven"
    assert proof.reasons[0].startswith(
        "the ranks hold datasets of their own, 10 and 10 samples where one process has 20: "
    )


def test_equal_ids_that_yield_other_contents_are_not_called_unsharded() -> None:
    observed = everything(20, 2).observed()
    told = [
        replace(reader, passes=tuple(replace(seen, contents=(f"c{reader.rank}",)) for seen in reader.passes))
        for reader in observed.readers
    ]
    proof = judge_observed(replace(observed, readers=tuple(told)))
    assert proof.verdict == "unproven"
    assert proof.reasons == (
        "every rank reads all 20 samples, but what these ids yield differs: a dataset of each rank's own, or random "
        "transforms",
    )
    alike = tuple(replace(reader, passes=observed.readers[0].passes) for reader in told)
    assert judge_observed(replace(observed, readers=alike)).cause == "unsharded"


# --- streams ---


def stream(parts: list[list[str]], batch: int = 4, **more: object) -> Case:
    """A stream on each rank, by the digests of its items."""
    said = replace(Built(kind="stream", batch_size=batch), **more)
    return watched(lambda rank, epoch: batched(parts[rank], batch), said, len(parts))


def digests(start: int, stop: int, step: int = 1) -> list[str]:
    return [f"{index:04x}" for index in range(start, stop, step)]


def whole(size: int, **more: object) -> Reader:
    return alone(lambda _: batched(digests(0, size), 4), replace(Built(kind="stream", batch_size=4), **more))


@pytest.mark.parametrize("world", WORLDS)
def test_a_stream_that_splits_by_rank_is_proven_against_one_process_only(world: int) -> None:
    case = stream([digests(rank, 12 * world, world) for rank in range(world)])
    assert judge_observed(case.observed(alone=whole(12 * world))).verdict == "proven"
    proof = judged(case)
    assert proof.verdict == "unproven"
    assert proof.reasons[0].startswith(f"{12 * world} items, none of them on two ranks; what one process reads was not")
    missing = judge_observed(case.observed(alone=whole(12 * world + 6)))
    assert missing.told[1] == "the items of a stream are numbered in the order in which they were first seen"


@pytest.mark.parametrize("world", WORLDS)
def test_a_stream_that_every_rank_reads_is_unsharded(world: int) -> None:
    case = stream([digests(0, 21)] * world)
    for observed in (case.observed(), case.observed(alone=whole(21)), cut(case, 2)):
        proof = judge_observed(observed)
        assert (proof.verdict, proof.cause) == ("refuted", "unsharded")
    shuffled = stream([random.Random(rank).sample(digests(0, 21), 21) for rank in range(world)])
    assert judged(shuffled).cause == "unsharded"


def test_a_stream_that_accelerate_shards_or_dispatches_is_proven_with_its_padding() -> None:
    parts = [[item for batch in shard(batched(range(21), 4), 4, rank, 2) for item in batch] for rank in range(2)]
    named = [[digests(0, 21)[index] for index in part] for part in parts]
    proof = judge_observed(stream(named, sharder="accelerate").observed(alone=whole(21)))
    assert (proof.verdict, proof.padded) == ("proven", 3)
    parts = [[item for batch in dispatched(batched(range(21), 4), rank, 2) for item in batch] for rank in range(2)]
    named = [[digests(0, 21)[index] for index in part] for part in parts]
    sent = stream(named, sharder="accelerate-dispatcher", dispatched=True)
    proof = judge_observed(sent.observed(alone=whole(21)))
    assert (proof.verdict, proof.padded) == ("proven", 1)


def test_a_stream_that_splits_by_rank_and_is_dispatched_or_sharded_again_loses_data() -> None:
    mine = digests(0, 40, 2)
    parts = [
        [mine[index] for batch in dispatched(batched(range(20), 4), rank, 2) for index in batch] for rank in (0, 1)
    ]
    sent = stream(parts, sharder="accelerate-dispatcher", dispatched=True)
    proof = judge_observed(sent.observed(alone=whole(40)))
    assert (proof.verdict, proof.cause) == ("refuted", "dispatched-part")
    parts = [
        [digests(rank, 40, 2)[index] for batch in shard(batched(range(20), 4), 4, rank, 2) for index in batch]
        for rank in (0, 1)
    ]
    proof = judge_observed(stream(parts, sharder="accelerate").observed(alone=whole(40)))
    assert (proof.verdict, proof.cause) == ("refuted", "sharded-twice")


def test_a_stream_whose_workers_each_yield_all_of_it_is_refuted() -> None:
    twice = [[item for item in digests(rank, 40, 2) for _ in range(2)] for rank in range(2)]
    case = stream(twice, workers=2)
    own = alone(
        lambda _: batched([item for item in digests(0, 40) for _ in range(2)], 4), Built(kind="stream", workers=2)
    )
    for observed in (case.observed(), case.observed(alone=own)):
        proof = judge_observed(observed)
        assert (proof.verdict, proof.cause) == ("refuted", "worker-copies")
    assert proof.reasons[0] == "each of 2 workers yields the whole stream: rank 0 reads [0, 0, 2, 2, 4, 4, ..]"


def shuffled_stream(*, told: bool, shuffled: bool | None = True, **more: object) -> Case:
    def read(rank: int, epoch: int) -> list[list[str]]:
        return batched([f"{index:04x}" for index in permuted(40, epoch if told else 0)[rank::2]], 4)

    return watched(read, replace(Built(kind="stream", batch_size=4, shuffled=shuffled), **more), 2)


def test_a_stream_that_shuffles_by_an_epoch_it_is_not_told_is_frozen() -> None:
    assert judged(shuffled_stream(told=False)).cause == "frozen-epoch"
    assert judged(shuffled_stream(told=False), role="eval").cause == ""
    assert judged(shuffled_stream(told=False, shuffled=None)).cause == ""
    assert judged(shuffled_stream(told=True)).cause == ""
    told = replace(shuffled_stream(told=False, workers=2), epochs=((0, 1, 2), (0, 1, 2)))
    assert judged(told).reasons[0].endswith("; set_epoch does not reach its workers, which persist")


def test_ranks_of_a_stream_that_overlap_have_no_seed_that_could_differ() -> None:
    parts = stream([digests(0, 30), digests(20, 50)])
    proof = judge_observed(parts.observed(alone=whole(60)))
    assert (proof.verdict, proof.cause) == ("refuted", "overlap")


def test_streams_that_overlap_in_part_are_refuted_but_not_for_a_few_equal_items() -> None:
    half = stream([digests(0, 30), digests(15, 45)])
    assert judged(half).cause == "overlap"
    assert judged(stream([digests(0, 30), [*digests(0, 2), *digests(32, 60)]])).verdict == "unproven"


def test_a_stream_may_repeat_items_to_fill_its_batches_only_where_accelerate_shards_it() -> None:
    parts = [digests(0, 12), [*digests(0, 6), *digests(12, 18)]]
    assert judged(stream(parts)).cause == "overlap"
    assert judged(stream(parts, sharder="accelerate")).verdict == "unproven"
    assert judged(stream(parts, sharder="accelerate-dispatcher", dispatched=True)).cause == "overlap"


def test_a_stream_that_differs_from_run_to_run_says_nothing_against_one_process() -> None:
    proof = judge_observed(stream([digests(100, 120), digests(200, 220)]).observed(alone=whole(40)))
    assert proof.verdict == "unproven"
    assert proof.reasons == ("its items are not those that one process reads: they differ from run to run",)


def test_an_empty_stream_is_no_fault() -> None:
    assert judged(stream([[], []])).verdict == "unproven"


def test_ranks_with_unequal_streams_are_uneven() -> None:
    proof = judged(stream([digests(0, 12), digests(12, 20)]))
    assert (proof.verdict, proof.cause) == ("refuted", "uneven")
    assert proof.reasons == ("rank 1 makes 2 steps, rank 0 makes 3: the job would hang",)


# --- any one visit that is another one's ---


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("make", [ddp_case, prepared])
def test_one_visit_that_goes_to_another_sample_is_refuted_wherever_it_is(world: int, make: object) -> None:
    assert callable(make)
    for size, shuffle, at in product((7, 16, 21, 41), (False, True), (0, 2)):
        case = make(size, world, shuffle=shuffle)
        read = Counter(index for passes in case.reads for batch in passes[at] for index in batch)
        for rank, step, place in product(range(world), range(len(case.reads[0][at])), range(2)):
            batches = [list(batch) for batch in case.reads[rank][at]]
            if place >= len(batches[step]) or read[batches[step][place]] > 1:
                continue  # of a sample that is padding there is another visit
            batches[step][place] = (batches[step][place] + 1) % size
            passes = list(case.reads[rank])
            passes[at] = batches
            reads = [*case.reads[:rank], tuple(passes), *case.reads[rank + 1 :]]
            for own in (None, plainly(size, 4, shuffle=shuffle)):
                proof = judge_observed(replace(case, reads=tuple(reads)).observed(alone=own))
                assert proof.verdict == "refuted", (size, shuffle, at, rank, step, place)
                assert proof.cause in (
                    "missing",
                    "overlap",
                    "per-rank-seed",
                    "shuffled-eval",
                    "reordered",
                    "unsynced-rng",
                    "repeats",
                ), proof.cause


def test_one_process_that_reads_a_part_itself_is_no_measure() -> None:
    case = dealt_wrongly(41, 2, replicas=4)
    part = alone(lambda _: batched(range(0, 41, 4), 4), ddp(0, 4, 41, 4, shuffled=False))
    proof = judge_observed(case.observed(alone=part))
    assert proof.reasons[0].startswith("num_replicas is 4 where 2 ranks read: 20 of 41 samples are never read; ")


# --- right ones in passes that are left early, and wrong ones that show little ---


def test_what_is_right_is_not_refuted_because_it_was_left_early() -> None:
    one = watched(lambda rank, epoch: batched(range(400), 4), built(400, 4), 1)
    assert judge_observed(cut(one, 3)).verdict == "unproven"
    assert judge_observed(cut(drawn(21, 400, 2, sharded=True), 20)).verdict == "unproven"
    for dropping in ({"drop_last": True}, {"sampler_drop_last": True}):
        assert judge_observed(cut(ddp_case(401, 2, **dropping), 5)).verdict == "unproven"
    for prepare in (True, False):
        disjoint = stream([digests(rank, 400, 2) for rank in range(2)], sharder="accelerate" if prepare else "")
        for alone_too in (None, whole(400)):
            assert judge_observed(cut(disjoint, 9, alone=alone_too)).verdict == "unproven"


def test_a_sampler_that_draws_each_sample_twice_is_no_overlap() -> None:
    twice = [index // 2 for index in range(80)]
    said = ddp(0, 2, 40, 4, shuffled=False, draws=80)
    case = watched(
        lambda rank, epoch: batched(twice[rank::2], 4), lambda rank: replace(said, shard=(2, rank), sampler="Twice"), 2
    )
    own = alone(lambda _: batched(twice, 4), replace(said, shard=None, sampler="Twice"))
    assert judge_observed(case.observed(alone=own)).verdict == "proven"
    assert judge_observed(cut(case, 9, alone=own)).verdict == "unproven"
    more = replace(case, reads=(case.reads[0], tuple([*batches, [0, 0]] for batches in case.reads[1])))
    assert judge_observed(more.observed(alone=own)).verdict == "refuted"


def test_one_sample_too_many_is_seen_in_a_pass_that_was_left_early() -> None:
    case = ddp_case(400, 2)
    first = [list(batch) for batch in case.reads[1][0]]
    first[2][0] = 4
    spoilt = replace(case, reads=(case.reads[0], (first, *case.reads[1][1:])))
    proof = judge_observed(cut(spoilt, 5))
    assert (proof.verdict, proof.cause) == ("refuted", "overlap")
    assert proof.reasons[0].startswith("ranks overlap: sample 4 is read by rank 0 and rank 1 (1 visit")


def test_a_sampler_of_the_programs_own_that_every_rank_reads_alike_is_unsharded() -> None:
    case = everything(400, 2)
    own = tuple(replace(one, sampler="Ours", shuffled=None, manual=True) for one in case.built)
    for observed in (replace(case, built=own).observed(), cut(replace(case, built=own), 5)):
        assert judge_observed(observed).cause == "unsharded"
