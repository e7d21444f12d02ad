"""Which loaders a process makes and what each pass over one delivers, written down as it happens."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Dict  # noqa: UP035

from .built import built
from .digests import digest
from .options import Options
from .places import Place, user_place
from .samples import BaseIds, Item, length_of

ATTRIBUTE = "_shardfix_loader"
PART = "_shardfix_part"  # on a loader that leaves out the beginning of another
CONTENTS = 2  # of so many first steps the content is digested as well, in so many first passes
Event = Dict[str, Any]  # noqa: UP006 - for Python 3.8; of JSON values; "e" says what happened


class Loader:
    """One loader of the program, or what a library made of one; several objects if the program makes it anew."""

    def __init__(self, number: int, place: Place, nth: int, origin: Loader | None, how: str) -> None:
        self.number = number
        self.place = place
        self.nth = nth  # of those made at that place, from 1
        self.origin = origin
        self.how = how
        self.manual = False
        self.passes = 0
        self.read = 0  # passes but for mere looks at a batch
        self.begun_at = 0  # on the process's own count of passes, of the last one that was counted
        self.before = 0  # the same of the pass before
        self.current: Pass | None = None
        self.dataset: Callable[[], Any] | None = None
        self.settings: tuple[Any, ...] = ()
        self.holds = False  # the dataset is kept alive: lists have no weak references
        self.ids: BaseIds | None = None
        self.described = ""

    @property
    def root(self) -> Loader:
        return self if self.origin is None else self.origin.root


class Pass:
    """One iteration over a loader, from its first step on.

    ``drawn`` waits to be delivered: accelerate is one batch ahead. ``skip`` are batches that are drawn and never
    delivered. ``limit`` is how many the innermost iterator gives at most, 0 for all.
    """

    def __init__(self, loader: Loader, wrapper: Any, limit: int, skip: int) -> None:
        self.loader = loader
        self.wrapper = wrapper
        self.limit = limit
        self.skip = skip
        self.number = -1
        self.epoch: int | None = None
        self.drawn: list[tuple[list[Item], str]] = []
        self.draws = 0
        self.steps = 0
        self.length: int | None = None
        self.clock = 0
        self.counted = False
        self.cut = False
        self.over = False
        self.iterator: Callable[[], Any] | None = None

    @property
    def in_progress(self) -> bool:
        return not self.over and (self.iterator is None or self.iterator() is not None)


class Recorder:
    """The process's own; forked children begin a file of their own.

    Args:
        options: what the run asks for.
        write: takes each event; without it they go to a file in ``options.folder``, one line each.
    """

    def __init__(self, options: Options, write: Callable[[Event], None] | None = None) -> None:
        self.options = options
        self.loaders: list[Loader] = []
        self.made_by: dict[tuple[int, str], Loader] = {}
        self.made_at: dict[Place, list[Loader]] = {}
        self.rank = _rank_of_environment()
        self.world = int(os.environ.get("WORLD_SIZE") or 1)
        self._clock = 0
        self._local = threading.local()
        self._write = write
        self._file = -1
        self._pid = 0

    # --- where events go ---

    def emit(self, event: str, **fields: Any) -> None:
        if self._write is not None:
            self._write({"e": event, **fields})
            return
        if self._pid != os.getpid():
            if in_worker():
                return
            self._open()
        self._line({"e": event, **fields})

    def _open(self) -> None:
        forked = self._pid != 0
        self._pid = os.getpid()
        name = f"{self._pid}-{time.monotonic_ns()}.jsonl"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(os.path.join(self.options.folder, name), flags, 0o600)
        self._line({"e": "process", "pid": self._pid, "parent": os.getppid(), "argv": list(getattr(sys, "argv", ()))})
        if self.rank is not None:
            self._line({"e": "rank", "rank": self.rank, "world": self.world})
        if forked:
            for loader in self.loaders:
                loader.described = ""
                loader.passes = loader.read = 0
                self._line(_loader_event(loader))

    def _line(self, event: Event) -> None:
        with contextlib.suppress(OSError):  # a full disk must not end the user's program
            os.write(self._file, json.dumps({**event, "t": round(time.time(), 3)}).encode() + b"\n")

    def is_rank(self, rank: int, world: int) -> None:
        self.rank, self.world = rank, world
        self.emit("rank", rank=rank, world=world, joined=True)

    # --- loaders ---

    def of(self, loader: Any) -> Loader | None:
        number = getattr(loader, ATTRIBUTE, None)
        return self.loaders[number] if isinstance(number, int) and number < len(self.loaders) else None

    @contextlib.contextmanager
    def deriving(self, original: Any, how: str) -> Iterator[None]:
        """What is made in here is what a library makes of ``original``."""
        before = getattr(self._local, "deriving", None)
        self._local.deriving = (self.of(original), how)
        try:
            yield
        finally:
            self._local.deriving = before

    def made(self, loader: Any, manual: bool) -> None:
        """A DataLoader was constructed."""
        origin, how = getattr(self._local, "deriving", None) or (None, "")
        if origin is not None:
            record = self._derived(origin, how)
        else:
            record = self._at(user_place(loader), loader, manual)
        loader.__dict__[ATTRIBUTE] = record.number
        if how == "skip":
            loader.__dict__[PART] = True
        record.dataset, record.holds = _reference(loader.dataset)
        record.ids = None

    def _derived(self, origin: Loader, how: str) -> Loader:
        if how == "skip":
            return origin
        known = self.made_by.get((origin.number, how))
        if known is None:
            known = self._new(origin.place, origin.nth, origin, how)
            known.manual = origin.manual
            self.made_by[(origin.number, how)] = known
        return known

    def _at(self, place: Place, loader: Any, manual: bool) -> Loader:
        """The record of a loader made at a place: a new one, or that of one just like it that is read no more."""
        here = self.made_at.setdefault(place, [])
        settings = (loader.batch_size, loader.drop_last, type(loader.sampler), type(loader.batch_sampler))
        for known in here:
            family = [known, *(one for one in self.made_by.values() if one.root is known)]
            read = any(one.passes for one in family)
            reading = any(one.current is not None and one.current.in_progress for one in family)
            same = known.dataset is not None and known.dataset() is loader.dataset and known.settings == settings
            if read and not reading and same:
                return known
            if known.holds:
                known.dataset, known.holds = None, False
        record = self._new(place, len(here) + 1, None, "")
        record.manual, record.settings = manual, settings
        here.append(record)
        self.emit("built", id=record.number, built=_first_look(loader, manual))
        return record

    def _new(self, place: Place, nth: int, origin: Loader | None, how: str) -> Loader:
        record = Loader(len(self.loaders), place, nth, origin, how)
        self.loaders.append(record)
        self.emit(**_loader_event(record, "event"))
        return record

    # --- passes ---

    def inside(self) -> Pass | None:
        """The pass over a wrapper whose step is being made in this thread."""
        stack = getattr(self._local, "inside", None)
        return stack[-1] if stack else None

    @contextlib.contextmanager
    def within(self, one: Pass) -> Iterator[None]:
        stack = self._local.__dict__.setdefault("inside", [])
        stack.append(one)
        try:
            yield
        finally:
            stack.pop()

    def begin(self, loader: Any, record: Loader, *, wrapper: Any = None, per_step: int = 1, ends: bool = True) -> Pass:
        """A loader is about to be read; the program ends here if it was read often enough.

        Args:
            wrapper: what is iterated, where that is not the DataLoader itself.
            per_step: how many batches the DataLoader draws for one step.
            ends: whether the end of the DataLoader ends the wrapper in good order.
        """
        self._stop_if_done(record)
        skip = int(getattr(wrapper, "skip_batches", 0) or 0)
        batches = self.options.batches
        limit = (batches + skip) * per_step if batches and ends else 0
        one = Pass(record, wrapper if wrapper is not None else loader, limit, skip)
        one.cut = bool(skip or getattr(loader, PART, False))
        return one

    def _stop_if_done(self, record: Loader) -> None:
        wanted = self.options.epochs
        if not wanted or record.read < wanted:
            return
        # those not read since this one's last pass but one are over: a look at the data before the training, say
        since = record.before if record.read > 1 else record.begun_at
        for other in self.loaders:
            if other is record or not other.passes or other.read >= wanted:
                continue
            if other.begun_at >= since or (other.current is not None and other.current.in_progress):
                return
        self.emit("stop", id=record.number)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        while True:  # the parent ends all ranks together, so that none breaks a connection that another still needs
            time.sleep(3600)

    def drew(self, one: Pass, items: list[Item] | None, data: Any) -> None:
        """The DataLoader gave a batch; ``items`` are the indices or digests that it is made of."""
        self._start(one, None)
        record = one.loader
        ids = [] if items is None else [record.ids.of(item) if record.ids else item for item in items]
        taken = digest(data) if one.number < CONTENTS and one.draws < CONTENTS and items is not None else ""
        one.draws += 1
        if one.wrapper is not None and type(one.wrapper).__name__ == "DataLoaderDispatcher":
            self.emit("draw", id=record.number, **{"pass": one.number}, ids=ids)
        elif one.draws > one.skip:
            one.drawn.append((ids, taken))

    def delivered(self, one: Pass) -> None:
        """A step's batch reaches the loop."""
        self._start(one, None)
        fields: dict[str, Any] = {}
        if one.drawn:
            ids, taken = one.drawn.pop(0)
            fields["ids"] = ids
            if taken:
                fields["content"] = taken
        one.steps += 1
        if one.steps > 1 or one.length == 1:
            self._count(one)
        self.emit("step", id=one.loader.number, **{"pass": one.number}, **fields)

    def ended(self, one: Pass, complete: bool) -> None:
        """The loader came to its end, its own or the one that was asked for."""
        if one.over:
            return
        self._start(one, None)
        one.over = True
        self._count(one)
        self.emit("end", id=one.loader.number, **{"pass": one.number}, complete=complete and not one.cut, cut=one.cut)

    def _count(self, one: Pass) -> None:
        """A pass of one step that has more and is left, ``next(iter(loader))``, only looks at a batch."""
        if not one.counted:
            one.counted = True
            record = one.loader
            record.read += 1
            record.before, record.begun_at = record.begun_at, one.clock

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """The lengths of loaders are asked for in here as they are, not as they are cut."""
        before = getattr(self._local, "whole", False)
        self._local.whole = True
        try:
            yield
        finally:
            self._local.whole = before

    def cut_length(self, length: int) -> int:
        """What a loader that ends early says of its length."""
        batches = self.options.batches
        return min(length, batches) if batches and not getattr(self._local, "whole", False) else length

    def start_with(self, one: Pass, loader: Any) -> None:
        """The first step of a pass is asked for: say what the loader is now, and that its pass begins."""
        self._start(one, loader)

    def _start(self, one: Pass, loader: Any) -> None:
        if one.number >= 0:
            return
        record = one.loader
        one.number = record.passes
        record.passes += 1
        self._clock += 1
        one.clock = self._clock
        record.current = one
        inner = loader if loader is not None else one.wrapper
        inner = getattr(inner, "base_dataloader", inner)
        self._describe(record, inner, one)
        one.epoch = _epoch_of(inner, one.wrapper)
        # some loops count the steps and never ask for the one after the last
        if inner._dataset_kind == 0 and not one.cut:
            with self.whole():
                one.length = length_of(one.wrapper)
        self.emit("pass", id=record.number, **{"pass": one.number}, epoch=one.epoch, skip=one.skip, length=one.length)

    def _describe(self, record: Loader, loader: Any, one: Pass) -> None:
        try:
            if record.ids is None:
                record.ids = BaseIds(loader.dataset)
            fields = built(loader, record.ids, record.manual, record.how, one.wrapper, self.world)
        except Exception as error:  # a sampler of the user's that raises when it is asked
            self.emit("puzzled", id=record.number, text=f"{type(error).__name__}: {error}")
            return
        said = json.dumps(fields, sort_keys=True)
        if said != record.described:
            record.described = said
            self.emit("built", id=record.number, built=fields)


def in_worker() -> bool:
    """Whether this process fetches data for a DataLoader."""
    worker = sys.modules.get("torch.utils.data._utils.worker")
    return worker is not None and getattr(worker, "_worker_info", None) is not None


def _rank_of_environment() -> int | None:
    value = os.environ.get("RANK", "")
    return int(value) if value.isdigit() else None


def _reference(thing: Any) -> tuple[Callable[[], Any], bool]:
    try:
        return weakref.ref(thing), False
    except TypeError:
        return (lambda: thing), True


def _loader_event(record: Loader, key: str = "e") -> Event:
    place = record.place
    return {
        key: "loader",
        "id": record.number,
        "path": place.path,
        "line": place.line,
        "via": place.via,
        "nth": record.nth,
        "origin": None if record.origin is None else record.origin.number,
        "how": record.how,
    }


def _first_look(loader: Any, manual: bool) -> Event:
    """What can be said of a loader that may never be read, without asking its dataset or sampler anything."""
    sampler = loader.sampler
    return {
        "kind": "map" if loader._dataset_kind == 0 else "stream",
        "sampler": type(sampler).__name__ if loader._dataset_kind == 0 and sampler is not None else "",
        "manual": manual,
        "batch_size": loader.batch_size if isinstance(loader.batch_size, int) else None,
        "drop_last": bool(loader.drop_last),
        "workers": loader.num_workers,
    }


def _epoch_of(loader: Any, wrapper: Any) -> int | None:
    if isinstance(getattr(wrapper, "iteration", None), int):
        return int(wrapper.iteration)
    batches = getattr(loader, "batch_sampler", None)
    for source in (getattr(loader, "sampler", None), getattr(batches, "sampler", None), batches):
        epoch = getattr(source, "epoch", None)
        if isinstance(epoch, int):
            return epoch
    return None
