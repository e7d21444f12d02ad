"""An evaluation that a decorator of the project reduces is not said to leave each rank with its own share."""

from __future__ import annotations

import pytest
from plans import codes

HEAD = (
    "import functools\nimport time\nimport torch\nimport torch.distributed as dist\n"
    "from torch.utils.data import DataLoader, DistributedSampler\n"
    "dist.init_process_group()\n"
    "def mean(x):\n    x = torch.tensor(x)\n    dist.all_reduce(x)\n    return x / dist.get_world_size()\n"
)
EVALUATE = (
    "def evaluate(model, loader):\n    n = 0\n    with torch.no_grad():\n        for b in loader:\n"
    "            n += model(b).sum()\n    return n\n"
)
MAIN = (
    "sampler = DistributedSampler(val_set, shuffle=False, drop_last=True)\n"
    "val_loader = DataLoader(val_set, sampler=sampler)\n{}\n"
)
CALLED = MAIN.format("evaluate(model, val_loader)")


def wrapper(body: str) -> str:
    return f"def everywhere(fn):\n    @functools.wraps(fn)\n    def run(*a, **k):\n        {body}\n    return run\n"


REDUCED = wrapper("return mean(fn(*a, **k))")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(REDUCED + "@everywhere\n" + EVALUATE + CALLED, id="decorated"),
        pytest.param(
            wrapper("out = fn(*a, **k)\n        return {key: mean(v) for key, v in out.items()}")
            + "@everywhere\n@torch.no_grad()\n"
            + EVALUATE
            + CALLED,
            id="item by item",
        ),
        pytest.param(
            wrapper("out = fn(*a, **k)\n        dist.all_reduce(out)\n        return out")
            + "@everywhere\n"
            + EVALUATE
            + CALLED,
            id="in place",
        ),
        pytest.param(
            "def everywhere(how):\n    def wrap(fn):\n        return lambda *a: mean(fn(*a))\n    return wrap\n"
            + "@everywhere('mean')\n"
            + EVALUATE
            + CALLED,
            id="told how",
        ),
        pytest.param(
            "class Everywhere:\n    def __init__(self, fn):\n        self.fn = fn\n"
            "    def __call__(self, *a):\n        return mean(self.fn(*a))\n@Everywhere\n" + EVALUATE + CALLED,
            id="a class",
        ),
        pytest.param(
            REDUCED + EVALUATE + MAIN.format("everywhere(evaluate)(model, val_loader)"), id="wrapped where it is called"
        ),
        pytest.param(
            REDUCED
            + EVALUATE
            + "@everywhere\ndef validate(model, loader):\n    return evaluate(model, loader)\n"
            + MAIN.format("validate(model, val_loader)"),
            id="its caller is decorated",
        ),
    ],
)
def test_what_a_decorator_reduces_is_reduced(text: str) -> None:
    assert codes(HEAD + text) == [[]]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("return fn(*a, **k)", id="nothing"),
        pytest.param(
            "start = time.time()\n        out = fn(*a, **k)\n        mean(time.time() - start)\n        return out",
            id="the time it took",
        ),
        pytest.param("mean(1)\n        return fn(*a, **k)", id="something else before"),
    ],
)
def test_a_decorator_that_combines_something_else_leaves_the_metric_one_ranks(body: str) -> None:
    assert codes(HEAD + wrapper(body) + "@everywhere\n" + EVALUATE + CALLED) == [["SHD503"]]
