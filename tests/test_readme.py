"""What the README shows is what the tool does: its commands, options, codes, tables, pictures, settings and links.

The table of rules and the picture are made by the tool. To bring them up to date:

    UPDATE_README=1 pytest tests/test_readme.py
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import click
import pytest

from shardfix.cli import main
from shardfix.config import load
from shardfix.report.catalogue import entries
from shardfix.report.explain import comments_markdown

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
TEXT = README.read_text("utf-8")
STALE = (
    "The README shows something else than the tool. Bring it up to date: UPDATE_README=1 pytest tests/test_readme.py"
)
COMMANDS = ("scan", "migrate", "verify", "batch", "explain", "rules", "doctor")
# Options of the other programs in the README: pip, LibCST, and pytest with the plugin.
OTHERS_OPTIONS = {"--index-url", "--no-format", "--quiet", "--sharding-pictures"}


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, flags=re.MULTILINE | re.DOTALL)


def block_with(language: str, word: str) -> str:
    (found,) = (block for block in blocks(language) if word in block)
    return found


def command_lines() -> list[str]:
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    return [line.partition("  #")[0].strip() for line in lines if line.startswith("shardfix ")]


def assert_shown(name: str, made: str) -> None:
    """The part of the README between two markers is what the tool makes; rewritten where that is asked for."""
    part = re.compile(rf"(?<=<!-- {name}: begin -->\n).*?(?=<!-- {name}: end -->)", re.DOTALL)
    shown = part.search(TEXT)
    assert shown is not None, f"the markers of {name} are gone"
    if os.environ.get("UPDATE_README"):
        README.write_text(part.sub(lambda _: made, README.read_text("utf-8")), "utf-8")
    else:
        assert shown[0] == made, STALE


def shardfix(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    command = [sys.executable, "-m", "shardfix", *args]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, encoding="utf-8", timeout=300)


def git(*args: str, cwd: Path) -> None:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *identity, *args], cwd=cwd, check=True, capture_output=True, timeout=60)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A committed project with the places that the README's commands name."""
    example = ROOT / "examples" / "accelerate_double_sharded" / "train.py"
    for folder in ("src", "projects/one", "projects/two"):
        (tmp_path / folder).mkdir(parents=True)
        shutil.copy(example, tmp_path / folder)
    (tmp_path / "projects.txt").write_text("projects/one\nprojects/two\n")
    git("init", "--quiet", cwd=tmp_path)
    git("add", ".", cwd=tmp_path)
    git("commit", "--quiet", "--message", "as it was", cwd=tmp_path)
    return tmp_path


def test_the_picture_is_what_the_tool_prints_for_the_example(tmp_path: Path) -> None:
    folder = tmp_path / "example"
    shutil.copytree(ROOT / "examples" / "accelerate_double_sharded", folder)
    done = shardfix("migrate", "--diff", "--sanitizer", "off", cwd=folder)
    assert done.returncode == 1, done.stderr
    report = done.stderr.splitlines()
    start = next(number for number, line in enumerate(report) if line.lstrip().startswith("before: 2 ranks"))
    stop = next(number for number, line in enumerate(report[start:], start) if "every sample is read once" in line)
    picture = textwrap.dedent("".join(f"{line}\n" for line in report[start : stop + 1]))
    assert_shown("picture", f"```text\n{picture}```\n")

    shown = block_with("diff", "accelerator.process_index").splitlines()
    assert [line for line in done.stdout.splitlines() if line in shown and line[1:2] == " "] == shown


def test_the_rules_are_those_that_the_tool_lists(tmp_path: Path) -> None:
    made = shardfix("rules", "--format", "markdown", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert_shown("rules", made.stdout)


@pytest.mark.parametrize("line", command_lines())
def test_every_command_line_is_understood(line: str, project: Path) -> None:
    name, *args = shlex.split(line)[1:]
    command = main.get_command(click.Context(main), name)
    assert command is not None
    command.make_context(name, list(args))
    if name in ("verify", "doctor"):
        return  # the test of the picture runs a proof, and tests/truth runs the truth table
    quick = ["--no-verify"] if name in ("migrate", "batch") else []
    done = shardfix(name, *args, *quick, cwd=project)
    assert done.returncode in (0, 1, 8), done.stderr  # 8: --require-proof, and none was run


def test_every_command_is_shown() -> None:
    assert {line.split()[1] for line in command_lines()} == set(COMMANDS)


def test_every_option_named_exists() -> None:
    commands = [main, *(main.get_command(click.Context(main), name) for name in COMMANDS)]
    known = {
        word
        for command in commands
        if command
        for option in command.params
        for word in (*option.opts, *option.secondary_opts)
    }
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*\w", TEXT))
    assert named - known == OTHERS_OPTIONS


def test_every_code_named_exists() -> None:
    codes = [entry.code for entry in entries()]
    named = set(re.findall(r"SHD\d+", TEXT))
    assert [code for code in sorted(named) if not any(known.startswith(code) for known in codes)] == []


def test_the_codemod_shown_for_libcst_edits_a_file(project: Path) -> None:
    (line,) = block_with("sh", "libcst.tool").splitlines()
    shutil.copy(project / "src" / "train.py", project)
    command = [sys.executable, *shlex.split(line)[1:]]
    done = subprocess.run(command, cwd=project, capture_output=True, encoding="utf-8", timeout=300)
    assert done.returncode == 0, done.stderr
    assert "DistributedSampler" not in (project / "train.py").read_text("utf-8")


def test_the_settings_shown_are_read(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(block_with("toml", "[tool.shardfix]"), "utf-8")
    config = load(tmp_path)
    assert config.exclude == ("third_party/", "notebooks/")
    assert config.options.select == ("SHD1", "SHD2")
    assert config.options.per_file_ignores == (("legacy/*", ("SHD3",)),)
    assert [(setting.name, setting.word) for setting in config.options.owners] == [
        ("pkg.data.make_loader", "accelerate"),
        ("pkg.streams", "self"),
        ("jobs/*.py", "ddp"),
    ]
    assert [(setting.name, setting.word) for setting in config.options.roles] == [("pkg.data.Splits.build", "eval")]


def test_the_comments_shown_are_understood() -> None:
    from shardfix.analysis.code.module import parse
    from shardfix.analysis.comments import read_comments

    comments = read_comments(parse("train.py", block_with("python", "# shardfix:")))
    assert [keep.codes for keep in comments.keeps.values()] == [("SHD201",)]
    answers = [f"{a.question}={a.word}" for given in comments.answers.values() for a in given]
    assert answers == ["owner=accelerate", "role=eval", "metric=exact"]
    assert comments.unknown == ()


def test_the_comments_are_those_that_the_tool_knows() -> None:
    assert_shown("comments", comments_markdown())


def test_the_check_says_what_is_shown() -> None:
    from torch.utils.data import DataLoader, DistributedSampler

    from shardfix import DataLoaderSanitizer, ShardingError

    dataset = list(range(32))
    loader = DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset, num_replicas=2, rank=0))
    with pytest.raises(ShardingError) as raised:
        DataLoaderSanitizer(num_processes=2, process_index=0).sanitize(loader)
    message = str(raised.value).partition(": ")[2]
    assert " ".join(block_with("text", "sharded twice:").split()).partition(": ")[2] == message


def test_the_test_command_is_the_one_that_ci_runs() -> None:
    ci = (ROOT / ".ci" / "run").read_text("utf-8")
    for part in ("python -m pip install --quiet -e '.[dev]'", "python -m pytest -n 2"):
        assert f"run {part}\n" in ci
        assert f".venv/bin/{part}" in block_with("sh", "pytest")


def test_the_versions_named_are_those_of_the_package() -> None:
    package = (ROOT / "pyproject.toml").read_text("utf-8")
    for named, declared in (
        ("Python 3.10 to 3.14", 'requires-python = ">=3.10"'),
        ("torch 2.2 or newer", '"torch>=2.2"'),
        ("accelerate 0.30 or newer", '"accelerate>=0.30"'),
    ):
        assert named in " ".join(TEXT.split())
        assert declared in package


def test_links_and_places_exist() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", TEXT)
    assert links
    local = [link for link in links if "://" not in link]
    places = [line.split()[0] for line in block_with("text", "codemods/  ").splitlines()]
    assert [name for name in (*local, *places) if not (ROOT / name).exists()] == []
