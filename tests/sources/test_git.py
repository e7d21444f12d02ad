"""Git is asked without the repository getting to run anything, and says what a rewrite would lose."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shardfix.sources.discover import discover
from shardfix.sources.git import git, git_dir, git_env, inside_git, is_tracked_dirty, repository, untracked
from shardfix.sources.text import SourceError


def run(folder: Path, *args: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", *identity, *args], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    for name in ("a.py", "b.py", "c.py"):
        (folder / name).write_text("x = 1\n")
    run(folder, "init", "-q")
    run(folder, "add", ".")
    run(folder, "commit", "-qm", "first")
    return folder


def trap(folder: Path, arm: Callable[[str], None]) -> Path:
    """Let ``arm`` set a command that leaves a mark, and give back where the mark would be."""
    mark = folder.parent / "executed"
    script = folder.parent / "evil.sh"
    script.write_text(f"#!/bin/sh\ntouch '{mark}'\n")
    script.chmod(0o755)
    arm(os.fspath(script))
    return mark


def monitor(folder: Path) -> Callable[[str], None]:
    return lambda script: run(folder, "config", "core.fsmonitor", script)


def hooks(folder: Path) -> Callable[[str], None]:
    def arm(script: str) -> None:
        (folder.parent / "hooks").mkdir()
        for name in ("post-index-change", "pre-commit", "post-commit", "prepare-commit-msg", "commit-msg"):
            (folder.parent / "hooks" / name).symlink_to(script)
        run(folder, "config", "core.hooksPath", os.fspath(folder.parent / "hooks"))

    return arm


def content_filter(folder: Path, kind: str) -> Callable[[str], None]:
    def arm(script: str) -> None:
        (folder / ".gitattributes").write_text("*.py filter=e.v-il\n")
        run(folder, "config", f"filter.e.v-il.{kind}", script)

    return arm


ARMS: dict[str, Callable[[Path], Callable[[str], None]]] = {
    "fsmonitor": monitor,
    "hooks": hooks,
    "clean filter": lambda folder: content_filter(folder, "clean"),
    "process filter": lambda folder: content_filter(folder, "process"),
}


@pytest.mark.parametrize("kind", ARMS)
def test_a_hostile_config_runs_nothing(repo: Path, kind: str) -> None:
    mark = trap(repo, ARMS[kind](repo))
    (repo / "a.py").write_text("x = 2\n")  # as long as before, so that git has to read it
    files = [repo / "a.py", repo / "b.py"]
    assert is_tracked_dirty(repo, files) == {repo / "a.py"}
    assert inside_git(repo)
    assert untracked(repo, files) == set()
    assert repo / "a.py" in discover([repo], root=repo).files
    git(["add", "a.py"], repo)
    git(["-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "second"], repo)
    assert not mark.exists()

    (repo / "b.py").write_text("x = 3\n")  # the trap is a real one
    subprocess.run(["git", "status"], cwd=repo, capture_output=True)
    subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@e.org", "commit", "-qam", "-"], cwd=repo)
    assert mark.exists()


def test_hooks_run_where_they_are_asked_for(repo: Path) -> None:
    mark = trap(repo, hooks(repo))
    git(["-c", "user.name=t", "-c", "user.email=t@e.org", "commit", "--allow-empty", "-qm", "-"], repo, hooks=True)
    assert mark.exists()


def test_a_filter_that_cannot_be_turned_off_is_refused(repo: Path) -> None:
    mark = trap(repo, lambda script: run(repo, "config", "filter.a=b.clean", script))
    (repo / ".gitattributes").write_text("*.py filter=a=b\n")
    (repo / "a.py").write_text("x = 2\n")
    with pytest.raises(SourceError, match="configures a filter named 'a=b', which git would run; look at"):
        is_tracked_dirty(repo, [repo / "a.py"])
    assert not mark.exists()


def test_no_transport_is_allowed_unless_asked_for(repo: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="transport 'file' not allowed"):
        git(["clone", "-q", os.fspath(repo), os.fspath(tmp_path / "clone")], tmp_path)
    git(["clone", "-q", os.fspath(repo), os.fspath(tmp_path / "clone")], tmp_path, network=True)
    assert (tmp_path / "clone" / "a.py").exists()


def test_the_callers_environment_points_git_nowhere_else(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", os.fspath(tmp_path / "other"))
    monkeypatch.setenv("GIT_INDEX_FILE", os.fspath(tmp_path / "index"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "me")
    (repo / "a.py").write_text("x = 2\n")
    assert is_tracked_dirty(repo, [repo / "a.py", repo / "b.py"]) == {repo / "a.py"}
    assert git_env()["GIT_AUTHOR_NAME"] == "me"
    assert "GIT_CONFIG_COUNT" not in git_env()


def test_what_differs_from_the_last_commit_is_dirty(repo: Path) -> None:
    (repo / "a.py").write_text("x = 2\n")
    (repo / "b.py").write_text("x = 2\n")
    run(repo, "add", "b.py")
    (repo / "new.py").touch()
    (repo / "added.py").touch()
    run(repo, "add", "added.py")
    names = ["a.py", "b.py", "c.py", "new.py", "added.py"]
    assert is_tracked_dirty(repo, [Path(name) for name in names]) == {Path("a.py"), Path("b.py"), Path("added.py")}
    assert untracked(repo, [Path(name) for name in names]) == {Path("new.py")}
    assert is_tracked_dirty(repo, [repo / "c.py"]) == set()


def test_a_name_is_no_pattern(repo: Path) -> None:
    odd = [":(top)a.py", "[ab].py"]
    for name in odd:
        (repo / name).touch()
    (repo / "a.py").write_text("x = 2\n")
    assert untracked(repo, [Path(name) for name in odd]) == {Path(name) for name in odd}
    run(repo, "--literal-pathspecs", "add", *odd)
    assert is_tracked_dirty(repo, [Path(name) for name in odd]) == {Path(name) for name in odd}
    assert untracked(repo, [Path(name) for name in odd]) == set()


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_what_git_was_told_not_to_look_at_is_dirty(repo: Path, flag: str) -> None:
    run(repo, "update-index", flag, "a.py")
    (repo / "a.py").write_text("x = 2\n")
    assert is_tracked_dirty(repo, [repo / "a.py", repo / "b.py"]) == {repo / "a.py"}


def test_line_ends_that_git_converts_are_not_dirt(repo: Path) -> None:
    run(repo, "config", "core.autocrlf", "true")
    (repo / "a.py").unlink()
    run(repo, "checkout", "a.py")
    assert (repo / "a.py").read_bytes() == b"x = 1\r\n"
    assert is_tracked_dirty(repo, [repo / "a.py"]) == set()


def test_files_of_many_repositories_can_be_asked_about_at_once(repo: Path, tmp_path: Path) -> None:
    inner = repo / "inner"
    inner.mkdir()
    run(inner, "init", "-q")
    (inner / "d.py").touch()
    run(inner, "add", "d.py")
    (tmp_path / "free.py").touch()
    (tmp_path / "link").symlink_to(repo)
    (repo / "a.py").write_text("x = 2\n")
    files = [tmp_path / "link" / "a.py", inner / "d.py", tmp_path / "free.py"]
    assert is_tracked_dirty(tmp_path, files) == {tmp_path / "link" / "a.py", inner / "d.py"}
    assert untracked(tmp_path, files) == {tmp_path / "free.py"}


def test_inside_and_outside_of_git(repo: Path, tmp_path: Path) -> None:
    assert inside_git(repo / "a.py")
    assert inside_git(repo)
    assert not inside_git(tmp_path)
    assert not inside_git(repo / ".git")


def test_a_worktree_has_its_own_data_folder(repo: Path, tmp_path: Path) -> None:
    run(repo, "worktree", "add", "-q", os.fspath(tmp_path / "tree"))
    assert repository(tmp_path / "tree" / "a.py") == tmp_path / "tree"
    assert git_dir(tmp_path / "tree") == repo / ".git" / "worktrees" / "tree"
    assert git_dir(repo / "a.py") == repo / ".git"
    assert git_dir(tmp_path) is None
    assert inside_git(tmp_path / "tree")


def test_a_failure_is_told_in_one_line(repo: Path) -> None:
    with pytest.raises(SourceError) as caught:
        git(["rev-parse", "--verify", "nothing"], repo)
    said = f"{repo}: git rev-parse failed: Needed a single revision; try `git rev-parse` there by hand"
    assert str(caught.value) == said


def test_imports_stay_light() -> None:
    code = (
        "import sys, shardfix.sources.discover, shardfix.sources.prefilter, shardfix.sources.write;"
        "heavy = {'pathspec', 'subprocess', 'json', 'shutil', 'tempfile', 'hashlib', 'libcst'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
