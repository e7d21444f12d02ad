"""`verify` runs evaluations as they stand: a metric that is another one on several ranks is refuted with its values."""

from __future__ import annotations

import pytest

from shardfix.analysis.model import Options
from shardfix.config import Config
from shardfix.engine import verify
from shardfix.proof.metrics.judge_standing import judge_standing
from shardfix.proof.metrics.model import Evaluation, Measured, MetricRecipe, MetricRun
from shardfix.proof.model import Proof, Variant

DDP = """\
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler
from shardfix import reduced, unpadded

dist.init_process_group("gloo")
rank = dist.get_rank()
val_set = [(torch.tensor([float(i)]), i % 2) for i in range(25)]
val_loader = {loader}

def summed(value):
    total = torch.tensor(float(value))
    dist.all_reduce(total, op=dist.ReduceOp.SUM)
    return total.item()

@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    correct = total = 0
    for x, label in loader:
        correct += (model(x).argmax(1) == label).sum().item()
        total += label.size(0)
{rest}

print({use})
"""
PADDED = "DataLoader(val_set, batch_size=4, sampler=DistributedSampler(val_set, shuffle=False))"
UNPADDED = f"unpadded({PADDED})"
BY_HAND = "DataLoader(torch.utils.data.Subset(val_set, range(rank, len(val_set), dist.get_world_size())), batch_size=4)"
USE = "evaluate(torch.nn.Linear(1, 2), val_loader)"
REDUCED = "    correct, total = reduced(correct, total)\n    return correct / total"
TENSOR = "    t = torch.tensor([correct, total])\n    dist.all_reduce(t)\n    return (t[0] / t[1]).item()"
ON_FIRST = (
    "    t = torch.tensor([correct, total])\n    dist.reduce(t, dst=0)\n"
    "    if rank == 0:\n        print(t[0].item() / t[1].item())"
)
OBJECTS = (
    "    parts = [None] * dist.get_world_size()\n    dist.all_gather_object(parts, (correct, total))\n"
    "    return sum(c for c, _ in parts) / sum(n for _, n in parts)"
)
BESIDE = "    print(correct / total)\n" + REDUCED

ACCELERATE = """\
import evaluate
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

accelerator = Accelerator()
val_set = [{{"labels": i % 2}} for i in range(25)]
model = torch.nn.Linear(1, 2)
val_loader = accelerator.prepare(DataLoader(val_set, batch_size=4))
metric = evaluate.load("accuracy")

@torch.no_grad()
def run():
    preds = []
    for batch in val_loader:
        pred = model(**batch).logits.argmax(dim=-1)
        {batch}
    {rest}

run()
"""
TOLD = (
    'pred, labels = accelerator.{gather}((pred, batch["labels"]))\n'
    "        metric.add_batch(predictions=pred, references=labels)"
)


def ddp(loader: str, rest: str, use: str = USE) -> str:
    return DDP.format(loader=loader, rest=rest, use=use)


PROGRAMS = {
    "migrated": ddp(UNPADDED, REDUCED),
    "by_hand": ddp(UNPADDED, TENSOR),
    "by_objects": ddp(UNPADDED, OBJECTS),
    "by_helper": ddp(UNPADDED, "    return summed(correct) / summed(total)"),
    "on_first_rank": ddp(UNPADDED, ON_FIRST),
    "gathered_for_metrics": ACCELERATE.format(
        batch=TOLD.format(gather="gather_for_metrics"), rest="accelerator.print(metric.compute())"
    ),
    "listed": ACCELERATE.format(
        batch="preds.append(accelerator.gather_for_metrics(pred))", rest="print(torch.cat(preds).sum())"
    ),
    # wrong
    "not_reduced": ddp(UNPADDED, "    return correct / total"),
    "padding_by_hand": ddp(PADDED, TENSOR),
    "padding_by_objects": ddp(PADDED, OBJECTS),
    "padding_by_helper": ddp(PADDED, "    return summed(correct) / summed(total)"),
    "padding_on_first_rank": ddp(PADDED, ON_FIRST),
    "reduced_twice": ddp(UNPADDED, REDUCED.replace("return correct", "return summed(correct)")),
    "gathered": ACCELERATE.format(batch=TOLD.format(gather="gather"), rest="accelerator.print(metric.compute())"),
    "padding_over_the_dataset": ddp(
        PADDED, "    t = torch.tensor(correct)\n    dist.all_reduce(t)\n    return t.item() / len(loader.dataset)"
    ),
    # not decided
    "shares_by_hand": ddp(BY_HAND, REDUCED),
    "counted_twice": ACCELERATE.replace("preds = []", "correct = total = 0").format(
        batch='pred, labels = accelerator.gather((pred, batch["labels"]))\n'
        "        correct += (pred == labels).sum().item()\n        total += len(labels)",
        rest="print(correct / total)",
    ),
    "beside": ddp(UNPADDED, BESIDE),
    "kept_elsewhere": ddp(UNPADDED, "    return correct / total", "keep(evaluate(None, val_loader))"),
}
RIGHT, WRONG = list(PROGRAMS)[:7], list(PROGRAMS)[7:15]


@pytest.fixture(scope="module")
def proofs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Proof]:
    folder = tmp_path_factory.mktemp("standing")
    for name, text in PROGRAMS.items():
        (folder / f"{name}.py").write_text(text)
    found = verify([], config=Config(folder, Options()), timeout=300).proofs
    return {proof.site.partition(".py")[0]: proof for proof in found}


@pytest.mark.parametrize("name", RIGHT)
def test_a_metric_that_is_that_of_one_process_is_told(proofs: dict[str, Proof], name: str) -> None:
    proof = proofs[name]
    assert proof.verdict == "proven"
    assert proof.reasons[-1].startswith("2 and 3 ranks get the metric of one process")


@pytest.mark.parametrize("name", WRONG)
def test_a_metric_that_is_not_is_refuted_with_its_values(proofs: dict[str, Proof], name: str) -> None:
    proof = proofs[name]
    assert (proof.verdict, proof.cause) == ("refuted", "other-metric")
    assert ", in one process " in proof.reasons[0]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("not_reduced", ": each rank has what its own part gives"),
        ("padding_by_hand", "(73 samples): 1 sample is read twice"),
    ],
)
def test_why_a_metric_differs_is_told_by_what_was_read(proofs: dict[str, Proof], name: str, why: str) -> None:
    assert proofs[name].reasons[0].endswith(why)


@pytest.mark.parametrize(
    ("name", "why"),
    [("beside", "`correct / total (2)` is right on rank 0"), ("kept_elsewhere", "it holds only if ")],
)
def test_one_ranks_part_beside_the_sum_or_out_of_sight_takes_nothing_from_the_loader(
    proofs: dict[str, Proof], name: str, why: str
) -> None:
    proof = proofs[name]
    assert proof.verdict == "proven"
    assert proof.reasons[-1].startswith("its metric is not proven: rank 0 of 2: `correct / total` is ")
    assert why in proof.reasons[-1]


def test_means_over_batches_are_left_open() -> None:
    same = Evaluation("", "")
    recipe = MetricRecipe("eval.py:1:1", same, same, weighted=("loss",), rows=True, stands=True)
    runs = [
        MetricRun("before", 1, False, 5, 2, (Measured(0, {"loss": 0.5}, ((0, 1), (2, 3), (4,))),)),
        MetricRun("after", 2, True, 5, 2, (Measured(0, {"loss": 0.4}, ((0, 2), (4,))), Measured(1, {}, ((1, 3),)))),
    ]
    proof = judge_standing(recipe, runs)
    assert proof.verdict == "unproven"
    assert proof.reasons == (
        "rank 0 of 2: `loss` is 0.4, in one process 0.5 (5 samples): each rank has what its own part gives;"
        " it may be a mean over batches, which weighs a ragged one like a full one",
    )


def test_ranks_that_make_other_numbers_of_steps_may_where_nothing_waits_in_the_loop(proofs: dict[str, Proof]) -> None:
    proof = proofs["shares_by_hand"]
    assert proof.verdict == "unproven"
    assert proof.reasons[0].endswith("; right while nothing in the loop waits for the other ranks, and none is seen to")
    assert proof.reasons[-1].startswith("2 and 3 ranks get the metric of one process")


def test_samples_that_are_counted_twice_leave_no_loader_proven(proofs: dict[str, Proof]) -> None:
    proof = proofs["counted_twice"]
    assert proof.verdict == "unproven"
    assert "samples are read twice" in proof.reasons[-1]


def test_what_is_reckoned_with_an_unknown_result_is_never_refuted() -> None:
    """Only what a function is given is known of its result, so two such quotients can't be compared."""
    same = Evaluation("", "")
    recipe = MetricRecipe("eval.py:1:1", same, same, rows=True, stands=True)

    def run(variant: Variant, world: int, number: int) -> MetricRun:
        quotient = {"called": "__truediv__", "given": [{"called": "total", "given": [number]}, 2]}
        score = {"called": "score", "given": [number]}
        ranks = tuple(Measured(r, {"mean": quotient, "score": score}, ((r,),)) for r in range(world))
        return MetricRun(variant, world, world > 1, 5, 2, ranks)

    proof = judge_standing(recipe, [run("before", 1, 3), run("after", 2, 3)])
    assert proof.verdict == "proven"
    proof = judge_standing(recipe, [run("before", 1, 3), run("after", 2, 4)])
    assert (proof.verdict, proof.reasons[0].partition(" (")[0]) == (
        "refuted",
        "rank 0 of 2: `score` is score(..), in one process score(..)",
    )
    only = [run("before", 1, 3), run("after", 2, 4)]
    for one in only:
        for rank in one.ranks:
            rank.values.pop("score")
    proof = judge_standing(recipe, only)
    assert (proof.verdict, proof.reasons) == ("unproven", ("what is made of `mean` is not run",))
