"""A prepared loader is said to be sharded twice by its factory only where that shards in every run of several ranks."""

from __future__ import annotations

import pytest
from plans import codes

TEXT = (
    "from accelerate import Accelerator\n"
    "from torch.utils.data import DataLoader, DistributedSampler, SequentialSampler\n"
    "accelerator = Accelerator()\n"
    "class Mine(DistributedSampler):\n    pass\n"
    "def get(ds, args, n):\n    {}\n"
    "def main(args, ds):\n"
    "    a = accelerator.prepare(DataLoader(ds, sampler=get(ds, args, 1)))\n"
    "    b = accelerator.prepare(DataLoader(ds, sampler=get(ds, args, 2)))\n"
    "    for x, y in zip(a, b):\n        accelerator.backward(x + y)\n"
)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        pytest.param("return Mine(ds, n)", True, id="always"),
        pytest.param("return Mine(ds, n) if args.world_size > 1 else None", True, id="where several run"),
        pytest.param(
            "if args.world_size <= 1:\n        return SequentialSampler(ds)\n    return Mine(ds, n)",
            True,
            id="none in one process",
        ),
        pytest.param(
            "if args.tpu:\n        return Mine(ds, n)\n"
            "    if args.world_size <= 1:\n        return SequentialSampler(ds)\n    else:\n        return None",
            False,
            id="in some runs of several, none in others",
        ),
        pytest.param("return Mine(ds, n) if args.tpu else SequentialSampler(ds)", False, id="by another condition"),
    ],
)
def test_a_factory_that_may_shard(body: str, told: bool) -> None:
    found = [code for site in codes(TEXT.format(body)) for code in site]
    assert ("SHD702" in found) is told
