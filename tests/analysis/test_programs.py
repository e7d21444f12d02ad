"""A program is an entry with all that its code refers to, and what it uses rules the functions that it reaches."""

from __future__ import annotations

import ast

import pytest
from loaders import project, site

from shardfix.analysis.model import Evidence, Launch, Location, Options
from shardfix.analysis.programs.programs import find_programs
from shardfix.analysis.programs.regimes import program_regimes, regime_of

DDP = "import torch.distributed as dist\n"
LOADER = "from torch.utils.data import DataLoader\n"
MAKE = LOADER + "def make(d):\n    return DataLoader(d)\n"
MAIN = 'if __name__ == "__main__":\n    main()\n'
TRAIN = DDP + "from data import make\ndef main():\n    dist.init_process_group()\n    make(1)\n" + MAIN
DEMO = "from data import make\ndef main():\n    make(1)\n" + MAIN


def launch(path: str, several: bool, function: str = "") -> Launch:
    return Launch(path, function, several, Evidence(Location("run.sh", 1, 1), "torchrun " + path))


def reached_by(files: dict[str, str], path: str, name: str, launches: tuple[Launch, ...] = ()) -> list[str]:
    """The programs that run a function or class."""
    found = project(files)
    module = found.modules[path]
    node = next(n for n in ast.walk(module.tree) if getattr(n, "name", "") == name)
    programs = find_programs(found, launches)
    return [p.path for p in programs.chosen(programs.reaching(module, node))]


@pytest.mark.parametrize(
    "main",
    [
        pytest.param("from lib import work\nwork()\n", id="called"),
        pytest.param(
            "import torch.multiprocessing as mp\nfrom lib import work\nmp.spawn(work, nprocs=2)\n", id="spawn"
        ),
        pytest.param("import lib\nlib.work()\n", id="by its module"),
        pytest.param("import lib as l\nl.work()\n", id="by an alias"),
        pytest.param("import lib\nname = 'work'\ngetattr(lib, name)()\n", id="by getattr"),
        pytest.param("import lib\nlib.__dict__['work']()\n", id="by the module's dict"),
        pytest.param("from lib import TABLE\nTABLE['w']()\n", id="by a table"),
        pytest.param("from lib import Sub\nSub().run()\n", id="by a base's method"),
        pytest.param("def f():\n    from lib import work\n    work()\nf()\n", id="imported in a function"),
        pytest.param("import lib\nlib.build('w')\n", id="by a registry"),
    ],
)
def test_a_program_reaches_what_its_code_refers_to(main: str) -> None:
    lib = (
        "@register('w')\ndef work():\n    pass\n"
        if "build" in main
        else "def work():\n    pass\nTABLE = {'w': work}\n"
        "class Base:\n    def run(self):\n        work()\nclass Sub(Base):\n    pass\n"
    )
    assert reached_by({"main.py": main, "lib.py": lib}, "lib.py", "work") == ["main.py"]


@pytest.mark.parametrize(
    "main",
    [
        pytest.param("import lib\nprint()\n", id="imported only"),
        pytest.param("from lib import other\nother()\n", id="another function"),
        pytest.param("import lib\ndef f(x: lib.work):\n    pass\nf(1)\n", id="an annotation"),
        pytest.param("import lib\nx: lib.work = print()\n", id="an annotation of a variable"),
        pytest.param("import lib\nprint(isinstance(1, lib.Base))\n", id="a test of its type"),
    ],
)
def test_an_import_alone_reaches_no_function(main: str) -> None:
    lib = (
        "def work():\n    pass\ndef other():\n    pass\nTABLE = {'w': work}\n"
        "class Base:\n    def run(self):\n        work()\nif __name__ == '__main__':\n    work()\n"
    )
    assert reached_by({"main.py": main, "lib.py": lib}, "lib.py", "work") == ["lib.py"]


def test_a_package_hands_on_what_it_imports() -> None:
    files = {"main.py": "from pkg import work\nwork()\n", "pkg/__init__.py": "from .a import work\n"}
    assert reached_by({**files, "pkg/a.py": "def work():\n    pass\n"}, "pkg/a.py", "work") == ["main.py"]


def test_a_deprecated_name_of_a_package_reaches_what_it_stands_for_where_it_is_used() -> None:
    files = {
        "pkg/__init__.py": "from .a import work\nfrom .d import deprecated\nold = deprecated(work)\n",
        "pkg/a.py": "def work():\n    pass\n",
        "pkg/d.py": "def deprecated(f):\n    return f\n",
        "one.py": "import pkg\nprint()\n",
        "two.py": "from pkg import old\nold()\n",
    }
    assert reached_by(files, "pkg/a.py", "work") == ["two.py"]


@pytest.mark.parametrize(
    ("files", "launches", "expected"),
    [
        pytest.param({"a.py": "def f():\n    pass\nf()\n"}, (), ["a.py"], id="acts and nobody imports it"),
        pytest.param({"a.py": "def f():\n    pass\n", "b.py": "import a\n"}, (), [], id="a library"),
        pytest.param({"a.py": "def f():\n    pass\n"}, (launch("a.py", False, "f"),), ["a.py"], id="a console script"),
        pytest.param({"p/__main__.py": "def f():\n    pass\nf()\n"}, (), ["p/__main__.py"], id="python -m p"),
    ],
)
def test_entries(files: dict[str, str], launches: tuple[Launch, ...], expected: list[str]) -> None:
    assert reached_by(files, next(iter(files)), "f", launches) == expected


@pytest.mark.parametrize(
    ("files", "owner"),
    [
        pytest.param({"train.py": TRAIN}, "ddp", id="one program, of several processes"),
        pytest.param({"demo.py": DEMO}, "single", id="one program, of one process"),
        pytest.param({"train.py": TRAIN, "demo.py": DEMO}, "unknown", id="programs of both kinds"),
        pytest.param({"train.py": TRAIN, "demo.py": DEMO.replace("make(1)", "1")}, "ddp", id="imported, not called"),
        pytest.param({"demo.py": DEMO, "tests/test_data.py": TRAIN}, "single", id="a test does not count"),
        pytest.param(
            {"train.py": TRAIN.replace("make(1)", "1"), "demo.py": DEMO}, "single", id="a ddp program that imports it"
        ),
        pytest.param(
            {"train.py": TRAIN.replace("dist.init_process_group()", "start()"), "start.py": ""}, "single", id="no use"
        ),
        pytest.param(
            {
                "train.py": "from data import make\nfrom start import start\nstart()\nmake(1)\n",
                "start.py": DDP + "def start():\n    deeper()\ndef deeper():\n    dist.init_process_group()\n",
            },
            "ddp",
            id="the group is made in another file",
        ),
        pytest.param(
            {
                "train.py": "from data import make\nfrom start import other\nother()\nmake(1)\n",
                "start.py": DDP + "def start():\n    dist.init_process_group()\ndef other():\n    pass\n",
            },
            "single",
            id="the file of the group is imported, its function not called",
        ),
        pytest.param(
            {"train.py": TRAIN, "demo.py": "from accelerate import Accelerator\nAccelerator()\n" + DEMO},
            "unknown",
            id="programs of two kinds of several processes",
        ),
    ],
)
def test_the_programs_that_reach_a_function_rule_its_loader(files: dict[str, str], owner: str) -> None:
    assert site({"data.py": MAKE, **files}, "data.py").owner == owner


def test_a_function_that_guards_itself_is_for_both_kinds() -> None:
    data = LOADER + (
        "from torch.utils.data.distributed import DistributedSampler\n"
        "def make(d, distributed=False):\n"
        "    sampler = DistributedSampler(d) if distributed else None\n"
        "    return DataLoader(d, sampler=sampler)\n"
    )
    assert site({"data.py": data, "train.py": TRAIN, "demo.py": DEMO}, "data.py").owner == "ddp"


def test_programs_that_disagree_are_named() -> None:
    found = site({"data.py": MAKE, "train.py": TRAIN, "demo.py": DEMO}, "data.py").ownership
    assert found.missing == "train.py runs it under ddp and demo.py runs it in one process"
    assert [str(e.location) for e in found.evidence] == ["train.py:4:5"]


@pytest.mark.parametrize(("several", "owner"), [(True, "ddp"), (False, "single")])
def test_a_guarded_sampler_needs_a_launch_of_several_processes(several: bool, owner: str) -> None:
    files = {
        "data.py": MAKE,
        "sampling.py": "from torch.utils.data.distributed import DistributedSampler\n"
        "def sampler(d, distributed):\n    return DistributedSampler(d) if distributed else None\n",
        "train.py": "from data import make\nfrom sampling import sampler\nsampler(1, args.distributed)\nmake(1)\n",
        "neighbour.py": "from data import make\n",
    }
    options = Options(launches=(launch("train.py", several), launch("neighbour.py", True)))
    assert site(files, "data.py", options).owner == owner


def test_what_a_library_can_do_is_not_what_a_program_does() -> None:
    files = {
        "data.py": MAKE,
        "lib.py": "from torch.distributed.device_mesh import init_device_mesh\n"
        "def load(split):\n    if split:\n        shard()\n"
        "def shard():\n    init_device_mesh('cuda', (2, 2))\n",
        "demo.py": "from data import make\nfrom lib import load\ndef main():\n    go()\n"
        "def go():\n    load(False)\n    make(1)\n" + MAIN,
    }
    found = project(files)
    regimes = program_regimes(found)
    data = found.modules["data.py"]
    assert regime_of(regimes["data.py"], data, data.calls[0]).regimes == ()


def test_projects_in_which_all_call_all_are_read_once() -> None:
    files = {f"m{i}.py": f"import m{(i + 1) % 60}\ndef f():\n    m{(i + 1) % 60}.f()\n" for i in range(60)}
    assert reached_by({**files, "main.py": "import m0\nm0.f()\n"}, "m59.py", "f") == ["main.py"]


MODEL = (
    "from torch.nn.parallel import DistributedDataParallel\n"
    "class Model:\n    def __init__(self, args, net):\n"
    "        if args.local_rank != -1:\n            net = DistributedDataParallel(net)\n"
)


@pytest.mark.parametrize(
    ("first", "several", "owner"),
    [
        pytest.param("", False, "single", id="no group is ever made"),
        pytest.param("dist.init_process_group()\n", False, "ddp", id="the program makes one"),
        pytest.param("", True, "ddp", id="it is started in several processes"),
    ],
)
def test_a_guarded_wrapper_of_the_model_needs_a_group(first: str, several: bool, owner: str) -> None:
    text = DDP + LOADER + f"from model import Model\n{first}Model(args, net)\nfor b in DataLoader(d):\n    pass\n"
    launches = (launch("predict.py", several),)
    found = site({"predict.py": text, "model.py": MODEL}, "predict.py", Options(launches=launches))
    assert found.owner == owner


@pytest.mark.parametrize(
    ("use", "owner"),
    [
        ("xm.master_print('a')", "single"),
        ("device = xm.xla_device()", "single"),
        ("xmp.spawn(f)", "xla"),
        ("dist.init_process_group('xla')", "xla"),
        ("dist.init_process_group(backend='xla', init_method='xla://')", "xla"),
    ],
)
def test_what_asks_xla_something_starts_no_processes(use: str, owner: str) -> None:
    head = "import torch_xla.core.xla_model as xm\nimport torch_xla.distributed.xla_multiprocessing as xmp\n"
    found = site(head + DDP + LOADER + f"{use}\nfor b in DataLoader(d):\n    pass\n")
    assert found.owner == owner


@pytest.mark.parametrize(
    ("other", "owner"), [("pass", "horovod"), ("dist.init_process_group()", "ddp")], ids=["alone", "beside a group"]
)
def test_horovod_is_one_of_the_ways_in_which_a_program_may_start(other: str, owner: str) -> None:
    text = (
        DDP + LOADER + "import horovod.torch as hvd\n"
        f"if args.platform == 'local':\n    {other}\nelse:\n    hvd.init()\nfor b in DataLoader(d):\n    pass\n"
    )
    assert site(text).owner == owner


def test_the_examples_of_horovods_own_project_are_horovods() -> None:
    files = {
        "horovod/__init__.py": "",
        "horovod/torch/__init__.py": "from horovod.torch.mpi_ops import init\n",
        "horovod/torch/mpi_ops.py": "def init():\n    pass\n",
        "examples/mnist.py": "import horovod.torch as hvd\n"
        + LOADER
        + "hvd.init()\nfor b in DataLoader(d):\n    pass\n",
    }
    assert site(files, "examples/mnist.py").owner == "horovod"
