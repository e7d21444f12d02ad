"""The proof of an evaluation of one sample a step is one of that batch size."""

from __future__ import annotations

import pytest
from test_one_sample_a_step import PROGRAMS, single

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Options
from shardfix.analysis.sites import Site
from shardfix.planning import make_plan, sites_of
from shardfix.proof.metrics.build import metric_recipes
from shardfix.proof.metrics.model import MetricProof
from shardfix.proof.metrics.run import prove_metrics
from shardfix.proof.running.launch import Verifier
from shardfix.rewrite.applier import apply

SUMS = "sums, a mean over the steps and a count of them"
WRITTEN = "a batch size that is written out"


def site(text: str) -> Site:
    (found,) = sites_of(link({"train.py": parse("train.py", text)}), {"train.py"}, Options())["train.py"]
    return found


def migrated(text: str) -> str:
    plan = make_plan(link({"train.py": parse("train.py", text)}), ("train.py",), Options(sanitizer="off"))
    edits = [e for change in plan.changes for e in change.edits if e.path == "train.py"]
    return apply(text, list(dict.fromkeys(edits)), path="train.py").text


@pytest.fixture(scope="module")
def proofs() -> dict[tuple[str, bool], MetricProof]:
    """By the program, and whether its sums are put together."""
    asked = {}
    for name in (SUMS, WRITTEN):
        before = single(PROGRAMS[name][0])
        after = migrated(before)
        (line,) = PROGRAMS[name][1]
        for whole, text in ((True, after), (False, after.replace(line, "pass"))):
            found = metric_recipes(site(before), site(text))
            assert isinstance(found, list), found
            (asked[name, whole],) = found
    with Verifier(timeout=200.0) as verifier:
        return dict(zip(asked, prove_metrics(list(asked.values()), verifier), strict=True))


@pytest.mark.parametrize("name", [SUMS, WRITTEN])
def test_it_is_proven_and_refuted_where_the_sums_are_not_put_together(
    proofs: dict[tuple[str, bool], MetricProof], name: str
) -> None:
    assert [proofs[name, whole].verdict for whole in (True, False)] == ["proven", "refuted"]


def test_the_batch_size_stays_and_no_sum_is_taken_for_one_of_means_over_batches() -> None:
    before = single(PROGRAMS[WRITTEN][0])
    found = metric_recipes(site(before), site(migrated(before)))
    assert isinstance(found, list)
    assert "batch_size=1" in found[0].after.build
    assert "unpadded(loader, uneven=True)" in found[0].after.build
    assert found[0].weighted == ()
