"""What a test does with a loader says nothing of it where a program reads it."""

from __future__ import annotations

import pytest
from loaders import sites

DATA = "from torch.utils.data import DataLoader\ndef make(d):\n    return DataLoader(d)\n"
EVALUATE = "from data import make\nfor batch in make(d):\n    print(batch)\n"
PEEK = "from data import make\ndef test_it():\n    batch = next(iter(make(d)))\n"


@pytest.mark.parametrize(
    ("files", "kinds"),
    [
        pytest.param({"eval.py": EVALUATE, "tests/test_data.py": PEEK}, ["iterate"], id="beside a program"),
        pytest.param({"tests/test_data.py": PEEK}, ["next"], id="where no program makes it"),
        pytest.param(
            {"eval.py": "from data import make\nmake(d)\n", "tests/test_data.py": PEEK},
            [],
            id="where a program makes it, and what reads it is not seen",
        ),
        pytest.param(
            {"eval.py": EVALUATE.replace("for batch in ", "x = ").split("\n    ")[0].rstrip(":") + "\nsend(x)\n"}
            | {"tests/test_data.py": PEEK},
            ["argument"],
            id="where a program hands it on",
        ),
        pytest.param({"eval.py": EVALUATE, "peek.py": PEEK}, ["iterate", "next"], id="a program that peeks"),
    ],
)
def test_what_a_test_does_with_a_loader_counts_where_no_program_reads_it(
    files: dict[str, str], kinds: list[str]
) -> None:
    (found,) = sites({"data.py": DATA, **files}, "data.py")
    assert sorted(u.kind for u in found.flow.of("iterate", "next", "argument")) == kinds


def test_a_loader_of_a_test_is_what_the_test_makes_of_it() -> None:
    text = DATA + "def test_it():\n    batch = next(iter(make([])))\n"
    (found,) = sites({"tests/test_data.py": text}, "tests/test_data.py")
    assert [u.kind for u in found.flow.of("next")] == ["next"]
