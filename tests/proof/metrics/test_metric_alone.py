"""A program that makes its group always has one in one process too; one that may not must do without it there."""

from __future__ import annotations

import pytest

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
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler

data = [(torch.tensor([float(i)]), i % 2) for i in range(7)]

def setup():
    dist.init_process_group("gloo")

def make():
    return {loader}

def test(model, loader):
    correct = 0
    for x, y in loader:
        correct += (model(x).argmax(1) == y).sum().item()
{added}    print(correct / len(data))

{main}
"""
BEFORE = {"loader": "DataLoader(data, batch_size=4)", "added": ""}
AFTER = {
    "loader": "unpadded(DataLoader(data, batch_size=4, sampler=DistributedSampler(data, shuffle=False)))",
    "added": "    correct = reduced(correct)\n",
}
RUN = "test(torch.nn.Linear(1, 2), make())"
IN_MAIN = f'if __name__ == "__main__":\n    dist.init_process_group("gloo")\n    {RUN}'
OTHER = "import torch\nfrom train import make, test\n\ntest(torch.nn.Linear(1, 2), make())\n"

ALWAYS = {
    "in the file that is run": (IN_MAIN, ""),
    "by a function there": (IN_MAIN.replace('dist.init_process_group("gloo")', "setup()"), ""),
    "at the top": (f'dist.init_process_group("gloo")\n{RUN}', ""),
}
NOT_ALWAYS = {
    "under a condition": (
        IN_MAIN.replace("dist.init", "if 'RANK' in os.environ:\n        dist.init"),
        "",
    ),
    "by a function under a condition": (f"if 'RANK' in os.environ:\n    setup()\n{RUN}", ""),
    "in the other arm": (f'if __name__ == "__main__":\n    print()\nelse:\n    setup()\n{RUN}', ""),
    "under a condition, and who evaluates is not seen": (
        f"if 'RANK' in os.environ:\n    setup()\n\ndef run():\n    {RUN}".replace(
            "setup()", 'dist.init_process_group("gloo")'
        ),
        "",
    ),
    "not in another program that evaluates": (IN_MAIN, OTHER),
}


def site(text: str, other: str) -> Site:
    files = {"train.py": text, **({"test.py": other} if other else {})}
    (found,) = sites_of(link({path: parse(path, t) for path, t in files.items()}), {"train.py"}, Options())["train.py"]
    return found


@pytest.fixture(scope="module")
def proofs() -> dict[str, MetricProof]:
    asked: dict[str, MetricRecipe] = {}
    for name, (main, other) in {**ALWAYS, **NOT_ALWAYS}.items():
        pair = [site(PROGRAM.format(main=main, **parts), other) for parts in (BEFORE, AFTER)]
        found = metric_recipes(pair[0], pair[1], unsafe=False)
        assert isinstance(found, list), found
        (asked[name],) = found
    with Verifier(timeout=200.0) as verifier:
        return dict(zip(asked, prove_metrics(list(asked.values()), verifier), strict=True))


@pytest.mark.parametrize("name", ALWAYS)
def test_a_group_that_is_made_always_is_there_in_one_process(proofs: dict[str, MetricProof], name: str) -> None:
    assert (proofs[name].verdict, proofs[name].reasons) == ("proven", ())


@pytest.mark.parametrize("name", NOT_ALWAYS)
def test_what_needs_a_group_is_refuted_where_one_process_may_have_none(
    proofs: dict[str, MetricProof], name: str
) -> None:
    assert proofs[name].verdict == "refuted"
    assert proofs[name].reasons[0].startswith("one process raises ValueError: Default process group has not been init")
