"""Evaluations that are run for their proof: right reductions are proven, and each way to get one wrong turns it red."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shardfix.proof.metrics.judge import sizes_for
from shardfix.proof.metrics.model import Evaluation, MetricProof, MetricRecipe
from shardfix.proof.metrics.run import _runs, prove_metrics
from shardfix.proof.running.launch import Verifier

PLAIN = "loader = torch.utils.data.DataLoader(DATASET(), batch_size=2)"
SHARDED = """
sampler = torch.utils.data.distributed.DistributedSampler(DATASET(), shuffle=False) if DISTRIBUTED else None
loader = torch.utils.data.DataLoader(DATASET(), batch_size=2, sampler=sampler)
"""
UNPADDED = f"{SHARDED}loader = unpadded(loader)"

SUMS = """
correct = total = 0
loss_sum = 0.0
for batch in BATCHES(loader):
    correct += HITS('predicted == labels', batch)
    loss_sum += MEAN('loss', batch) * COUNT(batch)
    total += COUNT(batch)
{reduction}
VALUES = {{'correct': correct, 'total': total, 'correct / total': correct / total,
           'loss': loss_sum / len(loader.dataset)}}
"""
REDUCED_SUMS = SUMS.format(reduction="correct, total, loss_sum = reduced(correct, total, loss_sum)")
LISTS = """
predictions, logits = [], []
for batch in BATCHES(loader):
    predictions.extend(ROWS('predictions', batch))
    logits.append(TENSOR(ROWS('logits', batch)))
{reduction}
VALUES = {{'predictions': predictions, 'logits': torch.cat(logits), 'f1': CALL('f1_score', predictions, logits)}}
"""
ORDERED_LISTS = LISTS.format(reduction="predictions, logits = in_order(predictions, loader), in_order(logits, loader)")
METERS = """
top1 = METER()
for batch in BATCHES(loader):
    top1.update(MEAN('acc1', batch), COUNT(batch))
{reduction}
VALUES = {{'top1': top1, 'top1.avg': top1.avg}}
"""
REDUCED_METERS = METERS.format(
    reduction="top1.sum, top1.count = reduced(top1.sum, top1.count)\ntop1.avg = top1.sum / top1.count"
)
BATCH_MEANS = """
losses, steps = 0.0, 0
for batch in BATCHES(loader):
    losses += MEAN('loss', batch)
    steps += 1
{reduction}
VALUES = {{'losses / steps': losses / steps}}
"""
REDUCED_BATCH_MEANS = BATCH_MEANS.format(reduction="losses, steps = reduced(losses, steps)")
LENGTHS = """
losses = 0.0
for batch in BATCHES(loader):
    losses += MEAN('loss', batch)
{reduction}
VALUES = {{'loss': losses / {length}}}
"""
EPOCHS = """
correct = total = 0
for _ in range(2):
    for batch in BATCHES(loader):
        correct += HITS('hit', batch)
        total += COUNT(batch)
    {reduction}
VALUES = {{'correct': correct, 'total': total}}
"""


def of(before: str, after: str, *, build: str = UNPADDED, weighted: tuple[str, ...] = ()) -> MetricRecipe:
    original = before.format(reduction="pass", length="len(loader)")
    return MetricRecipe("eval.py:1:1", Evaluation(PLAIN, original), Evaluation(build, after), (), weighted)


RIGHT = {
    "sums": of(SUMS, REDUCED_SUMS),
    "lists in order": of(LISTS, ORDERED_LISTS),
    "a meter": of(METERS, REDUCED_METERS),
    "batch means, told": of(BATCH_MEANS, REDUCED_BATCH_MEANS, weighted=("losses / steps",)),
    "a length, reduced": of(
        LENGTHS,
        LENGTHS.format(reduction="losses, steps = reduced(losses, len(loader))", length="steps"),
        weighted=("loss",),
    ),
}
# Each with what its first reason must say.
WRONG = {
    "reduction left out": (of(SUMS, SUMS.format(reduction="pass")), "rank 0 of 2: `correct` is "),
    "padding left in": (of(SUMS, REDUCED_SUMS, build=SHARDED), "`total` is 14, in one process 13"),
    "not sharded": (
        of(SUMS, SUMS.format(reduction="if DISTRIBUTED:\n    correct, total = correct * 2, total * 2"), build=PLAIN),
        "rank 0 of 2: `correct` is ",
    ),
    "order not restored": (
        of(LISTS, LISTS.format(reduction=(
            "if DISTRIBUTED:\n"
            "    parts, pieces = [None] * WORLD_SIZE, [None] * WORLD_SIZE\n"
            "    dist.all_gather_object(parts, predictions)\n"
            "    dist.all_gather_object(pieces, logits)\n"
            "    predictions = [row for part in parts for row in part]\n"
            "    logits = [row for piece in pieces for row in piece]\n"
        ))),
        "rank 0 of 2: `predictions` is [",
    ),
    "batch means called exact": (of(BATCH_MEANS, REDUCED_BATCH_MEANS), "rank 0 of 2: `losses / steps` is "),
    "reduced twice": (
        of(EPOCHS, EPOCHS.format(reduction="correct, total = reduced(correct, total)")),
        "rank 0 of 2: `correct` is ",
    ),
    "reduced on one rank": (
        of(SUMS, SUMS.format(reduction="if RANK == 0:\n    correct = reduced(correct)")),
        "waits for ever",
    ),
    "a length that is not reduced": (
        of(LENGTHS, LENGTHS.format(reduction="losses = reduced(losses)", length="len(loader)"), weighted=("loss",)),
        "rank 0 of 2: `loss` is ",
    ),
    "the number of ranks in a denominator": (
        of(SUMS, REDUCED_SUMS.replace("len(loader.dataset)", "(len(loader.dataset) * WORLD_SIZE)")),
        "rank 0 of 2: `loss` is ",
    ),
    "an average that is not worked out again": (
        of(METERS, METERS.format(reduction="top1.sum, top1.count = reduced(top1.sum, top1.count)")),
        "rank 0 of 2: `top1` is ",
    ),
    "one process differs": (
        of(SUMS, SUMS.format(reduction="total = total + 1")), "one process: `total` is 13, in one process 12",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def proofs() -> dict[str, MetricProof]:
    recipes = {**RIGHT, **{name: recipe for name, (recipe, _) in WRONG.items()}, **UNPROVEN}
    with Verifier(timeout=200.0, patience=4.0) as verifier:
        return dict(zip(recipes, prove_metrics(list(recipes.values()), verifier), strict=True))


UNPROVEN = {
    "a slice that fails": of(SUMS.replace("total = 0", "total = missing"), REDUCED_SUMS),
    "nothing to mend": replace(of(SUMS, REDUCED_SUMS), before=Evaluation(UNPADDED, REDUCED_SUMS)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_reduction_is_proven(proofs: dict[str, MetricProof], name: str) -> None:
    proof = proofs[name]
    assert (proof.verdict, proof.reasons) == ("proven", ())
    assert proof.control == "the original reads 26 samples on 2 ranks where there are 13"


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_reduction_is_refuted_with_its_values(proofs: dict[str, MetricProof], name: str) -> None:
    proof = proofs[name]
    assert proof.verdict == "refuted"
    assert WRONG[name][1] in " ".join(proof.reasons)


def test_the_values_of_the_ragged_size_are_told(proofs: dict[str, MetricProof]) -> None:
    assert proofs["sums"].told == (
        "2 and 3 ranks evaluate every sample once and get the metric of one process: `correct` 7, `total` 13,"
        " `correct / total` 0.538462 (13 samples)",
    )


def test_how_far_means_over_batches_drift_is_told(proofs: dict[str, MetricProof]) -> None:
    (_, drift) = proofs["batch means, told"].told
    assert drift.startswith("`losses / steps` is ")
    assert drift.endswith("(13 samples): a mean over batches weighs a ragged one like a full one")


def test_a_slice_that_fails_by_itself_proves_nothing(proofs: dict[str, MetricProof]) -> None:
    proof = proofs["a slice that fails"]
    assert proof.verdict == "unproven"
    assert proof.reasons == (
        "the evaluation can't be run apart from its program: NameError: name 'missing' is not defined",
    )


def test_an_original_that_is_right_already_proves_nothing(proofs: dict[str, MetricProof]) -> None:
    assert proofs["nothing to mend"].verdict == "unproven"
    assert "the original shows no fault" in proofs["nothing to mend"].reasons[0]


def test_a_change_of_some_values_is_held_against_the_original_at_each_size() -> None:
    """One process may fail at one of them, where a last batch of one sample loses its dimension."""
    same = Evaluation("", "")
    for partial, sizes in ((True, sizes_for(4)), (False, sizes_for(4)[1:2])):
        runs = _runs(MetricRecipe("eval.py:1:1", same, same, partial=partial), 4, 2, grouped=False)
        assert [size for variant, world, _, size in runs if (variant, world) == ("before", 2)] == list(sizes)
