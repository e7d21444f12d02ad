"""The checklist of a watched loader: the seven questions, answered from what it says of itself and what was read."""

from __future__ import annotations

from collections.abc import Sequence

from shardfix.analysis.model import Check
from shardfix.proof.model import Proof
from shardfix.proof.observed import Built, Observed
from shardfix.wording import join, plural

from .rows import Row, full_batch, named
from .seen import PLAIN, Seen

UNPADDED = "nothing is padded"
_TWICE = ("sharded-twice", "dispatched-part")
_STALE = ("stale-epoch-on-one-rank",)


def checklist_of(
    observed: Observed, seen: Seen, proof: Proof, role: str, *, padding_removed: bool
) -> tuple[Check, ...]:
    """The answers for one loader, in the order in which they are asked.

    Args:
        observed: the loader as it was watched, of which at least one rank began a pass.
        seen: the same as the judge takes it.
        proof: the verdict on it.
        role: ``train``, ``eval`` or ``unknown``.
        padding_removed: as ``judge_observed`` is told.
    """
    built = seen.built
    return (
        _sampler(built),
        Check("by hand", "yes" if built.manual else "no", "sampler= or batch_sampler=" * built.manual),
        _split_by(observed, seen, proof),
        _batch(observed, seen),
        _counted(observed, seen, proof, role, padding_removed),
        Check("sanitizer", "unknown", "it leaves no trace at run time"),
        _epoch(seen, proof),
    )


def checklist_of_unread(built: Built) -> tuple[Check, ...]:
    """What a loader that no rank read says of itself."""
    unread = "it was never read"
    size = "" if built.batch_size is None else str(built.batch_size)
    return (
        _sampler(built),
        Check("by hand", "yes" if built.manual else "no", "sampler= or batch_sampler=" * built.manual),
        Check("split by", "unknown", unread),
        Check("batch", f"{size} a rank" if size else "unknown", unread),
        Check("counted once", "unknown", unread),
        Check("sanitizer", "unknown", "it leaves no trace at run time"),
        Check("epoch told", "unknown", unread),
    )


# --- the sampler ---


def _sampler(built: Built) -> Check:
    if built.kind == "stream":
        return Check("sampler", "none", "a stream has none: its dataset decides what is read")
    order = {True: ", shuffled", False: ", in order", None: ""}[built.shuffled]
    answer = (built.sampler or "unknown") + order + (", with replacement" if built.replacement else "")
    return Check("sampler", answer)


# --- who splits ---


def _split_by(observed: Observed, seen: Seen, proof: Proof) -> Check:
    question, built = "split by", seen.built
    if observed.world == 1:
        return Check(question, "nobody", "one process")
    if built.sharder.startswith("accelerate"):
        if proof.cause in _TWICE:
            return Check(question, "accelerate", "and by itself before that: sharded twice")
        dispatched = built.dispatched or built.sharder == "accelerate-dispatcher"
        how = "dispatch: rank 0 reads and deals out" if dispatched else "shard: each rank reads its own batches"
        return Check(question, "accelerate", how + ", each a piece of one batch (split_batches)" * built.split_batches)
    if built.sharder:
        return Check(question, built.sharder, "in its own way")
    if len(seen.rows.rows) == 1:
        return Check(question, "nobody", f"{seen.rows.rows[0].name} alone reads it")
    if built.shard is not None and built.shard[0] > 1:
        return Check(question, "its sampler", _parts(seen.rows.rows))
    if proof.cause == "unsharded":
        return Check(question, "nobody", "every rank reads all of it")
    apart = proof.conditions["disjoint"].startswith("held")
    if built.kind == "stream":
        return Check(question, "its dataset", "") if apart else Check(question, "unknown", "a stream decides by itself")
    if built.sampler not in PLAIN:
        return Check(question, "its sampler", "") if apart else Check(question, "unknown", "its sampler is its own")
    if apart:
        return Check(question, "its dataset", "each rank reads a subset of its own")
    return Check(question, "unknown", "what each rank reads was not seen to the end")


def _parts(rows: Sequence[Row]) -> str:
    """Whose part each rank takes, where that is not simply its own."""
    shards = [row.reader.built.shard for row in rows]
    numbers = [shard[1] for shard in shards if shard is not None]
    counts = {shard[0] for shard in shards if shard is not None}
    if counts == {len(rows)} and numbers == list(range(len(rows))):
        return f"a part for each of {len(rows)}"
    said = [f"{row.name} part {shard[1]} of {shard[0]}" for row, shard in zip(rows, shards, strict=True) if shard]
    return join(said[:4]) + (" .." if len(said) > 4 else "")


# --- the batch ---


def _batch(observed: Observed, seen: Seen) -> Check:
    """How many samples a step takes in one process and on all ranks; measured where one process was run too."""
    rows, built = seen.rows.rows, seen.built
    mine = full_batch(rows[0].reader) or built.batch_size
    if mine is None:
        return Check("batch", "unknown", "its batch sampler says no size, and no full batch was seen")
    alone = None
    if observed.alone is not None:
        alone = full_batch(observed.alone) or observed.alone.built.batch_size
    if observed.world == 1:
        return Check("batch", str(mine), "one process")
    if len(rows) == 1:
        return Check("batch", str(mine), "one process alone reads it")
    many = mine * len(rows)
    if alone is None:
        one = many if built.split_batches else mine
        note = "one process was not run"
    else:
        one, note = alone, "as they were read"
    on = f"{many} on {len(rows)}" if many != one else f"the same on {len(rows)}"
    return Check("batch", f"{one} on one process, {on}", note)


# --- the metric ---


def _counted(observed: Observed, seen: Seen, proof: Proof, role: str, padding_removed: bool) -> Check:
    """Whether a pass visits each sample once; what becomes of the visits in a metric is the program's."""
    question = "counted once"
    if role == "train":
        return Check(question, "-", "not an evaluation")
    if observed.world == 1:
        return Check(question, "yes", "one process")
    if any(proof.conditions[name].startswith("failed") for name in ("disjoint", "covered")):
        return Check(question, "no", proof.cause)
    if not seen.whole:
        return Check(question, "unknown", "no pass came to its end")
    if len(seen.rows.rows) == 1:
        return Check(question, "yes", "one process reads all of it")
    if proof.padded:
        return padded(proof.padded, removed=role == "eval" and padding_removed)
    if proof.conditions["disjoint"].startswith("held"):
        return Check(question, "yes", UNPADDED)
    return Check(question, "unknown", "what the ranks read twice is not known")


def padded(number: int, *, removed: bool = False) -> Check:
    """The answer where so many visits are padding; ``removed``: the program keeps them out of its metric."""
    if removed:
        return Check("counted once", "yes", f"{number} padded, which the program drops")
    which = "it" if number == 1 else "them"
    comes = "1 sample comes" if number == 1 else f"{plural(number, 'sample')} come"
    return Check("counted once", "no", f"{comes} twice, unless the metric drops {which}")


# --- the epoch ---


def _epoch(seen: Seen, proof: Proof) -> Check:
    """Whether what shuffles was told the epoch, by what its sampler says in each pass."""
    question, built = "epoch told", seen.built
    if built.sharder.startswith("accelerate"):
        return Check(question, "yes", "a prepared loader tells it by itself")
    if proof.cause in _STALE:
        return Check(question, "no", "not on every rank")
    said = [[one.epoch for one in row.reader.passes[: seen.rows.passes]] for row in seen.rows.rows]
    counts = [epochs for epochs in said if None not in epochs]
    if built.shuffled is False:
        return Check(question, "-", "it does not shuffle")
    if len(counts) < len(said):
        return Check(question, "-", "it does not count epochs")
    if seen.rows.passes < 2:
        return Check(question, "unknown", "only one pass was seen")
    shown = f"at {join([str(epoch) for epoch in counts[0][:4]])}{' ..' if len(counts[0]) > 4 else ''}"
    late = next((at for at, epochs in enumerate(counts) if len(set(epochs)) < len(epochs)), None)
    if late is None:
        return Check(question, "yes", f"{shown} in its passes")
    who = "" if late == 0 else f"; {named(seen.rows.rows[late].ranks)} is not"
    return Check(question, "no", f"{shown} in its passes{who}")
