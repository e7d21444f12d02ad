"""A metric of evaluate is told of gathered rows by their kind: tensors as such, lists of a function as objects."""

from __future__ import annotations

import pytest
from plans import codes, edited

PROGRAM = (
    "import evaluate\nimport torch\nfrom accelerate import Accelerator\nfrom torch.utils.data import DataLoader\n"
    "accelerator = Accelerator()\ndef spelled(ns):\n    {made}\n"
    "val_loader = accelerator.prepare(DataLoader(val_set, batch_size=4))\nmetric = evaluate.load('accuracy')\n"
    "for x, y in val_loader:\n    said = {said}\n    metric.add_batch(predictions=said, references=y)\n"
    "print(metric.compute())\n"
)


@pytest.mark.parametrize(
    ("said", "made", "objects"),
    [
        pytest.param("spelled(y)", "return [str(n) for n in ns]", True, id="a list made at once"),
        pytest.param(
            "spelled(y)",
            "out = []\n    for n in ns:\n        out.append(str(n))\n    return out",
            True,
            id="a list filled",
        ),
        pytest.param("y.tolist()", "return ns", True, id="a list of a tensor"),
        pytest.param("spelled(y)", "return ns + 1", False, id="a tensor of a function"),
        pytest.param("y + 1", "return ns", False, id="a tensor"),
    ],
)
def test_the_rows_are_gathered_before_the_metric_is_told(said: str, made: str, objects: bool) -> None:
    text = PROGRAM.format(said=said, made=made)
    more = ", use_gather_object=True" if objects else ""
    gathered = f"said = accelerator.gather_for_metrics(said{more})\n    y = accelerator.gather_for_metrics(y)\n"

    assert codes(text) == [["SHD508"]]
    assert edited(text) == text.replace("    metric.add", f"    {gathered}    metric.add")
