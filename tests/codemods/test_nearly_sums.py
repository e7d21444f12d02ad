"""A word away from a sum over samples that is put together stands one that is not, and the statement is named."""

from __future__ import annotations

import pytest
from plans import planned

PROGRAM = (
    "import numpy as np\nimport torch\nimport torch.distributed as dist\nfrom torch.utils.data import DataLoader\n"
    "dist.init_process_group()\nval_loader = DataLoader(val_set, batch_size=4)\n@torch.no_grad()\n"
    "def validate(model, loader):\n    model.eval()\n    {before}\n    n = 0\n    for x, y in loader:\n"
    "        n += len(y)\n{inside}    return n, k\nvalidate(model, val_loader)\n"
)


def text(before: str, inside: str) -> str:
    return PROGRAM.format(before=before, inside="".join(f"        {line}\n" for line in inside.splitlines()))


@pytest.mark.parametrize(
    ("before", "inside"),
    [
        pytest.param("k = torch.zeros(2)", "k += torch.tensor([y.sum(), len(y)])", id="sums side by side"),
        pytest.param("k = 0; top = lambda o: o.argmax(1)", "k += (top(model(x)) == y).sum()", id="a lambda"),
        pytest.param("k = {1: 0}", "for i in k:\n    k[i] += (y == i).sum()", id="by the keys of a dict"),
    ],
)
def test_what_is_put_together(before: str, inside: str) -> None:
    (change,) = planned(text(before, inside)).changes
    assert (change.codes, change.tier) == (("SHD305",), "safe")


@pytest.mark.parametrize(
    ("before", "inside", "why"),
    [
        pytest.param(
            "k = torch.zeros(2)",
            "k += torch.tensor([y.sum(), 1])",
            "`torch.tensor([y.sum(), 1])` is not seen to be a sum",
            id="a sum and a constant",
        ),
        pytest.param(
            "k = torch.zeros(2)",
            "k += torch.tensor([y.sum(), y.float().mean()])",
            "is not seen to be a sum",
            id="a sum and a mean",
        ),
        pytest.param(
            "k = 0; top = lambda o: o.mean()",
            "k += top(x)",
            "`top(x)` is a mean over the batch",
            id="a lambda that averages",
        ),
        pytest.param(
            "k = 0; top = lambda o: o - o.max()",
            "k += top(x).sum()",
            "is not seen to be a sum",
            id="a lambda that goes by the batch",
        ),
        pytest.param(
            "k = 0; top = lambda o, t=2: (o > t).sum()",
            "k += top(x)",
            "`top(x)` is not seen to be a sum",
            id="a lambda with a default",
        ),
        pytest.param(
            "k = 0",
            "top = lambda o: (o > y).sum()\nk += top(x)",
            "`top(x)` is not seen to be a sum",
            id="a lambda that reads the batch by itself",
        ),
        pytest.param(
            "k = [0, 0]",
            "for i in k:\n    k[i] += (y == i).sum()",
            "the running value of `k` is read",
            id="by the values of a list",
        ),
        pytest.param(
            "k = {}",
            "for i in k:\n    n += i\nk[len(y)] = 1",
            "`k[len(y)]` outlives the batch and is set in the loop",
            id="by keys that the batches add",
        ),
    ],
)
def test_what_is_not(before: str, inside: str, why: str) -> None:
    plan = planned(text(before, inside))
    assert plan.changes == ()
    assert why in plan.reports[0].why


OBJECT = (
    "import torch\nimport torch.distributed as dist\nfrom dataclasses import dataclass, field\n"
    "from torch.utils.data import DataLoader\ndist.init_process_group()\n"
    "val_loader = DataLoader(val_set, batch_size=4)\n{cls}@torch.no_grad()\n"
    "def validate(model, loader):\n    model.eval()\n    {before}\n    for x, y in loader:\n"
    "        acc.n += len(y)\n    return acc.n\nvalidate(model, val_loader)\n"
)
FIELD = "@dataclass\nclass Acc:\n    n: int = {}\n"
RESET = "class Acc:\n    n = 0\n    def reset(self{}):\n        {}\n"
MADE = "class Acc:\n    def __init__(self):\n        {}\n"


@pytest.mark.parametrize(
    ("cls", "before"),
    [
        pytest.param(FIELD.format(0), "acc = Acc()", id="a field of a dataclass"),
        pytest.param(MADE.format("self.n = 0"), "acc = Acc()", id="set as it is made"),
        pytest.param(RESET.format("", "self.n = 0"), "acc.reset()", id="set by a method"),
        pytest.param(RESET.format("", "self.n = 0"), "acc = Acc()\n    acc.reset()", id="made and set"),
    ],
)
def test_an_object_that_begins_at_nothing(cls: str, before: str) -> None:
    if before.startswith("acc."):
        cls += "acc = Acc()\n"
    (change,) = planned(OBJECT.format(cls=cls, before=before)).changes
    assert (change.codes, change.tier) == (("SHD305",), "safe")


@pytest.mark.parametrize(
    ("cls", "before"),
    [
        pytest.param(FIELD.format(1), "acc = Acc()", id="another number"),
        pytest.param(FIELD.format("field(default=0)"), "acc = Acc()", id="a default that is made"),
        pytest.param(FIELD.format(0), "acc = Acc(start)", id="told where to begin"),
        pytest.param(FIELD.format(0), "acc = Acc()\n    warm_up(acc)", id="handed on before the loop"),
        pytest.param(FIELD.format(0), "acc = Acc()\n    acc.n = start", id="set before the loop"),
        pytest.param(FIELD.format(0).replace("class Acc:", "class Acc(Base):"), "acc = Acc()", id="a base class"),
        pytest.param(
            FIELD.format(0) + "    def __post_init__(self):\n        self.n = 3\n", "acc = Acc()", id="set afterwards"
        ),
        pytest.param(MADE.format("self.n = 0\n        self.n = start"), "acc = Acc()", id="set twice"),
        pytest.param(MADE.format("if fresh:\n            self.n = 0"), "acc = Acc()", id="set on some paths"),
        pytest.param(RESET.format(", n", "self.n = n"), "acc.reset(start)", id="set to what it is told"),
        pytest.param(RESET.format("", "self.n = 0"), "acc.reset()\n    acc.load()", id="a method that is not seen"),
        pytest.param(
            RESET.format("", "self.n = 0"), "for _ in range(2): acc.reset()\n    acc.n += 1", id="added to before"
        ),
        pytest.param(
            RESET.format("", "self.n = 0"),
            "acc.reset()\n    for _ in range(2):\n     pass\n    other(acc)",
            id="handed on",
        ),
    ],
)
def test_an_object_that_is_not_seen_to_begin_at_nothing(cls: str, before: str) -> None:
    if before.startswith(("acc.", "for")):
        cls += "acc = Acc()\n"
    plan = planned(OBJECT.format(cls=cls, before=before))
    assert plan.changes == ()
    assert "begin" in plan.reports[0].why
