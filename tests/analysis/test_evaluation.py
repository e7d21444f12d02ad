"""Whether an eval loader may be sharded depends on who runs the loop, what it combines and what padding reaches."""

from __future__ import annotations

import pytest
from loaders import site

HEAD = "import torch\nimport torch.distributed as dist\nfrom torch.utils.data import DataLoader\n"
LOADER = "val_loader = DataLoader(val_set)\n"


def guard(text: str) -> str:
    """The line of the condition under which one process alone evaluates; empty if there is none."""
    found = site(HEAD + LOADER + text).evaluation.guard
    return found.text.strip() if found else ""


LOOP = "for b in val_loader:\n        pass\n"


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        pytest.param("if rank == 0:\n    " + LOOP, "if rank == 0:", id="rank 0"),
        pytest.param("if 0 == args.rank:\n    " + LOOP, "if 0 == args.rank:", id="the other way around"),
        pytest.param("if args.local_rank in [-1, 0]:\n    " + LOOP, "if args.local_rank in [-1, 0]:", id="-1 or 0"),
        pytest.param("if dist.get_rank() == 0:\n    " + LOOP, "if dist.get_rank() == 0:", id="get_rank()"),
        pytest.param("if is_main_process():\n    " + LOOP, "if is_main_process():", id="a helper's usual name"),
        pytest.param(
            "if accelerator.is_main_process and a:\n    " + LOOP, "if accelerator.is_main_process and a:", id="and more"
        ),
        pytest.param("if not rank:\n    " + LOOP, "if not rank:", id="not rank"),
        pytest.param("if rank != 0:\n    pass\nelse:\n    " + LOOP, "if rank != 0:", id="else"),
        pytest.param("if not args.distributed:\n    " + LOOP, "if not args.distributed:", id="one process only"),
        pytest.param(
            "def run():\n    if rank != 0:\n        return\n    " + LOOP, "if rank != 0:", id="the others leave early"
        ),
        pytest.param(
            "def run():\n    " + LOOP + "if rank == 0:\n    run()\n", "if rank == 0:", id="the caller is guarded"
        ),
        pytest.param("@rank_zero_only\ndef run():\n    " + LOOP, "@rank_zero_only", id="a decorator"),
        pytest.param(
            "def main_only(f):\n    def inner():\n        if rank == 0:\n            f()\n    return inner\n"
            "@main_only\ndef run():\n    " + LOOP + "run()\n",
            "if rank == 0:",
            id="a decorator of the file's own",
        ),
        pytest.param("def run():\n    " + LOOP + "if rank == 0:\n    run()\nrun()\n", "", id="another caller is not"),
        pytest.param(
            "def run(rank):\n    " + LOOP + "if world_size > 1:\n    spawn(run)\nelse:\n    run(0)\n",
            "",
            id="spawned for several, called for one",
        ),
        pytest.param("if rank == 1:\n    " + LOOP, "", id="another rank"),
        pytest.param("if epoch == 0:\n    " + LOOP, "", id="another condition"),
        pytest.param("if rank == 0:\n    print(1)\nfor b in val_loader:\n    pass\n", "", id="beside the loop"),
    ],
)
def test_guards(text: str, condition: str) -> None:
    assert guard(text) == condition


def test_a_guard_on_one_of_two_paths_is_told() -> None:
    found = site(HEAD + LOADER + "def run():\n    " + LOOP + "if rank == 0:\n    run()\nrun()\n").evaluation
    assert found.sometimes is not None
    assert found.sometimes.text.strip() == "if rank == 0:"


def reduction(text: str) -> str:
    found = site(HEAD + LOADER + text).evaluation.reduction
    return found.text.strip() if found else ""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("for b in val_loader:\n    dist.all_reduce(n)\n", "dist.all_reduce(n)", id="in the loop"),
        pytest.param(
            "def run():\n    for b in val_loader:\n        pass\n    dist.all_gather(o, n)\n",
            "dist.all_gather(o, n)",
            id="after",
        ),
        pytest.param(
            "def total(n):\n    dist.all_reduce(n)\ndef run():\n    for b in val_loader:\n        pass\n    total(n)\n",
            "dist.all_reduce(n)",
            id="in a helper of the file",
        ),
        pytest.param(
            "def run():\n    for b in val_loader:\n        pass\n    return n\nn = run()\ndist.all_reduce(n)\n",
            "dist.all_reduce(n)",
            id="by the caller",
        ),
        pytest.param("for b in val_loader:\n    reduce_tensor(n)\n", "reduce_tensor(n)", id="a helper's usual name"),
        pytest.param("for b in val_loader:\n    dist.reduce(n, 0)\n", "dist.reduce(n, 0)", id="reduce of torch"),
        pytest.param("for b in val_loader:\n    functools.reduce(f, b)\n", "", id="another reduce"),
        pytest.param("for b in val_loader:\n    x.gather(1, i)\n", "", id="a tensor's gather"),
        pytest.param("for b in val_loader:\n    pass\n", "", id="none"),
    ],
)
def test_reductions(text: str, line: str) -> None:
    assert reduction(text) == line


def test_a_reduction_before_the_evaluation_is_not_its_own() -> None:
    assert (
        reduction(
            "def run():\n    for b in val_loader:\n        pass\n    return n\n"
            "def main():\n    dist.all_reduce(loss)\n    run()\n"
        )
        == ""
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param(
            "hits = torch.zeros(len(val_set))\n"
            "for idx, b in val_loader:\n    hits[idx] = model(b) == 1\ndist.all_reduce(hits, op=dist.ReduceOp.MAX)\n",
            "hits[idx] = model(b) == 1",
            id="placed by index, combined by MAX",
        ),
        pytest.param(
            "for idx, b in val_loader:\n    hits[idx] = model(b)\ndist.all_reduce(hits)\n",
            "",
            id="placed by index, summed",
        ),
        pytest.param(
            "for b in val_loader:\n    p.append(model(b))\ndist.all_gather(o, p)\n"
            "p = [x for xs in zip(*o) for x in xs]\np = p[: len(val_set)]\n",
            "p = p[: len(val_set)]",
            id="laid in turn, cut at the dataset's length",
        ),
        pytest.param(
            "for b in val_loader:\n    p.append(model(b))\ndist.all_gather(o, p)\n"
            "p = torch.stack(o).transpose(0, 1).flatten()\np = p[: len(val_set)]\n",
            "p = p[: len(val_set)]",
            id="a transposed stack, cut",
        ),
        pytest.param(
            "for b in val_loader:\n    p.append(model(b))\ndist.all_gather(o, p)\np = torch.cat(o)[: len(val_set)]\n",
            "",
            id="joined rank by rank, cut",
        ),
        pytest.param(
            "for idx, b in enumerate(val_loader):\n    hits[idx] = model(b)\n"
            "dist.all_reduce(hits, op=dist.ReduceOp.MAX)\n",
            "",
            id="placed by position in the loader",
        ),
        pytest.param("for b in val_loader:\n    n += 1\ndist.all_reduce(n)\n", "", id="summed"),
        pytest.param(
            "for b in val_loader:\n    p = accelerator.gather_for_metrics(b)\n",
            "p = accelerator.gather_for_metrics(b)",
            id="gathered for metrics",
        ),
    ],
)
def test_why_padding_does_not_reach_the_metric(text: str, line: str) -> None:
    found = site(HEAD + LOADER + text).evaluation.exact
    assert (found.text.strip() if found else "") == line


def test_results_written_in_the_loader_s_order_are_seen() -> None:
    found = site(HEAD + LOADER + 'for b in val_loader:\n    out.write(f"{model(b)}")\n').evaluation.positional
    assert found is not None
    assert found.location.line == 6


MAIN = HEAD + "from engine import evaluate\ndist.init_process_group()\nval_loader = DataLoader(val_set)\n"
ENGINE = "import torch\nimport utils\n@torch.no_grad()\ndef evaluate(loader):\n    for b in loader:\n        n += b\n"
UTILS = (
    "import torch.distributed as dist\ndef total(n):\n    dist.all_reduce(n)\n"
    "class Meter:\n    def update(self, n):\n        self.n += n\n"
    "    def value(self):\n        dist.all_reduce(self.n)\n        return self.n\n"
)


@pytest.mark.parametrize(
    ("engine", "main", "line"),
    [
        pytest.param("    utils.total(n)\n", "evaluate(val_loader)\n", "utils.py:3:5", id="a function of a third file"),
        pytest.param(
            "    meter = utils.Meter()\n    return meter.value()\n",
            "evaluate(val_loader)\n",
            "utils.py:8:9",
            id="a meter",
        ),
        pytest.param(
            "    return n\n", "n = evaluate(val_loader)\ndist.all_reduce(n)\n", "train.py:8:1", id="the caller"
        ),
        pytest.param(
            "    return n\n",
            "import utils\nn = evaluate(val_loader)\nutils.total(n)\n",
            "utils.py:3:5",
            id="a function that the caller gives the result",
        ),
        pytest.param(
            "    return n\n", "import utils\nevaluate(val_loader)\nutils.total(loss)\n", "", id="given something else"
        ),
        pytest.param(
            "    import torchmetrics\n    m = torchmetrics.Accuracy().to(0)\n    return m.compute()\n",
            "evaluate(val_loader)\n",
            "engine.py:9:12",
            id="a metric of torchmetrics",
        ),
        pytest.param(
            "    import torchmetrics\n    m = torchmetrics.Accuracy(sync_on_compute=False)\n    return m.compute()\n",
            "evaluate(val_loader)\n",
            "",
            id="one that is told not to",
        ),
        pytest.param(
            "    import evaluate as e\n    m = e.load('accuracy')\n    return m.compute()\n",
            "evaluate(val_loader)\n",
            "",
            id="a metric of evaluate sees one process",
        ),
        pytest.param(
            "    import evaluate as e\n    m = e.load('f1', num_process=2, process_id=r)\n    return m.compute()\n",
            "evaluate(val_loader)\n",
            "engine.py:9:12",
            id="one that is told of all",
        ),
    ],
)
def test_a_metric_is_reduced_in_whatever_file(engine: str, main: str, line: str) -> None:
    found = site({"train.py": MAIN + main, "engine.py": ENGINE + engine, "utils.py": UTILS}).evaluation.reduction
    assert str(found.location if found else "") == line


@pytest.mark.parametrize(
    ("main", "guarded", "sometimes"),
    [
        ("if dist.get_rank() == 0:\n    evaluate(val_loader)\n", True, False),
        ("if dist.get_rank() == 0:\n    evaluate(val_loader)\nevaluate(val_loader)\n", False, True),
        ("if dist.get_rank() == 0:\n    evaluate(other)\nevaluate(val_loader)\n", False, False),
        ("def run():\n    evaluate(val_loader)\nif is_main_process():\n    run()\n", True, False),
    ],
)
def test_a_guard_in_the_file_that_evaluates_counts(main: str, guarded: bool, sometimes: bool) -> None:
    found = site({"train.py": MAIN + main, "engine.py": ENGINE}).evaluation
    assert (found.guard is not None, found.sometimes is not None) == (guarded, sometimes)
