"""A condition counts as one process only where no second one can come through it."""

from __future__ import annotations

import ast

import pytest
from loaders import module, project

from shardfix.analysis.programs.processes import is_main_test, main_process_guard


@pytest.mark.parametrize(
    ("condition", "main"),
    [
        ("rank == 0", True),
        ("0 == rank", True),
        ("rank == 1", False),
        ("rank < 1", True),
        ("rank <= 0", True),
        ("rank < 4", False),
        ("rank <= 1", False),
        ("1 > rank", False),
        ("rank in [-1, 0]", True),
        ("rank in (0, 1)", False),
        ("rank == 0 and verbose", True),
        ("rank == 0 or everyone", False),
        ("local_rank == -1 or dist.get_rank() == 0", True),
        ("not distributed or rank % gpus == 0", True),
        ("is_main_process()", True),
    ],
)
def test_a_condition_is_of_the_main_process(condition: str, main: bool) -> None:
    assert is_main_test(ast.parse(condition, mode="eval").body) is main


@pytest.mark.parametrize(
    ("program", "guarded"),
    [
        ("master = rank == 0\nif master:\n    work()\n", True),
        ("master = rank == 0\nif everyone:\n    master = True\nif master:\n    work()\n", False),
        ("if rank == world_size - 1:\n    work()\n", True),
        ("if distributed:\n    raise ValueError\nwork()\n", True),
        ("if tuned and distributed:\n    raise ValueError\nwork()\n", False),
        ("if tuned and distributed:\n    pass\nelse:\n    work()\n", False),
        ("if not (tuned and distributed):\n    work()\n", False),
        (
            "def main_only(f):\n    def inner():\n        if rank == 0:\n            f()\n    return inner\n"
            "@main_only\ndef run():\n    work()\nrun()\n",
            True,
        ),
        (
            "def all_of(f):\n    def inner():\n        f()\n    return inner\n@all_of\ndef run():\n    work()\nrun()\n",
            False,
        ),
        ("import sys\nif rank != 0:\n    sys.exit()\nwork()\n", True),
        ("def run():\n    work()\nif rank == 0:\n    run()\n", True),
        ("def run():\n    work()\nspawn(run)\nif rank == 0:\n    run()\n", False),
        ("def run():\n    work()\nif rank == 0 and not run:\n    run()\n", True),
    ],
)
def test_work_is_left_to_one_rank(program: str, guarded: bool) -> None:
    found = module(program)
    (work,) = [c for c in found.calls if found.source.source(c) == "work()"]
    assert (main_process_guard(found, work) is not None) is guarded


def test_a_function_that_another_file_hands_on_is_left_to_more_than_its_callers() -> None:
    files = {
        "work.py": "def run(rank):\n    work()\n",
        "train.py": "from work import run\nif rank == 0:\n    run(0)\n",
    }
    found = project(files).modules["work.py"]
    (work,) = found.calls
    assert main_process_guard(found, work) is not None
    found = project({**files, "spawn.py": "import work\nspawn(work.run)\n"}).modules["work.py"]
    (work,) = found.calls
    assert main_process_guard(found, work) is None
