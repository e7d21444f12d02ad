"""New code names a class as the file does, where that name stands for the class and for nothing else."""

from __future__ import annotations

import pytest
from loaders import module

from shardfix.analysis.code.spelling import (
    below_imports,
    spell_distributed_package,
    spell_distributed_sampler,
    spell_subset,
)
from shardfix.rewrite.edits import AddImport

SAMPLER = "from torch.utils.data.distributed import DistributedSampler\n"
FULL = "torch.utils.data.distributed.DistributedSampler"


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        pytest.param(SAMPLER + "DataLoader(d)\n", "DistributedSampler", id="imported"),
        pytest.param(SAMPLER.replace("\n", " as DS\n") + "DataLoader(d)\n", "DS", id="under another name"),
        pytest.param(
            "from torch.utils import data\ndata.DataLoader(d)\n", "data.distributed.DistributedSampler", id="data"
        ),
        pytest.param("import torch\ntorch.utils.data.DataLoader(d)\n", FULL, id="in full"),
        pytest.param("DataLoader(d)\n", "+ DistributedSampler", id="not imported"),
        pytest.param(
            "if TYPE_CHECKING:\n    " + SAMPLER + "DataLoader(d)\n", "+ DistributedSampler", id="for types only"
        ),
        pytest.param("if a > 2:\n    " + SAMPLER + "DataLoader(d)\n", "+ DistributedSampler", id="sometimes"),
        pytest.param("class DistributedSampler: ...\nDataLoader(d)\n", None, id="a class of its own"),
        pytest.param(
            "import torch\nclass DistributedSampler: ...\nDataLoader(d)\n", FULL, id="own class, torch at hand"
        ),
        pytest.param("DataLoader(d)\n" + SAMPLER, None, id="imported below"),
        pytest.param("def f(DistributedSampler):\n    DataLoader(d)\n", None, id="a parameter"),
        pytest.param(SAMPLER + "def f(DistributedSampler):\n    DataLoader(d)\n", None, id="a parameter shadows it"),
        pytest.param(SAMPLER + "DistributedSampler = wrap(1)\nDataLoader(d)\n", None, id="bound anew"),
    ],
)
def test_the_sampler_s_name(text: str, spelled: str | None) -> None:
    found = module(text)
    call = next(c for c in found.calls if found.source.source(c).endswith("DataLoader(d)"))
    made = spell_distributed_sampler(found, call)
    assert (made and ("+ " if made[1] else "") + made[0]) == spelled


def test_the_name_means_the_same_in_the_loop_that_reads_it() -> None:
    found = module("from torch.utils import data\ndata.DataLoader(d)\ndef f(l):\n    for data in l:\n        pass\n")
    made = spell_distributed_sampler(found, found.calls[0], (found.functions[0].body[0],))
    assert made is not None
    assert made[0] == "DistributedSampler"


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        pytest.param("import torch.distributed as dist\nf()\n", "dist", id="dist"),
        pytest.param("import torch\nf()\n", "torch.distributed", id="torch"),
        pytest.param("f()\n", "+ torch.distributed", id="not imported"),
        pytest.param("def g(torch):\n    f()\n", None, id="torch is a parameter"),
        pytest.param(
            "import torch.distributed as dist\ndef g(dist):\n    f()\n", "+ torch.distributed", id="so is dist"
        ),
    ],
)
def test_the_package_s_name(text: str, spelled: str | None) -> None:
    found = module(text)
    made = spell_distributed_package(found, found.calls[0])
    assert (made and ("+ " if made[1] else "") + made[0]) == spelled


def test_the_subset_s_name() -> None:
    found = module("f()\n")
    made = spell_subset(found, found.calls[0])
    assert made is not None
    assert [type(e) for e in made[1]] == [AddImport]
    found = module("class Subset: ...\nf()\n")
    assert spell_subset(found, found.calls[0]) is None


_TORCH = "import torch\nfrom torch.utils.data import DataLoader\n"


@pytest.mark.parametrize(
    ("between", "last"),
    [
        ("import net\n", "import late"),
        ("\nimport sys\nsys.path.append('..')\nlogger = logging.getLogger(__name__)\nimport net\n\n", "import late"),
        ("try:\n    import apex\nexcept ImportError:\n    apex = None\n", "import late"),
        ("if is_ray():\n    from ray import tune\n", "import late"),
        ("val_loader = DataLoader([1])\n", "DataLoader"),
        ("train, val = get_loaders()\n", "DataLoader"),
        ("for x in y:\n    pass\n", "DataLoader"),
        ("class A:\n    pass\n", "DataLoader"),
        ("if __name__ == '__main__':\n    main()\n", "DataLoader"),
        ("a = 1\nb = 2\nc = 3\nd = 4\n", "DataLoader"),
    ],
    ids=["one block", "set up", "tried", "asked", "a loader", "loaders", "a loop", "a class", "run", "much"],
)
def test_a_module_of_the_projects_own_is_imported_below_all_imports_at_the_top(between: str, last: str) -> None:
    text = _TORCH + between + "import late\nx = 1\n"
    where = below_imports(module(text))
    assert where is not None
    assert text[where.start : where.end].endswith(last)
