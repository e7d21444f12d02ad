"""Repeated samples are cut off by hand where what was gathered is cut to a number: not other things, not otherwise."""

from __future__ import annotations

import pytest
from plans import planned

from shardfix.analysis.model import Options

HEAD = (
    "import torch\nimport torch.nn.functional as F\nfrom accelerate import Accelerator\n"
    "from torch.utils.data import DataLoader\naccelerator = Accelerator()\n"
    "val_loader = DataLoader(val_set, batch_size=4)\nval_loader, model = accelerator.prepare(val_loader, model)\n"
    "model.eval()\nfor step, (x, y) in enumerate(val_loader):\n"
)
GATHER = "    preds.append(accelerator.gather(model(x)))\n"
CUT = "def cut(rows, n):\n    return rows[:n]\n"
IN_A_FUNCTION = (
    "import torch\nfrom accelerate import Accelerator\nfrom torch.utils.data import DataLoader\n"
    "accelerator = Accelerator()\n"
    "def validate(model, loader):\n    model.eval()\n    preds = []\n    for x, y in loader:\n"
    "        preds.append(accelerator.gather(model(x)))\n    return {value}\n"
    "val_loader, model = accelerator.prepare(DataLoader(val_set, batch_size=4), model)\n{before}"
    "result = validate(model, val_loader)\n{behind}"
)


def handed_on(times: int) -> str:
    """A function that cuts, behind so many others that hand on what they get."""
    ways = "".join(f"def f{i}(rows, n):\n    return f{i + 1}(rows, n)\n" for i in range(times))
    return f"{ways}def f{times}(rows, n):\n    return rows[:n]\nf0(torch.cat(preds), 10)\n"


def function(value: str = "torch.cat(preds)", before: str = "", behind: str = "") -> str:
    """An evaluation in a function, and what its module does before and behind the call."""
    return IN_A_FUNCTION.format(value=value, before=before, behind=behind)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param(HEAD + GATHER + "print(torch.cat(preds)[:n, 0])\n", 11, id="rows and a column"),
        pytest.param(
            HEAD + "    p: torch.Tensor = accelerator.gather(model(x))\n    preds.append(p[:n])\n", 11, id="annotated"
        ),
        pytest.param(HEAD + "    preds += accelerator.gather(model(x))\nprint(preds[:n])\n", 11, id="added to a list"),
        pytest.param(HEAD + GATHER + CUT + "cut(n=10, rows=torch.cat(preds))\n", 12, id="by a keyword"),
        pytest.param(HEAD + GATHER + handed_on(2), 16, id="three functions further"),
        pytest.param(function(behind="print(result[:size])\n"), 13, id="in a caller"),
    ],
)
def test_what_was_gathered_is_cut(text: str, line: int) -> None:
    (report,) = planned(text).reports
    assert (report.changes, report.findings) == ((), ())
    assert report.why == f"line {line} cuts off by hand what prepare() repeats"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(HEAD + GATHER + "print(torch.cat(preds)[5:n])\n", id="from another place on"),
        pytest.param(HEAD + GATHER + "print(torch.cat(preds)[k:n])\n", id="from a place by name"),
        pytest.param(HEAD + GATHER + "print(torch.cat(preds)[n:])\n", id="the rest"),
        pytest.param(HEAD + GATHER + "print(torch.cat(preds)[n])\n", id="one of them"),
        pytest.param(HEAD + GATHER + "print(torch.cat(preds)[:10])\n", id="the first ten"),
        pytest.param(HEAD + GATHER + "print(torch.cat(preds)[:, :n])\n", id="columns"),
        pytest.param(HEAD + GATHER + "print(names[:n])\n", id="others"),
        pytest.param(HEAD + GATHER + "    print(f'{step}/{len(val_loader.dataset)}')\n", id="a length that is shown"),
        pytest.param(HEAD + "    samples_seen += len(y)\n" + GATHER, id="samples that are only counted"),
        pytest.param(HEAD + "    k += len(y)\n" + GATHER + "print(k[:n])\n", id="a number that others are added to"),
        pytest.param(
            HEAD + "    table.find(accelerator.gather(model(x)))\nprint(table[:n])\n", id="what looks for them"
        ),
        pytest.param(HEAD + "    names.append(y)\n" + GATHER + "print(names[:n])\n", id="a list of others"),
        pytest.param(HEAD + GATHER + CUT + "cut(names, 10)\n", id="others in a function"),
        pytest.param("names = load()\n" + HEAD + GATHER + "print(names[:n])\n", id="others by a name"),
        pytest.param(
            HEAD + GATHER + "def half(rows):\n    return rows / 2\nhalf(torch.cat(preds))\nprint(half(names)[:n])\n",
            id="others that went through the same function",
        ),
        pytest.param(HEAD + "    p: torch.Tensor\n" + GATHER + "print(torch.cat(preds)[()])\n", id="nothing"),
        pytest.param(HEAD + GATHER + CUT + "cut(n=10, rows=names)\n", id="others by a keyword"),
        pytest.param(HEAD + GATHER + handed_on(4), id="further than is followed"),
        pytest.param(
            HEAD + GATHER + "def again(rows, n):\n    return again(rows, n - 1)\nagain(torch.cat(preds), 10)\n",
            id="a function that hands it to itself",
        ),
        pytest.param(function("names", behind="print(result[:size])\n"), id="others in a caller"),
        pytest.param(function(behind="print(names[:size])\n"), id="others beside a caller"),
    ],
)
def test_what_is_cut_is_something_else(text: str) -> None:
    (change,) = planned(text).changes
    assert (change.codes, change.tier) == (("SHD507",), "safe")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("    preds.append(accelerator.gather(model(x)[:n]))\n", id="at once"),
        pytest.param("    p = model(x)\n    preds.append(accelerator.gather(p[:n]))\n", id="by a name"),
        pytest.param("    p = model(x)\n    p = accelerator.gather(p[:n])\n", id="under the same name"),
        pytest.param(f"    preds.append(accelerator.gather(cut(model(x), n)))\n{CUT}", id="in a function"),
        pytest.param(
            f"    p = model(x)\n    p = accelerator.gather(cut(p, n))\n{CUT}", id="in a function, under the same name"
        ),
    ],
)
def test_what_is_cut_before_it_is_gathered_is_not_cut_off(body: str) -> None:
    (report,) = planned(HEAD + body).reports
    assert report.changes == ()
    assert [f.code for f in report.findings] == ["SHD707"]


@pytest.mark.parametrize(
    ("behind", "before"),
    [
        pytest.param("print(result // accelerator.num_processes)\n", "", id="whole parts"),
        pytest.param("result /= accelerator.num_processes\n", "", id="in place"),
        pytest.param(
            "print(result / total)\n", "total = len(val_loader) * accelerator.num_processes\n", id="made before"
        ),
    ],
)
def test_a_denominator_that_counts_what_is_repeated(behind: str, before: str) -> None:
    (report,) = planned(function("sum(preds)", before, behind)).reports
    assert report.changes == ()
    assert [f.code for f in report.findings] == ["SHD707"]


@pytest.mark.parametrize(
    ("behind", "before"),
    [
        pytest.param("print(result + accelerator.num_processes)\n", "", id="added"),
        pytest.param("k -= accelerator.num_processes\n", "", id="taken away"),
        pytest.param("", "total = len(val_loader) * accelerator.num_processes\n", id="never read"),
        pytest.param("", "total = len(val_loader) * accelerator.num_processes\nprint(total)\n", id="read before"),
        pytest.param("total = 3\n", "total = len(val_loader) * accelerator.num_processes\n", id="set anew"),
        pytest.param(
            "print(result)\n", "args.total = total = 4 * accelerator.num_processes\n", id="another name is read"
        ),
    ],
)
def test_a_number_of_processes_that_divides_nothing(behind: str, before: str) -> None:
    (change,) = planned(function("sum(preds)", before, behind)).changes
    assert (change.codes, change.tier) == (("SHD507",), "safe")


TOTAL = "len(val_loader) * accelerator.num_processes"


@pytest.mark.parametrize(
    ("value", "before", "behind"),
    [
        pytest.param("sum(preds) / total", f"total = {TOTAL}\n", "", id="a global that is read in the evaluation"),
        pytest.param("sum(preds)", f"total: int = {TOTAL}\n", "print(result / total)\n", id="annotated"),
        pytest.param("sum(preds)", f"args.total = {TOTAL}\n", "print(result / args.total)\n", id="an attribute"),
        pytest.param("sum(preds)", f"def total():\n    return {TOTAL}\n", "print(result / total())\n", id="a function"),
        pytest.param("sum(preds)", f"total = lambda: {TOTAL}\n", "print(result / total())\n", id="a lambda"),
        pytest.param("sum(preds)", f"total = {{'val': {TOTAL}}}\n", "print(result / total['val'])\n", id="an item"),
        pytest.param(
            "sum(preds)", "def mean(a, b):\n    return a / b\n", f"print(mean(result, {TOTAL}))\n", id="handed on"
        ),
        pytest.param("sum(preds) / (len(loader) * args.all_batch_size)", "", "", id="the batches"),
        pytest.param("sum(preds) / (len(loader.batch_sampler) * size)", "", "", id="the batches of the sampler"),
        pytest.param("sum(preds)", "", "print(result * (1 / len(val_loader)))\n", id="a factor"),
        pytest.param("sum(preds)", "", "print(len(val_loader) * args.all_batch_size - result)\n", id="the others"),
        pytest.param("sum(preds).div(len(loader))", "", "", id="a method"),
        pytest.param("torch.true_divide(sum(preds), len(loader))", "", "", id="a library's function"),
        pytest.param("torch.cat(preds).view(len(loader), -1)", "", "", id="rows of each batch"),
        pytest.param(
            "sum(preds)",
            "import math\nsize = 4 * accelerator.num_processes\n",
            "print(result / (math.ceil(len(val_set) / size) * size))\n",
            id="rounded up",
        ),
    ],
)
def test_a_number_of_what_is_repeated_by_any_name(value: str, before: str, behind: str) -> None:
    (report,) = planned(function(value, before, behind)).reports
    assert report.changes == ()
    assert [f.code for f in report.findings] == ["SHD707"]
    assert "counts with them must go" in report.findings[0].remedy


@pytest.mark.parametrize(
    "counted",
    [
        pytest.param("steps += 1\n|sum(preds) / (steps * args.all_batch_size)", id="steps"),
        pytest.param("steps += len(y)\n|sum(preds) / accelerator.reduce(torch.tensor(steps))", id="reduced"),
    ],
)
def test_what_the_loop_counts_for_itself_counts_what_is_repeated(counted: str) -> None:
    line, value = counted.split("|")
    text = (
        function(value)
        .replace("    preds = []", "    preds, steps = [], 0")
        .replace("    return", f"        {line}    return")
    )
    (report,) = planned(text).reports
    assert (report.changes, [f.code for f in report.findings]) == ((), ["SHD707"])


@pytest.mark.parametrize(
    ("value", "behind"),
    [
        pytest.param("sum(preds) / len(loader.dataset)", "", id="the dataset"),
        pytest.param("sum(preds) / sum(len(p) for p in preds)", "", id="what was gathered"),
        pytest.param("torch.cat(preds).view(-1, 2)", "", id="rows of two"),
        pytest.param("sum(preds)", "print(100 * result, seconds / len(val_loader))\n", id="another by the batches"),
    ],
)
def test_a_denominator_that_counts_each_sample_once(value: str, behind: str) -> None:
    (change,) = planned(function(value, "", behind)).changes
    assert (change.codes, change.tier) == (("SHD507",), "safe")


@pytest.mark.parametrize(
    "loss",
    [
        pytest.param("(model(x)[:, 0] - y).abs()", id="rows that are called losses"),
        pytest.param("(model(x)[:, 0] - y).sum()", id="a sum"),
    ],
)
def test_only_a_mean_is_repeated_for_each_sample(loss: str) -> None:
    text = HEAD + f"    losses = {loss}\n    kept.append(accelerator.gather(losses.repeat(2)))\n"
    (report,) = planned(text, Options(sanitizer="off", unsafe=True)).reports
    assert report.changes == ()
    assert [f.code for f in report.findings] == ["SHD707"]
