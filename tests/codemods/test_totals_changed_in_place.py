"""A total that a loop changes in place is put together again only where it stays a total over the batch's samples."""

from __future__ import annotations

import pytest
from plans import codes, planned

HEAD = (
    "import torch\nimport torch.distributed as dist\nfrom torch.utils.data import DataLoader\n"
    "dist.init_process_group()\nval_loader = DataLoader(val_set, batch_size=4)\n"
)
EVALUATION = (
    "@torch.no_grad()\ndef validate(model, loader):\n    model.eval()\n    k = 0\n    for x, y in loader:\n"
    "        s = {value}\n{body}    return k\nvalidate(model, val_loader)\n"
)
SUM = "(model(x)[:, 0] - y).abs().sum()"


def program(*body: str, value: str = SUM) -> str:
    """An evaluation that makes ``s`` of each batch, and these lines behind that in its loop."""
    return HEAD + EVALUATION.format(value=value, body="".join(f"        {line}\n" for line in body))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(program("s.sqrt_()", "k += s"), id="a root"),
        pytest.param(program("s.clamp_(max=3)", "k += s"), id="cut off"),
        pytest.param(program("s.pow_(2)", "k += s"), id="a square"),
        pytest.param(program("s.round_()", "k += s"), id="rounded"),
        pytest.param(program("s.add_(1)", "k += s"), id="one for each batch"),
        pytest.param(program("s.div_(y.size(0))", "k += s"), id="by the batch's length"),
        pytest.param(program("s.zero_()", "k += s"), id="zeroed"),
        pytest.param(program("s.copy_(y[0])", "k += s"), id="copied over"),
        pytest.param(program("s[0] = 3", "k += s", value="(model(x) - y).abs().sum(0)"), id="a store"),
        pytest.param(program("s.data = y[0]", "k += s"), id="data"),
        pytest.param(program("if s > 3:", "    s.mul_(2)", "k += s"), id="for some batches"),
        pytest.param(program("s.mul_(0.5)", "k += int(s)", value="(y == 1).sum()"), id="no whole number any more"),
        pytest.param(program("t = s", "s /= len(y)", "k += t"), id="augmented under another name"),
        pytest.param(program("t = s.float()", "s /= len(y)", "k += t"), id="augmented under a view of it"),
        pytest.param(program("torch.sqrt(s, out=s)", "k += s"), id="a function that puts its result there"),
        pytest.param(program("print(s.div_(y.size(0)))", "k += s"), id="shown as a mean and read again"),
        pytest.param(program("t = s", "print(s.div_(y.size(0)))", "k += t"), id="read again under another name"),
        pytest.param("def root(s):\n    s.sqrt_()\n" + program("root(s)", "k += s"), id="a function of the project"),
    ],
)
def test_what_is_no_total_any_more(text: str) -> None:
    assert codes(text) == [["SHD904"]]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(program("s.mul_(2)", "k += s"), id="twice as much"),
        pytest.param(program("s.div_(10)", "k += s"), id="a tenth"),
        pytest.param(program("s.add_(y.abs().sum())", "k += s"), id="another sum"),
        pytest.param(program("s.requires_grad_(False)", "k += s"), id="out of the graph"),
        pytest.param(program("s.detach_()", "k += s"), id="detached"),
        pytest.param(program("k += s.mul_(100 / y.size(0)).item() * y.size(0)"), id="what it gives is read alone"),
        pytest.param(program("k += s", "s = s.item()", "s **= 2", "print(s)"), id="a number that is shown"),
        pytest.param(program("k += s", "s /= len(y)", "print(s)"), id="a mean that is shown"),
    ],
)
def test_what_stays_a_total(text: str) -> None:
    (change,) = planned(text).changes
    assert (change.codes, change.tier) == (("SHD305",), "safe")
