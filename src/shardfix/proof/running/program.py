"""Run one program in a rank: build its loader, read it for some epochs, say what came."""

from __future__ import annotations

import functools
import json
import os
import types
from collections.abc import Iterator
from typing import Any, Callable, NamedTuple  # noqa: UP035 - Python 3.8 can't subscript the other one

from .asking import sizes_for

NOT_BUILT: dict[str, Any] = {
    "batch_size": None,
    "drop_last": False,
    "sampler": "",
    "draws": None,
    "shuffled": None,
    "replacement": False,
    "sampler_drop_last": False,
    "prepared": False,
}
INTEGERS = {int}
JSON = json.JSONEncoder(separators=(",", ":"))  # made once: what an answer holds is little


class Program(NamedTuple):
    """What tells one program from another, whatever size it is run at; the ranks get its texts as code."""

    build: Any
    each_epoch: Any
    prelude: Any
    accelerate: bool
    unknown: tuple[tuple[str, bool], ...] = ()


class Task(NamedTuple):
    """One run of a program on a dataset of ``size`` samples.

    A ``probe`` is run to learn the batch size; it is read only if its own size turns out to be among those that tell
    right from wrong.
    """

    program: Program
    size: int
    epochs: int
    probe: bool = False


def run_program(
    task: Task, world: int, folders: list[str], names: dict[str, Any], at: Callable[[int, int, int, int], None]
) -> dict[str, Any]:
    """Build the loader, read it for some epochs, say what came; a program's exception is its answer.

    What was read (``epochs``) and worked out (``value``) is JSON already: only whoever judges it looks into it.

    Args:
        folders: what a trusted program imports from.
        at: is told where the program is: the number of a stage (``dispatch.STAGES``), 0, the epoch, the step.
    """
    program, size = task.program, task.size
    said = NOT_BUILT
    epochs: list[list[list[int]]] = []
    error, where, unable, read = "", "", "", True
    share: list[int] | None = None
    try:
        if program.prelude:
            at(4, 0, 0, 0)
            try:
                exec(program.prelude, names)
            except (Exception, SystemExit) as exception:
                unable = words_of(exception)
                raise
        at(1, 0, 0, 0)
        exec(program.build, names)
        loader = names["loader"]
        said = declared(loader)
        share = share_of(loader)
        take_indices_as_they_are(loader)
        limit = 4 * size + 1000
        read = not task.probe or sizes_for(said["batch_size"], world)[0] == size
        for epoch in range(task.epochs if read else 0):
            at(2, 0, epoch, 0)
            names["epoch"] = epoch
            exec(program.each_epoch, names)
            batches: list[list[int]] = []
            at(3, 0, epoch, 0)
            for batch in loader:
                plain = type(batch) is list and {*map(type, batch)} <= INTEGERS
                batches.append(batch if plain else list(indices_of(batch)))
                at(3, 0, epoch, len(batches))
                if len(batches) > limit:
                    raise RuntimeError(f"the loader does not end: {limit} batches from {size} samples")
            epochs.append(batches)
    except (Exception, SystemExit) as exception:
        error = words_of(exception)
        where = line_of(exception, folders)
    # a name that no recipe may bind: what a program has worked out from what it read, ready for JSON
    value = JSON.encode(names["__value__"]) if "__value__" in names else "null"
    about = {"where": where, "unable": unable, "share": share, "value": value, "read": read}
    return {"epochs": JSON.encode(epochs), "error": error, "declared": said, **about}


@functools.lru_cache(maxsize=None)  # noqa: UP033 - Python 3.8 has no functools.cache
def classes() -> Any:
    """torch's classes by name, looked up once: an import statement takes longer than a batch."""
    from torch.utils import data
    from torch.utils.data._utils.collate import default_collate
    from torch.utils.data.distributed import DistributedSampler

    drawn = (data.RandomSampler, data.SubsetRandomSampler, data.WeightedRandomSampler)
    names = {"loader": data.DataLoader, "distributed": DistributedSampler, "random": drawn}
    return types.SimpleNamespace(**names, sequential=data.SequentialSampler, collate=default_collate)


def declared(loader: Any) -> dict[str, Any]:
    """What a loader says of itself, through the wrappers that accelerate puts around its batch sampler."""
    known = classes()
    batch_sampler: Any = getattr(loader, "batch_sampler", None)
    while getattr(batch_sampler, "batch_sampler", None) is not None:
        batch_sampler = batch_sampler.batch_sampler
    source = loader if batch_sampler is None else batch_sampler
    sampler = getattr(source, "sampler", None)
    batch_size = getattr(source, "batch_size", None)
    shuffled: bool | None = None
    if isinstance(sampler, known.distributed):
        shuffled = bool(sampler.shuffle)
    elif isinstance(sampler, known.random):
        shuffled = True
    elif isinstance(sampler, known.sequential):
        shuffled = False
    try:
        draws: int | None = len(sampler) if sampler is not None else None
    except TypeError:
        draws = None
    return {
        "batch_size": batch_size if isinstance(batch_size, int) else None,
        "drop_last": bool(getattr(source, "drop_last", False)),
        "sampler": type(sampler).__name__ if sampler is not None else "",
        "draws": draws,
        "shuffled": shuffled,
        "replacement": bool(getattr(sampler, "replacement", False)),
        "sampler_drop_last": isinstance(sampler, known.distributed) and bool(sampler.drop_last),
        "prepared": type(loader).__name__ in ("DataLoaderShard", "DataLoaderDispatcher"),
    }


def share_of(loader: Any) -> list[int] | None:
    """How many shares a loader's DistributedSampler makes, and which of them this rank takes."""
    sampler = getattr(getattr(loader, "batch_sampler", None), "sampler", None)
    return [sampler.num_replicas, sampler.rank] if isinstance(sampler, classes().distributed) else None


def indices_of(batch: Any) -> Iterator[int]:
    if isinstance(batch, int):
        yield batch
    elif hasattr(batch, "tolist"):
        yield from indices_of(batch.tolist())
    elif isinstance(batch, dict):
        for value in batch.values():
            yield from indices_of(value)
    elif isinstance(batch, (list, tuple)):
        for value in batch:
            yield from indices_of(value)


def take_indices_as_they_are(loader: Any) -> None:
    """Leave out the making of tensors, and their way to a device: it decides nothing, and takes most of the time.

    Of accelerate's loaders only ``DataLoaderShard`` is known not to look into a batch (its dispatcher sends them).
    """
    known = classes()
    kind = type(loader)
    shard = kind.__name__ == "DataLoaderShard" and kind.__module__ == "accelerate.data_loader"
    if not shard and kind is not known.loader:
        return
    inside = vars(loader).get("base_dataloader", loader)  # before accelerate 0.34 it is the loader itself
    if type(inside) in (kind, known.loader) and inside.collate_fn is known.collate:
        inside.collate_fn = list
        if shard:
            loader.device = None


def line_of(exception: BaseException, folders: list[str]) -> str:
    """The last line of the folders' own files that an exception went through, as ``path:line``."""
    found = ""
    trace = exception.__traceback__
    root = folders[-1] if folders else ""
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        if "site-packages" not in path and any(path.startswith(os.path.join(folder, "")) for folder in folders):
            found = f"{os.path.relpath(path, root)}:{trace.tb_lineno}"
        trace = trace.tb_next
    if isinstance(exception, SyntaxError) and exception.filename and os.path.isabs(exception.filename):
        found = f"{os.path.relpath(exception.filename, root) if root else exception.filename}:{exception.lineno}"
    return found


def words_of(exception: BaseException) -> str:
    message = " ".join(str(exception).split())
    return f"{type(exception).__name__}: {message}"[:400].rstrip(": ")
