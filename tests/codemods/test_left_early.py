"""A `break` that ends an evaluation after a number of samples is told what does the same on any number of ranks."""

from __future__ import annotations

import pytest
from plans import planned

HEAD = (
    "import torch\nimport torch.distributed as dist\nfrom torch.utils.data import DataLoader\n"
    "dist.init_process_group()\nval_loader = DataLoader(val_set, batch_size=4)\n"
    "preds, seen = [], 0\nwith torch.no_grad():\n    for i, (x, y) in enumerate(val_loader):\n"
    "        preds.extend(model(x).argmax(1).tolist())\n        seen += 1\n"
)
AFTER = "            break\nprint(len(preds), seen)\n"


def why(test: str) -> str:
    (report,) = planned(f"{HEAD}        if {test}:\n{AFTER}").reports
    assert report.changes == ()
    assert "line 12 is not understood: `break` leaves samples out by what came before them" in report.why
    return report.why


@pytest.mark.parametrize(
    "test",
    ["i == 9", "i + 1 >= args.steps", "len(preds) >= 100", "args.most > 0 and len(preds) >= args.most", "10 <= seen"],
)
def test_it_goes_by_a_number(test: str) -> None:
    assert "a loader of `Subset(dataset, range(n))` does that on any number of ranks" in why(test)


@pytest.mark.parametrize(
    "test", ["y.max() > 3", "len(x) < 4", "len(preds) > y.sum()", "i > 3 or y.min() < 1", "i < 3", "x is None"]
)
def test_it_goes_by_the_samples(test: str) -> None:
    assert "Subset" not in why(test)
