"""Exactly the project's own files are found, by git and by the walk alike, and what is left out is said."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from shardfix.sources.discover import Discovery, discover, project_root
from shardfix.sources.text import SourceError

OWN = ["src/a.py", "src/pkg/b.py", "third_party/vendored/h.py", "train.py"]
FOREIGN = [
    "env-gpu/pyvenv.cfg",
    "env-gpu/lib/python3.11/site-packages/lib/c.py",
    ".venv/lib/x.py",
    "build/lib/d.py",
    "node_modules/gyp/e.py",
    ".git/hooks/f.py",
    "outputs/run1/g.py",
    "__pycache__/i.py",
    ".ipynb_checkpoints/j.py",
]


def git(folder: Path, *args: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", *identity, *args], cwd=folder, check=True, capture_output=True)


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def names(found: Discovery, folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in found.files]


def skipped(found: Discovery, folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): reason for path, reason in found.skipped}


@pytest.fixture(params=["untracked", "committed", "no git"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    write(folder, *OWN, *FOREIGN)
    (folder / ".gitignore").write_text("build/\noutputs\n")
    (folder / "loop").symlink_to(folder, target_is_directory=True)
    if request.param != "no git":
        git(folder, "init", "-q")
    if request.param == "committed":
        git(folder, "add", "-f", *OWN, "env-gpu", ".venv", "loop")
        git(folder, "commit", "-qm", "all")
    return folder


def test_only_the_projects_own_files_are_found(tree: Path) -> None:
    found = discover([tree], root=tree)
    assert names(found, tree) == OWN
    assert skipped(found, tree) == {
        ".ipynb_checkpoints": "notebook checkpoints",
        ".venv": "virtual environment",
        "env-gpu": "virtual environment",
        "loop": "symbolic link to a folder: not followed",
        "node_modules": "installed packages",
    }
    assert found.notes == ()


def test_a_folder_lists_what_is_below_it(tree: Path) -> None:
    assert names(discover([tree / "src"], root=tree), tree) == ["src/a.py", "src/pkg/b.py"]


def test_a_named_file_is_always_taken(tree: Path) -> None:
    asked = [tree / "build/lib/d.py", tree / "env-gpu/lib/python3.11/site-packages/lib/c.py", tree / "train.py"]
    found = discover(asked, root=tree, exclude=["*.py"])
    assert list(found.files) == sorted(asked)
    assert found.skipped == ()


def test_a_named_folder_is_read_even_if_it_is_ignored(tree: Path) -> None:
    assert names(discover([tree / "outputs" / "run1"], root=tree), tree) == ["outputs/run1/g.py"]
    assert names(discover([tree / "env-gpu/lib"], root=tree), tree) == []
    found = discover([tree / "env-gpu/lib/python3.11/site-packages"], root=tree)
    assert names(found, tree) == ["env-gpu/lib/python3.11/site-packages/lib/c.py"]


def test_nothing_is_found_twice(tree: Path) -> None:
    assert names(discover([tree, tree / "src", tree / "train.py", tree / "loop"], root=tree), tree) == OWN


def test_excludes_are_patterns_from_the_root_and_are_said(tree: Path) -> None:
    found = discover(
        [tree / "src", tree / "third_party"], root=tree, exclude=["/third_party/vendored/", "src/pkg/*.py"]
    )
    assert names(found, tree) == ["src/a.py"]
    assert skipped(found, tree) == {
        "src/pkg/b.py": "excluded by configuration",
        "third_party/vendored": "excluded by configuration",
    }


def test_nested_ignore_files_decide_for_their_folder(tree: Path) -> None:
    (tree / ".gitignore").write_text("*.py\n")
    (tree / "src" / ".gitignore").write_text("!a.py\n")
    write(tree, "src/new.py", "src/pkg/a.py")
    git_knows = (tree / ".git" / "index").exists()
    expected = ["src/a.py", "src/pkg/a.py"]
    assert names(discover([tree], root=tree), tree) == (sorted({*OWN, *expected}) if git_knows else expected)
    if not git_knows:
        assert names(discover([tree / "src" / "pkg"], root=tree), tree) == ["src/pkg/a.py"]


def test_a_deleted_file_is_no_file(tree: Path) -> None:
    (tree / "train.py").unlink()
    assert names(discover([tree], root=tree), tree) == OWN[:-1]


def test_links_are_read_once_and_never_out_of_the_tree(tree: Path, tmp_path: Path) -> None:
    write(tmp_path, "elsewhere.py")
    write(tree, "bin/script")
    (tree / "out.py").symlink_to(tmp_path / "elsewhere.py")
    (tree / "also.py").symlink_to("train.py")
    (tree / "script.py").symlink_to("bin/script")
    (tree / "broken.py").symlink_to("nowhere.py")
    found = discover([tree], root=tree)
    assert names(found, tree) == sorted([*OWN, "script.py"])
    said = skipped(found, tree)
    assert said["out.py"] == f"symbolic link out of the tree, to {tmp_path / 'elsewhere.py'}"
    assert said["also.py"] == f"symbolic link to {tree / 'train.py'}, which is read by its own name"
    assert said["broken.py"] == "symbolic link to a file that is not there"
    assert names(discover([tree / "out.py"], root=tree), tree) == ["out.py"]


def test_a_folder_that_became_a_link_is_not_followed(tree: Path, tmp_path: Path) -> None:
    (tree / "src").rename(tmp_path / "moved")
    (tree / "src").symlink_to(tmp_path / "moved")
    found = discover([tree], root=tree)
    assert names(found, tree) == ["third_party/vendored/h.py", "train.py"]
    assert skipped(found, tree)["src"] == "symbolic link to a folder: not followed"


def test_a_notebook_with_loaders_is_counted(tree: Path) -> None:
    (tree / "train.ipynb").write_text('{"cells": ["DataLoader(ds)"]}')
    (tree / "plot.ipynb").write_text("{}")
    (tree / "stub.pyi").touch()
    found = discover([tree], root=tree)
    assert names(found, tree) == OWN
    assert (
        skipped(found, tree)["train.ipynb"] == "a notebook: `jupyter nbconvert --to script` makes a file that is read"
    )
    assert "plot.ipynb" not in skipped(found, tree)


def test_what_a_template_engine_fills_in_is_told_and_not_read(tree: Path) -> None:
    (tree / "{{cookiecutter.name}}").mkdir()
    (tree / "{{cookiecutter.name}}" / "train.py").touch()
    (tree / "run_{{name}}.py").touch()
    (tree / "{%if a%}x{%endif%}.py").touch()
    (tree / "{name}.py").touch()
    found = discover([tree], root=tree)
    assert names(found, tree) == sorted([*OWN, "{name}.py"])
    said = {name: reason for name, reason in skipped(found, tree).items() if "{" in name}
    assert said == dict.fromkeys(("run_{{name}}.py", "{%if a%}x{%endif%}.py", "{{cookiecutter.name}}"), "a template")


def test_odd_names_are_found(tree: Path) -> None:
    odd = [b"\xff.py", b"new\nline.py", b'quo"te.py', "zwölf [1].py".encode()]
    for name in odd:
        with open(os.path.join(os.fsencode(tree), name), "wb"):
            pass
    found = discover([tree], root=tree)
    assert {os.fsencode(path.name) for path in found.files} > set(odd)


def test_repositories_inside_are_said_and_not_entered(tmp_path: Path) -> None:
    library = tmp_path / "library"
    write(library, "lib.py")
    git(library, "init", "-q")
    git(library, "add", ".")
    git(library, "commit", "-qm", "lib")
    outer = tmp_path / "outer"
    write(outer, "train.py", "nested/n.py")
    git(outer, "init", "-q")
    git(outer / "nested", "init", "-q")
    git(outer, "submodule", "--quiet", "add", os.fspath(library), "external")
    found = discover([outer], root=outer)
    assert names(found, outer) == ["train.py"]
    reason = "submodule or repository of its own: name it to have it read"
    assert skipped(found, outer) == {"external": reason, "nested": reason}
    assert names(discover([outer / "external"], root=outer), outer) == ["external/lib.py"]


def test_a_file_in_conflict_is_found_once(tmp_path: Path) -> None:
    write(tmp_path, "a.py")
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "0")
    for branch, text in (("one", "1"), ("two", "2")):
        git(tmp_path, "checkout", "-q", "-b", branch, "main")
        (tmp_path / "a.py").write_text(text)
        git(tmp_path, "commit", "-qam", branch)
    with pytest.raises(subprocess.CalledProcessError):
        git(tmp_path, "merge", "one")
    assert names(discover([tmp_path], root=tmp_path), tmp_path) == ["a.py"]


def test_a_path_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as caught:
        discover([tmp_path / "nope"], root=tmp_path)
    assert str(caught.value) == f"{tmp_path / 'nope'}: no such file or folder; correct the path"


def test_without_a_git_program_the_walk_reads_and_says_so(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.fspath(tree / "src"))
    found = discover([tree], root=tree)
    assert names(found, tree) == OWN
    note = f"read without git, by .gitignore files alone: {tree}: git is not installed; install git or put it on PATH"
    assert found.notes == (note,)


def test_the_project_root_is_the_nearest_marker(tmp_path: Path) -> None:
    write(tmp_path, "repo/pkg/pyproject.toml", "repo/pkg/src/a.py", "repo/other/b.py")
    (tmp_path / "repo" / ".git").mkdir()
    assert project_root(tmp_path / "repo/pkg/src/a.py") == tmp_path / "repo/pkg"
    assert project_root(tmp_path / "repo/other") == tmp_path / "repo"


def test_a_folder_without_markers_is_its_own_root(tmp_path: Path) -> None:
    write(tmp_path, "a.py")
    assert project_root(tmp_path / "a.py") == project_root(tmp_path) == tmp_path
