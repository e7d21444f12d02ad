"""A prepared loader's length is told of a schedule only where that is computed of it."""

from __future__ import annotations

import pytest
from plans import codes

TEXT = (
    "import torch\nfrom accelerate import Accelerator\nfrom torch.utils.data import DataLoader\n"
    "from transformers import get_scheduler\naccelerator = Accelerator()\n"
    "loader = accelerator.prepare(DataLoader(ds, shuffle=True))\n{}\n"
    "model, optimizer, lr_scheduler = accelerator.prepare(model, optimizer, lr_scheduler)\n"
    "for epoch in range(3):\n    for step, b in enumerate(loader):\n"
    "        accelerator.backward(model(b))\n        lr_scheduler.step()\n        {}\n"
)
MADE = "lr_scheduler = get_scheduler('linear', optimizer, 0, {})"


@pytest.mark.parametrize(
    ("before", "inside", "expected"),
    [
        pytest.param(MADE.format("3 * len(loader)"), "", ["SHD713"], id="at once"),
        pytest.param(
            "per_epoch = len(loader) // 2\nargs.steps = 3 * per_epoch\n" + MADE.format("args.steps"),
            "",
            ["SHD713"],
            id="through names",
        ),
        pytest.param(MADE.format("3 * len(loader) * accelerator.num_processes"), "", [], id="times the ranks"),
        pytest.param(MADE.format("args.steps"), "print(step == len(loader) - 1)", [], id="for a step only"),
        pytest.param(
            "lr_scheduler = DummyScheduler(optimizer, total_num_steps=len(loader))", "", [], id="DeepSpeed's own"
        ),
        pytest.param(
            f"if args.ds:\n    lr_scheduler = DummyScheduler(optimizer)\nelse:\n    {MADE.format('len(loader)')}",
            "",
            ["SHD713"],
            id="DeepSpeed's own in the other arm",
        ),
        pytest.param("print(len(loader))\n" + MADE.format("1000"), "", [], id="shown before"),
    ],
)
def test_a_schedule_of_a_prepared_loaders_length(before: str, inside: str, expected: list[str]) -> None:
    assert codes(TEXT.format(before, inside or "pass")) == [expected]
