"""What a program combines by itself, however far from the loop, is not summed over the ranks once more."""

from __future__ import annotations

import pytest
from plans import planned

HEAD = (
    "import torch\nimport torch.distributed as dist\nfrom torch.utils.data import DataLoader, DistributedSampler\n"
    "dist.init_process_group()\n"
    "val_loader = DataLoader(val_set, batch_size=4, sampler=DistributedSampler(val_set, shuffle=False))\n"
)
SYNC = "def sync(d):\n    t = torch.tensor([d['s'], d['n']])\n    dist.all_reduce(t)\n    return t.tolist()\n"
RESULT = (
    "class Result:\n    def __init__(self, s, n):\n        self.v = torch.tensor([s, n])\n"
    "    def finish(self):\n        dist.all_reduce(self.v)\n        return self.v.tolist()\n"
)
RUN = (
    "@torch.no_grad()\ndef run(model, loader{more}):\n    s = n = 0\n    for x, y in loader:\n"
    "        s += (model(x).argmax(1) == y).sum().item()\n        n += y.size(0)\n"
)
DICT = "    return {'s': s, 'n': n}\n"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        pytest.param(SYNC + RUN + DICT + "out = sync(run(model, val_loader))\n", "sync", id="given at once"),
        pytest.param(
            SYNC + RUN + DICT + "d = run(model, val_loader)\ne = dict(d)\nout = sync(e)\n", "sync", id="by a name"
        ),
        pytest.param(
            SYNC + RUN + DICT + "def outer(model):\n    return run(model, val_loader)\ndef most(model):\n"
            "    return sync(outer(model))\nmost(model)\n",
            "sync",
            id="two callers up",
        ),
        pytest.param(
            RESULT + RUN + "    return Result(s, n)\nout = run(model, val_loader).finish()\n", "Result", id="object"
        ),
        pytest.param(
            SYNC + RUN.replace("{more}", ", out") + "    out['s'] = s\n    out['n'] = n\nout = {}\n"
            "run(model, val_loader, out)\nprint(sync(out))\n",
            "sync",
            id="put in what the caller gives",
        ),
        pytest.param(
            "class Trainer:\n    @torch.no_grad()\n    def run(self, loader):\n        s = 0\n"
            "        for x, y in loader:\n"
            "            s += (self.model(x).argmax(1) == y).sum().item()\n        self.s = torch.tensor(s)\n"
            "    def report(self):\n        dist.all_reduce(self.s)\nt = Trainer()\nt.run(val_loader)\nt.report()\n",
            "report",
            id="an attribute that a method reduces",
        ),
    ],
)
def test_values_that_are_combined_later(text: str, name: str) -> None:
    found = planned(HEAD + text.replace("{more}", ""))

    assert found.changes == ()
    assert f"`{name}" in found.reports[0].why
    assert "combines the ranks' values once more" in found.reports[0].why


def test_a_collective_that_the_metric_does_not_reach() -> None:
    other = "def train(model):\n    loss = model(1)\n    dist.all_reduce(loss)\n    return loss.item()\n"
    text = HEAD + other + RUN.replace("{more}", "") + "    return s / n\n"
    (change,) = planned(
        text + "def main():\n    train(model)\n    acc = run(model, val_loader)\n    print(acc)\nmain()\n"
    ).changes
    assert (change.codes, change.tier) == (("SHD506",), "safe")


def test_a_quotient_that_is_averaged_over_the_ranks() -> None:
    text = HEAD + RUN.replace("{more}", "") + "    acc = torch.tensor(s / n)\n    dist.all_reduce(acc)\n"
    text += "    acc /= dist.get_world_size()\n    return acc.item()\nrun(model, val_loader)\n"
    found = planned(text)
    assert found.changes == ()
    assert "`s` is read before it is summed over the ranks" in found.reports[0].why
