"""A loader that is prepared in another file is edited there as in its own, and only where every program agrees."""

from __future__ import annotations

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Options
from shardfix.planning import Plan, make_plan
from shardfix.rewrite.applier import apply

SHARDED = (
    "from torch.utils.data import DataLoader, DistributedSampler\n"
    "def make(d):\n    s = DistributedSampler(d)\n    return DataLoader(d, sampler=s), s\n"
)
ACC = "from accelerate import Accelerator\nfrom data import make\naccelerator = Accelerator()\n"


def plan(files: dict[str, str], options: Options | None = None) -> Plan:
    project = link({p: parse(p, text) for p, text in files.items()})
    found = make_plan(project, tuple(files), options or Options(sanitizer="off"), files=frozenset(files))
    assert found.problems == ()  # a file of which the analysis comes to no end is left alone too
    return found


def added(files: dict[str, str], options: Options | None = None) -> dict[str, list[str]]:
    """The lines that the plan adds to each file."""
    planned, found = plan(files, options), dict[str, list[str]]()
    for path, text in files.items():
        edits = [e for change in planned.changes for e in change.edits if e.path == path]
        after = apply(text, list(dict.fromkeys(edits)), path=path).text.splitlines()
        if new := [line.strip() for line in after if line.strip() and line not in text.splitlines()]:
            found[path] = new
    return found


def program(loader: str, sampler: str) -> str:
    return (
        f"{ACC}{loader}, {sampler} = make(d)\n{loader} = accelerator.prepare({loader})\n"
        f"for e in range(3):\n    {sampler}.set_epoch(e)\n    for b in {loader}:\n        pass\n"
    )


def test_each_program_tells_the_loader_by_its_own_name() -> None:
    files = {"data.py": SHARDED, "a.py": program("loader", "s"), "b.py": program("batches", "sampler")}
    assert added(files) == {
        "a.py": ["loader.set_epoch(e)"],
        "b.py": ["batches.set_epoch(e)"],
        "data.py": ["return DataLoader(d, shuffle=True), s"],
    }


def test_a_loader_that_may_be_raw_there_keeps_its_sampler_s_set_epoch() -> None:
    """The other return of the factory has a sampler to tell."""
    data = (
        "from torch.utils.data import DataLoader, DistributedSampler\n"
        "def make(d, accelerator=None):\n"
        "    if accelerator is None:\n        return DataLoader(d, sampler=DistributedSampler(d))\n"
        "    return accelerator.prepare(DataLoader(d, shuffle=True))\n"
    )
    loop = "for e in range(3):\n    loader.sampler.set_epoch(e)\n    for b in loader:\n        pass\n"
    files = {
        "data.py": data,
        "a.py": f"{ACC}make(d, accelerator)\n",
        "b.py": f"from data import make\nloader = make(d)\n{loop}",
    }
    assert added(files) == {}


def test_the_override_of_another_file_is_where_a_loader_is_prepared_and_checked() -> None:
    files = {
        "mid.py": "from torch.utils.data import DataLoader\nfrom transformers import Trainer\nclass Mid(Trainer):\n"
        "    def make(self, d):\n        return DataLoader(d, shuffle=True)\n",
        "t.py": "from mid import Mid\nclass T(Mid):\n    def get_train_dataloader(self):\n"
        "        return self.make(self.train_dataset)\n",
    }
    assert added(files, Options()) == {
        "t.py": [
            "from shardfix_sanitizer import sanitize",
            'return sanitize(self.accelerator.prepare(self.make(self.train_dataset)), owner="hf-trainer")',
        ]
    }
