"""What the commands print, and where; what they write, and what they leave."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from command_line import REFUSED, RIGHT, SHARDED_TWICE, UNPARSABLE, environment, git, project, shardfix
from jsonschema import Draft202012Validator

from shardfix import report
from shardfix.cli import main
from shardfix.report.catalogue import entries

SCHEMA = json.loads((Path(report.__file__).parent / "schema.json").read_text("utf-8"))


def test_diff_on_standard_output_is_what_git_apply_takes(tmp_path: Path) -> None:
    place = project(tmp_path / "a project", train=SHARDED_TWICE)
    # A project below the top of its repository: git takes names from the top.
    (place / "pyproject.toml").write_text("")
    below = place / "services" / "one"
    below.mkdir(parents=True)
    (below / "pyproject.toml").write_text("")
    (below / "train.py").write_bytes(SHARDED_TWICE.replace("\n", "\r\n").encode())
    git("add", ".", cwd=place)
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "more", cwd=place)
    for cwd, paths in ((below, []), (place, ["services/one"])):
        done = shardfix("migrate", "--diff", "--no-verify", *paths, cwd=cwd, env={"FORCE_COLOR": "1"})
        assert b"SHD201" in done.stderr  # the report is there, beside the diff
        git("apply", "-", cwd=cwd, input=done.stdout)
        assert b"DistributedSampler" not in (below / "train.py").read_bytes()
        assert git("status", "--porcelain", "--", "services/one/train.py", cwd=place) == b" M services/one/train.py\n"
        git("checkout", "-q", ".", cwd=place)
        git("clean", "-fdq", cwd=place)


def test_dry_runs_write_nothing_but_the_patch(tmp_path: Path) -> None:
    place = project(tmp_path / "project", train=SHARDED_TWICE)
    for asked in (["--diff"], ["--check"], ["--patch", str(tmp_path / "out.patch")], ["--patch", "-"]):
        shardfix("migrate", "--no-verify", *asked, cwd=place)
        assert git("status", "--porcelain", cwd=place) == b""
    diff = shardfix("migrate", "--no-verify", "--diff", cwd=place).stdout
    assert diff.startswith(b"diff --git a/")
    assert (tmp_path / "out.patch").read_bytes() == diff
    assert shardfix("migrate", "--no-verify", "--patch", "-", cwd=place).stdout == diff


def test_migrate_writes_what_the_diff_shows_and_then_nothing(tmp_path: Path) -> None:
    place = project(tmp_path, train=SHARDED_TWICE)
    diff = shardfix("migrate", "--no-verify", "--diff", cwd=place).stdout
    first = shardfix("migrate", "--no-verify", cwd=place)
    assert b"1 loader in 1 file: 1 edited, 0 right" in first.stdout
    git("apply", "--check", "-R", "-", cwd=place, input=diff)
    after = (place / "train.py").read_bytes()
    again = shardfix("migrate", "--no-verify", "--allow-dirty", cwd=place)
    assert b"Nothing to change." in again.stdout
    assert (place / "train.py").read_bytes() == after


def test_json_of_every_command_keeps_to_the_schema(tmp_path: Path) -> None:
    place = project(tmp_path, train=SHARDED_TWICE, right=RIGHT, refused=REFUSED, bad=UNPARSABLE)
    for command in (["scan"], ["migrate", "--check", "--no-verify"]):
        done = shardfix(*command, "--format", "json", cwd=place)
        data = json.loads(done.stdout)
        Draft202012Validator(SCHEMA).validate(data)
        assert [site["path"] for site in data["sites"]] == ["refused.py", "right.py", "train.py"]
        assert [change["codes"][0] for change in data["changes"]] == ["SHD201"]
        assert [problem["where"].split(":")[0] for problem in data["problems"]] == ["bad.py"]


def test_json_of_a_proof_keeps_to_the_schema(tmp_path: Path) -> None:
    place = project(tmp_path, train=SHARDED_TWICE)
    done = shardfix("migrate", "--check", "--verify", "--timeout", "100", "--format", "json", cwd=place)
    data = json.loads(done.stdout)
    Draft202012Validator(SCHEMA).validate(data)
    assert [proof["verdict"] for proof in data["proofs"]] == ["proven"]
    assert data["changes"][0]["proof"] == "proven"


def test_paths_of_several_projects_are_taken_project_by_project(tmp_path: Path) -> None:
    one = project(tmp_path / "one", train=SHARDED_TWICE)
    two = project(tmp_path / "two", train=RIGHT)
    text = shardfix("scan", "one", "two/train.py", cwd=tmp_path)
    assert text.returncode == 1
    assert [line for line in text.stdout.decode().splitlines() if line.startswith("project ")] == [
        f"project {one}",
        f"project {two}",
    ]
    data = json.loads(shardfix("scan", "one", "two", "--format", "json", cwd=tmp_path).stdout)
    Draft202012Validator(SCHEMA).validate(data)
    assert [run["root"] for run in data["projects"]] == [str(one), str(two)]


def test_project_that_can_not_be_written_does_not_hide_what_was_done_to_another(tmp_path: Path) -> None:
    done_first = project(tmp_path / "one", train=SHARDED_TWICE)
    dirty = project(tmp_path / "two", train=RIGHT)
    (dirty / "train.py").write_text(SHARDED_TWICE)
    done = shardfix("migrate", "--no-verify", "one", "two", cwd=tmp_path)
    assert done.returncode == 2
    assert b"1 loader in 1 file: 1 edited" in done.stdout
    assert f"error: {dirty}: train.py: has changes that are not committed" in done.stdout.decode()
    assert b"DistributedSampler" not in (done_first / "train.py").read_bytes()
    assert (dirty / "train.py").read_text() == SHARDED_TWICE


def test_rules_lists_every_code_in_every_format(tmp_path: Path) -> None:
    codes = [entry.code for entry in entries()]
    assert len(codes) == len(set(codes)) > 30
    text = shardfix("rules", cwd=tmp_path).stdout.decode()
    assert [line.split()[0] for line in text.splitlines()[1:]] == codes
    assert [entry["code"] for entry in json.loads(shardfix("rules", "--format", "json", cwd=tmp_path).stdout)] == codes
    markdown = shardfix("rules", "--format", "markdown", cwd=tmp_path).stdout.decode()
    assert [line.split("`")[1] for line in markdown.splitlines() if line.startswith("| `")] == codes


def test_explain_tells_the_answers_that_settle_a_code_and_all_that_comments_can_say() -> None:
    from shardfix.report.explain import explain_page

    refused, everything = explain_page("SHD916"), explain_page("comments")
    assert refused is not None
    assert everything is not None
    assert refused.plain().endswith(
        "  # shardfix: role=train  it is trained on\n"
        "  # shardfix: role=eval  it is evaluated on\n"
        "  or by name in pyproject.toml, in [tool.shardfix.roles]\n"
    )
    for said in ("keep[SHD201] reason", "owner=accelerate", "role=train", "epoch=told", "metric=reduced"):
        assert f"\n{said}  " in everything.plain()


def test_explain_tells_every_code_and_codemod() -> None:
    from shardfix.report.explain import explain_page

    for entry in entries():
        page = explain_page(entry.code.lower())
        assert page is not None
        assert page.plain().startswith(f"{entry.code}  {entry.title}\n")
        assert ("\nWhat is missing\n" if entry.refusal else "\nWhy\n") in page.plain()
        assert ("\nWhat to do\n" if entry.refusal else "\nLeft alone\n") in page.plain()
        if entry.rule:
            assert explain_page(entry.codemod.replace("_", "-")) is not None


def test_explain_shows_before_and_after(tmp_path: Path) -> None:
    told = shardfix("explain", "shd201", cwd=tmp_path).stdout.decode()
    assert "Before and after" in told
    assert "\n  - from torch.utils.data.distributed import DistributedSampler\n" in told
    assert "# shardfix: keep[SHD201] reason" in told


def imported(*args: str, cwd: Path) -> set[str]:
    """The modules that a run of Python imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *args],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    )
    return {line.rsplit("|", 1)[1].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}


def test_help_and_version_load_nothing_heavy(tmp_path: Path) -> None:
    clicks_own = imported("-c", "import click", cwd=tmp_path)  # subprocess among them, on Python 3.10
    for args in (["--help"], ["--version"], ["migrate", "--help"], ["batch", "--help"]):
        loaded = imported("-m", "shardfix", *args, cwd=tmp_path)
        heavy = {
            "accelerate",
            "difflib",
            "json",
            "libcst",
            "pathspec",
            "rich",
            "subprocess",
            "torch",
            "shardfix.engine",
        }
        assert (loaded - clicks_own) & heavy == set(), args


def test_output_is_plain_in_a_pipe_and_coloured_where_forced(tmp_path: Path) -> None:
    place = project(tmp_path, train=SHARDED_TWICE)
    assert b"\x1b" not in shardfix("scan", cwd=place).stdout
    forced = shardfix("scan", cwd=place, env={"FORCE_COLOR": "1"})
    assert b"\x1b[" in forced.stdout
    assert b"\x1b" not in shardfix("scan", "--format", "json", cwd=place, env={"FORCE_COLOR": "1"}).stdout


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such file names")
def test_undecodable_file_name_in_an_ascii_terminal_is_shown(tmp_path: Path) -> None:
    place = project(tmp_path)
    (place / "caf\udce9\x1b[31m.py").write_text(SHARDED_TWICE)
    done = shardfix("scan", cwd=place, env={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"})
    assert done.returncode == 1, done.stderr.decode()
    assert b"caf\\udce9\\x1b[31m.py:7:10" in done.stdout


@pytest.mark.parametrize("name", ["scan", "migrate", "verify", "batch", "explain", "rules"])
def test_every_command_tells_what_it_and_its_options_do(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert command.help
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name
