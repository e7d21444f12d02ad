"""A batch whose rows go by its samples alone is summed over the ranks; one that other samples have a say in is not."""

from __future__ import annotations

import pytest
from plans import codes, planned

HEAD = (
    "import torch\nimport torch.distributed as dist\nfrom torch.utils.data import DataLoader\n"
    "dist.init_process_group()\n"
)
LOOP = (
    "val_loader = DataLoader(val_set, batch_size=4{put})\n"
    "@torch.no_grad()\ndef validate(model, loader):\n    model.eval()\n    n = 0\n    for b in loader:\n{body}"
    "        n += (model(x).argmax(1) == y).sum().item()\n    return n\nvalidate(model, val_loader)\n"
)
PAIR = "        x, y = b\n"


def put_together(*lines: str) -> str:
    """An evaluation of batches that a function of the project makes."""
    body = "".join(f"    {line}\n" for line in lines)
    return f"{HEAD}def put(batch):\n    xs, ys = zip(*batch)\n{body}" + LOOP.format(put=", collate_fn=put", body=PAIR)


@pytest.mark.parametrize(
    "made",
    [
        pytest.param("torch.stack(xs)", id="stacked"),
        pytest.param("torch.stack(xs).unsqueeze(1)", id="with a channel"),
        pytest.param("torch.stack(xs).to(0)", id="on a device"),
        pytest.param("torch.stack([x[:len(NAMES)] for x in xs])", id="cut to a length that is always the same"),
        pytest.param("torch.stack([x * len(x) for x in xs])", id="each by its own length"),
    ],
)
def test_rows_of_samples(made: str) -> None:
    (change,) = planned(put_together(f"return {made}, torch.tensor(ys)")).changes
    assert (change.codes, change.tier) == (("SHD305",), "safe")


@pytest.mark.parametrize(
    "made",
    [
        pytest.param("torch.stack(xs).unsqueeze(0)", id="a dimension in front"),
        pytest.param("torch.stack([x * len(batch) for x in xs])", id="each by the batch's length"),
        pytest.param("torch.nn.utils.rnn.pad_sequence(xs)", id="padded to the longest"),
        pytest.param("torch.stack([x - xs[0] for x in xs])", id="each by the first"),
    ],
)
def test_rows_that_go_by_the_batch(made: str) -> None:
    (report,) = planned(put_together(f"return {made}, torch.tensor(ys)")).reports
    assert report.changes == ()
    assert "`collate_fn` is not seen to stack samples only" in report.why


@pytest.mark.parametrize(
    ("body", "safe"),
    [
        pytest.param("b = b.to(dev)\nx, y = b['x'], b['y']", True, id="moved"),
        pytest.param("b = b.mixed(dev)\nx, y = b['x'], b['y']", False, id="a method that is not seen"),
        pytest.param("x, y = b\nc = {'x': x}\nc['y'] = y\nn += c['y'].sum()", True, id="a row under a name"),
        pytest.param("x, y = b\nc = {'x': x}\nc[str(len(y))] = y\nn += c['x'].sum()", False, id="under a made name"),
        pytest.param("x, y = b\nn += (model(x).flatten(1).argmax(-1) == y).sum()", True, id="rows made flat"),
        pytest.param("x, y = b\nn += (model(x).flatten().argmax(-1) == y).sum()", False, id="the batch made flat"),
        pytest.param("x, y = b\nfor t in y:\n    n += t or 1", True, id="one sample's or one"),
        pytest.param("x, y = b\nn += (y or x).sum()", False, id="a batch or another"),
        pytest.param(
            "x, y = b\nfor i in range(len(y)):\n    r = x[i]\n    r[0] = 0\n    n += r.sum()", True, id="in a row"
        ),
        pytest.param("x, y = b\nif n > 3:\n    pass", True, id="nothing is done for some"),
    ],
)
def test_what_a_loop_makes_of_a_batch(body: str, safe: bool) -> None:
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    assert codes(HEAD + LOOP.format(put="", body=lines)) == [["SHD305" if safe else "SHD904"]]


@pytest.mark.parametrize(
    "note",
    [
        pytest.param("h.append(y)", id="by its name"),
        pytest.param("a = h\n    a.append(y)", id="by another name"),
        pytest.param("a = h['a']\n    a.append(y)", id="an item"),
        pytest.param("for a in h.items():\n        a.append(y)", id="each item"),
    ],
)
def test_a_function_that_fills_what_it_is_given(note: str) -> None:
    head = f"def note(y, h):\n    {note}\n    return len(y)\n"
    text = (
        HEAD + head + LOOP.format(put="", body=f"{PAIR}        z = note(y, kept)\n").replace("n = 0", "n, kept = 0, {}")
    )
    (report,) = planned(text).reports
    assert report.changes == ()
    assert "`note` changes what it is given, or keeps it" in report.why


def test_a_function_that_sets_an_object_of_its_own() -> None:
    head = "def note(y):\n    own = Box()\n    own.y = y\n    first, own.last = y, 1\n    return len(y)\n"
    (change,) = planned(HEAD + head + LOOP.format(put="", body=f"{PAIR}        z = note(y)\n")).changes
    assert change.codes == ("SHD305",)


@pytest.mark.parametrize(
    ("way", "safe"),
    [
        ("assert args.all", True),
        ("assert dist.get_rank() < 3", False),
        ("if 0 in [dist.get_rank()]:\n    exit()", False),
    ],
)
def test_what_ends_some_ranks_before(way: str, safe: bool) -> None:
    text = HEAD + LOOP.format(put="", body=PAIR).replace("validate(model, val", f"{way}\nvalidate(model, val")
    assert codes(text) == [["SHD305" if safe else "SHD904"]]
