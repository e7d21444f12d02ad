"""Every codemod runs under LibCST's own tool: it changes one file byte for byte as migrate does, or says why not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from libcst import parse_module
from libcst.codemod import CodemodContext
from shardfix.codemods import RULES

from shardfix.analysis.rules import Rule
from shardfix.libcst_command import command_for

PREPARED = (
    "from accelerate import Accelerator\n"
    "from torch.utils.data import DataLoader{imports}\n"
    "\n"
    "accelerator = Accelerator()\n"
    "dataset = list(range(16))\n"
    "loader = DataLoader({arguments})\n"
    "loader = accelerator.prepare(loader)\n"
    "for batch in loader:\n"
    "    pass\n"
)


def codemod(rule: Rule, *files: Path, options: tuple[str, ...] = ("--no-format",)) -> str:
    """Run LibCST's tool; what it says on standard error. ``-j 1`` keeps it from starting a worker for each core."""
    command = f"shardfix.codemods.{rule.name}.{rule.command}"
    done = subprocess.run(
        [sys.executable, "-m", "libcst.tool", "codemod", "-x", command, "--hide-progress", "-j", "1", *options]
        + [file.name for file in files],
        cwd=files[0].parent,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def in_process(rule: Rule, file: Path) -> list[str]:
    """What LibCST's tool does with one file, without a process of its own; the warnings."""
    command = command_for(rule)(CodemodContext(filename=str(file)))
    result = command.transform_module(parse_module(file.read_bytes()))
    file.write_bytes(result.bytes)
    warnings: list[str] = command.context.warnings
    return warnings


def rule(name: str) -> Rule:
    return next(r for r in RULES if r.name == name)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder that is a project of its own, whatever lies above it."""
    (tmp_path / "pyproject.toml").write_text("")
    return tmp_path


EDITING = [r for r in RULES if any(not e.unsafe for e in r.invalid)]  # nothing asks for more under LibCST's tool


@pytest.mark.parametrize("rule", EDITING, ids=[r.name for r in EDITING])
def test_each_codemod_makes_its_own_examples_by_name(rule: Rule, project: Path) -> None:
    examples = [e for e in rule.invalid if not e.unsafe and e.target == "auto"]
    files = [project / f"example_{number}.py" for number in range(len(examples))]
    for file, example in zip(files, examples, strict=True):
        file.write_bytes(example.before.encode())

    said = codemod(rule, *files)

    for file, example in zip(files, examples, strict=True):
        after = example.after
        if rule.name == "add_sanitizer":
            # No other codemod runs, and none of LibCST's can create the vendored file.
            after = example.before.replace(
                "from torch.utils.data import DataLoader, SequentialSampler\n",
                "from torch.utils.data import DataLoader, SequentialSampler\nfrom shardfix import sanitize\n",
            ).replace(
                "loader = accelerator.prepare(loader)\n",
                'sanitize(loader, owner="accelerate")\nloader = accelerator.prepare(loader)\n',
            )
        after = after.replace("\n\nfrom shardfix_evaluation import", "\nfrom shardfix.evaluation import")
        assert file.read_text() == after, said
    assert "0 warnings were generated" in said


def test_every_codemod_has_a_command_of_the_name_it_declares() -> None:
    assert {r.name: r.command for r in RULES} == {
        "remove_redundant_sampler": "RemoveRedundantSampler",
        "prepare_trainer_loader": "PrepareTrainerLoader",
        "distribute_train_sampler": "DistributeTrainSampler",
        "reduce_eval_metrics": "ReduceEvalMetrics",
        "evaluate_on_all_ranks": "EvaluateOnAllRanks",
        "distribute_eval_sampler": "DistributeEvalSampler",
        "insert_set_epoch": "InsertSetEpoch",
        "hazards": "ReportHazards",
        "add_sanitizer": "AddSanitizer",
    }


def test_hazards_are_warnings_and_change_nothing(project: Path) -> None:
    file = project / "train.py"
    file.write_text(PREPARED.format(imports="", arguments="dataset, batch_size=None"))
    before = file.read_bytes()

    said = codemod(rule("hazards"), file)

    assert file.read_bytes() == before
    assert (
        "train.py:6:10: SHD712 batch_size=None leaves prepare() no batch sampler to shard: the loader raises at its "
        "first use in several processes; DataLoader(ds, batch_size=1, collate_fn=lambda batch: batch[0]) keeps the "
        "dataset's own batches\n"
    ) in said
    assert "1 warnings were generated" in said


def test_a_codemod_leaves_what_is_another_ones_to_change(project: Path) -> None:
    file = project / "train.py"
    text = PREPARED.format(
        imports=", SequentialSampler", arguments="dataset, batch_size=2, sampler=SequentialSampler(dataset)"
    )
    file.write_text(text)

    warnings = in_process(rule("insert_set_epoch"), file)

    assert file.read_text() == text
    assert warnings == []


def test_what_only_another_file_could_show_is_refused(project: Path) -> None:
    """The loader leaves the file: whether some other file prepares it is not seen from here."""
    text = (
        "from accelerate import Accelerator\n"
        "from torch.utils.data import DataLoader, SequentialSampler\n"
        "\n"
        "accelerator = Accelerator()\n"
        "\n"
        "\n"
        "def build(dataset):\n"
        "    return DataLoader(dataset, batch_size=2, sampler=SequentialSampler(dataset))\n"
    )
    file = project / "data.py"
    file.write_text(text)

    (warning,) = in_process(rule("remove_redundant_sampler"), file)

    assert file.read_text() == text
    assert warning.startswith("data.py:8:12: SHD901 owner not shown: the loader leaves what is followed in line 7")


def test_a_refusal_of_the_codemod_is_told(project: Path) -> None:
    text = PREPARED.format(
        imports=", SequentialSampler",
        arguments="dataset, batch_size=2, sampler=SequentialSampler(list(range(16)))",
    )
    file = project / "train.py"
    file.write_text(text)

    warnings = in_process(rule("remove_redundant_sampler"), file)

    assert file.read_text() == text
    (warning,) = warnings
    assert warning.startswith("train.py:6:10: SHD907 sampler draws from another dataset; give both the same dataset")


def test_other_bytes_stay_as_they_are(project: Path) -> None:
    forms: dict[str, Callable[[str], bytes]] = {
        "crlf": lambda text: text.replace("\n", "\r\n").encode(),
        "mixed_newlines": lambda text: text.replace("\n", "\r\n", 3).encode(),
        "no_final_newline": lambda text: text.rstrip("\n").encode(),
        "latin": lambda text: ("# -*- coding: latin-1 -*-\n# \xe9t\xe9\n" + text).encode("latin-1"),
        "form_feed": lambda text: ("\f\n" + text).encode(),
        "tabs": lambda text: text.replace("    ", "\t").encode(),
    }
    before = PREPARED.format(
        imports=", SequentialSampler", arguments="dataset, batch_size=2, sampler=SequentialSampler(dataset)"
    )
    after = PREPARED.format(imports="", arguments="dataset, batch_size=2")
    for name, form in forms.items():
        (project / f"{name}.py").write_bytes(form(before))
        in_process(rule("remove_redundant_sampler"), project / f"{name}.py")

    found = {name: (project / f"{name}.py").read_bytes() for name in forms}
    assert found == {name: form(after) for name, form in forms.items()}


def test_several_files_are_done_by_worker_processes(project: Path) -> None:
    before = PREPARED.format(
        imports=", SequentialSampler", arguments="dataset, batch_size=2, sampler=SequentialSampler(dataset)"
    )
    files = [project / f"train_{number}.py" for number in range(3)]
    for file in files:
        file.write_text(before)

    codemod(rule("remove_redundant_sampler"), *files, options=("--no-format", "-j", "2"))

    assert {file.read_text() for file in files} == {PREPARED.format(imports="", arguments="dataset, batch_size=2")}


def test_the_settings_of_the_project_hold(project: Path) -> None:
    (project / "pyproject.toml").write_text('[tool.shardfix]\nignore = ["SHD101"]\n')
    text = PREPARED.format(
        imports=", SequentialSampler", arguments="dataset, batch_size=2, sampler=SequentialSampler(dataset)"
    )
    file = project / "train.py"
    file.write_text(text)

    in_process(rule("remove_redundant_sampler"), file)

    assert file.read_text() == text


def test_a_site_that_the_user_keeps_is_left_in_silence(project: Path) -> None:
    text = PREPARED.format(
        imports=", SequentialSampler", arguments="dataset, batch_size=2, sampler=SequentialSampler(dataset)"
    ).replace("(dataset))\n", "(dataset))  # shardfix: keep measured\n")
    file = project / "train.py"
    file.write_text(text)

    warnings = in_process(rule("remove_redundant_sampler"), file)

    assert file.read_text() == text
    assert warnings == []


def test_a_second_run_changes_nothing(project: Path) -> None:
    file = project / "train.py"
    file.write_text(PREPARED.format(imports="", arguments="dataset, batch_size=2"))

    in_process(rule("add_sanitizer"), file)
    once = file.read_text()
    in_process(rule("add_sanitizer"), file)

    assert 'sanitize(loader, owner="accelerate")\n' in once
    assert file.read_text() == once


def test_a_vendored_check_that_is_there_is_used(project: Path) -> None:
    text = PREPARED.format(imports="\nfrom shardfix_sanitizer import sanitize", arguments="dataset, batch_size=2")
    file = project / "train.py"
    file.write_text(text)

    in_process(rule("add_sanitizer"), file)

    assert file.read_text() == text.replace(
        "loader = accelerator", 'sanitize(loader, owner="accelerate")\nloader = accelerator'
    )


def test_importing_a_codemod_does_not_import_libcst() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, shardfix.codemods, shardfix.libcst_command\n"
            "print(*[name for name in sys.modules if name == 'libcst' or name.startswith('libcst.')])",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "\n"
