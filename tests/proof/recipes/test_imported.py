"""--import-project: the project's own samplers, datasets and helpers run in the proof; their errors are verdicts."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Options
from shardfix.analysis.programs.regimes import program_regimes
from shardfix.analysis.sites import Site, find_sites, loader_subclasses
from shardfix.proof.model import Proof, Recipe
from shardfix.proof.recipes.recipe import Unproven, recipe
from shardfix.proof.running.launch import Verifier

HEAD = """\
import argparse
import torch.distributed as dist
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
"""


def sites(root: Path, files: dict[str, str]) -> dict[str, Site]:
    """The loaders of a project that is written to a folder, by the name that each is given."""
    modules = {}
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(textwrap.dedent(text))
        modules[path] = parse(path, textwrap.dedent(text))
    project = link(modules)
    regimes = program_regimes(project)
    found = [s for p in files for s in find_sites(modules[p], regimes[p], Options(), loader_subclasses(project))]
    return {str(s.module.source.source(s.target)) if s.target else s.sampler: s for s in found}


def made(root: Path, files: dict[str, str]) -> Recipe:
    (one,) = sites(root, files).values()
    found = recipe(None, one, kind="stands", root=str(root))
    assert isinstance(found, Recipe), str(found)
    return found


def short(found: Recipe) -> str:
    return found.after.build.replace("torch.utils.data.distributed.", "").replace("torch.utils.data.", "")


def imports(found: Recipe) -> list[str]:
    """The import statements, without the line that sets the program's arguments."""
    first, second, *rest = found.prelude.splitlines()
    assert first == "import sys"
    assert second.startswith("sys.argv[:] = ['/")
    return rest


SPELLINGS = {
    "a class of the same file": (
        {"train.py": HEAD + "class Own(DistributedSampler): pass\nloader = DataLoader(ds, sampler=Own(ds, rank=0))"},
        ["from train import Own"],
        [""],
        "loader = DataLoader(DATASET('ds'), sampler=Own(DATASET('ds'), rank=0))",
    ),
    "a class of a file beside it": (
        {
            "train.py": HEAD + "from own import Own as O\nloader = DataLoader(ds, sampler=O(ds, 2))",
            "own.py": "class Own:\n    def __init__(self, dataset, parts): pass\n",
        },
        ["from own import Own as O"],
        [""],
        "loader = DataLoader(DATASET('ds'), sampler=O(DATASET('ds'), 2))",
    ),
    "a script beside its modules, in a folder": (
        {
            "examples/train.py": HEAD + "import utils.own\nloader = DataLoader(ds, sampler=utils.own.Own(ds))",
            "examples/utils/own.py": "class Own: pass\n",
        },
        ["import utils.own"],
        ["/examples", ""],
        "loader = DataLoader(DATASET('ds'), sampler=utils.own.Own(DATASET('ds')))",
    ),
    "inside a package": (
        {
            "src/pkg/__init__.py": "",
            "src/pkg/data/__init__.py": "",
            "src/pkg/data/own.py": "class Own: pass\n",
            "src/pkg/train.py": HEAD + "from .data.own import Own\nloader = DataLoader(ds, sampler=Own(ds))",
        },
        ["from pkg.data.own import Own"],
        ["/src", ""],
        "loader = DataLoader(DATASET('ds'), sampler=Own(DATASET('ds')))",
    ),
    "options, sizes, seeds and what the launch decides": (
        {
            "train.py": HEAD
            + """\
from own import Own
p = argparse.ArgumentParser()
p.add_argument('--size', type=int, default=64)
p.add_argument('--kind', default='long')
args = p.parse_args()
world = dist.get_world_size()
loader = DataLoader(ds, batch_sampler=Own(ds, args.size, args.seed, kind=args.kind, n=world, f=lambda i: -i))
""",
            "own.py": "class Own:\n    def __init__(self, dataset, batch_size, seed, kind, n, f): pass\n",
        },
        ["from own import Own"],
        [""],
        "loader = DataLoader(DATASET('ds'), batch_sampler=Own(DATASET('ds'), 4, 0, kind='long', n=WORLD_SIZE, "
        "f=lambda i: -i))",
    ),
    "all options at once": (
        {
            "train.py": HEAD
            + """\
from own import make
p = argparse.ArgumentParser()
p.add_argument('--kind', default='long')
p.add_argument('--local_rank', type=int, default=-1)
args = p.parse_args()
kinds = {'long': make}
loader = DataLoader(ds, sampler=kinds['long'](ds, args))
""",
            "own.py": "def make(dataset, args): pass\n",
        },
        ["from own import make", "import types"],
        [""],
        "kinds = {'long': make}\nloader = DataLoader(DATASET('ds'), sampler=kinds['long'](DATASET('ds'), "
        "types.SimpleNamespace(kind='long', local_rank=LOCAL_RANK)))",
    ),
}


@pytest.mark.parametrize(("files", "lines", "folders", "build"), SPELLINGS.values(), ids=SPELLINGS)
def test_a_recipe_imports_as_the_file_itself_does(
    files: dict[str, str], lines: list[str], folders: list[str], build: str, tmp_path: Path
) -> None:
    found = made(tmp_path, files)
    assert imports(found) == lines
    assert found.imports == tuple(f"{tmp_path}{folder}" for folder in folders)
    assert short(found) == build


def test_nothing_is_imported_where_nothing_of_the_project_is_needed(tmp_path: Path) -> None:
    found = made(tmp_path, {"train.py": HEAD + "loader = DataLoader(ds, sampler=DistributedSampler(ds))"})
    assert (found.imports, found.prelude) == (None, "")


SAMPLERS = """
import math
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

class Ordered(DistributedSampler):
    def __init__(self, dataset, num_replicas=None, rank=None, bonus=0):
        super().__init__(dataset, num_replicas=num_replicas, rank=rank, shuffle=False)

class Whole(DistributedSampler):
    def __iter__(self):
        return iter(range(len(self.dataset)))

    def __len__(self):
        return len(self.dataset)

class Buckets:
    def __init__(self, sampler, batch_size):
        self.sampler, self.batch_size = sampler, batch_size

    def __iter__(self):
        indices = list(self.sampler)
        for start in range(0, len(indices), self.batch_size):
            yield indices[start : start + self.batch_size]

    def __len__(self):
        return math.ceil(len(self.sampler) / self.batch_size)

class ByLength(DistributedSampler):
    def __iter__(self):
        return iter(sorted(super().__iter__(), key=lambda i: self.dataset.lengths[i]))

class Own(DataLoader):
    def __iter__(self):
        yield from super().__iter__()

class Shard(Dataset):
    def __init__(self, base, rank, world):
        self.base, self.rank, self.world = base, rank, world

    def __len__(self):
        return len(self.base) // self.world

    def __getitem__(self, i):
        return self.base[i * self.world + self.rank]["image"]

def my_rank():
    return dist.get_rank() if dist.is_initialized() else 0

def my_size():
    return dist.get_world_size() if dist.is_initialized() else 1
"""
TRAIN = (
    HEAD
    + """
from samplers import Buckets, ByLength, Ordered, Own, Shard, Whole, my_rank, my_size
from trains import Late
from needs_options import Parsed
from broken import Wrong

def main():
    dist.init_process_group("gloo")
    ds = load()
    ordered = DataLoader(ds, batch_size=4, sampler=Ordered(ds, bonus=3))
    whole = DataLoader(ds, batch_size=4, sampler=Whole(ds))
    buckets = DataLoader(ds, batch_sampler=Buckets(DistributedSampler(ds, shuffle=False), 32))
    lengths = DataLoader(ds, batch_size=4, sampler=ByLength(ds))
    helpers = DataLoader(ds, batch_size=4, sampler=DistributedSampler(ds, my_size(), my_rank(), shuffle=False))
    own = Own(ds, batch_size=4, sampler=DistributedSampler(ds, shuffle=False))
    shard = DataLoader(Shard(ds, dist.get_rank(), dist.get_world_size()), batch_size=4)
    late = DataLoader(ds, batch_size=4, sampler=Late(ds))
    parsed = DataLoader(ds, batch_size=4, sampler=Parsed(ds))
    wrong = DataLoader(ds, batch_size=4, sampler=Wrong(ds))

if __name__ == "__main__":
    main()
"""
)
OTHERS = {
    "samplers.py": SAMPLERS,
    "trains.py": "import sys\nprint('training')\nopen('model.bin')\nclass Late: pass\n",
    "needs_options.py": (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--data', required=True)\np.parse_args()\n"
        "class Parsed: pass\n"
    ),
    "broken.py": "class Wrong(:\n",
}
EXPECTED = {
    "ordered": ("proven", "2 and 3 ranks read every sample once an epoch, 1 padded at 25 samples on 2 ranks"),
    "whole": ("refuted", "2 ranks, 24 samples: every rank reads all 24 samples"),
    "buckets": ("proven", "2 and 3 ranks read every sample once an epoch, 1 padded at 25 samples on 2 ranks"),
    "lengths": (
        "unproven",
        "the project's own code raised AttributeError: 'IndexDataset' object has no attribute 'lengths' "
        "(samplers.py:32)",
    ),
    "helpers": ("proven", "2 and 3 ranks read every sample once an epoch, 1 padded at 25 samples on 2 ranks"),
    "own": ("proven", "2 and 3 ranks read every sample once an epoch, 1 padded at 25 samples on 2 ranks"),
    "shard": (
        "unproven",
        "2 ranks, 25 samples: sample 24 is never read; a rule of its own leaves out fewer than there are ranks, as "
        "drop_last does",
    ),
    "late": ("unproven", "FileNotFoundError: [Errno 2] No such file or directory: 'model.bin' (trains.py:3)"),
    "parsed": ("unproven", "SystemExit: 2 (needs_options.py:4)"),
    "wrong": ("unproven", "SyntaxError: invalid syntax (broken.py, line 1) (broken.py:1)"),
}


def test_the_projects_own_code_runs_and_its_errors_say_nothing_of_a_loader(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    files = {"train.py": TRAIN, **OTHERS}
    analysed = {path: text for path, text in files.items() if path != "broken.py"}
    (tmp_path / "broken.py").write_text(OTHERS["broken.py"])
    found = {name: recipe(None, s, kind="stands", root=str(tmp_path)) for name, s in sites(tmp_path, analysed).items()}
    assert not [str(r) for r in found.values() if isinstance(r, Unproven)]
    with Verifier(timeout=120) as verifier:
        proofs: list[Proof] = verifier.prove([r for r in found.values() if isinstance(r, Recipe)])
    said = {name: (proof.verdict, (*proof.reasons, "")[0]) for name, proof in zip(found, proofs, strict=True)}
    assert said == EXPECTED
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(files)  # nothing is left in the project


def test_without_it_the_same_loaders_stop_at_the_projects_code(tmp_path: Path) -> None:
    analysed = {path: text for path, text in {"train.py": TRAIN, **OTHERS}.items() if path != "broken.py"}
    found = {name: recipe(None, s, kind="stands") for name, s in sites(tmp_path, analysed).items()}
    stopped = {name: made.project for name, made in found.items() if isinstance(made, Unproven)}
    assert stopped == dict.fromkeys(set(EXPECTED) - {"helpers"}, True)
