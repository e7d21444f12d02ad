"""What a model, dataset or collator keeps of the batches it is given is one rank's, wherever a program reads it."""

from __future__ import annotations

import pytest
from counting import counting
from plans import planned

NET = "class Net(nn.Module):\n{}    def forward(self, x):\n        {}\n        return x\nmodel = Net()\n"


def net(line: str, more: str = "") -> str:
    """A model whose ``forward`` runs a line; ``more`` are other methods."""
    return NET.format(more, line)


def data(line: str, name: str = "__getitem__(self, i)") -> str:
    """A dataset of which a method runs a line."""
    return f"class Data:\n    def {name}:\n        {line}\n        return i, i\nval_set = Data()\n"


COUNTS = net("self.seen += len(x)")
KEEPS = net("self.last = x")


def method(name: str, read: str = "self.seen", *, of: str = "") -> str:
    return f"{of}    def {name}(self):\n        return {read}\n"


READ_BY = "self.seen += len(x)"
REFUSED = {
    "bare": counting(returns="n / model.seen", head=COUNTS),
    "in a call": counting(returns="n / max(model.seen, 1)", head=COUNTS),
    "in arithmetic": counting(returns="n / (model.seen + 1)", head=COUNTS),
    "as a number": counting(returns="n / model.seen.item()", head=COUNTS),
    "in a text": counting(returns="f'{n} of {model.seen}'", head=COUNTS),
    "through what wraps it": counting(returns="n / max(model.module.seen, 1)", head=COUNTS),
    "by its name": counting(returns="n / getattr(model, 'seen')", head=COUNTS),
    "in its dict": counting(returns="n / vars(model)['seen']", head=COUNTS),
    "by the caller": counting(head=COUNTS, call="print(validate(model, val_loader) / model.seen)"),
    "by another function": counting(returns="n / rate(model)", head=COUNTS + "def rate(net):\n    return net.seen\n"),
    "by a method": counting(returns="n / model.count()", head=net(READ_BY, method("count"))),
    "by a property": counting(returns="n / model.count", head=net(READ_BY, method("count", of="    @property\n"))),
    "by len": counting(returns="n / len(model)", head=net(READ_BY, method("__len__"))),
    "by str": counting(returns="f'{n} {model}'", head=net(READ_BY, method("__str__"))),
    "kept by a method of it": counting(
        returns="n / max(model.seen, 1)",
        head=net("self.tick(x)", "    def tick(self, x):\n        self.seen += len(x)\n"),
    ),
    "kept by a function": counting(
        returns="n / max(model.seen, 1)",
        head="def tick(net, x):\n    net.seen += len(x)\n" + net("tick(self, x)"),
    ),
    "kept by a hook": counting(
        returns="n / max(model.seen, 1)",
        head=net(
            "pass",
            "    def __init__(self):\n        self.register_forward_hook(self.tick)\n"
            "    def tick(self, net, given, out):\n        self.seen += len(out)\n",
        ),
    ),
    "kept by what wraps its forward": counting(
        returns="n, SEEN",
        head="SEEN = []\ndef logged(f):\n    def inner(*a):\n        SEEN.append(a)\n        return f(*a)\n"
        "    return inner\n"
        "class Net(nn.Module):\n    @logged\n    def forward(self, x):\n        return x\nmodel = Net()\n",
    ),
    "in a buffer": counting(returns="n / max(int(model.seen), 1)", head=net("self.seen.add_(len(x))")),
    "in a dict": counting(returns="n / max(model.of['seen'], 1)", head=net("self.of['seen'] += len(x)")),
    "set by its name": counting(returns="n / max(model.seen, 1)", head=net("setattr(self, 'seen', len(x))")),
    "in its class": counting(returns="n / max(Net.seen, 1)", head=net("type(self).seen += len(x)")),
    "in a list of the file": counting(returns="n, SEEN", head="SEEN = []\n" + net("SEEN.append(x)")),
    "in a number of the file": counting(
        returns="n / max(SEEN, 1)", head="SEEN = 0\n" + net("global SEEN\n        SEEN += len(x)")
    ),
    "where it is not being trained": counting(
        returns="n / max(model.seen, 1)", head=net("if not self.training:\n            self.seen += len(x)")
    ),
    "of the last batch": counting(returns="n, model.last", head=KEEPS),
    "of the last batch, in a call": counting(returns="n, model.last.sum()", head=KEEPS),
    "of the last batch, one of two": counting(returns="n, model.last", head=net("self.last, self.b = x, x")),
    "of this batch, in the loop": counting(
        "n += (x[:, 0] > model.last).sum().item()", head=net("self.last = x.mean()")
    ),
    "by a dataset": counting(returns="n / max(1, loader.dataset.seen)", head=data("self.seen += 1")),
    "by a dataset that is gone through": counting(
        returns="n / max(1, val_set.seen)",
        head=data("for i in range(9):\n            self.seen += 1\n            yield i, i", "__iter__(self)"),
    ),
    "by a dataset, in its class": counting(returns="n / max(1, Data.seen)", head=data("Data.seen += 1")),
    "by a dataset, in a list": counting(returns="n, SEEN", head="SEEN = []\n" + data("SEEN.append(i)")),
    "by a transform": counting(
        returns="n / max(1, change.seen)",
        head="class Change:\n    def __call__(self, x):\n        self.seen += 1\n        return x\nchange = Change()\n"
        "class Data:\n    def __getitem__(self, i):\n        return change(i), i\nval_set = Data()\n",
    ),
    "by a collator": counting(
        returns="n / max(1, loader.collate_fn.seen)",
        head="class Together:\n    def __call__(self, rows):\n        self.seen += len(rows)\n        return rows\n",
    ),
    "by a loop over its modules": counting(returns="n, sum(m.seen for m in model.modules())", head=COUNTS),
    "with its state": counting(returns="n / model.state_dict()['seen']", head=COUNTS),
    "with all that it has": counting(returns="n, vars(model)", head=COUNTS),
    "with a part of it": counting(returns="n, model.stats", head=net("self.stats.seen += len(x)")),
    "in a list, by another name": counting(returns="n, model.mem", head=net("mem = self.mem\n        mem.append(x)")),
    "in a tensor, by another name": counting(
        returns="n, model.rate",
        head=net(
            "rate = self.rate\n        rate += len(x)", "    def __init__(self):\n        self.rate = torch.zeros(1)\n"
        ),
    ),
    "a flag that some batch sets": counting(
        returns="n, model.ready", head=net("if x.sum() > 3:\n            self.ready = True")
    ),
    "in its settings": counting(returns="n / args.seen", head=net("self.args.seen += len(x)")),
    "in another file": counting(returns="n, settings.last", head="import settings\n" + net("settings.last = x")),
    "in an object of the file": counting(
        returns="n / stats.seen", head="class Stats:\n    seen = 0\nstats = Stats()\n" + net("stats.seen += len(x)")
    ),
    "by a method that the loop calls": counting(
        "z = model.predict(x)",
        returns="n, model.last",
        head=net("pass", "    def predict(self, x):\n        self.last = x\n        return x\n"),
    ),
    "by what is put in the place of forward": counting(
        returns="n, SEEN", head="SEEN = []\ndef kept(x):\n    SEEN.append(x)\n    return x\nmodel.forward = kept\n"
    ),
    "by what is told of the log": counting(
        "logger.info(n)",
        returns="n, rows.kept",
        head="import logging\nclass Rows(logging.Handler):\n    kept = []\n"
        "    def emit(self, record):\n        self.kept.append(record)\nrows = Rows()\nlogger = logging.getLogger()\n",
    ),
    "in a cache that counts": counting(
        "z = hashed(int(y[0]))",
        returns="n, hashed.cache_info().misses",
        head="@functools.lru_cache(None)\ndef hashed(t):\n    return t\n",
    ),
}
GOES_BY_IT = {
    "a count": net("self.calls += 1\n        x = x if self.calls < 3 else -x"),
    "a count, by a method": net(
        "self.calls += 1\n        x = -x if self.late() else x", "    def late(self):\n        return self.calls > 3\n"
    ),
    "a list": net("self.mem.append(x.mean())\n        x = x - sum(self.mem)"),
    "what was there before": net("m = self.mem[-1]\n        self.mem.append(x.mean())\n        x = x - m"),
    "a number of the file": "STEP = [0]\n" + net("STEP[0] += 1\n        x = x * STEP[0]"),
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_what_is_kept_out_of_sight_is_not_read(text: str) -> None:
    (report,) = planned(text).reports
    assert report.changes == ()
    assert "of one rank's samples" in report.findings[0].message or "in a cache" in report.findings[0].message


@pytest.mark.parametrize("head", GOES_BY_IT.values(), ids=GOES_BY_IT)
def test_a_model_that_goes_by_what_it_adds_up(head: str) -> None:
    (report,) = planned(counting(head=head)).reports
    assert report.changes == ()
    assert "`model` keeps something of a batch that it reads at the next one" in report.findings[0].message


NEAR = {
    "kept and read by nobody": counting(head=net("self.seen += len(x)\n        self.last = x")),
    "a setting of it": counting(
        returns="n / max(1, model.heads)",
        head=net("self.seen += len(x)", "    def __init__(self):\n        self.heads = 3\n"),
    ),
    "of another object": counting(
        head=COUNTS + "class Other:\n    def __init__(self):\n        self.seen = 4\nother = Other()\n",
        call="print(validate(model, val_loader) / other.seen)",
    ),
    "only while it is trained": counting(
        returns="n / max(1, model.seen)", head=net("if self.training:\n            self.seen += len(x)")
    ),
    "of a batch that it is trained with": counting(
        head=KEEPS
        + "def train(loader, opt):\n    for x, y in loader:\n        loss = model(x).sum() + model.last.sum()\n"
        "        loss.backward()\n        opt.step()\n"
    ),
    "of this batch, by itself": counting(head=net("self.last = x * 2\n        x = self.last - x")),
    "begun anew in each batch": counting(
        head=net("self.mem = []\n        self.mem.append(x)\n        x = self.mem[0]")
    ),
    "items kept by a dataset for itself": counting(
        head=data("if i not in self.items: self.items[i] = i * 2\n        i = self.items[i]")
    ),
    "of what another model gives": counting(
        head=net("self.loss = x"),
        call="class Other:\n    def show(self, loader):\n        for x, y in loader:\n            out = self.net(x)\n"
        "            print(out.loss)\nvalidate(model, val_loader)",
    ),
    "of a batch": counting(
        head=net("self.mask = x"),
        call="for batch in other_loader:\n    print(batch.mask)\nvalidate(model, val_loader)",
    ),
    "of a setting": counting(returns="n / args.seen", head=COUNTS),
    "a flag that each batch sets": counting(returns="n, model.ready", head=net("self.ready = True")),
    "what a program's object keeps": counting(
        returns="n, args.folder",
        head="class Job:\n    def __call__(self):\n        self.args.folder = str(self.args.folder)\n",
    ),
    "what a decorator sets when it is put on": counting(
        returns="n, f.calls",
        head="def known(f):\n    f.calls = 3\n    return f\n"
        "class Net(nn.Module):\n    @known\n    def forward(self, x):\n        return x\nmodel = Net()\n",
    ),
    "a number that is reckoned with": counting(
        returns="n, model.rate",
        head=net(
            "rate = self.rate\n        rate *= float(1) / len(x)\n        x = x * rate",
            "    def __init__(self):\n        self.rate = 0.2\n",
        ),
    ),
    "before the loop": counting(before="print(model.seen)", head=COUNTS),
}


@pytest.mark.parametrize("text", NEAR.values(), ids=NEAR)
def test_what_is_none_of_these(text: str) -> None:
    (change,) = planned(text).changes
    assert (change.codes, change.tier) == (("SHD305",), "safe")
