"""The run-time check is imported in the form that works for the program: each layout is really run after migration."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from shardfix import engine
from shardfix.config import load

BUILD = (
    "from accelerate import Accelerator\n"
    "from torch.utils.data import DataLoader, SequentialSampler\n"
    "\n"
    "accelerator = Accelerator(cpu=True)\n"
    "dataset = list(range(8))\n"
    "loader = accelerator.prepare(DataLoader(dataset, batch_size=2, sampler=SequentialSampler(dataset)))\n"
    "print(sum(1 for batch in loader), OTHER)\n"
)
GUARDED = (
    "from accelerate import Accelerator\n"
    "from torch.utils.data import DataLoader, SequentialSampler\n"
    "\n"
    "\n"
    "def main():\n"
    "    accelerator = Accelerator(cpu=True)\n"
    "    dataset = list(range(8))\n"
    "    loader = accelerator.prepare(DataLoader(dataset, batch_size=2, sampler=SequentialSampler(dataset)))\n"
    "    print(sum(1 for batch in loader), OTHER)\n"
    "\n"
    "\n"
    'if __name__ == "__main__":\n'
    "    main()\n"
)
RUN = "import {}\n"


def script(imports: str, body: str = GUARDED) -> str:
    return f"{imports}\n{body}"


LAYOUTS = {
    "a script beside its own modules": (
        {"other.py": "OTHER = 1\n", "train.py": script("from other import OTHER")},
        ["train.py"],
        ["shardfix_sanitizer.py"],
    ),
    "a script in a folder of its own, run by its path": (
        {"exp/train.py": script("OTHER = 1")},
        ["exp/train.py"],
        ["exp/shardfix_sanitizer.py"],
    ),
    "a package run with -m, relative imports": (
        {"app/__init__.py": "", "app/other.py": "OTHER = 1\n", "app/train.py": script("from .other import OTHER")},
        ["-m", "app.train"],
        ["app/shardfix_sanitizer.py"],
    ),
    "a package run with -m, absolute imports": (
        {"app/__init__.py": "", "app/other.py": "OTHER = 1\n", "app/train.py": script("from app.other import OTHER")},
        ["-m", "app.train"],
        ["shardfix_sanitizer.py"],
    ),
    "a package that a script beside it imports": (
        {
            "app/__init__.py": "",
            "app/work.py": script("OTHER = 1", BUILD),
            "run.py": "from app import work\n" + "# DataLoader\n",
        },
        ["run.py"],
        ["app/shardfix_sanitizer.py"],
    ),
    "a package below src that a script in another folder imports": (
        {
            "src/app/__init__.py": "",
            "src/app/data/__init__.py": "",
            "src/app/data/work.py": script("OTHER = 1", BUILD),
            "scripts/run.py": 'import sys\n\nsys.path.insert(0, "src")\nfrom app.data import work  # DataLoader\n',
        },
        ["scripts/run.py"],
        ["src/app/data/shardfix_sanitizer.py"],
    ),
    "a folder without __init__ that a script beside it imports": (
        {"lib/work.py": script("OTHER = 1", BUILD), "run.py": "from lib import work  # DataLoader\n"},
        ["run.py"],
        ["shardfix_sanitizer.py"],
    ),
    "a script without a guard in a folder with __init__, run by its path": (
        {
            "app/__init__.py": "",
            "app/other.py": "OTHER = 1\n",
            "app/train.py": script("from other import OTHER", BUILD),
        },
        ["app/train.py"],
        ["app/shardfix_sanitizer.py"],
    ),
    "nothing shows how a guarded script in a package is started": (
        {"app/__init__.py": "", "app/train.py": script("OTHER = 1")},
        ["-m", "app.train"],
        [],
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_migrated_program_still_starts(tmp_path: Path, layout: str) -> None:
    files, command, vendored = LAYOUTS[layout]
    (tmp_path / "pyproject.toml").write_text("")
    for name, text in files.items():
        place = tmp_path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    result = engine.migrate([tmp_path], config=load(tmp_path), write=True, allow_no_vcs=True, verify="no")
    assert [c.codes[0] for c in result.changes] == ["SHD101"]
    assert sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("shardfix_sanitizer.py")) == vendored
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "4 1\n"
