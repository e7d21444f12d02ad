"""What the models of transformers give, as their scripts take it apart: some outputs, each sample's row of all."""

from __future__ import annotations

import ast

import pytest
from loaders import module, site

from shardfix.analysis.metrics.gathering import Gathering
from shardfix.analysis.metrics.understanding import understand
from shardfix.analysis.metrics.values import Values

HEAD = (
    "import numpy as np\nimport torch\nfrom transformers import AutoModel\nmodel = AutoModel.from_pretrained('here')\n"
)


def gathered(body: str) -> tuple[list[str], list[str]]:
    """The kinds of what the loop of a program gathers, and what is not understood."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    found = module(HEAD + "rows = []\npreds = None\nfor batch in loader:\n" + lines)
    loop = next(n for n in ast.walk(found.tree) if isinstance(n, ast.For) and ast.unparse(n.iter) == "loader")
    gathering = Gathering(found, loop, Values(found, loop, loop))
    return [w.kind for w in gathering.writes], [o.why for o in gathering.obstacles]


APPENDED = (
    "if preds is None:\n"
    "    preds = logits.cpu().numpy()\n"
    "else:\n"
    "    preds = np.append(preds, logits.cpu().numpy(), axis=0)"
)
NOT_ROWS = "what it adds is not seen to be one item for each sample"


def test_an_input_that_some_models_are_not_given() -> None:
    inputs = "inputs = {'input_ids': batch[0]}\ninputs['types'] = batch[1] if args.kind == 'bert' else None\n"
    taken = inputs + "logits = model(**inputs)[1]\n"
    assert gathered(taken + APPENDED) == (["samples"], [])


def test_an_input_that_is_another_where_it_is_not_given() -> None:
    inputs = "inputs = {'input_ids': batch[0]}\ninputs['types'] = batch[1] if args.kind == 'bert' else batch[0].sum()\n"
    assert gathered(inputs + "logits = model(**inputs)[1]\n" + APPENDED) == ([], [NOT_ROWS])


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        pytest.param("loss, logits = model(**inputs)[:2]\n", (["samples"], []), id="unpacked"),
        pytest.param("logits = model(**inputs)[:2]\n", ([], [NOT_ROWS]), id="the first two rows or outputs"),
        pytest.param("loss, logits = model(batch[0])[:2]\n", ([], [NOT_ROWS]), id="it may give one tensor"),
        pytest.param("logits = model(**inputs).to_tuple()[1]\n", (["samples"], []), id="all as a tuple"),
    ],
)
def test_some_of_a_models_outputs(taken: str, expected: tuple[list[str], list[str]]) -> None:
    assert gathered("inputs = {'input_ids': batch[0]}\n" + taken + APPENDED) == expected


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        pytest.param("[o[i].tolist() for o in outputs]", (["samples"], []), id="each output's row"),
        pytest.param("[o[i].tolist() for o in outputs.to_tuple()]", (["samples"], []), id="of a tuple"),
        pytest.param("[o[0].tolist() for o in outputs]", ([], ["what it adds depends on the whole batch"]), id="first"),
        pytest.param(
            "[o[i] - o.mean() for o in outputs]", ([], ["what it adds depends on the whole batch"]), id="whole"
        ),
    ],
)
def test_one_samples_row_of_everything_that_a_model_gives(row: str, expected: tuple[list[str], list[str]]) -> None:
    text = (
        "outputs = model(input_ids=batch[0])\n"
        "for i, index in enumerate(batch[1]):\n"
        f"    found = {row}\n"
        "    rows.append(Result(index.item(), found))"
    )
    assert gathered(text) == expected


LIMIT = (
    "limit = None\n"
    "n = 0\n"
    "for x, y in loader:\n"
    "    if limit is None:\n"
    "        limit = {}\n"
    "    n += (model(x)[0] > limit).sum().item()\n"
    "print(n)\n"
)


@pytest.mark.parametrize(
    ("made", "why"),
    [
        pytest.param("sorted(model.scores)[3]", [], id="of the model"),
        pytest.param("x.mean().item()", ["`limit` of the batch before is read"], id="of the first batch"),
    ],
)
def test_what_is_made_at_the_first_batch_and_kept(made: str, why: list[str]) -> None:
    found = site(HEAD + "from torch.utils.data import DataLoader\nloader = DataLoader(data)\n" + LIMIT.format(made))
    (use,) = found.flow.of("iterate")
    metric = understand(found.module, use, found.flow, examples=False)
    assert metric is not None
    assert [o.why for o in metric.obstacles] == why
