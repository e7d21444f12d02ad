"""The proof of every shape's metric: green as it is migrated, red where a line of it is left out."""

from __future__ import annotations

import pytest
from shapes import SHAPES, Shape

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Options
from shardfix.analysis.sites import Site
from shardfix.planning import make_plan, sites_of
from shardfix.proof.metrics.build import metric_recipes
from shardfix.proof.metrics.model import MetricProof, MetricRecipe
from shardfix.proof.metrics.run import prove_metrics
from shardfix.proof.running.launch import Verifier
from shardfix.rewrite.applier import apply

BY_NAME = {shape.name: shape for shape in SHAPES}
SOME = list(BY_NAME)[::4]  # padding that is left in is one fault for all


def site(text: str) -> Site:
    project = link({"train.py": parse("train.py", text)})
    (found,) = sites_of(project, {"train.py"}, Options())["train.py"]
    return found


def migrated(shape: Shape) -> str:
    options = Options(sanitizer="off", unsafe=shape.unsafe)
    plan = make_plan(link({"train.py": parse("train.py", shape.before)}), ("train.py",), options)
    edits = [e for change in plan.changes for e in change.edits if e.path == "train.py"]
    return apply(shape.before, list(dict.fromkeys(edits)), path="train.py").text


def without(text: str, *lines: str) -> str:
    """The text without some of its lines."""
    kept = [line for line in text.splitlines(keepends=True) if line.strip() not in lines]
    assert len(kept) < len(text.splitlines())
    return "".join(kept)


def recipes(shape: Shape, after: str) -> list[MetricRecipe]:
    found = metric_recipes(site(shape.before), site(after))
    assert isinstance(found, list), found
    return found


@pytest.fixture(scope="module")
def proofs() -> dict[tuple[str, str], MetricProof]:
    """By what was left out and the name of the shape."""
    asked: dict[tuple[str, str], MetricRecipe] = {}
    for name, shape in BY_NAME.items():
        after = migrated(shape)
        (asked["nothing", name],) = recipes(shape, after)
        if shape.adds:
            (asked["the reduction", name],) = recipes(shape, without(after, *shape.adds))
        if name in SOME:
            (asked["unpadded", name],) = recipes(shape, without(after, "val_loader = unpadded(val_loader)"))
    with Verifier(timeout=300.0) as verifier:
        return dict(zip(asked, prove_metrics(list(asked.values()), verifier), strict=True))


@pytest.mark.parametrize("name", [name for name, shape in BY_NAME.items() if shape.rests_on])
def test_a_metric_whose_proof_takes_something_for_granted_is_not_said_to_be_proven(
    proofs: dict[tuple[str, str], MetricProof], name: str
) -> None:
    proof = proofs["nothing", name]
    assert (proof.verdict, proof.reasons) == ("unproven", (f"it holds only if {BY_NAME[name].rests_on}",))


@pytest.mark.parametrize("name", [name for name, shape in BY_NAME.items() if not shape.rests_on])
def test_a_migrated_metric_is_proven(proofs: dict[tuple[str, str], MetricProof], name: str) -> None:
    proof = proofs["nothing", name]
    assert (proof.verdict, proof.reasons) == ("proven", ())
    assert proof.told[0].startswith("2 and 3 ranks evaluate every sample once")


@pytest.mark.parametrize("name", [name for name, shape in BY_NAME.items() if shape.adds])
def test_a_metric_whose_reduction_is_left_out_is_refuted(proofs: dict[tuple[str, str], MetricProof], name: str) -> None:
    assert proofs["the reduction", name].verdict == "refuted"


@pytest.mark.parametrize("name", SOME)
def test_a_metric_whose_padding_is_left_in_is_refuted(proofs: dict[tuple[str, str], MetricProof], name: str) -> None:
    assert proofs["unpadded", name].verdict == "refuted"
