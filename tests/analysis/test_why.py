"""The whole way of a loader is told, line by line, through every file."""

from __future__ import annotations

from loaders import site

from shardfix.analysis.why import chain

FILES = {
    "data.py": """\
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


class Data:
    def __init__(self, d):
        sampler = DistributedSampler(d)
        self.loaders = {"train": DataLoader(d, sampler=sampler)}


def make(d):
    return Data(d).loaders["train"]
""",
    "engine.py": """\
def train_one_epoch(loader):
    for batch in tqdm(loader):
        loss.backward()


def log(loader, rank):
    if rank == 0:
        for batch in loader:
            print(batch, len(loader))
""",
    "train.py": """\
import torch.distributed as dist
from data import make
from engine import log, train_one_epoch
from elsewhere import look

dist.init_process_group("gloo")
train_loader = make(train_set)
for epoch in range(2):
    train_one_epoch(train_loader)
log(train_loader, dist.get_rank())
look(train_loader)
""",
}


def told(text: str | dict[str, str], path: str = "train.py") -> list[tuple[str, str]]:
    """Each step's place and what happens there."""
    return [(f"{step.location.path}:{step.location.line}", step.what) for step in chain(site(text, path))]


def test_every_line_from_construction_to_consumer_across_files() -> None:
    assert told(FILES, "data.py") == [
        ("data.py:8", 'the loader is built; an item of a dict, under "train"; kept in `self.loaders`'),
        ("data.py:7", "its sampler: DistributedSampler"),
        ("data.py:12", "taken out; returned by make()"),
        ("train.py:7", "what make() gives; named `train_loader`"),
        ("train.py:10", "handed to log()"),
        ("engine.py:6", "its parameter `loader`"),
        ("engine.py:8", "read"),
        ("engine.py:7", "only one process comes here"),
        ("train.py:9", "handed to train_one_epoch()"),
        ("engine.py:1", "its parameter `loader`"),
        ("engine.py:2", "passed through tqdm(); read"),
        ("train.py:8", "the loop over epochs, counted by `epoch`"),
        ("train.py:11", "handed to look(), which is not seen into"),
        ("engine.py:9", "its length is read"),
    ]
    first = chain(site(FILES, "data.py"))[0]
    assert first.text == 'self.loaders = {"train": DataLoader(d, sampler=sampler)}'


def test_a_prepared_loader_says_what_gets_it_and_what_is_read() -> None:
    text = """\
    from accelerate import Accelerator
    from torch.utils.data import DataLoader
    accelerator = Accelerator()
    loader = DataLoader(d)
    model, loader = accelerator.prepare(model, loader)
    batches = iter(loader)
    next(batches)
    """
    assert told(text) == [
        ("train.py:4", "the loader is built; named `loader`"),
        ("train.py:5", "accelerator.prepare() gets it; named `loader`"),
        ("train.py:6", "passed through iter(); named `batches`"),
        ("train.py:7", "read by next(), as prepare() gave it"),
    ]


def test_who_tells_the_epoch_is_told() -> None:
    text = """\
    from torch.utils.data import DataLoader
    from torch.utils.data.distributed import DistributedSampler
    loader = DataLoader(d, sampler=DistributedSampler(d))
    for _ in range(2):
        for batch in loader:
            pass
        loader.sampler.set_epoch(1)
    """
    assert told(text) == [
        ("train.py:3", "the loader is built; its sampler: DistributedSampler; named `loader`"),
        ("train.py:5", "read"),
        ("train.py:4", "the loop over epochs, which names no counter"),
        ("train.py:7", "the epoch is told"),
    ]


def test_a_loader_that_nothing_reads_says_so() -> None:
    assert told("from torch.utils.data import DataLoader\nloader = DataLoader(d)\n") == [
        ("train.py:2", "the loader is built; nothing is seen to read it")
    ]


def test_an_answer_that_counts_is_part_of_the_way() -> None:
    text = "from torch.utils.data import DataLoader\ndef make(d):\n    return DataLoader(d)  # shardfix: owner=self\n"
    found = site(text)
    assert found.owner == "self"
    assert chain(found)[0].what == "the loader is built; told: owner=self (line 3)"
