"""Where a statement of an evaluation loop is not understood, the loader stays as it is and the statement is named."""

from __future__ import annotations

import pytest
from plans import codes, edited, planned

from shardfix.analysis.model import Options

HEAD = (
    "import numpy as np\nimport torch\nimport torch.distributed as dist\nimport torch.nn.functional as F\n"
    "from torch.utils.data import DataLoader\n"
    "dist.init_process_group()\n"
    "val_loader = DataLoader(val_set, batch_size=4)\n"
    "correct = total = 0\npreds = []\n"
)
LOOP = "with torch.no_grad():\n    for i, (x, y) in enumerate(val_loader):\n"
COUNT = "        correct += (model(x).argmax(1) == y).sum().item()\n"
LINE = 12  # of the first statement in the loop
AFTER = "print(correct, total, preds)\n"


def refused(text: str, options: Options | None = None) -> str:
    """What is said of the one loader, which no change touches."""
    found = planned(text, options)
    assert found.changes == ()
    (report,) = found.reports
    return report.why


def test_the_loop_of_these_tests_is_understood() -> None:
    (change,) = planned(HEAD + LOOP + COUNT + AFTER).changes
    assert change.codes == ("SHD305",)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        pytest.param("if i > 3: break\n", "`break` leaves samples out", id="left early"),
        pytest.param("if x is None: continue\n", "`continue` leaves samples out", id="a batch passed over"),
        pytest.param("loss.backward()\n", "computes gradients", id="gradients"),
        pytest.param("dist.all_reduce(y)\n", "it combines the ranks' values of each batch", id="a collective"),
        pytest.param("best = max(best, y.max())\n", "`best` of the batch before is read", id="a running maximum"),
        pytest.param("total *= 2\n", "no sum", id="a product"),
        pytest.param("total += len(y)\n        if i % 3 == 0: total = 0\n", "is set anew in the loop", id="set back"),
        pytest.param("preds.extend(y.tolist())\n        preds.clear()\n", "the running value of `preds`", id="cleared"),
        pytest.param("saved[i] = y\n", "results go by the loader's order", id="a store by position"),
        pytest.param("saved[len(x)] = y\n", "`saved[len(x)]` outlives the batch and is set", id="a store"),
        pytest.param("meter.observe(y)\n", "`meter.observe` is told of the batch", id="an object is told"),
        pytest.param("show(y)\n", "`show` is told of the batch", id="a function is told"),
        pytest.param("preds.append(i)\n", "it keeps one value for a batch", id="a list of steps"),
        pytest.param("preds.append(y[0])\n", "it keeps one value for a batch", id="one value a batch"),
        pytest.param("preds.extend(y[y > 0].tolist())\n", "not seen to be one item for each sample", id="some samples"),
        pytest.param("for p in y:\n            if p: preds.append(p)\n", "exactly one item", id="some of the samples"),
        pytest.param("preds.extend(parse(model(x)))\n", "one item for each sample", id="what is parsed of an output"),
        pytest.param("if y.max() > 1: total += len(y)\n", "only for some batches (`y.max() > 1`)", id="some batches"),
        pytest.param(
            "try: total += len(y)\n        except ValueError: pass\n", "(`nothing is raised`)", id="unless it fails"
        ),
        pytest.param("if correct > 3: raise ValueError\n", "the running value of `correct` is read", id="a condition"),
        pytest.param("if args.keep: preds.extend(y.tolist())\n", "exactly one item", id="a list that may stay empty"),
        pytest.param("for p in y:\n            if p > 2: break\n", "`break` leaves samples of the batch out", id="cut"),
    ],
)
def test_a_statement_that_is_not_understood(body: str, why: str) -> None:
    (report,) = planned(HEAD + LOOP + "        " + body + COUNT + AFTER).reports

    assert report.changes == ()
    assert why in report.why
    if not why.startswith("results"):
        assert f"line {LINE} is not understood" in report.why or f"line {LINE + 1} is not understood" in report.why


@pytest.mark.parametrize(
    ("body", "offered"),
    [
        pytest.param("loss.backward()\n", False, id="each rank would go on with gradients of its part"),
        pytest.param("meter.observe(y)\n", True, id="each rank would show a number of its part"),
    ],
)
def test_what_is_never_sharded_though_asked_for(body: str, offered: bool) -> None:
    text = HEAD + LOOP + "        " + body + COUNT + AFTER
    (finding,) = planned(text).reports[0].findings
    assert ("--unsafe" in finding.remedy) is offered
    (report,) = planned(text, Options(sanitizer="off", unsafe=True)).reports
    assert bool(report.changes) is offered


@pytest.mark.parametrize(
    ("head", "body", "after", "why"),
    [
        pytest.param("", COUNT, "print(y)\n", "`y`, of the last batch, is read behind the loop", id="the last batch"),
        pytest.param("correct = 7\n", COUNT, "", "`correct` does not begin at nothing", id="begins at 7"),
        pytest.param("preds = [0]\n", "        preds.extend(y.tolist())\n", "", "`preds` does not begin", id="a zero"),
        pytest.param(
            "kept = preds\n",
            "        preds.extend(y.tolist())\n",
            "",
            "`preds` is known by another name",
            id="two names",
        ),
        pytest.param(
            "", COUNT, "n = correct / len(val_loader.sampler)\n", "the sampler's length", id="a part's length"
        ),
        pytest.param("", COUNT, "n = correct / dist.get_world_size()\n", "number of processes already", id="by W"),
    ],
)
def test_what_stands_around_the_loop(head: str, body: str, after: str, why: str) -> None:
    assert why in refused(HEAD + head + LOOP + body + after + AFTER)


def test_a_sum_that_goes_on_over_several_passes() -> None:
    text = HEAD + "for epoch in range(3):\n    with torch.no_grad():\n        for x, y in val_loader:\n"
    text += "            total += y.size(0)\nprint(total)\n"
    assert "`total` goes on over several passes" in refused(text)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("val_set", "it takes one sample at a time"),
        ("val_set, batch_size=1", "it takes one sample at a time"),
        ("val_set, batch_size=4, drop_last=True", "drop_last leaves out"),
    ],
)
def test_a_loader_whose_padding_can_not_be_left_out(arguments: str, why: str) -> None:
    text = HEAD.replace("val_set, batch_size=4", arguments) + LOOP + COUNT + AFTER
    assert why in refused(text)


def test_a_loop_over_another_loader_as_well() -> None:
    text = HEAD + "other_loader = make()\ndef evaluate(loader):\n    n = 0\n    with torch.no_grad():\n"
    text += "        for x, y in loader:\n            n += y.size(0)\n    return n\nevaluate(val_loader)\n"
    (change,) = planned(text).changes
    assert change.codes == ("SHD305",)
    assert "its loop may also go over another loader (train.py:18)" in refused(text + "evaluate(other_loader)\n")


def test_two_loaders_of_one_loop_change_together_or_not_at_all() -> None:
    text = HEAD + "test_loader = DataLoader(test_set, batch_size=4)\ndef evaluate(loader):\n    n = 0\n"
    text += "    with torch.no_grad():\n        for x, y in loader:\n            n += y.size(0)\n    return n\n"
    text += "evaluate(val_loader)\nevaluate(test_loader)\n"
    (change,) = planned(text).changes
    assert [location.line for location in change.sites] == [7, 10]
    assert planned(text.replace("test_set, batch_size=4", "test_set, batch_size=None")).changes == ()


def test_batches_that_go_out_of_sight() -> None:
    assert "it goes where it is not followed" in refused(HEAD + LOOP + COUNT + AFTER + "library.show(val_loader)\n")
    assert "single batches are taken of it" in refused(HEAD + LOOP + COUNT + AFTER + "next(iter(val_loader))\n")


def test_a_function_that_keeps_what_it_is_given() -> None:
    text = HEAD + "def note(y, kept):\n    kept.append(y)\n    return len(y)\nkept = []\n"
    text += LOOP + "        total += note(y, kept)\n" + AFTER
    assert "`note` changes what it is given, or keeps it" in refused(text)


def test_a_name_of_ours_that_is_taken() -> None:
    assert "the name reduced is taken" in refused(HEAD + "reduced = 1\n" + LOOP + COUNT + AFTER)


@pytest.mark.parametrize(
    ("added", "why"),
    [
        ("F.cross_entropy(model(x), y).item()", "`F.cross_entropy(model(x), y).item()` is a mean over the batch"),
        ("F.cross_entropy(model(x), y).item() * 4", "is a mean over the batch"),
        ("loss_of(model(x), y).item() * len(y)", "`loss_of(model(x), y)` is not seen to be a sum"),
        ("model(x).sum()", "`model(x).sum()` is not seen to be a sum over the batch's samples"),
        ("F.cross_entropy(model(x).view(-1, 9), y.view(-1)).item() * len(y)", "is not seen to be a sum"),
        ("F.cross_entropy(model(x), y, ignore_index=0) * len(y)", "is not seen to be a sum"),
        ("F.cross_entropy(model(x).transpose(1, 2), y) * len(y)", "is not seen to be a sum"),
        ("1", "it counts batches, of which several ranks may have more"),
        ("y.max()", "`y.max()` is not seen to be a sum"),
    ],
)
def test_a_value_that_would_not_be_that_of_one_process(added: str, why: str) -> None:
    text = HEAD + LOOP + f"        total += {added}\n" + AFTER

    assert why in refused(text)
    (change,) = planned(text, Options(sanitizer="off", unsafe=True)).changes
    assert (change.tier, change.codes) == ("unsafe", ("SHD305",))
    assert why in change.reason


SUMS = (
    "import torch\nimport torch.distributed as dist\nfrom torch.utils.data import DataLoader, DistributedSampler\n"
    "dist.init_process_group()\n{}\ncorrect = torch.zeros(1)\ntotal = torch.zeros(1)\nwith torch.no_grad():\n"
    "    for x, y in val_loader:\n        correct += (model(x).argmax(1) == y).sum()\n        total += len(y)\n"
)
EACH = "dist.all_reduce(correct)\ndist.all_reduce(total, op=dist.ReduceOp.SUM)\nprint(correct / total)\n"
BOTH = (
    "both = torch.stack([correct, total]).cuda()\nif dist.is_initialized():\n    dist.all_reduce(both)\nprint(both)\n"
)
PLAIN = "val_loader = DataLoader(val_set, batch_size=4)"
SHARDED = "val_loader = DataLoader(val_set, batch_size=4, sampler=DistributedSampler(val_set, shuffle=False))"


@pytest.mark.parametrize("behind", [EACH, BOTH], ids=["each sum", "both in one tensor"])
@pytest.mark.parametrize(("loader", "code"), [(PLAIN, "SHD305"), (SHARDED, "SHD506")], ids=["whole", "sharded"])
def test_where_the_program_sums_by_itself_only_the_padding_is_left_out(behind: str, loader: str, code: str) -> None:
    text = SUMS.format(loader) + behind

    (change,) = planned(text).changes

    assert (change.codes, change.tier) == ((code,), "safe")
    after = edited(text)
    assert after.count("unpadded(") == 1
    assert "reduced" not in after
    assert codes(after) == [[]]


@pytest.mark.parametrize(
    ("behind", "why"),
    [
        pytest.param("print(total)\n" + EACH, "line 12 is not understood: `total` is read before", id="read before"),
        pytest.param(EACH.replace("SUM", "MAX"), "`total` is read before it is summed", id="the largest part"),
        pytest.param(
            EACH.replace("correct / total", "correct / len(val_loader)"), "number of batches", id="by batches"
        ),
        pytest.param(EACH + "print(correct / dist.get_world_size())\n", "number of processes", id="by processes"),
        pytest.param("if ready:\n    dist.all_reduce(correct)\nprint(correct)\n", "`correct` is read", id="sometimes"),
    ],
)
def test_where_the_program_reduces_otherwise_the_padding_stays_a_fault(behind: str, why: str) -> None:
    for loader, code in ((PLAIN, "SHD906"), (SHARDED, "SHD502")):
        (report,) = planned(SUMS.format(loader) + behind).reports
        assert [f.code for f in report.findings] == [code]
        assert why in report.why
