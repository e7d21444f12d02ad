"""A gather in a prepared evaluation becomes gather_for_metrics where it gathers one row for each sample."""

from __future__ import annotations

import pytest
from plans import edited, planned

from shardfix.analysis.model import Options

HEAD = (
    "import torch\nfrom accelerate import Accelerator\nfrom torch.utils.data import DataLoader\n"
    "accelerator = Accelerator()\nval_loader = DataLoader(val_set, batch_size=4)\n"
    "val_loader, model = accelerator.prepare(val_loader, model)\nmodel.eval()\n"
    "for step, (x, y) in enumerate(val_loader):\n"
)
UNSAFE = Options(sanitizer="off", unsafe=True)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("    preds.append(accelerator.gather(model(x)))\n", id="outputs"),
        pytest.param(
            "    p, r = accelerator.gather((model(x).argmax(-1), y))\n    metric.add_batch(p, r)\n", id="a tuple"
        ),
        pytest.param("    metric.add_batch(accelerator.gather(y), accelerator.gather(model(x) > 0))\n", id="twice"),
    ],
)
def test_one_row_for_each_sample(body: str) -> None:
    (change,) = planned(HEAD + body).changes

    assert (change.codes, change.tier) == (("SHD507",), "safe")
    after = edited(HEAD + body)
    assert after == HEAD + body.replace("accelerator.gather(", "accelerator.gather_for_metrics(")
    assert planned(after).changes == ()


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("    losses.append(accelerator.gather(model(x, y).loss))\n", id="one value for a batch"),
        pytest.param("    n += accelerator.gather((model(x) == y).sum()).sum()\n", id="a count"),
        pytest.param("    preds += accelerator.gather_object(y)\n", id="objects"),
        pytest.param("    preds.append(accelerator.gather(model(x).argmax(-1).view(-1)))\n", id="tokens, perhaps"),
        pytest.param(
            "    ids = model.generate(x, num_return_sequences=3)\n    preds.append(accelerator.gather(ids))\n",
            id="several rows for a sample",
        ),
    ],
)
def test_what_is_not_one_row_for_each_sample_is_reported(body: str) -> None:
    for options in (None, UNSAFE):
        (report,) = planned(HEAD + body, options).reports
        assert report.changes == ()
        assert [f.code for f in report.findings] == ["SHD707"]


@pytest.mark.parametrize(
    ("body", "why", "todo"),
    [
        pytest.param(
            "    ids = model.generate(x, num_return_sequences=n)\n    accelerator.gather((ids, y))\n",
            "line 10 gathers several rows for each sample (`num_return_sequences=n`), of which gather_for_metrics "
            "would take each for a sample, and drop rows of samples that are not repeated",
            "hand gather_for_metrics one row for each sample (samples, rows of each), and flatten what it gives",
            id="several rows for a sample",
        ),
        pytest.param(
            "    names = y.repeat(n)\n    accelerator.gather(names)\n",
            "line 10 gathers several rows for each sample (`y.repeat(n)`), of which gather_for_metrics would take each "
            "for a sample, and drop rows of samples that are not repeated",
            "hand gather_for_metrics one row for each sample (samples, rows of each), and flatten what it gives",
            id="repeated rows",
        ),
        pytest.param(
            "    accelerator.gather(model(x, y).loss)\n",
            "line 9 gathers one value for each batch (`model(x, y).loss`), of which gather_for_metrics would take each "
            "for a sample, and drop those of other ranks",
            "hand gather_for_metrics what there is of each sample (`reduction='none'`), and reduce what it gives",
            id="one value for a batch",
        ),
        pytest.param(
            "    accelerator.gather(model(x, y).loss.repeat(8))\n",
            "line 9 gathers the mean of a batch `8` times, which is not seen to be its size",
            "hand gather_for_metrics the loss of each sample (`reduction='none'`), and average what it gives",
            id="a mean another number of times",
        ),
        pytest.param(
            "    accelerator.gather(model(x).argmax(-1).view(-1))\n",
            "`model(x).argmax(-1).view(-1)` in line 9 is not seen to hold one row for each sample",
            "where it does, write accelerator.gather_for_metrics",
            id="tokens, perhaps",
        ),
    ],
)
def test_why_a_gather_keeps_what_is_repeated_is_told(body: str, why: str, todo: str) -> None:
    (report,) = planned(HEAD + body, UNSAFE).reports
    (finding,) = report.findings
    assert (report.changes, finding.code, finding.message.partition("; ")[2]) == ((), "SHD707", why)
    assert finding.remedy == todo


def test_a_streams_mean_loss_is_left_alone() -> None:
    stream = "from torch.utils.data import IterableDataset\nclass Lines(IterableDataset):\n    pass\n"
    text = stream + HEAD.replace("val_set", "Lines()") + "    accelerator.gather(model(x).loss.repeat(4))\n"
    (report,) = planned(text, UNSAFE).reports
    (finding,) = report.findings
    assert (report.changes, finding.code) == ((), "SHD707")
    assert "the last samples of a stream are shared evenly among the ranks" in finding.message
    assert [c.codes for c in planned(text.replace("model(x).loss.repeat(4)", "model(x)")).changes] == [("SHD507",)]


@pytest.mark.parametrize(
    ("body", "line"),
    [
        pytest.param("    p.append(accelerator.gather(model(x)))\np = torch.cat(p)[: len(val_set)]\n", 10, id="behind"),
        pytest.param(
            "    p = accelerator.gather(model(x))\n    if step == len(val_loader) - 1:\n"
            "        p = p[: len(val_loader.dataset) - samples_seen]\n    samples_seen += len(p)\n",
            11,
            id="in the last batch",
        ),
        pytest.param(
            "    preds.append(accelerator.gather(model(x)))\nn = len(val_set)\npreds = torch.cat(preds)[0:n]\n",
            11,
            id="behind, to a number by name",
        ),
        pytest.param(
            "    p = accelerator.gather(model(x))\n    if seen + len(p) > n:\n        p = p[: n - seen]\n"
            "    seen += len(p)\n",
            11,
            id="by a counter",
        ),
        pytest.param(
            "    preds.append(accelerator.gather(model(x)))\n"
            "def cut(rows, n):\n    return rows[:n]\ncut(torch.cat(preds), 10)\n",
            11,
            id="in a function that gets it",
        ),
    ],
)
def test_what_is_cut_off_by_hand_is_right(body: str, line: int) -> None:
    (report,) = planned(HEAD + body).reports
    assert (report.changes, report.findings) == ((), ())
    assert report.why == f"line {line} cuts off by hand what prepare() repeats"


def test_a_mean_loss_for_each_sample_is_not_quite_right_either_way() -> None:
    text = HEAD + "    losses.append(accelerator.gather(model(x, y).loss.repeat(4)))\n"
    assert planned(text).changes == ()
    (change,) = planned(text, UNSAFE).changes
    assert (change.codes, change.tier) == (("SHD507",), "unsafe")
    assert "the mean of the last batch still holds the repeated samples" in change.reason


IN_A_FUNCTION = (
    "import torch\nfrom accelerate import Accelerator\nfrom torch.utils.data import DataLoader\n"
    "accelerator = Accelerator()\n"
    "def validate(model, loader):\n    model.eval()\n    preds, n = [], 0\n    for x, y in loader:\n"
    "        preds.append(accelerator.gather(model(x)))\n{inside}    return {value}\n"
    "val_loader, model = accelerator.prepare(DataLoader(val_set, batch_size=4), model)\n"
    "result = validate(model, val_loader)\n{behind}"
)


def test_what_a_caller_cuts_off_is_right() -> None:
    text = IN_A_FUNCTION.format(inside="", value="torch.cat(preds)", behind="print(result[:size])\n")
    (report,) = planned(text).reports
    assert (report.changes, report.findings) == ((), ())
    assert report.why == "line 13 cuts off by hand what prepare() repeats"


@pytest.mark.parametrize(
    ("inside", "value", "behind", "line"),
    [
        pytest.param("        n += len(y) * accelerator.num_processes\n", "n", "", 10, id="in the loop"),
        pytest.param("", "sum(preds) / (len(loader) * accelerator.num_processes * 4)", "", 10, id="behind the loop"),
        pytest.param("", "sum(preds)", "print(result / (len(val_loader) * world_size))\n", 13, id="in a caller"),
    ],
)
def test_a_denominator_that_counts_what_is_repeated_has_to_go_with_it(
    inside: str, value: str, behind: str, line: int
) -> None:
    text = IN_A_FUNCTION.format(inside=inside, value=value, behind=behind)
    for options in (None, UNSAFE):
        (report,) = planned(text, options).reports
        assert report.changes == ()
        (finding,) = report.findings
        assert finding.code == "SHD707"
        assert f"what line {line} counts with them must go" in finding.remedy


def test_a_number_of_samples_for_each_update_is_no_denominator() -> None:
    text = IN_A_FUNCTION.format(inside="", value="preds", behind="").replace(
        "def validate", "print('batch', 4 * accelerator.num_processes)\ndef validate"
    )
    (change,) = planned(text).changes
    assert (change.codes, change.tier) == (("SHD507",), "safe")


def test_a_loop_in_the_loop_gathers_for_its_own_loader() -> None:
    text = (
        "from accelerate import Accelerator\nfrom torch.utils.data import DataLoader\naccelerator = Accelerator()\n"
        "test_loader = accelerator.prepare(DataLoader(test_set, batch_size=4))\n"
        "val_loader = accelerator.prepare(DataLoader(val_set, batch_size=4))\nmodel.eval()\n"
        "for x in test_loader:\n    for y in val_loader:\n        p.append(accelerator.gather(model(y)))\n"
        "    q.append(accelerator.gather(model(x)))\n"
    )
    once = edited(text)
    assert once == text.replace("accelerator.gather(", "accelerator.gather_for_metrics(")
    assert planned(once).changes == ()
