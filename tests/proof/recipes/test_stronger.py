"""What an unproven loader is told to do: a command that the project's own facts make."""

from __future__ import annotations

import textwrap

import pytest

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Options
from shardfix.analysis.programs.regimes import program_regimes
from shardfix.analysis.sites import find_sites, loader_subclasses
from shardfix.proof.recipes.stronger import stronger

LOADER = "from torch.utils.data import DataLoader\n"
MAIN = "if __name__ == '__main__':\n    main()\n"


def command(files: dict[str, str], *, project: bool = False) -> str:
    modules = {path: parse(path, textwrap.dedent(text)) for path, text in files.items()}
    linked = link(modules)
    regimes = program_regimes(linked)
    subclasses = loader_subclasses(linked)
    site = next(s for path in files for s in find_sites(modules[path], regimes[path], Options(), subclasses))
    return stronger(site, project=project)


CASES = {
    "a function that takes nothing": (
        {"data.py": LOADER + "def make(batch=4):\n    return DataLoader(ds, batch_size=batch)\n"},
        "shardfix verify --loader data:make",
    ),
    "a function of a package under src": (
        {
            "src/pkg/data.py": LOADER + "def make():\n    loader = DataLoader(ds)\n    return loader, 1\n",
            "src/pkg/__init__.py": "",
        },
        "cd src && shardfix verify --loader pkg.data:make",
    ),
    "what a caller gives, and a plain value that nobody gives": (
        {
            "data.py": LOADER + "def make(split, size: int):\n    return DataLoader(ds, batch_size=size)\n",
            "train.py": "import sys\nfrom data import make\nmake('train set', int(sys.argv[1]))\n",
        },
        "shardfix verify --loader data:make --arg 'split=train set' --arg size=..",
    ),
    "a function that takes an object has a program": (
        {
            "data.py": LOADER + "def make(dataset):\n    return DataLoader(dataset)\n",
            "train.py": "from data import make\ndef main():\n    make(load())\n" + MAIN,
        },
        "shardfix verify --run train.py",
    ),
    "of several scripts the one that reads the loader": (
        {
            "data.py": LOADER + "def make(dataset):\n    return DataLoader(dataset)\n",
            "bench.py": "import tool\ndef main():\n    tool.main()\n" + MAIN,
            "tool.py": "from data import make\ndef main():\n    for batch in make(load()): pass\n" + MAIN,
        },
        "shardfix verify --run tool.py",
    ),
    "arguments of scripts that import the same are another's": (
        {
            "data.py": LOADER + "def make(dataset):\n    return DataLoader(dataset)\n",
            "other.py": "import argparse\nfrom data import make\np = argparse.ArgumentParser()\n"
            "p.add_argument('folder')\ndef main():\n    make(load())\n" + MAIN,
            "run.py": "from data import make\ndef main():\n    for batch in make(load()): pass\n" + MAIN,
        },
        "shardfix verify --run run.py",
    ),
    "a script with arguments that it needs": (
        {
            "tools/train.py": LOADER
            + """\
import argparse
def main():
    p = argparse.ArgumentParser()
    p.add_argument('folder')
    p.add_argument('--out', '-o', required=True)
    p.add_argument('--size', default=3)
    p.add_argument('more', nargs='*')
    args = p.parse_args()
    loader = DataLoader(ds)
    for batch in loader: pass
"""
            + MAIN
        },
        "shardfix verify --run tools/train.py -- --out .. FOLDER",
    ),
    "a library that no program uses": (
        {
            "pkg/__init__.py": "",
            "pkg/lib.py": LOADER + "class Data:\n    def make(self):\n        return DataLoader(self)\n",
        },
        "",
    ),
}


@pytest.mark.parametrize(("files", "expected"), CASES.values(), ids=CASES)
def test_the_command_is_made_of_what_the_project_shows(files: dict[str, str], expected: str) -> None:
    assert command(files) == expected


def test_where_only_the_projects_code_is_missing_it_may_be_imported() -> None:
    files = {"my tools/train.py": LOADER + "def make():\n    return DataLoader(ds)\n"}
    assert command(files, project=True) == "shardfix verify --import-project 'my tools/train.py'"
