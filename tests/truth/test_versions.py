"""The beliefs on other releases: true from accelerate 0.30 on, and before that wrong in the ways that are written down.

With each Lightning, the loaders that it reads are watched and judged too. Packages are fetched, so this is a group of
its own: `.ci/run versions`, or `pytest -m versions`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from launches import fetched, install, once, told

from shardfix.proof.truth.cell import Cell, Outcome, compare, expected, release
from shardfix.proof.truth.check import CELLS, Checkup, check
from shardfix.proof.truth.hf_trainer import TRAINER

pytestmark = pytest.mark.versions

PROOF = Path(__file__).parents[1] / "proof"
FLOOR = "0.30.0"
NEWEST = "accelerate"  # without a version: what is published now
RELEASES = ("0.24.1", "0.29.3", FLOOR, "0.34.2", "1.0.1", "1.7.0", NEWEST)
# As one package, and as the older two in one; what else they need comes with torch and transformers.
LIGHTNING = (
    ("lightning", "lightning-utilities", "torchmetrics"),
    ("pytorch-lightning==2.5.0", "lightning-utilities", "torchmetrics"),
)
OLDER_TRAINER = (
    *("transformers==4.46.3", "tokenizers==0.20.3", "huggingface-hub==0.36.0", "accelerate==1.7.0"),
    *("requests", "urllib3", "idna", "certifi", "charset-normalizer"),
)

ON_ACCELERATE = tuple(cell for cell in CELLS if "accelerate" in cell.needs)
ON_LIGHTNING = tuple(cell for cell in CELLS if "lightning" in cell.needs)
# What a release before 0.30 does otherwise, by the cells that say so.
ALWAYS = ("accelerate/weighted", "accelerate/subset", "sampler/own-generator", "process/main-only-shuffled")
OTHERWISE = {
    "0.24.1": (
        *ALWAYS,
        "accelerate/shuffle",
        "accelerate/random",
        "accelerate/replacement",
        "sampler/generator-order",
    ),
    "0.29.3": (*ALWAYS, "accelerate/shuffle", "accelerate/random", "epoch/prepared"),
}


def on_accelerate(factory: pytest.TempPathFactory, version: str) -> Checkup:
    """Every cell that needs accelerate, on one release of it."""

    def run(folder: Path) -> Checkup:
        install(folder, version if version == NEWEST else f"accelerate=={version}")
        return check(only=ON_ACCELERATE, timeout=240, env={"PYTHONPATH": str(folder)})

    checkup = once(factory, f"accelerate-{version}", run)
    assert checkup.ended == ""
    assert version == NEWEST or checkup.versions["accelerate"] == version
    return checkup


def does_not_go_together(outcome: Outcome, version: str) -> bool:
    """Whether a release lacks what the program imports, or the installed transformers takes none that old."""
    if version == NEWEST:
        return False
    configured = "DataLoaderConfiguration" in outcome.cell.prelude and release(version) < (0, 28)
    return configured or ("transformers" in outcome.cell.needs and release(version) < (1, 1))


@pytest.mark.parametrize("version", RELEASES)
def test_each_release_of_accelerate_does_what_is_written_of_its_age(
    version: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    checkup = on_accelerate(tmp_path_factory, version)
    wrong = []
    for outcome in checkup.outcomes:
        if outcome.answer == "not-run" and does_not_go_together(outcome, version):
            continue
        if outcome.measured is None or compare(expected(outcome.cell, checkup.versions), outcome.measured):
            wrong.append(told(outcome))
    assert wrong == []


@pytest.mark.parametrize("version", [version for version in RELEASES if version not in OTHERWISE])
def test_every_belief_holds_from_the_floor_on(version: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    outcomes = on_accelerate(tmp_path_factory, version).outcomes
    unlike = [told(o) for o in outcomes if o.answer != "holds" and not does_not_go_together(o, version)]
    assert unlike == []


@pytest.mark.parametrize("version", OTHERWISE)
def test_below_the_floor_just_these_beliefs_do_not_hold(version: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    outcomes = on_accelerate(tmp_path_factory, version).outcomes
    assert sorted(o.cell.id for o in outcomes if o.answer == "differs") == sorted(OTHERWISE[version])
    assert [told(o) for o in outcomes if o.answer == "differs" and not o.known] == []


def all_hold(factory: pytest.TempPathFactory, packages: tuple[str, ...], cells: tuple[Cell, ...]) -> None:
    """Assert that cells hold with these packages first on the path."""
    checkup = check(only=cells, timeout=240, env={"PYTHONPATH": str(fetched(factory, *packages))})
    assert checkup.ended == ""
    assert [told(outcome) for outcome in checkup.outcomes if outcome.answer != "holds"] == []


@pytest.mark.parametrize("packages", LIGHTNING, ids=lambda packages: packages[0])
def test_lightning_and_fabric_do_what_is_believed_of_them(
    packages: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> None:
    all_hold(tmp_path_factory, packages, ON_LIGHTNING)


@pytest.mark.parametrize("packages", LIGHTNING, ids=lambda packages: packages[0])
def test_loaders_that_lightning_and_fabric_read_are_watched_and_judged(
    packages: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The tests that the others leave out where Lightning is not installed: all of them run here."""
    tests = [PROOF / "watching" / "test_watch_frameworks.py", PROOF / "test_catalogue.py"]
    chosen = ["-k", "(fabric or lightning or faulty or cause or right) and not transformers", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *chosen, *map(str, tests)],
        cwd=PROOF.parent.parent,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
            "PYTHONPATH": str(fetched(tmp_path_factory, *packages)),
            "SHARDFIX_CATALOGUE": "fabric",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout
    assert " 6 passed" in f" {done.stdout.splitlines()[-1]}", done.stdout
    assert "skipped" not in done.stdout


def test_an_older_trainer_does_what_is_believed_of_it(tmp_path_factory: pytest.TempPathFactory) -> None:
    all_hold(tmp_path_factory, OLDER_TRAINER, TRAINER)


@pytest.mark.parametrize("python", [path for path in os.environ.get("SHARDFIX_PYTHONS", "").split(os.pathsep) if path])
def test_every_belief_holds_with_the_interpreters_that_are_named(python: str) -> None:
    """SHARDFIX_PYTHONS: interpreters with another torch, which is too large to be fetched here."""
    checkup = check(python=python, timeout=240)
    assert checkup.ended == ""
    assert {o.cell.id for o in checkup.outcomes if o.answer == "holds"} >= {c.id for c in CELLS if not c.needs}
    assert [told(o) for o in checkup.outcomes if o.answer == "differs"] == []
