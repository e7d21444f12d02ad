"""A catalogue of loaders on real gloo ranks: every faulty one is refuted for its cause, no right one ever is.

SHARDFIX_CATALOGUE names a launch that is run alone (``fabric``, by the versions group, which fetches what that needs).
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from shardfix.proof.model import Proof
from shardfix.proof.running.factory import Asked, Call, prove_factories

pytest.importorskip("torch")
pytest.importorskip("accelerate")

CATALOGUE = Path(__file__).with_name("catalogue")
# how a factory is asked about, by the name that the catalogue gives it
LAUNCHES: dict[str, dict[str, Any]] = {
    "": {},
    "never": {"set_epoch": False},
    "main process": {"set_epoch": "faulty:tell_main_process_only"},
    "eval": {"role": "eval"},
    "no padding": {"padding_allowed": False},
    "mesh": {"nproc": 4, "replicas": 2},
    "prepare": {"owner": "accelerate"},
    "fabric": {},
}


@dataclass(frozen=True)
class Outcome:
    """The proofs of one factory's loaders, and the causes that were expected of it."""

    name: str
    proofs: tuple[Proof, ...]
    causes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        found = {proof.verdict for proof in self.proofs}
        return next(verdict for verdict in ("refuted", "unproven", "proven") if verdict in found)

    @property
    def cause(self) -> str:
        return next((proof.cause for proof in self.proofs if proof.verdict == "refuted"), "")

    def __str__(self) -> str:
        words = "; ".join(reason for proof in self.proofs for reason in proof.reasons)
        return f"{self.name}: {self.verdict} {self.cause} (expected {' or '.join(self.causes) or 'proven'}): {words}"


@pytest.fixture(scope="module")
def outcomes() -> Mapping[str, list[Outcome]]:
    """Every factory of the catalogue, in two launches at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(CATALOGUE))
        patch.chdir(CATALOGUE)
        faulty, right = _module("faulty"), _module("right")
        wanted = [("faulty", name, fault.launch, fault.causes) for name, fault in faulty.FAULTS.items()]
        wanted += [("right", name, one.launch, ()) for name, one in right.RIGHTS.items()]
        if not any(map(importlib.util.find_spec, ("lightning", "lightning_fabric"))):
            wanted = [entry for entry in wanted if entry[2] != "fabric"]
        if only := os.environ.get("SHARDFIX_CATALOGUE"):
            wanted = [entry for entry in wanted if entry[2] == only]
            assert wanted, f"nothing of {only} can be run"
        wanted.sort(key=lambda entry: entry[2] != "fabric")  # those that import the most, in one launch
        first = sum(entry[2] == "fabric" for entry in wanted)
        batches = [[*wanted[:first], *wanted[first + 50 :: 2]], [*wanted[first : first + 50], *wanted[first + 51 :: 2]]]
        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(_launched, batches))
    told: dict[str, list[Outcome]] = {"faulty": [], "right": []}
    for batch, proofs in zip(batches, found, strict=True):
        for module, name, _, causes in batch:
            site = f"{module}:{name}"
            mine = tuple(p for p in proofs if p.site == site or p.site.startswith((f"{site}[", f"{site}.")))
            told[module].append(Outcome(name, mine, causes))
    return told


def _module(name: str) -> Any:
    sys.modules.pop(name, None)
    return importlib.import_module(name)


def _launched(batch: list[tuple[str, str, str, tuple[str, ...]]]) -> list[Proof]:
    """The proofs of many factories from one launch; three ranks are for the right ones, where padding shows."""
    asked = Asked(timeout=600, patience=5)
    calls = [
        Call(f"{module}:{name}", {}, replace(asked, one_more=module == "right", **LAUNCHES[launch]))
        for module, name, launch, _ in batch
    ]
    return prove_factories(calls, asked)


def test_the_catalogue_is_large(outcomes: Mapping[str, list[Outcome]]) -> None:
    assert len(outcomes["faulty"]) >= 40
    assert len(outcomes["right"]) >= 60


def test_every_faulty_loader_is_refuted(outcomes: Mapping[str, list[Outcome]]) -> None:
    assert [str(one) for one in outcomes["faulty"] if one.verdict != "refuted"] == []


def test_the_cause_is_the_right_one(outcomes: Mapping[str, list[Outcome]]) -> None:
    assert [str(one) for one in outcomes["faulty"] if one.cause not in one.causes] == []


def test_no_right_loader_is_refuted(outcomes: Mapping[str, list[Outcome]]) -> None:
    assert [str(one) for one in outcomes["right"] if one.verdict == "refuted"] == []


def test_hardly_a_right_loader_is_unproven(outcomes: Mapping[str, list[Outcome]]) -> None:
    unproven = [str(one) for one in outcomes["right"] if one.verdict == "unproven"]
    assert len(unproven) <= 3, "\n".join(unproven)
