"""Taking a sampler off takes nothing else along: what others read, tell, ask or do stays."""

from __future__ import annotations

import pytest

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Options
from shardfix.planning import Plan, make_plan
from shardfix.rewrite.applier import apply

HEAD = "from accelerate import Accelerator\nfrom torch.utils.data import DataLoader, DistributedSampler\n\n"
ACC = "accelerator = Accelerator()\nds = list(range(32))\n"
LOADER = "loader = accelerator.prepare(DataLoader(ds, 4, sampler=sampler))\n"
CLEAN = "loader = accelerator.prepare(DataLoader(ds, 4, shuffle=True))\n"
READ = "for e in range(3):\n    for batch in loader:\n        print(batch)\n"
TOLD = "for e in range(3):\n    sampler.set_epoch(e)\n    for batch in loader:\n        print(batch)\n"
RETOLD = TOLD.replace("sampler.set", "loader.set")


def plan(text: str, others: dict[str, str] | None = None, **options: bool) -> Plan:
    files = {"train.py": text, **(others or {})}
    project = link({path: parse(path, source) for path, source in files.items()})
    found = make_plan(project, ("train.py",), Options(sanitizer="off", **options))  # type: ignore[arg-type]
    assert found.problems == ()  # a file of which the analysis comes to no end is left alone too
    return found


def after(text: str, others: dict[str, str] | None = None) -> str:
    edits = [e for c in plan(text, others).changes for e in c.edits]
    return apply(text, list(dict.fromkeys(edits)), path="train.py").text


def refused(text: str) -> list[tuple[str, str]]:
    found = plan(text)
    assert found.changes == ()
    return [(f.code, f.message) for r in found.reports for f in r.findings]


# --- a sampler that something else reads stays, off the loader ---


@pytest.mark.parametrize(
    ("more", "others"),
    [
        pytest.param("del loader, sampler\n", {}, id="del"),
        pytest.param("__all__ = ['loader', 'sampler']\n", {}, id="__all__"),
        pytest.param("", {"main.py": "from train import loader, sampler\n"}, id="imported"),
        pytest.param("", {"main.py": "import train\nprint(train.sampler)\n"}, id="read through the module"),
        pytest.param("", {"main.py": "from train import *\nprint(sampler)\n"}, id="imported with a star"),
        pytest.param("def other():\n    global sampler\n    sampler = None\n", {}, id="global"),
    ],
)
def test_a_variable_that_others_need_stays(more: str, others: dict[str, str]) -> None:
    made = "sampler = DistributedSampler(ds)\n"
    text = HEAD + ACC + made + LOADER + READ + more
    assert after(text, others) == HEAD + ACC + made + CLEAN + READ + more


def test_a_variable_of_another_file_by_the_same_name_keeps_nothing() -> None:
    text = HEAD + ACC + "sampler = DistributedSampler(ds)\n" + LOADER + READ
    head = HEAD.replace(", DistributedSampler", "")
    assert after(text, {"main.py": "from elsewhere import sampler\n"}) == head + ACC + CLEAN + READ


CLASS = (
    "class T(Base):\n"
    "    def __init__(self, ds):\n"
    "        self.accelerator = Accelerator()\n"
    "{made}"
    "        self.loader = self.accelerator.prepare(DataLoader(ds, 4, {argument}))\n"
    "\n"
    "    def run(self):\n"
    "        for batch in self.loader:\n"
    "            print(batch)\n"
)
MADE = "        self.train_sampler = DistributedSampler(ds)\n"


@pytest.mark.parametrize(
    ("more", "others"),
    [
        pytest.param("def callback(trainer):\n    print(len(trainer.train_sampler))\n", {}, id="read of an object"),
        pytest.param("", {"main.py": "def f(t):\n    t.train_sampler.set_epoch(1)\n"}, id="read in another file"),
        pytest.param(
            "",
            {"base.py": "class Base:\n    def fit(self):\n        self.train_sampler.set_epoch(1)\n"},
            id="read by the base class",
        ),
        pytest.param("def clear(t):\n    del t.train_sampler\n", {}, id="del"),
        pytest.param("def ask(t):\n    return getattr(t, 'train_sampler', None)\n", {}, id="getattr"),
    ],
)
def test_an_attribute_that_others_read_stays(more: str, others: dict[str, str]) -> None:
    text = HEAD + CLASS.format(made=MADE, argument="sampler=self.train_sampler") + more
    assert after(text, others) == HEAD + CLASS.format(made=MADE, argument="shuffle=True") + more


def test_an_attribute_of_an_unrelated_class_keeps_nothing() -> None:
    other = (
        "class U:\n    def __init__(self):\n        self.train_sampler = None\n\n"
        "    def f(self):\n        return self.train_sampler\n"
    )
    text = HEAD + CLASS.format(made=MADE, argument="sampler=self.train_sampler") + other
    head = HEAD.replace(", DistributedSampler", "")
    assert after(text) == head + CLASS.format(made="", argument="shuffle=True") + other


# --- the epoch is told to what surely is the prepared loader ---


def test_what_is_told_before_prepare_goes() -> None:
    raw = "loader = DataLoader(ds, 4, {})\n"
    prepared = "loader = accelerator.prepare(loader)\n"
    text = (
        HEAD + ACC + "sampler = DistributedSampler(ds)\n" + raw.format("sampler=sampler") + "sampler.set_epoch(2)\n"
    ) + (prepared + TOLD)
    head = HEAD.replace(", DistributedSampler", "")
    assert after(text) == head + ACC + raw.format("shuffle=True") + prepared + RETOLD


def test_a_loader_that_is_prepared_later_in_the_loop_is_not_told() -> None:
    head = HEAD.replace(", DistributedSampler", "")
    each = "    ready = accelerator.prepare(loader)\n    for batch in ready:\n        print(batch)\n"
    text = HEAD + ACC + "sampler = DistributedSampler(ds)\nloader = DataLoader(ds, 4, sampler=sampler)\n"
    assert after(text + "for e in range(3):\n    sampler.set_epoch(e)\n" + each) == (
        head + ACC + "loader = DataLoader(ds, 4, shuffle=True)\nfor e in range(3):\n" + each
    )


def test_an_iterator_is_not_told() -> None:
    head = HEAD.replace(", DistributedSampler", "")
    loop = "it = iter(loader)\nfor e in range(9):\n    {}.set_epoch(e)\n    it = iter(loader)\n    print(next(it))\n"
    text = HEAD + ACC + "sampler = DistributedSampler(ds)\n" + LOADER + loop.format("sampler")
    assert after(text) == head + ACC + CLEAN + loop.format("loader")


def test_a_parameter_that_is_also_a_plain_loader_is_not_told() -> None:
    run = "def run(loader, sampler, epoch):\n{}    for batch in loader:\n        print(batch)\n\n\n"
    told = "    if sampler is not None:\n        sampler.set_epoch(epoch)\n"
    calls = "for e in range(3):\n    run(loader, sampler, e)\n    run(DataLoader(ds, 4), None, e)\n"
    made = "sampler = DistributedSampler(ds)\n"
    text = HEAD + run.format(told) + ACC + made + LOADER + calls
    assert after(text) == HEAD + run.format("") + ACC + made + CLEAN + calls


def test_a_set_epoch_that_also_tells_a_plain_loader_s_sampler_is_left() -> None:
    text = (
        HEAD
        + ACC
        + (
            "sampler = DistributedSampler(ds)\n"
            "train_loader = accelerator.prepare(DataLoader(ds, 4, sampler=sampler))\n"
            "other_train_loader = DataLoader(ds, 4, sampler=sampler)\n"
            "for e in range(3):\n"
            "    sampler.set_epoch(e)\n"
            "    for batch in train_loader:\n"
            "        print(batch)\n"
            "    for batch in other_train_loader:\n"
            "        print(batch)\n"
        )
    )
    assert (
        "SHD920",
        "the epoch may be told elsewhere: set_epoch in line 10 also tells the sampler of the loader in line 8",
    ) in (refused(text))


BOTH = "    for batch in loader:\n        print(batch)\n    for batch in val:\n        print(batch)\n"


def test_a_loop_over_loaders_tells_the_loaders() -> None:
    text = (
        HEAD
        + ACC
        + (
            "loader, val = accelerator.prepare(\n"
            "    DataLoader(ds, 4, sampler=DistributedSampler(ds)), DataLoader(ds, 2, sampler=DistributedSampler(ds))\n"
            ")\n"
            "for e in range(3):\n"
            "    for l in (loader, val):\n"
            "        l.sampler.set_epoch(e)\n"
        )
        + BOTH
    )
    assert len(plan(text).changes) == 1
    assert (
        after(text)
        == HEAD.replace(", DistributedSampler", "")
        + ACC
        + (
            "loader, val = accelerator.prepare(\n"
            "    DataLoader(ds, 4, shuffle=True), DataLoader(ds, 2, shuffle=True)\n"
            ")\n"
            "for e in range(3):\n"
            "    for l in (loader, val):\n"
            "        l.set_epoch(e)\n"
        )
        + BOTH
    )


@pytest.mark.parametrize(
    ("made", "first", "second", "told"),
    [
        pytest.param(
            "one = DistributedSampler(ds)\ntwo = DistributedSampler(ds)\n",
            "one",
            "two",
            "    for s in (one, two):\n        s.set_epoch(e)\n",
            id="a loop over samplers",
        ),
        pytest.param("one = DistributedSampler(ds)\n", "one", "one", "    one.set_epoch(e)\n", id="a shared sampler"),
    ],
)
def test_two_loaders_are_told_in_two_lines(made: str, first: str, second: str, told: str) -> None:
    loaders = "loader, val = accelerator.prepare(DataLoader(ds, 4, {}), DataLoader(ds, 2, {}))\nfor e in range(3):\n"
    text = HEAD + ACC + made + loaders.format(f"sampler={first}", f"sampler={second}") + told + BOTH
    assert len(plan(text).changes) == 1
    assert after(text) == HEAD.replace(", DistributedSampler", "") + ACC + (
        loaders.format("shuffle=True", "shuffle=True") + "    loader.set_epoch(e)\n    val.set_epoch(e)\n" + BOTH
    )


@pytest.mark.parametrize(
    ("before", "result"),
    [
        ("_ = sampler.set_epoch(e)", "_ = loader.set_epoch(e)"),
        ("sampler.set_epoch(e) if e else print(e)", "loader.set_epoch(e) if e else print(e)"),
        ("e > 1 and sampler.set_epoch(e)", "e > 1 and loader.set_epoch(e)"),
        ("if sampler is not None: sampler.set_epoch(e)", "loader.set_epoch(e)"),
        (
            "if isinstance(sampler, DistributedSampler) and not frozen: sampler.set_epoch(e)",
            "if not frozen: loader.set_epoch(e)",
        ),
    ],
)
def test_what_stands_around_a_set_epoch_stays(before: str, result: str) -> None:
    loop = "for e in range(3):\n    {}\n    for batch in loader:\n        print(batch)\n"
    text = HEAD + ACC + "sampler = DistributedSampler(ds)\n" + LOADER + loop.format(before)
    assert after(text) == HEAD.replace(", DistributedSampler", "") + ACC + CLEAN + loop.format(result)


def test_a_set_epoch_in_a_lambda_stays_with_its_sampler() -> None:
    made = "sampler = DistributedSampler(ds)\n"
    hook = "hook = lambda e: sampler.set_epoch(e)\n"
    assert after(HEAD + ACC + made + LOADER + hook + READ) == HEAD + ACC + made + CLEAN + hook + READ


# --- what is moved keeps its value ---


@pytest.mark.parametrize(
    ("made", "loader", "name"),
    [
        ("sampler = DistributedSampler(ds, shuffle=flag)\nflag = False\n", "sampler=sampler, shuffle=flag", "flag"),
        (
            "size = 8\nsampler = BatchSampler(RandomSampler(ds), size, False)\nsize = 2\n",
            "batch_sampler=sampler",
            "size",
        ),
    ],
)
def test_an_expression_is_not_moved_past_a_rebinding(made: str, loader: str, name: str) -> None:
    head = HEAD.replace("Sampler\n", "Sampler, BatchSampler, RandomSampler\n")
    text = head + ACC + f"flag = input()\n{made}loader = accelerator.prepare(DataLoader(ds, {loader}))\n" + READ
    assert refused(text) == [
        ("SHD922", f"`{name}` of the sampler may have another value where the loader is built"),
    ]


def test_an_expression_whose_names_stay_the_same_is_moved() -> None:
    flag = "flag = input()\n"
    text = HEAD + ACC + flag + "sampler = DistributedSampler(ds, shuffle=flag)\n" + LOADER + READ
    assert after(text) == HEAD.replace(", DistributedSampler", "") + ACC + flag + (CLEAN.replace("True", "flag") + READ)


SOMETIMES = "sampler = DistributedSampler(ds) if distributed else None\n"


def test_shuffle_by_another_question_than_the_sampler_s_is_not_read_as_the_sampler_s() -> None:
    loader = LOADER.replace("sampler=sampler", "sampler=sampler, shuffle=other is None")
    assert refused(HEAD + ACC + SOMETIMES + loader + READ) == [("SHD922", "the sampler's arms disagree")]


@pytest.mark.parametrize(
    "shuffle", ["sampler is None", "not sampler", "True if sampler is None else False", "False if sampler else True"]
)
def test_shuffle_where_there_is_no_sampler_is_read(shuffle: str) -> None:
    loader = LOADER.replace("sampler=sampler", f"sampler=sampler, shuffle={shuffle}")
    head = HEAD.replace(", DistributedSampler", "")
    assert after(HEAD + ACC + SOMETIMES + loader + READ) == head + ACC + CLEAN + READ


PAIRED = "if distributed:\n    sampler = DistributedSampler(ds)\n    shuffle = False\nelse:\n    {}\n    {}\n"


def test_sampler_and_shuffle_set_in_pairs_are_one_decision() -> None:
    loader = LOADER.replace("sampler=sampler", "sampler=sampler, shuffle=shuffle")
    head = HEAD.replace(", DistributedSampler", "")
    pair = PAIRED.format("sampler = None", "shuffle = True")
    assert after(HEAD + ACC + pair + loader + READ) == head + ACC + CLEAN + READ
    unlike = PAIRED.format("sampler = None", "shuffle = False")
    assert refused(HEAD + ACC + unlike + loader + READ) == [("SHD922", "the sampler's arms disagree")]


# --- what does something stays ---


@pytest.mark.parametrize(
    "made",
    [
        "if init(args):\n    sampler = DistributedSampler(ds)\nelse:\n    sampler = None\n",
        "sampler = DistributedSampler(ds) if init(args) else None\n",
        "if (world := args.world) > 1:\n    sampler = DistributedSampler(ds)\nelse:\n    sampler = None\n",
        "if args.ddp:\n    sampler = DistributedSampler(ds)\n    print(1)\nelse:\n    # one\n    sampler = None\n",
    ],
)
def test_a_branching_that_does_more_than_choose_a_sampler_stays(made: str) -> None:
    loader = LOADER.replace("sampler=sampler", "sampler=sampler, shuffle=sampler is None")
    assert after(HEAD + ACC + made + loader + READ) == HEAD + ACC + made + CLEAN + READ


def test_a_branch_that_only_chose_a_sampler_goes_without_the_other() -> None:
    made = "if args.distributed:\n    sampler = DistributedSampler(ds)\n    print(1)\nelse:\n    sampler = None\n"
    loader = LOADER.replace("sampler=sampler", "sampler=sampler, shuffle=sampler is None")
    head, kept = HEAD.replace(", DistributedSampler", ""), "if args.distributed:\n    print(1)\n"
    assert after(HEAD + ACC + made + loader + READ) == head + ACC + kept + CLEAN + READ


def test_a_try_that_only_makes_a_sampler_goes_whole() -> None:
    made = "try:\n    sampler = DistributedSampler(ds)\nexcept RuntimeError:\n    sampler = None\n"
    loader = LOADER.replace("sampler=sampler", "sampler=sampler, shuffle=sampler is None")
    assert after(HEAD + ACC + made + loader + READ) == HEAD.replace(", DistributedSampler", "") + ACC + CLEAN + READ


# --- what is said ---


def test_a_distributed_sampler_beside_a_weighted_one_is_said_to_shard_twice() -> None:
    head = HEAD.replace("Sampler\n", "Sampler, WeightedRandomSampler\n")
    made = "sampler = WeightedRandomSampler([1.0] * 32, 32) if weighted else DistributedSampler(ds)\n"
    assert refused(head + ACC + made + LOADER + READ) == [
        (
            "SHD201",
            "sharded twice on one path: the sampler is WeightedRandomSampler or a DistributedSampler, and prepare() "
            "shards either",
        )
    ]


def test_prepare_data_loader_for_one_process_leaves_sharding_to_the_sampler() -> None:
    text = HEAD + (
        "from accelerate.data_loader import prepare_data_loader\n" + ACC + "sampler = DistributedSampler(ds)\n"
        "loader = prepare_data_loader(DataLoader(ds, 4, sampler=sampler){})\n"
    )
    (report,) = plan(text.format(", num_processes=1, process_index=0") + READ).reports
    assert report.verdict == "right"
    assert report.why == "prepare_data_loader(num_processes=1) leaves sharding to the sampler"
    assert len(plan(text.format("") + READ).changes) == 1


@pytest.mark.parametrize(("replicas", "verdict"), [("1", "right"), ("one", "right"), ("two", "edit")])
def test_a_sampler_for_one_replica_by_a_name_shards_nothing(replicas: str, verdict: str) -> None:
    made = f"one = 1\ntwo = 2\nsampler = DistributedSampler(ds, num_replicas={replicas}, rank=0)\n"
    (report,) = plan(HEAD + ACC + made + LOADER + READ).reports
    assert report.verdict == verdict


@pytest.mark.parametrize(
    "argument",
    ["sampler=DistributedSampler(ds, seed=7)", "batch_sampler=BatchSampler(DistributedSampler(ds, seed=7), 4, False)"],
)
def test_a_seed_is_lost_only_when_asked(argument: str) -> None:
    head = HEAD.replace("Sampler\n", "Sampler, BatchSampler\n")
    text = head + ACC + f"loader = accelerator.prepare(DataLoader(ds, {argument}))\n" + READ
    assert refused(text) == [("SHD201", "the sampler's seed= is lost: the order no longer depends on it")]
    (change,) = plan(text, unsafe=True).changes
    assert change.tier == "unsafe"


def test_the_consequences_name_a_lost_drop_last_and_the_lengths_read() -> None:
    text = HEAD + ACC + "sampler = DistributedSampler(ds, drop_last=True)\n" + LOADER + "print(len(sampler))\n" + READ
    (change,) = plan(text).changes
    assert change.consequences[2:] == (
        "the sampler's drop_last goes: prepare() repeats samples to fill the last batches where the sampler left out "
        "the tail",
        "len() of the sampler is read in line 8: it stays a W-th of the dataset; the loader draws all",
    )
    text = HEAD + ACC + "sampler = DistributedSampler(ds)\n" + LOADER + "print(len(loader.sampler))\n" + READ
    (change,) = plan(text).changes
    assert change.consequences[2:] == ("len(loader.sampler) is read in line 8: it becomes the length of the dataset",)


def test_a_guard_keeps_the_brackets_of_what_is_left_of_it() -> None:
    loop = "for e in range(3):\n    if {}:\n        {}.set_epoch(e)\n    for batch in loader:\n        print(batch)\n"
    before = loop.format("(a or b) and sampler is not None and c", "sampler")
    text = HEAD + ACC + "sampler = DistributedSampler(ds)\n" + LOADER + before
    assert after(text) == HEAD.replace(", DistributedSampler", "") + ACC + CLEAN + loop.format(
        "(a or b) and c", "loader"
    )


def test_samplers_in_a_list_are_told_as_before() -> None:
    made = "sampler = DistributedSampler(ds)\nall_samplers = [sampler]\n"
    told = "for e in range(3):\n    for s in all_samplers:\n        s.set_epoch(e)\n" + READ.replace("e in", "_ in")
    assert after(HEAD + ACC + made + LOADER + told) == HEAD + ACC + made + CLEAN + told


METHODS = (
    "class T:\n"
    "    def __init__(self, ds):\n"
    "        self.loader = None\n"
    "        self.ds = ds\n"
    "\n"
    "    def setup(self):\n"
    "        accelerator = Accelerator()\n"
    "{made}"
    "        loader = DataLoader(self.ds, 4, {argument})\n"
    "        self.loader = accelerator.prepare(loader)\n"
    "\n"
    "    def train(self):\n"
    "        for e in range(3):\n"
    "            self.{told}.set_epoch(e)\n"
    "            for batch in self.loader:\n"
    "                print(batch)\n"
)


def test_a_loader_that_one_method_prepares_is_told_in_another() -> None:
    made = "        self.sampler = DistributedSampler(self.ds)\n"
    text = HEAD + METHODS.format(made=made, argument="sampler=self.sampler", told="sampler")
    head = HEAD.replace(", DistributedSampler", "")
    assert after(text) == head + METHODS.format(made="", argument="shuffle=True", told="loader")


def test_a_method_of_the_same_name_in_another_file_is_not_this_one() -> None:
    body = "class T:\n    def train(self, loader, sampler):\n        for e in range(3):\n            {}.set_epoch(e)\n"
    body += "            for batch in loader:\n                print(batch)\n\n\n"
    use = "t = T()\nt.train(loader, {})\n"
    text = HEAD + body.format("sampler") + ACC + "sampler = DistributedSampler(ds)\n" + LOADER + use.format("sampler")
    kept = HEAD + body.format("loader") + ACC + "sampler = DistributedSampler(ds)\n" + CLEAN + use.format("sampler")
    assert after(text, {"other.py": "def f(model):\n    model.train()\n"}) == kept
    others = {"other.py": "def f(t, loader, sampler):\n    t.train(loader, sampler)\n"}
    project = link({"train.py": parse("train.py", text), "other.py": parse("other.py", others["other.py"])})
    found = make_plan(project, ("train.py",), Options(sanitizer="off"))
    assert [f.code for r in found.reports for f in r.findings] == ["SHD920"]


def test_what_other_code_reads_of_the_loader_s_sampler_keeps_it_there() -> None:
    text = HEAD + ACC + "sampler = DistributedSampler(ds)\n" + LOADER + READ + "print(loader.sampler.num_replicas)\n"
    assert refused(text) == [
        ("SHD920", "the sampler is needed elsewhere: line 11 reads num_replicas of the loader's sampler")
    ]


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ("def f(t):\n    t.loader.sampler.set_epoch(1)\n", True),
        ("def f(t):\n    t.other.sampler.set_epoch(1)\n", False),
        ("def f(t):\n    if hasattr(t.loader.sampler, 'set_epoch'):\n        t.loader.sampler.set_epoch(1)\n", False),
    ],
)
def test_a_sampler_that_another_file_tells_through_the_loader_stays(told: str, kept: bool) -> None:
    text = HEAD + CLASS.format(made="", argument="sampler=DistributedSampler(ds)")
    found = plan(text, {"main.py": told})
    assert [f.message for r in found.reports for f in r.findings] == (
        ["the sampler is needed elsewhere: main.py:2 reads set_epoch of what may be this loader's sampler"]
        if kept
        else []
    )
    assert bool(found.changes) is not kept


@pytest.mark.parametrize("early", [True, False])
def test_a_function_called_before_prepare_tells_nothing(early: bool) -> None:
    made = "sampler = DistributedSampler(ds)\nloader = DataLoader(ds, 4, sampler=sampler)\n"
    start = "def start(e):\n{}    print(len(loader))\n\n\n"
    steps = ["start(2)\n", "loader = accelerator.prepare(loader)\n"]
    run = "".join(steps if early else reversed(steps)) + READ
    told = "" if early else "    loader.set_epoch(e)\n"
    clean = "loader = DataLoader(ds, 4, shuffle=True)\n"
    text = HEAD + ACC + made + start.format("    sampler.set_epoch(e)\n") + run
    assert after(text) == HEAD.replace(", DistributedSampler", "") + ACC + clean + start.format(told) + run
