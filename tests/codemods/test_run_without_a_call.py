"""A loop that tells an object of its batches by no statement for it: an operator, a property, an unread result."""

from __future__ import annotations

import pytest
from counting import counting
from plans import planned


def keeps(method: str, line: str = "self.rows.append(1)", of: str = "", gives: str = "self") -> str:
    """A class that keeps something in a method, and an object of it."""
    return f"class Keep:\n    rows = []\n{of}    def {method}:\n        {line}\n        return {gives}\nc = Keep()\n"


BY_AN_OPERATOR = {
    name: counting(body, returns="n, c.rows", head=keeps(method, of=of, gives=gives))
    for name, body, method, of, gives in (
        ("a property", "z = c.tick", "tick(self)", "    @property\n", "1"),
        ("an attribute", "z = c.tick", "__getattr__(self, name)", "", "1"),
        ("an item", "z = c[0]", "__getitem__(self, i)", "", "1"),
        ("==", "z = c == y", "__eq__(self, y)", "", "True"),
        ("in", "z = y in c", "__contains__(self, y)", "", "True"),
        ("+", "z = c + y", "__add__(self, y)", "", "self"),
        ("<<", "c << y", "__lshift__(self, y)", "", "self"),
        ("len", "z = len(c)", "__len__(self)", "", "1"),
        ("iter", "z = [i for i in c]", "__iter__(self)", "", "iter([1])"),
        ("a text", "z = f'{c}'", "__str__(self)", "", "''"),
        ("if", "z = 1 if c else 2", "__bool__(self)", "", "True"),
        ("with", "with c:\n    z = model(x)", "__enter__(self)", "", "self"),
    )
} | {
    "a property of self": (
        "import torch\nimport torch.distributed as dist\nfrom torch.utils.data import DataLoader\n"
        "dist.init_process_group()\nval_loader = DataLoader(val_set, batch_size=4)\n"
        "class Runner:\n    def __init__(self, model):\n        self.model, self.k = model, 0\n"
        "    @property\n    def tick(self):\n        self.k += 1\n        return 1\n"
        "    @torch.no_grad()\n    def validate(self, loader):\n        self.model.eval()\n        n = 0\n"
        "        for x, y in loader:\n            z = self.tick\n"
        "            n += (self.model(x).argmax(1) == y).sum().item()\n        return n / self.k\n"
        "print(Runner(model).validate(val_loader))\n"
    ),
    "of what is made in the loop": counting(
        "o = Own()\no.x = y",
        returns="n, ROWS",
        head="ROWS = []\nclass Own:\n    def __setattr__(self, name, value): ROWS.append(value)\n",
    ),
    "of a descriptor": counting(
        "o = Own()\no.x = y",
        returns="n, ROWS",
        head="ROWS = []\nclass Kept:\n    def __set__(self, owner, value): ROWS.append(value)\n"
        "class Own:\n    x = Kept()\n",
    ),
}
TOLD = {
    "an unread name": "z = t.collect(y)",
    "an unread name, on some condition": "z = t.collect(y) if n else 0",
    "assert": "assert t.collect(y)",
    "if": "if t.collect(y):\n    pass",
    "with": "with t.collect(y):\n    pass",
    "a list that nobody takes": "[t.collect(i) for i in y]",
    "an operator whose result nobody takes": "t @ y",
    "a comparison that nobody takes": "t == y",
    "and": "n and t.collect(y)",
}


@pytest.mark.parametrize("text", BY_AN_OPERATOR.values(), ids=BY_AN_OPERATOR)
def test_a_method_that_no_call_names(text: str) -> None:
    assert planned(text).changes == ()


@pytest.mark.parametrize("body", TOLD.values(), ids=TOLD)
def test_what_is_called_for_what_it_does(body: str) -> None:
    assert planned(counting(body, before="t = make('a')", returns="n, t.rows")).changes == ()


@pytest.mark.parametrize("asked", ["metric.compute()", "metric.value", "metric", "str(metric)"])
def test_what_is_asked_behind_the_loop(asked: str) -> None:
    told = counting("z = metric(model(x), y)", before="metric = make('a')", returns=f"n, {asked}")
    (report,) = planned(told).reports
    assert report.changes == ()
    assert "`metric` is told of the batches, and what it keeps is not followed" in report.findings[0].message


COUNTED = {
    "told of a turn": ("t.lap()", "t.laps"),
    "an item taken": ("t.pop()", "t"),
    "an item taken away": ("del t[0]", "t"),
    "all taken while there are": ("while t:\n    t.pop()", "t"),
}
SAVES = {
    "written to a file": "z = json.dump(y, t)",
    "written by numpy": "z = np.save('last', y)",
    "written by a function": "z = save(y)",
}
GOES_ON = {
    "a line": "n += (y > int(t.readline())).sum().item()",
    "the next": "n += (y > t.next_id()).sum().item()",
}


def test_what_is_taken_of_an_iterator_from_before_the_loop() -> None:
    body = "n += (y > torch.tensor(list(it)[:1])).sum().item()"
    assert planned(counting(body, before="it = iter(range(9))")).changes == ()
    assert len(planned(counting(body, before="it = list(range(9))")).changes) == 1


@pytest.mark.parametrize(("body", "read"), COUNTED.values(), ids=COUNTED)
def test_what_counts_the_batches(body: str, read: str) -> None:
    assert planned(counting(body, before="t = make('a')", returns=f"n, {read}")).changes == ()


@pytest.mark.parametrize("body", SAVES.values(), ids=SAVES)
def test_what_writes_in_each_pass(body: str) -> None:
    head = "import json\ndef save(y):\n    with open('o', 'a') as f:\n        f.write(str(y))\n    return y\n"
    assert planned(counting(body, before="t = open('a', 'w')", head=head)).changes == ()


def test_what_the_caller_asks_behind_the_loop() -> None:
    text = counting("t.lap()", call="t = make('a')\nprint(validate(model, val_loader, t) / 3)\n{}")
    text = text.replace("validate(model, loader)", "validate(model, loader, t)")

    assert planned(text.format("print(t.laps)")).changes == ()
    assert len(planned(text.format("t.close()")).changes) == 1


@pytest.mark.parametrize("body", GOES_ON.values(), ids=GOES_ON)
def test_what_gives_something_else_each_time(body: str) -> None:
    assert planned(counting(body, before="t = make('a')")).changes == ()


def test_what_a_function_returns_that_another_has_made() -> None:
    head = "def counter():\n    c = [0]\n    def tick():\n        c[0] += 1\n        return c[0]\n    return tick\n"
    assert planned(counting("n += (y > tick()).sum().item()", before="tick = counter()", head=head)).changes == ()


NEAR = {
    "a property that only reads": counting("z = c.tick", head=keeps("tick(self)", "pass", "    @property\n", "1")),
    "an item that is only read": counting("z = c[0]", head=keeps("__getitem__(self, i)", "pass", gives="i")),
    "a property that is not run": counting("z = c.other", head=keeps("tick(self)", of="    @property\n")),
    "a model's result that nobody reads": counting("z = model.encode(x)"),
    "a result that is read": counting("z = t.collect(y)\nprint(z)", before="t = make('a')"),
    "an attribute of what decodes": counting(
        "t = tokenizer.batch_decode(y)", before="tokenizer = make('a')", returns="n, tokenizer.pad_token_id"
    ),
    "a clock": counting("timer.tic()", before="timer = make('a')", returns="n, timer.average"),
    "an item taken of its own": counting("t = list(range(9))", "t.pop()", "del t[0]"),
    "a criterion, called again behind": counting(
        "z = criterion(model(x), y)", before="criterion = make('a')", returns="n, criterion(1, 2)"
    ),
    "a condition that shows": counting("print(n) if n else None"),
    "and, to show": counting("n and print(n)"),
}


@pytest.mark.parametrize("text", NEAR.values(), ids=NEAR)
def test_what_keeps_nothing(text: str) -> None:
    (change,) = planned(text).changes
    assert (change.codes, change.tier) == (("SHD305",), "safe")
