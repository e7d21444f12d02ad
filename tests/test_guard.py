"""`migrate --guard`: a test file that passes after the migration, fails without it, and is never overwritten."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shardfix import engine
from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Options
from shardfix.config import Asked, load
from shardfix.guard import PATH, Guard, plan_guard

DATA = """\
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

numbers = list(range(24))


def train_loader(batch_size=4):
    return DataLoader(numbers, batch_size=batch_size, shuffle=True)
"""
TRAIN = """\
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from data import train_loader


def main():
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loader = train_loader()
    for epoch in range(3):
        for batch in loader:
            model(batch.float()[:, None]).mean().backward()
            optimizer.step()


if __name__ == "__main__":
    main()
"""
CONTENT = '''\
"""Every process must read its own share of the data exactly once: proven for these loaders on each test run.

Written by `shardfix migrate --guard`, yours to keep and to change. Each function below is called in two and three
processes on the CPU and in one; what its loaders draw is read by index, so no sample is fetched and no model is needed.
It needs shardfix where the tests run (python -m pip install "shardfix[verify]").
"""

from shardfix.pytest_plugin import assert_sharded


def test_data_train_loader() -> None:
    assert_sharded("data:train_loader", role="train")
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "data.py").write_text(DATA)
    (tmp_path / "train.py").write_text(TRAIN)
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
        identity = ["-c", "user.name=x", "-c", "user.email=x@x"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True)
    return tmp_path


def shardfix(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "shardfix", "migrate", "--guard", "--no-verify", "--allow-dirty", *arguments],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "NO_COLOR": "1"},
    )


def run_tests(project: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", PATH],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1"},
    )


def test_the_guard_is_green_after_the_migration_and_red_without_it(project: Path) -> None:
    pytest.importorskip("torch")
    done = shardfix(project)
    assert done.returncode == 0, done.stderr
    assert (project / PATH).read_text() == CONTENT
    assert "guard: tests/test_sharding.py checks data:train_loader" in done.stdout
    assert "guard: it needs shardfix where the tests run: add shardfix[verify]" in done.stdout
    passed = run_tests(project)
    assert (passed.returncode, passed.stdout.splitlines()[-1][:8]) == (0, "1 passed"), passed.stdout
    subprocess.run(["git", "checkout", "-q", "data.py"], cwd=project, check=True)
    failed = run_tests(project)
    assert failed.returncode == 1
    assert '>       assert_sharded("data:train_loader", role="train")' in failed.stdout or (
        '>   assert_sharded("data:train_loader", role="train")' in failed.stdout
    )
    assert "data:train_loader is refuted: unsharded" in failed.stdout


def test_a_second_run_changes_nothing(project: Path) -> None:
    shardfix(project)
    before = {path: path.read_bytes() for path in project.rglob("*.py")}
    done = shardfix(project)
    assert "guard: tests/test_sharding.py stands as it is" in done.stdout
    assert "Nothing to change." in done.stdout
    assert {path: path.read_bytes() for path in project.rglob("*.py")} == before


def test_it_is_planned_and_shown_before_it_is_written(project: Path) -> None:
    done = shardfix(project, "--diff")
    assert done.returncode == 1
    assert "+++ b/tests/test_sharding.py" in done.stdout
    assert '+    assert_sharded("data:train_loader", role="train")' in done.stdout
    assert not (project / "tests").exists()
    applied = subprocess.run(["git", "apply"], cwd=project, input=done.stdout, text=True, check=True)
    assert applied.returncode == 0
    assert (project / PATH).read_text() == CONTENT


def test_without_the_option_no_test_is_added(project: Path) -> None:
    result = engine.migrate([project], config=load(project, Asked()), write=False, verify="no")
    assert PATH not in {file.path for file in result.files}
    assert result.guard == ()


def test_a_file_of_that_name_is_never_overwritten(project: Path) -> None:
    (project / "tests").mkdir()
    (project / PATH).write_text("def test_mine(): pass\n")
    done = shardfix(project)
    assert done.returncode == 0
    assert (project / PATH).read_text() == "def test_mine(): pass\n"
    assert (
        "guard: tests/test_sharding.py exists and is never overwritten; "
        'add to it: assert_sharded("data:train_loader", role="train")' in done.stdout
    )


# --- which functions ---

RIGHT = "DataLoader(numbers, sampler=DistributedSampler(numbers, shuffle=False))"
HEAD = "from torch.utils.data import DataLoader\nfrom torch.utils.data.distributed import DistributedSampler\n"
USE = """\
import torch
import torch.distributed as dist
from {module} import {name}


def main():
    dist.init_process_group("gloo")
    for epoch in range(3):
        for batch in {call}:
            pass


if __name__ == "__main__":
    main()
"""


def guard_of(files: dict[str, str], standing: str | None = None) -> Guard:
    modules = {path: parse(path, text) for path, text in files.items()}
    return plan_guard(link(modules), Options(), frozenset(files), standing)


def of_data(text: str, call: str = "make()", path: str = "data.py", name: str = "make") -> Guard:
    module = path.removesuffix(".py").replace("/", ".")
    use = USE.format(module=module, name=name, call=call)
    folders = {f"{folder}/__init__.py": "" for folder in [path.rpartition("/")[0]] if folder and "__init__" not in text}
    return guard_of({path: f"{HEAD}numbers = list(range(9))\n\n\n{text}", "train.py": use, **folders})


def targets(guard: Guard) -> list[str]:
    return [test.target for test in guard.tests]


def reasons(guard: Guard) -> list[str]:
    return [why for _, why in guard.unguarded]


def test_functions_that_return_a_loader_alone_or_with_other_things() -> None:
    assert targets(of_data(f"def make(size=3):\n    return {RIGHT}\n")) == ["data:make"]
    named = f"def make():\n    loader = {RIGHT}\n    return loader, 3\n"
    assert targets(of_data(named, call="make()[0]")) == ["data:make"]
    in_a_dict = f"def make(*, size=2):\n    loader = {RIGHT}\n    return {{'train': loader}}\n"
    assert targets(of_data(in_a_dict, call="make()['train']")) == ["data:make"]


def test_a_function_that_calls_the_one_with_arguments() -> None:
    text = f"def build(numbers):\n    return {RIGHT}\n\n\ndef make():\n    return build(numbers)\n"
    assert targets(of_data(text)) == ["data:make"]


def test_a_module_of_a_package_is_named_by_its_path() -> None:
    assert targets(of_data(f"def make():\n    return {RIGHT}\n", path="pkg/data.py")) == ["pkg.data:make"]


def test_a_loader_that_is_prepared_elsewhere_is_prepared_in_the_test() -> None:
    data = "from torch.utils.data import DataLoader\n\n\ndef make():\n    return DataLoader([1, 2])\n"
    train = (
        "from accelerate import Accelerator\n"
        "from data import make\n"
        "\n"
        "\n"
        "def main():\n"
        "    loader = Accelerator().prepare(make())\n"
        "    for batch in loader:\n"
        "        pass\n"
    )
    [test] = guard_of({"data.py": data, "train.py": train}).tests
    assert test.assertion == 'assert_sharded("data:make", owner="accelerate")'


def test_a_loader_that_its_function_prepares_is_taken_as_it_is() -> None:
    data = (
        "from accelerate import Accelerator\n"
        "from torch.utils.data import DataLoader\n"
        "\n"
        "\n"
        "def make():\n"
        "    loader = Accelerator().prepare(DataLoader([1, 2]))\n"
        "    return loader\n"
    )
    train = "from data import make\n\n\ndef main():\n    for batch in make():\n        pass\n"
    [test] = guard_of({"data.py": data, "train.py": train}).tests
    assert test.assertion == 'assert_sharded("data:make")'


@pytest.mark.parametrize(
    ("text", "call", "why"),
    [
        (f"def make(rank):\n    return {RIGHT}\n", "make(0)", "make() needs rank"),
        (f"def make(*, rank):\n    return {RIGHT}\n", "make(rank=0)", "make() needs rank"),
        (f"make = {RIGHT}\n", "make", "it is made where its module runs, not in a function"),
        (f"def make():\n    for batch in {RIGHT}:\n        yield batch\n", "make()", "make() does not return it"),
        (
            f"for number in numbers:\n    print(number)\n\n\ndef make():\n    return {RIGHT}\n",
            "make()",
            "importing data runs its line 6",
        ),
    ],
)
def test_a_loader_without_such_a_function_is_named_with_the_reason(text: str, call: str, why: str) -> None:
    guard = of_data(text, call)
    assert (targets(guard), reasons(guard)) == ([], [why])
    assert guard.content == ""
    assert guard.lines[0] == "guard: no loader that is sharded is built by a function without arguments"


def test_a_file_that_is_not_imported_from_the_root_has_no_function_to_name() -> None:
    use = USE.format(module="data", name="make", call="make()")
    text = f"{HEAD}numbers = [1, 2]\n\n\ndef make():\n    return {RIGHT}\n"
    guard = guard_of({"scripts/data.py": text, "scripts/train.py": use})
    assert reasons(guard) == ["scripts/data.py can't be imported from the project's root"]


def test_a_loader_that_is_not_settled_is_not_guarded() -> None:
    guard = of_data("def make(numbers=numbers):\n    return DataLoader(numbers, batch_sampler=other(numbers))\n")
    assert targets(guard) == []
