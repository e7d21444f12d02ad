"""`shardfix doctor` as a user runs it: what it exits with, and what it says where it can't run."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path

from command_line import shardfix

# A release that shards nothing: `prepare()` gives back what it gets.
SHARDS_NOTHING = {
    "__init__.py": """\
__version__ = "99.0"
from . import state


class Accelerator:
    num_processes, process_index, is_main_process = 1, 0, True

    def prepare(self, *loaders):
        return loaders if len(loaders) > 1 else loaders[0]
""",
    "state.py": """\
class PartialState:
    @classmethod
    def _reset_state(cls):
        pass


AcceleratorState = GradientState = PartialState
""",
}


def test_a_library_that_does_otherwise_is_told_with_what_rests_on_it(tmp_path: Path) -> None:
    package = tmp_path / "packages" / "accelerate"
    package.mkdir(parents=True)
    for name, text in SHARDS_NOTHING.items():
        (package / name).write_text(text)
    done = shardfix("doctor", "--format", "json", cwd=tmp_path, env={"PYTHONPATH": str(package.parent)})
    assert done.returncode == 1, done.stderr.decode()
    found = json.loads(done.stdout)
    assert found["versions"]["accelerate"] == "99.0"
    cells = {cell["id"]: cell for cell in found["cells"]}
    assert cells["plain/default"]["answer"] == "holds"
    assert cells["accelerate/default"]["answer"] == "differs"
    assert cells["accelerate/default"]["measured"]["visits"] == [21, 21]
    assert cells["accelerate/default"]["decides"] == ["SHD101", "SHD201"]
    assert cells["accelerate/distributed"]["differences"] == [
        "samples read by each rank: 11, 11, not 8, 8",
        "samples read by several ranks: 1, not 0",
        "samples read by any rank: 21, not 14",
    ]
    assert found["ended"] == ""


def test_an_interpreter_without_torch_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    python = tmp_path / "bare" / "bin" / "python"
    done = shardfix("doctor", "--python", str(python), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, b"")
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith(f"shardfix: error: {python} can't import torch: ModuleNotFoundError")
    assert "install it there (python -m pip install torch) or name another interpreter with --python" in line


def test_an_interpreter_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    done = shardfix("doctor", "--python", str(tmp_path / "none"), cwd=tmp_path)
    assert done.returncode == 2
    assert b"name an interpreter with --python" in done.stderr


def test_a_run_that_is_cut_short_is_an_error_and_leaves_a_page(tmp_path: Path) -> None:
    done = shardfix("doctor", "--timeout", "1", "--python", sys.executable, cwd=tmp_path)
    assert done.returncode == 2
    assert b" could not be run\n" in done.stdout
    assert b" 0 differ" in done.stdout
    assert done.stdout.splitlines()[-1].startswith(b"The run did not come to its end: the run was stopped after 1 s")


def test_only_the_ranks_import_what_is_asked() -> None:
    program = (
        "import sys, shardfix.cli.doctor, shardfix.proof.truth.check, shardfix.report.doctor\n"
        "import shardfix.report.catalogue\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=180, check=True)
    loaded = set(done.stdout.split())
    assert "shardfix" in loaded
    assert loaded.isdisjoint({"torch", "accelerate", "transformers", "lightning", "numpy", "libcst", "rich"})
