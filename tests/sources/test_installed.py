"""Which release an environment holds is read from its metadata: of the project's own, or of the one that is named."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

from shardfix.sources.installed import Installed, installed


def environment(folder: Path, version: str = "", name: str = "accelerate") -> Path:
    """A virtual environment with a release's metadata, as pip writes it; the path of its interpreter."""
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    if version:
        metadata = packages / f"{name}-{version}.dist-info" / "METADATA"
        metadata.parent.mkdir()
        metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\n")
    return folder / "bin" / "python"


def test_the_environment_in_the_project_is_its_own(tmp_path: Path) -> None:
    environment(tmp_path / ".venv", "0.29.3")
    found = installed("accelerate", tmp_path)
    assert found is not None
    assert (found.version, found.line) == ("0.29.3", 3)
    assert found.path.read_text().splitlines()[found.line - 1] == "Version: 0.29.3"


def test_the_interpreter_that_is_named_counts_instead(tmp_path: Path) -> None:
    environment(tmp_path / "project" / ".venv", "0.29.3")
    python = environment(tmp_path / "other", "1.2.0")
    found = installed("accelerate", tmp_path / "project", str(python))
    assert found is not None
    assert found.version == "1.2.0"


def test_what_is_read_is_what_the_interpreter_would_say(tmp_path: Path) -> None:
    python = environment(tmp_path / ".venv", "0.28.0")
    question = "import importlib.metadata as m; print(m.version('accelerate'))"
    said = subprocess.run([python, "-c", question], capture_output=True, text=True, timeout=60, check=True).stdout
    found = installed("accelerate", tmp_path, str(python))
    assert found is not None
    assert found.version == said.strip()


def test_nothing_is_seen_where_there_is_nothing_of_the_project(tmp_path: Path) -> None:
    assert installed("accelerate", tmp_path) is None  # though the one that runs this has an accelerate
    assert installed("accelerate", tmp_path, str(tmp_path / "no" / "python")) is None
    environment(tmp_path / ".venv")
    assert installed("accelerate", tmp_path) is None
    (tmp_path / "env").mkdir()  # a folder of that name which is no environment
    assert installed("accelerate", tmp_path) is None


def test_another_library_whose_name_begins_so_is_another_one(tmp_path: Path) -> None:
    environment(tmp_path / ".venv", "0.1.0", name="accelerate_extras")
    assert installed("accelerate", tmp_path) is None


def test_environments_that_disagree_show_nothing(tmp_path: Path) -> None:
    environment(tmp_path / ".venv", "0.29.3")
    environment(tmp_path / "venv", "1.2.0")
    assert installed("accelerate", tmp_path) is None


def test_this_interpreter_holds_the_accelerate_that_it_imports() -> None:
    from importlib.metadata import version

    found = installed("accelerate", Path("/"), sys.executable)
    assert isinstance(found, Installed)
    assert found.version == version("accelerate")


def test_what_the_description_says_is_no_version(tmp_path: Path) -> None:
    environment(tmp_path / ".venv", "0.29.3")
    (metadata,) = (tmp_path / ".venv").glob("lib/python*/site-packages/*.dist-info/METADATA")
    metadata.write_text("Metadata-Version: 2.1\nName: accelerate\n\nVersion: 9\n")
    assert installed("accelerate", tmp_path) is None
