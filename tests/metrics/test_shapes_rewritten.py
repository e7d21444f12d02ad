"""Each evaluation loop of the shapes is rewritten as written out there, once and for all."""

from __future__ import annotations

import difflib

import pytest
from shapes import SHAPES, Shape

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Options
from shardfix.planning import Plan, make_plan
from shardfix.rewrite.applier import apply
from shardfix.rewrite.edits import CreateFile

PATH = "program.py"
GROUP = "if dist.is_available() and dist.is_initialized() else None"
SAMPLER = f"val_sampler = DistributedSampler(val_set, shuffle=False) {GROUP}"
LOADER = "val_loader = DataLoader(val_set, batch_size=batch_size, sampler=val_sampler)"


def plan(text: str, *, unsafe: bool) -> Plan:
    return make_plan(link({PATH: parse(PATH, text)}), (PATH,), Options(sanitizer="off", unsafe=unsafe))


def rewritten(shape: Shape) -> str:
    """The program after the change, as `migrate` makes it."""
    (change,) = plan(shape.before, unsafe=shape.unsafe).changes
    edits = [e for e in change.edits if not isinstance(e, CreateFile)]
    return apply(shape.before, edits, path=PATH).text


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_the_loop_gets_just_these_lines(shape: Shape) -> None:
    after = rewritten(shape)

    changed = [d for d in difflib.ndiff(shape.before.splitlines(), after.splitlines()) if d[:1] in "+-"]
    new = [line[2:].strip() for line in changed if line.startswith("+ ")]
    told = [
        line for line in new if line and "import" not in line and "set_epoch" not in line and "isinstance" not in line
    ]
    loader = [] if shape.sharded else [SAMPLER, LOADER]
    steps = [line for line in told if line not in (*shape.adds, *loader, "val_loader = unpadded(val_loader)")]
    assert [line for line in told if line in shape.adds] == list(shape.adds)
    assert [line for line in told if line in loader] == loader
    assert told.count("val_loader = unpadded(val_loader)") == 1
    assert all("reduced(" in line for line in steps), steps
    assert bool(steps) == shape.steps


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_a_second_run_has_nothing_to_change_or_to_report(shape: Shape) -> None:
    again = plan(rewritten(shape), unsafe=shape.unsafe)

    assert again.changes == ()
    assert [f.code for report in again.reports for f in report.findings] == []


@pytest.mark.parametrize("shape", [s for s in SHAPES if s.unsafe], ids=lambda shape: shape.name)
def test_a_mean_over_batches_is_reduced_only_where_it_is_asked_for(shape: Shape) -> None:
    (report,) = plan(shape.before, unsafe=False).reports
    (change,) = plan(shape.before, unsafe=True).changes

    assert [f.code for f in report.findings] == ["SHD904"]
    assert "its value would not be quite that of one process" in report.findings[0].message
    assert change.tier == "unsafe"
    assert change.reason.startswith("the value is not quite that of one process: line ")


def test_where_every_rank_has_every_sample_once_the_change_is_safe() -> None:
    tiers = {shape.name: plan(shape.before, unsafe=False).changes[0].tier for shape in SHAPES if not shape.unsafe}
    assert set(tiers.values()) == {"safe"}
    assert len(SHAPES) >= 30
