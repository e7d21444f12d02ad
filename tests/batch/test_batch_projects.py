"""Which folders a batch takes, and what each is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardfix.batch.projects import Project, ProjectsError, find, slugs


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        pytest.param(["/a/one", "/a/two"], ["one", "two"], id="the last part is enough"),
        pytest.param(["/a/x", "/b/x", "/b/y"], ["a-x", "b-x", "y"], id="only those grow that need to"),
        pytest.param(["/a/b/x", "/c/b/x", "/b/x"], ["a-b-x", "c-b-x", "b-x"], id="one is the end of the others"),
        pytest.param(["/a/b/x", "/c/x", "/a/b-x"], ["a-b-x", "c-x", "a-b-x-2"], id="a hyphen is not a folder"),
        pytest.param(["/a/X", "/b/x"], ["a-X", "b-x"], id="case does not tell apart"),
        pytest.param(["/a/my repo!", "/a/.hidden"], ["my-repo", "hidden"], id="fit for a file name"),
        pytest.param(["/a b", "/a-b", "/a-b-2"], ["a-b", "a-b-3", "a-b-2"], id="alike in every part: numbered"),
        pytest.param(["/", "/日本"], ["project", "project-2"], id="nothing left of the name"),
    ],
)
def test_name_is_the_shortest_slug_that_no_other_has(paths: list[str], names: list[str]) -> None:
    assert slugs([Path(path) for path in paths]) == names


def test_folders_globs_and_lists_are_taken_once_in_their_order(tmp_path: Path) -> None:
    for name in ("b/two", "b/one", "c"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "b/file.txt").write_text("")
    found = find(
        [str(tmp_path / "c"), str(tmp_path / "b/*"), str(tmp_path / "b/one/../one")],
        [("list", ["# more", "", f"  {tmp_path}/gone ", str(tmp_path / "c")])],
    )
    assert found == (
        Project(tmp_path / "c", "c"),
        Project(tmp_path / "b/one", "one"),
        Project(tmp_path / "b/two", "two"),
        Project(tmp_path / "gone", "gone"),  # fails by itself when its turn comes
    )


def test_folder_whose_name_looks_like_a_glob_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a[1]").mkdir()
    assert find([str(tmp_path / "a[1]")]) == (Project(tmp_path / "a[1]", "a-1"),)


def test_what_names_no_project_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ProjectsError, match=r"none\*: matches no folder; correct the pattern$"):
        find([f"{tmp_path}/none*"])
    with pytest.raises(
        ProjectsError, match=r"file: is a file, not a project folder; a list of folders goes to --from$"
    ):
        find([f"{tmp_path}/file"])
    with pytest.raises(ProjectsError, match=r"^list:2: https://x.org/y.git: projects by URL are not supported"):
        find([], [("list", ["#", "https://x.org/y.git"])])
