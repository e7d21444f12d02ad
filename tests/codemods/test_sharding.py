"""Where a loader gets a DistributedSampler, and where that would be wrong: data split already, streams, other code."""

from __future__ import annotations

import pytest

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Options
from shardfix.planning import Plan, make_plan
from shardfix.rewrite.applier import apply
from shardfix.rewrite.edits import CreateFile

HEAD = (
    "import torch.distributed as dist\n"
    "from torch.utils.data import DataLoader\n"
    "from torch.utils.data.distributed import DistributedSampler\n"
    "\n"
    "\n"
)
INIT = "    dist.init_process_group()\n"
LOADER = "    loader = DataLoader(train_set, shuffle=True)\n"
LOOP = "    for epoch in range(3):\n        for batch in loader:\n            model(batch).backward()\n"


def plan(text: str | dict[str, str]) -> Plan:
    files = {"train.py": text} if isinstance(text, str) else text
    found = make_plan(
        link({path: parse(path, t) for path, t in files.items()}), ("train.py",), Options(sanitizer="off")
    )
    assert found.problems == ()  # a file of which the analysis comes to no end is left alone too
    return found


def after(text: str | dict[str, str]) -> str:
    before = text if isinstance(text, str) else text["train.py"]
    edits = [e for c in plan(text).changes for e in c.edits if not isinstance(e, CreateFile)]
    return apply(before, list(dict.fromkeys(edits)), path="train.py").text


def codes(text: str | dict[str, str]) -> list[str]:
    """The codes of what is refused, and ``edit`` for each loader that is edited."""
    found = plan(text)
    return [c for r in found.reports for c in ([f.code for f in r.findings] or [r.verdict])]


@pytest.mark.parametrize(
    ("before", "made"),
    [
        pytest.param(
            "", "files = files[dist.get_rank() :: dist.get_world_size()]\n    train_set = Rows(files)", id="name"
        ),
        pytest.param("", "train_set = files[dist.get_rank()]", id="one part a rank"),
        pytest.param("", "rank = dist.get_rank()\n    train_set = load(f'train_{rank}.pt')", id="one file a rank"),
        pytest.param("", "r = dist.get_rank()\n    part = files[r]\n    train_set = list(part)", id="through names"),
        pytest.param(
            "",
            "r, w = dist.get_rank(), dist.get_world_size()\n"
            "    train_set = [f for i, f in enumerate(files) if i % w == r]",
            id="a remainder through names",
        ),
        pytest.param(
            "def load(files):\n    return files[dist.get_rank() :: dist.get_world_size()]\n",
            "train_set = load(files)",
            id="what a function returns",
        ),
        pytest.param(
            "class Rows:\n    def __init__(self, n):\n        self.start = dist.get_rank() * n\n",
            "train_set = Rows(files)",
            id="the dataset's own class",
        ),
        pytest.param("", "train_set = big if dist.get_rank() == 0 else small", id="chosen by rank"),
    ],
)
def test_data_that_depends_on_the_rank_is_not_split_again(before: str, made: str) -> None:
    text = HEAD + before + "def main(files, model):\n" + INIT + f"    {made}\n" + LOADER + LOOP
    assert codes(text) == ["SHD917"]


def test_data_that_a_caller_splits_by_rank_is_not_split_again() -> None:
    text = HEAD + "def train(train_set, model):\n" + LOADER + LOOP + "def main(files, model):\n" + INIT
    assert codes(text + "    train(files[dist.get_rank() :: 2], model)\n") == ["SHD917"]
    assert codes(text + "    train(files, model)\n") == ["edit"]


@pytest.mark.parametrize(
    ("before", "made"),
    [
        pytest.param("", "train_set = files.to(rank)", id="the device"),
        pytest.param("", "train_set = load(files, map_location=f'cuda:{rank}')", id="where it is loaded"),
        pytest.param("", "train_set = Rows(files, download=rank == 0)", id="who downloads"),
        pytest.param("", "train_set = tqdm(files, disable=rank != 0)", id="who shows progress"),
        pytest.param(
            "class Rows:\n    def __init__(self, files):\n        print(dist.get_rank())\n",
            "train_set = Rows(files)",
            id="what is printed",
        ),
        pytest.param(
            "def load(files):\n    if dist.get_rank() == 0:\n        fetch()\n    return files\n",
            "train_set = load(files)",
            id="who fetches",
        ),
    ],
)
def test_a_rank_that_chooses_no_samples_is_no_split(before: str, made: str) -> None:
    text = HEAD + before + "def main(files, model, rank):\n" + INIT + f"    {made}\n" + LOADER + LOOP
    assert codes(text) == ["edit"]


STREAM = "from torch.utils.data import IterableDataset\n\n\nclass Rows(IterableDataset):\n    pass\n"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("    train_set = Rows()\n", id="made here"),
        pytest.param("    train_set = make()\n", id="by a factory"),
        pytest.param("    train_set = load_dataset('c4', streaming=True)['train'].shuffle()\n", id="streaming"),
        pytest.param("    train_set = webdataset.WebDataset('x.tar').decode()\n", id="WebDataset"),
    ],
)
def test_a_stream_gets_no_sampler(body: str) -> None:
    made = "import webdataset\n" + STREAM + "def make():\n    return Rows()\n"
    text = made + HEAD + "def main(model):\n" + INIT + body + LOADER.replace(", shuffle=True", "") + LOOP
    assert codes(text) == ["SHD711"]
    assert after(text) == text


def test_a_stream_of_another_file_and_of_a_caller_gets_no_sampler() -> None:
    text = "from stream import Rows\n" + HEAD + "def train(train_set, model):\n" + INIT
    text += LOADER.replace(", shuffle=True", "") + LOOP + "train(Rows(), None)\n"
    assert codes({"stream.py": STREAM, "train.py": text}) == ["SHD711"]


MAIN = "def main(args, train_set, model):\n"


@pytest.mark.parametrize(
    ("built", "code"),
    [
        pytest.param(
            "    sampler = None\n    if args.x:\n        sampler = RandomSampler(train_set)\n"
            "    loader = DataLoader(train_set, sampler=sampler)\n",
            "SHD922",
            id="a sampler on one path",
        ),
        pytest.param(
            "    loader = DataLoader(train_set, sampler=RandomSampler(train_set[:4]))\n", "SHD907", id="of a part"
        ),
        pytest.param(
            "    sampler = RandomSampler(train_set)\n    train_set = wrap(train_set)\n"
            "    loader = DataLoader(train_set, sampler=sampler)\n",
            "SHD907",
            id="of what the name was before",
        ),
        pytest.param(
            "    loader = DataLoader(train_set, sampler=RandomSampler(train_set))\n", "edit", id="of the dataset"
        ),
    ],
)
def test_a_sampler_is_replaced_where_it_draws_from_the_dataset_always(built: str, code: str) -> None:
    text = "from torch.utils.data import RandomSampler, SubsetRandomSampler\n" + HEAD + MAIN + INIT + built + LOOP
    assert codes(text) == [code]


def test_a_sampler_built_before_the_group_is_not_replaced() -> None:
    built = "    sampler = RandomSampler(train_set)\n"
    loader = "    loader = DataLoader(train_set, sampler=sampler)\n"
    head = "from torch.utils.data import RandomSampler\n" + HEAD + MAIN
    assert codes(head + built + INIT + loader + LOOP) == ["SHD913"]
    assert codes(head + INIT + built + loader + LOOP) == ["edit"]


@pytest.mark.parametrize(
    ("init", "note"),
    [
        pytest.param("", "no process group here: nothing in the program makes one", id="none"),
        pytest.param("    dist.init_process_group()\n", "no process group here", id="later"),
    ],
)
def test_a_group_that_nothing_makes_is_told_from_one_that_is_made_later(init: str, note: str) -> None:
    text = (
        "import torch.distributed as dist\nfrom torch.nn.parallel import DistributedDataParallel\n"
        "from torch.utils.data import DataLoader\ndef main():\n    model = DistributedDataParallel(net)\n"
        "    loader = DataLoader(train_set, shuffle=True)\n" + init + LOOP
    )
    (report,) = plan(text).reports
    assert [f.message for f in report.findings if f.code == "SHD913"] == [note]


@pytest.mark.parametrize(
    "built",
    [
        pytest.param("    loader = DataLoader(train_set) if train_set is not None else None\n", id="one side"),
        pytest.param("    loader = args.train and DataLoader(train_set)\n", id="behind and"),
        pytest.param("    (loader := DataLoader(train_set))\n", id="inside another expression"),
        pytest.param("    loader = DataLoader(batch_size=(n := args.n), dataset=args.make(n))\n", id="a name it binds"),
    ],
)
def test_no_sampler_is_put_before_what_may_not_run(built: str) -> None:
    text = HEAD + MAIN + INIT + built + LOOP.replace("in loader", "in args.loader if 0 else loader")
    assert codes(text) == ["SHD923"]


@pytest.mark.parametrize("header", ["while", "if args.x:\n        pass\n    elif"])
def test_no_sampler_is_put_before_a_header_that_is_asked_later(header: str) -> None:
    text = HEAD + "def run(loader, model):\n" + LOOP + "    return True\n" + MAIN + INIT
    text += f"    {header} run(DataLoader(train_set), model):\n        break\n".replace("break", "pass")
    assert codes(text) == ["SHD923"]


def test_the_old_shuffle_stays_one_value() -> None:
    text = HEAD + MAIN + "    if args.distributed:\n        dist.init_process_group()\n"
    for old in ("args.a or args.b", "True if args.a else False", "not args.a", "args.a == 1"):
        loader = f"DataLoader(train_set, shuffle={old})"
        assert f"shuffle=(({old}) and sampler is None)".replace("sampler", "train_sampler") in after(
            text + f"    train_loader = {loader}\n" + LOOP.replace("in loader", "in train_loader")
        )
    assert "shuffle=(args.a and train_sampler is None)" in after(
        text + "    loader = DataLoader(train_set, shuffle=args.a)\n" + LOOP
    )


def test_each_loader_gets_a_sampler_of_its_own() -> None:
    text = HEAD + "def main(a, b, model):\n" + INIT
    text += "    train_loader1 = DataLoader(a, shuffle=True)\n    train_loader2 = DataLoader(b, shuffle=True)\n"
    text += LOOP.replace("in loader", "in train_loader1") + LOOP.replace("in loader", "in train_loader2")
    assert "    train_sampler = DistributedSampler(a, shuffle=True)\n" in after(text)
    assert "    train_sampler_2 = DistributedSampler(b, shuffle=True)\n" in after(text)
    assert "DataLoader(a, sampler=train_sampler)\n" in after(text)
    assert "DataLoader(b, sampler=train_sampler_2)\n" in after(text)
    assert "        train_sampler_2.set_epoch(epoch)\n" in after(text)


def test_a_long_condition_is_broken() -> None:
    text = "import torch\n" + HEAD.replace("import torch.distributed as dist", "from util import setup")
    text += MAIN + "    setup()\n" + LOADER + LOOP
    files = {
        "util.py": "import torch.distributed as dist\n"
        "def setup(n=2):\n    if n > 1:\n        dist.init_process_group()\n"
    }
    assert after({**files, "train.py": text}).startswith(
        text[: text.index("    loader =")] + "    train_sampler = (\n"
        "        DistributedSampler(train_set, shuffle=True)\n"
        "        if torch.distributed.is_available() and torch.distributed.is_initialized()\n"
        "        else None\n"
        "    )\n"
    )


def test_the_class_is_named_anew_where_another_function_imports_it() -> None:
    imported = "from torch.utils.data.distributed import DistributedSampler\n"
    text = (
        "import torch.distributed as dist\nfrom torch.utils.data import DataLoader, RandomSampler\n\n\n"
        "def make(d, distributed):\n    " + imported + "    sampler = DistributedSampler(d) if distributed else "
        "RandomSampler(d)\n    return DataLoader(d, sampler=sampler)\n\n\n"
        "def main(d, model, distributed):\n    if distributed:\n        dist.init_process_group()\n"
        "    loader = make(d, distributed)\n" + LOOP
    )
    assert after(text).count(imported) == 2
    assert "        if isinstance(loader.sampler, DistributedSampler):\n" in after(text)
