"""What goes by the order of a list's items, and what does not: lists that are filled together keep their pairs."""

from __future__ import annotations

import ast

import pytest
from loaders import module

from shardfix.analysis.metrics.ordering import by_order

HEAD = (
    "import numpy as np\nimport torch\nfrom collections import Counter\nfrom sklearn.metrics import f1_score\n"
    "def run(loader, texts):\n    preds, labels = [], []\n"
    "    for x, y in loader:\n        preds.extend(x)\n        labels.extend(y)\n"
)


def obstacle(behind: str) -> str:
    found = module(HEAD + "".join(f"    {line}\n" for line in behind.split("\n")))
    loop = next(n for n in ast.walk(found.tree) if isinstance(n, ast.For))
    told = by_order(found, loop, ["preds", "labels"])
    return told.why if told is not None else ""


@pytest.mark.parametrize(
    "behind",
    [
        pytest.param("return np.mean(preds)", id="a mean"),
        pytest.param("return sum(preds) / len(preds)", id="a sum by a length"),
        pytest.param("return (np.array(preds) == np.array(labels)).mean()", id="two arrays"),
        pytest.param(
            "preds = torch.cat(preds)\nlabels = torch.cat(labels)\nreturn (preds == labels).sum()", id="joined"
        ),
        pytest.param("p = np.concatenate(preds)\nreturn f1_score(np.concatenate(labels), p.argmax(1))", id="a metric"),
        pytest.param("return sum(int(p == t) for p, t in zip(preds, labels))", id="pairs"),
        pytest.param("n = 0\nfor p, t in zip(preds, labels):\n    if p == t:\n        n += 1\nreturn n", id="a loop"),
        pytest.param("p = np.array(preds)\nreturn p[np.array(labels) == 1].mean()", id="a mask of the labels"),
        pytest.param("p = np.stack(preds)[:, 1]\nreturn np.percentile(p, 95)", id="a column"),
        pytest.param("return Counter(preds), sorted(labels), max(preds)", id="counted, sorted"),
        pytest.param("if preds:\n    print(len(preds))", id="whether there are any"),
        pytest.param("hits = [p == t for p, t in zip(preds, labels)]\nreturn np.mean(hits)", id="a list of pairs"),
        pytest.param("return np.sqrt(np.mean((np.array(preds) - np.array(labels)) ** 2))", id="an error"),
    ],
)
def test_what_is_the_same_in_any_order(behind: str) -> None:
    assert obstacle(behind) == ""


@pytest.mark.parametrize(
    "behind",
    [
        pytest.param("return preds", id="returned"),
        pytest.param("print(preds)", id="printed"),
        pytest.param("return preds[:5]", id="the first"),
        pytest.param("return preds[0]", id="the first one"),
        pytest.param("return sum(p == t for p, t in zip(preds, texts))", id="beside other texts"),
        pytest.param("return (np.array(preds) == np.array(texts)).mean()", id="beside another array"),
        pytest.param("return f1_score(texts, preds)", id="a metric of other labels"),
        pytest.param("return [(i, p) for i, p in enumerate(preds)]", id="numbered"),
        pytest.param("return preds[np.argmax(labels)]", id="by a place"),
        pytest.param("save(preds)", id="given to a function"),
        pytest.param("for p in preds:\n    f.write(p)", id="written"),
        pytest.param("last = 0\nfor p in preds:\n    last = last + p * last\nreturn last", id="one after the other"),
        pytest.param("return np.array(preds).argmax()", id="a place"),
        pytest.param("return np.cumsum(preds)", id="added up"),
        pytest.param("return {t: p for t, p in zip(labels, preds)}", id="a table"),
        pytest.param("out = f'{preds}'", id="a text"),
    ],
)
def test_what_goes_by_the_order(behind: str) -> None:
    assert "by the order of its items" in obstacle(behind)
