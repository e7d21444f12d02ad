"""A mean over one rank's batches is put together from all ranks where the program divides by a number of batches."""

from __future__ import annotations

from pathlib import Path

import pytest
from plans import edited, planned

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Options
from shardfix.config import Asked, load
from shardfix.planning import left_out, make_plan
from shardfix.reading import read_project
from shardfix.staging import stage
from shardfix.vendored import read_vendored

HEAD = (
    "import torch\nfrom accelerate import Accelerator\nfrom torch.utils.data import DataLoader\n"
    "accelerator = Accelerator()\n\n\n"
    "def evaluate(model, val_loader):\n    model.eval()\n    loss_sum, steps, n, preds = 0.0, 0, 0, []\n"
    "    for batch in val_loader:\n        outputs = model(**batch)\n"
)
MAIN = (
    "\n\ndef main(model, val_set):\n    val_loader = DataLoader(val_set, batch_size=4)\n"
    "    model, val_loader = accelerator.prepare(model, val_loader)\n    print(evaluate(model, val_loader))\n"
)
SUM = "        loss_sum += outputs.loss.item()\n        steps += 1\n"
GATHER = "        preds.append(accelerator.gather(outputs.logits))\n"
MEAN = "    return loss_sum / steps, preds\n"
SAFE, UNSAFE = Options(sanitizer="off"), Options(sanitizer="off", unsafe=True)


def program(loop: str, rest: str = MEAN, main: str = MAIN) -> str:
    return HEAD + loop + rest + main


def test_what_is_gathered_is_mended_as_safe_and_the_own_mean_is_told_of() -> None:
    text = program(SUM + GATHER)
    (change,) = planned(text).changes

    assert (change.codes, change.tier) == (("SHD507",), "safe")
    assert change.consequences[1] == (
        "`loss_sum` (line 12), `steps` (line 13) stay each rank's own; "
        "--unsafe averages over the batches of all ranks (SHD509)"
    )
    assert "reduced" not in edited(text)


def test_both_are_mended_with_unsafe() -> None:
    text = program(SUM + GATHER)
    (change,) = planned(text, UNSAFE).changes
    after = edited(text, UNSAFE)

    assert (change.codes, change.tier) == (("SHD509", "SHD507"), "unsafe")
    assert "`loss_sum` adds up one value for each batch" in change.reason
    assert "prepare() repeats to fill the last batches" in change.reason
    assert "    loss_sum, steps = reduced(loss_sum, steps)\n    return loss_sum / steps, preds\n" in after
    assert "accelerator.gather_for_metrics(outputs.logits)" in after
    assert planned(after, UNSAFE).changes == ()


def test_the_gather_alone_where_the_mean_is_not_selected() -> None:
    options = Options(sanitizer="off", unsafe=True, ignore=frozenset({"SHD509"}))
    (change,) = planned(program(SUM + GATHER), options).changes

    assert (change.codes, change.tier) == (("SHD507",), "safe")


def test_the_gather_alone_where_the_mean_is_kept() -> None:
    kept = MAIN.replace("batch_size=4)\n", "batch_size=4)  # shardfix: keep[SHD509] as published\n")
    found = planned(program(SUM + GATHER, main=kept), UNSAFE)

    assert [(c.codes, c.tier) for c in found.changes] == [(("SHD507",), "safe")]
    assert [s.used for s in found.suppressions] == [True]


def test_nothing_where_both_are_kept() -> None:
    kept = MAIN.replace("batch_size=4)\n", "batch_size=4)  # shardfix: keep[SHD507, SHD509] as published\n")
    assert planned(program(SUM + GATHER, main=kept), UNSAFE).changes == ()


def test_the_gather_alone_where_the_mean_was_refuted_or_failed_a_gate() -> None:
    project = link({"train.py": parse("train.py", program(SUM + GATHER))})
    (whole,) = make_plan(project, ("train.py",), UNSAFE).changes
    (part,) = make_plan(project, ("train.py",), UNSAFE, without=left_out(whole)).changes

    assert (whole.codes, part.codes, part.tier) == (("SHD509", "SHD507"), ("SHD507",), "safe")
    assert make_plan(project, ("train.py",), UNSAFE, without=left_out(whole) | left_out(part)).changes == ()


def test_a_second_run_does_not_take_the_part_for_unfinished(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(program(SUM + GATHER))
    reading = read_project([tmp_path], load(tmp_path, Asked(unsafe=True, sanitizer="off")))
    (whole,) = stage(reading, read_vendored(), frozenset()).plan.changes
    staged = stage(reading, read_vendored(), left_out(whole))

    assert [c.codes for c in staged.plan.changes] == [("SHD507",)]
    assert "gather_for_metrics(outputs.logits)" in staged.texts["train.py"]
    assert staged.dropped == ()


def test_a_loop_that_gathers_nothing_else() -> None:
    (report,) = planned(program(SUM)).reports
    assert (report.changes, [f.code for f in report.findings]) == ((), ["SHD504"])

    (report,) = planned(program(SUM), UNSAFE).reports
    assert ([c.codes for c in report.changes], report.findings) == ([("SHD509",)], ())


def test_a_loop_that_gathers_rightly_is_right_but_for_its_mean() -> None:
    text = program(SUM + GATHER.replace("gather(", "gather_for_metrics("))
    (report,) = planned(text).reports

    assert (report.verdict, report.changes) == ("right", ())
    assert report.why == (
        "prepare() shards it; `loss_sum` (line 12), `steps` (line 13) stay each rank's own; "
        "--unsafe averages over the batches of all ranks (SHD509)"
    )
    assert [c.codes for c in planned(text, UNSAFE).changes] == [("SHD509",)]


@pytest.mark.parametrize(
    ("loop", "rest"),
    [
        pytest.param(SUM, "    return loss_sum, preds\n", id="a sum that nothing divides"),
        pytest.param(SUM, "    print(loss_sum)\n" + MEAN, id="a sum that is shown too"),
        pytest.param(SUM, "    return loss_sum / len(preds)\n", id="by the length of one rank's list"),
        pytest.param(SUM, "    return loss_sum / (steps * accelerator.num_processes)\n", id="by the processes"),
        pytest.param(
            "        loss_sum += outputs.loss.item() * len(batch)\n        n += len(batch)\n",
            "    return loss_sum / n\n",
            id="sums over samples, which would count repeated ones",
        ),
        pytest.param(
            "        loss_sum += accelerator.gather(outputs.loss).mean().item()\n        steps += 1\n",
            MEAN,
            id="of all ranks already",
        ),
        pytest.param(
            "        loss = accelerator.gather(outputs.loss)\n        mean = loss.mean()\n"
            "        loss_sum += mean.item()\n        steps += 1\n",
            MEAN,
            id="of all ranks already, by names",
        ),
        pytest.param(
            SUM,
            "    loss_sum = accelerator.reduce(torch.tensor(loss_sum)).item()\n" + MEAN,
            id="of all ranks behind the loop",
        ),
        pytest.param(
            "        if outputs.loss > 0:\n            loss_sum += outputs.loss.item()\n            steps += 1\n",
            MEAN,
            id="for some batches",
        ),
        pytest.param(SUM + "        if loss_sum > 9:\n            break\n", MEAN, id="the running sum decides"),
        pytest.param(SUM + "        if outputs.done:\n            return None\n", MEAN, id="a way out"),
        pytest.param("        loss_sum -= outputs.loss.item()\n        steps += 1\n", MEAN, id="taken away"),
        pytest.param(
            "        loss_sum += outputs.loss.item()\n        steps += 2\n        steps = 1\n", MEAN, id="set anew"
        ),
    ],
)
def test_other_sums_are_left_alone(loop: str, rest: str) -> None:
    text = program(loop, rest)

    assert all("SHD509" not in change.codes for change in planned(text, UNSAFE).changes)
    assert all("SHD509" not in report.why for report in planned(text).reports)


@pytest.mark.parametrize(
    "main",
    [
        pytest.param(
            MAIN.replace("    print(ev", "    if accelerator.is_main_process:\n        print(ev"), id="one rank alone"
        ),
        pytest.param(
            MAIN + "    if accelerator.is_main_process:\n        evaluate(model, DataLoader(val_set, batch_size=2))\n",
            id="one rank alone with another loader",
        ),
        pytest.param(
            MAIN.replace("    print(ev", "    if len(val_set[accelerator.process_index]):\n        print(ev"), id="some"
        ),
    ],
)
def test_no_rank_is_made_to_wait_for_those_that_do_not_come(main: str) -> None:
    assert all("SHD509" not in change.codes for change in planned(program(SUM, main=main), UNSAFE).changes)
