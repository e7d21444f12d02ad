"""Many files are written as one step: all or none, and killed at any moment each is old or new."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from shardfix.sources.text import SourceError
from shardfix.sources.write import Recovery, pending, recover, write_all

NAMES = ("a.py", "pkg/b.py", "pkg/new.py")
OLD = {"a.py": b"old a\r\n", "pkg/b.py": b"old b\n"}
NEW = {"a.py": b"new a\r\n", "pkg/b.py": b"new b\n", "pkg/new.py": b"new c\n"}

OPERATIONS = ("open", "os.rename", "os.link", "os.remove", "os.chmod", "os.chown")

# Ends itself by SIGKILL just before its n-th operation on files.
KILLED = """
import os, signal, sys
from pathlib import Path
import json, hashlib, shardfix.sources.write as write
root, left = Path(sys.argv[1]), int(sys.argv[2])
names = json.loads(sys.argv[3])
changes = {root / name: data.encode() for name, data in names.items()}
originals = {path: path.read_bytes() if path.exists() else None for path in changes}
def count(event, args):
    global left
    if event in sys.argv[4:]:
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(count)
write.write_all(changes, originals=originals, root=root)
"""


@pytest.fixture(params=["git", "no git"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "pkg").mkdir(parents=True)
    for name, data in OLD.items():
        (folder / name).write_bytes(data)
    if request.param == "git":
        subprocess.run(["git", "init", "-q", os.fspath(folder)], check=True)
    return folder


def state(root: Path) -> dict[str, bytes | None]:
    return {name: (root / name).read_bytes() if (root / name).exists() else None for name in NAMES}


def litter(root: Path) -> list[str]:
    """What a write may leave behind."""
    return sorted(p.relative_to(root).as_posix() for p in root.rglob("*shardfix*"))


def write(root: Path) -> None:
    changes = {root / name: data for name, data in NEW.items()}
    write_all(changes, originals={root / name: OLD.get(name) for name in NEW}, root=root)


def killed(root: Path, before: int, events: tuple[str, ...] = OPERATIONS) -> bool:
    """Write in a process that is killed before its n-th operation; whether it lived that long."""
    new = json.dumps({name: data.decode() for name, data in NEW.items()})
    command = [sys.executable, "-c", KILLED, os.fspath(root), str(before), new, *events]
    done = subprocess.run(command, capture_output=True, timeout=60)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr.decode()
    return done.returncode != 0


def test_all_files_are_written_and_nothing_else_is_left(root: Path) -> None:
    (root / "a.py").chmod(0o751)
    (root / "pkg/b.py").chmod(0o600)
    write(root)
    assert state(root) == NEW
    assert (root / "a.py").stat().st_mode & 0o7777 == 0o751
    assert (root / "pkg/b.py").stat().st_mode & 0o7777 == 0o600
    assert litter(root) == []
    assert pending(root) is None
    assert recover(root) is None


def test_killed_at_any_moment_each_file_is_old_or_new_and_the_next_run_ends_it(root: Path) -> None:
    old: dict[str, bytes | None] = {**OLD, "pkg/new.py": None}
    before, rolled_back, finished, mixed = 0, 0, 0, 0
    while True:
        before += 1
        for name, data in old.items():
            (root / name).unlink(missing_ok=True) if data is None else (root / name).write_bytes(data)
        if not killed(root, before):
            break
        left = state(root)
        assert all(left[name] in (old[name], NEW[name]) for name in NAMES)
        mixed += left not in (old, NEW)
        found = pending(root)
        assert found is None or not found.running
        result = recover(root)
        if found is None:
            assert result is None
            assert left in (old, NEW)
        else:
            assert result is not None
            assert result.left == ()
            if found.committed:
                finished += 1
                assert state(root) == NEW
                assert result.finished == tuple(root / name for name in NAMES)
            else:
                rolled_back += 1
                assert state(root) == old
                assert result.rolled_back == found.files
        assert litter(root) == []
        assert pending(root) is None
    assert state(root) == NEW
    assert rolled_back >= 4  # each stage of the write was really met
    assert finished >= 4
    assert mixed >= 2


def interrupted(root: Path) -> None:
    """Leave a write that was killed before it could put the second file in its place."""
    assert killed(root, 2, ("os.rename", "os.link"))
    assert state(root) == {"a.py": NEW["a.py"], "pkg/b.py": OLD["pkg/b.py"], "pkg/new.py": None}


def test_a_pending_write_stops_the_next_until_it_is_recovered(root: Path) -> None:
    interrupted(root)
    with pytest.raises(SourceError, match="an interrupted write is pending; finish or undo it by"):
        write_all({root / "a.py": b"x"}, originals={root / "a.py": NEW["a.py"]}, root=root)
    recover(root)
    write_all({root / "a.py": b"x"}, originals={root / "a.py": NEW["a.py"]}, root=root)
    assert (root / "a.py").read_bytes() == b"x"


def test_recovery_leaves_a_file_that_was_changed_meanwhile(root: Path) -> None:
    interrupted(root)
    (root / "pkg/b.py").write_bytes(b"mine\n")
    assert recover(root) == Recovery(
        finished=(root / "a.py", root / "pkg/new.py"),
        rolled_back=(),
        left=((root / "pkg/b.py", "changed by someone else since: left as it is"),),
    )
    assert state(root) == {**NEW, "pkg/b.py": b"mine\n"}
    assert litter(root) == []


def test_the_journal_is_out_of_sight_of_git(root: Path) -> None:
    interrupted(root)
    found = pending(root)
    assert found is not None
    if (root / ".git").exists():
        assert found.journal == root / ".git" / "shardfix-journal.json"
    else:
        assert found.journal == root / ".shardfix-journal.json"


def test_a_running_write_is_not_recovered(root: Path) -> None:
    import fcntl

    interrupted(root)
    found = pending(root)
    assert found is not None
    with open(found.journal, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        again = pending(root)
        assert again is not None
        assert again.running
        with pytest.raises(SourceError, match="another run of shardfix is writing here; wait for its end"):
            recover(root)
        with pytest.raises(SourceError, match="another run of shardfix is writing here; wait for its end"):
            write_all({root / "a.py": b"x"}, originals={root / "a.py": NEW["a.py"]}, root=root)
    assert recover(root) is not None


@pytest.mark.parametrize("target", ["../outside.py", "pkg/../../outside.py", "link/outside.py"])
def test_a_journal_from_a_stranger_reaches_nothing_outside(root: Path, target: str) -> None:
    outside = root.parent / "outside.py"
    outside.write_bytes(b"mine\n")
    (root / "link").symlink_to(root.parent)
    staged = os.path.join(os.path.dirname(target), ".shardfix-00-0.tmp")
    (root / staged).write_bytes(b"evil\n")
    import hashlib

    digests = [hashlib.sha256(data).hexdigest() for data in (b"mine\n", b"evil\n")]
    journal = root / (".git/shardfix-journal.json" if (root / ".git").exists() else ".shardfix-journal.json")
    journal.write_text(json.dumps({"shardfix": 1, "files": [[target, staged, *digests]]}) + '\n{"commit": true}\n')
    with pytest.raises(SourceError, match="not one that shardfix wrote; look at it and remove it"):
        recover(root)
    assert outside.read_bytes() == b"mine\n"


def test_two_projects_of_one_repository_do_not_wait_for_each_other(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", os.fspath(tmp_path)], check=True)
    for project in ("one", "two"):
        (tmp_path / project / "pkg").mkdir(parents=True)
        for name, data in OLD.items():
            (tmp_path / project / name).write_bytes(data)
    interrupted(tmp_path / "one")
    write(tmp_path / "two")
    assert pending(tmp_path / "one") is not None
    assert recover(tmp_path / "one") is not None
    assert litter(tmp_path) == []


def refused(root: Path, message: str) -> None:
    before = state(root)
    with pytest.raises(SourceError, match=message):
        write(root)
    assert state(root) == before
    assert litter(root) == []


def test_a_file_changed_since_it_was_read_stops_all(root: Path) -> None:
    (root / "pkg/b.py").write_bytes(b"mine\n")
    refused(root, r"b\.py: was changed by someone else since it was read; no file was changed; run shardfix again")


def test_a_file_deleted_since_it_was_read_stops_all(root: Path) -> None:
    (root / "pkg/b.py").unlink()
    refused(root, r"b\.py: is gone since it was read; no file was changed; run shardfix again")


def test_a_new_file_never_takes_the_place_of_another(root: Path) -> None:
    (root / "pkg/new.py").write_bytes(b"mine\n")
    refused(root, r"new\.py: is there already and holds something else; move it out of the way")


def test_a_new_file_that_is_there_already_is_left_alone(root: Path) -> None:
    (root / "pkg/new.py").write_bytes(NEW["pkg/new.py"])
    stamp = (root / "pkg/new.py").stat()
    write(root)
    assert state(root) == NEW
    assert (root / "pkg/new.py").stat().st_ino == stamp.st_ino


def test_what_stays_the_same_is_not_written(root: Path) -> None:
    stamp = (root / "a.py").stat()
    write_all({root / "a.py": OLD["a.py"]}, originals={root / "a.py": OLD["a.py"]}, root=root)
    assert (root / "a.py").stat() == stamp


def test_a_link_inside_the_tree_is_written_through(root: Path) -> None:
    (root / "a.py").rename(root / "pkg/real.py")
    (root / "a.py").symlink_to("pkg/real.py")
    write(root)
    assert (root / "a.py").is_symlink()
    assert (root / "pkg/real.py").read_bytes() == NEW["a.py"]


@pytest.mark.parametrize("part", ["a.py", "pkg"])
def test_a_link_out_of_the_tree_stops_all(root: Path, part: str) -> None:
    (root / part).rename(root.parent / part)
    (root / part).symlink_to(root.parent / part)
    refused(root, f"out of the project {root}; run shardfix in the project that has the file")


def test_one_file_under_two_names_is_refused(root: Path) -> None:
    (root / "b.py").symlink_to("a.py")
    both = [root / "a.py", root / "b.py"]
    with pytest.raises(SourceError, match=r"b\.py: is the same file as .*a\.py; give it once"):
        write_all(dict.fromkeys(both, b"x"), originals=dict.fromkeys(both, OLD["a.py"]), root=root)
    assert state(root)["a.py"] == OLD["a.py"]


def test_a_folder_that_is_not_there_stops_all(root: Path) -> None:
    changes = {root / "a.py": b"x", root / "gone" / "new.py": b"y"}
    with pytest.raises(
        SourceError, match=r"new\.py: cannot be written: No such file or directory; no file was changed"
    ):
        write_all(changes, originals={root / "a.py": OLD["a.py"], root / "gone" / "new.py": None}, root=root)
    assert state(root)["a.py"] == OLD["a.py"]
    assert litter(root) == []


FAILING = """
import errno, os, sys
from pathlib import Path
import json, hashlib, shardfix.sources.write as write
root, n = Path(sys.argv[1]), 0
def fail(event, args):
    global n
    if event in ("os.rename", "os.link"):
        n += 1
        if n == int(sys.argv[2]):
            raise KeyboardInterrupt if sys.argv[3] == "interrupt" else OSError(errno.EIO, "Input/output error")
sys.addaudithook(fail)
old, new = ({root / name: data.encode() for name, data in json.loads(text).items()} for text in sys.argv[4:])
try:
    write.write_all(new, originals={path: old.get(path) for path in new}, root=root)
except (KeyboardInterrupt, write.SourceError) as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize("how", ["interrupt", "error"])
@pytest.mark.parametrize("rename", [1, 2])
def test_a_rename_that_fails_or_is_interrupted_takes_back_those_before_it(root: Path, rename: int, how: str) -> None:
    texts = [json.dumps({name: data.decode() for name, data in each.items()}) for each in (OLD, NEW)]
    command = [sys.executable, "-c", FAILING, os.fspath(root), str(rename), how, *texts]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    path = root / NAMES[rename - 1]
    assert (
        done.stdout
        == {
            "interrupt": "KeyboardInterrupt \n",
            "error": f"SourceError {path}: cannot be written: Input/output error; no file was changed; "
            "correct the rights or the space there, run again\n",
        }[how]
    )
    assert state(root) == {**OLD, "pkg/new.py": None}
    assert litter(root) == []


RACING = """
import json, sys
from pathlib import Path
import hashlib, shardfix.sources.write as write
root, moment, name = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
raced = False
def race(event, args):
    global raced
    staging = event == "open" and str(args[0]).endswith(".tmp")
    if not raced and (staging if moment == "staging" else event == "os.link"):
        raced = True
        (root / name).write_bytes(b"theirs")
sys.addaudithook(race)
old, new = ({root / name: data.encode() for name, data in json.loads(text).items()} for text in sys.argv[4:])
try:
    write.write_all(new, originals={path: old.get(path) for path in new}, root=root)
except write.SourceError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("moment", "name", "message"),
    [
        (
            "staging",
            "pkg/b.py",
            "was changed by someone else since it was read; no file was changed; run shardfix again",
        ),
        ("staging", "pkg/new.py", "is there already and holds something else; move it out of the way"),
        (
            "linking",
            "pkg/new.py",
            "cannot be written: File exists; no file was changed; correct the rights or the space",
        ),
    ],
)
def test_a_file_that_someone_writes_meanwhile_is_theirs(root: Path, moment: str, name: str, message: str) -> None:
    texts = [json.dumps({name: data.decode() for name, data in each.items()}) for each in (OLD, NEW)]
    command = [sys.executable, "-c", RACING, os.fspath(root), moment, name, *texts]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith(f"{root / name}: {message}")
    assert state(root) == {**OLD, "pkg/new.py": None, name: b"theirs"}
    assert litter(root) == []


def test_without_a_root_the_files_project_is_the_tree(root: Path) -> None:
    (root / "pyproject.toml").touch()
    write_all({root / "pkg/b.py": b"x"}, originals={root / "pkg/b.py": OLD["pkg/b.py"]})
    assert state(root)["pkg/b.py"] == b"x"
    with pytest.raises(SourceError, match="lies out of the project"):
        write_all(
            {root / "a.py": b"x", root.parent / "o.py": b"y"},
            originals={root / "a.py": OLD["a.py"], root.parent / "o.py": None},
        )
