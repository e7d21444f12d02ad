"""Padding is said to count twice only where the metric keeps both: not where ranks' results are merged by sample."""

from __future__ import annotations

import pytest
from plans import codes

HEAD = (
    "import itertools\nimport time\nimport numpy as np\nimport torch\nimport torch.distributed as dist\n"
    "from torch.utils.data import DataLoader, DistributedSampler\n"
    "dist.init_process_group()\n"
    "def all_gather(x):\n    parts = [None] * dist.get_world_size()\n"
    "    dist.all_gather_object(parts, x)\n    return parts\n"
    "class Meter:\n    def __init__(self):\n        self.values = {}\n"
    "    def update(self, **kw):\n        self.values.update(kw)\n"
    "    def sync(self):\n        for k in self.values:\n            dist.all_reduce(self.values[k])\n"
)
COCO = (
    "class Coco:\n    def __init__(self):\n        self.ids, self.results = [], []\n"
    "    def update(self, res):\n        self.ids.extend(res)\n        self.results.extend(res.values())\n"
    "    def sync(self):\n        self.ids, self.results = merge(self.ids, self.results)\n"
)
EVALUATE = (
    "def evaluate(model, loader, val_set):\n    model.eval()\n    logger, coco = Meter(), Coco()\n    correct = 0\n"
    "    with torch.no_grad():\n        for images, targets in loader:\n"
    "            start = time.time()\n            outputs = model(images)\n            start = time.time() - start\n"
    "            {}\n    logger.sync()\n    coco.sync()\n    return coco, correct\n"
    "val_set = list(range(9))\n"
    "sampler = DistributedSampler(val_set, shuffle=False)\nval_loader = DataLoader(val_set, sampler=sampler)\n"
    "evaluate(model, val_loader, val_set)\n"
)
TOLD = "coco.update({t['id']: o for t, o in zip(targets, outputs)})"
UNIQUE = (
    "def merge(ids, results):\n    all_ids, all_results = all_gather(ids), all_gather(results)\n"
    "    ids, results = [], []\n    for p in all_ids:\n        ids.extend(p)\n"
    "    for p in all_results:\n        results.extend(p)\n"
    "    ids, index = np.unique(np.array(ids), return_index={})\n"
    "    return list(ids), [results[i] for i in {}]\n"
)
BY_DICT = (
    "def merge(ids, results):\n    merged = {}\n    for p in all_gather(dict(zip(ids, results))):\n"
    "        merged.update(p)\n    return list(merged), list(merged.values())\n"
)
JOINED = (
    "def merge(ids, results):\n    parts = all_gather(list(zip(ids, results)))\n"
    "    pairs = list(itertools.chain(*parts))\n    {}\n"
)


@pytest.mark.parametrize(
    "merge",
    [
        pytest.param(UNIQUE.format("True", "index"), id="unique by index"),
        pytest.param(BY_DICT, id="a dict that is updated"),
        pytest.param(
            JOINED.format("by_id = {i: r for i, r in pairs}\n    return list(by_id), list(by_id.values())"),
            id="a dict by id",
        ),
        pytest.param(JOINED.format("kept = dict(pairs)\n    return list(kept), list(kept.values())"), id="dict(pairs)"),
        pytest.param(JOINED.format("kept = sorted(set(pairs))\n    return kept, kept"), id="a set"),
    ],
)
def test_a_metric_that_keeps_one_result_of_a_sample_counts_none_twice(merge: str) -> None:
    told = f"{TOLD}\n            logger.update(model_time=start)"
    assert codes(HEAD + merge + COCO + EVALUATE.format(told)) == [[]]


@pytest.mark.parametrize(
    ("merge", "told"),
    [
        pytest.param(
            UNIQUE.format("True", "index"),
            f"{TOLD}\n            logger.update(loss=outputs.sum(), model_time=start)",
            id="a loss beside it",
        ),
        pytest.param(
            UNIQUE.format("True", "index"),
            f"{TOLD}\n            correct += outputs.sum()",
            id="a count beside it",
        ),
        pytest.param(UNIQUE.format("False", "range(len(results))"), TOLD, id="only the ids are made unique"),
        pytest.param(UNIQUE.format("True", "range(len(results))"), TOLD, id="the index is not used"),
        pytest.param(JOINED.format("return [i for i, _ in pairs], [r for _, r in pairs]"), TOLD, id="all are kept"),
        pytest.param(
            JOINED.format("kept = {i: r for i, r in enumerate(pairs)}\n    return list(kept), list(kept.values())"),
            TOLD,
            id="a dict by running number",
        ),
        pytest.param("def merge(ids, results):\n    return ids, results\n", TOLD, id="nothing is gathered"),
    ],
)
def test_a_metric_of_which_something_keeps_both_counts_twice(merge: str, told: str) -> None:
    assert codes(HEAD + merge + COCO + EVALUATE.format(told)) == [["SHD502"]]
