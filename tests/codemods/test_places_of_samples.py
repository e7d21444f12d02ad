"""A batch's row is one sample's own only where it is taken by that sample's place, not by a value of the batch."""

from __future__ import annotations

import pytest
from plans import codes, planned

HEAD = (
    "import torch\nimport torch.distributed as dist\nfrom torch.utils.data import DataLoader\n"
    "dist.init_process_group()\nval_loader = DataLoader(val_set, batch_size=4)\n"
    "@torch.no_grad()\ndef validate(model, loader):\n    model.eval()\n    k = 0\n    for x, y in loader:\n"
    "        p = model(x).argmax(1)\n"
)
RUN = "    return k\nvalidate(model, val_loader)\n"


@pytest.mark.parametrize(
    ("loop", "row"),
    [
        pytest.param("for t in y.tolist():", "x[t]", id="a label"),
        pytest.param("for t in y:", "p[t]", id="a label of a model's rows"),
        pytest.param("for t in y.tolist():", "model(x).argmax(1)[t]", id="a label of what a model gives"),
        pytest.param("for t in p.tolist():", "x[t]", id="a prediction"),
        pytest.param("for i, t in enumerate(y.tolist()):", "x[t]", id="a label beside its place"),
        pytest.param("for i, t in zip(range(len(y)), y.tolist()):", "x[t]", id="a label zipped with its place"),
        pytest.param("for i, t in enumerate(y, 1):", "x[i]", id="a place that is counted from one"),
        pytest.param("for i, t in enumerate(y, start=k):", "x[i]", id="a place that is counted from elsewhere"),
    ],
)
def test_a_row_by_a_value_is_another_samples(loop: str, row: str) -> None:
    assert codes(f"{HEAD}        {loop}\n            k += int({row})\n{RUN}") == [["SHD904"]]


@pytest.mark.parametrize(
    ("loop", "row"),
    [
        pytest.param("for i in range(len(y)):", "x[i]", id="counted"),
        pytest.param("for i in reversed(range(y.size(0))):", "p[i] == y[i]", id="counted backwards"),
        pytest.param("for i, t in enumerate(y.tolist()):", "p[i] == t", id="enumerated"),
        pytest.param("for i, t in enumerate(y, 0):", "p[i] == t", id="enumerated from nothing"),
        pytest.param("for i, t in zip(range(len(y)), y):", "model(x).argmax(1)[i] == t", id="zipped"),
        pytest.param("for t, o in zip(y.tolist(), p.tolist()):", "t == o", id="no row at all"),
    ],
)
def test_a_row_by_its_place_is_its_own(loop: str, row: str) -> None:
    (change,) = planned(f"{HEAD}        {loop}\n            k += int({row})\n{RUN}").changes
    assert (change.codes, change.tier) == (("SHD305",), "safe")
