"""What is read of a project beside its Python files, and which files are not read at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardfix import engine
from shardfix.config import load
from shardfix.reading import old_accelerate

PREPARED = (
    "from accelerate import Accelerator\n"
    "from torch.utils.data import DataLoader\n"
    "\n"
    "accelerator = Accelerator()\n"
    "loader = accelerator.prepare(DataLoader(list(range(8)), batch_size=2, shuffle={shuffle}))\n"
    "for batch in loader:\n"
    "    pass\n"
)


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("requirements.txt", "accelerate==0.27.2"),
        ("requirements-dev.txt", "accelerate~=0.29.0"),
        ("pyproject.toml", 'dependencies = ["torch"]\n  "accelerate<0.30",'),
        ("environment.yml", "      - accelerate==0.24.1"),
        ("requirements.txt", "accelerate[testing]<=0.29"),
    ],
)
def test_a_requirement_below_the_floor_is_found(tmp_path: Path, file: str, line: str) -> None:
    (tmp_path / file).write_text(line + "\n")
    found = old_accelerate(tmp_path)
    assert found is not None
    assert found.location.path == file
    assert "accelerate" in found.text


@pytest.mark.parametrize(
    "line",
    [
        "accelerate==0.30.0",
        "accelerate>=0.20",
        "accelerate",
        "accelerate==1.15.0",
        "my-accelerate==0.1",
        "# accelerate==0.2",
    ],
)
def test_any_other_requirement_is_none(tmp_path: Path, line: str) -> None:
    (tmp_path / "requirements.txt").write_text(line + "\n")
    assert old_accelerate(tmp_path) is None


@pytest.mark.parametrize(("shuffle", "verdict"), [("True", "refused"), ("False", "right")])
def test_only_a_shuffled_loader_is_in_danger_of_an_old_accelerate(tmp_path: Path, shuffle: str, verdict: str) -> None:
    (tmp_path / "requirements.txt").write_text("accelerate==0.27.2\n")
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "train.py").write_text(PREPARED.format(shuffle=shuffle))
    (site,) = engine.scan([tmp_path], config=load(tmp_path)).sites
    assert site.verdict == verdict
    assert [f.code for f in site.findings] == (["SHD709"] if verdict == "refused" else [])


def test_the_check_that_migrate_put_there_is_no_site(tmp_path: Path) -> None:
    source = Path(engine.__file__).with_name("sanitizer.py").read_text("utf-8")
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "shardfix_sanitizer.py").write_text(source)
    assert engine.scan([tmp_path], config=load(tmp_path)).sites == ()


def test_a_class_derived_from_dataloader_is_found_where_only_its_own_name_stands(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "loaders.py").write_text(
        "from torch.utils.data import DataLoader\n\n\nclass Endless(DataLoader):\n    pass\n"
    )
    (tmp_path / "train.py").write_text("from loaders import Endless\n\nstream = Endless(list(range(8)))\n")
    (site,) = engine.scan([tmp_path], config=load(tmp_path)).sites
    assert str(site.location) == "train.py:3:10"
    assert site.sampler == "Endless (its own)"
