"""A batch takes every project to an outcome, whatever becomes of the others."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from shardfix import report
from shardfix.batch.executor import Job, migrate_project, run
from shardfix.batch.outcomes import BatchResult, Outcome, batch_page, kind_of, to_json, write_report
from shardfix.batch.projects import Project, find
from shardfix.config import Asked
from shardfix.proof.model import Proof
from shardfix.result import FileChange, RunResult

SHARDED_TWICE = """\
from accelerate import Accelerator
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

accelerator = Accelerator()
dataset = list(range(16))
loader = DataLoader(dataset, batch_size=2, sampler=DistributedSampler(dataset, shuffle=False))
loader = accelerator.prepare(loader)
for batch in loader:
    pass
"""
RIGHT = SHARDED_TWICE.replace(", sampler=DistributedSampler(dataset, shuffle=False)", "")
COSMETIC = """\
from torch.utils.data import DataLoader, SequentialSampler

dataset = list(range(16))
loader = DataLoader(dataset, batch_size=2, sampler=SequentialSampler(dataset))
for batch in loader:
    pass
"""
JOB = Job(Asked(cosmetic=False), verify="no")


def git(*args: str, cwd: Path, input: bytes = b"") -> bytes:
    done = subprocess.run(["git", *args], cwd=cwd, input=input, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout


def project(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "train.py").write_text(text, "utf-8")
    git("init", "-q", cwd=folder)
    git("add", ".", cwd=folder)
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "all", cwd=folder)
    return folder


def validate(data: Any) -> None:
    folder = Path(report.__file__).parent
    run_schema, batch_schema = (
        json.loads((folder / name).read_text("utf-8")) for name in ("schema.json", "batch_schema.json")
    )
    Draft202012Validator.check_schema(batch_schema)
    registry: Registry[Any] = Resource.from_contents(run_schema) @ Registry()
    Draft202012Validator(batch_schema, registry=registry).validate(data)


# ---- outcomes

FILES = (FileChange("train.py", b"a\n", b"b\n"),)


def proofs(verdict: str) -> tuple[Proof, ...]:
    return (Proof("train.py:1:1", verdict, (), {}),)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("result", "asked", "kind"),
    [
        (RunResult(Path("/p")), {}, "unchanged"),
        (RunResult(Path("/p"), files=FILES), {}, "would-change"),
        (RunResult(Path("/p"), files=FILES, written=True, proofs=proofs("proven")), {}, "changed"),
        (RunResult(Path("/p"), files=FILES, proofs=proofs("refuted") + proofs("unproven")), {}, "refuted"),
        (RunResult(Path("/p"), files=FILES, written=True, proofs=proofs("unproven")), {}, "unproven"),
        (RunResult(Path("/p"), files=FILES, verification="no torch"), {}, "would-change"),
    ],
)
def test_outcome_is_the_worst_that_is_known(result: RunResult, asked: dict[str, bool], kind: str) -> None:
    assert kind_of(result, **asked) == kind


def test_every_project_gets_its_outcome_and_one_patch_that_git_applies(tmp_path: Path) -> None:
    for name, text in {
        "a/x": SHARDED_TWICE,
        "b/x": RIGHT,
        "cosmetic": COSMETIC,
        "bad": "def (:  # DataLoader\n",
    }.items():
        project(tmp_path / name, text)
    found = find([*(str(tmp_path / name) for name in ("a/x", "b/x", "cosmetic", "bad", "gone"))])
    result = run(found, JOB, jobs=2)
    assert [(outcome.project.name, outcome.kind, outcome.exit) for outcome in result.outcomes] == [
        ("a-x", "would-change", 0),
        ("b-x", "unchanged", 0),
        ("cosmetic", "unchanged", 0),
        ("bad", "unchanged", 2),
        ("gone", "failed", 2),
    ]
    assert result.exit == 2
    assert git("status", "--porcelain", cwd=tmp_path / "a/x") == b""  # a dry run
    write_report(result, tmp_path / "report")
    validate(json.loads((tmp_path / "report/report.json").read_text("utf-8")))
    assert [path.name for path in (tmp_path / "report/patches").iterdir()] == ["a-x.patch"]
    git("apply", "--check", str(tmp_path / "report/patches/a-x.patch"), cwd=tmp_path / "a/x")
    git("apply", str(tmp_path / "report/patches/a-x.patch"), cwd=tmp_path / "a/x")
    assert "DistributedSampler" not in (tmp_path / "a/x/train.py").read_text("utf-8")


def test_selected_codes_bring_cosmetic_changes_back(tmp_path: Path) -> None:
    found = find([str(project(tmp_path / "cosmetic", COSMETIC))])
    job = Job(Asked(select=("SHD103",), cosmetic=False), verify="no")
    assert [outcome.kind for outcome in run(found, job).outcomes] == ["would-change"]


def test_apply_writes_and_the_patch_is_what_was_written(tmp_path: Path) -> None:
    place = project(tmp_path / "one", SHARDED_TWICE)
    (outcome,) = run(find([str(place)]), Job(Asked(cosmetic=False), apply=True, verify="no")).outcomes
    assert outcome.kind == "changed"
    git("apply", "--check", "-R", "-", cwd=place, input=outcome.patch)


def test_projects_of_one_repository_each_get_their_own_patch(tmp_path: Path) -> None:
    place = tmp_path / "mono"
    for name in ("a", "b", "c"):
        (place / name).mkdir(parents=True)
        (place / name / "train.py").write_text(SHARDED_TWICE, "utf-8")
    git("init", "-q", cwd=place)
    git("add", ".", cwd=place)
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "all", cwd=place)
    result = run(find([f"{place}/*"]), Job(Asked(), apply=True, verify="no"), jobs=3)
    assert [(outcome.kind, outcome.message) for outcome in result.outcomes] == [("changed", "")] * 3
    git("checkout", "-q", ".", cwd=place)
    git("clean", "-fdq", cwd=place)
    for outcome in result.outcomes:
        git("apply", "-", cwd=outcome.project.path, input=outcome.patch)
    changed = git("status", "--porcelain", "--untracked-files=no", cwd=place).decode().split()
    assert changed == ["M", "a/train.py", "M", "b/train.py", "M", "c/train.py"]


def alone(project: Project, job: Job) -> Outcome:
    """Fails if another project of the repository is at work."""
    lock = project.path.parent / "lock"
    lock.mkdir()
    time.sleep(0.2)
    lock.rmdir()
    return Outcome(project, "unchanged")


def test_projects_of_one_repository_are_never_at_work_at_the_same_time(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    found = find([str(tmp_path / name) for name in ("a", "b", "c")])
    assert [outcome.kind for outcome in run(found, JOB, jobs=3, work=alone).outcomes] == ["unchanged"] * 3


# ---- what goes wrong


def misbehave(project: Project, job: Job) -> Outcome:
    """Named after what it does, so that it can be told in the process of the project."""
    how = project.name
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "exits":
        os._exit(7)
    if how == "raises":
        raise LookupError("no such thing")
    if how == "config":
        (project.path / "pyproject.toml").write_text("[tool.shardfix]\ntarget = 1\n")
        return migrate_project(project, job)
    if how == "hangs":
        time.sleep(600)
    if how == "recurses":
        return misbehave(project, job)
    return Outcome(project, "unchanged")


def test_no_project_ends_the_run(tmp_path: Path) -> None:
    names = ["killed", "good-1", "exits", "raises", "config", "recurses", "good-2"]
    for name in names:
        (tmp_path / name).mkdir()
    heard: list[str] = []
    result = run(
        find([str(tmp_path / name) for name in names]),
        Job(Asked()),
        jobs=4,
        work=misbehave,
        done=lambda outcome: heard.append(outcome.project.name),
    )
    assert sorted(heard) == sorted(names)
    assert not result.interrupted
    told = {outcome.project.name: (outcome.kind, outcome.message) for outcome in result.outcomes}
    lone = "before it was done; run it alone to see why"
    assert told == {
        "killed": ("failed", f"its process was ended by SIGKILL {lone}"),
        "good-1": ("unchanged", ""),
        "exits": ("failed", f"its process ended with exit code 7 {lone}"),
        "raises": (
            "failed",
            "internal error: LookupError: no such thing; please report it (SHARDFIX_DEBUG=1 shows where)",
        ),
        "config": (
            "failed",
            f"{tmp_path}/config/pyproject.toml: [tool.shardfix] target is 1; "
            'it must be "auto" or "accelerate" or "ddp"',
        ),
        "recurses": told["recurses"],
        "good-2": ("unchanged", ""),
    }
    assert told["recurses"][1].startswith("internal error: RecursionError: ")
    assert result.exit == 2
    validate(to_json(result))
    for name in names:
        assert name in batch_page(result).plain()


def test_project_that_does_not_end_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "hangs").mkdir()
    (outcome,) = run(find([str(tmp_path / "hangs")]), Job(Asked(), limit=1), work=misbehave).outcomes
    assert (outcome.kind, outcome.exit) == ("failed", 2)
    assert outcome.message == "stopped after 1 s; give it more with --project-timeout"


def test_report_of_an_earlier_batch_does_not_linger(tmp_path: Path) -> None:
    project_ = Project(tmp_path, "one")
    write_report(BatchResult((Outcome(project_, "would-change", patch=b"x"),), False), tmp_path / "report")
    assert (tmp_path / "report/patches/one.patch").read_bytes() == b"x"
    write_report(BatchResult((Outcome(project_, "unchanged"),), False), tmp_path / "report")
    assert list((tmp_path / "report/patches").iterdir()) == []


INTERRUPTED = """
import sys, time
from pathlib import Path
sys.path.insert(0, {here!r})
from test_batch_run import run, find, Job, Asked, misbehave, to_json
import json
if __name__ == "__main__":
    found = find(sys.argv[1:])
    result = run(found, Job(Asked()), jobs=1, work=misbehave, done=lambda o: print(o.project.name, flush=True))
    print(json.dumps(to_json(result)), flush=True)
"""


def test_interrupt_ends_the_projects_at_work_and_keeps_what_is_done(tmp_path: Path) -> None:
    for name in ("good", "hangs", "never"):
        (tmp_path / name).mkdir()
    script = tmp_path / "script.py"
    script.write_text(INTERRUPTED.format(here=str(Path(__file__).parent)))
    running = subprocess.Popen(
        [sys.executable, str(script), *(str(tmp_path / name) for name in ("good", "hangs", "never"))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "good\n"
    time.sleep(0.5)  # into the one that hangs, or just before: it must be told in either case
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    data = json.loads(out)
    validate(data)
    assert (data["interrupted"], [project["name"] for project in data["projects"]]) == (True, ["good"])
    assert [Path(path).name for path in data["not_run"]] == ["hangs", "never"]
    assert err == ""
