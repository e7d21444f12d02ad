"""A loader's role is what all of its loops do and all of its callers ask for; where these disagree, none is shown."""

from __future__ import annotations

import pytest
from loaders import site

from shardfix.analysis.loops.spoken import role_of_name

HEAD = "import torch\nimport torch.distributed as dist\nfrom torch.utils.data import DataLoader\n"


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("train_loader", "train"),
        ("trainLoader", "train"),
        ("trn_dl", "train"),
        ("valDataLoader2", "eval"),
        ("dev_set", "eval"),
        ("testset", "eval"),
        ("loader", "unknown"),
        ("train_test_split", "unknown"),
        ("constraint", "unknown"),
        ("latest", "unknown"),
        ("", "unknown"),
    ],
)
def test_a_name_says_its_role_by_whole_words(name: str, role: str) -> None:
    assert role_of_name(name) == role


@pytest.mark.parametrize(
    ("text", "role"),
    [
        pytest.param("train_loader = DataLoader(ds)\n", "train", id="the variable's name"),
        pytest.param("loader = DataLoader(val_set)\n", "eval", id="the dataset's name"),
        pytest.param("loader = DataLoader(ds, sampler=train_sampler)\n", "train", id="the sampler's name"),
        pytest.param('loaders = {"val": DataLoader(ds)}\n', "eval", id="the key in a dict"),
        pytest.param("f(eval_loader=DataLoader(ds))\n", "eval", id="the keyword's name"),
        pytest.param("x = DataLoader(ds)\nfor b in x:\n    model(b).backward()\n", "train", id="backward"),
        pytest.param("x = DataLoader(ds)\nfor b in x:\n    optimizer.step()\n", "train", id="an optimizer's step"),
        pytest.param("train_loader = DataLoader(test_set) if a else None\n", "train", id="a conditional's name"),
        pytest.param("x = DataLoader(ds)\nfor b in x:\n    scheduler.step()\n", "unknown", id="another step"),
        pytest.param(
            "x = DataLoader(ds)\nwith torch.no_grad():\n    for b in x:\n        model(b)\n",
            "eval",
            id="without gradients",
        ),
        pytest.param(
            "x = DataLoader(ds)\n@torch.no_grad()\ndef f():\n    for b in x:\n        model(b)\n",
            "eval",
            id="decorated",
        ),
        pytest.param(
            "x = DataLoader(ds)\nfor b in x:\n    with torch.inference_mode():\n        model(b)\n",
            "eval",
            id="without gradients inside",
        ),
        pytest.param(
            "def evaluate():\n    for b in DataLoader(ds):\n        model(b)\n", "eval", id="the function's name"
        ),
        pytest.param(
            "test_loader = DataLoader(ds)\nfor b in test_loader:\n    model(b).backward()\n    optimizer.step()\n",
            "unknown",
            id="name and loop disagree",
        ),
        pytest.param("x = DataLoader(ds)\n", "unknown", id="nothing says"),
    ],
)
def test_the_role_of_a_loader(text: str, role: str) -> None:
    assert site(HEAD + text).role == role


STEP = "        loss.backward()\n        optimizer.step()\n"
TRAIN = "def train(loader):\n    for b in loader:\n" + STEP
EVAL = "@torch.no_grad()\ndef check(loader):\n    for b in loader:\n        model(b)\n"
ASKED = "def run(loader, mode):\n    for b in loader:\n        if mode == 'train':\n    " + STEP.replace(
    "\n ", "\n     "
)
MADE = "def make(kind):\n    return DataLoader(data[kind])\n"


@pytest.mark.parametrize(
    ("text", "role", "why"),
    [
        pytest.param(
            MADE + "train_dl = make(0)\nval_dl = make(1)\n",
            "unknown",
            "it serves training in line 6 and evaluation in line 7",
            id="a factory, by what its results are called",
        ),
        pytest.param(
            MADE + "a, b = make('train'), make('val')\n",
            "unknown",
            "it serves training and evaluation in line 6",
            id="a factory asked for both in one line",
        ),
        pytest.param(
            "def make(n, is_train):\n    return DataLoader(data[n])\na = make(0, True)\nb = make(1, is_train=False)\n",
            "unknown",
            "it serves training in line 6 and evaluation in line 7",
            id="a factory, by a flag",
        ),
        pytest.param(
            MADE + TRAIN + EVAL + "train(make(0))\ncheck(make(1))\n",
            "unknown",
            "it serves training in line 7 and evaluation in line 12",
            id="a factory, by the loops",
        ),
        pytest.param(
            MADE + EVAL + "check(make(0))\nsend(make(1))\n",
            "unknown",
            "line 8 evaluates; what line 11 wants it for is not shown",
            id="a factory of which one result goes out of sight",
        ),
        pytest.param(MADE + EVAL + "check(make(0))\ncheck(make(1))\n", "eval", "", id="a factory for evaluation alone"),
        pytest.param(
            "class Task:\n    def get(self, kind):\n        return DataLoader(self.data[kind])\n"
            "    def train_dataloader(self):\n        return self.get('a')\n"
            "    def val_dataloader(self):\n        return self.get('b')\n",
            "unknown",
            "it serves training in line 8 and evaluation in line 10",
            id="a method, by the hooks that call it",
        ),
        pytest.param(
            "loaders = {x: DataLoader(data[x]) for x in ['train', 'val']}\n",
            "unknown",
            "it serves training and evaluation in line 4",
            id="one for each phase",
        ),
        pytest.param(
            "x = DataLoader(ds)\n" + TRAIN + EVAL + "check(x)\ntrain(x)\n",
            "train",
            "",
            id="a first pass without gradients",
        ),
        pytest.param(
            "train_loader = DataLoader(load('a'))\n" + EVAL + "check(train_loader)\n",
            "unknown",
            "it is named for training, and line 7 computes no gradients",
            id="named for training, evaluated",
        ),
        pytest.param(
            "ds = load(split='train')\nx = DataLoader(ds)\n" + EVAL + "check(x)\n",
            "unknown",
            "it is named for training, and line 8 computes no gradients",
            id="made of the training split, evaluated",
        ),
        pytest.param(
            "ds = {'train': a, 'test': b}[split]\nx = DataLoader(ds)\n" + EVAL + "check(x)\n",
            "eval",
            "",
            id="made of either",
        ),
        pytest.param(
            "x = DataLoader(ds, sampler=train_sampler)\n" + EVAL + "check(x)\n", "eval", "", id="its sampler's name"
        ),
        pytest.param(
            "x = DataLoader(ds)\n" + ASKED + "run(x, 'train')\n", "train", "", id="the mode that is asked for"
        ),
        pytest.param("val = DataLoader(ds)\n" + ASKED + "run(val, 'val')\n", "eval", "", id="the other mode"),
        pytest.param(
            "val = DataLoader(ds)\n" + ASKED + "run(val, 'val')\nrun(other, 'train')\n",
            "eval",
            "",
            id="for this loader",
        ),
        pytest.param(
            "x = DataLoader(ds)\n" + ASKED + "for mode in modes:\n    run(x, mode)\n",
            "unknown",
            "line 6 trains or evaluates as it is asked",
            id="a mode that is not seen",
        ),
        pytest.param(
            "def batch(b):\n    loss.backward()\n    optimizer.step()\nx = DataLoader(ds)\nfor b in x:\n    batch(b)\n",
            "train",
            "",
            id="updated in a function that the loop calls",
        ),
        pytest.param(
            "test_loader = DataLoader(ds)\nfor b in test_loader:\n    loss.backward()\n    seen += mask.grad\n",
            "eval",
            "",
            id="gradients that update nothing",
        ),
        pytest.param(
            "x = DataLoader(ds)\nfor b in x:\n    loss.backward()\n", "train", "", id="gradients, nothing said"
        ),
        pytest.param(
            "x = DataLoader(ds)\nfor b in x:\n    p.data.add_(p.grad, alpha=-lr)\n", "train", "", id="updated by hand"
        ),
        pytest.param(
            "import itertools\nx = DataLoader(ds)\nmany = itertools.chain.from_iterable(itertools.repeat(x))\n"
            "with torch.no_grad():\n    for b in many:\n        model(b)\n",
            "eval",
            "",
            id="read through itertools",
        ),
        pytest.param(
            "x = DataLoader(ds)\nx, y = fabric.setup_dataloaders(x, y)\nfor b in x:\n    fabric.backward(model(b))\n",
            "train",
            "",
            id="read as Fabric gives it back",
        ),
        pytest.param(
            "x = DataLoader(ds)\nfor b in x:\n    agent.learn(b)\n    with torch.no_grad():\n        average(model)\n",
            "unknown",
            "",
            id="learns out of sight, and averages without gradients",
        ),
        pytest.param(
            "x = DataLoader(ds)\nfor b in x:\n    with torch.no_grad():\n        self.test_step(b)\n",
            "eval",
            "",
            id="a step of a test",
        ),
        pytest.param("x = DataLoader(ds)\nTextInferencer(x)\n", "eval", "", id="handed to what infers"),
        pytest.param(
            "x = DataLoader(ds)\nconnector.attach(net, train_dataloaders=x)\n", "train", "", id="taken by a keyword"
        ),
        pytest.param(
            "def run(net, val_loader):\n    later(val_loader)\nx = DataLoader(ds)\nrun(net, x)\n",
            "eval",
            "",
            id="taken by a parameter",
        ),
        pytest.param("many = {0: DataLoader(ds)}\nattach(train_dataloaders=many)\n", "train", "", id="taken in a dict"),
        pytest.param(
            "x = DataLoader(ds)\nattach(net, train_dataloaders=x)\nattach(net, val_dataloaders=x)\n",
            "unknown",
            "it serves training in line 5 and evaluation in line 6",
            id="taken by keywords for both",
        ),
        pytest.param(
            "x = DataLoader(ds)\nattach(val_dataloaders=x)\n" + TRAIN + "train(x)\n",
            "train",
            "",
            id="taken by a keyword, and a loop updates the model",
        ),
        pytest.param(
            "train_loader = DataLoader(ds)\nscore(eval_loader=train_loader)\n",
            "train",
            "",
            id="its own name before a keyword's",
        ),
        pytest.param(
            "class Task:\n    def train_dataloader(self):\n        return DataLoader(self.data)\n"
            "    def val_dataloader(self):\n        return self.train_dataloader()\n",
            "unknown",
            "it serves training in line 6 and evaluation in line 8",
            id="a hook that gives back what another does",
        ),
        pytest.param(
            "class Task:\n    def train_dataloader(self):\n        return DataLoader(self.data)\n"
            "    def steps(self):\n        return len(self.train_dataloader())\n",
            "train",
            "",
            id="a hook that something else calls",
        ),
        pytest.param(
            "def make(ds, size):\n    loader_train = DataLoader(ds, size)\n    return loader_train\n"
            "many = [make(ds, cfg.train.batch_size)]\nmany.append(make(val_set, cfg.train.batch_size))\n",
            "unknown",
            "it serves training in line 7 and evaluation in line 8",
            id="a factory that speaks of training and is asked for both",
        ),
        pytest.param(
            "def make(cfg):\n    train_loader = DataLoader(cfg.ds)\n    other = DataLoader2(cfg.ds)\n"
            "    return train_loader, other\na, b = make(cfg.train)\nc, d = make(cfg.eval)\n",
            "train",
            "",
            id="one of two that a factory gives back",
        ),
        pytest.param(
            MADE
            + EVAL
            + "def first(n):\n    check(make(n))\ndef second(n):\n    check(make(n))\n"
            + "first(0)\nfirst(1)\nsecond(2)\n",
            "eval",
            "",
            id="evaluated by those who ask, whoever calls them",
        ),
    ],
)
def test_a_role_is_shown_by_all_uses_or_not_at_all(text: str, role: str, why: str) -> None:
    found = site(HEAD + text).shown_role
    assert (found.role, found.why) == (role, why)


def test_a_loop_without_gradients_over_training_data_evaluates_but_that_is_no_ground_for_an_edit() -> None:
    found = site(HEAD + "train_set = load()\nx = DataLoader(train_set)\n" + EVAL + "check(x)\n").shown_role
    assert (found.role, found.guessed) == ("eval", True)


def test_the_file_is_the_last_that_is_asked() -> None:
    assert site({"eval_model.py": HEAD + "x = DataLoader(ds)\n"}, "eval_model.py").role == "eval"
    assert site({"eval_model.py": HEAD + "x = DataLoader(train_set)\n"}, "eval_model.py").role == "train"


def test_callers_in_other_files_are_asked_too() -> None:
    files = {
        "data.py": HEAD + MADE,
        "train.py": "from data import make\ntrain_loader = make('a')\n",
        "test.py": "from data import make\nimport torch\nwith torch.no_grad():\n    for b in make(0):\n        pass\n",
    }
    assert site(files, "data.py").role == "unknown"
    del files["train.py"]
    assert site(files, "data.py").role == "eval"


READ = "def {name}():\n    for b in DataLoader(ds):\n        assert b\n"


@pytest.mark.parametrize(
    ("path", "text", "role"),
    [
        pytest.param("tests/test_data.py", READ.format(name="test_order"), "unknown", id="a test function"),
        pytest.param("data_test.py", "import pytest\n" + READ.format(name="test_order"), "unknown", id="a test file"),
        pytest.param(
            "tests/test_data.py",
            "import unittest\nclass Data(unittest.TestCase):\n    "
            + READ.format(name="test_order(self)").replace("():", ":").replace("\n", "\n    "),
            "unknown",
            id="a test case",
        ),
        pytest.param("tests/test_data.py", "import pytest\nx = DataLoader(ds)\n", "unknown", id="the file's name"),
        pytest.param(
            "tests/test_data.py", "import pytest\ntest_loader = DataLoader(ds)\n", "eval", id="the loader's own name"
        ),
        pytest.param(
            "tests/test_data.py",
            "import pytest\n" + READ.format(name="evaluate"),
            "eval",
            id="another function of a test file",
        ),
        pytest.param(
            "tests/test_data.py",
            "def test_fit():\n    for b in DataLoader(ds):\n    " + STEP.replace("\n ", "\n     "),
            "train",
            id="a test that trains",
        ),
        pytest.param("tests/test_data.py", READ.format(name="test_dataloader"), "unknown", id="called like a hook"),
        pytest.param(
            "tests/test_data.py",
            "def test_a():\n    x = DataLoader(TestDataset(3))\n",
            "unknown",
            id="a class of the suite",
        ),
        pytest.param(
            "tests/test_data.py",
            "from suite import NetTestCase\nclass A(NetTestCase):\n    def test_inference(self):\n"
            "        x = acc.prepare(DataLoader(ds))\n",
            "unknown",
            id="a method of a test case",
        ),
        pytest.param("net.py", READ.format(name="test_net"), "eval", id="a function of no test"),
        pytest.param("test_net.py", "x = DataLoader(ds)\n", "eval", id="a script of no test"),
        pytest.param(
            "tests/test_net.py",
            "import pytest\nclass Net:\n    def test_dataloader(self):\n        return DataLoader(ds)\n",
            "eval",
            id="a hook of a model in a test file",
        ),
    ],
)
def test_the_word_of_a_test_runner_says_no_role(path: str, text: str, role: str) -> None:
    assert site({path: HEAD + text}, path).role == role


def test_what_takes_a_loader_first_says_more_than_what_gets_it_from_there() -> None:
    files = {
        "t.py": HEAD + "from lib import predict\npredict(DataLoader(d))\n",
        "lib.py": "def predict(loader):\n    train_or_not(loader)\ndef train_or_not(loader):\n    attach(loader)\n",
    }
    assert site(files, "t.py").role == "eval"


@pytest.mark.parametrize(
    ("before", "body", "role", "guessed"),
    [
        ("    model.eval()\n", "keep(model(b))", "eval", True),
        ("    model.train()\n    model.eval()\n", "keep(model(b))", "eval", True),
        ("    model.eval()\n    model.train()\n", "keep(model(b))", "train", False),
        ("", "keep(model(b))", "train", False),
        ("    model.eval()\n", "model(b).backward()", "train", False),
    ],
    ids=["put to evaluation", "in the end", "before training", "not said", "it learns all the same"],
)
def test_data_for_training_that_a_model_put_to_evaluation_goes_over(
    before: str, body: str, role: str, guessed: bool
) -> None:
    text = (
        f"def f(model, train_set):\n{before}    loader = DataLoader(train_set)\n    for b in loader:\n        {body}\n"
    )
    found = site(HEAD + text).shown_role
    assert (found.role, found.guessed) == (role, guessed)
