"""A sharded evaluation that lays results at their samples' places is exact, one that nearly does so is not."""

from __future__ import annotations

import pytest
from loaders import site

HEAD = (
    "import torch\nimport torch.distributed as dist\nfrom torch.utils.data import DataLoader\n"
    "val_loader = DataLoader(val_set)\nhits = torch.zeros(len(val_set))\n"
)
MAX = "dist.all_reduce(hits, op=dist.ReduceOp.MAX)\n"
GATHER = "for x, idx in val_loader:\n    dist.all_gather(i, idx)\n    dist.all_gather(o, model(x))\n"


@pytest.mark.parametrize(
    ("text", "exact"),
    [
        pytest.param(GATHER + "    bank.index_put_((torch.cat(i),), torch.cat(o))\n", True, id="put"),
        pytest.param(GATHER + "    bank.index_put_((torch.cat(i),), torch.cat(o), False)\n", True, id="put, not added"),
        pytest.param(GATHER + "    bank.index_put_((torch.cat(i),), torch.cat(o), True)\n", False, id="added by place"),
        pytest.param("for x, idx, y in val_loader:\n    hits[idx] = (x == y).all(1)\n" + MAX, True, id="all are right"),
        pytest.param(
            "for x, idx, y in val_loader:\n    hits[idx] = (x == y).roll(1)\n" + MAX, False, id="those of the next one"
        ),
        pytest.param(
            "for idx in order:\n    pass\nfor x, y in val_loader:\n    hits[idx] = x == y\n" + MAX,
            False,
            id="an index of another loop",
        ),
        pytest.param(
            "for x, idx, y in val_loader:\n    if x.max() > 1:\n        hits[idx] = x == y\n" + MAX,
            False,
            id="of some batches",
        ),
    ],
)
def test_only_what_is_laid_at_its_place_once_is_exact(text: str, exact: bool) -> None:
    assert (site(HEAD + text).evaluation.exact is not None) == exact
