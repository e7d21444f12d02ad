"""Judging a run: with what the source says of its loaders, and with what one process read of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardfix.proof.observed import Built, Ending, Item, Observed, Pass, Reader, Watched
from shardfix.watching import FACTORY, judge_watched

EVALUATION = """\
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from shardfix import sanitize

dist.init_process_group("nccl")
loader = DataLoader(data, 2, sampler=DistributedSampler(data, shuffle=False))
loader = sanitize(loader)
model.eval()
correct = torch.zeros(1)
with torch.no_grad():
    for images, labels in loader:
        correct += (model(images) == labels).sum()
print(correct)
"""
ENDED = tuple(Ending(rank, "returned") for rank in (0, 1))


def reader(rank: int, *items: Item, **said: object) -> Reader:
    """One pass over a loader of batches of two."""
    steps = tuple(tuple(items[at : at + 2]) for at in range(0, len(items), 2))
    return Reader(rank, Built(batch_size=2, **said), (Pass(steps, True),))  # type: ignore[arg-type]


def stream(rank: int, *items: Item) -> Reader:
    return reader(rank, *items, kind="stream")


def run(*readers: Reader, loader: str = "train.py:8") -> Watched:
    return Watched(2, (Observed(loader, 2, readers),), ENDED)


def alone(one: Reader, loader: str = "train.py:8") -> Watched:
    return Watched(1, (Observed(loader, 1, (one,)),), ENDED[:1])


SHARED = run(stream(0, "a", "c"), stream(1, "b", "d"))
AGAIN = "shardfix verify --control --run train.py"


def test_a_stream_is_proven_by_what_one_process_read() -> None:
    (without,) = judge_watched(SHARED, again=AGAIN)
    assert (without.verdict, without.stronger) == ("unproven", AGAIN)
    (proof,) = judge_watched(SHARED, None, alone(stream(0, "a", "b", "c", "d")), again=AGAIN)
    assert (proof.verdict, proof.reasons, proof.stronger) == (
        "proven",
        ("2 ranks read every one of 4 items once",),
        "",
    )


def test_an_item_that_only_one_process_read_refutes_the_ranks() -> None:
    eight = run(stream(0, *"aceg"), stream(1, *"bdfh"))
    (proof,) = judge_watched(eight, None, alone(stream(0, *"abcdefghi")))
    assert (proof.verdict, proof.cause) == ("refuted", "missing")


def test_items_that_differ_from_run_to_run_prove_nothing() -> None:
    (proof,) = judge_watched(SHARED, None, alone(stream(0, "w", "x", "y", "z")), again=AGAIN)
    assert (proof.verdict, proof.stronger) == ("unproven", "")
    assert "they differ from run to run" in proof.reasons[0]


def test_a_control_that_never_made_the_loader_leaves_it_to_its_factory() -> None:
    (proof,) = judge_watched(SHARED, None, alone(stream(0, "a"), "train.py:99"), again=AGAIN)
    assert (proof.verdict, proof.stronger) == ("unproven", FACTORY)


def test_a_line_that_makes_more_loaders_in_one_process_is_not_compared() -> None:
    control = alone(stream(0, "a", "b", "c", "d"))
    other = Observed("train.py:8#2", 1, (stream(0, "w"),))
    both = Watched(1, (*control.loaders, other), control.endings)
    (proof,) = judge_watched(SHARED, None, both, again=AGAIN)
    assert (proof.verdict, proof.stronger) == ("unproven", FACTORY)


def test_a_pass_that_was_cut_needs_no_control() -> None:
    cut = tuple(Reader(one.rank, one.built, (Pass(one.passes[0].batches, False),)) for one in SHARED.loaders[0].readers)
    (proof,) = judge_watched(run(*cut), again=AGAIN)
    assert (proof.verdict, proof.stronger) == ("unproven", FACTORY)


def test_the_source_answers_what_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "train.py").write_text(EVALUATION)
    monkeypatch.chdir(tmp_path)
    said = {"samples": 4, "subset": 4, "draws": 4, "sampler": "DistributedSampler", "shuffled": False, "manual": True}
    even = run(reader(0, 0, 2, shard=(2, 0), **said), reader(1, 1, 3, shard=(2, 1), **said))

    def answers(watched: Watched, script: Path | None) -> dict[str, str]:
        (proof,) = judge_watched(watched, script)
        return {check.question: check.answer for check in proof.checklist}

    seen = answers(even, Path("train.py"))
    assert (seen["sanitizer"], seen["counted once"]) == ("yes", "no")  # nothing puts the metric together
    unaided = answers(even, None)
    assert (unaided["sanitizer"], unaided["counted once"]) == ("unknown", "yes")
    both = run(reader(0, 0, 1, 2, 3, **said), reader(1, 0, 1, 2, 3, **said))
    assert answers(both, Path("train.py"))["counted once"] == "no"
