"""In a rank: call a factory, find the loaders in what it returns, and read each for some epochs, by index where that is
the same as reading the data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..watching.observe.shardfix_observe import Options, install
from ..watching.observe.shardfix_observe.digests import digest
from .by_index import PREPARED, epoch_of, reader, said_of
from .gloo import Emit
from .ranks import Place

LARGEST_PASS = 2_000  # batches of one pass of what has no length: a stream that never ends is cut there
NOT_READ = ("Sampler", "Dataset", "Module", "Optimizer", "Tensor", "ndarray", "PreTrainedTokenizerBase")
PLAIN = (str, bytes, bytearray, int, float, complex, bool, type(None), range, set, frozenset)


def read_factory(
    factory: Callable[[], Any],
    place: Place,
    emit: Emit,
    *,
    epochs: int,
    set_epoch: bool | Callable[[Any, int], None] = True,
    owner: str = "",
    skip: frozenset[str] = frozenset(),
) -> None:
    """Call the factory, then read its loaders epoch by epoch and say of each pass what it held.

    Messages: ``loader`` (its number, its name within the result, what it says of itself, how it is told the epoch),
    ``pass`` (its name, the batches, whether it came to its end, the epoch that its sampler counts), and ``nothing``
    (what the factory returned if that holds no loader).

    Args:
        set_epoch: True tells each loader the epoch as a training loop does, False never does, a callable is given the
            factory's result and the epoch.
        owner: ``accelerate`` hands each loader to ``Accelerator().prepare`` first, as the program does later.
        skip: the names of the loaders that are not read, since an earlier try did not come through them.
    """
    events: list[dict[str, Any]] = []
    recorder = install(Options(folder="", groups=False), events.append)
    made = factory()
    loaders = list(loaders_in(made))
    if not loaders:
        emit({"kind": "nothing", "text": described(made)})
        return
    if owner == "accelerate":
        loaders = [(name, prepared(loader)) for name, loader in loaders]
    reads: list[tuple[int, str, Any, Callable[[int], None], Callable[[], Iterator[list[Any]]]]] = []
    for number, (name, loader) in enumerate(loaders):
        if name in skip:
            continue
        place.at(1, number)
        tell, told = teller(loader) if set_epoch is True else (nobody, "")
        record = recorder.of(loader)
        read = reader(loader) if is_torchs(loader) else None
        known = read is not None
        built = said_of(loader, place.world, record.manual if record else False) if known else {"kind": "stream"}
        emit({"kind": "loader", "number": number, "name": name, "built": built, "told": told})
        reads.append((number, name, loader, tell, read or watched(loader, name, events, emit)))
    for epoch in range(epochs):
        if callable(set_epoch):
            place.at(2, 0, epoch)
            set_epoch(made, epoch)
        for number, name, loader, tell, read in reads:
            place.at(2, number, epoch)
            if epoch and hasattr(loader, "__next__"):
                continue  # an iterator has one pass
            tell(epoch)
            counted = epoch_of(loader)
            batches: list[list[Any]] = []
            complete = True
            place.at(3, number, epoch)
            for batch in read():
                batches.append(batch)
                place.at(3, number, epoch, len(batches))
                if len(batches) >= LARGEST_PASS and endless(loader):
                    complete = False
                    break
            emit({"kind": "pass", "name": name, "batches": batches, "complete": complete, "epoch": counted})


def nobody(epoch: int) -> None:
    """Nothing listens to the epoch."""


def endless(loader: Any) -> bool:
    try:
        return len(loader) < LARGEST_PASS
    except Exception:
        return True


def watched(loader: Any, name: str, events: list[dict[str, Any]], emit: Emit) -> Callable[[], Iterator[list[Any]]]:
    """How to read what iterates in its own way: for real, step by step, with what the loaders inside it delivered.

    Where no loader is inside, the samples of what it yields are told by digests.
    """

    def read() -> Iterator[list[Any]]:
        seen = len(events)
        inside = False
        for batch in loader:
            since, seen = events[seen:], len(events)
            for event in since:
                if event["e"] == "built":
                    emit({"kind": "built", "name": name, "built": event["built"]})
            steps = [event for event in since if event["e"] == "step"]
            inside = inside or bool(steps)
            if inside:
                yield [item for step in steps for item in step.get("ids", ())]
            else:
                yield [digest(sample) for sample in samples_of(batch)]

    return read


def samples_of(batch: Any) -> list[Any]:
    """The samples of a batch: of stacked tensors, also in a tuple or dict, or of a list; else the batch itself."""
    if hasattr(batch, "shape") and hasattr(batch, "tolist"):
        return list(batch) if len(batch.shape) else [batch]
    if isinstance(batch, dict):
        return [dict(zip(batch, parts)) for parts in zip(*map(samples_of, batch.values()))]  # noqa: B905
    if isinstance(batch, tuple) and batch and all(hasattr(part, "shape") for part in batch):
        return list(zip(*map(samples_of, batch)))  # noqa: B905 - Python 3.8 has no strict=
    return list(batch) if isinstance(batch, list) else [batch]


def prepared(loader: Any) -> Any:
    from accelerate import Accelerator

    return Accelerator().prepare(loader) if is_torchs(loader) and type(loader).__name__ not in PREPARED else loader


# --- what is a loader ---


def loaders_in(made: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The loaders in a factory's result, each with its name within it: ``[0]``, ``['train']``, ``.train``."""
    if is_loader(made) or (not name and is_iterable(made)):
        yield name, made
    elif isinstance(made, tuple) and hasattr(made, "_fields"):
        for field in made._fields:
            yield from loaders_in_part(getattr(made, field), f"{name}.{field}")
    elif isinstance(made, (list, tuple)):
        for position, part in enumerate(made):
            yield from loaders_in_part(part, f"{name}[{position}]")
    elif isinstance(made, dict):
        for key, part in made.items():
            yield from loaders_in_part(part, f"{name}[{key!r}]")
    elif hasattr(made, "__dict__") and not isinstance(made, type):
        for attribute, part in vars(made).items():
            if is_loader(part):
                yield f"{name}.{attribute}", part


def loaders_in_part(part: Any, name: str) -> Iterator[tuple[str, Any]]:
    if is_loader(part) or isinstance(part, (list, tuple, dict)) or type(part).__name__ == "SimpleNamespace":
        yield from loaders_in(part, name)


def is_loader(thing: Any) -> bool:
    """Whether a thing is read as a loader wherever it stands: a loader, an iterator, something around a loader."""
    if is_torchs(thing):
        return True
    return is_iterable(thing) and (hasattr(thing, "__next__") or any(map(is_torchs, parts_of(thing))))


def is_torchs(thing: Any) -> bool:
    """Whether a thing is a DataLoader, as it was made or as accelerate prepared it."""
    from torch.utils.data import DataLoader

    return isinstance(thing, DataLoader) or type(thing).__name__ in PREPARED


def is_iterable(thing: Any) -> bool:
    """Whether a thing can be read that is no plain data, dataset or sampler."""
    if isinstance(thing, (*PLAIN, list, tuple, dict, type)) or not hasattr(thing, "__iter__"):
        return False
    names = {kind.__name__ for kind in type(thing).__mro__}
    return not names & set(NOT_READ) or "IterableDataset" in names


def parts_of(thing: Any) -> list[Any]:
    return list(vars(thing).values()) if hasattr(thing, "__dict__") else []


def described(made: Any) -> str:
    if made is None:
        return "None"
    kind = type(made)
    names = {base.__name__ for base in kind.__mro__}
    if {"LightningDataModule", "LightningModule"} & names:
        return f"a {kind.__name__} (its Trainer decides how its loaders are sharded: watch the script with --run)"
    if isinstance(made, (list, tuple)):
        return f"a {kind.__name__} of {', '.join(type(part).__name__ for part in made) or 'nothing'}"
    if isinstance(made, dict):
        return f"a dict of {', '.join(type(part).__name__ for part in made.values()) or 'nothing'}"
    return f"something of type {kind.__qualname__}"


# --- how it is told the epoch ---


def teller(loader: Any) -> tuple[Callable[[int], None], str]:
    """How a training loop would tell this loader the epoch, and the call in words; nothing where nothing listens."""
    inner = [loader, *(part for part in parts_of(loader) if is_loader(part))]
    for thing, word in [(thing, "loader" if not at else "loader's loader") for at, thing in enumerate(inner)]:
        if callable(getattr(thing, "set_epoch", None)):
            return thing.set_epoch, f"{word}.set_epoch(epoch)"
        found = listeners(thing, word)
        if found:

            def tell(epoch: int, listeners: list[tuple[Any, str]] = found) -> None:
                for listener, _ in listeners:
                    listener.set_epoch(epoch)

            return tell, " and ".join(f"{path}.set_epoch(epoch)" for _, path in found)
    return nobody, ""


def listeners(thing: Any, path: str, depth: int = 3) -> list[tuple[Any, str]]:
    """What listens to the epoch of all that a loader draws from, each with its path: its samplers, its data."""
    found: list[tuple[Any, str]] = []
    for name in ("sampler", "batch_sampler", "dataset"):
        part = getattr(thing, name, None)
        if part is None or any(part is other for other, _ in found):
            continue
        if callable(getattr(part, "set_epoch", None)):
            found.append((part, f"{path}.{name}"))
        elif name != "dataset" and depth > 1:
            below = listeners(part, f"{path}.{name}", depth - 1)
            found += [(other, at) for other, at in below if all(other is not known for known, _ in found)]
    return found
