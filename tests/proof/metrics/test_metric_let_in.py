"""What the first rank alone makes of a metric is held against one process; what no batch decides is taken as it is."""

from __future__ import annotations

import pytest
from metric_programs import proven, recipe

from shardfix.proof.metrics.model import MetricProof

MORE = """\
from transformers import glue_compute_metrics as compute_metrics
from transformers.data.processors.squad import SquadResult
from elsewhere import args, features, results

def to_list(tensor):
    return tensor.detach().cpu().tolist()
"""
COUNTED = """
s = n = 0
for batch in val_loader:
    s += (model(batch["ids"]).argmax(1) == batch["y"]).sum().item()
    n += batch["y"].size(0)
s, n = reduced(s, n)
{then}
"""
STEADY = """
preds = edge = None
for batch in val_loader:
    inputs = {{"ids": batch["ids"]}}
    if edge is None:
        scores = torch.cat([p.view(-1) for name, p in model.named_parameters() if "mask" in name])
        place = max(scores.numel() - 1, 1)
        edge = scores.kthvalue(place).values.item(){more}
    inputs["threshold"] = edge
    out = model(**inputs)
    preds = out if preds is None else torch.cat((preds, out))
preds = in_order(preds, val_loader)
if args.mode == "labels":
    preds = preds.argmax(1)
elif args.mode == "numbers":
    preds = preds.squeeze()
return compute_metrics("task", preds, None)
"""
SQUAD = """
rows = []
for batch in val_loader:
    batch = tuple(t.to(args.device) for t in batch)
    inputs = {{"input_ids": batch[0]}}
    places = batch[3]
    outputs = model(**inputs)
    for i, place in enumerate(places):
        feature = features[place.item()]
        number = int(feature.unique_id)
        output = [to_list(o[i]) for o in outputs]
        start, end = output
        result = {made}(number, start, end_logits=end)
        rows.append(result)
rows = in_order(rows, val_loader)
found = compute_metrics("squad", rows, None)
print(found)
"""
RIGHT = {
    "a value that the first rank alone makes": COUNTED.format(
        then="acc = s / n\nif args.local_rank in [-1, 0]:\n    acc = 100 * acc\n    print(acc)\nreturn acc"
    ),
    "a dict that it alone makes": COUNTED.format(
        then="found = {'a': s / n}\nif args.local_rank in [-1, 0]:\n"
        "    found = dict((k + ('_{}'.format(args.step) if args.step else ''), v) for k, v in found.items())\n"
        "    results.update(found)\nprint(s)"
    ),
    "what the model alone decides": STEADY.format(more=""),
    "records of a library": SQUAD.format(made="SquadResult"),
}
NOT_PROVEN = {
    "what chance decides": STEADY.format(more="").replace("scores.kthvalue(place).values", "torch.rand(3).max()"),
    "records of a class that is not seen": SQUAD.format(made="args.Result"),
}


@pytest.fixture(scope="module")
def proofs() -> dict[str, MetricProof]:
    asked = {name: recipe(body, more=MORE) for name, body in {**RIGHT, **NOT_PROVEN}.items()}
    for name, body in RIGHT.items():
        undone = next(line.strip() for line in body.splitlines() if "reduced(" in line or "in_order(" in line)
        asked[f"{name}, undone"] = recipe(body, more=MORE, undone=(undone,))
    return proven(asked)


@pytest.mark.parametrize("name", RIGHT)
def test_it_is_proven(proofs: dict[str, MetricProof], name: str) -> None:
    assert (proofs[name].verdict, proofs[name].reasons) == ("proven", ())


@pytest.mark.parametrize("name", RIGHT)
def test_it_is_refuted_where_nothing_puts_the_ranks_together(proofs: dict[str, MetricProof], name: str) -> None:
    assert proofs[f"{name}, undone"].verdict == "refuted"


@pytest.mark.parametrize("name", NOT_PROVEN)
def test_its_neighbour_is_not(proofs: dict[str, MetricProof], name: str) -> None:
    assert proofs[name].verdict != "proven"
