"""An epoch is told in another file only where the name there is nothing but the loader that is to be told."""

from __future__ import annotations

import pytest

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Options
from shardfix.planning import make_plan
from shardfix.rewrite.applier import apply

HEAD = "import torch.distributed as dist\n"
DATA = (
    "from torch.utils.data import DataLoader\n"
    "from torch.utils.data.distributed import DistributedSampler\n"
    "def make(d):\n    return DataLoader(d, sampler=DistributedSampler(d))\n"
)
START = "dist.init_process_group()\n"
BUILD = START + "loader = make(d)\n"
EPOCHS = "for epoch in range(3):\n"
READ = "    for x in loader:\n        model(x).backward()\n"
LOOP = BUILD + EPOCHS + READ


def outcome(files: dict[str, str], path: str = "data.py") -> tuple[list[str], dict[str, list[str]]]:
    """The codes found in one file, and the lines that the plan adds to each file."""
    project = link({p: parse(p, text) for p, text in files.items()})
    plan = make_plan(project, tuple(files), Options(sanitizer="off"))
    reports = [r for r in plan.reports if r.location.path == path]
    codes = [c for r in reports for c in (*(f.code for f in r.findings), *(c for g in r.changes for c in g.codes))]
    added: dict[str, list[str]] = {}
    for p, text in files.items():
        edits = [e for change in plan.changes for e in change.edits if e.path == p]
        after = apply(text, list(dict.fromkeys(edits)), path=p).text.splitlines()
        new = [line.strip() for line in after if line not in text.splitlines()]
        if new:
            added[p] = new
    return codes, added


def test_a_wrapper_that_a_decorator_puts_around_the_loader_is_no_loader() -> None:
    wrap = "def wrapped(f):\n    def inner(d):\n        return Feed(f(d))\n    return inner\n"
    data = "from wrap import wrapped\n" + DATA.replace("def make", "@wrapped\ndef make")
    codes, added = outcome({"data.py": data, "wrap.py": wrap, "train.py": HEAD + "from data import make\n" + LOOP})
    assert (codes, added) == (["SHD909"], {})


@pytest.mark.parametrize(
    "decorator",
    [
        "def marked(f):\n    return f\n",
        "def marked(f):\n    @wraps(f)\n    def inner(*args):\n        return f(*args)\n    return inner\n",
        "def marked(f):\n    def inner(*args):\n        made = f(*args)\n        print(made)\n        return made\n"
        "    return inner\n",
        "from functools import lru_cache as marked\n",
    ],
    ids=["a registry", "a wrapper that hands on", "a timer", "a library's"],
)
def test_a_decorator_that_hands_on_what_it_gets_is_seen_through(decorator: str) -> None:
    data = "from marks import marked\n" + DATA.replace("def make", "@marked\ndef make")
    codes, added = outcome(
        {"data.py": data, "marks.py": decorator, "train.py": HEAD + "from data import make\n" + LOOP}
    )
    assert (codes, added) == (["SHD401"], {"train.py": ["loader.sampler.set_epoch(epoch)"]})


EITHER = "if fast:\n    from fast import make\nelse:\n    from data import make\n"


def test_a_name_that_another_import_may_make_no_loader_is_not_told() -> None:
    files = {"data.py": DATA, "fast.py": "def make(d):\n    return Feed(d)\n", "train.py": HEAD + EITHER + LOOP}
    assert outcome(files) == (["SHD909"], {})


def test_a_name_that_another_import_may_make_another_loader_is_asked() -> None:
    fast = "from torch.utils.data import DataLoader\ndef make(d):\n    return DataLoader(d, batch_sampler=mine)\n"
    codes, added = outcome({"data.py": DATA, "fast.py": fast, "train.py": HEAD + EITHER + LOOP})
    assert codes == ["SHD401"]
    assert "if isinstance(loader.sampler, DistributedSampler):" in added["train.py"]


def test_a_factory_that_may_return_something_else_is_not_told() -> None:
    data = DATA.replace("    return", "    if fast:\n        return Feed(d)\n    return")
    assert outcome({"data.py": data, "train.py": HEAD + "from data import make\n" + LOOP}) == (["SHD909"], {})


def test_a_context_manager_gives_the_loader_that_it_yields() -> None:
    data = "from contextlib import contextmanager\n" + DATA.replace("def make", "@contextmanager\ndef make")
    managed = (
        START + "with make(d) as loader:\n    for epoch in range(3):\n        for x in loader:\n            pass\n"
    )
    files = {"data.py": data.replace("return", "yield"), "train.py": HEAD + "from data import make\n" + managed}
    assert outcome(files) == (["SHD401"], {"train.py": ["loader.sampler.set_epoch(epoch)"]})


TOLD = "    loader.sampler.set_epoch(epoch)\n"
TRAINER = (
    "class Trainer:\n    def __init__(self, loader, sampler):\n        self.loader = loader\n"
    "        self.sampler = sampler\n    def set_epoch(self, epoch):\n        self.sampler.set_epoch(epoch)\n"
    "    def train(self):\n        for x in self.loader:\n            model(x).backward()\n"
)
BOTH = DATA.replace(
    "    return DataLoader(d, sampler=DistributedSampler(d))",
    "    s = DistributedSampler(d)\n    return DataLoader(d, sampler=s), s",
)
RUN = (
    HEAD
    + "from data import make\nfrom trainer import Trainer\n"
    + START
    + "loader, sampler = make(d)\ntrainer = Trainer(loader, sampler)\n"
    + EPOCHS
)


def test_a_method_that_nothing_calls_tells_no_epoch() -> None:
    files = {"data.py": BOTH, "trainer.py": TRAINER, "train.py": RUN + "    trainer.train()\n"}
    assert outcome(files) == (["SHD920"], {})


@pytest.mark.parametrize(
    "run",
    [
        "    trainer.set_epoch(epoch)\n    trainer.train()\n",
        "    for name in ('set_epoch', 'train'):\n        getattr(trainer, name)()\n    trainer.train()\n",
        "    hook.set_epoch(epoch)\n    trainer.train()\n",
    ],
    ids=["called", "called by a name", "called on what is not seen"],
)
def test_a_method_that_may_be_called_tells_the_epoch(run: str) -> None:
    assert outcome({"data.py": BOTH, "trainer.py": TRAINER, "train.py": RUN + run}) == ([], {})


@pytest.mark.parametrize(
    "loop",
    [
        EPOCHS + "    make(d).sampler.set_epoch(epoch)\n    for x in make(d):\n        model(x).backward()\n",
        "loaders = [make(d), make(e)]\n" + EPOCHS + "    loaders[0].sampler.set_epoch(epoch)\n"
        "    for loader in loaders:\n        for x in loader:\n            model(x).backward()\n",
    ],
    ids=["made anew to be told", "the first of two"],
)
def test_another_loader_of_the_same_factory_is_told_in_vain(loop: str) -> None:
    files = {"data.py": DATA, "train.py": HEAD + "from data import make\n" + START + loop}
    assert outcome(files) == (["SHD403"], {})


def test_a_property_makes_another_loader_each_time_that_it_is_read() -> None:
    text = (
        DATA[: DATA.index("def make")]
        + HEAD
        + START
        + (
            "class Trainer:\n    {}\n    def loader(self):\n"
            "        return DataLoader(self.d, sampler=DistributedSampler(self.d))\n"
            "    def fit(self):\n        for epoch in range(3):\n            self.loader.sampler.set_epoch(epoch)\n"
            "            for x in self.loader:\n                model(x).backward()\n"
        )
    )
    assert outcome({"data.py": text.format("@property")}) == (["SHD403"], {})
    assert outcome({"data.py": text.format("@cached_property")}) == ([], {})


def test_two_loaders_of_one_factory_may_each_be_told() -> None:
    loop = (
        "a, b = make(d), make(e)\n" + EPOCHS + "    a.sampler.set_epoch(epoch)\n    b.sampler.set_epoch(epoch)\n"
        "    for x in a:\n        model(x).backward()\n    for x in b:\n        model(x).backward()\n"
    )
    assert outcome({"data.py": DATA, "train.py": HEAD + "from data import make\n" + START + loop}) == ([], {})


def test_a_loader_to_evaluate_need_not_be_told() -> None:
    loop = (
        "loader, val_loader = make(d), make(e)\n"
        + EPOCHS
        + TOLD
        + READ
        + "    with torch.no_grad():\n        for x in val_loader:\n            pass\n"
    )
    assert "SHD403" not in outcome({"data.py": DATA, "train.py": HEAD + "from data import make\n" + START + loop})[0]


def test_a_sampler_made_with_the_epoch_as_its_seed_needs_no_more() -> None:
    data = DATA.replace("make(d)", "make(d, epoch)").replace(
        "DistributedSampler(d)", "DistributedSampler(d, seed=epoch)"
    )
    loop = EPOCHS + "    loader = make(d, epoch)\n" + READ
    assert outcome({"data.py": data, "train.py": HEAD + "from data import make\n" + START + loop}) == ([], {})


def test_what_a_base_class_tells_already_is_not_told_again() -> None:
    base = (
        DATA
        + HEAD
        + START
        + (
            "class Base:\n    def __init__(self):\n        self.loader = self.build()\n"
            "    def build(self):\n        return make(d)\n"
            "    def fit(self):\n        for epoch in range(3):\n"
            "            if hasattr(self.loader.sampler, 'set_epoch'):\n"
            "                self.loader.sampler.set_epoch(epoch)\n"
            "            for x in self.loader:\n                model(x).backward()\n"
        )
    )
    plain = (
        "from torch.utils.data import DataLoader\nfrom data import Base\n"
        "class Plain(Base):\n    def build(self):\n        return DataLoader(d, shuffle=True)\nPlain().fit()\n"
    )
    codes, added = outcome({"data.py": base, "plain.py": plain}, "plain.py")
    assert codes == ["SHD301"]
    assert list(added) == ["plain.py"]


HOOK = HEAD + "from data import make\nfrom hooks import on_epoch\n" + BUILD + EPOCHS
ON_EPOCH = "def on_epoch(loader, epoch):\n"
TELL = "    loader.sampler.set_epoch(epoch)\n"


@pytest.mark.parametrize(
    ("hook", "loop"),
    [
        pytest.param(
            "    if dist.get_rank() == 0:\n    " + TELL, "    on_epoch(loader, epoch)\n" + READ, id="main only"
        ),
        pytest.param(
            "    if dist.get_rank() != 0:\n        return\n" + TELL,
            "    on_epoch(loader, epoch)\n" + READ,
            id="others leave",
        ),
        pytest.param(
            TELL, "    if dist.get_rank() == 0:\n        on_epoch(loader, epoch)\n" + READ, id="called on main only"
        ),
        pytest.param(TELL, "    on_epoch(loader, 0)\n" + READ, id="one number"),
        pytest.param(TELL, READ + "    on_epoch(loader, epoch)\n", id="behind the batches"),
    ],
)
def test_an_epoch_told_in_vain_by_a_function_of_another_file(hook: str, loop: str) -> None:
    files = {"data.py": DATA, "hooks.py": HEAD + ON_EPOCH + hook, "train.py": HOOK + loop}
    assert outcome(files) == (["SHD403"], {})


def test_an_epoch_told_by_a_function_of_another_file() -> None:
    files = {"data.py": DATA, "hooks.py": ON_EPOCH + TELL, "train.py": HOOK + "    on_epoch(loader, epoch)\n" + READ}
    assert outcome(files) == ([], {})


def test_a_hook_that_tells_the_loader_by_its_runner_s_attribute_may_be_meant() -> None:
    hook = "class Hook:\n    def before_epoch(self, runner):\n        runner.data.sampler.set_epoch(runner.epoch)\n"
    runner = (
        "class Runner:\n    def __init__(self, hooks):\n        self.hooks = hooks\n"
        "    def run(self, loader):\n        self.data = loader\n        for self.epoch in range(3):\n"
        "            self.call('before_epoch')\n            for x in loader:\n                model(x).backward()\n"
        "    def call(self, name):\n        for h in self.hooks:\n            getattr(h, name)(self)\n"
    )
    train = HEAD + "from data import make\nfrom runner import Runner\n" + BUILD + "Runner(hooks).run(loader)\n"
    assert outcome({"data.py": DATA, "hook.py": hook, "runner.py": runner, "train.py": train}) == (["SHD920"], {})


def test_a_unit_test_says_nothing_of_what_a_loader_is_for() -> None:
    tests = "from data import make\ndef test_epochs():\n    loader = make(d)\n" + "".join(
        f"    {line}\n" for line in (EPOCHS + "    for x in loader:\n        seen(x)\n").splitlines()
    )
    told = EPOCHS + TOLD + "    for x in loader:\n        learn(x)\n"
    files = {"data.py": DATA, "tests/test_data.py": tests, "train.py": HEAD + "from data import make\n" + BUILD + told}
    assert outcome(files) == ([], {})


def test_a_loader_of_another_file_s_top_level_is_told_by_its_name() -> None:
    data = DATA[: DATA.index("def make")] + HEAD + START + "loader = DataLoader(d, sampler=DistributedSampler(d))\n"
    train = "from data import loader\n" + EPOCHS + READ
    assert outcome({"data.py": data, "train.py": train}) == (
        ["SHD401"],
        {"train.py": ["loader.sampler.set_epoch(epoch)"]},
    )


def test_a_subclass_whose_own_loop_forgets_the_epoch_is_told_there() -> None:
    base = (
        "class Base:\n    def __init__(self, loader, sampler):\n        self.loader = loader\n"
        "        self.sampler = sampler\n    def fit(self):\n        for epoch in range(3):\n"
        "            self.sampler.set_epoch(epoch)\n            self.run()\n"
    )
    own = (
        "from base import Base\nclass Own(Base):\n    def fit(self):\n        for epoch in range(3):\n"
        "            self.run()\n    def run(self):\n        for x in self.loader:\n            model(x).backward()\n"
    )
    train = (
        HEAD + "from data import make\nfrom own import Own\n" + START + "loader, s = make(d)\nOwn(loader, s).fit()\n"
    )
    codes, added = outcome({"data.py": BOTH, "base.py": base, "own.py": own, "train.py": train})
    assert (codes, added) == (["SHD401"], {"own.py": ["self.loader.sampler.set_epoch(epoch)"]})


def test_a_call_that_may_make_another_loader_is_not_said_to_go_untold() -> None:
    data = DATA.replace("make(d)", "make(d, train)").replace(
        "    return", "    if not train:\n        return DataLoader(d, shuffle=False)\n    else:\n        return"
    )
    loop = (
        "a, b = make(d, True), make(e, other)\n" + EPOCHS + "    a.sampler.set_epoch(epoch)\n"
        "    for x in a:\n        model(x).backward()\n    for x in b:\n        model(x).backward()\n"
    )
    files = {"data.py": data, "train.py": HEAD + "from data import make\n" + START + loop}
    assert "SHD403" not in outcome(files)[0]
