"""The proof of a change after which values go by other batches: they are what one process makes of the same batches."""

from __future__ import annotations

from dataclasses import replace

import pytest
from metric_programs import proven, recipe

from shardfix.proof.metrics.model import MetricProof

LISTS = ", collate_fn=lambda samples: samples"
LOSS_OF_SEVERAL = """
total, tokens = 0, 0
for batch in val_loader:
    batch = tuple(t.to("cpu") for t in batch)
    x, y = batch
    _, loss, num = model(ids=x, labels=y)
    total += loss.sum().item()
    tokens += num.sum().item()
total, tokens = reduced(total, tokens)
return total / tokens
"""
LOSS_AND_LOGITS = """
total = hits = n = 0
for x, y in val_loader:
    outputs = model(x, labels=y)
    loss, logits = outputs[:2]
    total += loss.mean().item()
    hits += (logits.argmax(1) == y).sum().item()
    n += 1
total, hits, n = reduced(total, hits, n)
return total / n, hits
"""
PADDED = """
s = 0
for batch in val_loader:
    longest = max(len(e["ids"]) for e in batch)
    rows = torch.tensor([e["ids"] + [0] * (longest - len(e["ids"])) for e in batch])
    s += (model(rows).argmax(1) == torch.tensor([e["y"] for e in batch])).sum().item()
s = reduced(s)
return s
"""
COLUMNS = """
s = 0
for batch in val_loader:
    xs, ys = zip(*batch)
    s += (model(torch.stack(xs)).argmax(1) == torch.tensor(ys)).sum().item()
s = reduced(s)
return s
"""
UNKNOWN = """
s = 0
for x, y in val_loader:
    s += score(model(x), y)
s = reduced(s)
return s / len(val_loader)
"""
MEANS = """
s = 0.0
for x, y in val_loader:
    s += F.cross_entropy(model(x), y).item()
s = reduced(s)
return s / len(val_loader)
"""
BY_SIZE = """
s = n = 0
for x, y in val_loader:
    loss, logits = model(x, labels=y)
    s += loss.item() * len(y)
    n += len(y)
s, n = reduced(s, n)
return s / n
"""
LAYERS = """
s = n = 0
for x, y in val_loader:
    layers = model.get_layers(x)
    rows = torch.cat([layer[:, 0] for layer in layers], dim=-1)
    rows = torch.cat([rows, layers[-1][:, 1:].mean(1)], dim=-1)
    s += (head(rows).argmax(1) == y).sum().item()
    n += len(y)
s, n = reduced(s, n)
return s / n
"""
LOSS_OF_THE_FIRST = """
s = n = 0
for x, y in val_loader:
    outputs = model(x, labels=y)
    loss = outputs[0]
    s += (outputs[1].argmax(1) == y).sum().item()
    n += loss.item()
s, n = reduced(s, n)
return s, n
"""
RIGHT = {
    "several things": LOSS_OF_SEVERAL,
    "a loss and logits": LOSS_AND_LOGITS,
    "filled up": (PADDED, LISTS),
    "columns": (COLUMNS, LISTS),
    "weighed by the size": BY_SIZE,
    "layers": LAYERS,
    "the first of several": LOSS_OF_THE_FIRST,
    "an unknown function": UNKNOWN.replace(" / len(val_loader)", ""),
}
WRONG = {
    "several things": (LOSS_OF_SEVERAL, "", "total, tokens = reduced(total, tokens)"),
    "a loss and logits": (LOSS_AND_LOGITS, "", "total, hits, n = reduced(total, hits, n)"),
    "filled up": (PADDED, LISTS, "s = reduced(s)"),
    "layers": (LAYERS, "", "s, n = reduced(s, n)"),
}
OWN = {
    "a sum over each rank's number of batches": MEANS,
    "one of two": LOSS_OF_SEVERAL.replace("total, tokens = reduced(total, tokens)", "total = reduced(total)"),
    "twice": LOSS_OF_SEVERAL.replace("total, tokens = reduced(total, tokens)", "total = reduced(reduced(total))"),
}


@pytest.fixture(scope="module")
def proofs() -> dict[str, MetricProof]:
    asked = {}
    for name, given in RIGHT.items():
        asked[f"right: {name}"] = recipe(*((given,) if isinstance(given, str) else given), unsafe=True)
        asked[f"safe: {name}"] = recipe(*((given,) if isinstance(given, str) else given))
    for name, (body, options, line) in WRONG.items():
        asked[f"wrong: {name}"] = recipe(body, options, unsafe=True, undone=(line,))
    for name, body in OWN.items():
        asked[f"wrong: {name}"] = recipe(body, unsafe=True)
    found = asked["right: several things"]
    ordered = "DataLoader(DATASET('val_set'), batch_size=12)"
    assert ordered in found.before.build
    backwards = "DataLoader(d := DATASET('val_set'), batch_size=12, sampler=range(len(d) - 1, -1, -1))"
    before = replace(found.before, build=found.before.build.replace(ordered, backwards))
    asked["in another order"] = replace(found, before=before)
    return proven(asked)


@pytest.mark.parametrize("name", RIGHT)
def test_a_value_of_other_batches_is_proven_by_what_one_process_makes_of_these(
    proofs: dict[str, MetricProof], name: str
) -> None:
    proof = proofs[f"right: {name}"]
    assert (proof.verdict, proof.reasons) == ("proven", ())
    (line,) = [line for line in proof.told if "of the same batches one process gets what the ranks get" in line]
    assert " ranks, in one process " in line


@pytest.mark.parametrize("name", [*WRONG, *OWN])
def test_a_value_that_is_not_put_together_from_the_batches_is_refuted(
    proofs: dict[str, MetricProof], name: str
) -> None:
    assert proofs[f"wrong: {name}"].verdict == "refuted"


@pytest.mark.parametrize("name", RIGHT)
def test_what_goes_by_its_batch_is_not_proven_of_a_change_that_does_not_say_so(
    proofs: dict[str, MetricProof], name: str
) -> None:
    assert proofs[f"safe: {name}"].verdict != "proven"


def test_a_change_of_the_order_makes_other_batches_in_one_process_too(proofs: dict[str, MetricProof]) -> None:
    assert proofs["in another order"].verdict == "proven"


def test_what_is_gone_through_by_columns_is_a_list_of_layers(proofs: dict[str, MetricProof]) -> None:
    stand_ins = {s.expression: s.value for s in proofs["right: layers"].stand_ins}
    assert stand_ins["model.get_layers(x)"] == "a list of what layers give, of which there is one"


def test_what_is_taken_for_the_things_that_a_model_gives_is_told(proofs: dict[str, MetricProof]) -> None:
    stand_ins = {s.expression: s.value for s in proofs["right: several things"].stand_ins}
    assert stand_ins["model(ids=x, labels=y)"] == "several things: rows for the samples, and numbers of the batch"
