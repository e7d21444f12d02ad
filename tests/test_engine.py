"""The engine on real projects under git: what is written, what is refused and reported, and what stays as it was."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from shardfix import planning, sanitizer
from shardfix.analysis.model import Options
from shardfix.analysis.rules import Planned
from shardfix.analysis.sites import Site
from shardfix.config import Asked, load
from shardfix.engine import EngineError, migrate, scan
from shardfix.result import RunResult
from shardfix.sources.text import SourceError

PREPARED = (
    "from accelerate import Accelerator\n"
    "from torch.utils.data import DataLoader{imports}\n"
    "\n"
    "accelerator = Accelerator()\n"
    "dataset = list(range(16))\n"
    "loader = DataLoader(dataset, batch_size=2{sampler})\n"
    "loader = accelerator.prepare(loader)\n"
    "for batch in loader:\n"
    "    pass\n"
)
REDUNDANT = PREPARED.format(imports=", SequentialSampler", sampler=", sampler=SequentialSampler(dataset)")
RIGHT = PREPARED.format(imports="", sampler="")
CHECKED = (
    "from accelerate import Accelerator\n"
    "from torch.utils.data import DataLoader\n"
    "\n"
    "from shardfix_sanitizer import sanitize\n"
    "\n"
    "accelerator = Accelerator()\n"
    "dataset = list(range(16))\n"
    "loader = DataLoader(dataset, batch_size=2)\n"
    'sanitize(loader, owner="accelerate")\n'
    "loader = accelerator.prepare(loader)\n"
    "for batch in loader:\n"
    "    pass\n"
)
SINGLE = (
    "from torch.utils.data import DataLoader, SequentialSampler\n"
    "\n"
    "dataset = list(range(8))\n"
    "loader = DataLoader(dataset, sampler=SequentialSampler(dataset), batch_size=2)\n"
)
DDP_EVAL = (
    "import torch.distributed as dist\n"
    "from torch.utils.data import DataLoader\n"
    "\n"
    'dist.init_process_group("gloo")\n'
    "val_set = list(range(7))\n"
    "val_loader = DataLoader(val_set, batch_size=2)\n"
    "total = 0\n"
    "for batch in val_loader:\n"
    "    total += batch.sum()\n"
)
UNKNOWN = (
    "from accelerate import Accelerator\n"
    "from torch.utils.data import DataLoader, SequentialSampler\n"
    "\n"
    "accelerator = Accelerator()\n"
    "\n"
    "\n"
    "def build(dataset):\n"
    "    return DataLoader(dataset, sampler=SequentialSampler(dataset))\n"
)


def git(folder: Path, *args: str) -> str:
    done = subprocess.run(["git", *args], cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


def project(folder: Path, files: dict[str, str]) -> Path:
    """A committed project."""
    for name, text in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode())
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "all")
    return folder


def run(
    root: Path,
    asked: Asked | None = None,
    paths: Sequence[str] = (),
    *,
    write: bool = False,
    allow_dirty: bool = False,
    allow_no_vcs: bool = False,
) -> RunResult:
    config = load(root, asked or Asked(sanitizer="off"))
    return migrate(
        [root / path for path in paths],
        config=config,
        write=write,
        verify="no",
        allow_dirty=allow_dirty,
        allow_no_vcs=allow_no_vcs,
    )


def codes(result: RunResult) -> list[str]:
    """The first code of each change."""
    return [change.codes[0] for change in result.changes]


def findings(result: RunResult) -> list[str]:
    return [f.code for report in result.sites for f in report.findings]


def verdicts(result: RunResult) -> list[str]:
    return [report.verdict for report in result.sites]


def test_migrate_writes_and_a_second_run_changes_nothing(tmp_path: Path) -> None:
    root = project(tmp_path, {"train.py": REDUNDANT})

    first = run(root, write=True)
    second = run(root, write=True, allow_dirty=True)

    assert (first.written, codes(first)) == (True, ["SHD101"])
    assert (root / "train.py").read_text() == RIGHT
    assert (second.written, second.changes, second.files) == (False, (), ())
    assert git(root, "status", "--porcelain") == " M train.py\n"


def test_without_write_the_result_holds_the_new_bytes_and_the_file_its_old(tmp_path: Path) -> None:
    root = project(tmp_path, {"train.py": REDUNDANT})

    result = run(root)

    assert [(f.path, f.before, f.after) for f in result.files] == [("train.py", REDUNDANT.encode(), RIGHT.encode())]
    assert git(root, "status", "--porcelain") == ""


def test_a_change_of_two_files_is_written_whole(tmp_path: Path) -> None:
    root = project(tmp_path, {"train.py": REDUNDANT})

    result = run(root, Asked(), write=True)

    assert [f.path for f in result.files] == ["shardfix_sanitizer.py", "train.py"]
    assert (root / "train.py").read_text() == CHECKED
    assert "def sanitize(" in (root / "shardfix_sanitizer.py").read_text()
    assert [change.codes for change in result.changes] == [("SHD101", "SHD601")]


def test_a_file_of_the_project_s_own_is_never_taken_for_an_older_copy(tmp_path: Path) -> None:
    root = project(tmp_path, {"train.py": REDUNDANT, "shardfix_sanitizer.py": "VERSION = 0\n"})

    with pytest.raises(EngineError) as raised:
        run(root, Asked(), write=True)

    assert str(raised.value) == (
        "shardfix_sanitizer.py: the project has a file of its own where shardfix would put its functions; "
        "rename it, or pass --sanitizer-from package"
    )
    assert git(root, "status", "--porcelain") == ""


def test_an_older_copy_is_brought_up_to_date(tmp_path: Path) -> None:
    older = Path(sanitizer.__file__).read_text().replace("def sanitize(", "def sanitize_(", 1)
    root = project(tmp_path, {"train.py": REDUNDANT, "shardfix_sanitizer.py": older})

    run(root, Asked(), write=True)

    assert (root / "shardfix_sanitizer.py").read_text() == Path(sanitizer.__file__).read_text()


def test_a_dirty_file_is_not_touched(tmp_path: Path) -> None:
    root = project(tmp_path, {"train.py": RIGHT})
    (root / "train.py").write_text(REDUNDANT)

    with pytest.raises(EngineError) as caught:
        run(root, write=True)

    assert str(caught.value) == (
        "train.py: has changes that are not committed; commit or stash them, or pass --allow-dirty"
    )
    assert (root / "train.py").read_text() == REDUNDANT
    assert run(root, write=True, allow_dirty=True).written


def test_a_dirty_file_that_is_not_to_change_is_no_matter(tmp_path: Path) -> None:
    root = project(tmp_path, {"train.py": REDUNDANT, "notes.py": "x = 1\n"})
    (root / "notes.py").write_text("x = 2\n")
    assert run(root, write=True).written


def test_outside_git_nothing_is_written_unasked(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(REDUNDANT)
    (tmp_path / "pyproject.toml").write_text("")

    with pytest.raises(EngineError) as caught:
        run(tmp_path, write=True)

    assert "not under git" in str(caught.value)
    assert "--allow-no-vcs" in str(caught.value)
    assert (tmp_path / "train.py").read_text() == REDUNDANT
    assert run(tmp_path, write=True, allow_no_vcs=True).written
    assert (tmp_path / "train.py").read_text() == RIGHT


def test_a_file_that_does_not_parse_is_a_problem_and_the_others_are_done(tmp_path: Path) -> None:
    root = project(tmp_path, {"train.py": REDUNDANT, "old.py": 'from torch.utils.data import DataLoader\nprint "x"\n'})

    result = run(root, write=True)

    assert (root / "train.py").read_text() == RIGHT
    (problem,) = result.problems
    assert problem.where == "old.py:2:1"
    assert problem.message.startswith("not parsed: Python 2 syntax")


def test_paths_choose_what_is_edited_and_facts_come_from_the_whole_project(tmp_path: Path) -> None:
    factory = "from torch.utils.data import DataLoader\n\n\ndef make(d):\n    return DataLoader(d)\n"
    main = 'import torch.distributed as dist\nfrom data import make\n\ndist.init_process_group("gloo")\nmake([1])\n'
    root = project(tmp_path, {"data.py": factory, "main.py": main, "train.py": REDUNDANT})

    result = run(root, paths=["data.py"])

    (report,) = result.sites
    assert (report.location.path, report.owner) == ("data.py", "ddp")
    assert [str(e.location) for e in report.owner_evidence] == ["main.py:4:1"]
    assert result.files == ()


def test_a_path_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"gone\.py"):
        run(project(tmp_path, {"train.py": RIGHT}), paths=["gone.py"])


@pytest.mark.parametrize(
    ("asked", "edited"),
    [
        pytest.param(Asked(sanitizer="off", select=("SHD101",)), True, id="selected"),
        pytest.param(Asked(sanitizer="off", select=("SHD1",)), True, id="selected by its beginning"),
        pytest.param(Asked(sanitizer="off", select=("remove_redundant_sampler",)), True, id="selected by codemod"),
        pytest.param(Asked(sanitizer="off", select=("SHD2",)), False, id="another selected"),
        pytest.param(Asked(sanitizer="off", ignore=("SHD101",)), False, id="ignored"),
        pytest.param(Asked(sanitizer="off", ignore=("SHD201",)), True, id="another ignored"),
    ],
)
def test_select_and_ignore(tmp_path: Path, asked: Asked, edited: bool) -> None:
    result = run(project(tmp_path, {"train.py": REDUNDANT}), asked)
    assert codes(result) == (["SHD101"] if edited else [])
    assert verdicts(result) == (["edit"] if edited else ["kept"])


def test_per_file_ignores(tmp_path: Path) -> None:
    root = project(
        tmp_path,
        {
            "pyproject.toml": '[tool.shardfix.per-file-ignores]\n"legacy/*" = ["SHD1"]\n',
            "legacy/train.py": REDUNDANT,
            "train.py": REDUNDANT,
        },
    )
    assert [f.path for f in run(root).files] == ["train.py"]


def test_a_target_never_overrides_a_proven_owner(tmp_path: Path) -> None:
    root = project(tmp_path, {"train.py": REDUNDANT})

    against = run(root, Asked(sanitizer="off", target="ddp"))

    assert (against.files, findings(against)) == ((), ["SHD926"])
    assert codes(run(root, Asked(sanitizer="off", target="accelerate"))) == ["SHD101"]


def test_keep_is_counted_and_told_where_it_keeps_nothing(tmp_path: Path) -> None:
    root = project(
        tmp_path,
        {
            "used.py": REDUNDANT.replace("(dataset))\n", "(dataset))  # shardfix: keep[SHD101] measured\n"),
            "other_code.py": REDUNDANT.replace("(dataset))\n", "(dataset))  # shardfix: keep[SHD3]\n"),
            "unused.py": RIGHT.replace("size=2)\n", "size=2)  # shardfix: keep\n"),
        },
    )

    result = run(root)

    assert [f.path for f in result.files] == ["other_code.py"]
    assert [(s.where, s.codes, s.reason, s.used) for s in result.suppressions] == [
        ("other_code.py:6:81", ("SHD3",), "", False),
        ("unused.py:6:45", (), "", False),
        ("used.py:6:81", ("SHD101",), "measured", True),
    ]
    assert {r.location.path: r.verdict for r in result.sites}["used.py"] == "kept"


def test_a_comment_settles_an_owner_that_the_source_does_not_show(tmp_path: Path) -> None:
    told = UNKNOWN.replace("(dataset))\n", "(dataset))  # shardfix: owner=accelerate\n")
    root = project(tmp_path, {"told.py": told, "untold.py": UNKNOWN})

    result = run(root)

    assert {str(r.location): r.verdict for r in result.sites} == {"told.py:8:12": "edit", "untold.py:8:12": "refused"}
    assert [f.path for f in result.files] == ["told.py"]
    assert "SHD901" in findings(result)


def test_an_unsafe_edit_is_made_only_when_asked_for(tmp_path: Path) -> None:
    root = project(tmp_path, {"train.py": DDP_EVAL})

    asked_not, asked = run(root), run(root, Asked(sanitizer="off", unsafe=True))

    assert (asked_not.files, findings(asked_not)) == ((), ["SHD904"])
    (change,) = asked.changes
    assert (change.codes, change.tier) == (("SHD302",), "unsafe")
    assert change.reason == "the metric is not reduced across ranks: sharded, each rank's covers its own share only"
    assert b"DistributedSampler(val_set, shuffle=False)" in asked.files[0].after


@pytest.mark.parametrize("path", ["tests/loaders.py", "test_train.py", "pkg/train_test.py"])
def test_a_test_s_own_loader_is_refused_unless_unsafe(tmp_path: Path, path: str) -> None:
    root = project(tmp_path, {path: REDUNDANT})

    asked_not, asked = run(root), run(root, Asked(sanitizer="off", unsafe=True))

    assert (asked_not.files, findings(asked_not)) == ((), ["SHD927"])
    assert [(c.codes, c.tier, c.reason) for c in asked.changes] == [
        (("SHD101",), "unsafe", "a test may need its loader just as it is")
    ]


_RUN = 'if __name__ == "__main__":\n    print(loader)\n'
_TEST = "def test_it():\n    assert loader\n"


@pytest.mark.parametrize(
    ("path", "text", "code"),
    [
        ("scripts/test_net.py", REDUNDANT + _RUN, "SHD101"),
        ("tools/net_test.py", REDUNDANT + _RUN, "SHD101"),
        ("scripts/test_net.py", REDUNDANT + _TEST + _RUN, "SHD927"),
        ("scripts/test_net.py", "import pytest\n" + REDUNDANT + _RUN, "SHD927"),
        ("scripts/test_net.py", REDUNDANT, "SHD927"),
        ("tests/test_net.py", REDUNDANT + _RUN, "SHD927"),
    ],
    ids=["a program", "named at its end", "it has a test", "it asks pytest", "it is not run", "it stands with tests"],
)
def test_a_program_that_is_called_a_test_is_one_only_if_it_has_a_test(
    tmp_path: Path, path: str, text: str, code: str
) -> None:
    result = run(project(tmp_path, {path: text}))
    assert [*findings(result), *(c for change in result.changes for c in change.codes)] == [code]


def test_cosmetic_changes_can_be_left_out(tmp_path: Path) -> None:
    root = project(tmp_path, {"train.py": SINGLE})
    assert codes(run(root)) == ["SHD103"]
    assert codes(run(root, Asked(sanitizer="off", cosmetic=False))) == []
    assert codes(run(root, Asked(sanitizer="off", cosmetic=False, select=("SHD103",)))) == ["SHD103"]


COMMENTED = (
    "from accelerate import Accelerator\n"
    "from torch.utils.data import DataLoader\n"
    "\n"
    "accelerator = Accelerator()\n"
    "dataset = list(range(16))\n"
    "loader = accelerator.prepare(DataLoader(dataset, batch_size=2))\n"
    "for epoch in range(2):\n"
    "    (\n"
    "        loader  # prepared\n"
    "        .sampler\n"
    "    ).set_epoch(epoch)\n"
    "    for batch in loader:\n"
    "        pass\n"
)


def test_an_edit_that_fails_a_gate_leaves_the_file_and_is_reported(tmp_path: Path) -> None:
    """The receiver that would be replaced holds a comment, which must not be lost."""
    root = project(tmp_path, {"commented.py": COMMENTED, "train.py": REDUNDANT})

    result = run(root, write=True)

    assert (root / "commented.py").read_text() == COMMENTED
    assert (root / "train.py").read_text() == RIGHT
    assert codes(result) == ["SHD101"]
    ((change, why),) = result.dropped
    assert (change.codes, str(change.site)) == (("SHD402",), "commented.py:6:30")
    report = next(r for r in result.sites if r.location.path == "commented.py")
    assert report.verdict == "refused"
    assert [f.code for f in report.findings] == ["SHD918"]
    assert why in report.why
    assert [p.where for p in result.problems] == ["commented.py:6:30"]


def test_of_the_changes_of_a_file_only_the_one_that_fails_is_dropped(tmp_path: Path) -> None:
    more = (
        "other = list(range(8))\n"
        "second = accelerator.prepare(DataLoader(other, sampler={sampler}))\n"
        "for batch in second:\n"
        "    pass\n"
    )
    imports = ("import DataLoader\n", "import DataLoader, SequentialSampler\n")
    text = COMMENTED.replace(*imports) + more.format(sampler="SequentialSampler(other)")
    root = project(tmp_path, {"train.py": text})

    result = run(root, write=True)

    assert (root / "train.py").read_text() == COMMENTED + more.replace(", sampler={sampler}", "")
    assert codes(result) == ["SHD101"]
    assert [change.codes for change, _ in result.dropped] == [("SHD402",)]


def test_a_hazard_keeps_edits_away_whatever_is_selected(tmp_path: Path) -> None:
    """num_replicas is a constant, and the epoch is never told: telling it would not make the loader right."""
    text = (
        "import torch.distributed as dist\n"
        "from torch.utils.data import DataLoader\n"
        "from torch.utils.data.distributed import DistributedSampler\n"
        "\n"
        'dist.init_process_group("gloo")\n'
        "train_set = list(range(16))\n"
        "sampler = DistributedSampler(train_set, 4, dist.get_rank())\n"
        "train_loader = DataLoader(train_set, batch_size=2, sampler=sampler)\n"
        "for epoch in range(3):\n"
        "    for batch in train_loader:\n"
        "        pass\n"
    )
    root = project(tmp_path, {"train.py": text})
    for asked in (
        Asked(sanitizer="off"),
        Asked(sanitizer="off", select=("SHD401",)),
        Asked(sanitizer="off", ignore=("SHD705",)),
    ):
        result = run(root, asked)
        assert (codes(result), verdicts(result), findings(result)) == ([], ["refused"], ["SHD705"])


def test_every_site_has_a_verdict_and_a_refused_one_says_why(tmp_path: Path) -> None:
    root = project(tmp_path, {"a.py": REDUNDANT, "b.py": RIGHT, "c.py": DDP_EVAL, "d.py": UNKNOWN, "e.py": SINGLE})
    result = scan([], config=load(root))
    assert [(r.location.path, r.verdict) for r in result.sites] == [
        ("a.py", "edit"),
        ("b.py", "right"),
        ("c.py", "refused"),
        ("d.py", "refused"),
        ("e.py", "edit"),
    ]
    assert all(r.why for r in result.sites)
    assert all(r.findings[0].remedy for r in result.sites if r.verdict == "refused")


def test_scan_reads_only(tmp_path: Path) -> None:
    root = project(tmp_path, {"train.py": REDUNDANT})
    result = scan([], config=load(root))
    assert (result.written, result.files) == (False, ())
    assert git(root, "status", "--porcelain") == ""


def test_the_sanitizer_can_stand_at_every_right_loader(tmp_path: Path) -> None:
    root = project(tmp_path, {"train.py": RIGHT})
    assert codes(run(root, Asked(sanitizer="changed"))) == []
    result = run(root, Asked(sanitizer="all"), write=True)
    assert codes(result) == ["SHD601"]
    assert (root / "train.py").read_text() == CHECKED
    assert run(root, Asked(sanitizer="all"), write=True, allow_dirty=True).files == ()


def test_the_sanitizer_does_not_stop_what_one_process_reads(tmp_path: Path) -> None:
    """Every rank builds the plain loader and would check it, but only rank 0 reads it, which is right."""
    guarded = DDP_EVAL.replace("for batch", "if dist.get_rank() == 0:\n  for batch")
    root = project(tmp_path, {"train.py": guarded})
    result = run(root, Asked(sanitizer="all"))
    assert (verdicts(result), result.files) == (["right"], ())


def test_the_options_of_a_project_stand_in_its_settings(tmp_path: Path) -> None:
    root = project(tmp_path, {"pyproject.toml": '[tool.shardfix]\nsanitizer = "off"\n', "train.py": REDUNDANT})
    assert load(root).options == Options(sanitizer="off")
    assert [c.codes for c in run(root, Asked()).changes] == [("SHD101",)]


def test_a_defect_of_ours_in_one_file_is_told_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plan(sites: Sequence[Site], options: Options) -> Planned:
        if sites and sites[0].module.path == "bad.py":
            raise AttributeError("no such thing")
        return Planned()

    rule = replace(planning.RULES[0], plan=plan)
    monkeypatch.setattr(planning, "RULES", (rule, *planning.RULES))
    root = project(tmp_path, {"bad.py": RIGHT, "good.py": REDUNDANT})
    result = scan([root], config=load(root))
    assert [(s.location.path, s.verdict) for s in result.sites] == [("good.py", "edit")]
    (problem,) = result.problems
    assert problem.where == "bad.py"
    assert problem.message.startswith("internal error, the file is left alone: AttributeError: no such thing")
    done = migrate([root], config=load(root), write=True, verify="no")
    assert [p.where for p in done.problems] == ["bad.py"]
    assert (root / "good.py").read_text() == CHECKED
    assert (root / "bad.py").read_text() == RIGHT


def test_no_rule_makes_an_unsafe_change_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    removal = next(r for r in planning.RULES if "SHD101" in r.codes)

    def plan(sites: Sequence[Site], options: Options) -> Planned:
        found = removal.plan(sites, options)
        return Planned(tuple(replace(c, tier="unsafe", reason="a guess") for c in found.changes))

    monkeypatch.setattr(planning, "RULES", (replace(removal, plan=plan),))
    root = project(tmp_path, {"train.py": REDUNDANT})
    result = run(root, Asked())
    assert result.files == ()
    (finding,) = result.sites[0].findings
    assert (finding.code, finding.remedy) == ("SHD101", "`--unsafe` makes the change")
    assert finding.message.endswith(": a guess")
    assert [c.tier for c in run(root, Asked(unsafe=True)).changes] == ["unsafe"]


KILLED = """
import os, signal, sys
from pathlib import Path
from shardfix.config import load
from shardfix.engine import migrate
from shardfix.sources import write  # what it imports is no operation on the user's files
root, left = Path(sys.argv[1]), 2
def count(event, args):
    global left
    if event in ("os.rename", "os.link"):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(count)
migrate([root], config=load(root), write=True, verify="no")
"""


def test_the_next_run_ends_what_an_interrupted_one_began_and_says_so(tmp_path: Path) -> None:
    root = project(tmp_path, {"train.py": REDUNDANT})
    done = subprocess.run([sys.executable, "-c", KILLED, str(root)], capture_output=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    result = run(root, Asked(), write=True)
    assert [(n.code, n.location.path) for n in result.notes] == [
        ("SHD932", "shardfix_sanitizer.py"),
        ("SHD932", "train.py"),
    ]
    assert {n.message for n in result.notes} == {"an earlier run was interrupted: this file now has its new content"}
    assert (root / "train.py").read_text() == CHECKED
    assert result.files == ()
