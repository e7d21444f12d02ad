"""A sampler for a rank for each GPU, where one process runs all GPUs, is said to leave most samples unread."""

from __future__ import annotations

import pytest
from plans import PATH, codes, planned

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Evidence, Launch, Location, Options
from shardfix.planning import make_plan

HEAD = "import os\nimport torch\nfrom torch.utils.data import DataLoader, DistributedSampler\n"
WRAPPED = "model = torch.nn.DataParallel(model)\n"
SAMPLER = (
    "n = torch.cuda.device_count()\nrank = int(os.environ.get('LOCAL_RANK', 0))\n"
    "s = DistributedSampler(d, num_replicas=n, rank=rank)\n"
)
LOOP = "loader = DataLoader(d, sampler=s)\nfor epoch in range(3):\n    for x in loader:\n        model(x).backward()\n"
TEXT = HEAD + WRAPPED + SAMPLER + LOOP
EVAL = "for x in DataLoader(val_set):\n    model(x)\n"


def test_the_samples_of_ranks_that_are_never_started_are_said_to_be_left_out() -> None:
    sampled, plain = planned(TEXT + EVAL).reports

    assert (sampled.owner, [f.code for f in sampled.findings]) == ("single", ["SHD719"])
    assert [e.location.line for e in sampled.findings[0].evidence] == [7, 4]
    assert (plain.owner, plain.verdict) == ("single", "right")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(TEXT.replace(WRAPPED, ""), id="no DataParallel"),
        pytest.param(TEXT.replace(WRAPPED, WRAPPED + "init_dist(args)\n"), id="what may make a group"),
        pytest.param(TEXT.replace("num_replicas=n", "num_replicas=args.world_size"), id="a number of ranks"),
        pytest.param(
            TEXT + "t = DistributedSampler(d, num_replicas=args.world_size, rank=args.rank)\n", id="another sampler"
        ),
        pytest.param("import torch.distributed as dist\ndist.init_process_group()\n" + TEXT, id="a group"),
    ],
)
def test_what_may_be_one_of_several_processes_is_not_accused(text: str) -> None:
    (report,) = planned(text).reports

    assert report.owner == "ddp"
    assert "SHD719" not in [f.code for f in report.findings]


def test_a_program_that_is_started_in_several_processes_is_not_accused() -> None:
    launch = Launch(PATH, "", True, Evidence(Location("run.sh", 1, 1), "torchrun train.py"))

    found = make_plan(link({PATH: parse(PATH, TEXT)}), (PATH,), Options(sanitizer="off", launches=(launch,)))

    assert found.problems == ()
    assert [r.owner for r in found.reports] == ["ddp"]


def test_a_loader_without_a_sampler_is_right_there() -> None:
    assert codes(TEXT.replace("sampler=s", "shuffle=True")) == [[]]
