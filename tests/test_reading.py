"""What is read of a project beside its Python files, and which files are not read at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardfix import engine
from shardfix.config import load
from shardfix.reading import old_accelerate, read_project

PREPARED = (
    "from accelerate import Accelerator\n"
    "from torch.utils.data import DataLoader\n"
    "\n"
    "accelerator = Accelerator()\n"
    "loader = accelerator.prepare(DataLoader(list(range(8)), batch_size=2, shuffle={shuffle}))\n"
    "for batch in loader:\n"
    "    pass\n"
)


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("requirements.txt", "accelerate==0.27.2"),
        ("requirements-dev.txt", "accelerate~=0.29.0"),
        ("pyproject.toml", 'dependencies = ["torch"]\n  "accelerate<0.30",'),
        ("environment.yml", "      - accelerate==0.24.1"),
        ("requirements.txt", "accelerate[testing]<=0.29"),
        ("requirements.txt", "accelerate<0.25"),
    ],
)
def test_a_requirement_below_the_floor_is_found(tmp_path: Path, file: str, line: str) -> None:
    (tmp_path / file).write_text(line + "\n")
    found = old_accelerate(tmp_path)
    assert found is not None
    assert found.location.path == file
    assert "accelerate" in found.text


@pytest.mark.parametrize(
    "line",
    [
        "accelerate==0.30.0",
        "accelerate==0.23.0",  # covers everything on two ranks, each epoch in another order
        "accelerate<0.24",
        "accelerate>=0.20",
        "accelerate",
        "accelerate==1.15.0",
        "my-accelerate==0.1",
        "# accelerate==0.2",
    ],
)
def test_any_other_requirement_is_none(tmp_path: Path, line: str) -> None:
    (tmp_path / "requirements.txt").write_text(line + "\n")
    assert old_accelerate(tmp_path) is None


@pytest.mark.parametrize(("shuffle", "verdict"), [("True", "refused"), ("False", "right")])
def test_only_a_shuffled_loader_is_in_danger_of_an_old_accelerate(tmp_path: Path, shuffle: str, verdict: str) -> None:
    (tmp_path / "requirements.txt").write_text("accelerate==0.27.2\n")
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "train.py").write_text(PREPARED.format(shuffle=shuffle))
    (site,) = engine.scan([tmp_path], config=load(tmp_path)).sites
    assert site.verdict == verdict
    assert [f.code for f in site.findings] == (["SHD709"] if verdict == "refused" else [])


TWICE = (
    "from accelerate import Accelerator\n"
    "from torch.utils.data import DataLoader\n"
    "from torch.utils.data.distributed import DistributedSampler\n"
    "\n"
    "accelerator = Accelerator()\n"
    "dataset = list(range(8))\n"
    "loader = accelerator.prepare(DataLoader(dataset, batch_size=2, sampler=DistributedSampler(dataset)))\n"
    "for batch in loader:\n"
    "    pass\n"
)


def hold(environment: Path, version: str) -> Path:
    """Write an environment's metadata of accelerate, as pip does; the path of its interpreter."""
    metadata = environment / "lib" / "python3.11" / "site-packages" / f"accelerate-{version}.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text(f"Metadata-Version: 2.1\nName: accelerate\nVersion: {version}\n\n")
    (environment / "pyvenv.cfg").write_text("")
    python = environment / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    return python


@pytest.mark.parametrize(
    ("asked", "seed", "told"),
    [
        ("==0.28.0", "torch.manual_seed(3)", False),
        ("~=0.25.0", "set_seed(3)", False),
        ("==0.28.0", "torch.manual_seed(3 + rank)", True),
        ("==0.28.0", "def set_seed(n):\n    torch.manual_seed(n + int(os.environ['RANK']))\nset_seed(3)", True),
        (
            "==0.28.0",
            "def set_seed(n, own=False):\n    if own:\n        n += rank\n    torch.manual_seed(n)\nset_seed(3)",
            False,
        ),
        ("==0.28.0", "random.seed(3)", True),
        ("==0.24.1", "torch.manual_seed(3)", True),
        ("<0.30", "torch.manual_seed(3)", True),
    ],
)
def test_ranks_that_are_seeded_alike_do_not_overlap_from_0_25_on(
    tmp_path: Path, asked: str, seed: str, told: bool
) -> None:
    (tmp_path / "requirements.txt").write_text(f"accelerate{asked}\n")
    (tmp_path / "pyproject.toml").write_text("")
    head = f"import os\nimport random\nimport torch\nfrom accelerate.utils import set_seed\n{seed}\n"
    (tmp_path / "train.py").write_text(head + PREPARED.format(shuffle="True"))
    (site,) = engine.scan([tmp_path], config=load(tmp_path)).sites
    assert [f.code for f in site.findings] == (["SHD709"] if told else [])


@pytest.mark.parametrize(("version", "codes"), [("0.23.0", []), ("0.29.3", ["SHD709"]), ("0.30.0", []), ("1.15.0", [])])
@pytest.mark.parametrize("named", [False, True], ids=["in the project", "named with --python"])
def test_an_installed_accelerate_below_the_floor_stops_the_edit(
    tmp_path: Path, version: str, codes: list[str], named: bool
) -> None:
    root = tmp_path / "project"
    python = hold(tmp_path / "elsewhere" if named else root / ".venv", version)
    root.mkdir(exist_ok=True)
    (root / "pyproject.toml").write_text("")
    (root / "train.py").write_text(TWICE)
    result = engine.migrate([root], config=load(root), write=False, verify="no", python=str(python) if named else None)
    (site,) = result.sites
    assert [f.code for f in site.findings] == codes
    assert (site.verdict, len(result.changes)) == (("refused", 0) if codes else ("edit", 1))
    if codes:
        (finding,) = site.findings
        assert finding.message == (
            "the project's environment holds accelerate 0.29.3: from 0.24 to 0.29 the ranks of a shuffled loader "
            "overlap, or repeat one order"
        )
        assert finding.remedy == "install accelerate>=0.30 there"
        metadata = f"lib/python3.11/site-packages/accelerate-{version}.dist-info/METADATA"
        place = f"{tmp_path}/elsewhere/{metadata}" if named else f".venv/{metadata}"
        assert str(finding.evidence[0].location) == f"{place}:3:1"
        assert finding.evidence[0].text == "Version: 0.29.3"


def test_what_is_asked_for_and_what_is_installed_are_both_told(tmp_path: Path) -> None:
    hold(tmp_path / ".venv", "0.27.2")
    (tmp_path / "requirements.txt").write_text("accelerate==0.27.2\n")
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "train.py").write_text(TWICE)
    (site,) = engine.scan([tmp_path], config=load(tmp_path)).sites
    (finding,) = site.findings
    assert finding.message.startswith(
        "the project's environment holds accelerate 0.27.2, and the project asks for accelerate==0.27.2: from 0.24"
    )
    assert [evidence.text for evidence in finding.evidence[:2]] == ["Version: 0.27.2", "accelerate==0.27.2"]
    assert finding.remedy == "ask for accelerate>=0.30, and install it"


def test_the_check_that_migrate_put_there_is_no_site(tmp_path: Path) -> None:
    source = Path(engine.__file__).with_name("sanitizer.py").read_text("utf-8")
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "shardfix_sanitizer.py").write_text(source)
    assert engine.scan([tmp_path], config=load(tmp_path)).sites == ()


def test_a_class_derived_from_dataloader_is_found_where_only_its_own_name_stands(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "loaders.py").write_text(
        "from torch.utils.data import DataLoader\n\n\nclass Endless(DataLoader):\n    pass\n"
    )
    (tmp_path / "train.py").write_text("from loaders import Endless\n\nstream = Endless(list(range(8)))\n")
    (site,) = engine.scan([tmp_path], config=load(tmp_path)).sites
    assert str(site.location) == "train.py:3:10"
    assert site.sampler == "default"  # the class adds nothing


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(
            {"pkg/base.py": "from transformers import Trainer\nclass Base(Trainer):\n    pass\n"}, id="one file"
        ),
        pytest.param(
            {
                "pkg/base.py": "from .root import Root\nclass Base(Root):\n    pass\n",
                "pkg/root.py": "from transformers import Trainer\nclass Root(Trainer):\n    pass\n",
            },
            id="two files",
        ),
    ],
)
@pytest.mark.parametrize(
    ("imported", "init"), [("from .base import Base", ""), ("from pkg import Base", "from .base import Base\n")]
)
def test_the_bases_of_a_class_are_read_where_they_are_defined(
    tmp_path: Path, files: dict[str, str], imported: str, init: str
) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "pkg/__init__.py").write_text(init)
    for path, text in files.items():
        (tmp_path / path).write_text(text)
    (tmp_path / "pkg/t.py").write_text(
        f"from torch.utils.data import DataLoader\n{imported}\n\n\nclass T(Base):\n"
        "    def get_train_dataloader(self):\n        return DataLoader(self.train_dataset, shuffle=True)\n"
    )
    (site,) = engine.scan([tmp_path], config=load(tmp_path)).sites
    assert (site.owner, site.verdict) == ("hf-trainer", "edit")


def test_a_program_that_imports_a_loader_through_its_package_is_seen(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "pkg/__init__.py").write_text("from .build import make\n")
    (tmp_path / "pkg/build.py").write_text(
        "from torch.utils.data import DataLoader\n\n\ndef make(d):\n    return DataLoader(d)\n"
    )
    (tmp_path / "train.py").write_text(
        "import torch.distributed as dist\nfrom pkg import make\n\ndist.init_process_group()\nloader = make(d)\n"
    )
    (site,) = engine.scan([tmp_path], config=load(tmp_path)).sites
    assert (site.owner, [str(e.location) for e in site.owner_evidence]) == ("ddp", ["train.py:4:1"])


def test_a_file_that_is_read_for_another_s_sake_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "pkg/__init__.py").write_text("print 'no Python of today'\n")
    (tmp_path / "pkg/t.py").write_text("from torch.utils.data import DataLoader\nloader = DataLoader([1])\n")
    result = engine.scan([tmp_path], config=load(tmp_path))
    assert result.problems == ()
    assert len(result.sites) == 1


def test_a_file_that_imports_a_loader_is_read_for_its_loop(tmp_path: Path) -> None:
    """It speaks of nothing that makes it worth reading by itself."""
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "data.py").write_text(
        "from torch.utils.data import DataLoader\n\nloader = DataLoader(list(range(8)))\n"
    )
    (tmp_path / "train.py").write_text("from data import loader\n\nfor batch in loader:\n    pass\n")
    (tmp_path / "other.py").write_text("loader = None\n")
    reading = read_project([], load(tmp_path))
    assert sorted(reading.project.modules) == ["data.py", "train.py"]


def test_the_bases_of_a_class_are_read_whose_method_gives_a_loader_of_another_file(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "base.py").write_text("from transformers import Trainer\n\n\nclass Base(Trainer):\n    pass\n")
    (tmp_path / "data.py").write_text(
        "from torch.utils.data import DataLoader\n\n\ndef make(d):\n    return DataLoader(d, shuffle=True)\n"
    )
    (tmp_path / "t.py").write_text(
        "from base import Base\nfrom data import make\n\n\nclass T(Base):\n"
        "    def get_train_dataloader(self):\n        return make(self.train_dataset)\n"
    )
    (site,) = engine.scan([tmp_path], config=load(tmp_path)).sites
    assert site.owner == "hf-trainer"


@pytest.mark.parametrize(
    ("file", "owner"),
    [
        pytest.param(
            "import lightning as L\nL.Trainer(devices=2)\n", "unknown", id="lightning, which is not handed the loader"
        ),
        pytest.param("import deepspeed\ndeepspeed.initialize(model=m)\n", "ddp", id="deepspeed"),
        pytest.param(
            "from torch.distributed.device_mesh import init_device_mesh\nmesh = init_device_mesh('cuda', (2, 2))\n",
            "mesh",
            id="mesh",
        ),
        pytest.param("import horovod.torch as hvd\nhvd.init()\n", "horovod", id="horovod"),
        pytest.param("from lightning.fabric import Fabric\nFabric(devices=2).launch()\n", "fabric", id="fabric"),
        pytest.param("import torch_xla.distributed.xla_multiprocessing as xmp\nxmp.spawn(f)\n", "xla", id="xla"),
    ],
)
def test_a_program_is_read_that_only_starts_the_processes(tmp_path: Path, file: str, owner: str) -> None:
    """It makes no loader; what makes one, and reads it, it only imports."""
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "data.py").write_text(
        "from torch.utils.data import DataLoader\n\n\ndef first(d):\n    return next(iter(DataLoader(d)))\n"
    )
    (tmp_path / "task.py").write_text("from data import first\n\n\ndef run(d):\n    return first(d)\n")
    (tmp_path / "main.py").write_text(f"from task import run\n{file}run([1])\n")
    (site,) = engine.scan([tmp_path], config=load(tmp_path)).sites
    assert site.owner == owner


@pytest.mark.parametrize("imported", ["from pkg.data import make", "from pkg import make", "import pkg"])
def test_every_program_is_read_that_calls_what_makes_a_loader(tmp_path: Path, imported: str) -> None:
    """One that tells nothing by its words beside one that hands the loader to prepare(): removing the sampler would
    leave it unsharded there."""
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/__init__.py").write_text("from .data import make\n")
    (tmp_path / "pkg/data.py").write_text(
        "from torch.utils.data import DataLoader, DistributedSampler\n\n\ndef make(d):\n"
        "    return DataLoader(d, sampler=DistributedSampler(d))\n"
    )
    (tmp_path / "prepared.py").write_text(
        "from accelerate import Accelerator\nfrom pkg import make\n\nloader = Accelerator().prepare(make([1]))\n"
        "for batch in loader:\n    pass\n"
    )
    call = "pkg.make" if imported == "import pkg" else "make"
    (tmp_path / "plain.py").write_text(f"{imported}\n\nfor batch in {call}([1]):\n    pass\n")
    site = next(s for s in engine.scan([tmp_path], config=load(tmp_path)).sites if s.location.path == "pkg/data.py")
    assert (site.owner, site.verdict) == ("unknown", "refused")


EVALUATION = (
    "import torch\nimport torch.distributed as dist\nfrom torch.utils.data import DataLoader, DistributedSampler\n"
    "{imported}\n"
    "dist.init_process_group('gloo')\n"
    "loader = DataLoader(list(range(9)), batch_size=4, sampler=DistributedSampler(data, shuffle=False))\n"
    "{made}\n"
    "def evaluate(model):\n"
    "    n = 0\n"
    "    with torch.no_grad():\n"
    "        for x in loader:\n"
    "            n += len(x)\n"
    "            {told}\n"
    "    {then}\n"
    "    return n\n"
)
SUM = "def total(n):\n    return reduce_over_ranks(n)\n"
METER = "class Meter:\n    def update(self, n):\n        self.n += n\n"


@pytest.mark.parametrize(
    ("imported", "made", "told", "then", "files"),
    [
        pytest.param(
            "from tools import total",
            "",
            "pass",
            "n = total(n)",
            {"tools/__init__.py": "from .sums import *\n", "tools/sums.py": SUM},
            id="what a package gives on with a star",
        ),
        pytest.param("from sums import total", "", "pass", "n, = map(total, [n])", {"sums.py": SUM}, id="handed on"),
        pytest.param(
            "from meters import Meter",
            "meter = Meter()",
            "meter.update(len(x))",
            "pass",
            {"meters.py": METER},
            id="the class of what the loop tells",
        ),
        pytest.param("from src.sums import total", "", "pass", "n = total(n)", {"src/sums.py": SUM}, id="in src"),
    ],
)
def test_what_an_evaluation_gives_its_numbers_to_is_read(
    tmp_path: Path, imported: str, made: str, told: str, then: str, files: dict[str, str]
) -> None:
    text = EVALUATION.format(imported=imported, made=made, told=told, then=then)
    for path, content in {"train.py": text, **files}.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(content)
    assert set(read_project([], load(tmp_path)).project.modules) == {"train.py", *files}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{% if cookiecutter.with_trainer %}", "a template"),
        ("{{cookiecutter.upper}}_MAP = {", "a template"),
        ("class {{ name }}(DataLoader):", "a template"),
        ('{%- if kind == "full" %}', "a template"),
        ('x = ("{% if a %}"', ""),
        ("x = ( # {{name}}", ""),
        ("x = ({{1: 2}: 3}", ""),
    ],
)
def test_a_file_that_does_not_parse_for_a_templates_tag_is_no_error(tmp_path: Path, line: str, reason: str) -> None:
    (tmp_path / "train.py").write_text(f"from torch.utils.data import DataLoader\n{line}\n")
    result = engine.scan([tmp_path], config=load(tmp_path))
    assert dict(result.skipped) == ({"train.py": reason} if reason else {})
    assert bool(result.problems) == (not reason)
