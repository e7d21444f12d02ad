"""An evaluation is said to leave each rank with its share only where it keeps a result that is seen to stay."""

from __future__ import annotations

import pytest
from plans import codes

HEAD = (
    "import json\nimport torch\nimport torch.distributed as dist\nimport torch.multiprocessing as mp\n"
    "from torch.utils.data import DataLoader, DistributedSampler\n"
    "def evaluate(model, val_set, rank=0, name='out'):\n    model.eval()\n"
    "    sampler = DistributedSampler(val_set, shuffle=False, drop_last=True)\n"
    "    val_loader = DataLoader(val_set, sampler=sampler)\n    n = 0\n    {}\n"
    "    with torch.no_grad():\n        for b in val_loader:\n            {}\n    return {}\n"
)
SUM = ("pass", "n += model(b).sum()", "n")
GROUP = "dist.init_process_group()\n"


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        pytest.param(
            "METRICS = {'sum': evaluate}\nresult = METRICS[args.metric](model, val_set)\n", "SHD923", id="a dict"
        ),
        pytest.param("trainer = library.Trainer(model, evaluate=evaluate)\n", "SHD923", id="a library"),
        pytest.param(
            "def validate(model):\n    return evaluate(model, val_set)\nlibrary.Trainer(model, validate)\n",
            "SHD923",
            id="what gives it back",
        ),
        pytest.param("print(evaluate(model, val_set))\n", "SHD503", id="printed"),
        pytest.param("if evaluate:\n    print(evaluate(model, val_set))\n", "SHD503", id="looked at"),
        pytest.param(
            "def main(rank):\n    print(evaluate(model, val_set))\nmp.spawn(main)\n",
            "SHD503",
            id="its caller is spawned",
        ),
    ],
)
def test_a_result_that_goes_where_it_is_not_seen_is_not_said_to_stay(used: str, expected: str) -> None:
    assert codes(HEAD.format(*SUM) + GROUP + used) == [[expected]]


OPENED = "f = open(name, 'w')"
BY_RANK = "name += f'_{rank}'\n    f = open(name, 'w')"


@pytest.mark.parametrize(
    ("before", "inside", "expected"),
    [
        pytest.param("pass", "show(model(b)); n += 1", [], id="steps are counted"),
        pytest.param("pass", "n += 1 if model(b) == b else 0", ["SHD503"], id="what is right is counted"),
        pytest.param("pass", "if model(b) == b: n += 1", ["SHD503"], id="under a condition on the batch"),
        pytest.param("pass", "if args.verbose: n += 1", [], id="under another"),
        pytest.param(BY_RANK, "f.write(str(model(b))); n += 1", [], id="a file of each rank's own"),
        pytest.param(BY_RANK, "print(model(b), file=f); n += 1", [], id="printed to it"),
        pytest.param(OPENED, "f.write(str(model(b))); n += 1", ["SHD503"], id="one file of all"),
        pytest.param(OPENED, "json.dump(model(b), f); n += 1", ["SHD503"], id="dumped to it"),
    ],
)
def test_a_loop_that_counts_its_steps_keeps_no_result(before: str, inside: str, expected: list[str]) -> None:
    used = GROUP + "print(evaluate(model, val_set, dist.get_rank()))\n"
    assert codes(HEAD.format(before, inside, "n") + used) == [expected]
