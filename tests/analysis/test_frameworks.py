"""A framework owns the loader that is handed to it, known by the object it is handed to: an import, a name or an object
that nothing is handed to shows nothing."""

from __future__ import annotations

import pytest
from loaders import site, sites

PLAIN = "from torch.utils.data import DataLoader\n"
FABRIC = "from lightning.fabric import Fabric\n" + PLAIN + "fabric = Fabric()\n"
LIGHTNING = "import lightning as L\n" + PLAIN
LOOP = "for b in loader:\n    pass\n"


@pytest.mark.parametrize(
    ("text", "owner", "line"),
    [
        pytest.param(FABRIC + "loader = fabric.setup_dataloaders(DataLoader(d))\n" + LOOP, "fabric", 4, id="fabric"),
        pytest.param(
            "from lightning.fabric import Fabric\n" + PLAIN + "def run(f: Fabric):\n"
            "    for b in f.setup_dataloaders(DataLoader(d)):\n        pass\n",
            "fabric",
            4,
            id="an annotated fabric",
        ),
        pytest.param(
            "from pytorch_lightning.lite import LightningLite\n" + PLAIN + "class Lite(LightningLite):\n"
            "    def run(self):\n        for b in self.setup_dataloaders(DataLoader(d)):\n            pass\n",
            "fabric",
            5,
            id="lite, which is one itself",
        ),
        pytest.param(
            LIGHTNING + "t = L.Trainer()\nt.fit(m, train_dataloaders=DataLoader(d))\n", "lightning", 4, id="by keyword"
        ),
        pytest.param(
            LIGHTNING + "t = L.Trainer()\nt.validate(m, DataLoader(d))\n", "lightning", 4, id="a Trainer of any name"
        ),
        pytest.param(
            LIGHTNING + "t = L.Trainer.from_argparse_args(args)\nt.fit(m, DataLoader(d))\n",
            "lightning",
            4,
            id="a Trainer of the command line",
        ),
        pytest.param(
            LIGHTNING + 't = L.Trainer()\nt.fit(m, {"a": DataLoader(d)})\n', "lightning", 4, id="in a dict of loaders"
        ),
        pytest.param(
            LIGHTNING + "class R:\n    def __init__(self):\n        self.t = L.Trainer()\n"
            "    def run(self):\n        self.t.fit(m, DataLoader(d))\n",
            "lightning",
            7,
            id="a Trainer in an attribute",
        ),
        pytest.param(
            LIGHTNING + "class T(L.Trainer):\n    def fit(self, m, loader):\n        super().fit(m, loader)\n"
            "T().fit(m, DataLoader(d))\n",
            "lightning",
            6,
            id="a Trainer with a fit of its own",
        ),
        pytest.param(
            LIGHTNING + "from torch.utils.data import DistributedSampler\nclass M(L.LightningModule):\n"
            "    def make(self):\n        return DataLoader(d, sampler=DistributedSampler(d))\n",
            "lightning",
            4,
            id="a helper that hooks elsewhere call",
        ),
        pytest.param(
            LIGHTNING + "class M(L.LightningDataModule):\n    def setup(self, stage):\n        self.x = DataLoader(d)\n"
            "    def train_dataloader(self):\n        return self.x\n",
            "lightning",
            3,
            id="made in setup, given by a hook",
        ),
        pytest.param(
            LIGHTNING + "class M(L.LightningModule):\n    def make(self, x):\n        return DataLoader(x)\n"
            "    def val_dataloader(self):\n        return [self.make(v)]\n",
            "lightning",
            3,
            id="made by a helper of a hook",
        ),
        pytest.param(
            "from lightning.pytorch.cli import LightningCLI\n"
            + LIGHTNING
            + "class D(L.LightningDataModule):\n    def train_dataloader(self):\n        return DataLoader(d)\n"
            "LightningCLI(M, D)\n",
            "lightning",
            4,
            id="run by LightningCLI",
        ),
        pytest.param(
            PLAIN + "from composer import Trainer\nTrainer(model=m, train_dataloader=DataLoader(d)).fit()\n",
            "composer",
            3,
            id="composer",
        ),
        pytest.param(
            PLAIN + "from composer import Evaluator\ne = Evaluator(label='v', dataloader=DataLoader(d))\n",
            "composer",
            3,
            id="composer's Evaluator",
        ),
        pytest.param(
            PLAIN + "import torch_xla.distributed.parallel_loader as pl\n"
            "loader = pl.MpDeviceLoader(DataLoader(d), device)\n" + LOOP,
            "xla",
            3,
            id="a device loader",
        ),
        pytest.param(
            PLAIN + "from mmengine.runner import Runner\nRunner(model=m, train_dataloader=DataLoader(d)).train()\n",
            "mmengine",
            3,
            id="mmengine",
        ),
        pytest.param(
            PLAIN
            + "from torch.distributed.pipelining import pipeline\np = pipeline(m)\nloader = DataLoader(d)\n"
            + LOOP,
            "mesh",
            3,
            id="a pipeline",
        ),
        pytest.param(
            PLAIN + "from torch.distributed.tensor.parallel import parallelize_module\n"
            "m = parallelize_module(m, mesh, plan)\nloader = DataLoader(d)\n" + LOOP,
            "mesh",
            3,
            id="tensor parallelism",
        ),
        pytest.param(
            PLAIN + "from megatron import mpu\nfrom torch.utils.data.distributed import DistributedSampler\n"
            "s = DistributedSampler(d, mpu.get_data_parallel_world_size(), mpu.get_data_parallel_rank())\n"
            "loader = DataLoader(d, sampler=s)\n" + LOOP,
            "mesh",
            4,
            id="the data-parallel rank of a model-parallel unit",
        ),
        pytest.param(
            PLAIN + "import deepspeed\nengine = deepspeed.initialize(model=m)\nloader = DataLoader(d)\n" + LOOP,
            "ddp",
            3,
            id="beside deepspeed.initialize, which takes no loader",
        ),
    ],
)
def test_what_takes_the_loader_owns_it(text: str, owner: str, line: int) -> None:
    found = site(text)
    assert (found.owner, found.owner_evidence[0].location.line) == (owner, line)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("from lightning.fabric import Fabric\nloader = DataLoader(d)\n" + LOOP, id="fabric imported"),
        pytest.param(
            "class Fabric:\n    def setup_dataloaders(self, x):\n        return x\nfabric = Fabric()\n"
            "loader = fabric.setup_dataloaders(DataLoader(d))\n" + LOOP,
            id="a Fabric of the project's own",
        ),
        pytest.param("import lightning as L\nloader = DataLoader(d)\n" + LOOP, id="lightning imported"),
        pytest.param(
            "import lightning as L\nclass Own:\n    def fit(self, m, l):\n        for b in l:\n            pass\n"
            "trainer = Own()\ntrainer.fit(m, DataLoader(d))\n",
            id="another object's fit",
        ),
        pytest.param(
            "import lightning as L\nclass M:\n    def train_dataloader(self):\n        return DataLoader(d)\n",
            id="a hook's name in a class that is not Lightning's",
        ),
        pytest.param("import ray.train.torch\nloader = DataLoader(d)\n" + LOOP, id="ray imported"),
        pytest.param(
            "def prepare_data_loader(x):\n    return x\nloader = prepare_data_loader(DataLoader(d))\n" + LOOP,
            id="ray's name",
        ),
        pytest.param("from composer import Trainer\nloader = DataLoader(d)\n" + LOOP, id="composer imported"),
        pytest.param(
            "from ignite.engine import Engine\nEngine(step).run(DataLoader(d), max_epochs=3)\n",
            id="an Engine only iterates",
        ),
        pytest.param(
            "import torch_xla.distributed.parallel_loader as pl\nloader = DataLoader(d)\n" + LOOP, id="xla imported"
        ),
        pytest.param("import deepspeed\nloader = DataLoader(d)\n" + LOOP, id="deepspeed imported"),
        pytest.param("import horovod.torch as hvd\nloader = DataLoader(d)\n" + LOOP, id="horovod imported"),
        pytest.param("from megatron import mpu\nloader = DataLoader(d)\n" + LOOP, id="megatron imported"),
        pytest.param("from mmengine.runner import Runner\nloader = DataLoader(d)\n" + LOOP, id="mmengine imported"),
    ],
)
def test_an_import_or_a_name_is_no_owner(text: str) -> None:
    assert site(PLAIN + text).owner == "single"


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        pytest.param(
            FABRIC + "loader = DataLoader(d)\nready = fabric.setup_dataloaders(loader)\n" + LOOP,
            "fabric takes the loader in line 5, and line 6 iterates it as it is",
            id="fabric",
        ),
        pytest.param(
            LIGHTNING + "loader = DataLoader(d)\nt = L.Trainer()\nt.fit(m, loader)\n" + LOOP,
            "lightning takes the loader in line 5, and line 6 iterates it as it is",
            id="lightning",
        ),
        pytest.param(
            PLAIN + "import torch_xla.distributed.parallel_loader as pl\nloader = DataLoader(d)\n"
            "ready = pl.MpDeviceLoader(loader, device)\n" + LOOP,
            "xla takes the loader in line 4, and line 5 iterates it as it is",
            id="xla",
        ),
        pytest.param(
            FABRIC + "import lightning as L\nt = L.Trainer()\nloader = DataLoader(d)\n"
            "t.fit(m, loader)\nready = fabric.setup_dataloaders(loader)\n",
            "lightning takes the loader in line 7, fabric in line 8",
            id="two frameworks",
        ),
        pytest.param(
            FABRIC + "loader = DataLoader(d)\n" + LOOP,
            "the program runs under fabric (line 3), and line 5 iterates the loader as it is",
            id="a Fabric that gets nothing",
        ),
        pytest.param(
            LIGHTNING + "t = L.Trainer()\nloader = DataLoader(d)\n" + LOOP,
            "the program runs under lightning (line 3), and line 5 iterates the loader as it is",
            id="a Trainer that gets nothing",
        ),
        pytest.param(
            PLAIN + "import ray.train.torch\ndef f():\n    for b in DataLoader(d):\n        pass\n"
            "ray.train.torch.TorchTrainer(f).fit()\n",
            "the program runs under ray (line 6), and line 4 iterates the loader as it is",
            id="ray",
        ),
        pytest.param(
            PLAIN + "import ignite.distributed as idist\nfrom ignite.engine import Engine\nt = Engine(step)\n"
            "with idist.Parallel() as p:\n    t.run(DataLoader(d))\n",
            "the program runs under ignite (line 5), and line 6 iterates the loader as it is",
            id="an Engine in a program of several processes",
        ),
        pytest.param(
            "from lightning.fabric import Fabric\n"
            + PLAIN
            + "loader = make().setup_dataloaders(DataLoader(d))\n"
            + LOOP,
            "line 3 hands the loader to make().setup_dataloaders(); whether that shards it is not shown",
            id="an object of which nothing is seen",
        ),
        pytest.param(
            LIGHTNING + "from b import make\nmake().fit(m, DataLoader(d))\n",
            "line 4 hands the loader to make().fit(); whether that shards it is not shown",
            id="a fit of which nothing is seen",
        ),
        pytest.param(
            LIGHTNING + "from b import Base\nclass M(Base):\n    def train_dataloader(self):\n"
            "        return DataLoader(d)\n",
            "train_dataloader() gives the loader; whether its class in line 4 is one of Lightning's is not shown",
            id="a hook in a class whose base is not seen",
        ),
    ],
)
def test_ways_that_disagree_or_are_not_seen_are_unknown(text: str, missing: str) -> None:
    found = site(text)
    assert (found.owner, found.ownership.missing) == ("unknown", missing)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param(
            FABRIC + "loader = fabric.setup_dataloaders(DataLoader(d), use_distributed_sampler=False)\n" + LOOP,
            4,
            id="fabric",
        ),
        pytest.param(
            LIGHTNING + "t = L.Trainer(use_distributed_sampler=False)\nt.fit(m, DataLoader(d))\n", 3, id="a Trainer"
        ),
        pytest.param(
            LIGHTNING + "class M(L.LightningModule):\n    def train_dataloader(self):\n        return DataLoader(d)\n"
            "L.Trainer(replace_sampler_ddp=False).fit(M())\n",
            6,
            id="a hook",
        ),
    ],
)
def test_a_framework_that_is_told_to_leave_samplers_alone_shards_no_plain_loader(text: str, line: int) -> None:
    found = site(text)
    assert found.owner == "unknown"
    assert f"is told in line {line} to leave samplers alone" in found.ownership.missing
    assert site(text.replace("DataLoader(d)", "DataLoader(d, sampler=s)")).owner in ("fabric", "lightning")


def test_one_trainer_of_two_that_leaves_samplers_alone_says_nothing_of_a_hook() -> None:
    hook = LIGHTNING + "class M(L.LightningModule):\n    def train_dataloader(self):\n        return DataLoader(d)\n"
    told = "L.Trainer(use_distributed_sampler=False).fit(M())\n"
    assert site(hook + told).owner == "unknown"
    assert site(hook + told + "L.Trainer().fit(M())\n").owner == "lightning"


def test_a_trainer_in_another_file_that_leaves_samplers_alone_is_named_with_its_file() -> None:
    files = {
        "data.py": LIGHTNING + "class D(L.LightningDataModule):\n    def train_dataloader(self):\n"
        "        return DataLoader(d)\n",
        "main.py": "import lightning as L\nfrom data import D\nL.Trainer(use_distributed_sampler=False).fit(m, D())\n",
    }
    assert "is told in main.py:3 to leave samplers alone" in site(files, "data.py").ownership.missing
    files["main.py"] = files["main.py"].replace("False", "True")
    assert site(files, "data.py").owner == "lightning"


@pytest.mark.parametrize(
    ("use", "owner"),
    [
        pytest.param(
            "from lightning.fabric import Fabric\nf = Fabric()\nfor b in f.setup_dataloaders(make()):\n    pass\n",
            "fabric",
            id="fabric",
        ),
        pytest.param("import lightning as L\nL.Trainer().fit(m, make())\n", "lightning", id="lightning"),
        pytest.param(
            "from accelerate import Accelerator\nfor b in Accelerator().prepare(make()):\n    pass\n",
            "accelerate",
            id="accelerate",
        ),
    ],
)
def test_what_takes_a_loader_in_another_file_owns_it(use: str, owner: str) -> None:
    files = {
        "data.py": PLAIN + "def make():\n    return DataLoader(d)\n",
        "main.py": "from data import make\n" + use,
    }
    found = site(files, "data.py")
    assert (found.owner, found.owner_evidence[0].location.path) == (owner, "main.py")
    other = "from ray.train.torch import prepare_data_loader\nfrom data import make\nprepare_data_loader(make())\n"
    assert site({**files, "other.py": other}, "data.py").owner == "unknown"


def test_a_first_look_at_a_batch_is_no_way_of_its_own() -> None:
    assert site(FABRIC + "raw = DataLoader(d)\nb = next(iter(raw))\nfabric.setup_dataloaders(raw)\n").owner == "fabric"


MAYBE = (
    FABRIC
    + """\
def read(x, y=None):
    for b in x:
        pass
def run(val=None):
    raw = val
    a = 1
    if val is not None:
        a, val = fabric.setup_dataloaders(x, val)
    for b in val:
        pass
run(DataLoader(d))
"""
)


def test_a_loader_that_may_be_none_is_taken_wherever_it_is_one() -> None:
    assert site(MAYBE).owner == "fabric"
    assert site(MAYBE.replace("val is not None:", "val:")).owner == "fabric"
    assert site(MAYBE.replace("for b in val:\n        pass", "read(val)")).owner == "fabric"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("val is not None:", "z:", id="another condition"),
        pytest.param("val is not None:", "a:", id="another name that is written too"),
        pytest.param("for b in val:", "for b in raw:", id="another name of it is read"),
        pytest.param("for b in val:\n        pass", "read(raw, val)", id="another name of it is handed on"),
        pytest.param("    for b in val:", "    if z:\n        val = raw\n    for b in val:", id="bound to it again"),
    ],
)
def test_a_loader_that_is_not_taken_wherever_it_is_one_is_unknown(old: str, new: str) -> None:
    assert old in MAYBE
    assert site(MAYBE.replace(old, new)).owner == "unknown"


def test_each_loader_of_a_program_goes_its_own_way() -> None:
    train, val = sites(LIGHTNING + "t = L.Trainer()\nt.fit(m, DataLoader(d))\nfor b in DataLoader(v):\n    pass\n")
    assert (train.owner, val.owner) == ("lightning", "unknown")


def test_a_trainer_shards_what_it_is_handed_and_nothing_else() -> None:
    program = LIGHTNING + "t = L.Trainer()\nloader = DataLoader(d)\n"
    kept = site(program + "n = len(loader)\n")
    assert (kept.owner, kept.ownership.missing) == ("unknown", "nothing is seen to hand the loader to a Trainer")
    away = site(program + "from b import keep\nkeep(loader)\n")
    missing = "the loader leaves what is followed in line 6; whether a Trainer gets it is not shown"
    assert (away.owner, away.ownership.missing) == ("unknown", missing)
    assert site(program + "t._data_connector.attach_data(m, train_dataloaders=loader)\n").owner == "lightning"
    assert site(program + "m.train_dataloader = lambda: loader\n").owner == "lightning"
    assert site(program + "m.other = lambda: loader\n").owner == "unknown"


def test_what_the_project_s_own_trainer_takes_in_a_dict_is_its() -> None:
    own = "class T(L.Trainer):\n    def fit(self, m, loaders):\n        keep(loaders)\n"
    assert site(LIGHTNING + own + "T().fit(m, {'a': DataLoader(d)})\n").owner == "lightning"


def test_each_test_of_a_suite_is_a_program_of_its_own() -> None:
    text = (
        "import pytest\n"
        + LIGHTNING
        + "class M(L.LightningModule):\n    pass\n"
        + "def test_one():\n    L.Trainer()\n"
        + "def test_two():\n    for b in DataLoader(d):\n        pass\n"
    )
    assert site({"tests/test_data.py": text}, "tests/test_data.py").owner == "single"
    assert site({"train.py": text}, "train.py").owner == "unknown"
    shared = text + "def run():\n    L.Trainer()\n"
    assert site({"tests/test_data.py": shared}, "tests/test_data.py").owner == "unknown"


def test_loaders_that_are_combined_go_where_the_combined_one_goes() -> None:
    made = LIGHTNING + "from lightning.pytorch.utilities import CombinedLoader\nc = CombinedLoader([DataLoader(d)])\n"
    assert site(made + "for b in c:\n    pass\n").owner == "single"
    assert site(made + "t = L.Trainer()\nt.fit(m, c)\n").owner == "lightning"
    again = made + "for i in r:\n    c = CombinedLoader(c)\n"
    assert site(again).owner == "single"


@pytest.mark.parametrize(
    "fit",
    [
        pytest.param("m.fit(train_objectives=[(loader, loss)])\n", id="in a list of pairs"),
        pytest.param("m.fit(loader)\n", id="by itself"),
        pytest.param("def run(x):\n    m.fit([(x, loss)])\nrun(loader)\n", id="through a function"),
    ],
)
def test_a_sentence_transformer_trains_with_a_trainer_where_the_project_shows_it(fit: str) -> None:
    made = "from sentence_transformers import SentenceTransformer\n" + PLAIN + "m = SentenceTransformer(n)\n"
    text = made + "loader = DataLoader(d)\n" + fit
    package = {f"sentence_transformers/{name}.py": "" for name in ("__init__", "fit_mixin")}
    found = site({"train.py": text, **package})
    assert found.owner == "unknown"
    assert "hands the loader to m.fit(), which trains with transformers' Trainer" in found.ownership.missing
    assert site({"train.py": text.replace("import Sent", "import models as Sent"), **package}).owner == "single"
    assert site(text).owner == "single"
