"""What stands for sums, meters and functions where an evaluation is run for its proof; its text runs in each rank.

A batch is a tensor of dataset indices, and every value is decided by these: the same samples give the same value
however they are batched, and other samples give another one. Names in capitals can't be names of the user's program.
What stands for a batch and for what a model gives is in ``rows`` and ``modelled``, which run in the same namespace.
"""

from __future__ import annotations

import sys
import zlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

READ: list[list[int]] = []


def BATCHES(loader: Any) -> Iterator[Any]:
    """The loader's batches, the indices in them written down."""
    for batch in loader:
        READ.append([int(index) for index in batch])
        yield batch


class REPLAYED:
    """A loader whose batches are given, by their indices."""

    def __init__(self, loader: Any, batches: list[tuple[int, ...]]) -> None:
        self.loader, self.batches = loader, batches

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Any]:
        import torch

        return map(torch.tensor, self.batches)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "loader":
            raise AttributeError(name)
        return getattr(self.loader, name)


def OF(name: str, index: int) -> int:
    """A small whole number for one sample; ``name`` tells the values of one loop apart."""
    return zlib.crc32(f"{name} {index}".encode()) % 7


def ROWS(name: str, batch: Any) -> list[int]:
    """A number for each sample, as a list."""
    return [OF(name, int(index)) for index in batch]


def COUNT(batch: Any) -> int:
    """How many samples the batch holds."""
    return len(batch)


def HITS(name: str, batch: Any) -> int:
    """How many samples of the batch are hits; the first ones are, since these are what fills up ranks."""
    return sum(index < 2 or OF(name, int(index)) % 2 for index in batch.tolist())


def SUM(name: str, batch: Any) -> float:
    """A fraction for each sample, summed over the batch."""
    return sum(row / 7 for row in ROWS(name, batch))


def MEAN(name: str, batch: Any) -> float:
    """The mean of the batch's fractions, as a loss gives it."""
    return SUM(name, batch) / len(batch)


def TENSOR(value: Any) -> Any:
    """A value as a tensor, for statements that call its methods."""
    import torch

    return torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)


def ARRAY(value: Any) -> Any:
    """A value as one of numpy's."""
    import numpy

    return numpy.array(value)


def JOIN(first: Any, second: Any) -> Any:
    """One after the other, along the first dimension; nothing yet, and the second alone."""
    if first is None or len(first) == 0:
        return second
    if isinstance(first, list):
        return first + list(second)
    if type(first).__module__ == "numpy":
        import numpy

        return numpy.concatenate([first, second])
    import torch

    return torch.cat([first, second])


def ADDED(first: Any, second: Any) -> Any:
    """A sum with the number that stands for what is not known: of lists, tuples and texts, that as one item of one."""
    if isinstance(second, (list, tuple, str)) and isinstance(first, int):
        first = str(first) if isinstance(second, str) else type(second)([first])
    elif isinstance(first, (list, tuple, str)) and isinstance(second, int):
        second = str(second) if isinstance(first, str) else type(first)([second])
    return first + second


class CALL:
    """What a function gives that is not run: what it is given decides it, and so does all that is made of it."""

    def __init__(self, name: str, *given: Any, **named: Any) -> None:
        self.told = [name, *given, *named.items()]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "told":
            raise AttributeError(name)
        return lambda *given, **named: CALL(name, self, *given, **named)

    def __getitem__(self, key: Any) -> CALL:
        return CALL("item", self, key)

    def __iter__(self) -> Any:
        if self.told[0] == "items":  # of a dict
            return iter([(CALL("key", self), CALL("value", self))])
        return iter([CALL("each", self)])

    def __float__(self) -> float:
        return float(len(self))

    def __len__(self) -> int:
        return zlib.crc32(repr(ROUNDED(PLAIN(self))).encode()) % 100 + 1

    def __array_ufunc__(self, function: Any, _: str, *given: Any, **named: Any) -> CALL:
        return CALL(function.__name__, *given, **named)  # numpy leaves its functions of numbers to this class

    def __hash__(self) -> int:
        return len(self)

    def __bool__(self) -> bool:
        return True


def CALL_OF_PAIRS(name: str, *given: Any) -> CALL:
    """A metric of predictions and labels: which belong together decides it, whatever their order."""
    columns = [PLAIN(value) for value in given]
    columns = [c[1] if len(c) == 2 and isinstance(c[0], str) else c for c in columns if isinstance(c, list)]
    if len(columns) < len(given) or len({len(column) for column in columns}) != 1:
        return CALL(name, *given)
    return CALL(name, sorted(map(list, zip(*columns)), key=repr))  # noqa: B905 - Python 3.8 has no strict=


def _operators() -> None:
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "gt", "ge", "eq", "ne"):
        for operator in (f"__{name}__", f"__r{name}__"):
            setattr(CALL, operator, lambda self, other, operator=operator: CALL(operator, self, other))
    for name in ("neg", "abs", "round"):
        setattr(CALL, f"__{name}__", lambda self, *given, name=name: CALL(name, self, *given))


_operators()


def TOKENS(ids: Any) -> Any:
    """A word for each id, whole numbers or not; of one id, its word."""
    ids = ids.tolist() if hasattr(ids, "tolist") else ids
    if isinstance(ids, (list, tuple)):
        return [TOKENS(item) for item in ids]
    return ids if isinstance(ids, str) else f"t{ids:.4g}"


def TEXT(ids: Any) -> str:
    """The words of one sample's ids, as a tokenizer decodes them."""
    words = TOKENS(ids)
    return words if isinstance(words, str) else " ".join(words)


def TEXTS(rows: Any) -> list[str]:
    """A text for each row of ids."""
    return [TEXT(row) for row in rows]


class METER:
    """A running average, as projects write them: an attribute for the sum, the count and their quotient."""

    def __init__(self, total: str = "sum", count: str = "count", average: str = "avg") -> None:
        self.attributes = (total, count, average)
        setattr(self, total, 0)
        setattr(self, count, 0)
        self.val = 0
        if average:
            setattr(self, average, 0)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "attributes" or self.attributes[2]:
            raise AttributeError(name)
        return self.quotient()  # an average that is worked out when it is read

    def quotient(self) -> Any:
        """The average."""
        total, count, _ = self.attributes
        return getattr(self, total) / getattr(self, count)

    def update(self, val: Any, n: Any = 1) -> None:
        """Add one value with its weight."""
        total, count, average = self.attributes
        self.val = val
        setattr(self, total, getattr(self, total) + val * n)
        setattr(self, count, getattr(self, count) + n)
        if average:
            setattr(self, average, self.quotient())

    def REDUCE(self, reduced: Any) -> None:
        """What the meter's own method does: sum both over the ranks."""
        total, count, average = self.attributes
        both = reduced(getattr(self, total), getattr(self, count))
        setattr(self, total, both[0])
        setattr(self, count, both[1])
        if average:
            setattr(self, average, self.quotient())


class LOGGER:
    """Running averages by name, each made when it is first told of a value."""

    def __init__(self, held_in: str) -> None:
        self.held: dict[str, METER] = defaultdict(lambda: METER("total", "count", ""))
        setattr(self, held_in, self.held)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "held" or name not in self.held:
            raise AttributeError(name)
        return self.held[name]

    def update(self, **values: Any) -> None:
        """Add one value to each, with the weight 1."""
        for name, value in values.items():
            self.held[name].update(value)

    def REDUCE(self, reduced: Any) -> None:
        """What the logger's own method does: sum each over the ranks."""
        for meter in self.held.values():
            meter.REDUCE(reduced)


class TELLER:
    """A metric that is told of rows: all pairs of them decide what it computes, in whatever order they came."""

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def tell(self, *given: Any, **named: Any) -> None:
        """Add the rows of one batch."""
        columns = [PLAIN(value) for value in (*given, *named.values())]
        columns = [c[1] if len(c) == 2 and isinstance(c[0], str) else c for c in columns]
        self.rows += [list(row) for row in zip(*columns)]  # noqa: B905 - Python 3.8 has no strict=

    add_batch = tell


def TOLD(values: dict[str, Any]) -> dict[str, Any]:
    """What came out, ready for JSON: values by name, and the indices of each batch that was read."""
    return {"values": {name: PLAIN(value) for name, value in values.items()}, "read": READ}


def ROUNDED(value: Any) -> Any:
    """A value in JSON's types without the last digits of its fractions, which the order of a sum decides."""
    if isinstance(value, float):
        return f"{value:.5g}"
    if isinstance(value, dict):
        return {key: ROUNDED(item) for key, item in value.items()}
    return [ROUNDED(item) for item in value] if isinstance(value, list) else value


def PLAIN(value: Any) -> Any:
    """A value in JSON's types; tensors and arrays with their type."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(value, torch.Tensor):
        return [f"{value.dtype} tensor", PLAIN(value.tolist())]
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return [f"{value.dtype} array", PLAIN(value.tolist())]
    if isinstance(value, METER):
        total, count, average = value.attributes
        read = PLAIN(getattr(value, average) if average else value.quotient())
        return {"sum": PLAIN(getattr(value, total)), "count": PLAIN(getattr(value, count)), "average": read}
    if hasattr(type(value), "ATTRIBUTES"):  # an averaging class of the project
        return {name: PLAIN(getattr(value, name)) for name in type(value).ATTRIBUTES if name}
    if isinstance(value, TELLER):
        return sorted(value.rows, key=repr)
    if isinstance(value, LOGGER):
        return PLAIN(dict(value.held))
    if isinstance(value, CALL):
        return {"called": value.told[0], "given": PLAIN(value.told[1:])}
    if isinstance(value, dict):
        keys = {key: repr(ROUNDED(PLAIN(key))) if isinstance(key, CALL) else str(key) for key in value}
        return {keys[key]: PLAIN(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [PLAIN(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else f"{type(value).__name__}"
