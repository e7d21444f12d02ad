"""What a loop adds to sums and lists, where the other samples of a batch have a say in it."""

from __future__ import annotations

import ast

import pytest
from loaders import module

from shardfix.analysis.metrics.beginnings import is_zero
from shardfix.analysis.metrics.gathering import Gathering
from shardfix.analysis.metrics.values import Values


def gathered(body: str, before: str = "") -> tuple[list[tuple[str, str]], list[str]]:
    """The kind and the doubt of each write in a loop, and what is not understood."""
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    found = module(
        "import torch\nimport torch.nn.functional as F\n" + before + "\nmodel.eval()\nh, n = {}, 0\npreds = []\n"
        "for x, y in loader:\n" + lines
    )
    loop = next(n for n in found.tree.body if isinstance(n, ast.For))
    gathering = Gathering(found, loop, Values(found, loop, loop))
    return [(w.kind, w.why) for w in gathering.writes], [o.why for o in gathering.obstacles]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("h[y[0].item()] += len(y)", "opaque"),
        ("h[y.max().item()] += len(y)", "opaque"),
        ("h[y, y] += len(y)", "opaque"),
        ("h['all'] += len(y)", "sum"),
        ("h[3, :] += (y == 3).sum()", "sum"),
        ("for c in range(4):\n    h[c] += (y == c).sum()", "sum"),
        ("for t in y.tolist():\n    h[t] += 1", "sum"),
        ("for i in range(len(y)):\n    h[y[i].item()] += 1", "sum"),
        ("for i in range(len(y)):\n    h[i] += 1", "opaque"),
        ("for t, p in zip(y.view(-1), x.view(-1)):\n    h[t, p] += 1", "sum"),
        ("for t in y.flatten():\n    h[t.item()] += 1", "sum"),
        ("for t, p in zip(y.view(-1), x):\n    h[t, p] += 1", "opaque"),
        ("for t, p in zip(y[y > 0], x.view(-1)):\n    h[t, p] += 1", "opaque"),
    ],
)
def test_what_chooses_one_of_several_sums(body: str, kind: str) -> None:
    ((found, why),), obstacles = gathered(body)
    assert (found, obstacles) == (kind, [])
    assert bool(why) == (kind == "opaque")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("for a in y.tolist():\n    n += 1", "sum"),
        ("for a in y.tolist():\n    for b in y.tolist():\n        n += 1", "opaque"),
        ("for i in range(len(y)):\n    for j in range(len(y)):\n        n += int(y[i] == y[j])", "opaque"),
        ("for a in y:\n    for c in range(4):\n        n += int(a == c)", "sum"),
        ("for a in y:\n    for c in a.tolist():\n        n += c", "sum"),
    ],
)
def test_samples_that_are_compared_with_each_other(body: str, kind: str) -> None:
    ((found, _why),), obstacles = gathered(body)
    assert (found, obstacles) == (kind, [])


def test_samples_that_were_seen_in_the_batch() -> None:
    body = "seen = set()\nfor a in y.tolist():\n    if a not in seen:\n        n += 1\n    seen.add(a)"
    _, obstacles = gathered(body)
    assert obstacles == ["only for some batches (`a not in seen`), and the ranks' batches are other ones"]


@pytest.mark.parametrize("body", ["preds.extend(o.tolist())", "preds.append(o)"])
def test_a_squeeze_of_every_dimension_leaves_no_list_of_one_sample(body: str) -> None:
    after = "\nall_preds = torch.cat(preds)"
    for squeezed, doubt in (("squeeze()", True), ("squeeze(1)", False), ("squeeze(-1)", False)):
        found = module(
            "import torch\nmodel.eval()\npreds = []\n"
            f"for x, y in loader:\n    o = model(x).{squeezed}\n    {body}{after}\n"
        )
        loop = next(n for n in found.tree.body if isinstance(n, ast.For))
        (write,) = Gathering(found, loop, Values(found, loop, loop)).writes
        assert ("gives no list for a batch of one sample" in write.why) == doubt


@pytest.mark.parametrize(
    ("text", "zero"),
    [
        ("[0 for _ in range(4)]", True),
        ("list(0. for i in range(10))", True),
        ("{name: 0 for name in names}", True),
        ("[1 for _ in range(4)]", False),
        ("{name: other[name] for name in names}", False),
        ("list(others)", False),
    ],
)
def test_sums_that_begin_at_nothing(text: str, zero: bool) -> None:
    assert is_zero(ast.parse(text, mode="eval").body) == zero


@pytest.mark.parametrize(("squeeze", "kind"), [("squeeze()", "opaque"), ("squeeze(1)", "sum")])
def test_a_squeezed_batch_of_one_sample_has_none_to_count_through(squeeze: str, kind: str) -> None:
    (write,), _ = gathered(f"c = (model(x) == y).{squeeze}\nfor i in range(len(y)):\n    n += c[i].item()")
    assert write[0] == kind
    (write,), _ = gathered(f"c = (model(x) == y).{squeeze}\nfor one in c:\n    n += one.item()")
    assert write[0] == kind


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("rows = preds\nrows.append(y[0])", id="another name"),
        pytest.param("for kept in (preds, h):\n    kept.add(y)", id="one of several"),
        pytest.param("for meter, v in zip(h, y.tolist()):\n    meter.update(v)", id="objects and values"),
        pytest.param("row = h['a']\nrow.update(y)", id="an item"),
        pytest.param("row = h.setdefault('a', [])\nrow.update(y)", id="an item that is made"),
    ],
)
def test_what_is_kept_by_another_name_of_an_object_from_outside(body: str) -> None:
    found, obstacles = gathered(body)
    assert found == []
    assert obstacles


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        (
            "for p in model(x):\n    t = list(p)\n    if 0 in t:\n        t = t[:t.index(0)]\n    preds.append(t)",
            ["samples"],
        ),
        ("for p in model(x):\n    n += p.sum().item()", ["opaque"]),  # there may be more of them than samples
        ("for p in model(x):\n    n += (p == y).sum().item()", ["opaque"]),
        ("for p in model(x):\n    if p.max() > 1:\n        preds.append(p)", []),
    ],
)
def test_what_a_loop_takes_of_a_models_output_is_of_one_sample_alone(body: str, kinds: list[str]) -> None:
    found, obstacles = gathered(body)
    assert [kind for kind, _ in found] == kinds
    assert bool(obstacles) == (not kinds)
