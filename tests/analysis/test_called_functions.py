"""What a call runs: a function, a method, what makes an object of a class; of an unlinked file only its own."""

from __future__ import annotations

import pytest
from loaders import module, site

from shardfix.analysis.code.calling import callers
from shardfix.analysis.code.module import parse
from shardfix.analysis.loops.accumulation import accumulated

TEXT = (
    "class A:\n    def __init__(self):\n        pass\n    def run(self):\n        pass\n"
    "class B:\n    pass\n"
    "def f():\n    def g():\n        pass\n    g()\n"
)


@pytest.mark.parametrize(
    ("call", "names"),
    [
        ("A()", ["__init__"]),
        ("B()", []),
        ("f()", ["f"]),
        ("A().run()", ["run"]),
        ("[f][0]()", ["f"]),
        ("[f, g][unseen]()", []),
        ("unseen()", []),
    ],
)
def test_the_functions_that_a_call_runs(call: str, names: list[str]) -> None:
    found = module(f"{TEXT}{call}\n")
    last = max(found.calls, key=lambda c: (c.lineno, -c.col_offset))
    assert [f.name for f in found.called_functions(last)] == names


def test_the_calls_of_a_function_in_a_file_that_is_not_linked() -> None:
    found = parse("train.py", TEXT + "f()\n")
    by_name = {f.name: f for f in found.functions}
    assert [c.lineno for name in ("f", "g") for c in callers(found, by_name[name])] == [12, 11]


@pytest.mark.parametrize(
    ("body", "sums"),
    [("b = b.cuda()", 0), ("b = b + 1", 1), ("n = [n, b]", 0), ("n = f(n)", 0), ("n = m = n + b", 0), ("n -= b", 1)],
)
def test_what_a_loop_adds_up(body: str, sums: int) -> None:
    head = "from torch.utils.data import DataLoader\nval_loader = DataLoader(val_set)\n"
    (use,) = site(f"{head}for b in val_loader:\n    {body}\n").flow.of("iterate")
    assert len(accumulated(use.node)) == sums
