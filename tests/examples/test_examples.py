"""Each example shows its fault when it runs in two processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ("accelerate_double_sharded", "bert_style", "ddp_unsharded_eval", "trainer_override")
RUNNER = Path(__file__).with_name("run_program.py")
EPOCHS = 3
TRAIN = list(range(64))
EVAL = list(range(21))

# Set by a launcher; an outer one must not leak into the programs that are started here.
LAUNCHER = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")

# (epoch, phase) -> rank -> the samples that the rank read, in its order.
Readings = dict[tuple[int, str], dict[int, list[int]]]


def run(folder: Path, *, ranks: int) -> Readings:
    """What each rank of the folder's program reads; one rank is started without a launcher."""
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"] if ranks > 1 else []
    env = {name: value for name, value in os.environ.items() if name not in LAUNCHER}
    process = subprocess.Popen(
        [sys.executable, *launcher, str(RUNNER), "train.py"],
        cwd=folder,
        env={**env, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        output, errors = process.communicate(timeout=180)
    except subprocess.TimeoutExpired:
        # The launcher ends its ranks when it is asked to, not when it is killed.
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=60)
        pytest.fail(f"{folder.name} hangs with {ranks} rank(s)\n{output}\n{errors}")
    assert process.returncode == 0, f"{folder.name} fails with {ranks} rank(s)\n{output}\n{errors}"

    readings: Readings = {}
    for line in output.splitlines():
        if line.startswith('{"rank"'):
            said = json.loads(line)
            of_ranks = readings.setdefault((said["epoch"], said["phase"]), {})
            assert said["rank"] not in of_ranks
            of_ranks[said["rank"]] = said["indices"]
    return readings


def epochs_of(readings: Readings, phase: str) -> list[dict[int, list[int]]]:
    return [of_ranks for (_, its_phase), of_ranks in sorted(readings.items()) if its_phase == phase]


def visits(of_ranks: dict[int, list[int]]) -> Counter[int]:
    return Counter(index for indices in of_ranks.values() for index in indices)


def once(indices: list[int]) -> Counter[int]:
    return Counter(dict.fromkeys(indices, 1))


def test_a_distributed_sampler_that_is_prepared_reads_half_of_the_data() -> None:
    readings = run(EXAMPLES / "accelerate_double_sharded", ranks=2)
    train = epochs_of(readings, "train")
    assert [sorted(visits(of_ranks).values()) for of_ranks in train] == [[1] * 32] * EPOCHS
    assert [{rank: len(indices) for rank, indices in of_ranks.items()} for of_ranks in train] == [
        {0: 16, 1: 16}
    ] * EPOCHS


def test_a_sampler_that_is_not_told_the_epoch_repeats_its_order() -> None:
    readings = run(EXAMPLES / "bert_style", ranks=2)
    first, *later = epochs_of(readings, "train")
    assert visits(first) == once(TRAIN)
    assert later == [first] * (EPOCHS - 1)


def test_an_evaluation_without_sampler_reads_everything_on_each_rank() -> None:
    readings = run(EXAMPLES / "ddp_unsharded_eval", ranks=2)
    assert [visits(of_ranks) for of_ranks in epochs_of(readings, "train")] == [once(TRAIN)] * EPOCHS
    assert epochs_of(readings, "eval") == [{0: EVAL, 1: EVAL}] * EPOCHS


def test_a_trainer_override_that_returns_a_plain_loader_reads_everything_on_each_rank() -> None:
    readings = run(EXAMPLES / "trainer_override", ranks=2)
    train = epochs_of(readings, "train")
    assert len(train) == EPOCHS
    assert [of_ranks[0] for of_ranks in train] == [of_ranks[1] for of_ranks in train]
    assert [sorted(of_ranks[0]) for of_ranks in train] == [TRAIN] * EPOCHS


@pytest.mark.parametrize("name", NAMES)
def test_one_process_reads_everything_once_an_epoch(name: str) -> None:
    readings = run(EXAMPLES / name, ranks=1)
    assert [visits(of_ranks) for of_ranks in epochs_of(readings, "train")] == [once(TRAIN)] * EPOCHS
    assert all(of_ranks == {0: EVAL} for of_ranks in epochs_of(readings, "eval"))
