"""The text names every site, shows the user's text as it is, and obeys none of it."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from results_by_hand import DOUBLE, RIGHT, change, everything, proof, site

from shardfix.analysis.model import Finding, Location
from shardfix.report.terminal import Page, Styled, emit, emit_diff, visible, wants_colour
from shardfix.report.text import migrate_page, scan_page, verify_page
from shardfix.result import RunResult

TITLES = {"SHD901": "owner not shown"}


def every_page(result: RunResult) -> dict[str, str]:
    pages = {"scan": scan_page(result), "migrate": migrate_page(result, TITLES), "verify": verify_page(result)}
    return {name: page.plain() for name, page in pages.items()}


def test_every_site_problem_and_unread_path_is_named_in_every_text() -> None:
    result = everything(Path.cwd())
    for name, text in every_page(result).items():
        for report in result.sites:
            assert str(report.location) in text, name
        assert "error: bad.py:3:7: invalid syntax; correct it" in text, name
        assert "not read (virtual environment): venv" in text, name
        assert "old.py:9  keep[SHD301] has nothing to suppress; remove it" in text, name
        assert "SHD710 local rank used as rank" in text, name
        assert (
            "7 loaders in 6 files: 3 to edit, 1 right, 1 refused (SHD901 1), "
            "1 of other frameworks (lightning 1), 1 kept"
        ) in text


def test_scan_of_one_loader() -> None:
    result = RunResult(Path.cwd(), (site(DOUBLE, "edit", changes=(change(),)),), scanned_files=1)
    assert scan_page(result).plain() == (
        "train.py:4:10  train, accelerate, DistributedSampler: to edit\n"
        "    accelerate: loader = accelerator.prepare(loader)  (line 6)\n"
        "    edit: SHD201 remove the DistributedSampler: accelerate shards the loader again  [safe]\n"
        "\n"
        "1 loader in 1 file: 1 to edit, 0 right, 0 refused\n"
        "See the edits with `shardfix migrate --diff`, make them with `shardfix migrate`.\n"
    )


def test_change_is_shown_with_its_consequences_its_proof_and_both_maps() -> None:
    result = everything(Path.cwd())
    lines = migrate_page(result, TITLES).plain().splitlines()
    assert lines[:6] == [
        "train.py:4:10  SHD201 remove the DistributedSampler: accelerate shards the loader again  [safe]",
        "    so: an epoch has 8 steps per rank instead of 4",
        "    proof: proven, 3 padded",
        "        the original shows sharded-twice",
        "        assumed: args.batch_size = 8",
        "        before: 2 ranks, 4 samples, one epoch",
    ]
    assert "        after: 2 ranks, 4 samples, one epoch" in lines
    assert "    not applied: --unsafe applies it" in lines
    assert "  SHD901 owner not shown; what to do: say the owner" in lines
    assert "        rank 0 and rank 1 both read 3" in lines  # why the dropped change was refuted


def test_maps_can_be_left_out_or_all_drawn() -> None:
    changes = tuple(change(Location("train.py", line, 1)) for line in range(1, 6))
    proofs = tuple(proof("proven", Location("train.py", line, 1)) for line in range(1, 6))
    result = RunResult(Path.cwd(), changes=changes, proofs=proofs)
    assert [
        migrate_page(result, {}, maps=maps).plain().count("before: 2 ranks") for maps in ("none", "first", "all")
    ] == [
        0,
        3,
        5,
    ]


def test_unproven_is_never_shown_as_success() -> None:
    result = RunResult(Path.cwd(), changes=(change(),), proofs=(proof("unproven"),))
    text = migrate_page(result, TITLES).plain()
    assert "proof: unproven" in text
    assert "proofs: 1 unproven" in text
    assert "1 proven" not in text
    unverified = replace(result, proofs=(), verification="torch is not installed")
    assert "not verified: torch is not installed" in migrate_page(unverified, TITLES).plain()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("loader[int]", "loader[int]", id="brackets are not markup"),
        pytest.param("[bold]a[/bold].py", "[bold]a[/bold].py", id="nor are tags"),
        pytest.param(":warning:.py", ":warning:.py", id="nor emoji codes"),
        pytest.param("a\x1b[31m.py", "a\\x1b[31m.py", id="escape sequences"),
        pytest.param("a\rb\nc", "a\\rb\\nc", id="line ends"),
        pytest.param("a\u202eyp.exe", "a\\u202eyp.exe", id="right to left"),
        pytest.param("caf\udce9", "caf\\udce9", id="undecodable"),
        pytest.param("größe\tß", "größe\tß", id="text stays"),
    ],
)
def test_text_of_the_user_is_shown_and_not_obeyed(text: str, shown: str) -> None:
    assert visible(text) == shown
    page = Page()
    page.line(Styled(text, "bold"))
    assert page.plain() == f"{shown}\n"
    stream = io.StringIO()
    emit(page, stream, colour=True)
    assert stream.getvalue().replace("\x1b[0m\x1b[1m", "") == f"\x1b[1m{shown.expandtabs(8)}\x1b[0m\n"


def test_hostile_names_do_nothing_in_any_text() -> None:
    evil = Location("\x1b]0;pwned\x07[red]a.py", 1, 1)
    result = RunResult(
        Path.cwd(),
        sites=(site(evil, "refused", why="\x1b[2J"), site(RIGHT, "right", why="[link=x]")),
        skipped=(("b\x1b[31m.py", "virtual\x1benvironment"),),
    )
    for text in every_page(result).values():
        assert "\x1b" not in text
        assert "\\x1b]0;pwned\\x07[red]a.py:1:1" in text
        assert "[link=x]" in text


@pytest.mark.parametrize(
    ("environment", "terminal", "colour"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "0"}, False, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, True, False),
    ],
)
def test_colour_is_for_terminals(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], terminal: bool, colour: bool
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    stream = io.StringIO()
    stream.isatty = lambda: terminal  # type: ignore[method-assign]
    assert wants_colour(stream) is colour


def test_a_change_that_was_refuted_says_why_once() -> None:
    refused = Finding("SHD925", DOUBLE, "the rewrite was refuted (SHD201): rank 0 and rank 1 both read 3", (), "see it")
    result = RunResult(
        Path.cwd(),
        (site(DOUBLE, "refused", findings=(refused,)),),
        dropped=((change(), "rank 0 and rank 1 both read 3"),),
        proofs=(replace(proof("refuted"), cause="overlap", map_before=None, map_after=None, stand_ins=()),),
    )
    lines = migrate_page(result, {"SHD925": "the rewrite was refuted"}).plain().splitlines()
    assert lines[:5] == [
        "train.py:4:10  SHD201 remove the DistributedSampler: accelerate shards the loader again",
        "    left as it was: SHD925 the rewrite was refuted",
        "    proof: refuted: overlap",
        "        rank 0 and rank 1 both read 3",
        "        what to do: let one sampler deal the samples out: DistributedSampler, or accelerator.prepare()",
    ]
    assert sum("both read 3" in line for line in lines) == 1
    assert "1 refused (SHD925 1); 1 change dropped" in lines[6]


def test_a_change_that_a_gate_keeps_back_says_what_the_gate_says() -> None:
    refused = Finding("SHD918", DOUBLE, "a gate (SHD201): `x` is not bound", (), "report it")
    dropped = ((change(), "`x` is not bound"),)
    result = RunResult(Path.cwd(), (site(DOUBLE, "refused", findings=(refused,)),), dropped=dropped)
    lines = migrate_page(result, {"SHD918": "a gate"}).plain().splitlines()
    assert lines[1:4] == [
        "    left as it was: SHD918 a gate",
        "    why: `x` is not bound",
        "        what to do: report it",
    ]


def test_diff_in_a_pipe_is_the_very_bytes_whatever_force_color_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    emit_diff(b"-a\xe9\r\n+b\x1b\r\n", stream)
    assert stream.buffer.getvalue() == b"-a\xe9\r\n+b\x1b\r\n"  # type: ignore[attr-defined]


def test_long_new_file_is_one_line_on_a_terminal() -> None:
    stream = io.StringIO()
    stream.isatty = lambda: True  # type: ignore[method-assign]
    head = "--- /dev/null\n+++ b/new.py\n@@ -0,0 +1,100 @@\n"
    changed = "diff --git a/train.py b/train.py\n@@ -1 +1 @@\n-a\n+b\n"
    emit_diff((head + "+line\n" * 100 + changed).encode(), stream)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue()).splitlines()
    note = "(100 lines of a new file are not shown on a terminal; they are in a pipe and in --patch FILE)"
    assert lines == ["--- /dev/null", "+++ b/new.py", note, *changed.splitlines()]


def test_what_a_refuted_loader_reads_twice_is_not_called_padding() -> None:
    result = RunResult(Path.cwd(), (site(DOUBLE, "edit", changes=(change(),)),), proofs=(proof("refuted"),))
    lines = verify_page(result).plain().splitlines()
    assert lines[:3] == [
        "train.py:4:10  train, accelerate, DistributedSampler: to edit",
        "    edit: SHD201 remove the DistributedSampler: accelerate shards the loader again  [safe]",
        "    proof: refuted",
    ]
    assert lines[-1] == "See the edits with `shardfix migrate --diff`, make them with `shardfix migrate`."


def test_a_new_file_that_the_program_now_needs_is_to_be_committed() -> None:
    assert migrate_page(everything(Path.cwd(), written=True), TITLES).plain().splitlines()[-1] == (
        "New, and imported by what was changed, so commit it too: shard_check.py."
    )


def test_a_change_of_which_a_part_is_made_is_told_with_that_part_and_without_its_proof() -> None:
    part = change(code="SHD507")
    whole = replace(change(code="SHD509", tier="unsafe"), otherwise=part)
    result = RunResult(
        Path.cwd(),
        (site(DOUBLE, "edit", changes=(part,)),),
        (part,),
        dropped=((whole, "rank 0 has 3, and rank 1 has 4"),),
        proofs=(proof(),),
    )
    lines = migrate_page(result, TITLES).plain().splitlines()
    at = next(i for i, line in enumerate(lines) if "SHD509" in line)
    assert lines[at + 1 : at + 3] == [
        "    left out: SHD507 is made without it (see above)",
        "    why: rank 0 has 3, and rank 1 has 4",
    ]
    assert sum("proof: proven" in line for line in lines) == 1


@pytest.mark.parametrize("why", ["owner not shown: nothing starts it", "nothing starts it"])
def test_why_a_loader_is_refused_is_said_once(why: str) -> None:
    finding = Finding("SHD901", DOUBLE, "owner not shown: nothing starts it", remedy="say it")
    result = RunResult(Path.cwd(), (site(DOUBLE, "refused", findings=(finding,), why=why),), scanned_files=1)

    assert scan_page(result).plain().splitlines()[:4] == [
        "train.py:4:10  train, accelerate, DistributedSampler: refused",
        "    accelerate: loader = accelerator.prepare(loader)  (line 6)",
        "    SHD901 owner not shown: nothing starts it",
        "        what to do: say it",
    ]
    assert migrate_page(result, TITLES).plain().splitlines()[:3] == [
        "Refused",
        "  SHD901 owner not shown; what to do: say it",
        "    train.py:4:10  nothing starts it",
    ]


def test_a_refusal_that_says_no_more_than_its_title_names_the_place_alone() -> None:
    finding = Finding("SHD901", DOUBLE, "owner not shown")
    result = RunResult(Path.cwd(), (site(DOUBLE, "refused", findings=(finding,)),))
    assert migrate_page(result, TITLES).plain().splitlines()[2] == "    train.py:4:10"


def test_why_a_loader_is_refused_is_said_where_nothing_else_says_it() -> None:
    result = RunResult(Path.cwd(), (site(DOUBLE, "refused", why="another reason"),))
    assert "refused (another reason)" in scan_page(result).plain()
    assert "refused (another reason)" in verify_page(result).plain()


def test_changes_are_told_in_the_order_of_the_files_and_that_nothing_was_run_once() -> None:
    later, earlier = change(Location("train.py", 9, 1)), change(Location("train.py", 2, 1))
    result = RunResult(Path.cwd(), changes=(later, earlier))
    lines = migrate_page(result, TITLES).plain().splitlines()

    assert [line.split()[0] for line in lines if line.startswith("train.py:")] == ["train.py:2:1", "train.py:9:1"]
    assert [line for line in lines if "not" in line] == ["not verified: --no-verify was given"]


def test_a_change_without_a_proof_among_others_is_told() -> None:
    alone = change(Location("other.py", 2, 1))
    result = RunResult(Path.cwd(), changes=(change(), alone), proofs=(proof(),))
    lines = migrate_page(result, TITLES).plain().splitlines()
    at = lines.index("other.py:2:1  SHD201 remove the DistributedSampler: accelerate shards the loader again  [safe]")
    assert lines[at + 2] == "    proof: not run"
