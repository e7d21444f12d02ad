"""A library that logs changes nothing of a metric that it is told; of other objects that is not said."""

from __future__ import annotations

import pytest
from metric_programs import proven, recipe

from shardfix.proof.metrics.model import MetricProof

COUNTED = """
s = 0
for batch in val_loader:
    s += (model(batch["ids"]).argmax(1) == batch["y"]).sum()
s = reduced(s)
board.log_value("s", s)
return s
"""
LOGGED = {
    "a library's": (COUNTED, "import tensorboard_logger as tb\nboard = tb.Logger('runs')"),
    "on one rank": (COUNTED, "import tensorboard_logger as tb\nboard = tb.Logger('runs') if settings.first else None"),
    "by its module": (COUNTED.replace("board.", "mlflow."), "import mlflow"),
    "one of two libraries": (
        COUNTED,
        "import tensorboardX, wandb\nboard = tensorboardX.SummaryWriter()\nif settings.w:\n    board = wandb.init()",
    ),
}
NOT_SEEN = {
    "of a file that is not there": (COUNTED, "from boards import board"),
    "a library's or another": (
        COUNTED,
        "import wandb\nfrom boards import Board\nboard = wandb.init()\nif settings.own:\n    board = Board()",
    ),
    "given by nobody": (COUNTED, "def board_of(board):\n    return board\nboard = board_of(settings)"),
}


@pytest.fixture(scope="module")
def proofs() -> dict[str, MetricProof]:
    return proven({name: recipe(body, more=more) for name, (body, more) in {**LOGGED, **NOT_SEEN}.items()})


@pytest.mark.parametrize("name", LOGGED)
def test_what_a_library_logs_is_not_changed(proofs: dict[str, MetricProof], name: str) -> None:
    assert (proofs[name].verdict, proofs[name].reasons) == ("proven", ())


@pytest.mark.parametrize("name", NOT_SEEN)
def test_why_it_is_unproven_is_said_in_words(proofs: dict[str, MetricProof], name: str) -> None:
    assert proofs[name].verdict == "unproven"
    assert proofs[name].reasons == ("it holds only if `board.log_value('s', s)` changes nothing of what it is given",)
