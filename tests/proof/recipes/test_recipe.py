"""Recipes: what is taken from the source of each idiom, what is chosen, and what never gets in."""

from __future__ import annotations

import textwrap

import pytest

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Options
from shardfix.analysis.programs.regimes import program_regimes
from shardfix.analysis.sites import Site, find_sites, loader_subclasses
from shardfix.proof.model import StandIn
from shardfix.proof.recipes.recipe import Sliced, Unproven, program, recipe
from shardfix.proof.recipes.whitelist import violation

HEAD = """\
import os
import torch
import torch.distributed as dist
import torch.utils.data as data
from torch.utils.data import (
    BatchSampler, DataLoader, RandomSampler, SequentialSampler, Subset, SubsetRandomSampler, WeightedRandomSampler,
    random_split,
)
from torch.utils.data.distributed import DistributedSampler
from accelerate import Accelerator
"""
DDP = HEAD + "dist.init_process_group('gloo')\n"


def sites(source: str, head: str = DDP) -> list[Site]:
    module = parse("train.py", head + textwrap.dedent(source))
    project = link({module.path: module})
    return find_sites(module, program_regimes(project)["train.py"], Options(), loader_subclasses(project))


def sliced(source: str, head: str = DDP, which: int = 0) -> Sliced:
    found = program(sites(source, head)[which])
    assert isinstance(found, Sliced), str(found)
    return found


def short(code: str) -> str:
    """Code with the long names of torch left out."""
    return code.replace("torch.utils.data.distributed.", "").replace("torch.utils.data.", "")


def build(source: str, head: str = DDP, which: int = 0) -> str:
    return short(sliced(source, head, which).program.build)


def each_epoch(source: str, head: str = DDP) -> str:
    return short(sliced(source, head).program.each_epoch)


def stopped(source: str, head: str = DDP) -> str:
    found = program(sites(source, head)[0])
    assert isinstance(found, Unproven), found
    return str(found)


def block(text: str) -> str:
    return textwrap.dedent(text).strip()


CONSTRUCTIONS = {
    "C1 by name": (
        "loader = DataLoader(ds, batch_size=4, shuffle=True)",
        "loader = DataLoader(DATASET('ds'), batch_size=4, shuffle=True)",
    ),
    "C2 dotted": (
        "loader = torch.utils.data.DataLoader(ds, batch_size=4)",
        "loader = DataLoader(DATASET('ds'), batch_size=4)",
    ),
    "C3 through the module": (
        "loader = data.DataLoader(ds, batch_size=4)",
        "loader = DataLoader(DATASET('ds'), batch_size=4)",
    ),
    "C4 re-exported": (
        "from torch.utils.data.dataloader import DataLoader as DL\nloader = DL(ds, batch_size=4)",
        "loader = DataLoader(DATASET('ds'), batch_size=4)",
    ),
    "C7 a visible dict": (
        "kw = dict(batch_size=4, shuffle=True, num_workers=2)\nloader = DataLoader(ds, **kw)",
        "loader = DataLoader(DATASET('ds'), batch_size=4, shuffle=True)",
    ),
    "C9 positional": (
        "loader = DataLoader(ds, 4, True)",
        "loader = DataLoader(DATASET('ds'), batch_size=4, shuffle=True)",
    ),
    "C10 keyword": (
        "loader = DataLoader(dataset=make(1), batch_size=4)",
        "loader = DataLoader(DATASET('make(1)'), batch_size=4)",
    ),
    "what cannot affect sharding is left out": (
        "loader = DataLoader(ds, batch_size=4, num_workers=8, collate_fn=lambda b: evil(b), timeout=3)",
        "loader = DataLoader(DATASET('ds'), batch_size=4)",
    ),
    "a sanitizer around it is looked through": (
        "from shardfix import sanitize\nloader = sanitize(DataLoader(ds, batch_size=4), owner='ddp')",
        "loader = DataLoader(DATASET('ds'), batch_size=4)",
    ),
    "S4 sequential": (
        "s = SequentialSampler(ds)\nloader = DataLoader(ds, sampler=s, batch_size=4)",
        """
        s = SequentialSampler(data_source=DATASET('ds'))
        loader = DataLoader(DATASET('ds'), batch_size=4, sampler=s)
        """,
    ),
    "S7 random inline": (
        "loader = DataLoader(ds, sampler=RandomSampler(ds), batch_size=4)",
        "loader = DataLoader(DATASET('ds'), batch_size=4, sampler=RandomSampler(data_source=DATASET('ds')))",
    ),
    "S8 conditional expression on the rank": (
        """
        s = RandomSampler(ds) if args.local_rank == -1 else DistributedSampler(ds)
        loader = DataLoader(ds, sampler=s, batch_size=4)
        """,
        """
        s = RandomSampler(data_source=DATASET('ds')) if LOCAL_RANK == -1 else DistributedSampler(dataset=DATASET('ds'))
        loader = DataLoader(DATASET('ds'), batch_size=4, sampler=s)
        """,
    ),
    "S9 two samplers in one if": (
        """
        if args.local_rank == -1:
            tr, ev = RandomSampler(ds), SequentialSampler(val)
        else:
            tr, ev = DistributedSampler(ds), DistributedSampler(val)
        loader = DataLoader(ds, sampler=tr, batch_size=4)
        """,
        """
        if LOCAL_RANK == -1:
            tr = RandomSampler(data_source=DATASET('ds'))
        else:
            tr = DistributedSampler(dataset=DATASET('ds'))
        loader = DataLoader(DATASET('ds'), batch_size=4, sampler=tr)
        """,
    ),
    "S12 distributed or None": (
        """
        s = None
        if args.distributed:
            s = DistributedSampler(ds, shuffle=True)
        loader = DataLoader(ds, batch_size=4, shuffle=(s is None), sampler=s)
        """,
        """
        s = None
        if DISTRIBUTED:
            s = DistributedSampler(dataset=DATASET('ds'), shuffle=True)
        loader = DataLoader(DATASET('ds'), batch_size=4, shuffle=s is None, sampler=s)
        """,
    ),
    "S13 shuffle is a variable of its own": (
        """
        distributed = dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
        if distributed:
            s, shuffle = DistributedSampler(ds), False
        else:
            s, shuffle = None, True
        loader = DataLoader(ds, batch_size=4, shuffle=shuffle, sampler=s)
        """,
        """
        if DISTRIBUTED:
            s = DistributedSampler(dataset=DATASET('ds'))
            shuffle = False
        else:
            s = None
            shuffle = True
        loader = DataLoader(DATASET('ds'), batch_size=4, shuffle=shuffle, sampler=s)
        """,
    ),
    "S15 rank and size given": (
        """
        world = dist.get_world_size()
        s = DistributedSampler(ds, world, dist.get_rank(), shuffle=False, seed=int(args.seed))
        loader = DataLoader(ds, batch_size=4, sampler=s, drop_last=True)
        """,
        """
        s = DistributedSampler(dataset=DATASET('ds'), num_replicas=WORLD_SIZE, rank=dist.get_rank(), \
shuffle=False, seed=0)
        loader = DataLoader(DATASET('ds'), batch_size=4, sampler=s, drop_last=True)
        """,
    ),
    "S18 weights": (
        "loader = DataLoader(ds, sampler=WeightedRandomSampler(w, len(w)), batch_size=4)",
        "loader = DataLoader(DATASET('ds'), batch_size=4, "
        "sampler=WeightedRandomSampler(weights=[1.0] * len(DATASET('ds')), num_samples=len(DATASET('ds'))))",
    ),
    "S19 subset": (
        """
        idx = list(range(len(ds)))
        cut = int(0.5 * len(ds))
        loader = DataLoader(ds, sampler=SubsetRandomSampler(idx[:cut]), batch_size=4)
        """,
        """
        idx = list(range(len(DATASET('ds'))))
        cut = int(0.5 * len(DATASET('ds')))
        loader = DataLoader(DATASET('ds'), batch_size=4, sampler=SubsetRandomSampler(indices=idx[:cut]))
        """,
    ),
    "S21 batch sampler": (
        """
        base = RandomSampler(ds)
        loader = DataLoader(ds, batch_sampler=BatchSampler(base, 4, drop_last=True))
        """,
        """
        base = RandomSampler(data_source=DATASET('ds'))
        loader = DataLoader(DATASET('ds'), batch_sampler=BatchSampler(sampler=base, batch_size=4, drop_last=True))
        """,
    ),
    "S23 a literal None is no sampler": (
        "loader = DataLoader(ds, sampler=None, batch_size=4)",
        "loader = DataLoader(DATASET('ds'), batch_size=4)",
    ),
    "a subset is one object for the sampler and the loader": (
        """
        part = Subset(ds, list(range(len(ds)))[::2])
        loader = DataLoader(part, sampler=DistributedSampler(part), batch_size=4)
        """,
        """
        part = Subset(DATASET('ds'), list(range(len(DATASET('ds'))))[::2])
        loader = DataLoader(part, batch_size=4, sampler=DistributedSampler(dataset=part))
        """,
    ),
    "a seeded split stays": (
        """
        n = int(0.8 * len(ds))
        train, val = random_split(ds, [n, len(ds) - n], generator=torch.Generator().manual_seed(0))
        loader = DataLoader(train, batch_size=4, sampler=DistributedSampler(train))
        """,
        """
        n = int(0.8 * len(DATASET('ds')))
        parts = random_split(DATASET('ds'), [n, len(DATASET('ds')) - n], \
generator=torch.Generator().manual_seed(0))
        train = parts[0]
        loader = DataLoader(train, batch_size=4, sampler=DistributedSampler(dataset=train))
        """,
    ),
    "absolute indices fit no other size: the subset is a dataset of its own": (
        "part = Subset(ds, range(100))\nloader = DataLoader(part, sampler=DistributedSampler(part), batch_size=4)",
        "loader = DataLoader(DATASET('part'), batch_size=4, sampler=DistributedSampler(dataset=DATASET('part')))",
    ),
    "a generator seeded in a second statement": (
        """
        g = torch.Generator()
        g.manual_seed(7)
        loader = DataLoader(ds, batch_size=4, shuffle=True, generator=g)
        """,
        """
        g = torch.Generator().manual_seed(7)
        loader = DataLoader(DATASET('ds'), batch_size=4, shuffle=True, generator=g)
        """,
    ),
    "a seed that depends on the rank keeps doing so": (
        "loader = DataLoader(ds, batch_size=4, sampler=DistributedSampler(ds, seed=args.seed + dist.get_rank()))",
        "loader = DataLoader(DATASET('ds'), batch_size=4, "
        "sampler=DistributedSampler(dataset=DATASET('ds'), seed=0 + dist.get_rank()))",
    ),
    "a sampler on self": (
        """
        class Runner:
            def __init__(self, ds):
                self.ds = ds
                self.sampler = DistributedSampler(ds) if dist.is_initialized() else None

            def run(self):
                loader = DataLoader(self.ds, batch_size=4, sampler=self.sampler)
        """,
        """
        self_sampler = DistributedSampler(dataset=DATASET('ds')) if dist.is_initialized() else None
        loader = DataLoader(DATASET('ds'), batch_size=4, sampler=self_sampler)
        """,
    ),
    "a factory that one call uses": (
        """
        def make(ds, sampler=None, train=True):
            return DataLoader(ds, batch_size=4, sampler=sampler, shuffle=train and sampler is None)

        loader = make(trainset, DistributedSampler(trainset))
        """,
        """
        train = True
        sampler = DistributedSampler(dataset=DATASET('trainset'))
        loader = DataLoader(DATASET('trainset'), batch_size=4, shuffle=train and sampler is None, sampler=sampler)
        """,
    ),
    "both arms of a regime condition build the loader": (
        """
        if args.distributed:
            loader = DataLoader(ds, batch_size=4, sampler=DistributedSampler(ds))
        else:
            loader = DataLoader(ds, batch_size=4, shuffle=True)
        """,
        """
        if DISTRIBUTED:
            loader = DataLoader(DATASET('ds'), batch_size=4, sampler=DistributedSampler(dataset=DATASET('ds')))
        else:
            loader = DataLoader(DATASET('ds'), batch_size=4, shuffle=True)
        """,
    ),
    "a condition around the construction is as it must be": (
        """
        if args.do_train:
            s = RandomSampler(ds)
        if args.do_train:
            loader = DataLoader(ds, batch_size=4, sampler=s)
        """,
        """
        s = RandomSampler(data_source=DATASET('ds'))
        loader = DataLoader(DATASET('ds'), batch_size=4, sampler=s)
        """,
    ),
    "a condition without which a name has no value holds": (
        """
        if args.fancy:
            s = RandomSampler(ds)
        loader = DataLoader(ds, batch_size=4, sampler=s)
        """,
        """
        s = RandomSampler(data_source=DATASET('ds'))
        loader = DataLoader(DATASET('ds'), batch_size=4, sampler=s)
        """,
    ),
    "the dataset of either arm is the loader's": (
        """
        if args.train:
            d = A()
            s = DistributedSampler(d)
        else:
            d = B()
            s = DistributedSampler(d, shuffle=False)
        loader = DataLoader(d, batch_size=4, sampler=s)
        """,
        """
        if UNKNOWN['args.train']:
            s = DistributedSampler(dataset=DATASET('d'))
        else:
            s = DistributedSampler(dataset=DATASET('d'), shuffle=False)
        loader = DataLoader(DATASET('d'), batch_size=4, sampler=s)
        """,
    ),
    "names of the recipe are not taken": (
        "RANK = SequentialSampler(ds)\nloader = DataLoader(ds, batch_size=4, sampler=RANK)",
        """
        RANK_ = SequentialSampler(data_source=DATASET('ds'))
        loader = DataLoader(DATASET('ds'), batch_size=4, sampler=RANK_)
        """,
    ),
}


@pytest.mark.parametrize(("source", "expected"), CONSTRUCTIONS.values(), ids=CONSTRUCTIONS)
def test_the_construction_is_taken_as_written(source: str, expected: str) -> None:
    assert build(source) == block(expected)


REGIMES = {
    "args.rank == 0": "RANK == 0",
    "args.rank == -1": "LOCAL_RANK == -1",
    "args.local_rank in [-1, 0]": "LOCAL_RANK in [-1, 0]",
    "LOCAL_RANK >= 0": "LOCAL_RANK >= 0",
    "args.world_size > 1": "WORLD_SIZE > 1",
    "int(os.environ.get('WORLD_SIZE', 1)) > 1": "int(WORLD_SIZE) > 1",
    "int(os.environ['RANK']) == 0": "int(RANK) == 0",
    "'RANK' in os.environ": "DISTRIBUTED",
    "not args.distributed": "not DISTRIBUTED",
    "utils.is_dist_avail_and_initialized()": "DISTRIBUTED",
    "dist.is_available() and dist.is_initialized()": "dist.is_available() and dist.is_initialized()",
    "get_world_size() > 1": "WORLD_SIZE > 1",
    "accelerator.num_processes > 1": "accelerator.num_processes > 1",
    "accelerator.is_main_process": "accelerator.is_main_process",
    "is_main_process()": "RANK == 0",
    "args.fast": "UNKNOWN['args.fast']",
    "args.mode == 'ddp'": "UNKNOWN[\"args.mode == 'ddp'\"]",
    "args.fast and args.distributed": "UNKNOWN['args.fast'] and DISTRIBUTED",
}


@pytest.mark.parametrize(("test", "expected"), REGIMES.items(), ids=REGIMES)
def test_what_the_launch_decides_is_asked_of_the_launch_and_the_rest_is_unknown(test: str, expected: str) -> None:
    made = build(f"loader = DataLoader(ds, batch_size=4, sampler=DistributedSampler(ds) if {test} else None)")
    line = next(line for line in made.splitlines() if line.startswith("loader"))
    assert line == (
        "loader = DataLoader(DATASET('ds'), batch_size=4, "
        f"sampler=DistributedSampler(dataset=DATASET('ds')) if {expected} else None)"
    )


def test_the_rank_is_never_an_argparse_default_but_one_process_keeps_the_programs_own_value() -> None:
    source = """
    parser.add_argument("--local_rank", type=int, default=0)
    loader = DataLoader(ds, batch_size=4, sampler=DistributedSampler(ds, rank=args.local_rank))
    """
    assert "rank=max(LOCAL_RANK, 0)" in build(source)


def test_batch_sizes_are_small_and_other_sizes_stay_other_sizes() -> None:
    source = """
    parser.add_argument("-b", "--batch-size", default=256, type=int)
    a = DataLoader(ds, batch_size=args.batch_size)
    b = DataLoader(ds, batch_size=128)
    c = DataLoader(ds, batch_size=args.batch_size // dist.get_world_size())
    d = DataLoader(ds, batch_size=cfg.size)
    """
    from shardfix.proof.recipes.choices import Choices

    choices = Choices()
    found = [program(site, choices) for site in sites(source)]
    sizes = [short(f.program.build).split("batch_size=")[1][:-1] for f in found if isinstance(f, Sliced)]
    assert sizes == ["4", "6", "max(1, 4 // dist.get_world_size())", "2"]
    assert choices.stand_ins == {"args.batch_size": "4", "batch size 128": "6", "cfg.size": "2"}


def test_every_choice_is_listed() -> None:
    found = sliced("loader = DataLoader(make(args), batch_size=args.bs, shuffle=args.shuffle)")
    assert found.unknown == ("args.shuffle",)
    assert found.stand_ins == (
        StandIn("make(args)", "a dataset of its own indices"),
        StandIn("args.bs", "2"),
        StandIn("args.shuffle", "both True and False"),
    )


PREPARED = {
    "the loader is prepared": (
        "loader = DataLoader(ds, batch_size=4, shuffle=True)\nloader = accelerator.prepare(loader)",
        "",
    ),
    "in a tuple": (
        "loader = DataLoader(ds, batch_size=4, shuffle=True)\nmodel, loader = accelerator.prepare(model, loader)",
        "",
    ),
    "its settings": (
        "loader = DataLoader(ds, batch_size=4, shuffle=True)\nloader = accelerator.prepare(loader)",
        "dataloader_config=DataLoaderConfiguration(split_batches=True, even_batches=args.even), mixed_precision=fp()",
    ),
}


@pytest.mark.parametrize(("source", "settings"), PREPARED.values(), ids=PREPARED)
def test_a_prepared_loader_goes_through_a_real_accelerator(source: str, settings: str) -> None:
    use = f"\naccelerator = Accelerator({settings})\n{source}\nfor epoch in range(3):\n    for b in loader: pass\n"
    found = sliced("from accelerate.utils import DataLoaderConfiguration" + use, HEAD)
    size = 12 if settings else 4  # what two ranks and three can split
    config = (
        ", dataloader_config=accelerate.utils.DataLoaderConfiguration(split_batches=True, "
        "even_batches=UNKNOWN['args.even'])"
    )
    assert found.needs_accelerate
    assert short(found.program.build) == block(
        f"""
        accelerator = Accelerator(cpu=True{config if settings else ""})
        loader = DataLoader(DATASET('ds'), batch_size={size}, shuffle=True)
        loader = accelerator.prepare(loader)
        """
    )


def test_a_trainer_override_is_raw_or_prepared_as_its_source_says() -> None:
    source = """
    from transformers import Trainer

    class Mine(Trainer):
        def get_train_dataloader(self):
            return {}
    """
    raw = sliced(source.format("DataLoader(self.train_dataset, batch_size=self.args.bs, shuffle=True)"), HEAD)
    assert short(raw.program.build) == "loader = DataLoader(DATASET('self.train_dataset'), batch_size=2, shuffle=True)"
    assert not raw.needs_accelerate
    prepared = sliced(source.format("self.accelerator.prepare(DataLoader(self.train_dataset, batch_size=2))"), HEAD)
    assert short(prepared.program.build) == block(
        """
        torch.manual_seed(42)
        accelerator = Accelerator(cpu=True, \
dataloader_config=accelerate.utils.DataLoaderConfiguration(use_seedable_sampler=True))
        loader = DataLoader(DATASET('self.train_dataset'), batch_size=2)
        loader = accelerator.prepare(loader)
        """
    )


@pytest.mark.parametrize(
    ("seeding", "expected"),
    [
        ("set_seed(args.seed)", "torch.manual_seed(0)\n"),
        ("torch.manual_seed(7)", "torch.manual_seed(7)\n"),
        ("set_seed(7, device_specific=True)", ""),
        ("torch.manual_seed(7 + accelerator.process_index)", ""),
        ("pass", ""),
    ],
)
def test_a_sampler_that_rests_on_the_seed_is_seeded_as_the_program_does(seeding: str, expected: str) -> None:
    source = f"""
    from accelerate.utils import DataLoaderConfiguration, set_seed
    accelerator = Accelerator(dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True))
    {seeding}
    loader = accelerator.prepare(DataLoader(ds, batch_size=4, shuffle=True))
    for batch in loader: pass
    """
    assert build(source, HEAD).startswith(f"{expected}accelerator = ")


TOLD = {
    "the sampler": ("s.set_epoch(epoch)", "s.set_epoch(epoch)"),
    "through the loader": ("loader.sampler.set_epoch(epoch)", "loader.sampler.set_epoch(epoch)"),
    "from one on": ("s.set_epoch(epoch + 1)", "s.set_epoch(epoch + 1)"),
    "resumed": ("s.set_epoch(args.start_epoch + epoch)", "s.set_epoch(0 + epoch)"),
    "never another one": ("s.set_epoch(0)", "s.set_epoch(0)"),
    "under the regime": ("if args.distributed: s.set_epoch(epoch)", "if DISTRIBUTED:\n    s.set_epoch(epoch)"),
    "if there is one": ("if s is not None: s.set_epoch(epoch)", "if s is not None:\n    s.set_epoch(epoch)"),
    "if it is one": (
        "if isinstance(loader.sampler, DistributedSampler): loader.sampler.set_epoch(epoch)",
        "if isinstance(loader.sampler, DistributedSampler):\n    loader.sampler.set_epoch(epoch)",
    ),
    "if it can be": (
        "if hasattr(s, 'set_epoch'): s.set_epoch(epoch)",
        "if hasattr(s, 'set_epoch'):\n    s.set_epoch(epoch)",
    ),
    "as an expression": (
        "s.set_epoch(epoch) if args.distributed else None",
        "if DISTRIBUTED:\n    s.set_epoch(epoch)",
    ),
    "on one rank only": (
        "if dist.get_rank() == 0: s.set_epoch(epoch)",
        "if dist.get_rank() == 0:\n    s.set_epoch(epoch)",
    ),
    "not at all": ("pass", ""),
}


@pytest.mark.parametrize(("call", "expected"), TOLD.values(), ids=TOLD)
def test_who_is_told_the_epoch_and_when(call: str, expected: str) -> None:
    source = f"""
    s = DistributedSampler(ds)
    loader = DataLoader(ds, batch_size=4, sampler=s)
    for epoch in range(3):
        {call}
        for batch in loader:
            step(batch)
    """
    assert each_epoch(source) == expected


def test_an_epoch_told_after_the_pass_is_for_the_next_one() -> None:
    source = """
    s = DistributedSampler(ds)
    loader = DataLoader(ds, batch_size=4, sampler=s)
    for epoch in range(3):
        for batch in loader:
            step(batch)
        s.set_epoch(epoch)
    """
    assert each_epoch(source) == "if epoch > 0:\n    s.set_epoch(epoch - 1)"


def test_a_loop_in_another_function_tells_the_sampler_that_a_tuple_brought_there() -> None:
    source = """
    def make(ds):
        s = DistributedSampler(ds)
        return DataLoader(ds, batch_size=4, sampler=s), s

    def run(loader, sampler, epoch):
        if sampler is not None:
            sampler.set_epoch(epoch)
        for batch in loader:
            step(batch)

    loader, sampler = make(trainset)
    for e in range(3):
        run(loader, sampler, e)
    """
    assert each_epoch(source) == "if s is not None:\n    s.set_epoch(epoch)"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(
            """
            for epoch in range(3):
                loader = DataLoader(ds, batch_size=4, sampler=DistributedSampler(ds))
                loader.sampler.set_epoch(epoch)
                for batch in loader:
                    step(batch)
            """,
            "loader.sampler.set_epoch(epoch)",
            id="a loader built anew",
        ),
        pytest.param(
            """
            def run(loader):
                for epoch in range(3):
                    if isinstance(getattr(loader, "sampler", None), DistributedSampler):
                        loader.sampler.set_epoch(epoch)
                    for batch in loader:
                        step(batch)
            run(DataLoader(ds, batch_size=4, sampler=DistributedSampler(ds)))
            """,
            "if isinstance(loader.sampler, DistributedSampler):\n    loader.sampler.set_epoch(epoch)",
            id="what may be no loader",
        ),
        pytest.param(
            """
            s = DistributedSampler(ds)
            loader = DataLoader(ds, batch_size=4, sampler=s)
            for epoch in range(3):
                s.set_epoch(epoch)
                for batch in loader:
                    step(batch).backward()
            for epoch in range(3):
                for batch in loader:
                    step(batch).backward()
            """,
            "",
            id="of two loops the one that tells nothing",
        ),
    ],
)
def test_each_epoch_is_told_what_the_program_tells(source: str, expected: str) -> None:
    assert each_epoch(source) == expected


def test_a_prepared_loader_is_told_by_the_name_that_the_program_uses() -> None:
    source = """
    accelerator = Accelerator()
    raw = DataLoader(ds, batch_size=4, sampler=DistributedSampler(ds))
    loader = accelerator.prepare(raw)
    for epoch in range(3):
        raw.sampler.set_epoch(epoch)
        loader.set_epoch(epoch)
        for batch in loader:
            step(batch)
    """
    found = sliced(source, HEAD)
    assert found.program.each_epoch == "raw_loader.sampler.set_epoch(epoch)\nloader.set_epoch(epoch)"
    assert "raw_loader = loader\nloader = accelerator.prepare(loader)" in found.program.build


STOPPED = {
    "a custom sampler": (
        "loader = DataLoader(ds, sampler=Sortish(ds), batch_size=4)",
        "train.py:12:33: the sampler `Sortish(ds)` needs the project's own code, which is not imported",
    ),
    "a sampler from a factory": (
        "s = make_sampler(ds)\nloader = DataLoader(ds, sampler=s, batch_size=4)",
        "train.py:12:5: the sampler `make_sampler(ds)` needs the project's own code, which is not imported",
    ),
    "a batch sampler of the project": (
        "loader = DataLoader(ds, batch_sampler=Buckets(ds, 4))",
        "train.py:12:39: the sampler `Buckets(ds, 4)` needs the project's own code, which is not imported",
    ),
    "keywords that are not seen": (
        "loader = DataLoader(ds, **cfg.loader)",
        "train.py:12:10: `**cfg.loader` hides arguments of `DataLoader`",
    ),
    "a stream": (
        "class S(data.IterableDataset): pass\nds = S()\nloader = DataLoader(ds, batch_size=4)",
        "train.py:13:6: `S()` is a stream (IterableDataset): it has no indices to compare",
    ),
    "a sampler from several callers": (
        """
        def make(ds, s):
            return DataLoader(ds, sampler=s, batch_size=4)
        make(a, RandomSampler(a))
        make(b, DistributedSampler(b))
        """,
        "train.py:14:35: the sampler `s` comes from the caller: 2 calls give it different ones",
    ),
    "a loader of the main process": (
        "if dist.get_rank() == 0:\n    loader = DataLoader(ds, batch_size=4)",
        "train.py:12:4: the loader is built by one process only",
    ),
    "a loader of a function that the main process calls": (
        """
        def evaluate(ds):
            loader = DataLoader(ds, batch_size=4)
            for batch in loader: pass
        if dist.get_rank() == 0:
            evaluate(val)
        """,
        "train.py:16:4: the loader is built by one process only",
    ),
    "a loader that the main process reads": (
        """
        loader = DataLoader(ds, batch_size=4)
        if dist.get_rank() == 0:
            for batch in loader: pass
        """,
        "train.py:14:4: the loader is read by one process only",
    ),
    "a loader of one process": (
        "if args.distributed:\n    pass\nelse:\n    loader = DataLoader(ds, batch_size=4)",
        "train.py:12:4: the loader is built only where there is one process: there is nothing to shard",
    ),
    "a loader built anew in each epoch, whose last one is told it": (
        """
        for epoch in range(3):
            if epoch: loader.sampler.set_epoch(epoch)
            loader = DataLoader(ds, batch_size=4, sampler=DistributedSampler(ds))
            for batch in loader: pass
        """,
        "train.py:14:15: `set_epoch` is called before the epoch's sampler is built",
    ),
    "a sampler that may be told elsewhere": (
        """
        def make(ds):
            s = DistributedSampler(ds)
            return DataLoader(ds, batch_size=4, sampler=s)
        engine.train(make(a))
        """,
        "train.py:16:1: the loader leaves this file here: whether its sampler is told the epoch is not seen",
    ),
    "a sampler of another dataset": (
        "loader = DataLoader(val, batch_size=4, sampler=DistributedSampler(train))",
        "train.py:12:10: the sampler is made for `train`, the loader reads `val`: whether they match is not seen",
    ),
    "an epoch that is none": (
        """
        s = DistributedSampler(ds)
        loader = DataLoader(ds, batch_size=4, sampler=s)
        for epoch in range(3):
            s.set_epoch(clock())
            for batch in loader: pass
        """,
        "train.py:16:17: `clock()` is not seen to be the epoch",
    ),
    "a number of replicas that is not of the group": (
        "loader = DataLoader(ds, batch_size=4, sampler=DistributedSampler(ds, num_replicas=cfg.parts, rank=0))",
        "train.py:12:83: `num_replicas=` `cfg.parts` is not seen to be a number of the process group",
    ),
    "indices that were shuffled": (
        """
        idx = list(range(len(ds)))
        random.shuffle(idx)
        loader = DataLoader(ds, sampler=SubsetRandomSampler(idx), batch_size=4)
        """,
        "train.py:14:1: `idx` is shuffled by `random.shuffle(idx)`",
    ),
}


@pytest.mark.parametrize(("source", "expected"), STOPPED.values(), ids=STOPPED)
def test_what_stops_a_recipe_is_named_with_its_place(source: str, expected: str) -> None:
    assert stopped(source) == expected


HOSTILE = [
    "SubsetRandomSampler(__import__('os').listdir('/'))",
    "SubsetRandomSampler([open('/etc/passwd').read()])",
    "SubsetRandomSampler(().__class__.__bases__[0].__subclasses__())",
    "SubsetRandomSampler((lambda: range(len(ds)))())",
    "SubsetRandomSampler([i for i in range(len(ds))])",
    "SubsetRandomSampler(list(range(10 ** 10)))",
    "SubsetRandomSampler(list(range(99999 * len(ds))))",
    "WeightedRandomSampler(w, eval('3'))",
    "DistributedSampler(ds, seed=__import__('random').randint(0, 9))",
    "DistributedSampler(ds, rank=os.system('true'))",
    "DistributedSampler(ds) if __import__('os') else exec('1')",
    "DistributedSampler(ds, shuffle=(lambda: open('x'))())",
    "RandomSampler(ds, generator=eval('g'))",
]


@pytest.mark.parametrize("sampler", HOSTILE)
def test_nothing_of_the_users_own_code_gets_into_a_recipe(sampler: str) -> None:
    found = program(sites(f"loader = DataLoader(ds, batch_size=4, sampler={sampler})")[0])
    if isinstance(found, Sliced):
        code = f"{found.program.build}\n{found.program.each_epoch}"
        assert violation(code) == ""
        for word in ("__", "open(", "eval(", "exec(", "lambda", "system(", "10 ** 10", "99999"):
            assert word not in strip_strings(code)


def strip_strings(code: str) -> str:
    """Code without its strings: what the user's expressions are called is no code."""
    import ast

    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
    return ast.unparse(tree)


@pytest.mark.parametrize(
    "code",
    [
        "loader = __import__('os')",
        "loader = torch.load('x')",
        "loader = torch.utils.data.DataLoader(DATASET('d')).__class__",
        "loader = [i for i in range(3)]",
        "loader = lambda: 1",
        "import os",
        "loader = 10 ** 10",
        "loader = range(5000)",
        "loader = accelerator.save_state()",
        "RANK = 0\nloader = 1",
        "loader = getattr(torch, 'load')",
        "loader = torch.utils.data.DataLoader(*DATASET('d'))",
        "loader = dist.destroy_process_group()",
        "loader = 1\nloader.dataset = 2",
        "loader = f'{RANK}'",
        "while True:\n    loader = 1",
    ],
)
def test_the_last_gate_turns_down_what_no_translation_should_make(code: str) -> None:
    assert violation(code)


def test_before_and_after_share_their_stand_ins() -> None:
    before = sites("loader = DataLoader(make(), batch_size=cfg.bs, shuffle=cfg.sh, sampler=None)")[0]
    after = sites(
        "d = make()\nloader = DataLoader(d, batch_size=cfg.bs, sampler=DistributedSampler(d, shuffle=cfg.sh))"
    )[0]
    made = recipe(before, after, kind="fault", expect="unsharded")
    assert not isinstance(made, Unproven)
    assert made.before is not None
    assert short(made.before.build) == "loader = DataLoader(DATASET('make()'), batch_size=2, shuffle=UNKNOWN['cfg.sh'])"
    assert short(made.after.build) == (
        "loader = DataLoader(DATASET('d'), batch_size=2, "
        "sampler=DistributedSampler(dataset=DATASET('d'), shuffle=UNKNOWN['cfg.sh']))"
    )
    assert made.unknown == ("cfg.sh",)
    assert (made.site, made.owner, made.kind, made.group) == ("train.py:12:10", "ddp", "fault", "always")


@pytest.mark.parametrize(
    ("source", "group"),
    [
        ("dist.init_process_group('gloo')\nloader = DataLoader(ds, batch_size=4)", "always"),
        (
            "if args.distributed:\n    dist.init_process_group('gloo')\nloader = DataLoader(ds, batch_size=4)",
            "optional",
        ),
        (
            "dist.init_process_group('gloo')\n"
            "loader = DataLoader(ds, batch_size=4, sampler=DistributedSampler(ds) if dist.is_initialized() else None)",
            "optional",
        ),
    ],
)
def test_a_program_that_asks_for_the_group_must_run_without_one(source: str, group: str) -> None:
    site = sites(source, HEAD)[0]
    made = recipe(None, site, kind="stands")
    assert not isinstance(made, Unproven)
    assert made.group == group


LIVE = {
    "the BERT idiom, told the epoch": (
        """
        s = RandomSampler(ds) if args.local_rank == -1 else DistributedSampler(ds)
        loader = DataLoader(ds, sampler=s, batch_size=4)
        for epoch in range(3):
            for b in loader: pass
        """,
        """
        s = RandomSampler(ds) if args.local_rank == -1 else DistributedSampler(ds)
        loader = DataLoader(ds, sampler=s, batch_size=4)
        for epoch in range(3):
            if isinstance(s, DistributedSampler):
                s.set_epoch(epoch)
            for b in loader: pass
        """,
        "frozen-epoch",
        "proven",
    ),
    "the BERT idiom, told nothing": (
        None,
        """
        s = RandomSampler(ds) if args.local_rank == -1 else DistributedSampler(ds)
        loader = DataLoader(ds, sampler=s, batch_size=4)
        for epoch in range(3):
            for b in loader: pass
        """,
        "",
        "refuted",
    ),
    "an eval loader sharded": (
        "loader = DataLoader(ds, batch_size=4)\nfor b in loader: pass",
        "loader = DataLoader(ds, batch_size=4, sampler=DistributedSampler(ds, shuffle=False))\nfor b in loader: pass",
        "unsharded",
        "proven",
    ),
    "a shuffle that is not known": (
        "loader = DataLoader(ds, batch_size=4, shuffle=args.shuffle)\nfor b in loader: pass",
        """
        s = DistributedSampler(ds, shuffle=args.shuffle) if dist.is_initialized() else None
        loader = DataLoader(ds, batch_size=4, sampler=s, shuffle=args.shuffle and s is None)
        for epoch in range(3):
            if s is not None:
                s.set_epoch(epoch)
            for b in loader: pass
        """,
        "unsharded",
        "proven",
    ),
    "a subset shared out": (
        """
        idx = list(range(len(ds)))
        cut = int(0.5 * len(ds))
        loader = DataLoader(ds, sampler=SubsetRandomSampler(idx[:cut]), batch_size=2)
        for b in loader: pass
        """,
        """
        idx = list(range(len(ds)))
        cut = int(0.5 * len(ds))
        s = DistributedSampler(Subset(ds, idx[:cut]))
        loader = DataLoader(Subset(ds, idx[:cut]), sampler=s, batch_size=2)
        for epoch in range(3):
            s.set_epoch(epoch)
            for b in loader: pass
        """,
        "unsharded",
        "proven",
    ),
    "a double shard taken out": (
        """
        accelerator = Accelerator()
        s = DistributedSampler(ds, num_replicas=accelerator.num_processes, rank=accelerator.process_index)
        loader = DataLoader(ds, batch_size=4, sampler=s)
        loader = accelerator.prepare(loader)
        for epoch in range(3):
            s.set_epoch(epoch)
            for b in loader: pass
        """,
        """
        accelerator = Accelerator()
        loader = DataLoader(ds, batch_size=4, shuffle=True)
        loader = accelerator.prepare(loader)
        for epoch in range(3):
            loader.set_epoch(epoch)
            for b in loader: pass
        """,
        "sharded-twice",
        "proven",
    ),
    "a trainer's override handed to its accelerator": (
        """
        from transformers import Trainer

        class Mine(Trainer):
            def get_train_dataloader(self):
                return DataLoader(self.train_dataset, batch_size=4, shuffle=True)
        """,
        """
        from transformers import Trainer

        class Mine(Trainer):
            def get_train_dataloader(self):
                return self.accelerator.prepare(DataLoader(self.train_dataset, batch_size=4, shuffle=True))
        """,
        "unsharded",
        "proven",
    ),
    "a seed that differs by rank": (
        None,
        """
        s = DistributedSampler(ds, seed=dist.get_rank())
        loader = DataLoader(ds, batch_size=4, sampler=s)
        for epoch in range(3):
            s.set_epoch(epoch)
            for b in loader: pass
        """,
        "",
        "refuted",
    ),
    "one rank alone told the epoch": (
        None,
        """
        s = DistributedSampler(ds)
        loader = DataLoader(ds, batch_size=4, sampler=s)
        for epoch in range(3):
            if dist.get_rank() == 0:
                s.set_epoch(epoch)
            for b in loader: pass
        """,
        "",
        "refuted",
    ),
}


def test_recipes_of_source_are_proven_and_refuted_by_real_ranks() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("accelerate")
    from shardfix.proof.running.launch import prove

    recipes = []
    for before, after, expect, _ in LIVE.values():
        head = HEAD if "ccelerator" in after else DDP
        first = sites(before, head)[0] if before is not None else None
        made = recipe(first, sites(after, head)[0], kind="fault" if before else "stands", expect=expect)
        assert not isinstance(made, Unproven), str(made)
        recipes.append(made)
    proofs = prove(recipes, timeout=120)
    told = {name: (proof.verdict, proof.reasons) for name, proof in zip(LIVE, proofs, strict=True)}
    assert {name: verdict for name, (verdict, _) in told.items()} == {
        name: verdict for name, (_, _, _, verdict) in LIVE.items()
    }, told


def test_a_loader_built_where_it_is_read_is_a_recipe_too() -> None:
    found = sliced("for epoch in range(3):\n    for batch in data.DataLoader(ds, batch_size=2):\n        pass\n")
    assert "loader = torch.utils.data.DataLoader(" in found.program.build
