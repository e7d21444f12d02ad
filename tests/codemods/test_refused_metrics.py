"""Near an evaluation that is put together from the ranks' parts stands one that is not: a word apart, it is refused."""

from __future__ import annotations

import pytest
from plans import planned

HEAD = (
    "import numpy as np\nimport torch\nimport torch.distributed as dist\nimport torch.nn.functional as F\n"
    "from torch.utils.data import DataLoader\ndist.init_process_group()\n"
    "val_loader = DataLoader(val_set, batch_size=4)\n"
)
METER = (
    "class Meter:\n    def __init__(self):\n        self.sum = self.count = self.avg = 0\n"
    "    def update(self, val, n=1):\n{first}        {own}.sum += val * n\n        {own}.count += n\n"
    "        self.avg = self.sum / self.count\n"
)
LOSS = "F.cross_entropy(model(x), y).item()"
COUNTING = (
    "class Net(torch.nn.Module):\n    def forward(self, x):\n        self.seen += len(x)\n        return x\n"
    "model = Net()\n"
)
NET = "class Net(torch.nn.Module):\n    def forward(self, x):\n        {}\nmodel = Net()\n"
HELD = (
    "import time\nfrom collections import defaultdict\n"
    "class Held:\n    def __init__(self):\n        self.total = self.count = 0\n"
    "    def update(self, val, n=1):\n        self.total += val * n\n        self.count += n\n"
    "    def all_reduce(self):\n        if dist.is_initialized():\n"
    "            t = torch.tensor([self.total, self.count])\n            dist.all_reduce(t)\n"
    "            self.total, self.count = t.tolist()\n"
    "    def mean(self):\n        return self.total / self.count\n"
    "class Logger:\n    def __init__(self):\n        self.meters = defaultdict(Held)\n"
    "    def update(self, **kwargs):\n        for k, v in kwargs.items():\n            self.meters[k].update(v)\n"
    "    def synchronize(self):\n        for m in self.meters.values():\n            m.all_reduce()\n"
)
BAR = "class Bar:\n    def update(self, n=1):\n        print(n)\n"
BOARD = "class Board:\n    def display(self, i):\n        print(i)\n"


def program(body: str = "", before: str = "", more: str = "", head: str = "", behind: str = "") -> str:
    """An evaluation with lines in its loop, before and behind it, and values that it returns too."""
    inner, outer, after = (
        "".join(f"{' ' * n}{line}\n" for line in t.splitlines()) for t, n in ((body, 8), (before, 4), (behind, 4))
    )
    return (
        HEAD + head + "@torch.no_grad()\ndef validate(model, loader):\n    model.eval()\n" + outer + "    n = 0\n"
        "    for x, y in loader:\n"
        + inner
        + "        n += (model(x).argmax(1) == y).sum().item()\n"
        + after
        + f"    return n{more}\nvalidate(model, val_loader)\n"
    )


def averaging(weight: str = "y.size(0)", first: str = "", own: str = "self") -> str:
    """An evaluation by an averaging object of the project."""
    head = METER.format(first=f"        {first}\n" if first else "", own=own)
    return program(f"m.update({LOSS}, {weight})", "m = Meter()", ", m.avg", head)


def holding(value: str) -> str:
    """An evaluation by an object that holds averaging objects by name."""
    return program(f"log.update(l={value})", "log = Logger()", ", log.meters['l'].mean()", HELD)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(averaging(), id="a mean by the batch's size"),
        pytest.param(averaging(first="val = float(val)"), id="a number of it first"),
        pytest.param(program("k += (model(x).repeat(1, 2) > 0).sum()", "k = 0", ", k"), id="columns repeated"),
        pytest.param(program("k += (model(x).chunk(2, dim=1)[0] > 0).sum()", "k = 0", ", k"), id="columns in parts"),
        pytest.param(program("for i in range(len(y)):\n    k += int(x[i])", "k = 0", ", k"), id="each by its place"),
        pytest.param(program("if args.count:\n    k += len(y)", "k = 0", ", k"), id="a sum by a setting"),
        pytest.param(program("k = k + y.sum()", "k = 0.0", ", k"), id="begun at 0.0"),
        pytest.param(program("h[0] += (y == 0).sum()", "h = [0 for _ in range(3)]", ", h"), id="a list of zeros"),
        pytest.param(
            program(
                "if p is None:\n    p = model(x)\nelse:\n    p = torch.cat([p, model(x)])",
                "p = None",
                ", p",
            ),
            id="begun by the first batch",
        ),
        pytest.param(
            program(
                "out = model(x)\nif len(x.shape) == 4:\n    out = out * 2\nk += out.argmax(1).eq(y).sum()",
                "k = 0",
                ", k",
            ),
            id="by the number of dimensions",
        ),
        pytest.param(
            program("for i, t in enumerate(y):\n    k += int(x[i] == t)", "k = 0", ", k"),
            id="each by the place counted",
        ),
        pytest.param(program("k += (torch.stack([t * 2 for t in y]) == y).sum()", "k = 0", ", k"), id="stacked again"),
        pytest.param(
            program("k += F.cross_entropy(model(x).transpose(1, 2), y, reduction='sum')", "k = 0", ", k"),
            id="a sum of turned losses",
        ),
        pytest.param(
            program("k += F.cross_entropy(model(x).transpose(1, 2), y, reduction='none').sum()", "k = 0", ", k"),
            id="turned losses one by one",
        ),
        pytest.param(program("k += (y if args.all else x).sum()", "k = 0", ", k"), id="chosen by a setting"),
        pytest.param(
            program("o = model(x)\nk += (o.view(o.shape[0], -1).argmax(-1) == y).sum()", "k = 0", ", k"),
            id="a row each",
        ),
        pytest.param(
            program("for i in range(len(y)):\n    r = x[i]\n    r[1:3] = 0\n    k += int(r.sum())", "k = 0", ", k"),
            id="part of each row set",
        ),
        pytest.param(program(before="if len(loader):\n    print('some')"), id="what is shown by the number of batches"),
        pytest.param(
            program("k += (y + model(x))[..., 0].sum()", "k = 0", ", k"), id="a row's last dimension, by the model's"
        ),
        pytest.param(program("own = Box()\nown.y = y\nk += own.y.sum()", "k = 0", ", k"), id="an object of the batch"),
        pytest.param(program("own = {}\nown['y'] = y\nk += len(y)", "k = 0", ", k"), id="a dict of the batch"),
        pytest.param(
            program("seen = 0\nfor t in y:\n    if seen > 2:\n        print(seen)\n    seen += 1"),
            id="counted for each batch",
        ),
        pytest.param(program("left = len(y)\nwhile left > 1:\n    left -= 1"), id="counted down for each batch"),
        pytest.param(program("args.clock.update()"), id="a clock somewhere moves on"),
        pytest.param(
            program(behind="def a(m):\n    b(m)\ndef b(m):\n    print(m)\na(len(loader))"),
            id="the number of batches is shown two functions further",
        ),
        pytest.param(program("k += (y[:, 0] > 0).sum()", "k = 0", ", k"), id="a column of rows"),
        pytest.param(program("pbar.update()", "pbar = Bar()", head=BAR), id="a bar of the project that moves on"),
        pytest.param(
            program("for c in range(3):\n    if c > args.c:\n        break\n    k += (y == c).sum()", "k = 0", ", k"),
            id="left early in a loop over classes",
        ),
        pytest.param(program(behind="for c in range(3):\n    print(len(loader) * c)"), id="progress is shown"),
        pytest.param(program("p = np.concatenate((p, y))", "p = np.zeros(0)", ", p"), id="joined by numpy"),
        pytest.param(program(head=NET.format("h = torch.stack([x, x])\n        return h.sum(0)")), id="a model of two"),
        pytest.param(holding("time.time()"), id="times by name"),
        pytest.param(
            holding(LOSS).replace(f"log.update(l={LOSS})", f"log.meters['l'].update({LOSS}, n=y.size(0))"),
            id="a mean by name and by the batch's size",
        ),
        pytest.param(program("k = h.__len__()", "h = {}"), id="asked by a method of Python's own"),
        pytest.param(program("board.display(n)", "board = Board()", head=BOARD), id="shown by a class of the project"),
        pytest.param(
            program(before="start = model.seen / 2\nprint(start)", head=COUNTING), id="a model's count before the loop"
        ),
    ],
)
def test_what_is_put_together(text: str) -> None:
    (change,) = planned(text).changes
    assert (change.codes, change.tier) == (("SHD305",), "safe")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param(averaging("(y > 0).sum().item()"), "weighs what is not seen to be a mean", id="weighed by a sum"),
        pytest.param(averaging(first="val = min(val, 1.0)"), "`m.update` is told of the batch", id="a mean cut off"),
        pytest.param(averaging(own="Meter"), "`m.update` is told of the batch", id="kept by the class"),
        pytest.param(
            averaging("k=2").replace("n=1)", "n=1, *, k=1)"), "`m.update` is told of the batch", id="more is told"
        ),
        pytest.param(
            program("k += (model(x).chunk(2)[0] > 0).sum()", "k = 0", ", k"),
            "`model(x).chunk(2)` is not seen to be a sum",
            id="the first half of a batch",
        ),
        pytest.param(
            program("out = model(x).squeeze()\nfor i in range(len(y)):\n    z = i\nk += out[i]", "k = 0", ", k"),
            "`model(x).squeeze()` is not seen to be a sum",
            id="the last row",
        ),
        pytest.param(
            program("for i in range(len(y)):\n    z = i\nk += x[y[i]]", "k = 0", ", k"),
            "`x[y[i]]` is not seen to be a sum",
            id="the row by the last label",
        ),
        pytest.param(
            program("for i, t in enumerate(y):\n    k += i", "k = 0", ", k"),
            "it is added for each item",
            id="places added",
        ),
        pytest.param(
            program("for i, t in enumerate(y):\n    h[i] += 1", "h = torch.zeros(9)", ", h"),
            "`i`, by which one of several sums is chosen, is no one sample's",
            id="counted by places",
        ),
        pytest.param(
            program(more=", mean", behind="def mean():\n    return n / (i + 1)")
            .replace("x, y in", "i, (x, y) in")
            .replace("in loader", "in enumerate(loader)"),
            "the last batch's number is read behind the loop",
            id="divided in a function that is handed on",
        ),
        pytest.param(
            program("z = note(y)", head="last = 0\ndef note(y):\n    global last\n    last = y\n    return len(y)\n"),
            "`note` changes what it is given, or keeps it",
            id="kept under a global name",
        ),
        pytest.param(
            program("v = unseen(x)\nfor _ in range(3):\n    v = v * 2\nkept.append(v)", "kept = []", ", kept"),
            "it keeps one value for a batch",
            id="a value made of itself",
        ),
        pytest.param(
            program("k += (y if y.max() > 1 else x).sum()", "k = 0", ", k"),
            "`y if y.max() > 1 else x` is not seen to be a sum",
            id="chosen by the batch",
        ),
        pytest.param(
            program("p = mine.concatenate((p, y))", "p = np.zeros(0)", ", p", "import mine\n"),
            "`p` of the batch before is read",
            id="joined by another library",
        ),
        pytest.param(
            program(behind="for c in costs:\n    print(len(loader) * c)"),
            "the number of batches is read",
            id="a cost by the number of batches is shown",
        ),
        pytest.param(
            program("k += (y[..., 0] > 0).sum()", "k = 0", ", k"),
            "`y[..., 0]` is not seen to be a sum",
            id="the last dimension, perhaps the samples'",
        ),
        pytest.param(
            program("a = (x, y)\nk += a[5].sum()", "k = 0", ", k"),
            "`a[5]` is not seen to be a sum",
            id="past the end of a pair",
        ),
        pytest.param(
            program("pbar.update(y.sum())", "pbar = Bar()", head=BAR),
            "`pbar.update` is told of the batch",
            id="a bar of the project that is told of the batch",
        ),
        pytest.param(
            program("o = model(x)\nk += (o.view(m, -1).argmax(-1) == y).sum()", "k = 0", ", k"),
            "is not seen to be a sum",
            id="rows of another number",
        ),
        pytest.param(
            program(
                "for i in range(len(y)):\n    r = x[i]\n    r[: y.max()] = 0\n    k += int(r.sum())", "k = 0", ", k"
            ),
            "`int(r.sum())` depends on the whole batch",
            id="part of each row set by the batch",
        ),
        pytest.param(
            program("k += (y + y)[..., 0].sum()", "k = 0", ", k"),
            "`(y + y)[..., 0]` is not seen to be a sum",
            id="the last dimension of labels",
        ),
        pytest.param(
            program("k += y.sum() @ w", "k = 0", ", k"),
            "`y.sum() @ w` is not seen to be a sum",
            id="a product of matrices with a total",
        ),
        pytest.param(
            program("b = {'x': x, 'o': model(x)}\nk += b['x'].sum()", "k = 0", ", k"),
            "is not seen to be a sum",
            id="a dict of rows and outputs",
        ),
        pytest.param(
            program("if p is None:\n    p = y\nelse:\n    p = torch.cat([p, x])", "p = None", ", p"),
            "it need not add exactly one item",
            id="begun by something else than what is joined",
        ),
        pytest.param(
            program(behind="def a(m):\n    b(m)\ndef b(m):\n    a(m)\na(len(loader))"),
            "the number of batches is read",
            id="a number that goes round in functions",
        ),
        pytest.param(program("append(y)"), "`append` is told of the batch", id="a function that is called append"),
        pytest.param(program("k += not y", "k = 0", ", k"), "`not y` is not seen to be a sum", id="not of a batch"),
        pytest.param(holding(LOSS), f"`{LOSS}` is a mean over the batch", id="a mean by name"),
        pytest.param(
            program(head=NET.format("h = self.f(x)\n        return h - h.mean(0)")),
            "`model(x)` is not seen to be a sum",
            id="a model that takes the mean of its samples",
        ),
        pytest.param(
            HEAD.replace("=4", "=4, shuffle=True")
            + "class Trainer:\n    @torch.no_grad()\n    def validate(self, loader):\n        self.model.eval()\n"
            "        self.p = []\n        for x, y in loader:\n"
            "            self.p.extend(self.model(x).argmax(1).tolist())\n        return len(self.p)\n"
            "Trainer().validate(val_loader)\n",
            "what an object keeps may be read elsewhere, by its order",
            id="shuffled, and kept by an object",
        ),
        pytest.param(
            program("seen.append(3 in y)", "seen = []", ", torch.cat(seen)"), "one value for a batch", id="whether any"
        ),
        pytest.param(
            program(
                "out = model(x)\nif max(x.shape) == 4:\n    out = out * 2\nk += out.argmax(1).eq(y).sum()",
                "k = 0",
                ", k",
            ),
            "`max(x.shape) == 4` is not seen to be a sum",
            id="by the largest dimension",
        ),
        pytest.param(
            program("k += (model.criterion(model(x), y) * y).sum()", "k = 0", ", k"),
            "`model.criterion(model(x), y)` is not seen to be a sum",
            id="a criterion of a model",
        ),
        pytest.param(
            program("k = k + y.sum()", "k = 0j", ", k"), "`k` does not begin at nothing", id="a complex number"
        ),
        pytest.param(
            program("k = k + y.sum()", "k = False", ", k"), "`k` does not begin at nothing", id="a truth value"
        ),
        pytest.param(
            program(before="if args.small:\n    loader = small_loader"),
            "its loop may also go over another loader (train.py:12)",
            id="another loader by a setting",
        ),
        pytest.param(
            program(before="steps = len(loader)\nfor _ in range(3):\n    steps = steps - 1"),
            "the number of batches is read",
            id="a number that is made of itself",
        ),
        pytest.param(
            program("p.extend(torch.cat([x.t(), x.t()], dim=1)[0].tolist())", "p = []", ", p"),
            "not seen to be one item for each sample",
            id="rows that were turned, put beside one another",
        ),
        pytest.param(
            program("for i in range(len(y)):\n    k += int(x[y[i]])", "k = 0", ", k"),
            "`int(x[y[i]])` depends on the whole batch",
            id="a row by a label",
        ),
    ],
)
def test_what_is_not(text: str, why: str) -> None:
    (report,) = planned(text).reports
    assert report.changes == ()
    assert why in report.why
