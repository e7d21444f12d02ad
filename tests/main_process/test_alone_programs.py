"""Where one process alone evaluated, all ranks do so after the change: the same words, said once, the same files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from alone_programs import PROGRAMS as IN_MEMORY
from alone_programs import Program
from held_programs import HELD
from loading_programs import LOADING

from shardfix.config import Asked, load
from shardfix.engine import migrate

PROGRAMS = (*IN_MEMORY, *LOADING, *HELD)
OURS = {"train.py", "store", "shardfix_evaluation.py", "__pycache__"}


def at(number: int) -> str:
    return f"{number:02d}"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which every program was run before and after its change."""
    pytest.importorskip("torch")
    top = tmp_path_factory.mktemp("alone")
    for number, program in enumerate(PROGRAMS):
        for variant in ("before", "after"):
            folder = top / at(number) / variant
            folder.mkdir(parents=True)
            (folder / "train.py").write_text(program.text)
            if program.other:
                (folder / program.other[0]).write_text(program.other[1])
        changed(top / at(number) / "after")
    # 21 is ragged on two ranks and on three; 24 is even on both
    for size, chosen in ((21, [p for p in PROGRAMS if not p.even]), (24, [p for p in PROGRAMS if p.even])):
        sized = top.parent / f"{top.name}-{size}"
        sized.mkdir()
        for program in chosen:
            (top / at(PROGRAMS.index(program))).rename(sized / at(PROGRAMS.index(program)))
        asked = ["before", "1", "before", "2", "after", "1", "after", "2", "after", "3"]
        script = Path(__file__).with_name("alone_ranks.py")
        subprocess.run([sys.executable, str(script), str(sized), str(size), *asked], check=True, timeout=900)
        for folder in list(sized.iterdir()):
            folder.rename(top / folder.name)
    return top


def changed(folder: Path) -> None:
    config = load(folder, Asked(unsafe=True, sanitizer="off"))
    result = migrate([folder], config=config, write=True, allow_no_vcs=True, verify="no")
    assert result.written, [report.why for report in result.sites]


def told(folder: Path, rank: int = 0) -> str:
    """What a rank printed; it came to its end."""
    failed = folder / f"{rank}.failed"
    assert not failed.exists(), failed.read_text()
    return (folder / f"{rank}.out").read_text()


def written(folder: Path) -> dict[str, bytes]:
    """What a run wrote, by name."""
    found = {p.relative_to(folder): p for p in folder.rglob("*") if p.is_file() and "__pycache__" not in str(p)}
    return {
        str(name): path.read_bytes()
        for name, path in sorted(found.items())
        # what is saved of a model in DistributedDataParallel has other names, and settings know their rank
        if path.suffix not in (".out", ".py", ".bin") and path.name not in OURS
    }


EACH = pytest.mark.parametrize("number", range(len(PROGRAMS)), ids=[p.name for p in PROGRAMS])


@EACH
def test_the_condition_goes_and_what_shows_and_writes_keeps_it(runs: Path, number: int) -> None:
    program: Program = PROGRAMS[number]
    lines = [line.strip() for line in (runs / at(number) / "after" / "train.py").read_text().splitlines()]
    assert [line for line in program.has if line not in lines] == []


@EACH
def test_one_process_does_what_it_did(runs: Path, number: int) -> None:
    before, after = (runs / at(number) / f"{variant}-1" for variant in ("before", "after"))
    assert told(after) == told(before)
    assert written(after) == written(before)


@EACH
@pytest.mark.parametrize("world", [2, 3])
def test_several_ranks_say_once_what_one_process_says(runs: Path, number: int, world: int) -> None:
    before, after = runs / at(number) / "before-1", runs / at(number) / f"after-{world}"
    assert told(after) == told(before)
    assert [told(after, rank) for rank in range(1, world)] == [""] * (world - 1)
    known = written(before)
    assert {name: text for name, text in written(after).items() if name in known} == known
    assert {name for name in written(after) if name not in known} <= {"last.txt"}


@EACH
def test_the_program_as_it_was_said_the_same_with_one_rank_at_work(runs: Path, number: int) -> None:
    alone, before = runs / at(number) / "before-1", runs / at(number) / "before-2"
    if PROGRAMS[number].broken:
        assert list(before.glob("*.failed"))
        return
    assert told(before) == told(alone)
    assert told(before, 1) == ""
