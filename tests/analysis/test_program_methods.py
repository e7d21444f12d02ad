"""A method is a program's own where the program's code uses its class and writes its name, or may run it unwritten."""

from __future__ import annotations

import ast

import pytest
from loaders import project, sites

from shardfix.analysis.programs.programs import find_programs

DDP = "import torch.distributed as dist\n"
MAIN = 'if __name__ == "__main__":\n    main()\n'
DATA = (
    "from torch.utils.data import DataLoader\n"
    "class Data:\n"
    "    def train_loader(self):\n        return DataLoader(self.train_set, shuffle=True)\n"
    "    def test_loader(self):\n        return DataLoader(self.test_set)\n"
)
TRAIN = (
    DDP + "from data import Data\ndef main():\n    dist.init_process_group()\n"
    "    for batch in Data().train_loader():\n        step(batch)\n" + MAIN
)
DECODE = "from data import Data\ndef main():\n    data = Data()\n    print(data.test_loader())\n" + MAIN


def running(files: dict[str, str], cls: str, method: str, path: str = "data.py") -> list[str]:
    """The programs that run a method."""
    found = project(files)
    module = found.modules[path]
    outer = next(n for n in ast.walk(module.tree) if isinstance(n, ast.ClassDef) and n.name == cls)
    node = next(n for n in outer.body if getattr(n, "name", "") == method)
    programs = find_programs(found)
    return [p.path for p in programs.chosen(programs.reaching(module, node))]


@pytest.mark.parametrize(("index", "owner"), [(0, "ddp"), (1, "single")], ids=["train_loader", "test_loader"])
def test_two_programs_use_two_methods_of_one_class(index: int, owner: str) -> None:
    assert sites({"data.py": DATA, "train.py": TRAIN, "decode.py": DECODE}, "data.py")[index].owner == owner


def test_a_method_that_both_programs_call_is_still_disputed() -> None:
    files = {"data.py": DATA, "train.py": TRAIN, "decode.py": DECODE.replace("test_loader", "train_loader")}
    assert sites(files, "data.py")[0].owner == "unknown"


def test_a_method_that_nothing_is_seen_to_call_belongs_to_all_that_use_its_class() -> None:
    files = {"data.py": DATA, "train.py": TRAIN, "decode.py": DECODE.replace("data.test_loader()", "data")}
    assert running(files, "Data", "test_loader") == ["decode.py", "train.py"]


def test_of_a_method_that_nothing_is_seen_to_call_that_is_said() -> None:
    files = {"data.py": DATA, "train.py": TRAIN, "decode.py": DECODE.replace("data.test_loader()", "data")}
    assert sites(files, "data.py")[1].ownership.missing == (
        "nothing is seen to call it, train.py uses its class under ddp and decode.py uses its class in one process"
    )


def test_what_an_unseen_method_calls_is_not_taken_for_one_programs_own() -> None:
    data = DATA + "    def hidden(self):\n        return make(self)\ndef make(x):\n    return DataLoader(x.set)\n"
    train = TRAIN.replace("from data import Data", "from data import Data, make").replace("step(", "make(")
    files = {"data.py": data, "train.py": train, "decode.py": DECODE}
    assert sites(files, "data.py")[2].owner == "unknown"


@pytest.mark.parametrize(
    "use",
    [
        pytest.param("getattr(data, 'train_loader')()", id="getattr with a written name"),
        pytest.param("getattr(data, name)()", id="getattr with a name that is not written"),
        pytest.param("getattr(data, f'{split}_loader')()", id="getattr with the end of the name"),
        pytest.param("getattr(data, split + '_loader')()", id="getattr with an added end"),
        pytest.param("getattr(data, '%s_loader' % split)()", id="getattr with a formatted name"),
        pytest.param("getattr(data, TABLE[split])()", id="a name in a dict"),
        pytest.param("{'a': data.train_loader}[split]()", id="a method in a dict"),
        pytest.param("[getattr(data, n)() for n in NAMES]", id="a name of a list"),
        pytest.param("functools.reduce(getattr, path, data)()", id="getattr handed on"),
        pytest.param("operator.methodcaller('train_loader')(data)", id="methodcaller"),
        pytest.param("operator.attrgetter(name)(data)()", id="attrgetter"),
        pytest.param("data.__getattribute__(name)()", id="__getattribute__"),
        pytest.param("eval(f'data.{split}_loader()')", id="a text that is evaluated"),
        pytest.param("eval('data.' + name)()", id="a text that is evaluated, the name not written"),
        pytest.param("exec(text)", id="a text that is executed"),
        pytest.param("dict(inspect.getmembers(data))[name]()", id="all its members"),
        pytest.param("fire.Fire(data)", id="a command line made of the object"),
        pytest.param("fire.Fire(Data)", id="a command line made of the class"),
        pytest.param("Runner(steps=[data]).go()", id="a library's object that is given it in a list"),
        pytest.param("engine.run(Data())", id="a library's method that is given a new one"),
        pytest.param("threading.Thread(target=data.train_loader).start()", id="a thread"),
        pytest.param("Data.train_loader(data)", id="called on its class"),
        pytest.param("wrap(data).inner.train_loader()", id="behind other attributes"),
    ],
)
def test_a_program_may_run_a_method_without_a_plain_call(use: str) -> None:
    head = "import fire, functools, inspect, operator, threading\nfrom lib import Runner\nengine = Runner()\n"
    decode = head + DECODE.replace("data.test_loader()", use)
    assert running({"data.py": DATA, "decode.py": decode, "train.py": TRAIN}, "Data", "train_loader") == [
        "decode.py",
        "train.py",
    ]


@pytest.mark.parametrize(
    "use",
    [
        pytest.param("getattr(data, 'test_loader')()", id="another written name"),
        pytest.param("getattr(data, f'{split}_cuts')()", id="another end"),
        pytest.param("[getattr(data, n)() for n in ('test_loader', 'test_size')]", id="other names in a list"),
        pytest.param("getattr(args, name)", id="the arguments of the command line"),
        pytest.param("getattr(torch.optim, name)()", id="a library's module"),
        pytest.param("getattr(other, name)()", id="an object of another class"),
        pytest.param("eval(args.strategy)()", id="a name that the user gives"),
        pytest.param("print(data)", id="given to a builtin"),
        pytest.param("found.append(data)", id="kept in a list"),
        pytest.param("torch.utils.data.DataLoader(data)", id="given to a DataLoader"),
        pytest.param("multiprocessing.Process(target=work, args=(data,)).start()", id="given to its own function"),
        pytest.param("isinstance(args, Data)", id="a test of a type"),
    ],
)
def test_a_program_that_uses_the_class_otherwise_does_not_run_the_method(use: str) -> None:
    head = (
        "import argparse, multiprocessing, torch\nargs = argparse.ArgumentParser().parse_args()\n"
        "class Other:\n    def run(self):\n        pass\nother = Other()\ndef work(data):\n    data.test_loader()\n"
    )
    decode = head + DECODE.replace("data.test_loader()", use)
    assert running({"data.py": DATA, "decode.py": decode, "train.py": TRAIN}, "Data", "train_loader") == ["train.py"]


CALLED = {
    "a base's method": (
        "class Sub(Data):\n    pass\n",
        "Sub().loaders()",
        "    def loaders(self):\n        self.train_loader()\n",
    ),
    "a subclass in another file": (
        "class Sub(Data):\n    def all(self):\n        self.train_loader()\n",
        "Sub().all()",
        "",
    ),
    "super()": (
        "class Sub(Data):\n    def test_loader(self):\n        return super().train_loader()\n",
        "Sub().test_loader()",
        "",
    ),
    "a property": (
        "class Sub(Data):\n    @property\n    def size(self):\n        return len(self.train_loader())\n",
        "Sub().size",
        "",
    ),
    "a protocol of Python": (
        "class Sub(Data):\n    def __iter__(self):\n        return iter(self.train_loader())\n",
        "list(Sub())",
        "",
    ),
    "a name that the class gives it": ("class Sub(Data):\n    pass\n", "Sub().go()", "    go = train_loader\n"),
    "a decorator that keeps it": (
        "class Sub(Data):\n    @ex.main\n    def begin(self):\n        self.train_loader()\n",
        "Sub()",
        "",
    ),
    "itself, handed to a library": (
        "class Sub(Data):\n    def test_loader(self):\n        engine.run(self)\n",
        "Sub().test_loader()",
        "",
    ),
    "getattr of itself": (
        "class Sub(Data):\n    def get(self, name):\n        return getattr(self, name)()\n",
        "Sub().get('a')",
        "",
    ),
    "a framework that a subclass derives from": (
        "from lightning import LightningDataModule\nclass Sub(Data, LightningDataModule):\n    pass\n",
        "Sub()",
        "",
    ),
    "a thread that a subclass is": ("import threading\nclass Sub(Data, threading.Thread):\n    pass\n", "Sub()", ""),
    "a metaclass": ("class Sub(Data, metaclass=Meta):\n    pass\n", "Sub()", ""),
    "a library's decorator of the class": ("import ray\n@ray.remote\nclass Sub(Data):\n    pass\n", "Sub()", ""),
}


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CALLED.items()])
def test_a_method_is_run_by_other_code_of_its_class(case: tuple[str, str, str]) -> None:
    derived, use, more = case
    files = {
        "data.py": DATA + more,
        "sub.py": "from data import Data\nfrom lib import engine, ex\n" + derived,
        "decode.py": f"from sub import Sub\ndef main():\n    print({use})\n" + MAIN,
        "train.py": TRAIN,
    }
    assert running(files, "Data", "train_loader") == ["decode.py", "train.py"]


def test_a_library_runs_what_derives_from_its_class() -> None:
    data = DATA.replace("class Data:", "from lightning import LightningDataModule\nclass Data(LightningDataModule):")
    assert running({"data.py": data, "decode.py": DECODE, "train.py": TRAIN}, "Data", "train_loader") == [
        "decode.py",
        "train.py",
    ]


@pytest.mark.parametrize("base", ["object", "abc.ABC", "Generic[T]", "torch.utils.data.Dataset", "Exception", "dict"])
def test_a_base_that_calls_only_protocols_runs_no_method(base: str) -> None:
    head = "import abc, torch\nfrom typing import Generic, TypeVar\nT = TypeVar('T')\n"
    data = head + DATA.replace("class Data:", f"class Data({base}):")
    assert running({"data.py": data, "decode.py": DECODE, "train.py": TRAIN}, "Data", "train_loader") == ["train.py"]


def test_a_wrapper_that_hands_attributes_on_asks_for_no_name() -> None:
    wrapper = "class Wrapper:\n    def __getattr__(self, name):\n        return getattr(self.inner, name)\n"
    decode = "from data import Data\n" + wrapper + "def main():\n    print(Wrapper(Data()).test_loader())\n" + MAIN
    assert running({"data.py": DATA, "decode.py": decode, "train.py": TRAIN}, "Data", "train_loader") == ["train.py"]


def test_the_methods_of_a_test_class_are_run_by_the_test_runner() -> None:
    files = {"test_data.py": "class TestData:\n    def test_it(self):\n        pass\n"}
    assert running(files, "TestData", "test_it", "test_data.py") == ["test_data.py"]


def test_a_class_that_says_in_another_method_what_it_is_made_for_is_believed() -> None:
    start = "class Data:\n    def start(self):\n        dist.init_process_group()\n"
    files = {
        "data.py": DDP + DATA.replace("class Data:\n", start),
        "train.py": TRAIN.replace("dist.init_process_group()", "Data().start()"),
        "decode.py": DECODE.replace("test_loader", "train_loader"),
    }
    assert sites(files, "data.py")[0].owner == "ddp"


@pytest.mark.parametrize(
    ("decorator", "programs"),
    [
        pytest.param("@ex.main", ["decode.py", "train.py"], id="a library's, which may run it"),
        pytest.param("@torch.no_grad()", ["train.py"], id="one that leaves it to its callers"),
        pytest.param("@property", ["train.py"], id="a property"),
    ],
)
def test_a_decorated_method_runs_with_its_class_where_the_decorator_may_run_it(
    decorator: str, programs: list[str]
) -> None:
    data = "import torch\nfrom lib import ex\n" + DATA.replace("    def train", f"    {decorator}\n    def train")
    assert running({"data.py": data, "train.py": TRAIN, "decode.py": DECODE}, "Data", "train_loader") == programs


def test_an_object_that_hands_itself_to_a_library_hands_what_its_derived_class_adds() -> None:
    data = DATA.replace("return DataLoader(self.test_set)", "engine.run(self)")
    sub = "from data import Data\nclass Sub(Data):\n    def more(self):\n        pass\n"
    files = {
        "data.py": "from lib import engine\n" + data,
        "sub.py": sub,
        "train.py": "from sub import Sub\ndef main():\n    Sub().more()\n" + MAIN,
        "decode.py": "from sub import Sub\ndef main():\n    Sub().test_loader()\n" + MAIN,
        "plain.py": DECODE,
    }
    assert running(files, "Sub", "more", "sub.py") == ["decode.py", "train.py"]


SAMPLED = "from torch.utils.data.distributed import DistributedSampler\n" + DATA.replace(
    "shuffle=True", "sampler=DistributedSampler(self.train_set)"
)


def test_a_sampler_in_a_method_that_a_program_does_not_run_says_nothing_of_it() -> None:
    files = {"data.py": SAMPLED, "train.py": TRAIN, "decode.py": DECODE}
    assert [s.owner for s in sites(files, "data.py")] == ["ddp", "single"]


def test_a_sampler_in_a_function_that_only_another_program_runs_says_nothing_of_its_neighbour() -> None:
    data = SAMPLED.replace("class Data:\n", "").replace("(self)", "(self=0)").replace("\n    ", "\n")
    files = {
        "data.py": data,
        "train.py": TRAIN.replace("import Data", "import train_loader").replace("Data().", ""),
        "decode.py": DECODE.replace("import Data", "import test_loader").replace("Data()", "0").replace("data.", ""),
    }
    assert [s.owner for s in sites(files, "data.py")] == ["ddp", "single"]


def test_a_sampler_in_a_method_that_nothing_is_seen_to_call_still_speaks_for_its_file() -> None:
    unseen = SAMPLED.replace("DistributedSampler(self.train_set)", "None") + (
        "def unseen(d):\n    return DistributedSampler(d)\n"
    )
    assert [s.owner for s in sites({"data.py": unseen, "decode.py": DECODE}, "data.py")] == ["ddp", "ddp"]
