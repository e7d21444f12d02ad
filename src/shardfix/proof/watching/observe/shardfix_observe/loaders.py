"""Watch torch's DataLoader: where it is made, which indices each batch is made of, and what reaches the loop.

The indices (or the digests of what a stream yields) travel from where an item is fetched to where it is delivered,
beside the data; so prefetching, persistent workers and batches out of order change nothing.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

from .digests import digest
from .recorder import Pass, Recorder, in_worker
from .samples import Item, items_of

_fetching = threading.local()  # whether this thread fetches for an iterator that takes the ids off again


class Fetched:
    """Data on its way from a worker, with the ids of what it is made of."""

    def __init__(self, data: Any, items: list[Item]) -> None:
        self.data = data
        self.items = items

    def pin_memory(self, *device: Any) -> Fetched:
        from torch.utils.data._utils.pin_memory import pin_memory

        return Fetched(pin_memory(self.data, *device), self.items)  # type: ignore[no-untyped-call]


class Digesting:
    """An iterator over a stream that digests what it yields."""

    def __init__(self, iterator: Any) -> None:
        self._iterator = iterator
        self.taken: list[Item] = []

    def __iter__(self) -> Digesting:
        return self

    def __next__(self) -> Any:
        item = next(self._iterator)
        self.taken.append(digest(item))
        return item

    def __getattr__(self, name: str) -> Any:
        if name == "_iterator":
            raise AttributeError(name)
        return getattr(self._iterator, name)


def watch_fetchers(fetch: Any) -> None:
    """In ``torch.utils.data._utils.fetch``, where workers and single processes read a dataset."""
    map_fetch = fetch._MapDatasetFetcher.fetch
    stream_init = fetch._IterableDatasetFetcher.__init__
    stream_fetch = fetch._IterableDatasetFetcher.fetch

    @functools.wraps(map_fetch)
    def fetch_by_index(self: Any, index: Any) -> Any:
        data = map_fetch(self, index)
        if not _wanted():
            return data
        return Fetched(data, items_of(index, self.auto_collation, lambda: len(self.dataset)))

    @functools.wraps(stream_init)
    def begin_stream(self: Any, *args: Any, **kwargs: Any) -> None:
        stream_init(self, *args, **kwargs)
        self.dataset_iter = Digesting(self.dataset_iter)

    @functools.wraps(stream_fetch)
    def fetch_next(self: Any, index: Any) -> Any:
        stream = self.dataset_iter
        if isinstance(stream, Digesting):
            stream.taken = []
        data = stream_fetch(self, index)
        if not _wanted() or not isinstance(stream, Digesting):
            return data
        return Fetched(data, list(stream.taken))

    fetch._MapDatasetFetcher.fetch = fetch_by_index
    fetch._IterableDatasetFetcher.__init__ = begin_stream
    fetch._IterableDatasetFetcher.fetch = fetch_next


def _wanted() -> bool:
    return getattr(_fetching, "on", False) or in_worker()


def watch_dataloader(module: Any, recorder: Recorder) -> None:
    """In ``torch.utils.data.dataloader``."""
    loader_class = module.DataLoader
    init, iterate = loader_class.__init__, loader_class.__iter__
    signature = inspect.signature(init)

    @functools.wraps(init)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        if recorder.options.cuda:
            self.__dict__["pin_memory"] = False  # there is no device to copy to
        given = signature.bind_partial(self, *args, **kwargs).arguments
        manual = given.get("sampler") is not None or given.get("batch_sampler") is not None
        recorder.made(self, manual)
        _watch_own_iteration(type(self), loader_class, recorder)

    @functools.wraps(iterate)
    def begin(self: Any) -> Any:
        record = recorder.of(self)
        if record is None or in_worker():
            return iterate(self)
        one = recorder.inside()
        if one is None or one.loader.root is not record.root:
            one = recorder.begin(self, record)
        iterator = iterate(self)
        iterator._shardfix_pass = one
        if one.wrapper is self:
            one.iterator = weakref.ref(iterator)
        return iterator

    loader_class.__init__ = made
    loader_class.__iter__ = begin
    cut_length(loader_class, recorder)
    for name in ("_SingleProcessDataLoaderIter", "_MultiProcessingDataLoaderIter"):
        _take_ids_off(getattr(module, name))
    _watch_steps(module._BaseDataLoaderIter, recorder)


def cut_length(sized_class: Any, recorder: Recorder) -> None:
    """A loader whose passes end early is as short: programs count its steps."""
    measure = sized_class.__dict__.get("__len__")
    if measure is None or not recorder.options.batches:
        return

    @functools.wraps(measure)
    def length(self: Any) -> int:
        with recorder.whole():
            found = measure(self)
        return recorder.cut_length(found)

    sized_class.__len__ = length


def _take_ids_off(iterator_class: Any) -> None:
    next_data = iterator_class._next_data

    @functools.wraps(next_data)
    def take(self: Any) -> Any:
        with _fetching_on():
            data = next_data(self)
        self._shardfix_items = None
        if isinstance(data, Fetched):
            self._shardfix_items, data = data.items, data.data
        return data

    iterator_class._next_data = take


@contextlib.contextmanager
def _fetching_on() -> Iterator[None]:
    before = getattr(_fetching, "on", False)
    _fetching.on = True
    try:
        yield
    finally:
        _fetching.on = before


def _watch_steps(base: Any, recorder: Recorder) -> None:
    advance = base.__next__

    @functools.wraps(advance)
    def step(self: Any) -> Any:
        own: Pass | None = getattr(self, "_shardfix_pass", None)
        if own is None:
            return advance(self)
        outer = recorder.inside()
        one = outer if outer is not None and outer.loader.root is own.loader.root else own
        alone = one is own and (outer is None or outer is not own)
        if alone:
            recorder.start_with(one, one.wrapper)
        try:
            data = advance(self)
        except StopIteration:
            if alone:
                recorder.ended(one, True)
            raise
        if one.limit and one.draws >= one.limit:
            one.cut = True
            if alone:
                recorder.ended(one, False)
            raise StopIteration
        recorder.drew(one, self._shardfix_items, data)
        if alone:
            recorder.delivered(one)
        return data

    base.__next__ = step


def watch_iteration(iterable_class: Any, recorder: Recorder, *, ends: bool) -> None:
    """Count what the generator ``__iter__`` of a class yields, not what it draws from the DataLoader inside it.

    ``ends``: the class ends in good order when its DataLoader does.
    """
    iterate = iterable_class.__dict__["__iter__"]
    if getattr(iterate, "_shardfix", False):
        return

    @functools.wraps(iterate)
    def steps(self: Any) -> Iterator[Any]:
        record = recorder.of(self)
        outer = recorder.inside()
        if record is None or in_worker() or (outer is not None and outer.loader.root is record.root):
            yield from iterate(self)
            return
        per_step = recorder.world if _dispatches(self) else 1
        one = recorder.begin(self, record, wrapper=self, per_step=per_step, ends=ends)
        iterator = iterate(self)
        limit = 0 if ends else recorder.options.batches
        try:
            while True:
                with recorder.within(one):
                    recorder.start_with(one, self)
                    try:
                        data = next(iterator)
                    except StopIteration:
                        recorder.ended(one, True)
                        return
                if limit and one.steps >= limit:
                    one.cut = True
                    recorder.ended(one, False)
                    return
                recorder.delivered(one)
                yield data
        finally:
            iterator.close()
            one.over = True

    steps._shardfix = True  # type: ignore[attr-defined]
    iterable_class.__iter__ = steps


def _dispatches(wrapper: Any) -> bool:
    return type(wrapper).__name__ == "DataLoaderDispatcher" and not getattr(wrapper, "split_batches", False)


def _watch_own_iteration(made: type, loader_class: type, recorder: Recorder) -> None:
    """A subclass of the program's own may iterate in its own way (one endless iterator, say)."""
    for one in made.__mro__:
        if one is loader_class:
            return
        iterate = one.__dict__.get("__iter__")
        if iterate is not None and inspect.isgeneratorfunction(iterate):
            watch_iteration(one, recorder, ends=False)


def install(recorder: Recorder) -> None:
    """Watch a DataLoader that is imported already."""
    module = sys.modules["torch.utils.data.dataloader"]
    watch_fetchers(sys.modules["torch.utils.data._utils.fetch"])
    watch_dataloader(module, recorder)
