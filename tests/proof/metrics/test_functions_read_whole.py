"""What a function of the project gives is decided by what it is given where all that it can reach is seen to be so."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Options
from shardfix.config import Config
from shardfix.engine import migrate
from shardfix.proof.metrics.apart import makes_a_value
from shardfix.proof.metrics.closed import strange

SCORES = """\
import math
import os
import random
import re
import subprocess
import sys
import time

import numpy as np
import torch
import torch.distributed as dist
import texts
from texts import norm

SMALL = 1e-9
WORLD = dist.get_world_size() if dist.is_initialized() else 1
_cache = {}


class Counter:
    def __init__(self, n):
        self.n = n
        self.total = 0

    def add(self, value):
        self.total += value * self.n


class Synced:
    def __init__(self):
        self.total = 0

    def add(self, value):
        self.total += value

    def total_of_all(self):
        return gathered(self.total)


def gathered(value):
    both = [None] * WORLD
    dist.all_gather_object(both, value)
    return sum(both)


"""
TEXTS = """\
import re

SPACE = re.compile(r"\\s+")


def norm(text):
    return SPACE.sub(" ", text.strip().lower())
"""


def reached(body: str) -> str:
    """What is strange in a function of these files."""
    texts = {"scores.py": f"{SCORES}def score(preds, gold):\n{body}\n", "texts.py": TEXTS}
    texts["train.py"] = "import scores\nbest = scores.score(p, 'gold.txt')\n"
    project = link({path: parse(path, text) for path, text in texts.items()})
    module = project.modules["train.py"]
    (call,) = [n for n in ast.walk(module.tree) if isinstance(n, ast.Call)]
    return strange(module, call)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("    return math.exp(sum(map(len, preds))) + SMALL", id="a library and a constant"),
        pytest.param("    return [norm(p) for p in preds]", id="a function of another file"),
        pytest.param("    return [texts.norm(p) for p in preds]", id="by its file"),
        pytest.param(
            "    rows = {}\n    for line in open(gold):\n        k, v = line.rstrip().split('\\t')\n"
            "        rows.setdefault(k, []).append(v)\n    return len(rows)",
            id="a file that is read",
        ),
        pytest.param("    return open(os.path.dirname(__file__) + '/stops').read()", id="a file beside its own"),
        pytest.param(
            "    c = Counter(2)\n    for p in preds:\n        c.add(len(p))\n    return c.total",
            id="a class of its own",
        ),
        pytest.param("    sys.stderr.write('scored')\n    return np.mean([len(p) for p in preds])", id="what it tells"),
        pytest.param(
            "    rank = 0\n    for rank, p in enumerate(sorted(preds)):\n        pass\n    return 1 / (rank + 1)",
            id="a place in a list that is called rank",
        ),
        pytest.param(
            "    def inner(x):\n        return x * 2\n    return sum(inner(len(p)) for p in preds)",
            id="a function inside",
        ),
        pytest.param(
            "    with open(gold, 'w') as f:\n        f.writelines(preds)\n    return len(preds)", id="written"
        ),
    ],
)
def test_nothing_is_strange_in_what_goes_by_what_it_is_given(body: str) -> None:
    assert reached(body) == ""


@pytest.mark.parametrize(
    ("body", "what"),
    [
        pytest.param("    return gathered(len(preds))", "`dist.is_initialized`", id="gathers"),
        pytest.param(
            "    s = Synced()\n    s.add(1)\n    return s.total_of_all()", "`dist.is_initialized`", id="method"
        ),
        pytest.param("    return len(preds) / dist.get_world_size()", "`dist.get_world_size`", id="divides by ranks"),
        pytest.param("    return len(preds) * int(os.environ['RANK'])", "`os.environ`", id="the environment"),
        pytest.param("    return len(preds) if gold.local_rank == 0 else 0", "`gold.local_rank`", id="a setting"),
        pytest.param(
            "    return subprocess.check_output(['score', gold])", "`subprocess.check_output`", id="a program"
        ),
        pytest.param("    return os.popen('score ' + gold).read()", "`os.popen`", id="a shell"),
        pytest.param("    return random.choice(preds)", "`random.choice`", id="chance"),
        pytest.param("    return np.random.permutation(preds)", "`np.random.permutation`", id="chance of numpy"),
        pytest.param("    return len(preds) / time.time()", "`time.time`", id="the clock"),
        pytest.param("    return preds(gold)", "`preds`", id="a function that it is given"),
        pytest.param("    return preds.synchronize()", "`preds.synchronize`", id="a method that is not known"),
        pytest.param("    return preds.add(1)", "`preds.add`", id="an object that may be one of the project's"),
        pytest.param("    return eval(gold)", "`eval`", id="text that is run"),
        pytest.param("    return missing(preds)", "`missing`", id="a name that is not bound"),
        pytest.param(
            "    global _seen\n    _seen = len(preds)\n    return _seen", "`global`", id="keeps what it was given"
        ),
        pytest.param(
            "    with open(gold, 'w') as f:\n        f.writelines(preds)\n    return open(gold).read()",
            "`open`",
            id="writes a file and reads it again",
        ),
    ],
)
def test_what_may_be_of_another_rank_or_by_chance_is_named_with_its_place(body: str, what: str) -> None:
    found = reached(body)
    assert found.startswith(f"{what} (scores.py:")


TABLES = """\
import numpy as np
import pandas as pd
import shared
table = pd.DataFrame(rows)
table = table.head(3)
board = shared.Board(rows)
if some:
    either = pd.DataFrame(rows)
else:
    either = shared.Board(rows)
"""


@pytest.mark.parametrize(
    ("call", "value"),
    [
        pytest.param("table.describe()", True, id="a table"),
        pytest.param("pd.DataFrame(rows).groupby(0).nth(1)", True, id="a chain"),
        pytest.param("board.describe()", False, id="an object that is not seen"),
        pytest.param("either.describe()", False, id="either of them"),
        pytest.param("unseen.describe()", False, id="a name that is not bound"),
        pytest.param("unseen.decode(rows)", False, id="a decoder that is not seen"),
        pytest.param("line.decode('utf-8')", True, id="bytes"),
    ],
)
def test_methods_of_a_library_s_objects_make_values(call: str, value: bool) -> None:
    module = parse("train.py", f"{TABLES}{call}\n")
    link({"train.py": module})
    last = module.tree.body[-1]
    assert isinstance(last, ast.Expr)
    assert isinstance(last.value, ast.Call)
    assert makes_a_value(module, last.value) == value


PROGRAM = """\
import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader
import scores

dist.init_process_group("gloo")
val_set = [(torch.tensor([float(i)]), i % 2) for i in range(25)]
val_loader = DataLoader(val_set, batch_size=4)
model = torch.nn.Linear(1, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(3, 1)).sum().backward()
model.eval()
preds = []
with torch.no_grad():
    for x, label in val_loader:
        preds.extend(model(x).argmax(1).tolist())
print(scores.score(preds))
"""


@pytest.mark.parametrize(
    ("text", "verdict", "why"),
    [
        pytest.param("def score(preds):\n    return sum(preds) / len(preds)\n", "proven", "2 and 3 ranks", id="closed"),
        pytest.param(
            "import shared\n\n\ndef score(preds):\n    return shared.board.put(sum(preds))\n",
            "unproven",
            "it holds only if `scores.score(preds)` makes nothing of other ranks' values, though what"
            " `shared.board.put` (scores.py:5) may do is not known",
            id="open",
        ),
    ],
)
def test_a_file_that_speaks_of_no_loader_is_read_for_what_it_makes_of_a_metric(
    tmp_path: Path, text: str, verdict: str, why: str
) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "scores.py").write_text(text)
    config = Config(tmp_path, Options(sanitizer="off"))
    (proof,) = migrate([], config=config, write=False, verify="yes", timeout=100).proofs
    assert (proof.verdict, proof.reasons[0][: len(why)]) == (verdict, why)


@pytest.mark.parametrize(
    ("inner", "verdict"),
    [
        pytest.param("len(preds)", "proven", id="closed"),
        pytest.param("shared.board.put(len(preds))", "unproven", id="open"),
    ],
)
def test_what_a_statement_calls_that_is_not_run_is_read_too(tmp_path: Path, inner: str, verdict: str) -> None:
    behind = "total = 0\nfor p in preds:\n    if p:\n        total += scores.score([p])\nprint(total)\n"
    (tmp_path / "train.py").write_text(PROGRAM.replace("print(scores.score(preds))\n", behind))
    (tmp_path / "scores.py").write_text(f"import shared\n\n\ndef score(preds):\n    return {inner}\n")
    config = Config(tmp_path, Options(sanitizer="off"))
    (proof,) = migrate([], config=config, write=False, verify="yes", timeout=100).proofs
    assert proof.verdict == verdict
    if verdict == "unproven":
        assert proof.reasons[0] == (
            "it holds only if `scores.score([p])` makes nothing of other ranks' values, though what `shared.board.put`"
            " (scores.py:5) may do is not known"
        )
