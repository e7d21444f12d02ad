"""A loader that another library builds is told with its library, and what only looks like one is none."""

from __future__ import annotations

import pytest
from loaders import project, site, sites

from shardfix.analysis.model import Options
from shardfix.planning import make_plan

PLAIN = "from torch.utils.data import DataLoader\n"
GROUP = "import torch.distributed as dist\ndist.init_process_group()\n"


@pytest.mark.parametrize(
    ("text", "owner"),
    [
        pytest.param("from torch_geometric.loader import NeighborLoader\nNeighborLoader(g)\n", "pyg", id="pyg"),
        pytest.param(
            "from torch_geometric.loader import NeighborSampler\nNeighborSampler(e)\n",
            "pyg",
            id="a loader named Sampler",
        ),
        pytest.param(
            "from torch_geometric.loader import NeighborLoader as N\nclass Mine(N):\n    pass\nMine(g)\n",
            "pyg",
            id="a class derived from one",
        ),
        pytest.param("import webdataset as wds\nwds.WebLoader(d)\n", "webdataset", id="webdataset"),
        pytest.param(
            "from torchdata.stateful_dataloader import StatefulDataLoader\nStatefulDataLoader(d)\n",
            "torchdata",
            id="torchdata",
        ),
        pytest.param("import torchdata.nodes as tn\ntn.Loader(n)\n", "torchdata", id="torchdata's nodes"),
        pytest.param(
            "from nvidia.dali.plugin.pytorch import DALIGenericIterator\nDALIGenericIterator(p)\n", "dali", id="dali"
        ),
        pytest.param("import dgl\ndgl.dataloading.DataLoader(g, i, s)\n", "dgl", id="dgl"),
        pytest.param("from ffcv.loader import Loader\nLoader(p)\n", "other", id="one of the others"),
        pytest.param(
            "import ignite.distributed as idist\nidist.auto_dataloader(d, batch_size=2)\n", "ignite", id="ignite"
        ),
        pytest.param(
            "import deepspeed\ne, o, loader, s = deepspeed.initialize(model=m, training_data=d)\n",
            "deepspeed",
            id="deepspeed's training_data",
        ),
        pytest.param(
            "import deepspeed\nclass T:\n    def __init__(self):\n        self.engine, *_ = deepspeed.initialize(m)\n"
            "    def run(self):\n        self.engine.deepspeed_io(d)\n",
            "deepspeed",
            id="deepspeed_io",
        ),
        pytest.param(
            "import ray.train\nshard = ray.train.get_dataset_shard('train')\nshard.iter_torch_batches(batch_size=2)\n",
            "ray",
            id="ray's batches",
        ),
        pytest.param(
            "import ray\nray.data.range(8).random_shuffle().iter_torch_batches()\n", "ray", id="a dataset of ray"
        ),
        pytest.param(
            "from mmengine.runner import Runner\nRunner(train_dataloader=dict(batch_size=2, dataset=dict(type='A')))\n",
            "mmengine",
            id="mmengine's Runner, from a dict",
        ),
        pytest.param(
            "from mmengine.runner import Runner\nRunner.build_dataloader(cfg)\n", "mmengine", id="build_dataloader"
        ),
        pytest.param(
            "train_dataloader = dict(dataset=dict(type='A'), sampler=dict(type='DefaultSampler', shuffle=True))\n",
            "mmengine",
            id="an mmengine configuration",
        ),
    ],
)
def test_a_library_s_loader_is_its_own_in_any_program(text: str, owner: str) -> None:
    for program in (text, GROUP + text):
        found = site(program)
        assert (found.kind, found.owner) == ("foreign", owner)
        (report,) = make_plan(project({"train.py": program}), ("train.py",), Options()).reports
        assert report.verdict == "not-ours"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("from torch_geometric.loader import NeighborLoader\n", id="an import"),
        pytest.param("from torch_geometric.loader import CachedLoader\nCachedLoader(x)\n", id="a wrapper"),
        pytest.param(
            "from torch_geometric.nn.models.tgn import LastNeighborLoader\nLastNeighborLoader(8)\n", id="a store"
        ),
        pytest.param("import deepspeed\ndeepspeed.initialize(model=m, training_data=None)\n", id="no training_data"),
        pytest.param("make().deepspeed_io(d)\n", id="the name of a method of deepspeed"),
        pytest.param("make().iter_torch_batches()\n", id="the name of a method of ray"),
        pytest.param("def auto_dataloader(d):\n    return d\nauto_dataloader(d)\n", id="the name of ignite's function"),
        pytest.param("train_dataloader = dict(batch_size=2, shuffle=True)\n", id="arguments in a dict"),
        pytest.param("def f():\n    train_dataloader = dict(dataset=dict(type='A'))\n", id="a dict in a function"),
        pytest.param("from mmengine.runner import Runner\nRunner(model=m)\n", id="a Runner without loaders"),
    ],
)
def test_what_only_looks_like_a_loader_is_none(text: str) -> None:
    assert [found.kind for found in sites(PLAIN + text + "DataLoader(d)\n")] == ["torch"]


def test_a_package_of_the_project_that_is_named_as_a_library_s_is_the_project_s() -> None:
    files = {
        "dgl/loaders.py": "class GraphLoader:\n    pass\n",
        "train.py": PLAIN + "from dgl.loaders import GraphLoader\nGraphLoader(d)\nDataLoader(d)\n",
    }
    assert [found.kind for found in sites(files)] == ["torch"]


def test_what_takes_a_library_s_loader_owns_it() -> None:
    found = site(
        "from accelerate import Accelerator\nfrom torchdata.stateful_dataloader import StatefulDataLoader\n"
        "a = Accelerator()\nfor b in a.prepare(StatefulDataLoader(d)):\n    pass\n"
    )
    assert (found.kind, found.owner) == ("foreign", "accelerate")
