"""Ignore patterns mean here what they mean to git: each case is put to git itself as well."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from shardfix.sources.discover import discover

TREE = ["a.py", "b1.py", "data/a.py", "data/sub/a.py", "src/a.py", "src/data/b1.py", "src/src/a.py", "!x.py", "#x.py"]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(["data/"], ["!x.py", "#x.py", "a.py", "b1.py", "src/a.py", "src/src/a.py"], id="folder anywhere"),
        pytest.param(["/data"], [n for n in TREE if not n.startswith("data")], id="anchored"),
        pytest.param(["src/data"], [n for n in TREE if n != "src/data/b1.py"], id="a slash inside anchors"),
        pytest.param(["data/**", "!*.py"], [n for n in TREE if n != "data/sub/a.py"], id="files taken back in"),
        pytest.param(["*/", "!/src/"], ["!x.py", "#x.py", "a.py", "b1.py", "src/a.py"], id="one folder taken back"),
        pytest.param(["data", "!data/a.py"], [n for n in TREE if "data" not in n], id="not from an ignored folder"),
        pytest.param(["**/data/*.py"], [n for n in TREE if n not in ("data/a.py", "src/data/b1.py")], id="any depth"),
        pytest.param(["src/**/a.py"], [n for n in TREE if n not in ("src/a.py", "src/src/a.py")], id="any between"),
        pytest.param(["***/src"], [n for n in TREE if not n.startswith("src")], id="three stars are two"),
        pytest.param(["[!a]?.py"], [n for n in TREE if not n.endswith(("b1.py", "x.py"))], id="set and question mark"),
        pytest.param(["[[:alpha:]][0-9].py"], [n for n in TREE if "b1" not in n], id="named set"),
        pytest.param(["\\!x.py", "\\#x.py", "# a.py", ""], TREE[:-2], id="escapes, comment and blank line"),
        pytest.param(["a.py  ", "b1.py\\ ", "[", "\\"], [n for n in TREE if not n.endswith("a.py")], id="odd lines"),
        pytest.param(["\ufeffa.py\r"], [n for n in TREE if not n.endswith("a.py")], id="byte order mark and CRLF"),
        pytest.param(["*", "!*/", "!b1.py"], ["b1.py", "src/data/b1.py"], id="all but"),
    ],
)
def test_git_and_the_walk_agree(tmp_path: Path, lines: list[str], expected: list[str]) -> None:
    for name in TREE:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / ".gitignore").write_bytes("".join(f"{line}\n" for line in lines).encode())
    names = sorted(tmp_path / name for name in expected)
    assert list(discover([tmp_path], root=tmp_path).files) == names
    subprocess.run(["git", "init", "-q", os.fspath(tmp_path)], check=True)
    assert list(discover([tmp_path], root=tmp_path).files) == names
