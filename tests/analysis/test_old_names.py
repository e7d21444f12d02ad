"""Code of Python up to 3.6, in which `async` is a name, is read, and written back with that name as it stands."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from shardfix.analysis.code.old_names import as_written, readable
from shardfix.config import Asked, load
from shardfix.engine import migrate, scan
from shardfix.result import RunResult
from shardfix.sources.text import SourceText

OLD = """\
# -*- coding: latin-1 -*-
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group('nccl')
train_sampler = DistributedSampler(train_set)
train_loader = DataLoader(train_set, batch_size=4, sampler=train_sampler)
model = DistributedDataParallel(torch.nn.Linear(2, 2))
for epoch in range(3):
    for x, y in train_loader:
        y = y.cuda(async=True)  # f\u00fcr async = 1
        loss = model(x.cuda(async = True)).sum()
        loss.backward()
        optimizer.step()
"""
EVALUATED = """
def test(model):
    model.eval()
    correct = 0
    with torch.no_grad():
        for x, y in DataLoader(test_set, batch_size=4, shuffle=False):
            correct += (model(x).argmax(1) == y.cuda(async=True)).sum().item()
    print(correct)


test(model)
"""


def project(root: Path, text: str) -> RunResult:
    (root / "pyproject.toml").write_text("")
    (root / "train.py").write_bytes(text.encode("latin-1"))
    return migrate([root], config=load(root, Asked(unsafe=True)), write=True, allow_no_vcs=True, verify="no")


@pytest.mark.parametrize(
    "text",
    [
        "x.cuda(async=True)",
        "x.cuda(async\t= True, device=0)",
        "def f(async=False):\n    return async",
        "import queue.async as a, async\nasync = a.async",
        "async",
    ],
)
def test_the_name_is_read_as_itself_and_nothing_moves(text: str) -> None:
    with pytest.raises(SyntaxError):
        ast.parse(text)
    read = readable(text)
    assert read is not None
    assert len(read) == len(text)
    assert as_written(read) == text
    assert "async" in ast.dump(ast.parse(read))


@pytest.mark.parametrize(
    "text",
    [
        "async def f(): pass",
        "async  for x in y: pass",
        "async with a: pass",
        "asynchronous = is_async = 1",
        "x = 'async=True'  # async = 1",
        "'''\nasync=1\n'''",
        "x = \N{MATHEMATICAL BOLD SMALL A}sync; async = 1",
    ],
    ids=["def", "for", "with", "part of a name", "a text", "a text of lines", "the same name in both forms"],
)
def test_what_is_no_such_name_stays(text: str) -> None:
    assert readable(text) is None


def test_the_bytes_are_those_of_the_file() -> None:
    text = readable("# caf\u00e9\nx.cuda(async=True)\n")
    assert text is not None
    assert SourceText(text, "iso-8859-1", False).encode() == b"# caf\xe9\nx.cuda(async=True)\n"


def test_its_loaders_are_migrated_and_the_name_is_kept(tmp_path: Path) -> None:
    result = project(tmp_path, OLD)
    expected = OLD.replace(
        "for epoch in range(3):\n", "for epoch in range(3):\n    train_sampler.set_epoch(epoch)\n"
    ).encode("latin-1")
    assert (tmp_path / "train.py").read_bytes() == expected
    assert result.problems == ()
    assert sorted(p.name for p in tmp_path.glob("*.py")) == ["train.py"]
    (change,) = result.changes
    assert change.consequences[-1] == (
        "no run-time check is put in: in this file `async` is a name, as in Python up to 3.6, and the file that does "
        "it needs a newer one (write `non_blocking=` for `async=`)"
    )


def test_what_needs_a_newer_python_is_refused_and_says_what_to_write(tmp_path: Path) -> None:
    result = project(tmp_path, OLD.replace("3.6", "") + EVALUATED)
    site = next(s for s in result.sites if s.role == "eval")
    assert site.verdict == "refused"
    assert "write `non_blocking=` for `async=` first" in site.why
    assert b"reduced" not in (tmp_path / "train.py").read_bytes()


def test_what_is_shown_of_the_file_is_as_it_stands_there(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("from torch.utils.data import DataLoader\nx = DataLoader(d).cuda(async=True)\n")
    shown = scan([tmp_path], config=load(tmp_path), why=True)
    texts = [step.text for site in shown.sites for step in site.chain]
    assert texts
    assert all(text.isascii() for text in texts)


def test_another_error_in_such_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import DataLoader\nx.cuda(async=True)\ny = (\n")
    (problem,) = scan([tmp_path], config=load(tmp_path)).problems
    assert problem.where == "train.py:3:5"
    assert str(problem).endswith("; correct it, or leave the file out by `exclude` in [tool.shardfix]")
