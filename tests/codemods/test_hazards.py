"""A hazard is reported where the ranks surely read the wrong data, and not where the program has seen to it."""

from __future__ import annotations

import pytest
from plans import codes, planned

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Options
from shardfix.planning import make_plan

ACC = (
    "import random\nimport torch\nfrom accelerate import Accelerator\nfrom accelerate.utils import set_seed\n"
    "from torch.utils.data import BatchSampler, DataLoader, Sampler, Subset\naccelerator = Accelerator()\n"
)
DDP = (
    "import torch.distributed as dist\nfrom torch.utils.data import DataLoader, DistributedSampler, Subset\n"
    "dist.init_process_group()\n"
)
TRAIN = "for b in loader:\n    accelerator.backward(model(b))\n"
EVAL = "with torch.no_grad():\n    for b in eval_loader:\n        "
PREPARED = ACC + "eval_loader = accelerator.prepare(DataLoader(eval_set))\n"


def sampler(keeps: str, draws: str, base: str = "Sampler", use: str = "sampler") -> str:
    return (
        ACC
        + f"class Mine({base}):\n    def __init__(self, seed=None):\n        {keeps}\n"
        + f"    def __iter__(self):\n        order = list(range(9))\n        {draws}\n        yield from order\n"
        + f"loader = accelerator.prepare(DataLoader(ds, {use}=Mine()))\n"
        + TRAIN
    )


@pytest.mark.parametrize(
    ("keeps", "draws", "batches", "hazard"),
    [
        pytest.param("pass", "random.shuffle(order)", False, True, id="random"),
        pytest.param("self.generator = None", "random.shuffle(order)", False, True, id="random beside a generator"),
        pytest.param("pass", "order = torch.randperm(9)", False, True, id="torch"),
        pytest.param(
            "self.generator = torch.Generator()",
            "order = torch.randperm(9, generator=self.generator)",
            False,
            False,
            id="a generator that is synchronised",
        ),
        pytest.param(
            "self.generator = torch.Generator()",
            "order = torch.randperm(9, generator=self.generator)",
            True,
            True,
            id="a batch sampler's generator is not",
        ),
        pytest.param(
            "self.generator = torch.Generator().manual_seed(0)",
            "order = torch.randperm(9, generator=self.generator)",
            True,
            False,
            id="seeded",
        ),
        pytest.param(
            "self.generator = random.Random(seed) if seed is not None else random",
            "self.generator.shuffle(order)",
            True,
            True,
            id="the global one by default",
        ),
        pytest.param(
            "self.generator = random.Random(3)", "self.generator.shuffle(order)", True, False, id="one seeded alike"
        ),
    ],
)
def test_a_sampler_that_draws_otherwise_on_each_rank(keeps: str, draws: str, batches: bool, hazard: bool) -> None:
    base, use = ("BatchSampler", "batch_sampler") if batches else ("Sampler", "sampler")
    assert codes(sampler(keeps, draws, base, use)) == [["SHD701"] if hazard else []]


@pytest.mark.parametrize(
    ("seeds", "hazard"),
    [
        ("set_seed(0)", False),
        ("random.seed(0)", False),
        ("torch.manual_seed(0)", True),
        ("set_seed(0 + rank)", True),
        ("set_seed(0, device_specific=True)", True),
        ("parser.add_argument('--seed', type=int)\nif args.seed is not None:\n    set_seed(args.seed)", True),
        (
            "parser.add_argument('--seed', type=int, default=1)\nif args.seed is not None:\n    set_seed(args.seed)",
            False,
        ),
    ],
)
def test_ranks_that_are_seeded_alike_draw_alike(seeds: str, hazard: bool) -> None:
    text = sampler("pass", "random.shuffle(order)").replace("class Mine", f"{seeds}\nclass Mine")
    assert codes(text) == [["SHD701"] if hazard else []]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(PREPARED + EVAL + "n += b.sum()\n", ["SHD504"], id="summed"),
        pytest.param(PREPARED + EVAL + "metric.add_batch(references=b)\n", ["SHD504"], id="a metric"),
        pytest.param(PREPARED + EVAL + "step += 1\n", [], id="steps are counted"),
        pytest.param(PREPARED + EVAL + "n += accelerator.gather_for_metrics(b)\n", [], id="gathered"),
        pytest.param(PREPARED + EVAL + "n += b.sum()\nn = accelerator.reduce(n)\n", [], id="reduced behind the loop"),
        pytest.param(
            PREPARED + "import torchmetrics\nm = torchmetrics.Accuracy()\n" + EVAL + "m.update(b)\n",
            [],
            id="torchmetrics",
        ),
        pytest.param(
            PREPARED + "if accelerator.is_main_process:\n    " + EVAL.replace("\n", "\n    ") + "n += b.sum()\n",
            ["SHD716"],
            id="the main process alone",
        ),
        pytest.param(
            PREPARED + "if accelerator.is_main_process:\n    for b in eval_loader:\n        show(b)\n        break\n",
            [],
            id="the main process looks at one batch",
        ),
        pytest.param(
            PREPARED + EVAL + "out.append(accelerator.gather(b))\nout = torch.cat(out)[: len(eval_set)]\n",
            [],
            id="cut behind the loop",
        ),
        pytest.param(PREPARED + EVAL + "out.append(accelerator.gather(b.mean()))\n", ["SHD707"], id="not cut"),
    ],
)
def test_a_prepared_evaluation(text: str, expected: list[str]) -> None:
    assert codes(text) == [expected]


@pytest.mark.parametrize(
    "dataset",
    [
        "ds.shard(accelerator.num_processes, accelerator.process_index)",
        "Subset(ds, range(accelerator.process_index, 20, accelerator.num_processes))",
    ],
)
def test_prepared_data_that_is_split_by_rank(dataset: str) -> None:
    text = ACC + f"part = {dataset}\nloader = accelerator.prepare(DataLoader(part))\n" + TRAIN
    assert codes(text) == [["SHD715"]]


def test_a_part_between_processes_is_not_prepared() -> None:
    text = ACC + "with accelerator.split_between_processes(ds) as part:\n    loader = DataLoader(part)\n"
    text += "    loader = accelerator.prepare(loader)\n    for b in loader:\n        model(b)\n"
    assert codes(text) == [["SHD715"]]


def test_data_split_by_rank_under_a_sampler_is_reported_and_not_edited() -> None:
    text = DDP + "part = Subset(ds, range(rank, 20, world_size))\n"
    text += "loader = DataLoader(part, sampler=DistributedSampler(part))\nfor epoch in range(3):\n"
    text += "    for b in loader:\n        b.backward()\n"
    assert codes(text) == [["SHD715"]]


@pytest.mark.parametrize(
    ("sampler", "expected"),
    [
        pytest.param("BatchSampler(RandomSampler(ds), 4, False)", [], id="a batch sampler"),
        pytest.param("RandomSampler(ds)", ["SHD712"], id="of single samples"),
        pytest.param(
            "BatchSampler(RandomSampler(ds), 4, False) if big else RandomSampler(ds)", ["SHD712"], id="either"
        ),
    ],
)
def test_a_batch_size_of_none_is_prepared_where_the_sampler_gives_batches(sampler: str, expected: list[str]) -> None:
    text = ACC + "from torch.utils.data import RandomSampler\n"
    text += f"loader = accelerator.prepare(DataLoader(ds, sampler={sampler}, batch_size=None))\n" + TRAIN
    assert [c for c in codes(text)[0] if c == "SHD712"] == expected


@pytest.mark.parametrize(
    ("path", "expected"), [("tests/test_length.py", []), ("length.py", ["SHD705"])], ids=["a test", "a program"]
)
def test_a_unit_test_may_play_one_rank_of_several(path: str, expected: list[str]) -> None:
    text = DDP + "def test_length():\n    sampler = DistributedSampler(ds, num_replicas=2, rank=0)\n"
    text += "    loader = DataLoader(ds, sampler=sampler)\n    assert len(loader) == 2\n"
    (report,) = make_plan(link({path: parse(path, text)}), (path,), Options(sanitizer="off")).reports
    assert [f.code for f in report.findings if f.code == "SHD705"] == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("num_replicas=world_size, rank=0", ["SHD705"]),
        ("rank=0", ["SHD705"]),
        ("num_replicas=world_size, rank=local_rank", []),
        ("num_replicas=4, rank=rank", ["SHD705"]),
    ],
)
def test_a_constant_rank(arguments: str, expected: list[str]) -> None:
    text = DDP + f"sampler = DistributedSampler(ds, {arguments}, shuffle=False)\n"
    assert codes(text + "loader = DataLoader(ds, sampler=sampler)\nfor b in loader:\n    b.backward()\n") == [expected]


LOOP = "for epoch in range(3):\n    for b in train_loader:\n        b.backward()\n"


@pytest.mark.parametrize(
    "division",
    ["steps = len(train_loader) // world_size", "n = len(train_loader)\nsteps = 3 * n / dist.get_world_size()"],
)
def test_a_length_that_is_divided_already_is_not_divided_again(division: str) -> None:
    text = DDP + "train_loader = DataLoader(ds, shuffle=True)\n" + division + "\n" + LOOP
    assert codes(text) == [["SHD930"]]
    (change,) = planned(text, Options(sanitizer="off", unsafe=True)).changes
    assert (change.tier, "divides the length" in change.reason) == ("unsafe", True)


def test_a_length_that_is_divided_by_something_else_is_told_with_the_edit() -> None:
    text = DDP + "train_loader = DataLoader(ds, shuffle=True)\nsteps = len(train_loader) // accumulation\n" + LOOP
    assert codes(text) == [["SHD301"]]


@pytest.mark.parametrize(("shuffle", "told"), [("True", True), ("False", False)])
def test_a_new_sampler_says_where_the_order_comes_from(shuffle: str, told: bool) -> None:
    (change,) = planned(DDP + f"train_loader = DataLoader(ds, shuffle={shuffle})\n" + LOOP).changes
    assert any("torch's seed no longer changes it" in c for c in change.consequences) is told


def consequences(text: str) -> str:
    (change,) = planned(text).changes
    return "\n".join(change.consequences)


def test_statistics_over_a_loader_that_gets_sharded_are_told() -> None:
    text = DDP + "train_loader = DataLoader(ds, shuffle=True)\nfor b in train_loader:\n    total += b.sum()\n" + LOOP
    assert "the loop in line 5 now sees its rank's share only" in consequences(text)


@pytest.mark.parametrize(("seed", "told"), [("", True), ("torch.manual_seed(0)\n", False)])
def test_a_split_that_each_rank_draws_for_itself_is_told(seed: str, told: bool) -> None:
    text = DDP + "import torch\nfrom torch.utils.data import random_split\n" + seed
    text += "train_set, val_set = random_split(ds, [6, 2])\ntrain_loader = DataLoader(train_set, shuffle=True)\n" + LOOP
    assert ("share out different subsets" in consequences(text)) is told


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("rank < 4", ["SHD931"]),
        ("rank == 0 or everyone", ["SHD931"]),
        ("rank != -1", ["SHD301"]),
        ("everyone", ["SHD301"]),
    ],
)
def test_a_loader_that_some_ranks_build_is_not_dealt_to_all(condition: str, expected: list[str]) -> None:
    made = "    train_loader = DataLoader(ds, shuffle=True)\n"
    assert codes(DDP + f"if {condition}:\n{made}    " + LOOP.replace("\n", "\n    ").rstrip() + "\n") == [expected]


def test_a_sampler_that_a_batch_sampler_shares_is_left() -> None:
    text = DDP + "from torch.utils.data import BatchSampler, RandomSampler\nsampler = RandomSampler(ds)\n"
    text += "train_loader = DataLoader(ds, sampler=sampler)\n"
    text += "other = DataLoader(ds, batch_sampler=BatchSampler(sampler, 2, True))\n"
    assert codes(text + LOOP)[0] == ["SHD902"]


@pytest.mark.parametrize(
    ("rank", "world"),
    [
        ("rank", "world_size"),
        ("args.distributed_rank", "args.distributed_world_size"),
        ("ddp_rank", "ddp_world_size"),
        ("dist_rank", "num_ranks"),
        ("get_world_rank()", "get_world_size()"),
    ],
)
def test_a_seed_that_differs_by_rank_is_told_and_the_epoch_is_not(rank: str, world: str) -> None:
    text = DDP + f"sampler = DistributedSampler(ds, {world}, {rank}, seed=7 + {rank})\n"
    text += "loader = DataLoader(ds, sampler=sampler)\nfor epoch in range(3):\n    for b in loader:\n"
    text += "        b.backward()\n"
    assert codes(text) == [["SHD704"]]
    assert codes(text.replace(f"7 + {rank}", "7")) == [["SHD401"]]


@pytest.mark.parametrize(
    ("keeps", "reads", "hazard"),
    [
        pytest.param("kept.append(b)", "kept[step]", True, id="appended, read by step"),
        pytest.param("kept.append(b)", "kept[index]", False, id="read by the sample's index"),
        pytest.param("kept.append(b)", "other[step]", False, id="another list"),
        pytest.param("b.sum()", "kept[step]", False, id="nothing kept"),
    ],
)
@pytest.mark.parametrize("prepare", ["loader = accelerator.prepare(loader)\n", ""])
def test_what_is_kept_by_step_of_a_pass_before_prepare(keeps: str, reads: str, hazard: bool, prepare: str) -> None:
    text = ACC + f"kept = []\nloader = DataLoader(ds)\nwith torch.no_grad():\n    for b in loader:\n        {keeps}\n"
    text += prepare + f"for step, (b, index) in enumerate(loader):\n    accelerator.backward(model({reads}))\n"
    assert any(f.code == "SHD717" for r in planned(text).reports for f in r.findings) is (hazard and bool(prepare))


@pytest.mark.parametrize(
    ("sampler", "says"),
    [("", "it sees 1/W"), (", sampler=SequentialSampler(d)", "it sees 1/W"), (", shuffle=True", "waits for the other")],
)
def test_the_main_process_waits_only_where_the_order_is_drawn(sampler: str, says: str) -> None:
    text = (
        ACC + "from torch.utils.data import SequentialSampler\n"
        f"loader = accelerator.prepare(DataLoader(d{sampler}))\n"
        "if accelerator.is_main_process:\n    for b in loader:\n        pass\n"
    )
    (report,) = planned(text).reports
    assert [says in f.message for f in report.findings if f.code == "SHD716"] == [True]


MAIN = "if accelerator.is_main_process and log:\n    "
LOOK = "for b in loader:\n        if seen:\n            break\n        seen.append(b)\n"


@pytest.mark.parametrize(
    ("shuffle", "text", "hazard"),
    [
        pytest.param("True", MAIN + LOOK + TRAIN, True, id="some batches on the main process, then all ranks"),
        pytest.param("True", MAIN + "for b in loader:\n        break\n" + TRAIN, True, id="one batch"),
        pytest.param("True", "def log():\n    " + LOOK + MAIN + "log()\n" + TRAIN, True, id="in a function"),
        pytest.param("False, sampler=WeightedRandomSampler(w, 9)", MAIN + LOOK + TRAIN, True, id="drawn by weight"),
        pytest.param("False, sampler=mine", MAIN + LOOK + TRAIN, False, id="another's sampler"),
        pytest.param("False", MAIN + LOOK + TRAIN, False, id="the ranks agree on no order"),
        pytest.param("shuffled", MAIN + LOOK + TRAIN, False, id="perhaps not shuffled"),
        pytest.param("True", "if not distributed:\n    " + LOOK + TRAIN, False, id="a run of one process"),
        pytest.param("True", MAIN + LOOK + "else:\n    for b in loader:\n        pass\n", False, id="the others too"),
        pytest.param(
            "True",
            MAIN + LOOK + "if not accelerator.is_main_process:\n    for b in loader:\n        pass\n" + TRAIN,
            False,
            id="the others elsewhere",
        ),
        pytest.param(
            "True",
            "def run():\n    if accelerator.is_main_process:\n        for b in loader:\n            pass\n"
            "        return\n    for b in loader:\n        pass\nrun()\n",
            False,
            id="and what follows is for the others",
        ),
    ],
)
def test_a_pass_of_the_main_process_alone_waits_though_all_ranks_read_as_well(
    shuffle: str, text: str, hazard: bool
) -> None:
    head = ACC + "from torch.utils.data import WeightedRandomSampler\n"
    head += f"loader = accelerator.prepare(DataLoader(ds, shuffle={shuffle}))\n"
    assert ("SHD716" in codes(head + text)[0]) is hazard


def test_a_pass_of_the_main_process_before_prepare_waits_for_nobody() -> None:
    text = (
        ACC + "loader = DataLoader(ds, shuffle=True)\n" + MAIN + LOOK + "loader = accelerator.prepare(loader)\n" + TRAIN
    )
    assert "SHD716" not in codes(text)[0]


def test_the_seedable_sampler_agrees_on_nothing_when_reading_begins() -> None:
    text = ACC + "loader = accelerator.prepare(DataLoader(ds, shuffle=True))\n" + MAIN + LOOK + TRAIN
    assert codes(text) == [["SHD716"]]
    settings = "from accelerate.utils import DataLoaderConfiguration\nset_seed(0)\n"
    settings += "accelerator = Accelerator(dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True))\n"
    assert "SHD716" not in codes(text.replace("accelerator = Accelerator()\n", settings))[0]


@pytest.mark.parametrize(
    ("setting", "seed", "loader", "hazard"),
    [
        pytest.param("use_seedable_sampler=True", "", "shuffle=True", True, id="nothing seeds"),
        pytest.param("use_seedable_sampler=True", "set_seed(1)\n", "shuffle=True", False, id="seeded"),
        pytest.param(
            "use_seedable_sampler=True",
            "set_seed(1, device_specific=True)\n",
            "shuffle=True",
            True,
            id="seeded by rank",
        ),
        pytest.param("use_seedable_sampler=True, data_seed=1", "", "shuffle=True", False, id="a seed for the data"),
        pytest.param("use_seedable_sampler=True", "", "shuffle=False", False, id="ordered"),
        pytest.param("use_seedable_sampler=False", "", "shuffle=True", False, id="synchronised"),
    ],
)
def test_the_seedable_sampler_rests_on_ranks_that_are_seeded_alike(
    setting: str, seed: str, loader: str, hazard: bool
) -> None:
    text = (
        "from accelerate import Accelerator\nfrom accelerate.utils import DataLoaderConfiguration, set_seed\n"
        f"from torch.utils.data import DataLoader\n{seed}"
        f"accelerator = Accelerator(dataloader_config=DataLoaderConfiguration({setting}))\n"
        f"loader = accelerator.prepare(DataLoader(ds, {loader}))\n{TRAIN}"
    )
    assert codes(text) == [["SHD718"] if hazard else []]
