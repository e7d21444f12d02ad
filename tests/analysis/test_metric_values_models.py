"""What a model, a loss or a random number makes of a batch, where other samples than one's own have a say in it."""

from __future__ import annotations

import ast

import pytest
from loaders import module

from shardfix.analysis.metrics.gathering import Gathering
from shardfix.analysis.metrics.values import Values

HEAD = "import random\nimport numpy as np\nimport torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


def gathered(text: str) -> tuple[list[str], list[str]]:
    """The kinds of the sums in the loop of a program, and what is not understood."""
    found = module(HEAD + text)
    loop = next(n for n in ast.walk(found.tree) if isinstance(n, ast.For) and ast.unparse(n.iter) == "loader")
    gathering = Gathering(found, loop, Values(found, loop, loop))
    return [w.kind for w in gathering.writes], [o.why for o in gathering.obstacles]


HITS = "n = 0\nfor x, y in loader:\n    n += (net(x).argmax(1) == y).sum()\n"
LOSS = "n = 0\nfor x, y in loader:\n    n += criterion(net(x), y).item() * len(y)\n"


def net(*lines: str) -> str:
    body = "".join(f"        {line}\n" for line in lines)
    return f"class Net(nn.Module):\n    def forward(self, x):\n{body}net = Net()\nnet.eval()\n"


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        pytest.param(("return torch.softmax(self.fc(x) @ self.fc(x).t(), 1) @ x",), "sum", id="of parameters"),
        pytest.param(("a = self.fc(x)", "return a @ a.t()"), "opaque", id="each with each"),
        pytest.param(("a = self.fc(x)", "return torch.mm(a, a.T)"), "opaque", id="each with each by a function"),
        pytest.param(("return self.fc(x).softmax(dim=0)",), "opaque", id="along the samples"),
        pytest.param(("return self.fc(x - x.mean(0))",), "opaque", id="without the batch's mean"),
        pytest.param(("return self.fc(x / x.std())",), "opaque", id="by the batch's deviation"),
        pytest.param(("return self.fc(x).softmax(dim=1)",), "sum", id="along the classes"),
        pytest.param(("o = self.fc(x)", "return o - o.mean(0)"), "opaque", id="without the mean of rows"),
        pytest.param(("o = torch.stack([x, x])", "return o.mean(0)"), "sum", id="a mean of several layers"),
    ],
)
def test_a_model_that_mixes_the_samples_of_a_batch(lines: tuple[str, ...], kind: str) -> None:
    lines = tuple(line.replace("self.fc(x) @ self.fc(x).t()", "self.fc(x) @ self.weight.t()") for line in lines)
    assert gathered(net(*lines) + HITS) == ([kind], [])
    wrapped = net(*lines) + "net = nn.parallel.DistributedDataParallel(net)\n" + HITS
    assert gathered(wrapped) == ([kind], [])


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        pytest.param(("self.h = 0.5 * self.h + x", "return self.fc(self.h)"), True, id="carried on"),
        pytest.param(("out = self.fc(x + self.last)", "self.last = x", "return out"), True, id="of the batch before"),
        pytest.param(("self.last = x", "return self.fc(self.last)"), False, id="of this batch"),
        pytest.param(
            ("if self.training:", "    self.n = self.n + 1", "return self.fc(x)"), False, id="while it trains"
        ),
        pytest.param(("if self.w is None:", "    self.w = make()", "return self.w(x)"), False, id="made once"),
    ],
)
def test_a_model_that_keeps_something_of_a_batch(lines: tuple[str, ...], kept: bool) -> None:
    _, obstacles = gathered(net(*lines) + HITS)
    assert obstacles == (["`net` keeps something of a batch that it reads at the next one"] if kept else [])


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        pytest.param("criterion = nn.CrossEntropyLoss()\n", "sum", id="plain"),
        pytest.param("criterion = nn.CrossEntropyLoss()\ncriterion.reduction = 'sum'\n", "opaque", id="a reduction"),
        pytest.param("criterion = nn.CrossEntropyLoss()\ncriterion.ignore_index = 0\n", "opaque", id="left out"),
        pytest.param("criterion = nn.CrossEntropyLoss()\nsetattr(criterion, name, w)\n", "opaque", id="setattr"),
        pytest.param("criterion = nn.CrossEntropyLoss()\nlabels[mask] = -100\n", "opaque", id="labels to leave out"),
        pytest.param("criterion = nn.MSELoss()\nlow = -100\n", "sum", id="no labels"),
        pytest.param("criterion = nn.CrossEntropyLoss()\npad = criterion.ignore_index\n", "opaque", id="its own"),
        pytest.param("criterion = nn.CrossEntropyLoss()\nhead.weight = w\n", "sum", id="another one's weight"),
    ],
)
def test_a_loss_whose_mean_is_not_one_over_the_samples(lines: str, kind: str) -> None:
    assert gathered("net = nn.Linear(3, 4)\nnet.eval()\n" + lines + LOSS) == ([kind], [])


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        ("net = nn.Sequential(nn.Linear(3, 4), nn.Softmax(dim=1))\nnet.eval()\n", "sum"),
        ("net = nn.Sequential(nn.Linear(3, 4), nn.Softmax(0))\nnet.eval()\n", "opaque"),
        ("net = nn.BatchNorm1d(3, track_running_stats=False)\nnet.eval()\n", "opaque"),
        ("net = lambda x: x - x.mean(0)\n", "opaque"),
        ("net = make() if args.net else (lambda x: x - x.mean(0))\n", "opaque"),
        ("net = functools.partial(f, 2)\n", "opaque"),
        ("net = nn.parallel.DistributedDataParallel(base) if args.many else base\n", "sum"),
    ],
)
def test_what_a_name_that_sounds_like_a_models_stands_for(made: str, kind: str) -> None:
    assert gathered("import functools\n" + made + HITS) == ([kind], [])


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(net("loss = self.fc(x).sum()", "loss.backward()", "return self.fc(x)") + HITS, id="forward"),
        pytest.param(
            "def adapt(x):\n    loss(x).backward()\nnet = nn.Linear(3, 4)\n" + HITS + "    adapt(x)\n", id="f"
        ),
    ],
)
def test_a_model_that_learns_in_the_loop(program: str) -> None:
    assert "the loop computes gradients" in gathered(program)[1][0]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("    for p in net.parameters():\n        p.mul_(0.9)\n", id="its parameters"),
        pytest.param("    for p in net.parameters():\n        p.data.mul_(0.9)\n", id="their data"),
        pytest.param("    ema(net)\n", id="a function"),
    ],
)
def test_a_model_that_is_changed_in_the_loop(body: str) -> None:
    ema = "def ema(model):\n    for p in model.parameters():\n        p.mul_(0.9)\n"
    _, (why,) = gathered(ema + "net = nn.Linear(3, 4)\n" + HITS + body)
    assert "changes what it is" in why


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("k = rng.random()", id="a generator of numpy"),
        pytest.param("k = coin.random()", id="a generator of Python"),
        pytest.param("noise = torch.randn(3)", id="torch"),
        pytest.param("k = random.random()", id="Python"),
        pytest.param("k = np.random.rand(3)", id="numpy"),
        pytest.param("x = x + torch.empty(3).uniform_()", id="in place"),
        pytest.param("k = noisy()", id="a function of the project"),
    ],
)
def test_what_is_drawn_at_random_in_the_loop(line: str) -> None:
    text = "def noisy():\n    return random.random()\nnet = nn.Linear(3, 4)\n" + HITS + f"    {line}\n"
    text = "rng, coin = None, None\nrng = np.random.default_rng(0)\ncoin = random.Random(0)\n" + text
    _, (why,) = gathered(text)
    assert "draws other numbers on each rank, and for other samples" in why


def test_seeds_that_are_set_in_the_loop_are_no_draws() -> None:
    assert gathered("net = nn.Linear(3, 4)\n" + HITS + "    torch.manual_seed(0)\n")[1] == []


@pytest.mark.parametrize(
    ("decorator", "kind"), [("@torch.no_grad()", "sum"), ("@staticmethod", "sum"), ("@counted", "opaque")]
)
def test_a_decorator_may_make_something_else_of_what_a_function_gives(decorator: str, kind: str) -> None:
    hits = f"{decorator}\ndef hits(o, y):\n    return (o.argmax(1) == y).sum()\nnet = nn.Linear(3, 4)\n"
    assert gathered(hits + HITS.replace("(net(x).argmax(1) == y).sum()", "hits(net(x), y)"))[0] == [kind]
