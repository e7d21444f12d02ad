"""A reduced metric waits for every rank: an evaluation that some may not come to is not put together unasked."""

from __future__ import annotations

import pytest
from plans import codes, planned

from shardfix.analysis.model import Options

HEAD = (
    "import argparse\nimport os\nimport time\nimport torch\nimport torch.distributed as dist\n"
    "from torch.utils.data import DataLoader\n"
    "def validate(model, loader):\n"
    "    model.eval()\n"
    "    n = 0\n"
    "    with torch.no_grad():\n"
    "        for x, y in loader:\n"
    "            n += (model(x).argmax(1) == y).sum().item()\n"
    "    return n\n"
    "dist.init_process_group()\n"
    "rank = dist.get_rank()\n"
    "args = argparse.ArgumentParser().parse_args()\n"
    "val_loader = DataLoader(val_set, batch_size=4)\n"
)
LOGGER = "def make_logger(rank):\n    if rank == 0:\n        return open('log')\nlogger = make_logger(rank)\n"
EPOCHS = "best, bad, last = 0, 0, time.time()\nfor epoch in range(args.epochs):\n    train_loss = train(model)\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("validate(model, val_loader)\n", id="plain"),
        pytest.param(
            EPOCHS + "    if epoch % args.eval_every == 0:\n        validate(model, val_loader)\n", id="some epochs"
        ),
        pytest.param("if args.evaluate:\n    validate(model, val_loader)\n", id="a setting"),
        pytest.param("if val_loader is not None:\n    validate(model, val_loader)\n", id="the loader"),
        pytest.param("if hasattr(args, 'val') and args.val:\n    validate(model, val_loader)\n", id="hasattr"),
        pytest.param(
            "step = 0\nfor batch in train_loader:\n    step += 1\n    if step % 100 == 0:\n"
            "        validate(model, val_loader)\n",
            id="some steps",
        ),
        pytest.param(
            EPOCHS + "    n = validate(model, val_loader)\n    if n > best:\n        best, bad = n, 0\n    else:\n"
            "        bad += 1\n    if bad > args.patience:\n        break\n",
            id="patience of the metric",
        ),
        pytest.param(
            "def main(args):\n    if args.evaluate:\n        validate(model, val_loader)\nmain(args)\n", id="main"
        ),
        pytest.param(
            "for phase in ['train', 'val']:\n    if phase == 'val':\n        validate(model, val_loader)\n", id="phase"
        ),
        pytest.param("if dist.get_world_size() > 1:\n    validate(model, val_loader)\n", id="the world"),
        pytest.param(
            "import vits\nif args.arch not in vits.__dict__.keys():\n    raise SystemExit\n"
            "validate(model, val_loader)\n",
            id="what a module holds",
        ),
        pytest.param(
            "import vits\nif args.arch not in vits.__dict__.keys():\n    exit()\nvalidate(model, val_loader)\n",
            id="what a module holds, or the end",
        ),
        pytest.param("DO_EVAL = True\nif DO_EVAL:\n    validate(model, val_loader)\n", id="a constant"),
    ],
)
def test_a_condition_that_is_alike_on_all_ranks(text: str) -> None:
    (change,) = planned(HEAD + text).changes
    assert (change.codes, change.tier) == (("SHD305",), "safe")


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        pytest.param(LOGGER + "if logger:\n    validate(model, val_loader)\n", "logger", id="made on one rank"),
        pytest.param(
            EPOCHS + "    if time.time() - last > 10:\n        validate(model, val_loader)\n",
            "time.time() - last > 10",
            id="the clock",
        ),
        pytest.param(
            EPOCHS + "    if train_loss < best:\n        validate(model, val_loader)\n",
            "train_loss < best",
            id="its loss",
        ),
        pytest.param(
            EPOCHS + "    bad += train_loss > 0\n    if bad > 2:\n        break\n    validate(model, val_loader)\n",
            "bad > 2",
            id="patience of its loss",
        ),
        pytest.param(
            "def maybe(model, now):\n    if now:\n        return validate(model, val_loader)\nmaybe(model, shall())\n",
            "now",
            id="what a caller gives",
        ),
        pytest.param(
            "def worker(proc, world):\n    if proc < 1:\n        validate(model, val_loader)\n"
            "torch.multiprocessing.spawn(worker, args=(2,))\n",
            "proc < 1",
            id="the number of a spawned process",
        ),
        pytest.param("from tools import *\nif MAIN:\n    validate(model, val_loader)\n", "MAIN", id="a star import"),
        pytest.param("if trainer.ready:\n    validate(model, val_loader)\n", "trainer.ready", id="an object's state"),
    ],
)
def test_a_condition_that_may_differ_between_ranks(text: str, condition: str) -> None:
    text = HEAD.replace("args = ", "trainer = Trainer()\nargs = ") + text
    assert codes(text) == [["SHD904"]]
    (change,) = planned(text, Options(sanitizer="off", unsafe=True)).changes

    assert change.tier == "unsafe"
    assert f"every rank must come here, and `{condition}` is not seen to be alike on all" in change.reason


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "writer = Writer() if rank == 0 else None\nif writer is not None:\n    validate(model, val_loader)\n",
            id="held",
        ),
        pytest.param(
            "writer = Writer() if rank == 0 else None\nif writer:\n    validate(model, val_loader)\n",
            id="held, by truth",
        ),
        pytest.param("n = rank == 0 and validate(model, val_loader)\n", id="and"),
        pytest.param("if os.environ.get('RANK', '0') == '0':\n    validate(model, val_loader)\n", id="environment"),
        pytest.param("if os.environ['LOCAL_RANK'] == '0':\n    validate(model, val_loader)\n", id="local rank"),
    ],
)
def test_an_evaluation_on_one_rank_by_another_name(text: str) -> None:
    found = planned(HEAD + text, Options(sanitizer="off"))
    asked = planned(HEAD + text, Options(sanitizer="off", unsafe=True))
    assert found.changes == ()
    assert "only one rank evaluates" in found.reports[0].why
    assert {code for change in asked.changes for code in change.codes} <= {"SHD306"}  # which takes the condition away


LOOP = "        for x, y in loader:\n            n += (model(x).argmax(1) == y).sum().item()\n"
CAUGHT = "    {0}\n        for x, y in loader:\n            n += (model(x).argmax(1) == y).sum().item()\n{1}"
GOES_ON = "    except RuntimeError:\n        print('stopped')\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(HEAD.replace(f"    with torch.no_grad():\n{LOOP}", CAUGHT.format("try:", GOES_ON)), id="loop"),
        pytest.param(
            "import contextlib\n"
            + HEAD.replace("with torch.no_grad():", "with contextlib.suppress(RuntimeError), torch.no_grad():"),
            id="suppressed",
        ),
        pytest.param(HEAD + "def main():\n    try:\n        validate(model, val_loader)\n" + GOES_ON, id="caller"),
    ],
)
def test_an_exception_that_one_rank_gets_over(text: str) -> None:
    text += "main()\n" if "def main" in text else "validate(model, val_loader)\n"
    assert planned(text).changes == ()
    (change,) = planned(text, Options(unsafe=True)).changes
    assert "what is raised on one rank is caught here, and that rank goes on while the others wait" in change.reason


@pytest.mark.parametrize(
    "handler",
    [
        pytest.param("    finally:\n        print('done')\n", id="none"),
        pytest.param("    except RuntimeError:\n        print('stopped')\n        raise\n", id="raised again"),
        pytest.param("    except KeyboardInterrupt:\n        print('stopped')\n", id="an interrupt"),
        pytest.param("    except Exception as error:\n        print(error)\n        exit(1)\n", id="the end"),
    ],
)
def test_an_exception_that_ends_the_program(handler: str) -> None:
    text = HEAD + "def main():\n    try:\n        validate(model, val_loader)\n" + handler + "main()\n"
    (change,) = planned(text).changes
    assert change.tier == "safe"
