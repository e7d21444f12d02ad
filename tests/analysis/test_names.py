"""A name stands for what its scope binds it to: through imports, aliases and re-exports, never by its text."""

from __future__ import annotations

import pytest
from loaders import expression, module, project, sites

from shardfix.analysis.code.names import canonical

LOADER = frozenset(("torch.utils.data.DataLoader",))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        pytest.param("from torch.utils.data import DataLoader\nDataLoader\n", "DataLoader", id="from import"),
        pytest.param("from torch.utils.data import DataLoader as DL\nDL\n", "DL", id="alias"),
        pytest.param(
            "import torch.utils.data\ntorch.utils.data.DataLoader\n", "torch.utils.data.DataLoader", id="full name"
        ),
        pytest.param("import torch\ntorch.utils.data.DataLoader\n", "torch.utils.data.DataLoader", id="through torch"),
        pytest.param("import torch.utils.data as data\ndata.DataLoader\n", "data.DataLoader", id="module alias"),
        pytest.param(
            "from torch.utils import data\ndata.DataLoader\n", "data.DataLoader", id="module from its package"
        ),
        pytest.param(
            "from torch.utils.data.dataloader import DataLoader\nDataLoader\n", "DataLoader", id="defining module"
        ),
        pytest.param(
            "from torch.utils.data import DataLoader\nMake = DataLoader\nMake\n", "Make", id="assigned to another name"
        ),
        pytest.param(
            "def f():\n    from torch.utils.data import DataLoader\n    DataLoader\n", "DataLoader", id="local import"
        ),
        pytest.param(
            "try:\n    from torch.utils.data import DataLoader\nexcept ImportError:\n    raise\nDataLoader\n",
            "DataLoader",
            id="import that may fail",
        ),
        pytest.param("from torch.utils.data import *\nDataLoader\n", "DataLoader", id="star import"),
        pytest.param(
            "import torch\nclass C:\n    def f(self):\n        self.m = torch.utils.data.DataLoader\n        self.m\n",
            "self.m",
            id="class attribute",
        ),
    ],
)
def test_the_loader_is_known_under_any_name(text: str, name: str) -> None:
    found = module(text)
    assert found.qualify(expression(found, name)) == LOADER


@pytest.mark.parametrize(
    ("text", "name", "qualified"),
    [
        pytest.param(
            "from torch.utils.data import DataLoader\ndef DataLoader(x):\n    pass\nDataLoader\n",
            "DataLoader",
            {"train.DataLoader"},
            id="a local def shadows the import",
        ),
        pytest.param(
            "from torch.utils.data import DataLoader\ndef f(DataLoader):\n    DataLoader\n",
            "DataLoader",
            set(),
            id="a parameter shadows the import",
        ),
        pytest.param(
            "from torch.utils import data\nfor data in loader:\n    data.DataLoader\n",
            "data.DataLoader",
            set(),
            id="a batch variable shadows the module",
        ),
        pytest.param(
            "from keras.utils import DataLoader\nDataLoader\n",
            "DataLoader",
            {"keras.utils.DataLoader"},
            id="other library",
        ),
        pytest.param("DataLoader\n", "DataLoader", set(), id="never bound"),
        pytest.param(
            "if a:\n    from torch.utils.data import DataLoader\nelse:\n    from fast import DataLoader\nDataLoader\n",
            "DataLoader",
            {"torch.utils.data.DataLoader", "fast.DataLoader"},
            id="one of two",
        ),
    ],
)
def test_what_only_looks_like_the_loader_is_not_taken_for_it(text: str, name: str, qualified: set[str]) -> None:
    found = module(text)
    assert found.qualify(expression(found, name)) == qualified


def test_the_module_is_known_before_a_batch_variable_shadows_it() -> None:
    found = sites(
        "from torch.utils import data\n"
        "loader = data.DataLoader(ds)\n"
        "for data in loader:\n"
        "    data.DataLoader(1)\n"
        "    other.DataLoader(2)\n"
    )
    # In the loop's first pass ``data`` is the batch already: the target is bound before the body runs.
    assert [s.call.lineno for s in found] == [2]


@pytest.mark.parametrize(
    ("files", "path"),
    [
        pytest.param(
            {
                "common.py": "from torch.utils.data import DataLoader\n",
                "train.py": "from common import DataLoader\nDataLoader(d)\n",
            },
            "train.py",
            id="beside the script",
        ),
        pytest.param(
            {
                "scripts/common.py": "from torch.utils.data import DataLoader\n",
                "scripts/train.py": "from common import DataLoader\nDataLoader(d)\n",
            },
            "scripts/train.py",
            id="beside a script in a folder",
        ),
        pytest.param(
            {
                "pkg/__init__.py": "from .common import DataLoader\n",
                "pkg/common.py": "from torch.utils.data import DataLoader as DataLoader\n",
                "pkg/train.py": "from . import DataLoader\nDataLoader(d)\n",
            },
            "pkg/train.py",
            id="relative, twice",
        ),
        pytest.param(
            {
                "pkg/__init__.py": "",
                "pkg/compat.py": "from torch.utils.data import *\n",
                "train.py": "from pkg import compat\ncompat.DataLoader(d)\n",
            },
            "train.py",
            id="through a star import",
        ),
        pytest.param(
            {
                "src/pkg/__init__.py": "",
                "src/pkg/compat.py": "import torch\nDataLoader = torch.utils.data.DataLoader\n",
                "train.py": "from pkg.compat import DataLoader\nDataLoader(d)\n",
            },
            "train.py",
            id="assigned in a src layout",
        ),
    ],
)
def test_reexports_of_the_project_are_followed(files: dict[str, str], path: str) -> None:
    (found,) = sites(files, path)
    assert found.kind == "torch"


def test_a_project_module_of_a_library_s_name_is_the_project_s() -> None:
    (found,) = sites(
        {
            "data.py": "class DataLoader:\n    pass\n",
            "train.py": "from data import DataLoader\nimport torch\nDataLoader(1)\ntorch.utils.data.DataLoader(2)\n",
        }
    )
    assert found.call.lineno == 4


def test_a_subclass_of_the_project_is_a_loader_of_its_own_kind() -> None:
    (found,) = sites(
        {
            "loaders.py": "from torch.utils.data import DataLoader\n"
            "class Base(DataLoader):\n    def __iter__(self): ...\n"
            "class Fast(Base):\n    pass\n",
            "train.py": "from loaders import Fast\nFast(ds)\n",
        }
    )
    assert (found.kind, found.sampler) == ("subclass", "Fast (its own)")


def test_another_library_s_loader_is_foreign() -> None:
    (found,) = sites("from torch_geometric.loader import NeighborLoader\nNeighborLoader(data)\n")
    assert found.kind == "foreign"


def test_circular_reexports_end() -> None:
    found = project({"a.py": "from b import X\n", "b.py": "from a import X\n", "train.py": "from a import X\nX()\n"})
    train = found.modules["train.py"]
    assert train.callee(train.calls[0]) <= {"a.X", "b.X"}


def test_library_names_have_one_form() -> None:
    assert canonical("torch.utils.data.sampler.RandomSampler") == "torch.utils.data.RandomSampler"
    assert canonical("torch.utils.data.DistributedSampler") == "torch.utils.data.distributed.DistributedSampler"
    assert canonical("accelerate.accelerator.Accelerator") == "accelerate.Accelerator"
    assert canonical("my.RandomSampler") == "my.RandomSampler"
