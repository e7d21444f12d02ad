"""The names that a recipe's program may use: datasets of indices, what a launcher sets, torch and accelerate."""

from __future__ import annotations

import builtins
import functools
import random
from typing import Any

BUILTINS = [
    *("abs", "all", "any", "bool", "dict", "divmod", "enumerate", "filter", "float", "frozenset", "getattr", "hasattr"),
    *("int", "isinstance", "iter", "len", "list", "map", "max", "min", "next", "object", "range", "reversed", "round"),
    *("set", "slice", "sorted", "str", "sum", "tuple", "type", "zip"),
    *("AssertionError", "AttributeError", "Exception", "KeyError", "RuntimeError", "TypeError", "ValueError"),
]
ACCESSED: list[int] = []  # the items of index datasets that were read


class IndexDataset:
    """A map-style dataset whose items are their own indices in the base dataset; a slice is a dataset again."""

    def __init__(self, indices: Any) -> None:
        self.indices = indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return IndexDataset(self.indices[index])
        found = int(self.indices[int(index)])
        ACCESSED.append(found)
        return found

    def __getitems__(self, indices: Any) -> list[int]:
        return [int(self.indices[int(index)]) for index in indices]

    def select(self, indices: Any) -> IndexDataset:
        return IndexDataset([self[i] for i in indices])


class Through:
    """A dataset of the project's own over index datasets: each item is the index that it reads there.

    What it makes of the item is not looked at: it may even fail on a number.
    """

    def __init__(self, real: Any) -> None:
        self.real = real

    def __len__(self) -> int:
        return len(self.real)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def __getitem__(self, index: Any) -> int:
        del ACCESSED[:]
        try:
            self.real[index]
        except Exception:
            if not ACCESSED:
                raise
        if len(set(ACCESSED)) != 1:
            raise TypeError(f"an item of {type(self.real).__name__} reads {len(set(ACCESSED))} samples")
        return ACCESSED[0]


def shuffled(indices: Any, seed: int) -> list[int]:
    """The indices in one order for a seed."""
    found = list(indices)
    random.Random(seed).shuffle(found)
    return found


def import_for_extensions(
    name: str, globals_: Any = None, locals_: Any = None, fromlist: Any = (), level: int = 0
) -> Any:
    """Refuse a program's import statement, but not what torch's C code imports in the program's frame.

    CPython's PyImport_Import takes ``__import__`` from the calling frame's builtins (``torch.tensor`` needs it) and
    passes a list as ``fromlist``; an import statement passes a tuple or None.
    """
    if isinstance(fromlist, list):
        return __import__(name, globals_, locals_, fromlist, level)
    raise ImportError(f"a recipe imports nothing, not even {name}")


GIVEN = {"__import__": import_for_extensions, **{name: getattr(builtins, name) for name in BUILTINS}}


def namespace(
    rank: int, world: int, grouped: bool, size: int, unknown: dict[str, bool], accelerate: bool, trusted: bool
) -> dict[str, Any]:
    """The names that a program may use; one that is trusted has all builtins and may import."""
    datasets: dict[str, IndexDataset] = {}

    def dataset(name: str = "") -> IndexDataset:
        return datasets.setdefault(name, IndexDataset(range(size)))

    return {
        **library(accelerate),
        "__builtins__": builtins if trusted else GIVEN,
        "__name__": "recipe",
        "RANK": rank,
        "WORLD_SIZE": world,
        "LOCAL_RANK": rank if grouped else -1,
        "DISTRIBUTED": grouped,
        "DATASET": dataset,
        "SHUFFLED": shuffled,
        "THROUGH": Through,
        "UNKNOWN": unknown,
    }


@functools.lru_cache(maxsize=None)  # noqa: UP033
def library(accelerate: bool) -> dict[str, Any]:
    """The modules that a program may use."""
    import torch
    import torch.distributed
    import torch.utils.data
    import torch.utils.data.distributed

    names: dict[str, Any] = {"torch": torch, "dist": torch.distributed}
    if accelerate:
        import accelerate as accelerate_module

        names["accelerate"] = accelerate_module
        names["Accelerator"] = accelerate_module.Accelerator
    return names
