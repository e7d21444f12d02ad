"""Watched loaders: right ones are proven at every size, broken ones refuted with the cause; no processes."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

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

from shardfix.proof.model import Proof
from shardfix.proof.observed import Built, Reader
from shardfix.proof.verdicts import judge_observed

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
            empty = not any(passes[0] for passes in case.reads)
            assert proof.verdict == ("unproven" if empty else "proven"), (name, size, batch, drop_last, proof)


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
