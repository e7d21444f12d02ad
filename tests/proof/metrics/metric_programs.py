"""Small programs with one evaluation, before and behind a change of it, and the proofs of their metrics."""

from __future__ import annotations

from collections.abc import Mapping

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Options
from shardfix.analysis.sites import Site
from shardfix.planning import sites_of
from shardfix.proof.metrics.build import metric_recipes
from shardfix.proof.metrics.model import MetricProof, MetricRecipe
from shardfix.proof.metrics.run import prove_metrics
from shardfix.proof.running.launch import Verifier

PROGRAM = """\
import os
from collections import defaultdict, deque

import torch
import torch.distributed as dist
import torch.nn.functional as F
from sklearn.metrics import classification_report
from torch.utils.data import DataLoader, DistributedSampler

if "RANK" in os.environ:
    dist.init_process_group("gloo")
val_set = [{{"ids": [1, 2, 3], "y": i % 2}} for i in range(7)]
{more}
{loader}

def validate(model, val_loader):
{body}

print(validate(torch.nn.Linear(1, 2), val_loader))
"""
PLAIN = "val_loader = DataLoader(val_set, batch_size=4{options})"
SHARDED = """\
val_sampler = DistributedSampler(val_set, shuffle=False) if dist.is_initialized() else None
val_loader = DataLoader(val_set, batch_size=4{options}, sampler=val_sampler)
val_loader = unpadded(val_loader)"""


def site(text: str) -> Site:
    """The one loader of a program."""
    project = link({"train.py": parse("train.py", text)})
    (found,) = sites_of(project, {"train.py"}, Options())["train.py"]
    return found


def recipe(
    body: str, options: str = "", *, unsafe: bool = False, undone: tuple[str, ...] = (), more: str = ""
) -> MetricRecipe:
    """Of a change that puts in the lines with ``reduced``, ``in_order``, ``of_all_batches`` or ``synchronize``.

    Args:
        body: of ``validate``, as it is behind the change. ``options``: further ones of the loader.
        more: what else the file defines.
        unsafe: whether the change is offered as one after which means over batches may differ.
        undone: of the lines that it puts in, those that are left out.
    """

    def program(loader: str, lines: list[str]) -> str:
        text = "\n".join(f"    {line}" for line in lines)
        return PROGRAM.format(loader=loader.format(options=options), body=text, more=more)

    added = ("reduced(", "in_order(", "of_all_batches(", ".synchronize()")
    after = body.strip("\n").splitlines()
    before = [line for line in after if not any(word in line for word in added)]
    assert len(before) < len(after)
    after = [line for line in after if line.strip() not in undone]
    found = metric_recipes(site(program(PLAIN, before)), site(program(SHARDED, after)), unsafe=unsafe)
    assert isinstance(found, list), str(found)
    return found[0]


def proven(recipes: Mapping[str, MetricRecipe]) -> dict[str, MetricProof]:
    """The proofs, by the same names."""
    with Verifier(timeout=200.0) as verifier:
        return dict(zip(recipes, prove_metrics(list(recipes.values()), verifier), strict=True))
