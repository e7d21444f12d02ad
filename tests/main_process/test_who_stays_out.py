"""An evaluation of one rank is left to it where another rank would wait for ever, or would evaluate something else."""

from __future__ import annotations

import pytest

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Options
from shardfix.planning import make_plan

HEAD = """\
import argparse
import copy
import os
import sys
import time
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    correct = total = 0
    for x, y in loader:
        correct += (model(x).argmax(1) == y).sum().item()
        total += len(y)
    return correct / total

dist.init_process_group()
rank = dist.get_rank()
args = argparse.ArgumentParser().parse_args()
net = nn.Linear(2, 2)
model = DistributedDataParallel(net)
"""
LOADER = "val_loader = DataLoader(val_set, batch_size=4)\n"
EPOCHS = "for epoch in range(args.epochs):\n    train(model)\n"


def why(text: str) -> str:
    """Why nobody is let in, where nothing is changed."""
    plan = make_plan(link({"train.py": parse("train.py", text)}), ("train.py",), Options(sanitizer="off", unsafe=True))
    assert plan.problems == ()
    assert [c.codes for c in plan.changes if "SHD306" in c.codes] == []
    return " ".join(r.why + " ".join(f.message + f.remedy for f in r.findings) for r in plan.reports)


def line_of(text: str, part: str) -> int:
    return next(i for i, line in enumerate(text.splitlines(), 1) if part in line)


REFUSED = [
    # -- ranks would wait for ever ----------------------------------------------------------------------------
    pytest.param(
        LOADER
        + "if rank == 0:\n    acc = evaluate(model, val_loader)\n    dist.barrier()\nelse:\n    dist.barrier(None)\n",
        "    dist.barrier(None)",
        "what the other ranks do while the main process evaluates",
        id="the others wait in the other branch",
    ),
    pytest.param(
        LOADER + "if rank == 0:\n    acc = evaluate(model, val_loader)\n    dist.barrier()\nif rank != 0:\n"
        "    dist.barrier()\n",
        "    dist.barrier()",
        "only the main process comes to `dist.barrier(..)`",
        id="a barrier in the condition, the others' behind it",
    ),
    pytest.param(
        LOADER
        + "if rank != 0:\n    dist.barrier()\nif rank == 0:\n    acc = evaluate(model, val_loader)\nif rank == 0:\n"
        "    dist.barrier()\n",
        "    dist.barrier()",
        "ranks wait here for one another",
        id="the others wait before, for the evaluation to end",
    ),
    pytest.param(
        LOADER + "if rank == 0:\n    acc = torch.tensor(evaluate(model, val_loader))\n    dist.broadcast(acc, 0)\n"
        "else:\n    acc = torch.zeros(1)\n    dist.broadcast(acc, 0)\n",
        "    acc = torch.zeros(1)",
        "what the other ranks do while the main process evaluates",
        id="the result is sent in both branches",
    ),
    pytest.param(
        LOADER + "def save(model):\n    dist.barrier()\n    torch.save(model.state_dict(), 'a.pt')\n"
        "if rank == 0:\n    acc = evaluate(model, val_loader)\n    save(model)\n",
        "    save(model)",
        "`save(..)` waits for other ranks, which only the main process does now",
        id="a barrier in what is called in the condition",
    ),
    pytest.param(
        LOADER + EPOCHS + "    if rank == 0:\n        acc = evaluate(model, val_loader)\n        if acc > 0.9:\n"
        "            break\n",
        "            break",
        "`break` is decided on one rank only",
        id="only the main process stops",
    ),
    pytest.param(
        LOADER + "def main():\n" + EPOCHS.replace("\n", "\n    ").replace("for", "    for", 1).rstrip() + "\n"
        "        if rank == 0:\n            acc = evaluate(model, val_loader)\n            if acc > 0.9:\n"
        "                return acc\nmain()\n",
        "                return acc",
        "`return` is decided on one rank only",
        id="only the main process returns",
    ),
    pytest.param(
        LOADER + "if rank == 0:\n    acc = evaluate(model, val_loader)\n    if acc < 0.1:\n        sys.exit(1)\n",
        "        sys.exit(1)",
        "`exit` is decided on one rank only",
        id="only the main process ends",
    ),
    pytest.param(
        LOADER + "best = 0\n" + EPOCHS + "    loss = train_loss(model)\n    if rank == 0 and loss < best:\n"
        "        acc = evaluate(model, val_loader)\n        print(acc)\n",
        "",
        "loss < best`",
        id="a loss, which differs by rank, is asked too",
    ),
    pytest.param(
        LOADER + "last = time.time()\n" + EPOCHS + "    if rank == 0 and time.time() - last > 60:\n"
        "        print(evaluate(model, val_loader))\n",
        "",
        "time.time() - last > 60`",
        id="the time is asked too",
    ),
    pytest.param(
        LOADER
        + "best = 0\n"
        + EPOCHS
        + "    if rank == 0 and epoch > best:\n        acc = evaluate(model, val_loader)\n"
        "        if acc > 0.5:\n            best = epoch + 2\n",
        "    if rank == 0 and epoch > best",
        "`best` is the main process's own",
        id="what only the main process counts is asked too",
    ),
    pytest.param(
        LOADER + "if rank == 0:\n    try:\n        print(evaluate(model, val_loader))\n"
        "    except RuntimeError:\n        print('no memory')\n    more()\n",
        "    except RuntimeError",
        "what is raised on one rank is caught here",
        id="an exception that one rank gets over",
    ),
    pytest.param(
        LOADER
        + "def check():\n    correct = 0\n    for x, y in val_loader:\n        correct += (model(x).argmax(1) == y)"
        ".sum().item()\n    total = torch.tensor(correct)\n    dist.reduce(total, 0)\n    return total\n"
        "if rank == 0:\n    with torch.no_grad():\n        print(check())\n",
        "",
        "combines",
        id="the evaluation combines something already",
    ),
    pytest.param(
        LOADER + "def run():\n    acc = evaluate(model, val_loader)\n    print(acc)\nif rank == 0:\n    run()\nelse:\n"
        "    train(model)\n",
        "    train(model)",
        "what the other ranks do while the main process evaluates",
        id="the others train meanwhile",
    ),
    pytest.param(
        LOADER + "def main():\n    if rank == 0:\n        acc = evaluate(model, val_loader)\n        print(acc)\n"
        "        return acc\n    dist.barrier()\nmain()\n",
        "        return acc",
        "what follows is done by the other ranks only",
        id="what follows is the others'",
    ),
    pytest.param(
        LOADER + "def main():\n    if rank != 0:\n        wait_for_files()\n        return\n"
        "    acc = evaluate(model, val_loader)\n    print(acc)\nmain()\n",
        "        wait_for_files()",
        "the other ranks do this while the main process evaluates",
        id="the others do something before they return",
    ),
    pytest.param(
        LOADER
        + "class Early:\n    def step(self, acc):\n        return acc > 0.9\nearly = Early()\n"
        + EPOCHS
        + "    if rank == 0:\n        acc = evaluate(model, val_loader)\n        stop = early.step(acc)\n"
        "        if stop:\n            break\n",
        "            break",
        "`break` is decided on one rank only",
        id="early stopping by an object",
    ),
    # -- ranks would evaluate something else -------------------------------------------------------------------
    pytest.param(
        "CFG = {'batch': 4}\ndef tune():\n    CFG['batch'] = 8\n"
        "def score(model, loader):\n    n = 0\n    for x, y in loader:\n"
        "        n += (model(x)[:, 0] > CFG['batch']).sum()\n    return n\n"
        + LOADER
        + "if rank == 0:\n    tune()\nif rank == 0:\n    print(score(model, val_loader))\n",
        "    tune()",
        "only the main process calls `tune(..)`",
        id="a setting is changed by a function of one process",
    ),
    pytest.param(
        LOADER + "results = {}\nif rank == 0:\n    acc = evaluate(model, val_loader)\n    results.update(acc=acc)\n"
        "with open('results.txt', 'w') as f:\n    for key in results:\n        f.write(key)\n",
        "    for key in results",
        "`results` is told something by the main process only",
        id="all ranks write what one has",
    ),
    pytest.param(
        LOADER + "kept = {}\nif rank == 0:\n    model.load_state_dict(kept)\n    print(evaluate(model, val_loader))\n",
        "    model.load_state_dict",
        "loads what one process alone may have",
        id="weights of one process's memory are loaded in the condition",
    ),
    pytest.param(
        LOADER + "if rank == 0:\n    best = torch.load('best.pt')\n    best.update(more())\n"
        "if rank == 0:\n    model.load_state_dict(best)\n    print(evaluate(model, val_loader))\n",
        "    best.update(more())",
        "only the main process calls `best.update(..)`",
        id="what is loaded is changed further",
    ),
    pytest.param(
        LOADER
        + "ema = copy.deepcopy(net) if rank == 0 else None\nif rank == 0:\n    print(evaluate(ema, val_loader))\n",
        "    print(evaluate(ema, val_loader))",
        "`ema` is the main process's own",
        id="a model that only the main process has",
    ),
    pytest.param(
        LOADER + "ema = copy.deepcopy(net)\n" + EPOCHS + "    if rank == 0:\n        update_ema(ema, model)\n"
        "    if rank == 0:\n        print(evaluate(ema, val_loader))\n",
        "        update_ema(ema, model)",
        "only the main process calls `update_ema(..)`",
        id="a model that only the main process updates, elsewhere",
    ),
    pytest.param(
        LOADER + "norm = nn.BatchNorm1d(2)\nif rank == 0:\n    print(evaluate(model.module, val_loader))\n",
        "    print(evaluate(model.module, val_loader))",
        "the statistics of BatchNorm are each rank's own there",
        id="the model without its wrapper",
    ),
    pytest.param(
        LOADER + "norm = nn.BatchNorm1d(2)\nif rank == 0:\n    print(evaluate(net, val_loader))\n",
        "    print(evaluate(net, val_loader))",
        "the statistics of BatchNorm are each rank's own there",
        id="the model that was wrapped",
    ),
    pytest.param(
        LOADER + "if rank == 0:\n    threshold = float(open('threshold.txt').read())\n    swap_weights(model)\n"
        "    print(evaluate(model, val_loader))\n",
        "    swap_weights(model)",
        "whether `swap_weights(..)` changes what is evaluated is not seen",
        id="something unseen is done to the model before",
    ),
    pytest.param(
        LOADER + "class Ema:\n    def restore(self, model):\n        model.load_state_dict(self.kept)\nema = Ema()\n"
        "if rank == 0:\n    print(evaluate(model, val_loader))\n    ema.restore(model)\n",
        "    ema.restore(model)",
        "which only the main process does now",
        id="weights are set back in the condition",
    ),
    pytest.param(
        "if rank == 0:\n    val_set = MNIST('data', train=False, download=True)\n"
        "    val_loader = DataLoader(val_set, batch_size=4)\n    print(evaluate(model, val_loader))\n",
        "    val_set = MNIST",
        "the evaluation needs `MNIST(..)`, which writes files",
        id="the data is downloaded in the condition",
    ),
    pytest.param(
        "def cached(path):\n    if os.path.exists(path):\n        return torch.tensor(np.load(path))\n"
        "    data = make()\n    if rank == 0:\n        np.save(path, data)\n    return data\n"
        "if rank == 0:\n    with torch.no_grad():\n        val_set = cached('val.npy')\n"
        "    val_loader = DataLoader(val_set, batch_size=4)\n"
        "    print(evaluate(model, val_loader))\n",
        "    if os.path.exists(path)",
        "one rank may read this file while another writes it",
        id="the data is read from a file that the main process may be writing",
    ),
    pytest.param(
        LOADER + "class Log:\n    best = 0\n    def note(self, acc):\n        self.best = max(acc, self.best)\n"
        "        print(self.best)\nlog = Log()\n"
        + EPOCHS
        + "    if rank == 0:\n        acc = evaluate(model, val_loader)\n"
        "        log.note(acc)\n    if log.best > 0.9:\n        break\n",
        "    if log.best > 0.9",
        "`log` is told something by the main process only",
        id="what the main process keeps further down ends the run",
    ),
    pytest.param(
        LOADER + "ema = copy.deepcopy(net)\n" + EPOCHS + "    if rank == 0:\n"
        "        for a, b in zip(ema.parameters(), net.parameters()):\n            a.data.mul_(0.9).add_(b.data)\n"
        "    if rank == 0:\n        print(evaluate(ema, val_loader))\n",
        "            a.data.mul_",
        "only the main process calls `a.data.mul_(0.9).add_(..)`",
        id="weights that only the main process changes in place",
    ),
    pytest.param(
        LOADER
        + "ema = copy.deepcopy(net)\ndef step():\n    for a, b in zip(ema.parameters(), net.parameters()):\n"
        + "        a.data.mul_(0.9).add_(b.data)\n"
        + EPOCHS
        + "    if rank == 0:\n        step()\n        print(evaluate(ema, val_loader))\n",
        "        step()",
        "only the main process calls `step(..)`",
        id="a function that changes the weights by their name in the module",
    ),
    pytest.param(
        LOADER
        + "ema = copy.deepcopy(net)\ndef renew():\n    ema.load_state_dict(net.state_dict())\n"
        + EPOCHS
        + "    if rank == 0:\n        renew()\n    if rank == 0:\n        print(evaluate(ema, val_loader))\n",
        "        renew()",
        "only the main process calls `renew(..)`",
        id="a function that loads the weights",
    ),
    pytest.param(
        LOADER + EPOCHS + "    if rank == 0:\n        acc = evaluate(model, val_loader)\n        schedule.step(acc)\n",
        "        schedule.step(acc)",
        "only the main process calls `schedule.step(..)`, so that the ranks' models drift apart",
        id="a schedule that only the main process steps",
    ),
    pytest.param(
        LOADER + "accs = []\n" + EPOCHS + "    if rank == 0:\n        acc = evaluate(model, val_loader)\n"
        "        accs.append(acc)\n    if len(accs) > 2 and accs[-1] < accs[0]:\n        break\n",
        "    if len(accs) > 2",
        "`accs` is told something by the main process only",
        id="results that only the main process keeps stop all",
    ),
    pytest.param(
        LOADER + "stopper = Stopper()\n" + EPOCHS + "    if rank == 0:\n        acc = evaluate(model, val_loader)\n"
        "        stopper(acc)\n    if stopper.stop:\n        break\n",
        "    if stopper.stop",
        "`stopper` is told something by the main process only",
        id="an object that only the main process tells of results stops all",
    ),
    pytest.param(
        "class Judge:\n    def __init__(self):\n        self.loader = DataLoader(val_set, batch_size=4)\n"
        "        self.low = 0\n    def run(self):\n        acc = evaluate(model, self.loader)\n        self.note(acc)\n"
        "        return acc > self.low\n"
        "    def note(self, acc):\n        print(acc)\n        self.low = acc / 2\n"
        "judge = Judge()\nif rank == 0:\n    judge.run()\n",
        "        self.note(acc)",
        "it sets `low`, which all ranks read",
        id="what is shown is kept as well, and read by all",
    ),
    pytest.param(
        LOADER + "def told(model, loader, hooks):\n    acc = evaluate(model, loader)\n    for hook in hooks:\n"
        "        hook.after(acc)\n    return acc\nif rank == 0:\n    told(model, val_loader, make_hooks())\n",
        "        hook.after(acc)",
        "what `hook.after(..)` does is not seen",
        id="hooks of which nothing is seen",
    ),
    pytest.param(
        LOADER + "def told(model, loader):\n    acc = evaluate(model, loader)\n    torch.save(acc, 'acc.pt')\n"
        "    with open('acc.pt', 'rb') as f:\n        return len(f.read())\n"
        "if rank == 0:\n    told(model, val_loader)\n",
        "    with open('acc.pt', 'rb')",
        "it reads a file, and one process alone writes files",
        id="a file is written by one and read by all",
    ),
    pytest.param(
        LOADER + "def count(loader):\n    n = 0\n    for i, (x, y) in enumerate(loader):\n"
        "        n += (model(x).argmax(1) == y).sum().item()\n    print(n, 'in', i + 1)\n    return n\n"
        "if rank == 0:\n    with torch.no_grad():\n        count(val_loader)\n",
        "    print(n, 'in', i + 1)",
        "it shows a number of batches",
        id="the number of batches is shown",
    ),
    # -- others would go by what only one had ------------------------------------------------------------------
    pytest.param(
        LOADER + "acc = None\nif rank == 0:\n    acc = evaluate(model, val_loader)\nif acc is not None:\n"
        "    torch.save(model.state_dict(), 'a.pt')\n",
        "if acc is not None",
        "`acc` is read here by all ranks",
        id="who has a result saves",
    ),
    pytest.param(
        LOADER + "history = []\n" + EPOCHS + "    if rank == 0:\n        history.append(evaluate(model, val_loader))\n"
        "    if len(history) > 3:\n        break\n",
        "    if len(history) > 3",
        "`history` is read here by all ranks",
        id="who has results stops",
    ),
    pytest.param(
        LOADER + "acc = torch.zeros(1)\nif rank == 0:\n    acc = torch.tensor(evaluate(model, val_loader))\n"
        "dist.all_reduce(acc)\n",
        "",
        "",
        id="the result is summed up with the others' zeros",
    ),
    pytest.param(
        LOADER + "def check():\n    if rank != 0:\n        return None\n    return evaluate(model, val_loader)\n"
        "acc = check()\nif acc:\n    print(acc)\n",
        "if acc:",
        "`acc` is read here by all ranks",
        id="who gets something back prints",
    ),
    # -- not understood ----------------------------------------------------------------------------------------
    pytest.param(
        LOADER + "n = evaluate(model, val_loader) if rank == 0 else None\n",
        "n = evaluate",
        "the condition on the rank stands inside of an expression",
        id="a conditional expression",
    ),
    pytest.param(
        LOADER + "if args.debug:\n    pass\nelif rank == 0:\n    print(evaluate(model, val_loader))\n",
        "elif rank == 0",
        "the condition on the rank is an `elif`",
        id="elif",
    ),
    pytest.param(
        LOADER + "def rank_zero_only(f):\n    return lambda *a: f(*a) if rank == 0 else None\n\n@rank_zero_only\n"
        "def check(loader):\n    print(evaluate(model, loader))\ncheck(val_loader)\n",
        "",
        "",
        id="a decorator",
    ),
    pytest.param(
        LOADER
        + "def logged(loader):\n    n = 0\n    for x, y in loader:\n        n += note((model(x) == y).sum().item())\n"
        "    return n\ndef note(x):\n    print(x)\n    return x\nif rank == 0:\n    with torch.no_grad():\n"
        "        logged(val_loader)\n",
        "    print(x)",
        "",
        id="what prints gives a part of the metric",
    ),
    pytest.param(
        LOADER + "def told(loader):\n    out = open('out.txt', 'w')\n    n = 0\n    for x, y in loader:\n"
        "        n += (model(x).argmax(1) == y).sum().item()\n    return n, out\nif rank == 0:\n"
        "    with torch.no_grad():\n        told(val_loader)\n",
        "    return n, out",
        "`out` is made by what one process alone is to do, and is needed by all",
        id="a file is handed back",
    ),
    pytest.param(
        LOADER
        + "def told(model, loader):\n    acc = evaluate(model, loader)\n    if acc > 0.5: best = acc; print(acc)\n"
        "    return acc\nif rank == 0:\n    told(model, val_loader)\n",
        "    if acc > 0.5",
        "shares its line with another statement",
        id="statements of both kinds on one line",
    ),
    pytest.param(
        LOADER + "def told(model, loader):\n    acc = evaluate(model, loader)\n    if acc > 0.5:\n        n = 1\n"
        "    else: print(acc)\n    return acc\nif rank == 0:\n    told(model, val_loader)\n",
        "    else: print(acc)",
        "it stands on the line of its condition",
        id="a line that shows on the line of else",
    ),
    pytest.param(
        LOADER + "if rank == 0:\n    for x, y in val_loader:\n        show(model(x))\n        break\n",
        "",
        "",
        id="a look at the first batch",
    ),
]


@pytest.mark.parametrize(("text", "where", "words"), REFUSED)
def test_the_line_that_stands_in_the_way_is_named(text: str, where: str, words: str) -> None:
    program = HEAD + text
    found = why(program)
    assert words in found
    if where and words:
        assert f"line {line_of(program, where.rstrip(chr(10)))}: " in found


def test_without_what_stands_in_the_way_all_are_let_in() -> None:
    plain = HEAD + LOADER + "if rank == 0:\n    print(evaluate(model, val_loader))\n"
    plan = make_plan(link({"train.py": parse("train.py", plain)}), ("train.py",), Options(sanitizer="off", unsafe=True))
    assert [c.codes for c in plan.changes] == [("SHD306",)]


def test_without_unsafe_nothing_changes_and_the_offer_is_told() -> None:
    text = HEAD + LOADER + "if rank == 0:\n    print(evaluate(model, val_loader))\n"
    plan = make_plan(link({"train.py": parse("train.py", text)}), ("train.py",), Options(sanitizer="off"))
    assert plan.changes == ()
    assert [r.why for r in plan.reports] == [
        "only one rank evaluates (line 27), so it reads everything, as it should; "
        "`--unsafe` lets all ranks evaluate a part each"
    ]
