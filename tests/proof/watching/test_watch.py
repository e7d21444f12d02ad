"""What is seen of real scripts that run as they are on gloo ranks: which samples each step of each loader held."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch

from shardfix.proof.observed import Observed, Watched
from shardfix.proof.watching.watch import OBSERVER, Program, Run, watch

HEAD = """\
import os
import sys
import torch
import torch.distributed as dist
from torch.utils.data import *
from torch.utils.data.distributed import DistributedSampler
"""


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str, *arguments: str, **asked: object) -> Run:
    (folder / "train.py").write_text(HEAD + body)
    monkeypatch.chdir(folder)
    program = Program(("train.py", *arguments), timeout=300.0, **{"epochs": 0, **asked})  # type: ignore[arg-type]
    return watch(program)


def loader(watched: Watched, name: str) -> Observed:
    return {one.loader: one for one in watched.loaders}[name]


def steps(observed: Observed) -> list[list[list[list[object]]]]:
    """By rank, pass and step."""
    return [[[list(step) for step in one.batches] for one in reader.passes] for reader in observed.readers]


def line_of(body: str, text: str) -> str:
    """The name of the loader that is made on the line with ``text``."""
    lines = (HEAD + body).splitlines()
    return f"train.py:{next(number for number, line in enumerate(lines, 1) if text in line)}"


EVERY_KIND = """\
class Stream(IterableDataset):
    def __iter__(self):
        worker = get_worker_info()
        for i in range(rank, 8, 2):
            if worker is None or i // 2 % worker.num_workers == worker.id:
                yield {"x": torch.tensor([i, i])}

class Own(DataLoader):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        object.__setattr__(self, "batch_sampler", Repeating(self.batch_sampler))
        self.iterator = super().__iter__()

    def __iter__(self):
        for _ in range(4):
            yield next(self.iterator)

class Repeating:
    def __init__(self, sampler):
        self.sampler = sampler

    def __iter__(self):
        while True:
            yield from iter(self.sampler)

class Lists:
    def __iter__(self):
        return iter([[3, 1], torch.tensor([0]), (2, 0)])

class Slow(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        if i == 0:
            import time
            time.sleep(0.5)
        return i

def read(loader):
    for _ in loader:
        pass

dist.init_process_group("nccl", init_method="tcp://127.0.0.1:1", world_size=2, rank=int(os.environ["RANK"]))
rank = dist.get_rank()
data = TensorDataset(torch.arange(8.0))
half = Subset(Subset(data, [5, 7, 6, 4]), [1, 2])
ddp = DataLoader(data, 3, sampler=DistributedSampler(data, shuffle=False))  # ddp
for epoch in range(2):
    ddp.sampler.set_epoch(epoch + 5)
    read(ddp)
read(DataLoader(data, 3))  # plain
workers = DataLoader(data, 2, num_workers=2, persistent_workers=True)  # workers
read(workers)
next(iter(workers))
for step, _ in enumerate(workers):
    if step == 1:
        break
read(workers)
read(DataLoader(half))  # subset
read(DataLoader(random_split(data, [4, 4], torch.Generator().manual_seed(0))[0], 4))  # split
read(DataLoader(data, sampler=BatchSampler(SequentialSampler(data), 5, True), batch_size=None))  # whole batches
read(DataLoader(data, batch_sampler=Lists()))  # lists
read(DataLoader(ConcatDataset([data, Subset(data, [2])]), batch_size=None, sampler=[8, 0]))  # no batches
read(DataLoader(Stream(), 2))  # one stream
read(DataLoader(Stream(), 2, num_workers=2))  # workers' stream
own = Own(data, 4)  # own
read(own)
read(own)
two = [DataLoader(data, 8), DataLoader(data, 4, drop_last=True)]  # two
for epoch in range(2):
    read(DataLoader(data, 8))  # anew
read(two[1])
DataLoader(data)  # unread
if sys.version_info >= (3, 9) and torch.__version__ >= "2.6":
    read(DataLoader(Slow(), 4, num_workers=2, in_order=False))  # out of order
dist.destroy_process_group()
"""


def test_every_kind_of_loader_is_seen_by_the_samples_of_its_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run(tmp_path, monkeypatch, EVERY_KIND)

    def seen(text: str, nth: str = "") -> list[list[list[list[object]]]]:
        return steps(loader(done.watched, line_of(EVERY_KIND, text) + nth))

    assert [(one.end, one.text) for one in done.watched.endings] == [("returned", "")] * 2
    assert seen("# ddp") == [[[[0, 2, 4], [6]]] * 2, [[[1, 3, 5], [7]]] * 2]
    assert [one.epoch for one in loader(done.watched, line_of(EVERY_KIND, "# ddp")).readers[0].passes] == [5, 6]
    assert seen("# plain") == [[[[0, 1, 2], [3, 4, 5], [6, 7]]]] * 2
    all_of_it = [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert seen("# workers") == [[all_of_it, [[0, 1], [2, 3]], all_of_it]] * 2
    broken = loader(done.watched, line_of(EVERY_KIND, "# workers")).readers[1].passes
    assert [one.complete for one in broken] == [True, False, True]
    assert seen("# subset") == [[[[7], [6]]]] * 2
    split = torch.randperm(8, generator=torch.Generator().manual_seed(0)).tolist()[:4]
    assert seen("# split") == [[[split]]] * 2
    assert seen("# whole batches") == [[[[0, 1, 2, 3, 4]]]] * 2
    assert seen("# lists") == [[[[3, 1], [0], [2, 0]]]] * 2
    assert seen("# no batches") == [[[[8], [0]]]] * 2
    streams = seen("# one stream")
    assert [[len(step) for step in one] for rank in streams for one in rank] == [[2, 2]] * 2
    assert len({item for rank in streams for one in rank for step in one for item in step}) == 8
    in_workers = seen("# workers' stream")
    assert [sorted(item for step in rank[0] for item in step) for rank in in_workers] == [
        sorted(item for step in rank[0] for item in step) for rank in streams
    ]
    assert seen("# own") == [[[[0, 1, 2, 3], [4, 5, 6, 7]] * 2] * 2] * 2
    assert seen("# two", "#2") == [[[[0, 1, 2, 3], [4, 5, 6, 7]]]] * 2
    assert seen("# two") == [[], []]
    assert seen("# anew") == [[[[0, 1, 2, 3, 4, 5, 6, 7]]] * 2] * 2
    assert seen("# unread") == [[], []]
    if any(one.loader == line_of(EVERY_KIND, "# out of order") for one in done.watched.loaders):
        assert seen("# out of order") == [[[[4, 5, 6, 7], [0, 1, 2, 3]]]] * 2
    assert done.notes == (
        f"made and not read: {line_of(EVERY_KIND, '# two')}, {line_of(EVERY_KIND, '# unread')}",
        f"not read to the end in every pass: {line_of(EVERY_KIND, '# workers')}",
    )


PREPARED = """\
from accelerate import Accelerator, DataLoaderConfiguration, skip_first_batches

class Stream(IterableDataset):
    def __iter__(self):
        yield from torch.arange(10).reshape(10, 1)

def prepared(loader, **how):
    accelerator = Accelerator(dataloader_config=DataLoaderConfiguration(**how))
    return accelerator.prepare(loader)

def read(loader):
    return [batch[0].tolist() if isinstance(batch, list) else batch.flatten().tolist() for batch in loader]

data = TensorDataset(torch.arange(10))
raw = DataLoader(data, 2)  # plain
plain = prepared(raw)
got = [read(plain)]
next(iter(plain))
for step, batch in enumerate(plain):
    if step == 1:
        break
read(raw)
read(skip_first_batches(plain, 1))
got.append(read(prepared(DataLoader(data, 4), split_batches=True)))  # split
got.append(read(prepared(DataLoader(data, 4), even_batches=False)))  # uneven
got.append(read(prepared(DataLoader(data, 2, num_workers=2), dispatch_batches=True)))  # handed out
got.append(read(prepared(DataLoader(data, 3), dispatch_batches=True)))  # handed out in part
got.append(read(prepared(DataLoader(data, 4), dispatch_batches=True, split_batches=True)))  # handed out in halves
got.append(read(prepared(DataLoader(Stream(), 2), dispatch_batches=False)))  # a stream
stream = prepared(DataLoader(Stream(), 2))  # handed out stream
steps = [len(step) for step in read(stream)]
print(got)
Accelerator().end_training()
"""


def test_a_prepared_loader_is_seen_by_what_it_delivers_and_by_the_line_of_the_loader_it_was_made_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run(tmp_path, monkeypatch, PREPARED)
    assert [(one.end, one.text) for one in done.watched.endings] == [("returned", "")] * 2
    got = [ast.literal_eval(done.output[rank].splitlines()[-1]) for rank in (0, 1)]

    def seen(text: str, note: str = "") -> list[list[list[list[object]]]]:
        return steps(loader(done.watched, line_of(PREPARED, text) + note))

    for number, text in enumerate(
        ("# plain", "# split", "# uneven", "# handed out", "# handed out in part", "# handed out in halves")
    ):
        assert [rank[0] for rank in seen(text)] == [got[rank][number] for rank in (0, 1)], text
    plain = loader(done.watched, line_of(PREPARED, "# plain"))
    assert [rank[1:] for rank in steps(plain)] == [[one[0][:2], one[0][1:]] for one in got]
    assert [one.complete for one in plain.readers[0].passes] == [True, False, False]
    raw = seen("# plain", " (not from prepare())")
    assert raw == [[[[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]]] * 2
    stream = seen("# a stream")
    assert [[len(step) for step in rank[0]] for rank in stream] == [[2, 2, 2]] * 2
    assert len({item for rank in stream for step in rank[0] for item in step}) == 10
    handed = seen("# handed out stream")
    assert sorted(item for rank in handed for step in rank[0] for item in step) != []
    assert len({item for rank in handed for step in rank[0] for item in step}) == 10
    built = {text: loader(done.watched, line_of(PREPARED, text)).readers[1].built for text in ("# split", "# uneven")}
    assert (built["# split"].batch_size, built["# split"].split_batches) == (2, True)
    assert (built["# uneven"].even_batches, built["# uneven"].sharder) == (False, "accelerate")


LOOPS = """\
from accelerate import Accelerator
accelerator = Accelerator()
data = list(range(16))
look = DataLoader(data, 16)  # look
for batch in look:
    pass
train = accelerator.prepare(DataLoader(data, 2, num_workers=1))  # train
test = accelerator.prepare(DataLoader(data, 4))  # test
print("begin", len(train), len(test), len(look))
for epoch in range(1000):
    for batch in train:
        accelerator.gather(batch)
        ends = accelerator.gradient_state.end_of_dataloader
    for batch in test:
        pass
    print("epoch", epoch, ends)
"""


def test_a_run_stops_on_every_rank_once_the_loaders_were_read_as_often_as_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run(tmp_path, monkeypatch, LOOPS, epochs=2, batches=2)
    assert [one.end for one in done.watched.endings] == ["stopped"] * 2
    assert done.output[0].splitlines() == ["begin 2 2 1", "epoch 0 True", "epoch 1 True"]
    train = loader(done.watched, line_of(LOOPS, "# train"))
    assert steps(train) == [[[[0, 1], [4, 5]]] * 2, [[[2, 3], [6, 7]]] * 2]
    assert [one.complete for one in train.readers[0].passes] == [False, False]
    test = loader(done.watched, line_of(LOOPS, "# test"))
    assert steps(test) == [[[[0, 1, 2, 3], [8, 9, 10, 11]]] * 2, [[[4, 5, 6, 7], [12, 13, 14, 15]]] * 2]
    assert [one.complete for one in test.readers[0].passes] == [True, True]
    assert [one.complete for one in loader(done.watched, line_of(LOOPS, "# look")).readers[0].passes] == [True]


ON_CUDA = """\
import torch.multiprocessing as mp
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel

def main(rank, world):
    torch.cuda.set_device(rank)
    dist.init_process_group("cpu:gloo,cuda:nccl", init_method="tcp://127.0.0.1:29500", rank=rank, world_size=world,
                            device_id=torch.device("cuda", rank))
    assert torch.cuda.is_available() and torch.cuda.current_device() == rank
    data = TensorDataset(torch.arange(8.0).reshape(8, 1))
    loader = DataLoader(data, 2, sampler=DistributedSampler(data, shuffle=False), pin_memory=True)  # train
    device = torch.device(f"cuda:{rank}")
    model = DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(nn.Linear(1, 1).to(rank)),
                                    device_ids=[rank], output_device=rank)
    model.load_state_dict(model.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cuda") if hasattr(torch.amp, "GradScaler") else torch.cuda.amp.GradScaler()
    group = dist.new_group(backend="nccl")
    for x, in loader:
        x = x.cuda(rank, non_blocking=True).to(device).to("cuda").to(rank)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = (model(x) - torch.zeros(2, 1, device=device) + torch.randn(2, 1).cuda()).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        total = torch.ones(1, device="cuda")
        dist.all_reduce(total, op=dist.ReduceOp.AVG, group=group)
        assert total.item() == 1
        torch.cuda.synchronize()
    dist.barrier(device_ids=[rank])
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(main, args=(torch.cuda.device_count(),), nprocs=torch.cuda.device_count())
"""


def test_a_script_for_gpus_that_starts_its_own_ranks_runs_on_the_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run(tmp_path, monkeypatch, ON_CUDA, cpu=True, launch="self")
    assert [(one.rank, one.end, one.text) for one in done.watched.endings] == [(0, "returned", ""), (1, "returned", "")]
    assert done.watched.world == 2
    assert steps(loader(done.watched, line_of(ON_CUDA, "# train"))) == [[[[0, 2], [4, 6]]], [[[1, 3], [5, 7]]]]


def test_a_script_that_starts_its_own_ranks_is_told_how_it_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run(tmp_path, monkeypatch, ON_CUDA)
    place = line_of(ON_CUDA, "mp.spawn")
    assert f"the script starts ranks of its own ({place}); run it with --launch self" in done.notes


@pytest.mark.parametrize("path", sorted(OBSERVER.rglob("*.py")), ids=lambda path: path.name)
def test_what_goes_into_the_users_python_is_read_by_python_3_8(path: Path) -> None:
    ast.parse(path.read_text("utf-8"), feature_version=(3, 8))
