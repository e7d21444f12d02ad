"""Where a model trains or samples are padded for one another, what a batch gives depends on which samples are in it."""

from __future__ import annotations

import ast

import pytest
from loaders import module

from shardfix.analysis.metrics.collation import may_pad
from shardfix.analysis.metrics.modes import may_train, trains_inside
from shardfix.analysis.metrics.networks import gives_rows

MODEL = "import torch\nfrom torch import nn\ndef make():\n    return nn.Linear(3, 4).eval()\n"
NORM = "net = nn.Sequential(make(), nn.BatchNorm1d(4))\n"
LOOP = "for x, y in loader:\n    n += (net(x).argmax(1) == y).sum()\n"


@pytest.mark.parametrize(
    ("text", "doubt"),
    [
        (MODEL + NORM + LOOP, True),
        (MODEL + NORM + "net.eval()\n" + LOOP, False),
        (MODEL + NORM + "net.train(False)\n" + LOOP, False),
        (MODEL + NORM + "net.train()\n" + LOOP, True),
        (MODEL + NORM + "other.eval()\n" + LOOP, True),
        (MODEL + NORM + "net.eval()\nnet.train()\n" + LOOP, True),
        (MODEL + NORM + "net.eval()\nfor m in net.modules():\n    m.train()\n" + LOOP, True),
        (MODEL + NORM + "def drop(m):\n    m.train()\nnet.eval()\ndrop(net)\n" + LOOP, True),
        (MODEL + NORM + "net.train()\nnet.eval()\n" + LOOP, False),
        (MODEL + NORM + "net.module.eval()\n" + LOOP, False),
        (MODEL + "net = make()\nloss.backward()\n" + LOOP, False),
        (MODEL + "net = nn.Linear(3, 4)\n" + LOOP, False),
        (MODEL + NORM + "def modes():\n    net.eval()\nmodes()\n" + LOOP, False),
        (MODEL + NORM + "def modes():\n    net.eval()\n" + LOOP, True),
    ],
)
def test_a_model_that_nothing_sets_to_evaluation(text: str, doubt: bool) -> None:
    found = module(text)
    loop = next(n for n in ast.walk(found.tree) if isinstance(n, ast.For) and ast.unparse(n.iter) == "loader")
    assert may_train(found, loop) == doubt


def test_a_caller_sets_the_model_to_evaluation() -> None:
    inside = "def run(net, loader):\n    n = 0\n    for x, y in loader:\n        n += net(x).sum()\n"
    for caller, doubt in (("net.eval()", False), ("print(net)", True)):
        found = module(MODEL + NORM + inside + f"def main():\n    {caller}\n    run(net, loader)\nmain()\n")
        (loop,) = (n for n in ast.walk(found.tree) if isinstance(n, ast.For))
        assert may_train(found, loop) == doubt


@pytest.mark.parametrize(("call", "sets"), [("net.train()", True), ("net.train(False)", False), ("net.eval()", False)])
def test_a_loop_that_sets_the_model_to_training(call: str, sets: bool) -> None:
    found = module(f"for x, y in loader:\n    {call}\n    n += net(x).sum()\n")
    (loop,) = (n for n in ast.walk(found.tree) if isinstance(n, ast.For))
    assert (trains_inside(found, loop) is not None) == sets


COLLATE = """\
import torch
from torch.nn.utils.rnn import pad_sequence
def pads(batch):
    return pad_sequence([b[0] for b in batch]), torch.stack([b[1] for b in batch])
def stacks(batch):
    x, y = zip(*batch)
    return torch.stack(x), torch.tensor(y)
def tokenizes(batch):
    return tokenizer(batch, padding=True)
def appends(batch):
    xs, ys = [], []
    for x, y in batch:
        xs.append(torch.as_tensor(x))
        ys.append(y)
    return {"x": torch.stack(xs, dim=0).float(), "y": torch.tensor(ys, dtype=torch.long)}
def by_key(features):
    return {k: torch.stack([f[k] for f in features]) for k in features[0].keys()}
def columns(batch):
    found = list(zip(*batch))
    return torch.stack(found[0]), list(map(int, found[1]))
def told(pad, batch):
    return torch.stack([shape(b, pad) for b in batch])
def drops(b):
    b = [i for i in b if i is not None]
    return torch.utils.data.default_collate(b)
def turns(b):
    return torch.utils.data.default_collate(b[::-1])
def pairs(b):
    return torch.stack([i[0] for i in b]), torch.stack([b[i - 1][0] for i in range(len(b))])
def against(b):
    x = torch.stack([i[0] for i in b])
    return x - x[0], torch.stack([i[1] for i in b])
def firsts(b):
    return torch.stack([b[0][1] for i in b])
def doubles(b):
    return torch.stack([s[0] for s in b for _ in range(2)])
def counts(b):
    STATE[0] += 1
    return torch.stack([i[0] * STATE[0] for i in b])
def sorts(b):
    b.sort(key=len)
    return torch.stack(b)
def draws(b):
    return torch.stack([i + random.random() for i in b])
def columns_of_it(b):
    return torch.stack([i[0] for i in b], 1)
"""


@pytest.mark.parametrize(
    ("given", "pads"),
    [
        ("None", False),
        ("stacks", False),
        ("default_collate", False),
        ("lambda b: torch.stack(b)", False),
        ("pads", True),
        ("tokenizes", True),
        ("lambda b: pads(b)", True),
        ("partial(pads, 0)", True),
        ("DataCollatorWithPadding(tokenizer)", True),
        ("unseen", True),
        ("appends", False),
        ("by_key", False),
        ("columns", False),
        ("partial(told, 3)", False),
        ("partial(told, pad=3)", False),
        ("told", True),
        *((name, True) for name in ("drops", "turns", "pairs", "against", "firsts", "doubles", "counts", "sorts")),
        *((name, True) for name in ("draws", "columns_of_it")),
    ],
)
def test_a_collate_fn_that_is_not_seen_to_stack_only(given: str, pads: bool) -> None:
    found = module(COLLATE + f"used = {given}\n")
    value = next(n.value for n in found.tree.body if isinstance(n, ast.Assign))
    assert may_pad(found, value) == pads


@pytest.mark.parametrize(
    ("call", "rows"),
    [
        ("model(x)", True),
        ("self.encoder(x)", True),
        ("tokenizer.batch_decode(x)", True),
        ("told(x)", True),
        ("Own()(x)", False),
        ("own(x)", True),
        ("nn.Softmax(dim=1)(x)", True),
        ("nn.Softmax(dim=0)(x)", False),
        ("nn.CrossEntropyLoss()(x)", False),
        ("loss_model(x)", False),
        ("spearman(x)", False),
        ("torch.unseen(x)", False),
    ],
)
def test_what_is_taken_for_a_model(call: str, rows: bool) -> None:
    own = "class Own(nn.Module):\n    def forward(self, x):\n        return x\nown = Own()\ntold.eval()\n"
    found = module("import torch\nfrom torch import nn\n" + own + call + "\n")
    last = found.tree.body[-1]
    assert isinstance(last, ast.Expr)
    assert isinstance(last.value, ast.Call)
    assert gives_rows(found, last.value) == rows
