"""Loaders that DeepSpeed and Horovod never get are judged by their sampler; nothing is given that the program lacks."""

from __future__ import annotations

import pytest
from plans import codes, edited, planned

from shardfix.analysis.model import Options

DEEPSPEED = (
    "import deepspeed\nimport torch\nfrom torch.utils.data import DataLoader, DistributedSampler\n"
    "deepspeed.init_distributed()\n"
)
HOROVOD = (
    "import horovod.torch as hvd\nimport torch\nfrom torch.utils.data import DataLoader, DistributedSampler\n"
    "hvd.init()\n"
)
OWN = "num_replicas=hvd.size(), rank=hvd.rank()"
ENGINE = "engine, *_ = deepspeed.initialize(model=m)\n"
TRAIN = (
    "loader = DataLoader(d, batch_size=4, sampler=sampler)\n"
    "for epoch in range(3):\n    for x in loader:\n        m(x).backward()\n"
)
EVAL = (
    "val_loader = DataLoader(d, batch_size=4{})\n"
    "with torch.no_grad():\n    correct = 0\n    for x, y in val_loader:\n"
    "        correct += (m(x).argmax(1) == y).sum().item()\n"
)


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(DEEPSPEED + ENGINE + "sampler = DistributedSampler(d)\n", id="deepspeed"),
        pytest.param(HOROVOD + f"sampler = DistributedSampler(d, {OWN})\n", id="horovod"),
    ],
)
def test_a_frozen_epoch_is_mended_whoever_starts_the_ranks(head: str) -> None:
    after = edited(head + TRAIN)

    assert "for epoch in range(3):\n    sampler.set_epoch(epoch)\n    for x" in after
    assert codes(after) == [[]]


@pytest.mark.parametrize("unsafe", [False, True], ids=["safe", "unsafe"])
@pytest.mark.parametrize(
    ("end", "found"),
    [
        pytest.param("print(correct)\n", ["SHD501", "SHD503"], id="not combined"),
        pytest.param("print(hvd.allreduce(torch.tensor(correct)))\n", ["SHD501", "SHD502"], id="combined"),
        pytest.param("print(hvd.grouped_allreduce([correct]))\n", ["SHD501", "SHD502"], id="combined in a group"),
        pytest.param("if hvd.rank() == 0:\n    print(correct)\n", ["SHD501", "SHD503"], id="shown by one rank"),
    ],
)
def test_nothing_of_torch_s_group_is_written_where_horovod_starts_the_ranks(
    end: str, found: list[str], unsafe: bool
) -> None:
    text = HOROVOD + EVAL.format(f", sampler=DistributedSampler(d, {OWN})") + end

    assert codes(text, Options(sanitizer="changed", unsafe=unsafe)) == [found]
    after = edited(text, Options(sanitizer="changed", unsafe=unsafe))
    assert f"{OWN}, shuffle=False)" in after
    assert not any(word in after for word in ("shardfix", "reduced", "unpadded", "torch.distributed"))


def test_the_advice_for_horovod_names_its_own_reduction() -> None:
    text = HOROVOD + EVAL.format(f", sampler=DistributedSampler(d, {OWN}, shuffle=False)") + "print(correct)\n"

    ((finding,),) = (r.findings for r in planned(text).reports)
    assert finding.message.endswith("because Horovod's ranks have no process group of torch to put it together by")
    assert "(horovod.torch.allreduce)" in finding.remedy


def test_one_rank_s_evaluation_is_not_opened_to_horovod_s_others() -> None:
    text = (
        HOROVOD
        + "m = m.eval()\ndef run():\n    "
        + EVAL.format(f", sampler=DistributedSampler(d, {OWN}, shuffle=False)").replace("\n", "\n    ").rstrip(" ")
    )
    text += "    print(correct)\nif hvd.rank() == 0:\n    run()\n"

    (report,) = planned(text, Options(sanitizer="off", unsafe=True)).reports
    assert [f.code for f in report.findings] == ["SHD706"]
    assert report.changes == ()
    assert "the other ranks stay out: Horovod's ranks have no process group of torch" in report.findings[0].remedy


def test_what_deepspeed_s_ranks_have_is_put_together_by_the_group_that_it_makes() -> None:
    for made in ("deepspeed.init_distributed()\n", ENGINE):
        text = DEEPSPEED.replace("deepspeed.init_distributed()\n", made)
        text += "m.eval()\n" + EVAL.format("") + "print(correct)\n"

        (change,) = planned(text).changes
        assert (change.codes, change.tier) == (("SHD305",), "safe")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param(
            DEEPSPEED + ENGINE + "m.eval()\nnorm = torch.nn.BatchNorm1d(4)\n" + EVAL.format("") + "print(correct)\n",
            "train.py names batch norm, whose running means DeepSpeed leaves to each rank",
            id="running means of each rank",
        ),
        pytest.param(
            DEEPSPEED + ENGINE + TRAIN.replace("sampler=sampler", "shuffle=True"),
            "each rank may be given data of its own",
            id="training data without a sampler",
        ),
    ],
)
def test_what_deepspeed_leaves_to_each_rank_is_not_shared_out_unasked(text: str, why: str) -> None:
    (report,) = planned(text).reports
    assert report.changes == ()
    assert why in report.why

    assert planned(text, Options(sanitizer="off", unsafe=True)).changes[0].tier == "unsafe"


@pytest.mark.parametrize(
    ("text", "owner"),
    [
        pytest.param(
            DEEPSPEED + "engine, *_ = deepspeed.initialize(model=PipelineModule(m))\n"
            "sampler = DistributedSampler(d)\n" + TRAIN,
            "deepspeed",
            id="a model in parts",
        ),
        pytest.param(
            DEEPSPEED
            + "engine, *_ = deepspeed.initialize(model=m, mpu=mpu)\n"
            + "sampler = DistributedSampler(d)\n"
            + TRAIN,
            "deepspeed",
            id="a unit of model parallelism",
        ),
        pytest.param(HOROVOD + TRAIN.replace("sampler=sampler", "shuffle=True"), "horovod", id="no sampler"),
    ],
)
def test_other_programs_of_theirs_are_left_to_them(text: str, owner: str) -> None:
    (report,) = planned(text).reports

    assert (report.owner, report.verdict) == (owner, "not-ours")
