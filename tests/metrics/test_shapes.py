"""Evaluations of many shapes are migrated, and give on every rank of 1, 2 and 3 the metric of one process."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from shape_ranks import CASES, WORLDS
from shapes import SHAPES, Shape

from shardfix.config import Asked, load
from shardfix.engine import migrate

Case = tuple[int, int]
BY_NAME = {shape.name: shape for shape in SHAPES}


@dataclass(frozen=True)
class Shapes:
    """The migrated texts by name, and by (world, rank) what each program gave in each case."""

    after: dict[str, str]
    results: dict[tuple[int, int], dict[tuple[str, str], dict[Case, dict[str, Any]]]]

    def of(self, name: str, variant: str, world: int, case: Case) -> list[dict[str, Any]]:
        """What the ranks gave."""
        number = str(list(BY_NAME).index(name))
        ranks = [self.results[world, rank].get((number, variant)) for rank in range(max(world, 1))]
        return [rank[case] if rank else {"error": "not run, since an earlier one failed"} for rank in ranks]

    def alone(self, name: str, case: Case) -> dict[str, Any]:
        """What the original gives in one process; in a group of one where it needs a group."""
        (without,), (grouped,) = self.of(name, "before", 0, case), self.of(name, "before", 1, case)
        found = without if not without["error"] else grouped
        assert found["error"] == ""
        return found


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Shapes:
    folder = tmp_path_factory.mktemp("shapes")
    after: dict[str, str] = {}
    for number, (name, shape) in enumerate(BY_NAME.items()):
        before, migrated = folder / str(number) / "before", folder / str(number) / "after"
        for place in (before, migrated):
            place.mkdir(parents=True)
            (place / "train.py").write_text(shape.before)
        config = load(migrated, Asked(unsafe=shape.unsafe, sanitizer="off"))
        migrate([migrated], config=config, write=True, allow_no_vcs=True, verify="no")
        after[name] = (migrated / "train.py").read_text()
    program = [sys.executable, str(Path(__file__).with_name("shape_ranks.py")), str(folder)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=540, check=False)
    assert done.returncode == 0, done.stderr
    files = [(world, rank) for world in WORLDS for rank in range(max(world, 1))]
    results = {(w, r): pickle.loads((folder / f"{w}-{r}.pickle").read_bytes()) for w, r in files}
    return Shapes(after, results)


def judged(shape: Shape, world: int) -> list[Case]:
    """The cases in which the metric must be that of one process: means over batches are so where all are full."""
    return [c for c in CASES if shape.exact == "all" or world < 2 or c[0] % (world * c[1]) == 0]


def close(value: Any) -> Any:
    """A value to compare with: fractions but for the rounding of float32, all else exactly."""
    if isinstance(value, float):
        return pytest.approx(value, rel=1e-5, abs=1e-6, nan_ok=True)
    if isinstance(value, list):
        return [close(item) for item in value]
    return {key: close(item) for key, item in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize("name", BY_NAME)
def test_the_lines_behind_the_loop_are_added(shapes: Shapes, name: str) -> None:
    lines = [line.strip() for line in shapes.after[name].splitlines()]
    places = [lines.index(line) for line in BY_NAME[name].adds]
    assert places == sorted(places)
    assert "unpadded(" in shapes.after[name]


@pytest.mark.parametrize("name", BY_NAME)
def test_one_process_gives_what_it_gave(shapes: Shapes, name: str) -> None:
    for case in CASES:
        for world in (0, 1):
            (before,), (after,) = shapes.of(name, "before", world, case), shapes.of(name, "after", world, case)
            if not before["error"]:
                assert after["error"] == ""
                assert (after["value"], after["read"]) == (before["value"], before["read"])


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("name", BY_NAME)
def test_every_rank_gives_the_metric_of_one_process(shapes: Shapes, name: str, world: int) -> None:
    for case in CASES:
        ranks = shapes.of(name, "after", world, case)
        assert [rank["error"] for rank in ranks] == [""] * world
        alone = shapes.alone(name, case)
        assert sorted(index for rank in ranks for index in rank["read"]) == sorted(alone["read"])
        for rank in ranks:
            assert rank["value"] == ranks[0]["value"]
            if case in judged(BY_NAME[name], world):
                assert rank["value"] == close(alone["value"]), case


@pytest.mark.parametrize("name", BY_NAME)
def test_the_original_does_all_work_on_each_of_two_ranks_or_gives_a_part(shapes: Shapes, name: str) -> None:
    case = (13, 3)
    ranks, alone = shapes.of(name, "before", 2, case), shapes.alone(name, case)
    assert [rank["error"] for rank in ranks] == ["", ""]
    if BY_NAME[name].sharded:
        assert any(rank["value"] != close(alone["value"]) for rank in ranks)
    else:
        assert [(rank["value"], rank["read"]) for rank in ranks] == [(alone["value"], alone["read"])] * 2
