"""A sum that rounds at each addition is another one over the ranks' parts: put together with --unsafe only."""

from __future__ import annotations

import pytest
from plans import planned

from shardfix.analysis.model import Options

PROGRAM = (
    "import numpy as np\nimport torch\nimport torch.distributed as dist\nimport torch.nn.functional as F\n"
    "from torch.utils.data import DataLoader\ndist.init_process_group()\n"
    "val_loader = DataLoader(val_set, batch_size=4)\n@torch.no_grad()\n"
    "def validate(model, loader):\n    model.eval()\n    n = 0\n    s = {start}\n    for x, y in loader:\n"
    "        right = model(x).argmax(1) == y\n        n += len(y)\n        {added}\n    return s / n{more}\n"
    "validate(model, val_loader)\n"
)


def changes(start: str, added: str, more: str = "", *, unsafe: bool = False) -> list[tuple[str, str]]:
    text = PROGRAM.format(start=start, added=added, more=more)
    return [(c.tier, c.reason) for c in planned(text, Options(sanitizer="off", unsafe=unsafe)).changes]


@pytest.mark.parametrize(
    ("start", "added", "why"),
    [
        pytest.param(
            "torch.zeros(1, dtype=torch.float16)",
            "s += right.sum()",
            "`s` is kept in half precision, and each addition rounds",
            id="kept in half precision",
        ),
        pytest.param(
            "torch.zeros(1, dtype=torch.bfloat16)",
            "s += right.sum()",
            "`s` is kept in half precision, and each addition rounds",
            id="kept in bfloat16",
        ),
        pytest.param(
            "0",
            "s += x.half().sum()",
            "`x.half().sum()` is in half precision, and each addition rounds",
            id="halves added",
        ),
        pytest.param(
            "0",
            "s = s + (x.to(torch.float16) * 2).sum()",
            "`(x.to(torch.float16) * 2).sum()` is in half precision, and each addition rounds",
            id="halves added, written out",
        ),
        pytest.param(
            "np.zeros(4, dtype=int)",
            "s[0] += x[:, 0].sum().item()",
            "`s[0]` keeps whole numbers, and each addition cuts off the fraction of `x[:, 0].sum().item()`",
            id="fractions in an array of whole numbers",
        ),
    ],
)
def test_the_value_is_not_quite_that_of_one_process(start: str, added: str, why: str) -> None:
    assert changes(start, added) == []
    found = changes(start, added, unsafe=True)
    assert [tier for tier, _ in found] == ["unsafe"]
    assert why in found[0][1]


@pytest.mark.parametrize(
    ("start", "added"),
    [
        pytest.param(
            "0", "s += (model(x.half()).argmax(1) == y).sum().item()", id="counts of a model in half precision"
        ),
        pytest.param("0", "s += x.half().float().sum().item()", id="widened again"),
        pytest.param("torch.zeros(1)", "s += right.sum()", id="in single precision"),
        pytest.param("np.zeros(4, dtype=int)", "s[0] += right.sum().item()", id="whole numbers in an array of them"),
        pytest.param("np.zeros(4, dtype=int)", "s[0] += (right & (y > 2)).sum().item()", id="both"),
        pytest.param("np.zeros(4, dtype=int)", "s[0] = s[0] + len(y)", id="written out"),
        pytest.param("np.zeros(4)", "s[0] += x[:, 0].sum().item()", id="fractions in an array of them"),
    ],
)
def test_other_sums_are_safe(start: str, added: str) -> None:
    assert changes(start, added) == [("safe", "")]


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(", locals()", id="locals"),
        pytest.param(", '%(y)s' % vars()", id="vars"),
    ],
)
def test_what_reads_all_names_reads_the_last_batch(more: str) -> None:
    assert changes("0", "s += right.sum().item()", more) == []
    assert changes("0", "s += right.sum().item()", ", vars(model)") != []
