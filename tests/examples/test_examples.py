"""Each example shows its fault in two processes, is migrated and proven, and then reads everything once an epoch."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def said(folder: Path, *arguments: str, ranks: int) -> list[dict[str, Any]]:
    """The lines that the ranks of the folder's program print as JSON."""
    output = printed(folder, *arguments, ranks=ranks)
    # Wherever in a line: the newline of one rank may come behind what another one says.
    starts = [match.start() for match in re.finditer(r'\{"rank"', output)]
    return [json.JSONDecoder().raw_decode(output, start)[0] for start in starts]


def printed(folder: Path, *arguments: str, ranks: int) -> str:
    """What the ranks of the folder's program print; one rank is started without a launcher."""
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"] if ranks > 1 else []
    env = {name: value for name, value in os.environ.items() if name not in LAUNCHER}
    process = subprocess.Popen(
        [sys.executable, *launcher, str(RUNNER), "train.py", *arguments],
        cwd=folder,
        env={**env, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
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
    return output


def run(folder: Path, *, ranks: int) -> Readings:
    """What each rank of the folder's program reads."""
    readings: Readings = {}
    for line in said(folder, ranks=ranks):
        of_ranks = readings.setdefault((line["epoch"], line["phase"]), {})
        assert line["rank"] not in of_ranks
        of_ranks[line["rank"]] = line["indices"]
    return readings


def epochs_of(readings: Readings, phase: str) -> list[dict[int, list[int]]]:
    return [of_ranks for (_, its_phase), of_ranks in sorted(readings.items()) if its_phase == phase]


def visits(of_ranks: dict[int, list[int]]) -> Counter[int]:
    return Counter(index for indices in of_ranks.values() for index in indices)


def once(indices: list[int]) -> Counter[int]:
    return Counter(dict.fromkeys(indices, 1))


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=60).stdout


def migrate(folder: Path) -> dict[str, Any]:
    """Migrate the folder and give the report."""
    command = [str(Path(sysconfig.get_path("scripts")) / "shardfix"), "migrate", "--format", "json", "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def proven(report: dict[str, Any]) -> list[tuple[str, str]]:
    """The first code of each change that was written, and the verdict on it."""
    return [(change["codes"][0], change["proof"]) for change in report["changes"] if change["state"] == "written"]


@pytest.fixture
def copy_of(tmp_path: Path) -> Callable[[str], Path]:
    """Copies an example into a git repository of its own."""

    def copy(name: str) -> Path:
        folder = tmp_path / name
        shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns("__pycache__"))
        git(folder, "init", "--quiet")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "--message", "as it was")
        return folder

    return copy


def assert_second_run_changes_nothing(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "migrated")
    again = migrate(folder)
    assert (again["changes"], again["written"]) == ([], False)
    assert git(folder, "status", "--porcelain") == ""


def assert_one_process_reads_everything_once(folder: Path) -> None:
    readings = run(folder, ranks=1)
    assert [visits(of_ranks) for of_ranks in epochs_of(readings, "train")] == [once(TRAIN)] * EPOCHS
    assert all(of_ranks == {0: EVAL} for of_ranks in epochs_of(readings, "eval"))


def assert_each_rank_trains_on_its_half(readings: Readings) -> None:
    """Nothing missed, nothing read twice, equal shares, and an order of its own for every epoch."""
    train = epochs_of(readings, "train")
    assert [visits(of_ranks) for of_ranks in train] == [once(TRAIN)] * EPOCHS
    assert [[len(of_ranks[rank]) for rank in (0, 1)] for of_ranks in train] == [[32, 32]] * EPOCHS
    assert len({tuple(of_ranks[0]) for of_ranks in train}) == EPOCHS


@pytest.mark.parametrize("name", NAMES)
def test_the_original_reads_everything_once_an_epoch_in_one_process(name: str) -> None:
    assert_one_process_reads_everything_once(EXAMPLES / name)


def test_a_distributed_sampler_that_is_prepared_reads_half_of_the_data(copy_of: Callable[[str], Path]) -> None:
    folder = copy_of("accelerate_double_sharded")
    train = epochs_of(run(folder, ranks=2), "train")
    assert [sorted(visits(of_ranks).values()) for of_ranks in train] == [[1] * 32] * EPOCHS
    assert [[len(of_ranks[rank]) for rank in (0, 1)] for of_ranks in train] == [[16, 16]] * EPOCHS

    assert proven(migrate(folder)) == [("SHD201", "proven"), ("SHD101", "proven")]

    readings = run(folder, ranks=2)
    assert_each_rank_trains_on_its_half(readings)
    # Two batches of eight on each rank: 21 samples and 11 of padding, which gather_for_metrics drops.
    for of_ranks in epochs_of(readings, "eval"):
        assert sorted(visits(of_ranks)) == EVAL
        assert [len(of_ranks[rank]) for rank in (0, 1)] == [16, 16]
    assert_one_process_reads_everything_once(folder)
    assert_second_run_changes_nothing(folder)


def test_a_sampler_that_is_not_told_the_epoch_repeats_its_order(copy_of: Callable[[str], Path]) -> None:
    folder = copy_of("bert_style")
    first, *later = epochs_of(run(folder, ranks=2), "train")
    assert visits(first) == once(TRAIN)
    assert later == [first] * (EPOCHS - 1)

    assert proven(migrate(folder)) == [("SHD401", "proven")]

    readings = run(folder, ranks=2)
    assert_each_rank_trains_on_its_half(readings)
    assert epochs_of(readings, "eval") == [{0: EVAL}]
    assert_one_process_reads_everything_once(folder)
    assert_second_run_changes_nothing(folder)


def test_an_evaluation_without_sampler_reads_everything_on_each_rank(copy_of: Callable[[str], Path]) -> None:
    folder = copy_of("ddp_unsharded_eval")
    readings = run(folder, ranks=2)
    assert_each_rank_trains_on_its_half(readings)
    assert epochs_of(readings, "eval") == [{0: EVAL, 1: EVAL}] * EPOCHS

    assert proven(migrate(folder)) == [("SHD302", "proven")]

    readings = run(folder, ranks=2)
    assert_each_rank_trains_on_its_half(readings)
    # 21 samples on two ranks: the first is read a second time, as padding.
    assert epochs_of(readings, "eval") == [{0: EVAL[::2], 1: [*EVAL[1::2], 0]}] * EPOCHS
    assert_one_process_reads_everything_once(folder)
    assert_second_run_changes_nothing(folder)


def test_a_trainer_override_with_a_plain_loader_reads_everything_on_each_rank(copy_of: Callable[[str], Path]) -> None:
    folder = copy_of("trainer_override")
    train = epochs_of(run(folder, ranks=2), "train")
    assert len(train) == EPOCHS
    assert [of_ranks[0] for of_ranks in train] == [of_ranks[1] for of_ranks in train]
    assert [sorted(of_ranks[0]) for of_ranks in train] == [TRAIN] * EPOCHS

    assert proven(migrate(folder)) == [("SHD304", "proven")]

    assert_each_rank_trains_on_its_half(run(folder, ranks=2))
    assert_one_process_reads_everything_once(folder)
    assert_second_run_changes_nothing(folder)


METRIC_RUN = ("--epochs", "1", "--train-samples", "16", "--val-samples", "21", "--batch-size", "4")


def test_an_evaluation_that_nothing_reduces_is_shared_out_and_keeps_its_metric(copy_of: Callable[[str], Path]) -> None:
    folder = copy_of("ddp_metric_eval")
    alone = metrics_of(folder, ranks=1)
    assert len(alone) == 1
    of_two = metrics_of(folder, ranks=2)
    assert batches_of(folder) == {0: 6, 1: 6}

    assert proven(migrate(folder)) == [("SHD305", "proven")]

    assert batches_of(folder) == {0: 3, 1: 3}
    shared = metrics_of(folder, ranks=2)
    assert shared[0] == shared[1]
    assert shared[0].pop("loss") == pytest.approx(of_two[0].pop("loss"))
    assert shared[0] == of_two[0]
    assert metrics_of(folder, ranks=1) == alone
    assert_second_run_changes_nothing(folder)


def metrics_of(folder: Path, *, ranks: int) -> dict[int, dict[str, Any]]:
    """What each rank says of the last epoch, but for the time it took."""
    lines = said(folder, *METRIC_RUN, ranks=ranks)
    return {line["rank"]: {k: v for k, v in line.items() if k not in ("rank", "seconds")} for line in lines}


def batches_of(folder: Path) -> dict[int, int]:
    """How many batches each of two ranks evaluates."""
    found = re.findall(r"rank (\d) evaluates (\d+) batches", printed(folder, *METRIC_RUN, ranks=2))
    return {int(rank): int(batches) for rank, batches in found}


def test_the_change_that_a_readme_shows_is_the_one_that_is_made(copy_of: Callable[[str], Path]) -> None:
    folder = copy_of("ddp_metric_eval")
    command = [str(Path(sysconfig.get_path("scripts")) / "shardfix"), "migrate", "--diff", "--no-verify", "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    (diff,) = (part for part in done.stdout.split("diff --git ") if part.startswith("a/train.py "))
    made = [line for line in diff.splitlines() if line[:1] in "+-"]
    shown = (folder / "README.md").read_text().split("```diff\n")[1].split("```")[0]
    assert [line for line in shown.splitlines() if line[:1] in "+-"] == [
        line for line in made if line[:3] not in ("+++", "---")
    ]
