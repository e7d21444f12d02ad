"""Recipes follow what decides sharding through the files of a project, and stop where it can't be followed."""

from __future__ import annotations

import textwrap

import pytest

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Options
from shardfix.analysis.programs.regimes import program_regimes
from shardfix.analysis.sites import Site, find_sites, loader_subclasses
from shardfix.proof.model import StandIn
from shardfix.proof.recipes.recipe import Unproven, program, recipe
from shardfix.proof.running.launch import Verifier

HEAD = """\
import random
import numpy as np
import torch
import torch.distributed as dist
from torch.utils.data import (
    ConcatDataset, DataLoader, RandomSampler, SequentialSampler, Subset, SubsetRandomSampler, random_split,
)
from torch.utils.data.distributed import DistributedSampler
from datasets import load_dataset
from sklearn.model_selection import train_test_split
dist.init_process_group("gloo")
"""


def site(files: str | dict[str, str]) -> Site:
    """The first loader of a project, which is `train.py` if nothing else is said."""
    texts = {"train.py": files} if isinstance(files, str) else files
    modules = {
        path: parse(path, (HEAD if path == "train.py" else "") + textwrap.dedent(text).lstrip("\n"))
        for path, text in texts.items()
    }
    project = link(modules)
    regimes = program_regimes(project)
    subclasses = loader_subclasses(project)
    return next(s for path in texts for s in find_sites(modules[path], regimes[path], Options(), subclasses))


def shown(files: str | dict[str, str]) -> str:
    """The recipe of the loader, with torch's long names left out; or why there is none."""
    found = program(site(files))
    if isinstance(found, Unproven):
        return f"stopped: {found}"
    text = found.program.build.replace("torch.utils.data.distributed.", "").replace("torch.utils.data.", "")
    return text + (f"\n# in each epoch\n{found.program.each_epoch}" if found.program.each_epoch else "")


def block(text: str) -> str:
    return textwrap.dedent(text).strip()


SETTINGS: dict[str, tuple[str | dict[str, str], str]] = {
    "constants of another file": (
        {
            "train.py": """
            from config import BATCH
            import config
            loader = DataLoader(ds, batch_size=BATCH, shuffle=config.SHUFFLE)
            """,
            "config.py": """
            BATCH = 6
            SHUFFLE = True
            """,
        },
        """
        SHUFFLE = True
        loader = DataLoader(DATASET('ds'), batch_size=6, shuffle=SHUFFLE)
        """,
    ),
    "a constant through a package's own __init__": (
        {
            "train.py": """
            from conf import BATCH
            loader = DataLoader(ds, batch_size=BATCH)
            """,
            "conf/__init__.py": "from .values import BATCH",
            "conf/values.py": "BATCH = 6",
        },
        "loader = DataLoader(DATASET('ds'), batch_size=6)",
    ),
    "options of another file, the default of set_defaults": (
        {
            "train.py": """
            from opts import parse
            args = parse()
            loader = DataLoader(ds, batch_size=args.batch, shuffle=args.mix)
            """,
            "opts.py": """
            import argparse
            def parse():
                p = argparse.ArgumentParser()
                p.add_argument('--batch', type=int, default='7')
                p.add_argument('--mix', action='store_true')
                p.set_defaults(batch=5)
                return p.parse_args()
            """,
        },
        """
        loader = DataLoader(DATASET('ds'), batch_size=5, shuffle=UNKNOWN['args.mix'])
        """,
    ),
    "a text default of a whole number": (
        """
        import argparse
        p = argparse.ArgumentParser()
        p.add_argument('--batch', type=int, default='7')
        args = p.parse_args()
        loader = DataLoader(ds, batch_size=args.batch)
        """,
        "loader = DataLoader(DATASET('ds'), batch_size=7)",
    ),
    "a data class with its defaults": (
        """
        from dataclasses import dataclass, field
        @dataclass
        class Config:
            batch: int = 6
            mix: bool = field(default=True)
        cfg = Config()
        loader = DataLoader(ds, batch_size=cfg.batch, shuffle=cfg.mix)
        """,
        "loader = DataLoader(DATASET('ds'), batch_size=6, shuffle=True)",
    ),
    "a data class with what it is given": (
        """
        from dataclasses import dataclass
        @dataclass
        class Config:
            batch: int = 6
            mix: bool = True
        cfg = Config(3, mix=False)
        loader = DataLoader(ds, batch_size=cfg.batch, shuffle=cfg.mix)
        """,
        "loader = DataLoader(DATASET('ds'), batch_size=3, shuffle=False)",
    ),
    "a data class that a parser fills": (
        """
        from dataclasses import dataclass
        @dataclass
        class Config:
            batch: int = 6
            mix: bool = True
        def main(cfg: Config):
            loader = DataLoader(ds, batch_size=cfg.batch, shuffle=cfg.mix)
        main(parse(Config))
        """,
        """
        loader = DataLoader(DATASET('ds'), batch_size=2, shuffle=UNKNOWN['cfg.mix'])
        """,
    ),
    "a setting that another function sets": (
        """
        class Config:
            batch = 6
            mix = True
        cfg = Config()
        def override(c):
            c.mix = False
        override(cfg)
        loader = DataLoader(ds, batch_size=cfg.batch, shuffle=cfg.mix)
        """,
        """
        loader = DataLoader(DATASET('ds'), batch_size=6, shuffle=UNKNOWN['cfg.mix'])
        """,
    ),
    "an object's own attributes": (
        """
        class Config:
            def __init__(self, batch=6):
                self.batch = batch
                self.mix = True
        def main(cfg):
            loader = DataLoader(ds, batch_size=cfg.batch, shuffle=cfg.mix)
        main(Config())
        """,
        """
        self_mix = True
        loader = DataLoader(DATASET('ds'), batch_size=6, shuffle=self_mix)
        """,
    ),
    "an object's attribute that other code sets": (
        """
        class Config:
            def __init__(self):
                self.mix = True
        def main(cfg):
            loader = DataLoader(ds, batch_size=4, shuffle=cfg.mix)
        cfg = Config()
        cfg.mix = False
        main(cfg)
        """,
        """
        self_mix = True
        loader = DataLoader(DATASET('ds'), batch_size=4, shuffle=self_mix)
        """,
    ),
    "dicts in a dict": (
        """
        cfg = {'batch': 6, 'data': {'mix': True}}
        loader = DataLoader(ds, batch_size=cfg['batch'], shuffle=cfg['data']['mix'], drop_last=cfg.get('drop', False))
        """,
        """
        loader = DataLoader(DATASET('ds'), batch_size=6, shuffle=True, drop_last=False)
        """,
    ),
    "a dict that is written to": (
        """
        cfg = {'mix': True}
        cfg['mix'] = flag()
        loader = DataLoader(ds, batch_size=4, shuffle=cfg['mix'])
        """,
        """
        loader = DataLoader(DATASET('ds'), batch_size=4, shuffle=UNKNOWN["cfg['mix']"])
        """,
    ),
    "a namespace": (
        """
        from types import SimpleNamespace
        cfg = SimpleNamespace(batch=6, mix=True)
        loader = DataLoader(ds, batch_size=cfg.batch, shuffle=cfg.mix)
        """,
        "loader = DataLoader(DATASET('ds'), batch_size=6, shuffle=True)",
    ),
    "an EasyDict of another file": (
        {
            "train.py": """
            from conf import cfg
            loader = DataLoader(ds, batch_size=cfg.data.batch, shuffle=cfg.data.mix)
            """,
            "conf.py": """
            from easydict import EasyDict
            cfg = EasyDict({'data': {'batch': 6, 'mix': True}})
            """,
        },
        "loader = DataLoader(DATASET('ds'), batch_size=6, shuffle=True)",
    ),
    "a known test is decided": (
        """
        MODE = 'train'
        s = DistributedSampler(ds) if MODE == 'train' else None
        loader = DataLoader(ds, batch_size=4, sampler=s)
        """,
        """
        s = DistributedSampler(dataset=DATASET('ds')) if True else None
        loader = DataLoader(DATASET('ds'), batch_size=4, sampler=s)
        """,
    ),
}


@pytest.mark.parametrize(("files", "expected"), SETTINGS.values(), ids=SETTINGS)
def test_settings_are_followed_to_where_the_source_gives_them(files: str | dict[str, str], expected: str) -> None:
    assert shown(files) == block(expected)


FUNCTIONS: dict[str, tuple[str | dict[str, str], str]] = {
    "a function that returns the sampler": (
        """
        def sampler_for(d, train):
            if dist.is_initialized():
                return DistributedSampler(d, shuffle=train)
            if train:
                return RandomSampler(d)
            return SequentialSampler(d)

        s = sampler_for(ds, True)
        other = sampler_for(val, False)
        loader = DataLoader(ds, batch_size=4, sampler=s)
        """,
        """
        train = True
        if dist.is_initialized():
            sampler_for = DistributedSampler(dataset=DATASET('ds'), shuffle=train)
        elif train:
            sampler_for = RandomSampler(data_source=DATASET('ds'))
        else:
            sampler_for = SequentialSampler(data_source=DATASET('ds'))
        s = sampler_for
        loader = DataLoader(DATASET('ds'), batch_size=4, sampler=s)
        """,
    ),
    "a function that returns two samplers": (
        """
        def samplers(a, b):
            return DistributedSampler(a), DistributedSampler(b, shuffle=False)

        tr, ev = samplers(ds, val)
        loader = DataLoader(ds, batch_size=4, sampler=tr)
        """,
        """
        samplers = DistributedSampler(dataset=DATASET('ds'))
        tr = samplers
        loader = DataLoader(DATASET('ds'), batch_size=4, sampler=tr)
        """,
    ),
    "a function of another file that builds the loader": (
        {
            "train.py": """
            from data import make
            loader = make('train', 6, True)
            for epoch in range(3):
                loader.sampler.set_epoch(epoch)
                for b in loader: pass
            """,
            "data.py": """
            from torch.utils.data import DataLoader
            from torch.utils.data.distributed import DistributedSampler
            def make(split, batch, mix):
                ds = Own(split)
                return DataLoader(ds, batch_size=batch, sampler=DistributedSampler(ds, shuffle=mix))
            """,
        },
        """
        mix = True
        loader = DataLoader(DATASET('ds'), batch_size=6, sampler=DistributedSampler(dataset=DATASET('ds'), \
shuffle=mix))
        # in each epoch
        loader.sampler.set_epoch(epoch)
        """,
    ),
    "a rank helper of another file": (
        {
            "train.py": """
            from ranks import share
            loader = DataLoader(ds, batch_size=4, sampler=DistributedSampler(ds, num_replicas=share(), \
rank=dist.get_rank()))
            """,
            "ranks.py": """
            import torch.distributed as dist
            def share():
                return dist.get_world_size()
            """,
        },
        """
        share = dist.get_world_size()
        loader = DataLoader(DATASET('ds'), batch_size=4, sampler=DistributedSampler(dataset=DATASET('ds'), \
num_replicas=share, rank=dist.get_rank()))
        """,
    ),
}


@pytest.mark.parametrize(("files", "expected"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_functions_of_the_project_are_followed_to_what_they_return(files: str | dict[str, str], expected: str) -> None:
    assert shown(files) == block(expected)


DATASETS: dict[str, tuple[str | dict[str, str], str]] = {
    "a split by fractions": (
        """
        a, b = random_split(ds, [0.8, 0.2], generator=torch.Generator().manual_seed(1))
        loader = DataLoader(a, batch_size=4, sampler=DistributedSampler(a))
        """,
        """
        parts = random_split(DATASET('ds'), [0.8, 0.2], generator=torch.Generator().manual_seed(1))
        a = parts[0]
        loader = DataLoader(a, batch_size=4, sampler=DistributedSampler(dataset=a))
        """,
    ),
    "a split that the program seeds alike": (
        """
        torch.manual_seed(3)
        a, b = random_split(ds, [0.8, 0.2])
        loader = DataLoader(a, batch_size=4, sampler=DistributedSampler(a))
        """,
        """
        parts = random_split(DATASET('ds'), [0.8, 0.2], generator=torch.Generator().manual_seed(0))
        a = parts[0]
        loader = DataLoader(a, batch_size=4, sampler=DistributedSampler(dataset=a))
        """,
    ),
    "a split that each rank seeds": (
        """
        torch.manual_seed(dist.get_rank())
        a, b = random_split(ds, [0.8, 0.2])
        loader = DataLoader(a, batch_size=4, sampler=DistributedSampler(a))
        """,
        """
        parts = random_split(DATASET('ds'), [0.8, 0.2], generator=torch.Generator().manual_seed(RANK))
        a = parts[0]
        loader = DataLoader(a, batch_size=4, sampler=DistributedSampler(dataset=a))
        """,
    ),
    "a split that nothing seeds": (
        """
        a, b = random_split(ds, [0.8, 0.2])
        loader = DataLoader(a, batch_size=4, sampler=DistributedSampler(a))
        """,
        """
        stopped: train.py:12:8: `random_split(ds, [0.8, 0.2])` draws from torch's global state, which is not seen to \
be seeded alike on every rank
        """,
    ),
    "a subset by rank": (
        """
        rank = dist.get_rank()
        part = Subset(ds, range(rank, len(ds), dist.get_world_size()))
        loader = DataLoader(part, batch_size=4)
        """,
        """
        part = Subset(DATASET('ds'), range(RANK, len(DATASET('ds')), dist.get_world_size()))
        loader = DataLoader(part, batch_size=4)
        """,
    ),
    "a slice of indices by rank": (
        """
        rank = dist.get_rank()
        idx = np.arange(len(ds))[rank :: dist.get_world_size()]
        loader = DataLoader(Subset(ds, idx), batch_size=4)
        """,
        """
        idx = list(range(len(DATASET('ds'))))[RANK::dist.get_world_size()]
        loader = DataLoader(Subset(DATASET('ds'), idx), batch_size=4)
        """,
    ),
    "a comprehension by rank": (
        """
        rank, world = dist.get_rank(), dist.get_world_size()
        idx = [i for i in range(len(ds)) if i % world == rank]
        part = Subset(ds, idx)
        loader = DataLoader(part, batch_size=4)
        """,
        """
        idx = list(range(len(DATASET('ds'))))[RANK::WORLD_SIZE]
        part = Subset(DATASET('ds'), idx)
        loader = DataLoader(part, batch_size=4)
        """,
    ),
    "a function that cuts by rank": (
        """
        def mine(n):
            return list(range(dist.get_rank(), n, dist.get_world_size()))

        part = Subset(ds, mine(len(ds)))
        loader = DataLoader(part, batch_size=4)
        """,
        """
        n = len(DATASET('ds'))
        mine = list(range(dist.get_rank(), n, dist.get_world_size()))
        part = Subset(DATASET('ds'), mine)
        loader = DataLoader(part, batch_size=4)
        """,
    ),
    "select by rank": (
        """
        ds = load_dataset('x', split='train')
        part = ds.select(range(dist.get_rank(), len(ds), dist.get_world_size()))
        loader = DataLoader(part, batch_size=4)
        """,
        """
        part = Subset(DATASET('ds'), range(dist.get_rank(), len(DATASET('ds')), dist.get_world_size()))
        loader = DataLoader(part, batch_size=4)
        """,
    ),
    "shard by rank": (
        """
        ds = load_dataset('x', split='train')
        part = ds.shard(num_shards=dist.get_world_size(), index=dist.get_rank())
        loader = DataLoader(part, batch_size=4)
        """,
        """
        part = Subset(DATASET('ds'), range(dist.get_rank(), len(DATASET('ds')), dist.get_world_size()))
        loader = DataLoader(part, batch_size=4)
        """,
    ),
    "a slice of a dataset by rank": (
        """
        part = files[dist.get_rank() :: dist.get_world_size()]
        loader = DataLoader(part, batch_size=4)
        """,
        """
        part = DATASET('files')[dist.get_rank()::dist.get_world_size()]
        loader = DataLoader(part, batch_size=4)
        """,
    ),
    "a dataset made of a rank's files": (
        """
        part = Own(files[dist.get_rank() :: dist.get_world_size()])
        loader = DataLoader(part, batch_size=4)
        """,
        """
        stopped: train.py:13:21: `part` holds one rank's samples: it is cut by `dist.get_rank()` (train.py:12:18)
        """,
    ),
    "a permutation that the program seeds": (
        """
        np.random.seed(0)
        idx = np.random.permutation(len(ds))
        cut = int(0.9 * len(ds))
        part = Subset(ds, idx[:cut])
        loader = DataLoader(part, batch_size=4, sampler=DistributedSampler(part))
        """,
        """
        idx = SHUFFLED(range(len(DATASET('ds'))), 0)
        cut = int(0.9 * len(DATASET('ds')))
        part = Subset(DATASET('ds'), idx[:cut])
        loader = DataLoader(part, batch_size=4, sampler=DistributedSampler(dataset=part))
        """,
    ),
    "a permutation of its own generator": (
        """
        idx = torch.randperm(len(ds), generator=torch.Generator().manual_seed(0)).tolist()
        part = Subset(ds, idx[:-9])
        loader = DataLoader(part, batch_size=4, sampler=DistributedSampler(part))
        """,
        """
        idx = torch.randperm(len(DATASET('ds')), generator=torch.Generator().manual_seed(0)).tolist()
        part = Subset(DATASET('ds'), idx[:-9])
        loader = DataLoader(part, batch_size=4, sampler=DistributedSampler(dataset=part))
        """,
    ),
    "a permutation of a seeded object": (
        """
        rng = np.random.RandomState(5)
        part = Subset(ds, rng.permutation(len(ds))[:-9])
        loader = DataLoader(part, batch_size=4, sampler=DistributedSampler(part))
        """,
        """
        part = Subset(DATASET('ds'), SHUFFLED(range(len(DATASET('ds'))), 5)[:-9])
        loader = DataLoader(part, batch_size=4, sampler=DistributedSampler(dataset=part))
        """,
    ),
    "a permutation that nothing seeds": (
        """
        idx = np.random.permutation(len(ds))
        part = Subset(ds, idx[:-9])
        loader = DataLoader(part, batch_size=4, sampler=DistributedSampler(part))
        """,
        """
        stopped: train.py:12:7: `np.random.permutation(len(ds))` draws from numpy.random's global state, which is not \
seen to be seeded alike on every rank
        """,
    ),
    "a list shuffled in place": (
        """
        random.seed(1)
        idx = list(range(len(ds)))
        random.shuffle(idx)
        loader = DataLoader(ds, batch_size=4, sampler=SubsetRandomSampler(idx[: len(idx) // 2]))
        """,
        """
        idx = SHUFFLED(list(range(len(DATASET('ds')))), 0)
        loader = DataLoader(DATASET('ds'), batch_size=4, sampler=SubsetRandomSampler(indices=idx[:len(idx) // 2]))
        """,
    ),
    "two halves of scikit-learn": (
        """
        tr, ev = train_test_split(range(len(ds)), test_size=0.25, random_state=7)
        loader = DataLoader(ds, batch_size=4, sampler=SubsetRandomSampler(tr))
        """,
        """
        parts = [SHUFFLED(range(len(DATASET('ds'))), 7)[int(len(SHUFFLED(range(len(DATASET('ds'))), 7)) * 0.25):], \
SHUFFLED(range(len(DATASET('ds'))), 7)[:int(len(SHUFFLED(range(len(DATASET('ds'))), 7)) * 0.25)]]
        tr = parts[0]
        loader = DataLoader(DATASET('ds'), batch_size=4, sampler=SubsetRandomSampler(indices=tr))
        """,
    ),
    "a split of datasets with a seed": (
        """
        parts = load_dataset('x').train_test_split(test_size=0.1, seed=3)
        loader = DataLoader(parts['train'], batch_size=4, sampler=DistributedSampler(parts['train']))
        """,
        """
        loader = DataLoader(DATASET("parts['train']"), batch_size=4, \
sampler=DistributedSampler(dataset=DATASET("parts['train']")))
        """,
    ),
    "a split of datasets without one": (
        """
        parts = load_dataset('x').train_test_split(test_size=0.1)
        loader = DataLoader(parts['train'], batch_size=4, sampler=DistributedSampler(parts['train']))
        """,
        """
        stopped: train.py:12:9: `load_dataset('x').train_test_split(test_size=0.1)` draws from numpy.random's global \
state, which is not seen to be seeded alike on every rank
        """,
    ),
    "datasets one after the other": (
        """
        both = ConcatDataset([a, b])
        loader = DataLoader(both, batch_size=4, sampler=DistributedSampler(both))
        """,
        """
        loader = DataLoader(DATASET('both'), batch_size=4, sampler=DistributedSampler(dataset=DATASET('both')))
        """,
    ),
}


@pytest.mark.parametrize(("files", "expected"), DATASETS.values(), ids=DATASETS)
def test_subsets_splits_and_shuffled_indices_are_followed_where_they_can_differ_by_rank(
    files: str | dict[str, str], expected: str
) -> None:
    assert shown(files) == block(expected)


EPOCHS: dict[str, tuple[str | dict[str, str], str]] = {
    "epochs from a start": (
        """
        s = DistributedSampler(ds)
        loader = DataLoader(ds, batch_size=4, sampler=s)
        start = 3
        for epoch in range(start, 10, 2):
            s.set_epoch(epoch)
            for b in loader: pass
        """,
        """
        s = DistributedSampler(dataset=DATASET('ds'))
        loader = DataLoader(DATASET('ds'), batch_size=4, sampler=s)
        # in each epoch
        s.set_epoch(epoch * 2 + 3)
        """,
    ),
    "the epoch and where it was resumed": (
        """
        s = DistributedSampler(ds)
        loader = DataLoader(ds, batch_size=4, sampler=s)
        for epoch in range(args.start_epoch, 10):
            s.set_epoch(epoch + resume)
            for b in loader: pass
        """,
        """
        s = DistributedSampler(dataset=DATASET('ds'))
        loader = DataLoader(DATASET('ds'), batch_size=4, sampler=s)
        # in each epoch
        s.set_epoch(epoch + 0)
        """,
    ),
    "another sampler is told": (
        """
        s = DistributedSampler(ds)
        t = DistributedSampler(val)
        loader = DataLoader(ds, batch_size=4, sampler=s)
        for epoch in range(10):
            t.set_epoch(epoch)
            for b in loader: pass
        """,
        """
        s = DistributedSampler(dataset=DATASET('ds'))
        loader = DataLoader(DATASET('ds'), batch_size=4, sampler=s)
        """,
    ),
    "the loader is told": (
        """
        loader = DataLoader(ds, batch_size=4, sampler=DistributedSampler(ds))
        for epoch in range(10):
            loader.set_epoch(epoch)
            for b in loader: pass
        """,
        """
        loader = DataLoader(DATASET('ds'), batch_size=4, sampler=DistributedSampler(dataset=DATASET('ds')))
        # in each epoch
        loader.set_epoch(epoch)
        """,
    ),
}


@pytest.mark.parametrize(("files", "expected"), EPOCHS.values(), ids=EPOCHS)
def test_each_epoch_is_told_what_the_head_of_the_loop_counts(files: str | dict[str, str], expected: str) -> None:
    assert shown(files) == block(expected)


def test_what_is_followed_is_listed_only_where_it_was_chosen() -> None:
    exact = program(site("BATCH = 6\nloader = DataLoader(ds, batch_size=BATCH)"))
    assert not isinstance(exact, Unproven)
    assert exact.stand_ins == (StandIn("ds", "a dataset of its own indices"),)
    chosen = program(site("random.seed(1)\nidx = list(range(len(ds)))\nrandom.shuffle(idx)\n" + SUBSET))
    assert not isinstance(chosen, Unproven)
    assert chosen.stand_ins == (
        StandIn("ds", "a dataset of its own indices"),
        StandIn("random.shuffle(idx)", "one draw, alike on every rank"),
        StandIn("args.start", "0"),
    )


SUBSET = """\
part = Subset(ds, idx[4:])
s = DistributedSampler(part)
loader = DataLoader(part, batch_size=4, sampler=s)
for epoch in range(args.start, 5):
    s.set_epoch(epoch)
    for batch in loader: pass
"""
PASS = "\nfor epoch in range(3):\n    for batch in loader: pass\n"
LIVE = {
    "every rank cuts its own part by index, and some make a step more": (
        "part = Subset(ds, range(dist.get_rank(), len(ds), dist.get_world_size()))\n"
        "loader = DataLoader(part, batch_size=4)" + PASS,
        "refuted",
        "2 ranks, 25 samples: rank 1 makes 3 steps, rank 0 makes 4: the job would hang",
    ),
    "the same without the last ones": (
        "each = len(ds) // dist.get_world_size()\n"
        "part = Subset(ds, range(dist.get_rank() * each, (dist.get_rank() + 1) * each))\n"
        "loader = DataLoader(part, batch_size=4)" + PASS,
        "unproven",
        "2 ranks, 25 samples: sample 24 is never read; a rule of its own leaves out fewer than there are ranks, as "
        "drop_last does",
    ),
    "a list that all ranks shuffle alike": (
        "random.seed(1)\nidx = list(range(len(ds)))\nrandom.shuffle(idx)\n" + SUBSET,
        "proven",
        "2 and 3 ranks read every sample once an epoch",
    ),
    "a split that each rank draws by its own seed": (
        "torch.manual_seed(dist.get_rank())\na, b = random_split(ds, [0.8, 0.2])\n"
        "s = DistributedSampler(a, shuffle=False)\nloader = DataLoader(a, batch_size=4, sampler=s)" + PASS,
        "refuted",
        "2 ranks, 24 samples: ",
    ),
    "another sampler is told the epoch": (
        "s = DistributedSampler(ds)\nt = DistributedSampler(ds)\nloader = DataLoader(ds, batch_size=4, sampler=s)\n"
        "for epoch in range(3):\n    t.set_epoch(epoch)\n    for batch in loader: pass\n",
        "refuted",
        "2 ranks, 24 samples: epoch 1 repeats epoch 0's order",
    ),
    "a tail that ranks leave out for another loader": (
        "s = DistributedSampler(ds, shuffle=False, drop_last=True) if dist.is_initialized() else None\n"
        "loader = DataLoader(ds, batch_size=4, sampler=s)" + PASS,
        "proven",
        "2 and 3 ranks read no sample twice an epoch",
    ),
    "an evaluation that only one process shuffles": (
        "def evaluate(model):\n    model.eval()\n"
        "    s = DistributedSampler(ds, shuffle=False) if dist.is_initialized() else None\n"
        "    loader = DataLoader(ds, batch_size=4, sampler=s, shuffle=s is None)\n"
        "    with torch.no_grad():\n        for batch in loader:\n            model(batch)\nevaluate(net)\n",
        "proven",
        "2 and 3 ranks read every sample once an epoch",
    ),
    "an endless generator that tells the epoch, called as that of itertools": (
        "def cycle(batches, s):\n    epoch = 0\n    while True:\n        s.set_epoch(epoch)\n"
        "        for batch in batches:\n            yield batch\n        epoch += 1\n"
        "s = DistributedSampler(ds)\nloader = DataLoader(ds, batch_size=4, sampler=s)\n"
        "data = cycle(loader, s)\nfor step in range(99):\n    next(data)\n",
        "proven",
        "2 and 3 ranks read every sample once an epoch",
    ),
    "a sampler for each epoch, with a seed of its own": (
        "for epoch in range(9):\n    s = DistributedSampler(ds, seed=epoch)\n"
        "    loader = DataLoader(ds, batch_size=4, sampler=s)\n    for batch in loader: pass\n",
        "unproven",
        "2 ranks, 24 samples: epoch 1 repeats epoch 0's order: rank 0 reads [20, 3, 7, 13, 4, 19, ..] in both; "
        "each epoch makes a sampler with a seed of its own",
    ),
    "built and told where there are several processes only": (
        "s = DistributedSampler(ds)\ndef make(is_dist):\n    if is_dist:\n"
        "        return DataLoader(ds, batch_size=4, sampler=s)\n"
        "    return DataLoader(ds, batch_size=4, shuffle=True)\n"
        "loader = make(dist.get_world_size() > 1)\nfor epoch in range(9):\n    if dist.get_world_size() > 1:\n"
        "        loader.sampler.set_epoch(epoch)\n    for batch in loader: pass\n",
        "proven",
        "2 and 3 ranks read every sample once an epoch",
    ),
    "horovod's ranks": (
        "import horovod.torch as hvd\ns = DistributedSampler(ds, num_replicas=hvd.size(), rank=hvd.rank())\n"
        "loader = DataLoader(ds, batch_size=4, sampler=s)\n"
        "for epoch in range(9):\n    s.set_epoch(epoch)\n    for batch in loader: pass\n",
        "proven",
        "2 and 3 ranks read every sample once an epoch",
    ),
    "what stands beside a sampler may hide nothing that chooses samples": (
        "s = DistributedSampler(ds, shuffle=False)\nloader = DataLoader(ds, sampler=s, **kwargs)" + PASS,
        "proven",
        "2 and 3 ranks read no sample twice an epoch",
    ),
    "one of two functions tells the epoch of the loop's head": (
        "def train(start):\n    s = DistributedSampler(ds)\n    loader = DataLoader(ds, batch_size=4, sampler=s)\n"
        "    for epoch in range(start, 9):\n        s.set_epoch(epoch)\n        for batch in loader: pass\ntrain(5)\n",
        "proven",
        "2 and 3 ranks read every sample once an epoch",
    ),
}


def test_what_was_followed_is_proven_and_refuted_by_real_ranks() -> None:
    pytest.importorskip("torch")
    recipes = [recipe(None, site(source), kind="stands") for source, _, _ in LIVE.values()]
    made = [r for r in recipes if not isinstance(r, Unproven)]
    assert len(made) == len(LIVE), [str(r) for r in recipes if isinstance(r, Unproven)]
    with Verifier(timeout=90) as verifier:
        proofs = dict(zip(LIVE, verifier.prove(made), strict=True))
    assert {name: (p.verdict, p.reasons[0].startswith(LIVE[name][2])) for name, p in proofs.items()} == {
        name: (verdict, True) for name, (_, verdict, _) in LIVE.items()
    }, [(name, p.reasons) for name, p in proofs.items()]


MESH = "mesh = init_device_mesh('cuda', (2, 2), mesh_dim_names=('dp', 'tp'))\n"
IN_GROUPS = (
    "s = DistributedSampler(ds, num_replicas={}, rank={}, shuffle=False)\n"
    "loader = DataLoader(ds, batch_size=4, sampler=s)" + PASS
)
BY_HAND = "TP = 2\nworld, rank = dist.get_world_size(), dist.get_rank()\n"
GROUPS = {
    "a dimension of a device mesh": (
        MESH + IN_GROUPS.format("mesh['dp'].size()", "mesh.get_local_rank('dp')"),
        "num_replicas=WORLD_SIZE // 2, rank=RANK // 2 % (WORLD_SIZE // 2)",
    ),
    "the last dimension of a device mesh": (
        MESH.replace("'dp', 'tp'", "'tp', 'dp'") + IN_GROUPS.format("mesh['dp'].size()", "mesh['dp'].get_local_rank()"),
        "num_replicas=WORLD_SIZE // 2, rank=RANK % (WORLD_SIZE // 2)",
    ),
    "groups by hand": (
        BY_HAND + IN_GROUPS.format("world // TP", "rank // TP"),
        "num_replicas=WORLD_SIZE // TP, rank=RANK // TP",
    ),
}


def test_data_parallel_groups_are_run_in_as_many_ranks_as_show_them() -> None:
    pytest.importorskip("torch")
    found = {name: recipe(None, site(IMPORT_MESH + source), kind="stands") for name, (source, _) in GROUPS.items()}
    made = {name: r for name, r in found.items() if not isinstance(r, Unproven)}
    assert {name: r.worlds for name, r in made.items()} == dict.fromkeys(GROUPS, (4, 6))
    assert all(GROUPS[name][1] in r.after.build for name, r in made.items()), [r.after.build for r in made.values()]
    with Verifier(timeout=120) as verifier:
        proofs = verifier.prove(list(made.values()))
    for proof in proofs:
        assert proof.verdict == "proven", proof.reasons
        assert proof.reasons[-1] == "4 and 6 ranks ran: those of one data-parallel group read the same"


def test_the_rank_along_another_dimension_is_no_share() -> None:
    source = IMPORT_MESH + MESH + IN_GROUPS.format("mesh['dp'].size()", "mesh['tp'].get_local_rank()")
    assert shown(source).endswith("the shares are counted along one dimension of the mesh, the rank along another")


IMPORT_MESH = "from torch.distributed.device_mesh import init_device_mesh\n"
