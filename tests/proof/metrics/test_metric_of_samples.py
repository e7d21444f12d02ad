"""The proof of a metric whose loop gets its batches as lists of samples, which are not collated."""

from __future__ import annotations

import pytest
from metric_programs import proven, recipe

from shardfix.proof.metrics.model import MetricProof

LISTS = ", collate_fn=lambda samples: samples"
HITS = """
s = n = 0
for batch in val_loader:
    rows = torch.tensor([{sample} for {names} in batch])
    y = torch.tensor([{label} for {names} in batch])
    s += (model(rows).argmax(1) == y).sum().item()
    n += len(batch)
s, n = reduced(s, n)
return s / n
"""
REPORT = """
pred, gold = [], []
for step, batch in enumerate(val_loader, 1):
    if step == 1:
        print(batch[0].text, len(batch))
    logits = model(ids=torch.tensor([e.ids for e in batch], dtype=torch.long))
    pred.extend(torch.argmax(logits, dim=-1).cpu().numpy())
    gold.extend([e.y for e in {gold}])
pred = in_order(pred, val_loader)
gold = in_order(gold, val_loader)
return classification_report(gold, pred)
"""
RIGHT = {
    "keys": HITS.format(sample='e["ids"]', label='e["y"]', names="e"),
    "places": HITS.format(sample="e[0]", label="e[1]", names="e"),
    "attributes": HITS.format(sample="e.ids", label="e.y", names="e"),
    "unpacked": HITS.format(sample="x", label="y", names="x, y"),
    "stacked": HITS.replace(
        "torch.tensor([{sample} for {names} in batch])", "torch.stack([e[0] for e in batch])"
    ).format(label="e[1]", names="e"),
    "one after the other": """
s = 0
for batch in val_loader:
    rows = model(torch.tensor([e["ids"] for e in batch]))
    for row, (e, y) in zip(rows, batch):
        s += int(row.argmax() == y)
s = reduced(s)
return s
""",
    "lengths": """
tokens = 0
for batch in val_loader:
    tokens += sum(len(e["ids"]) for e in batch)
tokens = reduced(tokens)
return tokens
""",
    "a report": REPORT.format(gold="batch"),
}
WRONG = {
    "labels of other samples": HITS.format(sample="e.ids", label="e.y", names="e").replace(
        "e.y for e in batch", "e.y for e in batch[::-1]"
    ),
    "a report of labels of other samples": REPORT.format(gold="sorted(batch, key=lambda e: e.y)"),
    "the first sample alone": """
s = 0
for batch in val_loader:
    s += batch[0].y
s = reduced(s)
return s
""",
    "the first sample decides": """
s = 0
for batch in val_loader:
    if batch[0].y == 1:
        s += sum(e.y for e in batch)
s = reduced(s)
return s
""",
    "a constant for each batch": """
s = 0
for batch in val_loader:
    s += sum(e.y for e in batch) / 4 * len(batch)
s = reduced(s)
return s
""",
}


FILLED = """
tokens = 0
for batch in val_loader:
    tokens += max(len(e["ids"]) for e in batch) * len(batch)
tokens = reduced(tokens)
return tokens
"""


@pytest.fixture(scope="module")
def proofs() -> dict[str, MetricProof]:
    asked = {name: recipe(body, LISTS) for name, body in (RIGHT | WRONG).items()}
    asked["not reduced"] = recipe(RIGHT["keys"], LISTS, undone=("s, n = reduced(s, n)",))
    asked["one of two"] = recipe(RIGHT["a report"], LISTS, undone=("gold = in_order(gold, val_loader)",))
    asked["lengths, not reduced"] = recipe(RIGHT["lengths"], LISTS, undone=("tokens = reduced(tokens)",))
    asked["filled up"] = recipe(FILLED, LISTS)
    return proven(asked)


@pytest.mark.parametrize("name", RIGHT)
def test_a_metric_of_the_samples_of_lists_is_proven(proofs: dict[str, MetricProof], name: str) -> None:
    proof = proofs[name]
    assert (proof.verdict, proof.reasons) == ("proven", ())
    stand_ins = {s.expression: s.value for s in proof.stand_ins}
    assert stand_ins["batch"] == "a list of samples, whose fields their indices decide"


@pytest.mark.parametrize("name", [*WRONG, "not reduced", "one of two", "lengths, not reduced"])
def test_a_metric_that_goes_by_how_the_lists_are_made_up_is_refuted(proofs: dict[str, MetricProof], name: str) -> None:
    assert proofs[name].verdict == "refuted"


def test_a_metric_that_holds_for_lists_of_one_length_only_is_not_proven(proofs: dict[str, MetricProof]) -> None:
    proof = proofs["filled up"]
    assert proof.verdict == "unproven"
    assert proof.reasons[0] == "it holds only if the lists of all samples are of one length"
    assert "`tokens` is " in proof.reasons[1]
