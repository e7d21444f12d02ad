"""An evaluation of one sample a step is shared out only where nothing that its loop runs may wait for other ranks."""

from __future__ import annotations

import pytest
from plans import planned

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Options
from shardfix.planning import make_plan

HEAD = (
    "import functools\nimport torch\nimport torch.distributed as dist\nfrom torch import nn\n"
    "from torch.nn.parallel import DistributedDataParallel as DDP\n"
    "from torch.utils.data import DataLoader\nfrom torchvision.models import resnet18\n"
    "dist.init_process_group()\nval_loader = DataLoader(val_set)\n"
)
NET = "class Net(nn.Module):\n    def forward(self, x):\n        return {}\n"
MODEL = "model = {}.eval()\n"
OFF = "with torch.no_grad():\n"
ON = "if True:\n"
LOOP = "correct = 0\n{}    for x, y in val_loader:\n"
STEP = "        correct += (model(x).argmax(1) == y).sum().item()\n"
AFTER = "print(correct)\n"


def program(model: str, *, before: str = "", head: str = OFF, step: str = STEP) -> str:
    return HEAD + before + MODEL.format(model) + LOOP.format(head) + step + AFTER


@pytest.mark.parametrize(
    ("model", "more"),
    [
        pytest.param("resnet18().cuda()", {}, id="a model of a library"),
        pytest.param("resnet18()", {"head": ON}, id="with gradients, and nothing that sends"),
        pytest.param("DDP(resnet18())", {}, id="wrapped, without gradients"),
        pytest.param("torch.compile(nn.Sequential(resnet18(), nn.ReLU()))", {}, id="a model in models"),
        pytest.param("Net()", {"before": NET.format("x.flatten(1)")}, id="a model of the project"),
        pytest.param(
            "build()",
            {"before": "def build():\n    net = resnet18()\n    return DDP(net) if dist.is_initialized() else net\n"},
            id="a function that makes it",
        ),
        pytest.param(
            "Net(resnet18())",
            {
                "before": "class Net(nn.Module):\n    def __init__(self, body):\n        self.body = body\n"
                "    def forward(self, x):\n        return self.body(x)\n"
            },
            id="a model that holds another",
        ),
        pytest.param(
            "resnet18()",
            {"step": "        out = torch.relu(model(x))\n        print(dist.get_rank())\n" + STEP},
            id="the rank may be asked for",
        ),
    ],
)
def test_a_loop_in_which_nothing_waits(model: str, more: dict[str, str]) -> None:
    (change,) = planned(program(model, **more)).changes

    assert (change.codes, change.tier) == (("SHD305",), "safe")
    assert any("a rank may make one step more than the others" in line for line in change.consequences)


WAITING = {
    "wrapped, with gradients": (("DDP(resnet18())",), {"head": ON}, "are not seen to be off"),
    "gradients that may be on": (
        ("DDP(resnet18())",),
        {"head": "with torch.inference_mode(fast):\n"},
        "are not seen to be off",
    ),
    "gradients that are turned on again": (
        ("DDP(resnet18())",),
        {"step": "        with torch.enable_grad():\n    " + STEP},
        "are not seen to be off",
    ),
    "gradients that are turned on before": (
        ("DDP(resnet18())",),
        {"head": "with torch.no_grad():\n    torch.set_grad_enabled(True)\n"},
        "are not seen to be off",
    ),
    "gradients that a function turns on": (
        ("DDP(resnet18())",),
        {
            "before": "def twice(x):\n    with torch.enable_grad():\n        return x * 2\n",
            "step": "        x = twice(x)\n" + STEP,
        },
        "gradients are turned on",
    ),
    "wrapped, and not run in each step": (
        ("DDP(resnet18())",),
        {"step": "        correct += (model(x) > 0).sum().item() if y.item() else 0\n"},
        "is not seen to be run in each step",
    ),
    "wrapped and compiled": (("torch.compile(DDP(resnet18()))",), {}, "is not seen to be run in each step"),
    "wrapped within a model": (
        ("nn.Sequential(nn.ReLU(), DDP(resnet18()))",),
        {"head": ON},
        "are not seen to be off",
    ),
    "shards of the weights": (
        ("FSDP(resnet18())",),
        {"before": "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP\n"},
        "where `FSDP(resnet18())` comes from is not seen",
    ),
    "a hook": (
        ("resnet18()",),
        {"before": "def tell():\n    other.register_forward_hook(tell)\n"},
        "names `register_forward_hook`",
    ),
    "who makes the model is not seen": (("load_it()",), {}, "where `load_it()` comes from is not seen"),
    "a model by its name in a table": (("MODELS[name]()",), {}, "where `MODELS[name]()` comes from is not seen"),
    "an attribute by a text": (("getattr(zoo, name)",), {}, "comes from is not seen"),
    "a collective in the model": (
        ("Net()",),
        {"before": NET.format("dist.all_reduce(x)")},
        "`all_reduce(..)` waits for the other ranks",
    ),
    "a collective in a part of the model": (
        ("nn.Sequential(Net())",),
        {"before": NET.format("dist.broadcast(x, 0)")},
        "`dist.broadcast` knows of the other ranks",
    ),
    "a base class that is not seen": (
        ("Net()",),
        {"before": "from zoo import Base\nclass Net(Base):\n    def forward(self, x):\n        return x\n"},
        "the base of `Net`, does is not seen",
    ),
    "a barrier in a function": (
        ("resnet18()",),
        {"before": "def tick():\n    dist.barrier()\n", "step": "        tick()\n" + STEP},
        "knows of the other ranks",
    ),
    "a barrier by another name": (
        ("resnet18()",),
        {"before": "tick = functools.partial(dist.barrier)\n", "step": "        tick()\n" + STEP},
        "`dist.barrier` knows of the other ranks",
    ),
    "a function of another library": (
        ("resnet18()",),
        {"before": "from engine import tick\n", "step": "        tick()\n" + STEP},
        "where `tick` comes from is not seen",
    ),
    "a dataset that asks the others": (
        ("resnet18()",),
        {"before": "class Data:\n    def __getitem__(self, i):\n        dist.barrier()\n        return i\n"},
        "`__getitem__` in train.py:11 knows of the other ranks",
    ),
    "norms of all ranks, in training": (
        ("nn.SyncBatchNorm.convert_sync_batchnorm(resnet18())",),
        {"before": "net = 1\n"},
        "is not seen to be set to evaluation",
    ),
}


@pytest.mark.parametrize("name", WAITING)
def test_a_loop_in_which_something_may_wait(name: str) -> None:
    (model,), more, why = WAITING[name]
    text = program(model, **more)
    if name.endswith("in training"):
        text = text.replace(".eval()", "")
    (report,) = planned(text).reports

    assert report.changes == ()
    assert "it takes one sample at a time" in report.why
    assert why in report.why


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ("        n += model(x).sum().item()\n        kept.append(n)\n", "the running value of `n`"),
        ("        kept.append((len(kept), y.item()))\n", "it keeps one value for a batch"),
        ("        if y.item(): kept.append(y.item())\n", "need not add exactly one item for each sample"),
        ("        n += y.item() - last\n        last = y.item()\n", "`last` of the batch before is read"),
    ],
)
def test_what_goes_by_the_steps_before_is_refused_though_each_is_of_one_sample(step: str, why: str) -> None:
    text = program("resnet18()", step=step).replace("correct = 0", "n, last, kept = 0, 0, []")
    (report,) = planned(text.replace("print(correct)", "print(n, kept)")).reports
    assert report.changes == ()
    assert why in report.why
    assert planned(text.replace("print(correct)", "print(kept)")).changes == ()


def test_who_gives_the_model_is_asked_in_all_files() -> None:
    engine = (
        "import torch\n@torch.no_grad()\ndef evaluate(model, loader):\n    correct = 0\n    for x, y in loader:\n"
        "        correct += (model(x).argmax(1) == y).sum().item()\n    return correct\n"
    )
    start = HEAD + "from engine import evaluate\n"

    def why(text: str, **more: str) -> str:
        files = {"engine.py": engine, "train.py": text, **more}
        project = link({path: parse(path, code) for path, code in files.items()})
        (report,) = make_plan(project, ("train.py",), Options(sanitizer="off")).reports
        return "" if report.changes else report.why

    assert why(start + MODEL.format("DDP(resnet18())") + "print(evaluate(model, val_loader))\n") == ""
    shards = "from torch.distributed.fsdp import fully_shard\ndef split(net):\n    fully_shard(net)\n"
    in_place = start + "from shards import split\n" + MODEL.format("resnet18()") + "split(model)\n"
    in_place += "print(evaluate(model, val_loader))\n"
    assert "what `split(model)` makes of what the loop runs is not seen" in why(in_place)
    assert "shards.py names `torch.distributed.fsdp`" in why(in_place, **{"shards.py": shards})
    hidden = start + "def run(model):\n    print(evaluate(model, val_loader))\nstart(run)\n"
    assert "is not seen" in why(hidden)


def test_batches_of_two_share_their_steps_and_may_wait() -> None:
    text = program("DDP(resnet18())", head=ON).replace("DataLoader(val_set)", "DataLoader(val_set, batch_size=2)")
    (change,) = planned(text).changes
    assert change.codes == ("SHD305",)
