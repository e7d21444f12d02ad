"""Who shards a loader follows from what becomes of it, and where the source does not show it the answer is unknown."""

from __future__ import annotations

import pytest
from loaders import project, site, sites

from shardfix.analysis.model import Options
from shardfix.planning import make_plan

ACCELERATE = (
    "from accelerate import Accelerator\nfrom torch.utils.data import DataLoader\naccelerator = Accelerator()\n"
)
DDP = "import torch.distributed as dist\nfrom torch.utils.data import DataLoader\n"
PLAIN = "from torch.utils.data import DataLoader\n"
LOOP = "for b in loader:\n    pass\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("loader = accelerator.prepare(DataLoader(d))\n" + LOOP, id="inline"),
        pytest.param("loader = DataLoader(d)\nloader = accelerator.prepare(loader)\n" + LOOP, id="alone"),
        pytest.param(
            "loader = DataLoader(d)\nmodel, opt, loader = accelerator.prepare(model, opt, loader)\n" + LOOP,
            id="in a tuple",
        ),
        pytest.param(
            "raw = DataLoader(d)\nloader = accelerator.prepare_data_loader(raw)\n" + LOOP, id="prepare_data_loader"
        ),
        pytest.param(
            "from accelerate.data_loader import prepare_data_loader\nloader = prepare_data_loader(DataLoader(d))\n"
            + LOOP,
            id="the function",
        ),
        pytest.param(
            "def run(raw):\n    loader = accelerator.prepare(raw)\n    for b in loader:\n        pass\n"
            "run(DataLoader(d))\n",
            id="in another function",
        ),
        pytest.param(
            "def make():\n    return 1, DataLoader(d)\nn, raw = make()\nloader = accelerator.prepare(raw)\n" + LOOP,
            id="from a returned tuple",
        ),
        pytest.param(
            'raw = {"train": DataLoader(d)}\nloader = accelerator.prepare(raw["train"])\n' + LOOP,
            id="from a dict of loaders",
        ),
        pytest.param(
            'loaders = {"train": DataLoader(d)}\nfor k in loaders:\n    loaders[k] = accelerator.prepare(loaders[k])\n'
            'for b in loaders["train"]:\n    pass\n',
            id="each item in place",
        ),
        pytest.param(
            'loaders = {"train": DataLoader(d)}\nfor k, v in loaders.items():\n'
            "    loaders[k] = accelerator.prepare(v)\n"
            "for l in loaders.values():\n    for b in l:\n        pass\n",
            id="each item in place, by items()",
        ),
        pytest.param(
            'class T:\n    def __init__(self):\n        self.loaders = {"train": DataLoader(d)}\n'
            '        self.loaders["train"] = accelerator.prepare(self.loaders["train"])\n'
            '    def run(self):\n        for b in self.loaders["train"]:\n            pass\n',
            id="an item of an attribute in place",
        ),
        pytest.param(
            "class B:\n    def __init__(self):\n        self.loader = DataLoader(d)\n"
            "b = B()\nb.loader = accelerator.prepare(b.loader)\nfor x in b.loader:\n    pass\n",
            id="an attribute of an object in place",
        ),
        pytest.param(
            "class T:\n    def __init__(self):\n        self.acc = Accelerator()\n"
            "        self.loader = self.acc.prepare(DataLoader(d))\n"
            "    def run(self):\n        for b in self.loader:\n            pass\n",
            id="self attributes",
        ),
        pytest.param(
            "class T:\n    def __init__(self, accelerator):\n        self.loader = DataLoader(d)\n"
            "        self.loader = accelerator.prepare(self.loader)\n"
            "    def run(self):\n        for b in self.loader:\n            pass\n",
            id="a self attribute prepared in place",
        ),
        pytest.param(
            "def make():\n    return accelerator.prepare(DataLoader(d))\nloader = make()\n" + LOOP,
            id="a factory prepares",
        ),
        pytest.param(
            "def run(acc: Accelerator):\n    loader = acc.prepare(DataLoader(d))\n    for b in loader:\n        pass\n",
            id="an annotated parameter",
        ),
        pytest.param(
            "objects = (model, DataLoader(d))\nmodel, loader = accelerator.prepare(*objects)\n" + LOOP, id="starred"
        ),
        pytest.param(
            "items = [model]\nitems.append(DataLoader(d))\nmodel, loader = accelerator.prepare(*items)\n" + LOOP,
            id="starred, from a list that grows",
        ),
        pytest.param(
            "loaders = [DataLoader(d)]\nfor i, l in enumerate(loaders):\n    loaders[i] = accelerator.prepare(l)\n"
            "for l in loaders:\n    for b in l:\n        pass\n",
            id="each item of a list in place",
        ),
        pytest.param(
            'loaders = {"a": DataLoader(d)}\nloaders = {k: accelerator.prepare(l) for k, l in loaders.items()}\n'
            'for b in loaders["a"]:\n    pass\n',
            id="in a comprehension",
        ),
        pytest.param(
            "loader = DataLoader(d)\nif a:\n    m, loader = accelerator.prepare(m, loader)\nelse:\n"
            "    m, o, loader = accelerator.prepare(m, o, loader)\n" + LOOP,
            id="in both arms",
        ),
        pytest.param(
            "loader = accelerator.prepare(DataLoader(d))\nloader = accelerator.prepare(loader)\n" + LOOP, id="twice"
        ),
        pytest.param(
            "loader = accelerator.prepare(DataLoader(d))\nfor b in accelerator.skip_first_batches(loader, 3):\n"
            "    pass\n",
            id="batches skipped",
        ),
        pytest.param(
            "def evaluate(m, loader):\n    acc = Accelerator()\n    m, loader = acc.prepare(m, loader)\n"
            "    for b in loader:\n        pass\nevaluate(m, DataLoader(d))\n",
            id="by an Accelerator of the evaluation's own",
        ),
        pytest.param(
            "class T:\n    def __init__(self, acc, train):\n        self.acc = acc\n        self.train = train\n"
            "        self.model, self.train = self.acc.prepare(m, self.train)\n"
            "    def run(self):\n        for b in self.train:\n            pass\nT(accelerator, DataLoader(d)).run()\n",
            id="by a trainer of the project's own",
        ),
        pytest.param(
            "class Acc(Accelerator):\n    def run(self):\n        for b in self.prepare(DataLoader(d)):\n"
            "            pass\n",
            id="by itself",
        ),
    ],
)
def test_a_loader_that_reaches_prepare_is_accelerate_s(text: str) -> None:
    assert site(ACCELERATE + text).owner == "accelerate"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            'loaders = {"train": DataLoader(d)}\nif a:\n    loaders["train"] = accelerator.prepare(loaders["train"])\n'
            'for b in loaders["train"]:\n    pass\n',
            id="under a condition",
        ),
        pytest.param(
            "loaders = [DataLoader(d)]\nfor i, l in enumerate(loaders):\n    if a:\n        continue\n"
            "    loaders[i] = accelerator.prepare(l)\nfor l in loaders:\n    for b in l:\n        pass\n",
            id="some passed over",
        ),
        pytest.param(
            "loaders = [DataLoader(d)]\nfor i, l in enumerate(loaders, 1):\n    loaders[i] = accelerator.prepare(l)\n"
            "for l in loaders:\n    for b in l:\n        pass\n",
            id="counted from another number",
        ),
        pytest.param(
            'loaders = {"train": DataLoader(d)}\nfor b in loaders["train"]:\n    pass\n'
            'loaders["train"] = accelerator.prepare(loaders["train"])\nfor b in loaders["train"]:\n    pass\n',
            id="read before",
        ),
        pytest.param(
            "class B:\n    def __init__(self):\n        self.loader = DataLoader(d)\n"
            "b = B()\nif a:\n    b.loader = accelerator.prepare(b.loader)\nfor x in b.loader:\n    pass\n",
            id="an attribute under a condition",
        ),
    ],
)
def test_an_item_that_is_not_always_prepared_in_place_is_unknown(text: str) -> None:
    assert site(ACCELERATE + text).owner == "unknown"


def test_raw_and_prepared_both_iterated_is_unknown_and_names_both_lines() -> None:
    found = site(
        ACCELERATE
        + "loader = DataLoader(d)\nready = accelerator.prepare(loader)\n"
        + LOOP
        + "for b in ready:\n    pass\n"
    )
    assert found.owner == "unknown"
    assert found.ownership.missing == "the loader is prepared in line 5 and iterated unprepared in line 6"
    assert [e.location.line for e in found.owner_evidence] == [5, 6]


def test_a_comprehension_that_iterates_the_raw_loader_is_named_by_its_line() -> None:
    found = site(
        ACCELERATE + "loader = DataLoader(d)\nn = sum(1 for _ in loader)\nloader = accelerator.prepare(loader)\n" + LOOP
    )
    assert found.ownership.missing == "the loader is prepared in line 6 and iterated unprepared in line 5"


def test_a_result_that_is_thrown_away_is_unknown() -> None:
    found = site(ACCELERATE + "loader = DataLoader(d)\naccelerator.prepare(loader)\n" + LOOP)
    assert found.owner == "unknown"


def test_a_result_that_nothing_takes_is_unknown() -> None:
    found = site(ACCELERATE + "accelerator.prepare(DataLoader(d))\n")
    assert (found.owner, found.ownership.missing) == ("unknown", "the result of prepare() is not used")


def test_prepared_on_one_path_only_is_unknown() -> None:
    found = site(ACCELERATE + "loader = DataLoader(d)\nif a:\n    loader = accelerator.prepare(loader)\n" + LOOP)
    assert found.owner == "unknown"
    assert found.ownership.missing == "the loader is prepared in line 6 and iterated unprepared in line 7"


MAKE = "loader = accelerator.prepare(DataLoader(d))\n"


@pytest.mark.parametrize(
    ("files", "owner"),
    [
        pytest.param(
            {"train.py": "from mylib import Accelerator\naccelerator = Accelerator()\n"}, "unknown", id="unseen"
        ),
        pytest.param(
            {
                "mylib.py": "class Accelerator:\n    def prepare(self, x):\n        return x\n",
                "train.py": "from mylib import Accelerator\naccelerator = Accelerator()\n",
            },
            "ddp",
            id="a class of the project",
        ),
        pytest.param(
            {
                "train.py": "class Accelerator:\n    def prepare(self, x):\n        return x\n"
                "accelerator = Accelerator()\n"
            },
            "ddp",
            id="a class of the file",
        ),
        pytest.param(
            {"train.py": "from accelerate import load\nfrom b import make\naccelerator = make()\n"},
            "unknown",
            id="what an unseen function returns",
        ),
        pytest.param({"train.py": "from b import accelerator\n"}, "unknown", id="accelerate is not known to the file"),
        pytest.param(
            {"train.py": "from accelerate.utils import set_seed\nfrom b import accelerator\n"},
            "accelerate",
            id="nothing is seen of it, and the file knows accelerate",
        ),
        pytest.param(
            {
                "b.py": "from accelerate import Accelerator\ndef make():\n    return 1, Accelerator()\n",
                "train.py": "from b import make\nn, accelerator = make()\n",
            },
            "accelerate",
            id="what a function of the project returns",
        ),
        pytest.param(
            {
                "b.py": "from accelerate import Accelerator\nacc = Accelerator()\n",
                "train.py": "from b import acc as accelerator\n",
            },
            "accelerate",
            id="a variable of another file",
        ),
        pytest.param(
            {
                "b.py": "from accelerate import Accelerator\nclass Acc(Accelerator):\n    pass\n",
                "train.py": "from b import Acc\naccelerator = Acc()\n",
            },
            "accelerate",
            id="a subclass in another file",
        ),
    ],
)
def test_an_accelerator_is_one_by_what_made_it_and_not_by_its_name(files: dict[str, str], owner: str) -> None:
    text = DDP + "dist.init_process_group()\n" + files["train.py"] + MAKE + LOOP
    assert site({**files, "train.py": text}).owner == owner


@pytest.mark.parametrize(
    ("assigned", "owner"),
    [
        pytest.param("        self.accelerator = Accelerator()\n", "accelerate", id="made"),
        pytest.param("        self.accelerator = accelerator\n", "accelerate", id="a parameter"),
        pytest.param("        self.accelerator = make()\n", "unknown", id="made elsewhere"),
        pytest.param("        self.accelerator = Own()\n", "ddp", id="a class of the file"),
    ],
)
def test_an_attribute_is_what_another_method_makes_it(assigned: str, owner: str) -> None:
    found = site(
        "from accelerate import Accelerator\nfrom elsewhere import make\n" + DDP + "dist.init_process_group()\n"
        "class Own:\n    def prepare(self, x):\n        return x\n"
        "class T:\n    def __init__(self, accelerator):\n" + assigned + "    def run(self):\n"
        "        for b in self.accelerator.prepare(DataLoader(d)):\n            pass\n"
    )
    assert found.owner == owner


def test_a_parameter_of_any_name_is_what_the_callers_give() -> None:
    run = "def run(acc, loader):\n    loader = acc.prepare(loader)\n    for b in loader:\n        pass\n"
    assert site(ACCELERATE + run + "run(accelerator, DataLoader(d))\n").owner == "accelerate"
    assert site(ACCELERATE + run + "run(other(), DataLoader(d))\n").owner == "unknown"
    files = {
        "train.py": PLAIN + "def run(acc):\n    for b in acc.prepare(DataLoader(d)):\n        pass\n",
        "main.py": "from accelerate import Accelerator\nfrom train import run\nrun(acc=Accelerator())\n",
    }
    assert site(files).owner == "accelerate"
    files = {
        "train.py": PLAIN + "def run(accelerator):\n    for b in accelerator.prepare(DataLoader(d)):\n        pass\n",
        "main.py": "from accelerate import Accelerator\nfrom train import run\nrun(**settings)\n",
    }
    assert site(files).owner == "accelerate"
    files["main.py"] = files["main.py"].replace("from accelerate", "from elsewhere")
    assert site(files).owner == "unknown"


def test_a_call_of_the_usual_name_on_an_unseen_object_is_unknown_though_another_path_reads_the_raw_loader() -> None:
    found = site(
        DDP + "dist.init_process_group()\n"
        "def run(acc, loader):\n    if acc:\n        loader = acc.prepare(loader)\n    for b in loader:\n        pass\n"
        "run(a, DataLoader(d))\n"
    )
    assert found.owner == "unknown"
    assert found.ownership.missing == "line 6 hands the loader to acc.prepare(); whether that shards it is not shown"


def test_a_trainer_that_prepares_other_things_does_not_prepare_the_loader() -> None:
    found = site(
        ACCELERATE
        + "class T:\n    def __init__(self, x):\n        self.train = x\n        self.m = accelerator.prepare(m)\n"
        "    def run(self):\n        for b in self.train:\n            pass\nT(DataLoader(d)).run()\n"
    )
    assert (found.owner, found.ownership.via_accelerate) == ("ddp", True)


def test_params_of_an_override_are_prepared_with_its_loader() -> None:
    found = site(
        PLAIN + "from transformers import Trainer\nclass T(Trainer):\n    def get_train_dataloader(self):\n"
        "        params = {'batch_size': 2}\n        if x:\n            params['sampler'] = s\n"
        "        return self.accelerator.prepare(DataLoader(d, **params))\n"
    )
    assert (found.owner, found.owner_evidence[0].location.line) == ("accelerate", 8)


def test_how_an_accelerator_is_told_to_shard_is_part_of_the_evidence() -> None:
    text = ACCELERATE + "loader = accelerator.prepare(DataLoader(d))\n" + LOOP
    assert [e.location.line for e in site(text).owner_evidence] == [4]
    told = text.replace("Accelerator()", "Accelerator(split_batches=True)")
    assert [e.location.line for e in site(told).owner_evidence] == [4, 3]


AHEAD = """\
import torch
from torch.utils.data import BatchSampler, DistributedSampler, SequentialSampler
loader = DataLoader(d, shuffle=True)
for b in loader:
    with torch.no_grad():
        cache.append(encode(b))
model, loader = accelerator.prepare(model, loader)
for epoch in range(3):
    for b in loader:
        accelerator.backward(model(b))
"""


def test_a_loader_that_is_read_ahead_for_a_computation_on_all_samples_is_prepared_for_training() -> None:
    found = site(ACCELERATE + AHEAD)
    assert (found.owner, [e.location.line for e in found.owner_evidence]) == ("accelerate", [10, 7])
    assert found.ownership.note.startswith("prepare() shards it; line 7 reads all of it before")
    (report,) = make_plan(project({"train.py": ACCELERATE + AHEAD}), ("train.py",), Options()).reports
    assert (report.verdict, report.why) == ("right", found.ownership.note)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("shuffle=True", "sampler=SequentialSampler(d)", id="a sampler that may be taken away"),
        pytest.param("shuffle=True", "sampler=DistributedSampler(d)", id="a sampler that shards"),
        pytest.param(
            "shuffle=True", "batch_sampler=BatchSampler(SequentialSampler(d), 2, False)", id="a batch sampler"
        ),
        pytest.param("shuffle=True", "**options", id="arguments that are not seen"),
        pytest.param("with torch.no_grad()", "with other()", id="not without gradients"),
        pytest.param("accelerator.backward(model(b))", "model(b)", id="not trained on after"),
        pytest.param("cache.append(encode(b))", "loss(b).backward()", id="trained on before"),
    ],
)
def test_a_loop_before_prepare_that_is_no_computation_ahead_leaves_the_owner_unknown(old: str, new: str) -> None:
    assert old in AHEAD
    assert site(ACCELERATE + AHEAD.replace(old, new)).owner == "unknown"


def test_a_loop_after_prepare_is_none_ahead_of_it() -> None:
    text = ACCELERATE + AHEAD.replace("loader = accel", "ready = accel").replace(
        "    for b in loader", "    for b in ready"
    )
    text = text.replace("model, ready", "_, ready")
    assert site(text).owner == "accelerate"
    first, rest = text.split("for b in loader:", 1)
    ahead, after = ("for b in loader:" + rest).split("_, ready", 1)
    assert site(first + "_, ready" + after + ahead).owner == "unknown"


def test_a_first_look_at_a_batch_leaves_the_owner_shown_where_no_sampler_may_go() -> None:
    text = (
        ACCELERATE + "loader = DataLoader(d)\nfirst = next(iter(loader))\nloader = accelerator.prepare(loader)\n" + LOOP
    )
    assert site(text).owner == "accelerate"
    assert site(text.replace("DataLoader(d)", "DataLoader(d, sampler=s)")).owner == "unknown"
    assert site(text.replace("first =", "while a:\n    first =")).owner == "unknown"


def test_another_object_s_prepare_is_not_accelerate_s() -> None:
    found = site(
        PLAIN + "class Kitchen:\n    def prepare(self, x):\n        return x\n"
        "kitchen = Kitchen()\nloader = kitchen.prepare(DataLoader(d))\n" + LOOP
    )
    assert found.owner == "single"


def test_a_function_that_the_user_names_prepares() -> None:
    text = ACCELERATE + "from engine import ready\nloader = ready(DataLoader(d))\n" + LOOP
    assert site(text).owner == "unknown"
    assert site(text, options=Options(prepare_functions=("ready",))).owner == "accelerate"


def test_an_unprepared_loader_of_an_accelerate_program_is_nobody_s() -> None:
    found = site(ACCELERATE + "loader = DataLoader(d)\n" + LOOP)
    assert (found.owner, found.ownership.via_accelerate) == ("ddp", True)


def test_a_loader_that_leaves_the_file_may_be_prepared_there() -> None:
    found = site(ACCELERATE + "def make():\n    return DataLoader(d)\n")
    assert found.owner == "unknown"
    assert found.ownership.missing.startswith("the loader leaves what is followed")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('dist.init_process_group("gloo")\n', id="init_process_group"),
        pytest.param(
            "from torch.nn.parallel import DistributedDataParallel\nm = DistributedDataParallel(m)\n", id="DDP"
        ),
        pytest.param("import torch\nm = torch.nn.parallel.DistributedDataParallel(m)\n", id="DDP in full"),
        pytest.param(
            "from torch.distributed.fsdp import FullyShardedDataParallel as F\nm = F(m)\n", id="FSDP under another name"
        ),
        pytest.param(
            "from torch.utils.data.distributed import DistributedSampler\ns = DistributedSampler(d)\n",
            id="a sampler made",
        ),
        pytest.param(
            "from apex.parallel import DistributedDataParallel\nm = DistributedDataParallel(m)\n", id="apex DDP"
        ),
    ],
)
def test_what_makes_a_program_ddp(text: str) -> None:
    assert site(DDP + text + "loader = DataLoader(d)\n" + LOOP).owner == "ddp"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("from torch.utils.data.distributed import DistributedSampler\n", id="an unused sampler import"),
        pytest.param("from torch.nn.parallel import DistributedDataParallel\n", id="an unused DDP import"),
        pytest.param('from apex import amp\nm, o = amp.initialize(m, o, opt_level="O1")\n', id="apex for amp only"),
        pytest.param('parser.add_argument("--local_rank", type=int)\n', id="an argument that nothing reads"),
        pytest.param("m = torch.nn.DataParallel(m)\n", id="DataParallel is one process"),
    ],
)
def test_an_import_or_an_argument_is_no_regime(text: str) -> None:
    assert site(PLAIN + text + "loader = DataLoader(d)\n" + LOOP).owner == "single"


@pytest.mark.parametrize(
    ("text", "owner"),
    [
        pytest.param(
            "from ray.train.torch import prepare_data_loader\nloader = prepare_data_loader(DataLoader(d))\n" + LOOP,
            "ray",
            id="ray",
        ),
        pytest.param(
            "import ray.train.torch\nloader = ray.train.torch.prepare_data_loader(DataLoader(d))\n" + LOOP,
            "ray",
            id="ray in full",
        ),
        pytest.param(
            "from lightning.fabric import Fabric\nfabric = Fabric()\nloader = fabric.setup_dataloaders(DataLoader(d))\n"
            + LOOP,
            "fabric",
            id="fabric",
        ),
        pytest.param(
            "import pytorch_lightning as pl\nclass M(pl.LightningModule):\n    def train_dataloader(self):\n"
            "        return DataLoader(d)\n",
            "lightning",
            id="a lightning hook",
        ),
        pytest.param(
            "from lightning.pytorch import LightningDataModule\nclass M(LightningDataModule):\n"
            "    def val_dataloader(self):\n        loader = DataLoader(d)\n        return loader\n",
            "lightning",
            id="a data module's hook",
        ),
        pytest.param(
            "import pytorch_lightning as pl\ntrainer = pl.Trainer()\ntrainer.fit(m, DataLoader(d))\n",
            "lightning",
            id="handed to fit",
        ),
        pytest.param(
            "from transformers import Trainer\nclass T(Trainer):\n    def get_train_dataloader(self):\n"
            "        return DataLoader(d)\n",
            "hf-trainer",
            id="a Trainer override",
        ),
        pytest.param(
            "import transformers\nclass T(transformers.Seq2SeqTrainer):\n    def get_eval_dataloader(self, ds=None):\n"
            "        loader = DataLoader(d)\n        return loader\n",
            "hf-trainer",
            id="an override of a Trainer of another name",
        ),
        pytest.param(
            "from transformers import Trainer\nclass T(Trainer):\n    def get_train_dataloader(self):\n"
            "        return self.accelerator.prepare(DataLoader(d))\n",
            "accelerate",
            id="an override that prepares",
        ),
        pytest.param(
            "class Trainer:\n    def get_train_dataloader(self):\n        return DataLoader(d)\n",
            "single",
            id="a Trainer of the project's own",
        ),
        pytest.param(
            'import jax\nparser.add_argument("--local_rank")\nn = jax.device_count()\nloader = DataLoader(d)\n' + LOOP,
            "jax",
            id="local_rank in a JAX script",
        ),
        pytest.param(
            "import horovod.torch as hvd\nhvd.init()\nloader = DataLoader(d)\n" + LOOP,
            "horovod",
            id="horovod, and no sampler",
        ),
        pytest.param(
            "import torch_xla.distributed.xla_multiprocessing as xmp\nxmp.spawn(f)\nloader = DataLoader(d)\n" + LOOP,
            "xla",
            id="xla",
        ),
        pytest.param(
            "import deepspeed\nm = deepspeed.initialize(model=PipelineModule(m))\nloader = DataLoader(d)\n" + LOOP,
            "deepspeed",
            id="deepspeed with a model in parts",
        ),
        pytest.param(
            "from torch.distributed.device_mesh import init_device_mesh\nmesh = init_device_mesh('cuda', (2, 2))\n"
            "loader = DataLoader(d)\n" + LOOP,
            "mesh",
            id="a device mesh",
        ),
        pytest.param(
            "import torch.distributed as dist\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"
            "dist.init_process_group()\ngroup = dist.new_group([0, 1])\nm = DDP(m, process_group=group)\n"
            "loader = DataLoader(d)\n" + LOOP,
            "mesh",
            id="a model over a group of its own",
        ),
        pytest.param(
            "from megatron.core.parallel_state import initialize_model_parallel\ninitialize_model_parallel(2)\n"
            "loader = DataLoader(d)\n" + LOOP,
            "mesh",
            id="megatron",
        ),
        pytest.param(
            "import jax\nimport torch.distributed as dist\nkey = jax.random.PRNGKey(0)\ndist.init_process_group()\n"
            "loader = DataLoader(d)\n" + LOOP,
            "ddp",
            id="a JAX key in a program of torch's own process group",
        ),
        pytest.param(
            "import torch.distributed as dist\nfrom torch.distributed.device_mesh import init_device_mesh\n"
            "dist.init_process_group()\nmesh = init_device_mesh('cuda', (8,))\nloader = DataLoader(d)\n" + LOOP,
            "ddp",
            id="a mesh of one axis",
        ),
    ],
)
def test_frameworks_that_shard_in_their_own_way(text: str, owner: str) -> None:
    assert site(PLAIN + text).owner == owner


@pytest.mark.parametrize(("demo", "owner"), [("", "ddp"), ("from data import make\nmake(1)\n", "unknown")])
def test_the_programs_that_run_a_function_decide_where_they_agree(demo: str, owner: str) -> None:
    found = site(
        {
            "data.py": PLAIN + "def make(d):\n    return DataLoader(d)\n",
            "main.py": "import torch.distributed as dist\nfrom data import make\ndist.init_process_group()\nmake(1)\n",
            "demo.py": demo,
        },
        "data.py",
    )
    assert found.owner == owner
    assert found.ownership.missing == (
        "main.py runs it under ddp and demo.py runs it in one process" if owner == "unknown" else ""
    )


@pytest.mark.parametrize("more", ["", "import torch.distributed as dist\ndist.init_process_group()\n"])
def test_a_loader_that_another_file_prepares_is_owned_by_accelerate(more: str) -> None:
    found = site(
        {
            "data.py": more + PLAIN + "from torch.utils.data.distributed import DistributedSampler\n"
            "def make(d):\n    return DataLoader(d, sampler=DistributedSampler(d))\n",
            "main.py": "from accelerate import Accelerator\nfrom data import make\n"
            "loader = Accelerator().prepare(make(d))\n",
        },
        "data.py",
    )
    assert found.owner == "accelerate"
    assert [str(e.location) for e in found.owner_evidence] == ["main.py:3:10"]


def test_a_helper_of_the_project_that_makes_the_group_counts_where_it_is_called() -> None:
    files = {
        "setup.py": 'import torch.distributed as dist\ndef setup():\n    dist.init_process_group("gloo")\n',
        "train.py": PLAIN + "from setup import setup\nsetup()\nloader = DataLoader(d)\n" + LOOP,
        "other.py": PLAIN + "from setup import setup\nloader = DataLoader(d)\n" + LOOP,
    }
    assert site(files, "train.py").owner == "ddp"
    assert site(files, "other.py").owner == "single"


def test_packages_that_import_all_of_each_other_end() -> None:
    stars = "".join(f"from .m{i} import *\n" for i in range(12))
    files = {"p/__init__.py": stars + "from .gone import *\nfrom .lost import lost\n"}
    files |= {f"p/m{i}.py": "from . import *\n" + stars for i in range(12)}
    files["train.py"] = PLAIN + "from p import lost, make, gone\nmake(1)\nlost.f()\ngone.f()\nloader = DataLoader(d)\n"
    assert site(files).owner == "single"


def test_a_comment_settles_the_owner() -> None:
    found = site(ACCELERATE + "def make():\n    return DataLoader(d)  # shardfix: owner=accelerate\n")
    assert found.owner == "accelerate"


def test_each_loader_has_its_own_owner() -> None:
    train, val = sites(
        ACCELERATE
        + "loader = DataLoader(d)\nval = DataLoader(v)\nloader = accelerator.prepare(loader)\n"
        + LOOP
        + "for b in val:\n    pass\n"
    )
    assert (train.owner, val.owner) == ("accelerate", "ddp")


SHARED = {
    "data.py": "from torch.utils.data import DataLoader, DistributedSampler, SequentialSampler\n"
    "def make(d, world=1, rank=0):\n    return DataLoader(d, sampler={sampler})\n",
    "train.py": "from accelerate import Accelerator\nfrom data import make\n"
    "accelerator = Accelerator()\nloader = accelerator.prepare(make(d))\n" + LOOP,
}
READ = "from data import make\ndef test_all():\n    for b in make(d, 2, 1):\n        pass\n"


@pytest.mark.parametrize(
    ("sampler", "files", "owner"),
    [
        pytest.param("SequentialSampler(d)", {"tests/test_data.py": READ}, "accelerate", id="a test"),
        pytest.param("SequentialSampler(d)", {"show.py": READ + "test_all()\n"}, "accelerate", id="a script"),
        pytest.param(
            "SequentialSampler(d)",
            {"show.py": "import torch.distributed as dist\ndist.init_process_group()\n" + READ + "test_all()\n"},
            "unknown",
            id="a program of several processes",
        ),
        pytest.param(
            "DistributedSampler(d, num_replicas=world, rank=rank)",
            {"tests/test_data.py": READ},
            "unknown",
            id="a test of the ranks",
        ),
    ],
)
def test_what_one_process_reads_says_nothing_against_prepare(sampler: str, files: dict[str, str], owner: str) -> None:
    own = {path: text.replace("{sampler}", sampler) for path, text in SHARED.items()}
    assert site(own | files, "data.py").owner == owner


@pytest.mark.parametrize(
    ("body", "owner"),
    [
        pytest.param("return super().prepare(*objects)", "accelerate", id="all is handed on"),
        pytest.param("return objects", "unknown", id="nothing is"),
        pytest.param(
            "objects = [o for o in objects if o is not None]\n        return super().prepare(*objects)",
            "unknown",
            id="some of it",
        ),
    ],
)
def test_an_accelerator_that_prepares_in_a_way_of_its_own_is_not_accelerate_s(body: str, owner: str) -> None:
    found = site(
        "from accelerate import Accelerator\nfrom torch.utils.data import DataLoader\n"
        f"class Own(Accelerator):\n    def prepare(self, *objects):\n        {body}\n"
        "accelerator = Own()\nloader = accelerator.prepare(DataLoader(d))\n" + LOOP
    )
    assert found.owner == owner


BASE = (
    "class Base:\n    def setup(self):\n        {setup}\n"
    "    def fit(self):\n        for b in self.loader:\n            pass\n"
)
DERIVED = (
    "from accelerate import Accelerator\nfrom base import Base\nfrom torch.utils.data import DataLoader\n"
    "class T(Base):\n    def __init__(self):\n        self.acc = Accelerator()\n        self.loader = DataLoader(d)\n"
    "        self.setup()\nT().fit()\n"
)


@pytest.mark.parametrize(
    ("setup", "owner"),
    [
        pytest.param("self.loader = self.acc.prepare(self.loader)", "accelerate", id="by its own name"),
        pytest.param(
            "for n in self.names:\n            setattr(self, n, self.acc.prepare(getattr(self, n)))",
            "unknown",
            id="by any name",
        ),
        pytest.param("pass", "ddp", id="not at all"),
    ],
)
def test_what_a_base_class_prepares_with_what_its_subclass_makes(setup: str, owner: str) -> None:
    assert site({"base.py": BASE.format(setup=setup), "train.py": DERIVED}).owner == owner


def test_a_first_look_does_not_make_what_goes_out_of_sight_unprepared() -> None:
    text = ACCELERATE + "loader = DataLoader(d)\nprint(next(iter(loader)))\nlibrary.run(accelerator, loader)\n"
    assert site(text.replace("import Accelerator", "import Accelerator\nimport library")).owner == "unknown"


@pytest.mark.parametrize(
    ("more", "owner"), [("", "accelerate"), ("class Plain(Base):\n    pass\nPlain().fit()\n", "unknown")]
)
def test_what_one_subclass_prepares_is_raw_in_another(more: str, owner: str) -> None:
    text = (
        ACCELERATE + "class Base:\n    def __init__(self):\n        self.loader = DataLoader(d)\n        self.setup()\n"
        "    def setup(self):\n        pass\n    def fit(self):\n        for b in self.loader:\n            pass\n"
        "class Full(Base):\n    def setup(self):\n        self.loader = accelerator.prepare(self.loader)\n"
        "Full().fit()\n"
    )
    assert site(text + more).owner == owner
