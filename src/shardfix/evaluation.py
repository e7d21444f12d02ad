"""Keeps a metric whole while each process evaluates its own part: no sample counted twice, sums and results from all.

`shardfix migrate` copies this one file, unchanged, into the projects it migrates as `shardfix_evaluation.py`;
`shardfix` itself need not be installed there. It imports the standard library only (torch is looked at once the program
itself has loaded it). In a program of one process the first four functions give back what they are given:

    loader = unpadded(loader)                          # after DataLoader(..., sampler=DistributedSampler(...))
    for batch in loader: ...                           # each process counts its own samples
    correct, total = reduced(correct, total)           # after the loop, on every process: the sums over all of them
    predictions = in_order(predictions, loader)        # one for each sample, in the order of the dataset
    losses = of_all_batches(losses)                    # one for each batch, of all batches of all processes
    all_here()                                         # before a file is read that each process has written
"""

from __future__ import annotations

import contextlib
import copy
import numbers
import os
import sys
from typing import TYPE_CHECKING, Any, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["EvaluationError", "all_here", "in_order", "of_all_batches", "reduced", "unpadded"]

T = TypeVar("T")


class EvaluationError(ValueError):
    """A metric that would not come out as in one process."""


class Batches:
    """The batches of this rank's samples without the padding, as many on every rank; a loader's `batch_sampler`.

    A `DistributedSampler` repeats samples until every rank has as many, at most one on each rank and always the last
    one. A rank without it may have a batch less than the others; it does as many steps all the same, since ranks with
    unequal steps may wait for each other for ever (`DistributedDataParallel` sends its buffers in each forward with
    gradients, and without them in the first).
    Where the last batch would be empty or of one sample, the last few share their samples evenly: on several ranks
    such a batch may come up where one process has none, and `squeeze()` makes something else of it.

    Args:
        uneven: whether the ranks may make other numbers of steps, so that all batches but the last are full.
    """

    drop_last = False

    def __init__(self, sampler: Any, batch_size: int, uneven: bool = False) -> None:
        self.sampler, self.batch_size, self.uneven = sampler, batch_size, uneven
        self.steps: int = -(-(len(self.own()) if uneven else sampler.num_samples) // batch_size)

    def own(self) -> list[int]:
        """The indices of this rank's samples, in the order in which it reads them."""
        real = len(range(self.sampler.rank, len(self.sampler.dataset), self.sampler.num_replicas))
        return list(self.sampler)[:real]

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[list[int]]:
        own, size = self.own(), self.batch_size
        shared = self._shared(len(own))
        full = (self.steps - shared) * size
        for start in range(0, full, size):
            yield own[start : start + size]
        least, more = divmod(len(own) - full, shared)
        end = full
        for number in range(shared):
            start, end = end, end + least + (number < more)
            yield own[start:end]

    def _shared(self, count: int) -> int:
        """How many of the last batches share their samples evenly: as few as leave no batch of one sample, or none."""
        for smallest in (1,) if self.uneven else (2, 1):
            for shared in range(1, self.steps + 1):
                if count - (self.steps - shared) * self.batch_size >= smallest * shared:
                    return shared
        return 1


def unpadded(loader: T, *, uneven: bool = False) -> T:
    """Returns a copy of `loader` that reads this rank's samples without those that are only padding.

    Every sample of the dataset is read by exactly one rank, and all ranks do the same number of steps, unless they may
    do `uneven` ones. All else is as in `loader`: class, dataset, sampler, `batch_size`, workers, collation. One
    process, or None, gets `loader` itself. The process group may be made later if the sampler was told of its ranks by
    `num_replicas=` and `rank=`.

    Args:
        loader: a torch `DataLoader` whose sampler is a `DistributedSampler` over all ranks of the default group.
        uneven: whether a rank may do one step more than another, as with one sample a step it must. Only where nothing
            in the loop waits for the other ranks: no collective, and no model in `DistributedDataParallel` but under
            `torch.no_grad()`, where it sends its buffers in the first step only (torch 2.13).

    Raises:
        EvaluationError: `loader` is none of that, or there are too few samples for equal steps: fewer than ranks, or
            batches of one sample and a dataset that the number of ranks does not divide. Every rank raises it alike.
    """
    if loader is None or _is_unpadded(loader):
        return loader
    if _world() == 1 and _replicas(loader) == 1:
        return loader
    from torch.utils.data import BatchSampler, DataLoader

    sampler = _sampler(loader)
    if not isinstance(loader, DataLoader) or type(loader).__iter__ is not DataLoader.__iter__:
        raise _error(f"{type(loader).__name__} iterates in a way of its own, so its padding can't be left out")
    if loader.batch_sampler is not None and type(loader.batch_sampler) is not BatchSampler:
        raise _error(f"its {type(loader.batch_sampler).__name__} may read other samples than its sampler draws")
    if loader.drop_last:
        raise _error("with drop_last=True the samples that are left out depend on the number of ranks; remove it")
    count, world, size = len(sampler.dataset), sampler.num_replicas, loader.batch_size or 1
    if count < world or (size == 1 and count % world and not sampler.drop_last and not uneven):
        raise _error(
            f"{world} ranks can't share {count} samples in equal numbers of batches of {size}, and with unequal numbers"
            " they would wait for each other for ever; use a batch size of 2 or more and no more ranks than samples"
        )
    if loader.batch_sampler is None:  # samples that come unbatched: the ranks have equal numbers of them here
        return loader
    twin = copy.copy(loader)
    # Not by assignment, which DataLoader forbids: it would not tell its batch_size. Nothing is read from a copy yet.
    vars(twin).update(batch_sampler=Batches(sampler, size, uneven), _iterator=None)
    return twin


@overload
def reduced(value: T, /) -> T: ...
@overload
def reduced(first: Any, second: Any, /, *others: Any) -> tuple[Any, ...]: ...
def reduced(*values: Any) -> Any:
    """Returns the sum over all ranks of each value, every rank the same; a single value comes back as itself.

    To be called by every rank, after the loop over the batches. One process gets back the values themselves.

    Args:
        values: numbers, numpy's numbers and arrays, tensors of any device, and dicts, lists and tuples of these, which
            are summed item by item. Each comes back in its own type, dtype, shape and device; Python's integers are
            exact whatever their size, all others are summed in 64 bits and rounded once. A dict gets the keys of all
            ranks. None counts nothing, and stays None where every rank has it.

    Raises:
        EvaluationError: a value is not a number (a bool, a string), or its shape or length differs between the ranks.
            Every rank raises it alike.
    """
    if _world() > 1:
        sums = map(_sum, *_of_all_ranks([_summable(value) for value in values]))
        values = tuple(map(_like, values, sums))
    return values[0] if len(values) == 1 else values


def in_order(values: T, loader: Any) -> T:
    """Returns what all ranks have for each sample, in the order of the dataset, every rank the same.

    To be called by every rank, after the loop over the batches. One process gets back the values themselves.

    Args:
        values: what this rank collected while it read `loader`, one item for each of its samples in the order in which
            it read them: a list or tuple of anything that can be pickled, an array or a tensor (along the first
            dimension). Or a list with one such piece for each batch: then the pieces are those of one process, as
            long as the loader's `batch_size`. None stays None.
        loader: the loader that was read, from `unpadded`, or tqdm's bar around it.

    Raises:
        EvaluationError: there are more or fewer values than samples, or `loader` still reads padding. Every rank
            raises it alike.
    """
    if _world() == 1:
        return values
    while not hasattr(loader, "sampler") and hasattr(loader, "iterable"):  # a progress bar around it
        loader = loader.iterable
    _sampler(loader)
    batches: Any = getattr(loader, "batch_sampler", None)
    own = batches.own() if _is_unpadded(loader) else list(loader.sampler)
    shares = _of_all_ranks((own, _sent(values)))
    indices = [index for share, _ in shares for index in share]
    parts: list[Any] = [part for _, part in shares]
    if all(part is None for part in parts):
        return values
    if len(set(indices)) < len(indices):
        raise _error("the loader reads samples twice to fill its ranks; pass the one that unpadded(loader) returns")
    order = sorted(range(len(indices)), key=indices.__getitem__)
    size = loader.batch_size or 1
    if all(len(share) == _rows(part) for share, part in shares):
        result = _taken(_joined(parts), order)
    elif all(type(part) is list and len(share) == sum(map(_rows, part)) for share, part in shares):
        whole = _joined([piece for part in parts for piece in part])
        result = [_taken(whole, order[start : start + size]) for start in range(0, len(order), size)]
    else:
        found = (f"{_told(part)} for {len(share)} on rank {rank}" for rank, (share, part) in enumerate(shares))
        raise _error(f"in_order needs one value for each sample; there are {', '.join(found)}")
    return _placed(result, _device(values))  # type: ignore[no-any-return]


def of_all_batches(values: T) -> T:
    """Returns what all ranks have for each of their batches, every rank the same: the first batch of every rank, then
    the second.

    To be called by every rank, after the loop over the batches. One process gets back the values themselves. There are
    other batches, and more of them, than in one process: a sum over all of them is the same if each value is a sum over
    its batch's samples, and a mean of their means is not quite the same where the last batches are short.

    Args:
        values: what this rank collected, one item for each batch: a list or tuple of anything that can be pickled, an
            array or a tensor (along the first dimension). None stays None.

    Raises:
        EvaluationError: it is none of that. Every rank raises it alike.
    """
    if _world() == 1:
        return values
    parts = _of_all_ranks(_sent(values))
    if all(part is None for part in parts):
        return values
    strange = next((part for part in parts if _rows(part) < 0), None)
    if strange is not None or any(part is None for part in parts):
        raise _error(f"of_all_batches needs a list with one item for each batch, and there is {_told(strange)}")
    places = [(step, rank) for rank, part in enumerate(parts) for step in range(_rows(part))]
    order = sorted(range(len(places)), key=places.__getitem__)
    return _placed(_taken(_joined(parts), order), _device(values))  # type: ignore[no-any-return]


def all_here() -> None:
    """Waits until every rank is here.

    To be called by every rank, between writing a file and reading it again: a rank that is still to open it for writing
    makes it empty for one that reads already. One process goes on at once.

    Raises:
        EvaluationError: another rank waits at another line.
    """
    if _world() > 1:
        _of_all_ranks(None)


# ------------------------------------------------------------------------------------------------------ the ranks


def _world() -> int:
    """How many processes there are in torch's default group; 1 without one."""
    return int(sys.modules["torch.distributed"].get_world_size()) if _grouped() else 1


def _grouped() -> bool:
    """Whether torch's default group is made."""
    distributed = sys.modules.get("torch.distributed")
    return distributed is not None and distributed.is_available() and distributed.is_initialized()


def _is_unpadded(loader: Any) -> bool:
    """Whether a loader reads no padding. By name: another package of the program may have a copy of this file."""
    return type(getattr(loader, "batch_sampler", None)).__name__ == Batches.__name__


def _replicas(loader: Any) -> int:
    """For how many ranks the loader's `DistributedSampler` is made; 1 for another sampler."""
    data = sys.modules.get("torch.utils.data")
    sampler = getattr(loader, "sampler", None)
    return int(sampler.num_replicas) if data is not None and isinstance(sampler, data.DistributedSampler) else 1


def _of_all_ranks(value: Any) -> list[Any]:
    """The values of all ranks, first rank first."""
    import torch.distributed

    sent: list[Any] = [None] * _world()
    with _own_gpu():
        torch.distributed.all_gather_object(sent, (_line(), value))
    lines = [line for line, _ in sent]
    if len(set(lines)) > 1:  # one went on after an exception, say: these are values of different evaluations
        raise _error(f"the ranks wait for each other at different lines: {', '.join(lines)}, first rank first")
    return [given for _, given in sent]


def _own_gpu() -> contextlib.AbstractContextManager[Any]:
    """nccl sends objects by the current cuda device, one of each rank's own. A program that names its device in each
    `.to(rank)` and never calls `torch.cuda.set_device` has the first one there on all ranks."""
    import torch

    if torch.distributed.get_backend() != "nccl":
        return contextlib.nullcontext()
    local = int(os.environ.get("LOCAL_RANK", torch.distributed.get_rank()))
    return torch.cuda.device(_gpu_of(local, torch.cuda.current_device(), torch.cuda.device_count()))


def _gpu_of(local_rank: int, current: int, count: int) -> int:
    """The number of the gpu that a rank is to send by: the current one, unless that is the first and may be unset."""
    return current or local_rank % max(count, 1)


def _sampler(loader: Any) -> Any:
    """The loader's `DistributedSampler`, which must give each rank of the group its own part."""
    from torch.utils.data import DistributedSampler

    sampler, world = getattr(loader, "sampler", None), _world()
    if sampler is None:
        raise _error(f"a DataLoader is needed, and there is a {type(loader).__name__}")
    if type(sampler) is not DistributedSampler:
        raise _error(
            f"no DistributedSampler: with {type(sampler).__name__} it is not known what each of {world} ranks reads;"
            " build the DataLoader with sampler=DistributedSampler(dataset, shuffle=False)"
        )
    if _grouped() and sampler.num_replicas != world:
        raise _error(
            f"its DistributedSampler is made for {sampler.num_replicas} ranks, and {world} are running;"
            f" pass num_replicas={world}, or leave it out"
        )
    return sampler


def _error(message: str) -> EvaluationError:
    """With `file:line` of the call into this file."""
    path, line = _place()
    return EvaluationError(f"{path}:{line}: {message}")


def _line() -> str:
    """`file:line` of the call into this file, without the folders, which need not be called alike on all machines."""
    path, line = _place()
    return f"{os.path.basename(path)}:{line}"


def _place() -> tuple[str, int]:
    """Where this file was called from."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename == _place.__code__.co_filename and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


# ------------------------------------------------------------------------------------------------------- the values


def _is_tensor(value: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _is_numpy(value: object) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic))


def _sent(value: Any) -> Any:
    """The value as it is sent: tensors from whatever device, without a graph, and no more storage than they show."""
    if _is_tensor(value):
        return value.detach().cpu().clone()
    if type(value) in (list, tuple):
        return type(value)(_sent(item) for item in value)
    if type(value) is dict:
        return {key: _sent(item) for key, item in value.items()}
    return value


def _placed(value: Any, device: Any) -> Any:
    """The value with its tensors on a device, None being where they are."""
    if device is None:
        return value
    if _is_tensor(value):
        return value.to(device)
    if type(value) in (list, tuple):
        return type(value)(_placed(item, device) for item in value)
    if type(value) is dict:
        return {key: _placed(item, device) for key, item in value.items()}
    return value


def _device(value: Any) -> Any:
    """Where the first tensor in a value is, None without one."""
    if _is_tensor(value):
        return value.device
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return next((found for found in map(_device, items) if found is not None), None)


def _summable(value: Any) -> Any:
    """The value as it is sent to be summed; the name of its type, a string, where it is no number.

    Not an error yet: one rank alone must not raise, the others would wait for it.
    """
    if isinstance(value, dict):  # a defaultdict's factory may be a lambda, which can't be sent
        return {key: _summable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_summable(item) for item in value]
    if _is_tensor(value) or _is_numpy(value):
        return _sent(value) if "bool" not in str(value.dtype) and str(value.dtype) != "object" else str(value.dtype)
    number = value is None or (isinstance(value, numbers.Number) and not isinstance(value, bool))
    return value if number else type(value).__name__


def _sum(*given: Any) -> Any:
    """The sum of what the ranks have: of Python's numbers as Python does, of others in 64 bits, then as they were."""
    values = [value for value in given if value is not None]
    name = next((value for value in values if isinstance(value, str)), None)
    if name is not None:
        raise _error(f"reduced sums numbers, arrays and tensors, and there is a {name}")
    if any(isinstance(value, dict) for value in values):
        keys = {key: None for value in values for key in value}
        return {key: _sum(*(value.get(key) for value in values)) for key in keys}
    lengths = {len(value) for value in values if isinstance(value, list)}
    shaped = [value for value in values if hasattr(value, "shape")]
    sizes = lengths | {tuple(value.shape) for value in shaped}
    if len(sizes) > 1:
        raise _error(f"reduced needs the same shape on every rank, and there are {sorted(sizes, key=str)}")
    if lengths:
        return list(map(_sum, *values))
    total = sum(map(_wide, values[1:]), _wide(values[0])) if values else None
    return _narrow(total, shaped[0]) if shaped else total


def _wide(value: Any) -> Any:
    if _is_tensor(value):
        return value.to(_wider(value.is_complex(), value.is_floating_point(), sys.modules["torch"]))
    if _is_numpy(value):
        return value.astype(_wider(value.dtype.kind == "c", value.dtype.kind == "f", sys.modules["numpy"]))
    return value


def _wider(is_complex: bool, is_floating: bool, library: Any) -> Any:
    return library.complex128 if is_complex else library.float64 if is_floating else library.int64


def _narrow(total: Any, first: Any) -> Any:
    """A sum of tensors or numpy's values in the dtype of the first of them."""
    if _is_tensor(first):
        return total.to(first.dtype)
    # an array without dimensions: numpy makes a scalar of it in any sum
    scalar = isinstance(first, sys.modules["numpy"].generic)
    return first.dtype.type(total) if scalar else sys.modules["numpy"].asarray(total, dtype=first.dtype)


def _like(own: Any, total: Any) -> Any:
    """The sum in the type of this rank's own value."""
    if isinstance(own, dict):
        result = copy.copy(own)
        result.clear()
        result.update({key: _like(own.get(key), item) for key, item in total.items()})
        return result
    if isinstance(own, (list, tuple)):
        items = list(map(_like, own, total))
        return type(own)(*items) if hasattr(own, "_fields") else type(own)(items)
    return _placed(total, _device(own))


def _rows(value: Any) -> int:
    """How many rows a list, array or tensor has; -1 for anything else."""
    if isinstance(value, (list, tuple)):
        return len(value)
    return len(value) if (_is_tensor(value) or _is_numpy(value)) and value.ndim else -1


def _told(value: Any) -> str:
    return str(_rows(value)) if _rows(value) >= 0 else f"a {type(value).__name__}"


def _joined(parts: list[Any]) -> Any:
    """The parts of all ranks, or of all batches, one after the other."""
    if all(map(_is_tensor, parts)):
        return sys.modules["torch"].cat(parts)
    if all(map(_is_numpy, parts)):
        return sys.modules["numpy"].concatenate(parts)
    rows = [row for part in parts for row in part]
    return tuple(rows) if isinstance(parts[0], tuple) else rows


def _taken(whole: Any, order: list[int]) -> Any:
    """The rows of the whole in this order."""
    if isinstance(whole, (list, tuple)):
        return type(whole)(whole[index] for index in order)
    return whole[order]
