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


CALL = "validate(model, val_loader)\n"


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        pytest.param("match rank:\n    case 0:\n        validate(model, val_loader)\n", "rank", id="match"),
        pytest.param("n = [validate(model, val_loader) for _ in 'ab' if rank == 0]\n", "rank == 0", id="comprehension"),
        pytest.param("for _ in range(1 - min(rank, 1)):\n    " + CALL, "range(1 - min(rank, 1))", id="how often"),
        pytest.param(
            "bar = range(1) if rank == 0 else range(0)\nfor _ in bar:\n    " + CALL, "bar", id="how often, by a name"
        ),
        pytest.param("for task in ['a', 'b'][rank::2]:\n    " + CALL, "['a', 'b'][rank::2]", id="tasks shared out"),
        pytest.param("FIRST = rank in (0, 8)\nif FIRST:\n    " + CALL, "FIRST", id="a name"),
        pytest.param(
            "class Trainer:\n    @property\n    def accuracy(self):\n        return validate(model, val_loader)\n"
            "trainer = Trainer()\nif rank == 0:\n    print(trainer.accuracy)\n",
            "rank == 0",
            id="a property",
        ),
        pytest.param(
            "class Evaluator:\n    def __call__(self):\n        return validate(model, val_loader)\n"
            "evaluator = Evaluator()\nif rank == 0:\n    evaluator()\n",
            "rank == 0",
            id="an object that is called",
        ),
        pytest.param(
            "evaluate = lambda: validate(model, val_loader)\nif rank == 0:\n    evaluate()\n",
            "rank == 0",
            id="a lambda",
        ),
    ],
)
def test_where_not_all_ranks_come_nothing_is_changed_even_if_asked_for(text: str, asked: str) -> None:
    found = planned(HEAD + text, Options(sanitizer="off", unsafe=True))
    assert found.changes == ()
    assert f"`{asked}` goes by the rank: not every rank comes here, or as often" in found.reports[0].why


SETTING = "if args.do_eval:\n    validate(model, val_loader)\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("setattr(args, 'do_eval', rank == 0)\n" + SETTING, id="setattr"),
        pytest.param("args = argparse.Namespace(do_eval=rank == 0)\n" + SETTING, id="keyword"),
        pytest.param("vars(args)['do_eval'] = rank == 0\n" + SETTING, id="vars"),
        pytest.param("args.__dict__.update(do_eval=rank == 0)\n" + SETTING, id="update"),
        pytest.param("args.do_eval = MAIN = rank == 0\n" + SETTING, id="a store"),
        pytest.param("args = {True: main_args, False: args}[rank == 0]\n" + SETTING, id="other settings"),
        pytest.param("for k, v in [('do_eval', rank == 0)]:\n    setattr(args, k, v)\n" + SETTING, id="any name"),
        pytest.param(
            "def adapt(to, r):\n    if r > 0:\n        to.do_eval = False\nadapt(args, rank)\n" + SETTING,
            id="a function",
        ),
        pytest.param("args.__dict__.update(overrides(rank))\n" + SETTING, id="what a function gives"),
        pytest.param("class Box:\n    args = args\nBox.args.do_eval = rank == 0\n" + SETTING, id="through an object"),
        pytest.param(
            "parser = argparse.ArgumentParser()\n"
            "parser.add_argument('--do-eval', type=int, default=int(os.environ['RANK']) == 0)\n"
            "args = parser.parse_args()\n" + SETTING,
            id="a default of the command line",
        ),
    ],
)
def test_a_setting_that_holds_the_rank(text: str) -> None:
    assert codes(HEAD + text) == [["SHD904"]]
    (change,) = planned(HEAD + text, Options(sanitizer="off", unsafe=True)).changes
    assert change.tier == "unsafe"
    assert "every rank must come here, and `args.do_eval` is not seen to be alike on all" in change.reason


STOPPER = (
    "class Stopper:\n    def __init__(self, patience):\n        self.patience = patience\n        self.bad = 0\n"
    "        self.best = None\n        self.stop = False\n"
    "    def __call__(self, score):\n        if self.best is None or score > self.best:\n"
    "            self.best = score\n"
    "            self.bad = 0\n        else:\n            self.bad += 1\n            if self.bad >= self.patience:\n"
    "                self.stop = True\nstopper = Stopper(3)\n"
)
HANDED = "def run():\n    validate(model, val_loader)\n"
METHOD = "class Trainer:\n    def run(self):\n        validate(model, val_loader)\ntrainer = Trainer()\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param(
            "from accelerate.utils import main_process_first\nwith main_process_first():\n    " + CALL,
            "what `with main_process_first()` does on each rank is not known: some may wait in it",
            id="a context of a library",
        ),
        pytest.param(
            "class First:\n    def __enter__(self):\n        rank and dist.barrier()\n"
            "    def __exit__(self, *why):\n        rank or dist.barrier()\nwith First():\n    " + CALL,
            "what `with First()` does on each rank is not known: some may wait in it",
            id="a context in which ranks wait",
        ),
        pytest.param(
            "class Quiet:\n    def __enter__(self):\n        pass\n"
            "    def __exit__(self, *why):\n        return True\nwith Quiet():\n    " + CALL,
            "what `with Quiet()` does on each rank is not known",
            id="a context that gets over exceptions",
        ),
        pytest.param(
            METHOD + "getattr(trainer, 'run' if rank == 0 else 'wait')()\n",
            "`run` may be asked for by its name here, and what runs it is not seen",
            id="getattr",
        ),
        pytest.param(
            "def of_one(cls):\n    cls.run = lambda self: None\n    return cls\n@of_one\n" + METHOD + "trainer.run()\n",
            "whether `@of_one` leaves the methods as they are is not known",
            id="a decorator of the class",
        ),
        pytest.param(
            METHOD + "Trainer.run = guarded(Trainer.run)\ntrainer.run()\n",
            "`run` is handed on here, and what runs it then is not seen",
            id="another method in its place",
        ),
        pytest.param(
            "from library import once\n@once\n" + HANDED + "run()\n",
            "whether `@once` runs the function on every rank is not known",
            id="a decorator of a library",
        ),
        pytest.param(
            "def sometimes(f):\n    def inner():\n        if shall():\n            f()\n    return inner\n@sometimes\n"
            + HANDED
            + "run()\n",
            "whether `@sometimes` runs the function on every rank is not known",
            id="a decorator of the project",
        ),
        pytest.param(
            "try:\n    if rank:\n        raise ImportError\n    import json as logger\n"
            "except ImportError:\n    logger = None\nif logger:\n    " + CALL,
            "every rank must come here, and `logger` is not seen to be alike on all",
            id="an import that fails",
        ),
        pytest.param(
            "def main():\n    try:\n        assert shall()\n        validate(model, val_loader)\n"
            "    except AssertionError:\n        pass\nmain()\n",
            "what is raised on one rank is caught here, and that rank goes on",
            id="an assertion that is caught",
        ),
        pytest.param(
            "def main():\n    try:\n        prepare()\n    except OSError:\n        return\n"
            "    validate(model, val_loader)\nmain()\n",
            "where an exception is raised on one rank only, that rank goes no further here",
            id="an exception before it",
        ),
        pytest.param(
            "todo = []\nif rank == 0:\n    todo.append('val')\nfor split in todo:\n    " + CALL,
            "every rank must come here as often, and `todo` is not seen to be as long on all",
            id="a list that one rank fills",
        ),
        pytest.param(
            "todo = {}\nif time.time() > 9:\n    todo['val'] = 1\nif todo:\n    " + CALL,
            "every rank must come here, and `todo` is not seen to be alike on all",
            id="a dict that some fill",
        ),
        pytest.param(
            "def runs():\n    yield validate(model, val_loader)\nfor n in runs():\n    if rank == 0:\n        break\n",
            "how far each rank takes the generator `runs` is not seen",
            id="a generator",
        ),
        pytest.param(
            "n = next(validate(model, val_loader) for _ in range(2))\n",
            "how much of a generator each rank takes is not seen",
            id="a generator expression",
        ),
        pytest.param(
            "import asyncio\nasync " + HANDED + "asyncio.run(run())\n", "when `run` is run, being async", id="async"
        ),
        pytest.param(
            "import threading\n" + HANDED + "threading.Thread(target=run).start()\n",
            "`run` is handed on here, and what runs it then is not seen",
            id="a thread",
        ),
        pytest.param(
            HANDED + "hooks = []\nhooks.append(run)\n",
            "`run` is handed on here, and what runs it then is not seen",
            id="a list of functions",
        ),
        pytest.param(
            "make = Lazy(lambda: validate(model, val_loader))\n", "what calls this lambda is not seen", id="a lambda"
        ),
        pytest.param(HANDED, "nothing in the project is seen to call `run`", id="nobody calls it"),
        pytest.param(
            "from lightning import Callback\nclass Evaluate(Callback):\n    def on_epoch_end(self):\n"
            "        validate(model, val_loader)\n",
            "nothing in the project is seen to call `on_epoch_end`",
            id="a library calls it",
        ),
        pytest.param(
            METHOD + "def fit(other):\n    if shall():\n        other.run()\nfit(trainers[0])\n",
            "every rank must come here, and `shall()` is not seen to be alike on all",
            id="a method of an object that is not seen",
        ),
        pytest.param(
            "if rank:\n    dist.barrier()\nn = validate(model, val_loader)\nif rank == 0:\n    dist.barrier()\n",
            "ranks wait for one another here, and the others come to the evaluation first",
            id="one rank after the other",
        ),
        pytest.param(
            "names = list({'a', 'b'})\nif names[0] == 'a':\n    " + CALL,
            "every rank must come here, and `names[0] == 'a'` is not seen to be alike on all",
            id="the order of a set",
        ),
        pytest.param(
            "class Wait:\n    def run(self):\n        pass\n" + METHOD + "(Trainer if rank == 0 else Wait)().run()\n",
            "what `(Trainer if rank == 0 else Wait)().run` stands for here is not seen to be the same on all ranks",
            id="another class on each rank",
        ),
        pytest.param(
            "if rank == 0:\n    def run():\n        validate(model, val_loader)\n"
            "else:\n    def run():\n        pass\nrun()\n",
            "what `run` stands for here is not seen to be the same on all ranks",
            id="another function on each rank",
        ),
        pytest.param(
            "loaders = {'val': val_loader}\nif rank:\n    del loaders['val']\nfor loader in loaders.values():\n"
            "    validate(model, loader)\n",
            "every rank must come here as often, and `loaders.values()` is not seen to be as long on all",
            id="taken away on one rank",
        ),
        pytest.param(
            "import sys\ndef of_one(r):\n    if r:\n        sys.exit(0)\nof_one(rank)\nvalidate(model, val_loader)\n",
            "every rank must come here, and `r` is not seen to be alike on all",
            id="a program that ends in a function",
        ),
        pytest.param(
            "def wait(now):\n    if now:\n        dist.barrier()\nwait(rank)\n"
            "n = validate(model, val_loader)\nwait(not rank)\n",
            "ranks wait for one another here, and the others come to the evaluation first",
            id="one rank after the other, by a function",
        ),
        pytest.param(
            "def main():\n    go = True\n    def stop():\n        nonlocal go\n        go = False\n"
            "    if rank:\n        stop()\n    if go:\n        validate(model, val_loader)\nmain()\n",
            "every rank must come here, and `go` is not seen to be alike on all",
            id="a name that a function within sets",
        ),
        pytest.param(
            "train_loader = Batches(val_set, 4 + rank)\nfor batch in train_loader:\n    " + CALL,
            "every rank must come here as often, and `train_loader` is not seen to be as long on all",
            id="a loader by the rank",
        ),
        pytest.param(
            STOPPER + EPOCHS + "    stopper(validate(model, val_loader))\n    if rank:\n        stopper.stop = True\n"
            "    if stopper.stop:\n        break\n",
            "every rank must come here, and `stopper.stop` is not seen to be alike on all",
            id="an object told from outside",
        ),
        pytest.param(
            STOPPER
            + EPOCHS
            + "    validate(model, val_loader)\n    stopper(train_loss)\n    if stopper.stop:\n        break\n",
            "every rank must come here, and `stopper.stop` is not seen to be alike on all",
            id="an object told of its own loss",
        ),
        pytest.param(
            "class Runs:\n    names = []\nif rank == 0:\n    Runs.names.append('val')\nfor name in Runs.names:\n    "
            + CALL,
            "every rank must come here as often, and `Runs.names` is not seen to be as long on all",
            id="a list that an object holds",
        ),
        pytest.param(
            "class Few:\n    def __len__(self):\n        return 1 - rank\nfew = Few()\nif few:\n    " + CALL,
            "every rank must come here, and `few` is not seen to be alike on all",
            id="an object that says how true it is",
        ),
        pytest.param(
            "def there(r):\n    try:\n        open(f'part{r}')\n    except FileNotFoundError:\n        return False\n"
            "    return True\nif there(rank):\n    " + CALL,
            "every rank must come here, and `there(rank)` is not seen to be alike on all",
            id="a file of each rank",
        ),
        pytest.param(
            "box = Box()\nif rank == 0:\n    box.go = 1\nif hasattr(box, 'go'):\n    " + CALL,
            "every rank must come here, and `hasattr(box, 'go')` is not seen to be alike on all",
            id="an attribute that one rank sets",
        ),
        pytest.param(
            "if rank == 0:\n    os.environ['GO'] = '1'\nif os.environ.get('GO'):\n    " + CALL,
            "every rank must come here, and `os.environ.get('GO')` is not seen to be alike on all",
            id="a variable that one rank sets",
        ),
        pytest.param(
            "todo = [None]\ndist.scatter_object_list(todo, [[1], [1, 2]])\nfor task in todo[0]:\n    " + CALL,
            "every rank must come here as often, and `todo[0]` is not seen to be as long on all",
            id="what is dealt out",
        ),
        pytest.param(
            "def launched(f):\n    if rank == 0:\n        f()\n" + HANDED + "launched(run)\n",
            "`run` is handed on here, and what runs it then is not seen",
            id="a function that chooses",
        ),
        pytest.param(
            "def validated():\n    t = time.time()\n    return validate(model, val_loader), time.time() - t\n"
            "for epoch in range(9):\n    n, took = validated()\n    if took > 60:\n        break\n",
            "every rank must come here, and `took > 60` is not seen to be alike on all",
            id="how long it took",
        ),
    ],
)
def test_what_is_not_known_to_be_taken_alike_by_all_ranks_is_named(text: str, why: str) -> None:
    assert "SHD904" in codes(HEAD + text)[0]
    (change,) = planned(HEAD + text, Options(sanitizer="off", unsafe=True)).changes
    assert change.tier == "unsafe"
    assert why in change.reason


MAIN = "def main(args):\n    for epoch in range(args.epochs):\n        validate(model, val_loader)\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("if __name__ == '__main__':\n    " + CALL, id="the main module"),
        pytest.param(MAIN + "main(args)\n", id="main of settings"),
        pytest.param(MAIN.replace("args", "cfg").replace("def main", "@hydra.main()\ndef main"), id="hydra"),
        pytest.param("import fire\n" + MAIN + "fire.Fire(main)\n", id="fire"),
        pytest.param(
            "import torch.multiprocessing as mp\ndef worker(proc, args):\n    if args.evaluate:\n"
            "        validate(model, val_loader)\n        return\nif args.spawn:\n"
            "    mp.spawn(worker, nprocs=2, args=(args,))\nelse:\n    worker(args.gpu, args)\n",
            id="spawned",
        ),
        pytest.param(
            EPOCHS + "    stopper(validate(model, val_loader))\n    if stopper.stop:\n        break\n", id="patience"
        ),
        pytest.param(
            EPOCHS + "    if not torch.isfinite(train_loss):\n        exit(1)\n    validate(model, val_loader)\n",
            id="the end of a program that fails",
        ),
        pytest.param(
            "with torch.cuda.amp.autocast(enabled=True), open('log', 'a') as log:\n    " + CALL, id="known contexts"
        ),
        pytest.param(
            "class Timed:\n    def __enter__(self):\n        self.t = time.time()\n"
            "    def __exit__(self, *why):\n        print(time.time() - self.t)\nwith Timed():\n    " + CALL,
            id="a context of the project",
        ),
        pytest.param(
            "try:\n    import wandb\nexcept ImportError:\n    wandb = None\nif wandb is None:\n    " + CALL,
            id="an import that is there or not",
        ),
        pytest.param(
            "class Evaluator:\n    def __call__(self):\n        return validate(model, val_loader)\n"
            "evaluator = Evaluator()\nevaluator()\n",
            id="an object that is called",
        ),
        pytest.param(METHOD + "trainer.run()\n", id="a method"),
        pytest.param("evaluate = lambda: validate(model, val_loader)\nevaluate()\n", id="a lambda"),
        pytest.param(
            "def timed(f):\n    def inner(*a, **k):\n        t = time.time()\n        result = f(*a, **k)\n"
            "        print(time.time() - t)\n        return result\n    return inner\n@timed\n" + HANDED + "run()\n",
            id="a decorator that calls",
        ),
        pytest.param("n = [validate(model, val_loader) for _ in range(args.runs)]\n", id="a comprehension"),
        pytest.param("n = sum(validate(model, val_loader) for _ in range(3))\n", id="a generator that is taken whole"),
        pytest.param(
            "start = 0\nif args.resume and os.path.isfile(args.resume):\n"
            "    start = torch.load(args.resume, map_location=f'cuda:{rank}')['epoch']\n"
            "for epoch in range(start, args.epochs):\n    " + CALL,
            id="resumed",
        ),
        pytest.param(
            EPOCHS + "    stop = torch.tensor(float(train_loss > 9))\n    dist.all_reduce(stop)\n    if stop > 0:\n"
            "        break\n    validate(model, val_loader)\n",
            id="agreed upon",
        ),
        pytest.param(
            "history = []\nfor epoch in range(9):\n    history.append(validate(model, val_loader))\n"
            "    if len(history) > 2 and history[-1] < history[-2]:\n        break\n",
            id="its own history",
        ),
        pytest.param(
            "import click\n@click.command()\n@click.option('--runs', default=2)\ndef run(runs):\n"
            "    for _ in range(runs):\n        validate(model, val_loader)\nrun()\n",
            id="a command",
        ),
        pytest.param(
            "import torch.multiprocessing as mp\ndef work(proc, world, often):\n    for _ in range(often):\n"
            "        validate(model, val_loader)\nfor r in range(2):\n"
            "    mp.Process(target=work, args=(r, 2, 3)).start()\n",
            id="a process for each rank",
        ),
        pytest.param(
            "import torch.multiprocessing as mp\ndef work(proc):\n    validate(model, val_loader)\n"
            "def launched(f, n):\n    mp.spawn(f, nprocs=n)\nlaunched(work, 2)\n",
            id="a launcher of the project",
        ),
        pytest.param(
            "import submitit\n" + MAIN + "class Job:\n    def __init__(self, args):\n        self.args = args\n"
            "    def __call__(self):\n        main(self.args)\nsubmitit.AutoExecutor('log').submit(Job(args))\n",
            id="submitit",
        ),
        pytest.param(
            "ema = None\nif args.ema:\n    ema = Model()\nif ema:\n    validate(ema, val_loader)\n",
            id="an object or none",
        ),
        pytest.param(
            "class Resumed:\n    def __init__(self):\n        self.start = 0\n        self.load()\n"
            "    def load(self):\n        try:\n            state = torch.load(args.snapshot)\n"
            "        except FileNotFoundError:\n            return\n        self.start = state['epoch']\n"
            "    def run(self):\n        for epoch in range(self.start, 9):\n"
            "            validate(model, val_loader)\nResumed().run()\n",
            id="resumed where there is a file",
        ),
        pytest.param("match args.mode:\n    case 'eval':\n        validate(model, val_loader)\n", id="match"),
        pytest.param(
            "if rank == 0:\n    print('begins')\nn = validate(model, val_loader)\nif rank == 0:\n    print(n)\n",
            id="what one rank says",
        ),
    ],
)
def test_a_way_that_all_ranks_are_seen_to_come(text: str) -> None:
    (change,) = planned("import hydra\n" + HEAD + STOPPER + text).changes
    assert (change.codes, change.tier) == (("SHD305",), "safe")
