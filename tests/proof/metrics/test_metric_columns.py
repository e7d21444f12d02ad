"""What is taken of gathered rows behind the loop is taken as it is written: a column, a part, rows beside others."""

from __future__ import annotations

import pytest
from metric_programs import proven, recipe

from shardfix.proof.metrics.model import MetricProof

GATHERED = """
rows, labels, loss = [], [], 0.0
for batch in val_loader:
    lm_loss, out = model(batch["ids"], batch["y"])
    loss += lm_loss.mean().item() * batch["y"].size(0)
    rows.append(out.cpu().numpy())
    labels.append(batch["y"].cpu().numpy())
rows = in_order(rows, val_loader)
labels = in_order(labels, val_loader)
rows, labels = np.concatenate(rows, 0), np.concatenate(labels, 0)
{then}
"""
MORE = "import numpy as np\nfrom elsewhere import examples, settings"
RIGHT = {
    "a column": "return np.mean((rows[:, 1] > 0) == labels)",
    "a part of each row": "return np.mean(rows[:, 1:settings.last].sum(1) * labels)",
    "the last rows": "return np.mean(rows[-settings.last:, 0] * labels[-settings.last:])",
    "beside what is not seen": "bad = [e for e, r in zip(examples, rows)]\nreturn np.mean(rows[:, 0] * labels), bad",
}
UNPROVEN = {"a loss that is shown": "loss = reduced(loss)\nreturn np.mean(rows[:, 1] * labels), loss"}


@pytest.fixture(scope="module")
def proofs() -> dict[str, MetricProof]:
    bodies = {name: GATHERED.format(then=then) for name, then in {**RIGHT, **UNPROVEN}.items()}
    return proven(
        {name: recipe(body, more=MORE) for name, body in bodies.items()}
        | {
            f"{name}, undone": recipe(bodies[name], more=MORE, undone=("rows = in_order(rows, val_loader)",))
            for name in RIGHT
        }
    )


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_taken_of_rows_is_proven(proofs: dict[str, MetricProof], name: str) -> None:
    assert (proofs[name].verdict, proofs[name].reasons) == ("proven", ())


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_taken_of_one_ranks_rows_is_refuted(proofs: dict[str, MetricProof], name: str) -> None:
    assert proofs[f"{name}, undone"].verdict == "refuted"


def test_a_loss_counts_as_a_mean_only_where_it_is_shown(proofs: dict[str, MetricProof]) -> None:
    assert proofs["a loss that is shown"].reasons == (
        "it holds only if `lm_loss` of `model(batch['ids'], batch['y'])` is a mean over the samples",
    )


def test_a_column_is_run_as_a_column() -> None:
    found = recipe(GATHERED.format(then=RIGHT["a column"]), more=MORE)
    assert "v_rows[:, 1] > 0" in found.after.evaluate
