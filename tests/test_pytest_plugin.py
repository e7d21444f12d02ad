"""The guard for a project's own tests: one line proves a loader, and a failure shows cause, indices and map."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

DATA = """\
from torch.utils.data import DataLoader, random_split
from torch.utils.data.distributed import DistributedSampler

numbers = list(range(10))
train, held_out = random_split(numbers, [8, 2])  # when it is imported: by each process in its own way


def whole(batch_size=2):
    return DataLoader(numbers, batch_size=batch_size, sampler=DistributedSampler(numbers))


def split():
    return DataLoader(train, sampler=DistributedSampler(train))
"""
TESTS = """\
import pytest
import torch
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from shardfix.pytest_plugin import assert_sharded

numbers = list(range(10))


def make(batch_size=2, sharded=True):
    return DataLoader(numbers, batch_size=batch_size, sampler=DistributedSampler(numbers) if sharded else None)


@pytest.fixture
def dataset():
    return list(range(12))


def test_right_function():
    proof = assert_sharded(make, batch_size=3)
    assert (proof.verdict, proof.site) == ("proven", "make")


def test_right_closure(dataset):
    assert_sharded(lambda: DataLoader(dataset, sampler=DistributedSampler(dataset)), world_size=3)


def test_right_by_name():
    assert_sharded("data:whole", 5)


@pytest.mark.sharded
def test_right_marked(dataset):
    return DataLoader(dataset, sampler=DistributedSampler(dataset))


@pytest.mark.sharded(padding="none")
@pytest.mark.parametrize("size", [12, 24])
def test_right_marked_and_parametrised(size):
    return DataLoader(range(size), sampler=DistributedSampler(range(size)))


@pytest.mark.sharded(world_size=4)
def test_right_fixture(sharded):
    assert sharded(make).verdict == "proven"


def test_wrong_function():
    assert_sharded(make, sharded=False)  # the line that is to blame


def test_wrong_by_name():
    assert_sharded("data:split")


@pytest.mark.sharded
def test_wrong_marked():
    return DataLoader(numbers)


def test_wrong_padding():
    assert_sharded(make, padding="none")


def test_wrong_not_a_loader():
    assert_sharded(lambda: 3)


class TestRight:
    @pytest.mark.sharded
    def test_right_method(self, dataset):
        return DataLoader(dataset, sampler=DistributedSampler(dataset))


def test_right_nothing_of_the_ranks_is_left_here():
    import torch.distributed as dist

    assert not dist.is_initialized()
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        make()
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    root = tmp_path_factory.mktemp("project")
    (root / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    (root / "data.py").write_text(DATA)
    (root / "tests").mkdir()
    (root / "tests" / "test_loaders.py").write_text(TESTS)
    drawn = f"--sharding-pictures={root / 'pictures'}"
    return pytest_in(root, "tests", "-v", "-n", "2", "-W", "error", "--strict-markers", drawn)


def pytest_in(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "120", "PYTHONDONTWRITEBYTECODE": "1"},
    )


def test_right_loaders_pass_and_wrong_ones_fail(run: subprocess.CompletedProcess[str]) -> None:
    ended = [line.split() for line in run.stdout.splitlines() if " PASSED " in line or " FAILED " in line]
    outcomes = {words[-1].partition("::")[2]: words[-2] for words in ended}
    assert len(outcomes) == 14, run.stdout
    assert {name: outcome for name, outcome in outcomes.items() if "right" in name and outcome != "PASSED"} == {}
    assert {name: outcome for name, outcome in outcomes.items() if "wrong" in name and outcome != "FAILED"} == {}


def test_a_failure_shows_the_users_line_the_cause_and_the_map(run: subprocess.CompletedProcess[str]) -> None:
    block = failure(run.stdout, "test_wrong_function")
    assert ">       assert_sharded(make, sharded=False)  # the line that is to blame" in block
    assert "AssertionError: make is refuted: unsharded" in block
    assert "2 ranks: every rank reads all 10 samples" in block
    assert "to do: give it a DistributedSampler" in block
    assert "rank 0 | 0 1 2 3 4 5 6 7 8 9" in block
    assert "rank 1 | 0 1 2 3 4 5 6 7 8 9" in block
    assert "pytest_plugin.py" not in block


def test_a_marked_test_fails_with_its_place_and_no_frames(run: subprocess.CompletedProcess[str]) -> None:
    block = failure(run.stdout, "test_wrong_marked")
    assert "tests/test_loaders.py:57: test_wrong_marked is refuted: unsharded" in block
    assert "pytest_plugin.py" not in block
    assert "raceback" not in block


def test_a_module_named_by_a_string_is_imported_by_each_process(run: subprocess.CompletedProcess[str]) -> None:
    assert "data:split is refuted: per-rank-subset" in failure(run.stdout, "test_wrong_by_name")


def test_padding_and_what_is_no_loader_fail_with_words(run: subprocess.CompletedProcess[str]) -> None:
    assert "3 ranks: 2 visits of an epoch are padding" in failure(run.stdout, "test_wrong_padding")
    assert "it returns something of type int: no loader to read" in failure(run.stdout, "test_wrong_not_a_loader")


def test_what_fails_is_drawn_where_the_session_is_asked_to(run: subprocess.CompletedProcess[str]) -> None:
    folder = Path(run.args[-1].partition("=")[2])  # the option is the last argument
    function, marked = "tests_test_loaders.py_test_wrong_function.svg", "tests_test_loaders.py_test_wrong_marked.svg"
    assert f"picture: {folder / function}" in failure(run.stdout, "test_wrong_function")
    assert f"picture: {folder / marked}" in failure(run.stdout, "test_wrong_marked")
    assert ">make</text>" in (folder / function).read_text()
    assert not [path.name for path in folder.iterdir() if "wrong" not in path.name]
    assert "picture" not in failure(run.stdout, "test_wrong_not_a_loader")


def failure(text: str, name: str) -> str:
    """The part of pytest's report that tells of one test."""
    heads = [part for part in text.split("\n_____") if f" {name} " in part.splitlines()[0]]
    assert len(heads) == 1, text
    return heads[0].partition("\n====")[0]


def test_pytest_starts_without_torch() -> None:
    program = "import sys, shardfix.pytest_plugin; print({'torch', 'libcst', 'rich', 'click'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_the_options_are_checked() -> None:
    from shardfix.pytest_plugin import assert_sharded

    with pytest.raises(ValueError, match="world_size is 1; it takes two processes or more"):
        assert_sharded(list, world_size=1)
    with pytest.raises(ValueError, match='padding is \'no\'; it must be "allowed" or "none"'):
        assert_sharded(list, padding="no")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="there is no module nowhere in "):
        assert_sharded("nowhere:make")


def test_the_example_in_the_readme_runs(tmp_path: Path) -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
    (example,) = (block for block in readme.split("```python\n") if "def test_evaluation" in block)
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "data.py").write_text(
        "from torch.utils.data import DataLoader\n"
        "from torch.utils.data.distributed import DistributedSampler\n"
        "\n"
        "numbers = list(range(40))\n"
        "\n"
        "\n"
        "def train_loader(batch_size):\n"
        "    return DataLoader(numbers, batch_size=batch_size, sampler=DistributedSampler(numbers))\n"
        "\n"
        "\n"
        "def eval_loader():\n"
        "    return DataLoader(numbers, batch_size=5, sampler=DistributedSampler(numbers, shuffle=False))\n"
    )
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_sharding.py").write_text(example.partition("```")[0])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout.splitlines()[-1][:8]) == (0, "2 passed"), done.stdout
