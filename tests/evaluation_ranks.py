"""Evaluates in forked gloo ranks and keeps what every rank read, summed, ordered and refused.

Usage: python evaluation_ranks.py FOLDER (rendezvous and results go there: one `world-rank.pickle` for each rank)
"""

import os
import pickle
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import torch
import torch._dynamo  # loaded lazily by torch otherwise, in each fork anew
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import BatchSampler, DataLoader, Dataset, DistributedSampler, SequentialSampler

from shardfix import evaluation
from shardfix.evaluation import EvaluationError, all_here, in_order, of_all_batches, reduced, unpadded

WORLDS = (1, 2, 3, 4)
# (samples, batch size): multiples of ranks times batch size, one more, one less, ragged, below the ranks, single ones.
SHAPES = [(size, batch) for batch in (1, 2, 3, 4, 16) for size in (*range(1, 14), 23, 24, 25, 47, 48, 49)]
# Those that a model is driven by: the last batches of some ranks share their samples.
DRIVEN = ((7, 2), (13, 3), (9, 4), (24, 4))


class Numbers(Dataset[int]):
    """Each sample is its own index."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> int:
        return index


class Plain(DataLoader[int]):
    """A project's own class, which iterates as torch's does."""


class Own(DataLoader[int]):
    """A project's own class, which iterates in its own way."""

    def __iter__(self) -> Any:
        return iter([])


def loader(size: int = 7, batch: int = 2, kind: Any = DataLoader, shuffle: bool = False, **options: Any) -> Any:
    dataset = Numbers(size)
    if dist.is_initialized():
        options.setdefault("sampler", DistributedSampler(dataset, shuffle=shuffle))
    return kind(dataset, batch_size=batch, **options)


class Bar:
    """Iterates something else and shows how far it is, as tqdm does."""

    def __init__(self, iterable: Any) -> None:
        self.iterable = iterable


def read(batches: Any) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


def refused(call: Callable[[], Any]) -> str:
    try:
        call()
    except EvaluationError as error:
        return str(error)
    return ""


def summed() -> dict[str, Any]:
    """What comes out where each rank has its rank + 1."""
    n = dist.get_rank() + 1
    empty = n > 1
    correct, total, loss = reduced(n, 10 * n, 0.1 * n)
    by_class: Any = defaultdict(lambda: 0)
    by_class[n % 2] += n
    by_class = reduced(by_class)
    return {
        "several": (correct, total, loss),
        "one": reduced(n),
        "none": reduced(None),
        "nothing": reduced(),
        "large": reduced(2**70 * n),
        "None on others": reduced(None if empty else 5, None if empty else torch.tensor(1.5)),
        "number here, tensor there": reduced(0 if n == 1 else torch.tensor(2.5)),
        "float32": reduced(torch.tensor(0.1) * n),
        "float16": reduced(torch.full((2,), float(n), dtype=torch.float16)),
        "bfloat16": reduced(torch.tensor([1.0 * n], dtype=torch.bfloat16)),
        "int32 matrix": reduced(torch.full((2, 2), n, dtype=torch.int32)),
        "uint8": reduced(torch.tensor(100, dtype=torch.uint8)),
        "with a graph": reduced(torch.ones(2, requires_grad=True) * n),
        "a view": reduced(torch.arange(1000)[n]),
        "numpy float32": reduced(numpy.float32(0.5) * numpy.float32(n)),
        "numpy int64": reduced(numpy.int64(n)),
        "array": reduced(numpy.full((3,), n, dtype=numpy.int32)),
        "array without dimensions": reduced(numpy.array(n)),
        "counter": reduced(Counter({f"rank {n - 1}": n, "all": 1})),
        "default": (dict(by_class), by_class["new"]),
        "list": reduced([n, 0.5 * n]),
        "tuple": reduced((n, torch.tensor(n))),
        "nested": reduced({"loss": {"sum": 1.0 * n, "count": n}}),
        "refused": {
            "bool": refused(lambda: reduced(True)),
            "string on one rank": refused(lambda: reduced("x" if empty else 1)),
            "bool tensor": refused(lambda: reduced(torch.tensor(True))),
            "other lengths": refused(lambda: reduced([1] * n)),
            "other shapes": refused(lambda: reduced(torch.zeros(n))),
        },
    }


def ordered(size: int, batch: int) -> dict[str, Any]:
    """What comes out where each sample's value is told by its index; `pieces` are the batches."""
    given = unpadded(loader(size, batch))
    indices = [index for one in read(given) for index in one]
    pieces = read(given)
    return {
        "list": in_order([f"sample {index}" for index in indices], given),
        "tuple": in_order(tuple(indices), given),
        "array": in_order(numpy.array(indices, dtype=numpy.float32), given),
        "tensor": in_order(torch.tensor([[index, -index] for index in indices]), given),
        "records": in_order([{"id": index, "logits": torch.tensor([index])} for index in indices], given),
        "pieces": in_order([torch.tensor(piece) for piece in pieces], given),
        "array pieces": in_order([numpy.array(piece) for piece in pieces], given),
        "list pieces": in_order(pieces, given),
        "none": in_order(None, given),
        "read by a bar": in_order(indices, Bar(Bar(given))),
    }


def of_batches() -> dict[str, Any]:
    """What comes out where a value is told by its rank and step; the second rank has one batch more."""
    rank = dist.get_rank()
    values = [10 * rank + step for step in range(2 + (rank == 1))]
    return {
        "list": of_all_batches(values),
        "tuple": of_all_batches(tuple(values)),
        "tensors": of_all_batches([torch.tensor(float(value), requires_grad=True) for value in values]),
        "pairs": of_all_batches([(value, {"n": value}) for value in values]),
        "array": of_all_batches(numpy.array(values, dtype=numpy.float32)),
        "tensor": of_all_batches(torch.tensor(values)),
        "none": of_all_batches(None),
        "refused": [
            refused(lambda: of_all_batches(1.5)),
            refused(lambda: of_all_batches(values if rank else None)),
            refused(lambda: of_all_batches(values if rank else torch.tensor(1.0))),
        ],
    }


def by_another_copy() -> list[int]:
    """The order that a second copy of the file restores, of a loader that the first one made."""
    text = Path(evaluation.__file__).read_text()
    copy: dict[str, Any] = {"__name__": "copy"}
    exec(compile(text, "copy.py", "exec"), copy)
    given = unpadded(loader(9, 4))
    again: list[int] = copy["in_order"]([index for one in read(copy["unpadded"](given)) for index in one], given)
    return again


def ordered_wrongly() -> dict[str, str]:
    given, padded = unpadded(loader(7)), loader(7)
    mine = [index for one in read(given) for index in one]
    one_too_many = mine + [0] * (dist.get_rank() == 0)
    return {
        "padded": refused(lambda: in_order(list(padded.sampler), padded)),
        "too many on one rank": refused(lambda: in_order(one_too_many, given)),
        "a number": refused(lambda: in_order(1.5, given)),
        "a dict": refused(lambda: in_order(dict.fromkeys(mine), given)),
        "no sampler": refused(lambda: in_order(mine, DataLoader(Numbers(7)))),
        "None on one rank": refused(lambda: in_order(mine if dist.get_rank() else None, given)),
    }


def out_of_step() -> str:
    """What is said where one rank, which went on after an exception, is at its next evaluation already."""
    if dist.get_rank() == 1:
        return refused(lambda: reduced(1, 2))
    return refused(lambda: in_order([1, 2], unpadded(loader(7))))


def written(rank: int, folder: Path) -> list[str]:
    """What is there of the files that each rank writes, the last one late, for a rank that looks when all are here."""
    time.sleep(0.2 * (rank == dist.get_world_size() - 1))
    (folder / f"written by {rank}").touch()
    all_here()
    return sorted(path.name for path in folder.glob("written by *"))


def unpadded_wrongly() -> dict[str, str]:
    numbers = Numbers(8)
    of_five = DistributedSampler(numbers, num_replicas=5, rank=dist.get_rank())
    batches = BatchSampler(SequentialSampler(numbers), 2, False)
    return {
        "plain": refused(lambda: unpadded(DataLoader(numbers))),
        "batch sampler": refused(lambda: unpadded(DataLoader(numbers, batch_sampler=batches))),
        "other ranks": refused(lambda: unpadded(DataLoader(numbers, 2, sampler=of_five))),
        "drop_last": refused(lambda: unpadded(loader(8, drop_last=True))),
        "own iteration": refused(lambda: unpadded(loader(8, kind=Own))),
        "no loader": refused(lambda: unpadded([1, 2])),
    }


def kept() -> dict[str, Any]:
    """What of a loader is the same after `unpadded`."""

    def collate(samples: list[int]) -> torch.Tensor:
        return torch.tensor(samples)

    given = loader(23, 4, Plain, num_workers=2, collate_fn=collate, persistent_workers=True, timeout=60)
    twin = unpadded(given)
    names = ("dataset", "sampler", "batch_size", "num_workers", "collate_fn", "persistent_workers", "timeout")
    epochs = [read(twin), read(twin)]
    shuffled = loader(24, 4, shuffle=True)
    shuffled_twin = unpadded(shuffled)
    passes = []
    for epoch in range(2):
        shuffled_twin.sampler.set_epoch(epoch)
        passes.append((read(shuffled), read(shuffled_twin)))
    return {
        "class": type(twin).__name__,
        "changed": [name for name in names if getattr(twin, name) is not getattr(given, name)],
        "epochs": epochs,
        "steps": len(twin),
        "again": unpadded(twin) is twin,
        "None": unpadded(None),
        "given reads": sum(len(batch) for batch in read(given)),
        "shuffled": passes,
        "unbatched": [int(index) for index in unpadded(loader(24, None))],
    }


def evaluated(size: int, batch: int) -> tuple[int, int, float]:
    """A model whose buffers DistributedDataParallel sends in each forward: unequal steps would hang here."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(1, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 3))
    model = DistributedDataParallel(net).eval()
    correct = total = 0
    loss_sum = 0.0
    with torch.no_grad():
        for numbers in unpadded(loader(size, batch)):
            output = model(numbers[:, None].float())
            correct += (output.argmax(1) == numbers % 3).sum().item()
            loss_sum += torch.nn.functional.cross_entropy(output, numbers % 3).item() * len(numbers)
            total += len(numbers)
    return reduced(correct, total, loss_sum)  # type: ignore[return-value]


def main(rank: int, world: int, folder: Path) -> None:
    torch.set_num_threads(1)
    alone = loader()
    without_group = [unpadded(alone) is alone, reduced(alone) is alone, in_order(alone, None) is alone]
    without_group.append(of_all_batches(alone) is alone)
    all_here()
    told = DistributedSampler(Numbers(7), num_replicas=world, rank=rank, shuffle=False)
    early = unpadded(DataLoader(Numbers(7), 2, sampler=told))
    store = dist.FileStore(str(folder / f"store{world}"), world)  # type: ignore[attr-defined]
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world)
    results: dict[str, Any] = {"without a group": without_group, "read": {}, "refused": {}}
    results["early"] = read(early)
    results["early, in order"] = in_order([index for batch in results["early"] for index in batch], early)
    for size, batch in SHAPES:
        error = refused(lambda: results["read"].update({(size, batch): read(unpadded(loader(size, batch)))}))  # noqa: B023
        if error:
            results["refused"][size, batch] = error
    results["sums"] = summed()
    results["ordered"] = {shape: ordered(*shape) for shape in results["read"] if shape[0] in (4, 7, 9, 12, 13)}
    results["evaluated"] = {shape: evaluated(*shape) for shape in results["read"] if shape in DRIVEN}
    if world > 1:
        results |= {"ordered wrongly": ordered_wrongly(), "unpadded wrongly": unpadded_wrongly(), "kept": kept()}
        results["out of step"] = out_of_step()
        (folder / str(world)).mkdir(exist_ok=True)
        results["written"] = written(rank, folder / str(world))
        results |= {"of batches": of_batches(), "by another copy": by_another_copy()}
    (folder / f"{world}-{rank}.pickle").write_bytes(pickle.dumps(results))


if __name__ == "__main__":
    for world in WORLDS:
        ranks = []
        for rank in range(world):
            pid = os.fork()
            if pid == 0:
                try:
                    main(rank, world, Path(sys.argv[1]))
                except BaseException:
                    import traceback

                    traceback.print_exc()
                    sys.stderr.flush()
                    os._exit(1)
                os._exit(0)  # torch's own way out may hang in a forked rank
            ranks.append(pid)
        ended = [os.waitpid(pid, 0)[1] for pid in ranks]
        if any(ended):
            sys.exit(f"a rank of {world} failed")
