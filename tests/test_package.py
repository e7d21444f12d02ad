"""What is installed: the wheel holds the whole project, and importing it stays light."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Packages that cost a tenth of a second or more, or that a user need not have.
HEAVY = ("accelerate", "libcst", "numpy", "pathspec", "rich", "torch", "transformers")


def files_below(folder: Path) -> dict[str, bytes]:
    """The folder's files that belong to the project, by relative posix path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")
    }


def modules_loaded_by(*command: str) -> set[str]:
    """Top-level names of everything that a Python command imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *command], capture_output=True, text=True, timeout=120, check=True
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    assert lines
    return {line.rsplit("|", 1)[1].strip().split(".")[0] for line in lines}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this tree, built in a copy so that no build folder is left behind."""
    tree = tmp_path_factory.mktemp("tree")
    for name in ("src", "codemods"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree / name)
    build = "from setuptools import build_meta; build_meta.build_wheel('dist')"
    subprocess.run([sys.executable, "-c", build], cwd=tree, check=True, capture_output=True, timeout=120)
    (built,) = (tree / "dist").glob("*.whl")
    return built


def test_wheel_holds_every_file_of_the_project(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name: archive.read(name) for name in archive.namelist() if name.startswith("shardfix/")}
    tree = wheel.parents[1]
    expected = {f"shardfix/{name}": text for name, text in files_below(tree / "src/shardfix").items()}
    expected |= {f"shardfix/codemods/{name}": text for name, text in files_below(tree / "codemods").items()}
    assert sorted(held) == sorted(expected)
    assert [name for name, text in held.items() if text != expected[name]] == []
    assert {"shardfix/py.typed", "shardfix/codemods/__init__.py"} <= held.keys()


def test_wheel_holds_the_licence_the_command_and_the_pytest_plugin(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (licence,) = (name for name in archive.namelist() if name.endswith("/licenses/LICENSE"))
        (entry_points,) = (name for name in archive.namelist() if name.endswith("/entry_points.txt"))
        assert archive.read(licence) == (ROOT / "LICENSE").read_bytes()
        assert archive.read(entry_points).decode() == (
            "[console_scripts]\nshardfix = shardfix.cli:main\n\n[pytest11]\nshardfix = shardfix.pytest_plugin\n"
        )


def test_installed_codemods_are_importable_under_the_package(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    program = "import shardfix.codemods as found; print(found.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True
    )
    assert Path(done.stdout.strip()) == tmp_path / "shardfix" / "codemods" / "__init__.py"


def test_importing_shardfix_loads_nothing_heavy() -> None:
    assert modules_loaded_by("-c", "import shardfix").isdisjoint(HEAVY)


def test_asking_the_command_for_help_loads_nothing_heavy() -> None:
    script = Path(sysconfig.get_path("scripts")) / "shardfix"
    loaded = modules_loaded_by(str(script), "--help")
    assert "click" in loaded
    assert loaded.isdisjoint(HEAVY)
