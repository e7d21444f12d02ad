"""The ids of samples in the base dataset, from what a sampler yields."""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections.abc import Callable
from typing import Any, Union

Item = Union[int, str]  # noqa: UP007 - Python 3.8 has no other way
LONGEST = 1 << 21  # of subsets whose ids are digested


def item_of(index: Any) -> Item:
    """One index as an id: a number where it is one, else how it is written."""
    if type(index) is int:
        return index
    try:
        return int(index.__index__())
    except (AttributeError, TypeError, ValueError):
        return str(index)


def items_of(index: Any, batched: bool, length: Callable[[], int]) -> list[Item]:
    """What a sampler yielded at once, as ids.

    Without automatic batching a sampler yields an index, or whole batches of them: a list, an array, a slice.
    """
    if isinstance(index, slice):
        return list(range(*index.indices(length())))
    if hasattr(index, "tolist"):  # tensors and arrays, of one index or many
        index = index.tolist()
    if batched or isinstance(index, (list, range)):
        return [item_of(one) for one in index]
    return [item_of(index)]


class BaseIds:
    """From the indices of a dataset to those of the dataset that it is a subset of, however deep."""

    def __init__(self, dataset: Any) -> None:
        self._steps: list[Callable[[int], int]] = []
        self.subset = length_of(dataset)
        while True:
            inner = inside(dataset)
            if inner is None:
                break
            step, dataset = inner
            if step is not None:
                self._steps.append(step)
        self.samples = length_of(dataset)

    @property
    def plain(self) -> bool:
        """Whether the ids are the indices themselves."""
        return not self._steps

    def of(self, item: Item) -> Item:
        if isinstance(item, int):
            for step in self._steps:
                item = step(item)
        return item

    def digest(self) -> str:
        """Stands for all ids of a subset, in order; empty for a whole dataset and for very long ones."""
        if self.plain or self.subset is None or self.subset > LONGEST:
            return ""
        ids = array("q", (int(self.of(i)) for i in range(self.subset)))
        return hashlib.blake2b(ids.tobytes(), digest_size=8).hexdigest()


def length_of(dataset: Any) -> int | None:
    try:
        return len(dataset)
    except Exception:
        return None


def inside(dataset: Any) -> tuple[Callable[[int], int] | None, Any] | None:
    """The dataset that another one shows a part of, and how an index leads there (``None``: unchanged)."""
    data = sys.modules["torch.utils.data"]
    if isinstance(dataset, data.Subset):
        indices = dataset.indices
        return (lambda index: int(indices[index])), dataset.dataset
    if type(dataset).__module__.startswith("datasets.") and hasattr(dataset, "_indices"):
        table = dataset._indices  # of huggingface/datasets: the rows that select, filter, shuffle and split left
        if table is None:
            return None
        column = table.column(0)
        return (lambda index: int(column[index].as_py())), _Rows(dataset._data.num_rows)
    for value in list(getattr(dataset, "__dict__", {}).values()):
        # a dataset of the user's that transforms what a Subset gives, index by index
        if isinstance(value, data.Subset) and length_of(value) == length_of(dataset):
            return None, value
    return None


class _Rows:
    def __init__(self, number: int) -> None:
        self.number = number

    def __len__(self) -> int:
        return self.number
