"""Run the truth table, and fetch packages, once for all tests of a run, in whichever of pytest-xdist's processes."""

from __future__ import annotations

import fcntl
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from shardfix.proof.truth.cell import Outcome

Result = TypeVar("Result")


def once(factory: pytest.TempPathFactory, name: str, run: Callable[[Path], Result]) -> Result:
    """What ``run`` gives; only the first of the processes that ask for ``name`` calls it, with a folder of its own."""
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent  # of all processes of this run
    with open(root / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = root / f"{name}.pickle"
        if kept.exists():
            found: Result = pickle.loads(kept.read_bytes())
            return found
        folder = root / f"{name}-packages"
        folder.mkdir(exist_ok=True)
        result = run(folder)
        kept.write_bytes(pickle.dumps(result))
        return result


def fetched(factory: pytest.TempPathFactory, *packages: str) -> Path:
    """A folder with these packages, fetched once for all tests of a run."""

    def run(folder: Path) -> Path:
        install(folder, *packages)
        return folder

    return once(factory, packages[0], run)


def install(folder: Path, *packages: str) -> None:
    """Put packages, without what they depend on, into a folder. Raises CalledProcessError if that can't be done."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--target", str(folder), *packages], check=True, timeout=300)


def told(outcome: Outcome) -> str:
    """What a failing test shows."""
    return f"{outcome.cell.belief}: {outcome.answer}: {'; '.join(outcome.differences)}"
