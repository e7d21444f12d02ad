"""One seed draws the same loaders, each with what is claimed of it."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("draw_sites.py")


def drawn(seed: int, *projects: Path) -> list[dict[str, str]]:
    command = [sys.executable, SCRIPT, "--seed", str(seed), "--count", "5", *projects]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return list(csv.DictReader(done.stdout.splitlines(), delimiter="\t"))


def test_a_seed_draws_the_same_loaders_and_another_seed_others(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pyproject.toml").write_text("")
        lines = [f"loader_{i} = DataLoader(range({i}))\n" for i in range(20)]
        (tmp_path / name / "train.py").write_text("from torch.utils.data import DataLoader\n\n" + "".join(lines))
    projects = (tmp_path / "one", tmp_path / "two")

    first = drawn(1, *projects)

    assert len(first) == 5
    assert first == drawn(1, *reversed(projects))
    assert first != drawn(2, *projects)
    assert {row["owner"] for row in first} == {"single"}
    assert all(row["project"] in ("one", "two") and row["path"] == "train.py" and row["true"] == "" for row in first)
