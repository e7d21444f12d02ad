"""What an evaluation keeps where the loop does not show it is one rank's part: it is looked for, and named."""

from __future__ import annotations

import pytest
from plans import edited, planned

HEAD = (
    "import heapq\nimport logging\nimport sys\nimport numpy as np\nimport torch\nimport torch.distributed as dist\n"
    "from torch import nn\nfrom torch.utils.data import DataLoader\nfrom tqdm import tqdm\n"
    "dist.init_process_group()\n"
    "val_loader = DataLoader(val_set, batch_size=4)\n"
)
COUNT = "        correct += (model(x).argmax(1) == y).sum().item()\n"
VALIDATE = (
    "@torch.no_grad()\ndef validate(model, loader):\n{before}    correct = 0\n    for x, y in loader:\n{body}" + COUNT
)
END = "    return correct{more}\nvalidate(model, val_loader)\n"


def program(body: str = "", before: str = "", more: str = "", head: str = "") -> str:
    """An evaluation with a line in its loop, and others around it."""
    body, before = (f"{indent}{text}\n" if text else "" for text, indent in ((body, " " * 8), (before, " " * 4)))
    return HEAD + head + VALIDATE.format(body=body, before=before) + END.format(more=more)


METER = "class Meter:\n    def __init__(self):\n        self.s, self.h, self.v = 0.0, [], []\n    def {}\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(program("print(y, file=f)", "f = open('out')"), id="a print to a file"),
        pytest.param(program("t.log(y.sum())", "t = make('a')"), id="log of what is not seen"),
        pytest.param(program("t.collect(y)", "t = make('a')"), id="collect of what is not seen"),
        pytest.param(program("crossbar.update(y.sum())", "crossbar = make('a')"), id="a bar by half its name"),
        pytest.param(
            program("m.collect(y)", "m = Meter()", head=METER.format("collect(self, y): np.add.at(self.s, y, 1)")),
            id="add.at",
        ),
        pytest.param(
            program("m.log(y)", "m = Meter()", head=METER.format("log(self, y): heapq.heappush(self.h, y)")),
            id="a heap",
        ),
        pytest.param(
            program("m.log(y)", "m = Meter()", head=METER.format("log(self, y): self.v = [*self.v, y]")), id="set anew"
        ),
        pytest.param(
            program(
                "m.log(y)",
                "m = Meter()",
                head=METER.format("log(self, y): self.keep(y)\n    def keep(self, y): self.v.append(y)"),
            ),
            id="by another method",
        ),
        pytest.param(
            program(
                "pbar.update(y.sum())", "pbar = Meter()", head=METER.format("update(self, y): self.s = self.s / 2 + y")
            ),
            id="a bar of the project's own",
        ),
        pytest.param(
            program("z = remember(y)", head="SEEN = []\ndef remember(y):\n    SEEN.append(y)\n    return y\n"),
            id="a global",
        ),
        pytest.param(program("z = keep(y)", "seen = []\n    keep = lambda y: seen.append(y) or y"), id="a lambda"),
        pytest.param(
            program(
                "z = keep(y)", "seen = []\n    def keep(y):\n        seen.append(y)\n        return y", ", len(seen)"
            ),
            id="a closure",
        ),
        pytest.param(
            program("", "feats = []\n    model.register_forward_hook(lambda m, i, o: feats.append(o))"), id="a hook"
        ),
        pytest.param(program("_ = h.index_add_(0, y, x)", "h = torch.zeros(4)"), id="in place, assigned"),
        pytest.param(program("k = len(h) or h.append(y)", "h = []"), id="an append in an expression"),
        pytest.param(program("r = q.put(y)", "q = Queue()"), id="a queue"),
        pytest.param(program("z = next(other)", "other = iter(range(9))"), id="taken of an iterator"),
        pytest.param(
            program(
                "",
                "model = Net()",
                " / model.seen",
                "class Net(nn.Module):\n    def forward(self, x):\n        self.seen += len(x)\n        return x\n",
            ),
            id="counted by a model",
        ),
        pytest.param(
            program(
                "",
                "",
                " / loader.dataset.seen",
                "class Numbers:\n    def __getitem__(self, i):\n        self.seen += 1\n        return i\n",
            ),
            id="counted by a dataset",
        ),
        pytest.param(program("pbar.update(len(x))", "pbar = tqdm(total=9)", " / pbar.n"), id="counted by a bar"),
        pytest.param(
            program("log.info(y)", "log = Log()", head="class Log(list):\n    def info(self, y): super().append(y)\n"),
            id="kept by the class above",
        ),
        pytest.param(program("rows.extend((len(rows), t) for t in y.tolist())", "rows = []", ", rows"), id="numbered"),
    ],
)
def test_what_is_kept_elsewhere(text: str) -> None:
    assert planned(text).changes == ()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(program("print(correct, file=sys.stderr)"), id="stderr"),
        pytest.param(program("logging.info(correct)"), id="logging"),
        pytest.param(program("logger.info('%s', correct)", "logger = make()"), id="a logger"),
        pytest.param(program("writer.add_scalar('n', correct)", "writer = make()"), id="a writer"),
        pytest.param(program("pbar.update(len(x))", "pbar = tqdm(total=9)"), id="a bar"),
        pytest.param(program("pbar.set_postfix(n=correct)", "pbar = tqdm(total=9)"), id="a bar's text"),
        pytest.param(program("z = torch.add(x, 1)"), id="a function called add"),
        pytest.param(
            program(
                "progress.display(1)",
                "progress = Progress(9)",
                head="class Progress:\n    def __init__(self, n): self.n = n\n    def display(self, i):\n"
                "        entries = [str(i)]\n        entries += [str(self.n)]\n        print(entries)\n",
            ),
            id="a progress meter of the project",
        ),
        pytest.param(
            program("z = scale(y)", head="def scale(y):\n    out = []\n    out.append(y)\n    return out[0]\n"),
            id="its own list",
        ),
        pytest.param(
            program(
                "",
                "model = Net()",
                " + torch.ones(1).item()",
                "class Net(nn.Module):\n    def forward(self, x):\n        for i in x:\n            ids = beam.get()\n"
                "            ids = torch.cat((ids, x))\n            ids.data.copy_(i)\n        return x\n",
            ),
            id="a library's new tensor, filled by a model",
        ),
    ],
)
def test_what_only_shows(text: str) -> None:
    (change,) = planned(text).changes
    assert (change.codes, change.tier) == (("SHD305",), "safe")


AVERAGE = (
    "class AverageMeter:\n    def __init__(self):\n        self.reset()\n    def reset(self):\n"
    "        self.val = self.avg = 0\n        self.sum = 0\n        self.count = 0\n    def update(self, val, n=1):\n"
    "        self.val = val\n        self.sum += val * n\n        self.count += n\n"
    "        self.avg = self.sum / self.count\n"
)
ALL_REDUCE = (
    "    def all_reduce(self):\n{}        both = torch.tensor([self.sum, self.count])\n        dist.all_reduce(both)\n"
    "        self.sum, self.count = both.tolist()\n        self.avg = self.sum / self.count\n"
)


def averaged(behind: str, own: str = "") -> str:
    """An evaluation by an averaging object."""
    text = HEAD + AVERAGE + own + "@torch.no_grad()\ndef validate(model, loader):\n    m = AverageMeter()\n"
    text += "    for x, y in loader:\n        m.update((model(x).argmax(1) == y).float().mean().item(), x.size(0))\n"
    return text + behind + "validate(model, val_loader)\n"


@pytest.mark.parametrize(
    ("behind", "own"),
    [
        (
            "    print(str(m))\n    return m.avg\n",
            "    def __str__(self):\n        return f'{self.val} ({self.avg})'\n",
        ),
        ("    return f'{m}'\n", "    def __str__(self):\n        return '{val} ({avg})'.format(**self.__dict__)\n"),
        ("    return m.shown()\n", "    def shown(self):\n        return self.val\n"),
    ],
)
def test_the_last_value_of_an_averaging_object_by_a_method_of_its_own(behind: str, own: str) -> None:
    found = planned(averaged(behind, own))
    assert found.changes == ()
    assert "the last value of `m`, which is one rank's, is read" in found.reports[0].why
    (change,) = planned(averaged("    return m.avg\n", own)).changes
    assert change.tier == "safe"


@pytest.mark.parametrize(
    "behind",
    [
        "    return m.val\n",
        "    print('{m.val:.3f} ({m.avg:.3f})'.format(m=m))\n    return m.avg\n",
        "    print(f'{m.val:.3f}')\n    return m.avg\n",
    ],
)
def test_the_last_value_of_an_averaging_object(behind: str) -> None:
    found = planned(averaged(behind))
    assert found.changes == ()
    assert "the last value of `m`, which is one rank's, is read" in found.reports[0].why


def test_a_method_that_needs_a_group_is_not_called_for_the_user() -> None:
    guard = "        if not dist.is_initialized():\n            return\n"
    alone = edited(averaged("    return m.avg\n", ALL_REDUCE.format("")))
    guarded = edited(averaged("    return m.avg\n", ALL_REDUCE.format(guard)))

    assert "    m.sum, m.count = reduced(m.sum, m.count)\n    m.avg = m.sum / m.count\n    return" in alone
    assert "    m.all_reduce()\n    return" in guarded


def test_a_name_that_is_no_longer_the_loaders() -> None:
    loop = "    for x, y in loader:\n        preds.extend(model(x).argmax(1).tolist())\n    return preds\n"
    text = (
        HEAD
        + "@torch.no_grad()\ndef validate(model, loader):\n    preds = []\n"
        + loop
        + "validate(model, val_loader)\n"
    )
    bound = text.replace("    preds = []\n", "    loader = tqdm(loader)\n    preds = []\n")

    assert "    preds = in_order(preds, loader)\n" in edited(text)
    assert any("one for each sample" in line for line in planned(text).changes[0].consequences)
    assert planned(bound).changes == ()
    assert "the loader has no name where it is iterated" in planned(bound).reports[0].why
