"""What stands for a model, a loss and a meter where an evaluation is run for its proof; its text runs in each rank.

A batch is a tensor of dataset indices, and every value is decided by these: the same samples give the same value
however they are batched, and other samples give another one. Names in capitals can't be names of the user's program.
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


# What a model may give and what labels and inputs it may have: the shape of one row of each, whether labels are whole
# numbers, whether what is given lies between 0 and 1. Eleven and three classes: few batches have so many samples.
SHAPES: list[tuple[tuple[int, ...], tuple[int, ...], bool, tuple[int, ...], bool]] = [
    (given, label, whole, taken, unit)
    for unit in (False, True)
    for given, label, whole, taken in (
        ((11,), (), True, (6,)),
        ((), (), False, (6,)),
        ((1,), (1,), False, (6,)),
        ((3,), (), True, (6,)),
        ((3, 4, 4), (4, 4), True, (3, 4, 4)),
        ((3,), (3,), False, (6,)),
        ((1, 4, 4), (1, 4, 4), False, (3, 4, 4)),
        ((5, 3), (5,), True, (5,)),
        ((3, 4, 4), (3, 4, 4), False, (3, 4, 4)),
        ((1,), (), True, (6,)),
        ((), (), True, (6,)),
    )
]
SHAPE: list[int] = [0]
TRAINING: list[bool] = [False]  # whether the model is left in training


def RANDOM(seed: str | bytes, shape: tuple[int, ...], kind: str) -> Any:
    """Numbers that the seed decides: ``normal``, ``unit`` (0 to 1), ``whole`` (0, 1, 2) or ``truth`` (0.0, 1.0)."""
    import torch

    generator = torch.Generator().manual_seed(zlib.crc32(seed if isinstance(seed, bytes) else seed.encode()))
    if kind == "normal":
        return torch.randn(shape, generator=generator)
    if kind == "unit":
        return torch.rand(shape, generator=generator)
    drawn = torch.randint(0, 3 if kind == "whole" else 2, shape, generator=generator)
    return drawn if kind == "whole" else drawn.float()


# A sampler that repeats samples repeats the first ones. These the model gets right, so that a count of what is right
# shows that they are counted twice: their inputs are of this number and the next ones throughout, their label is 1.
FIRST = 2
FIRSTS = 7.0


class GIVEN(dict[Any, Any]):
    """A batch, by position or by key: inputs and labels that the indices decide."""

    def __init__(self, indices: Any) -> None:
        super().__init__()
        self.indices = [int(index) for index in indices]
        for key in ("input_ids", "attention_mask", "labels"):
            self[key]

    def __missing__(self, key: Any) -> Any:
        import torch

        if not isinstance(key, (int, str)):
            raise TypeError(f"a batch has no {key!r}")
        _, label, whole, taken, _ = SHAPES[SHAPE[0]]
        word = str(key).lower()
        labels = (
            key not in (0, -2) if isinstance(key, int) else any(w in word for w in ("label", "target", "mask", "y"))
        )
        if word in ("input_ids", "attention_mask", "token_type_ids"):
            rows = [RANDOM(f"{key} {i}", (5,), "whole") + 1 for i in self.indices]
            rows = [torch.full_like(row, FIRSTS + i) if i < FIRST else row for i, row in zip(self.indices, rows)]  # noqa: B905
        elif labels:
            rows = [RANDOM(f"label {key} {i}", label, "whole" if whole else "truth") for i in self.indices]
            rows = [torch.ones_like(row) if i < FIRST else row for i, row in zip(self.indices, rows)]  # noqa: B905
        else:
            rows = [RANDOM(f"{key} {i}", taken, "normal") for i in self.indices]
            rows = [torch.full_like(row, FIRSTS + i) if i < FIRST else row for i, row in zip(self.indices, rows)]  # noqa: B905
        self[key] = torch.stack(rows)
        return self[key]

    def __iter__(self) -> Any:
        return iter([self[place] for place in range(8)])

    def keys(self) -> Any:
        """The keys that a tokenizer's batches have."""
        return {"input_ids": 0, "attention_mask": 0, "labels": 0}.keys()

    def items(self) -> Any:
        """These keys and their rows."""
        return [(key, self[key]) for key in self.keys()]

    def values(self) -> Any:
        """The rows of these keys."""
        return [self[key] for key in self.keys()]

    def to(self, *where: Any) -> GIVEN:
        """The batch itself: it has no device."""
        return self


def PARTS(value: Any, number: int) -> Any:
    """What is unpacked into so many names."""
    return [value[place] for place in range(number)] if isinstance(value, GIVEN) else value


def FIELD(value: Any, name: str) -> Any:
    """An attribute of a batch, of what a model gives, or of a value of torch or numpy."""
    import torch

    if isinstance(value, GIVEN):
        return value[name]
    if isinstance(value, torch.Tensor) and name in ("logits", "last_hidden_state", "prediction_logits", "out"):
        return value
    if isinstance(value, torch.Tensor) and name == "loss":
        return value.float().abs().flatten(1).mean(1).mean() if value.ndim > 1 else value.float().abs().mean()
    known = ("shape", "T", "mT", "dtype", "device", "ndim", "data", "values", "indices", "size", "real")
    if name in known or isinstance(value, (METER, LOGGER)):
        return getattr(value, name)
    raise AttributeError(name)


def LOOKUP(name: str, key: Any) -> str:
    """What a table that is not run holds for a key."""
    return f"{name}[{PLAIN(key)}]"


def TENSORS(given: Any) -> list[Any]:
    """The tensors among what a function is given."""
    import torch

    if isinstance(given, torch.Tensor):
        return [given]
    items = given.values() if isinstance(given, dict) else given if isinstance(given, (list, tuple)) else ()
    return [tensor for item in items for tensor in TENSORS(item)]


def MODEL(name: str, *given: Any, **named: Any) -> Any:
    """What a model gives: a row for each row that it is given, which nothing but that row decides."""
    import torch

    tensors = TENSORS([*given, named])
    number = len(tensors[0])
    rows = [t.detach().contiguous() for t in tensors if t.ndim and len(t) == number]
    shape, _, whole, _, unit = SHAPES[SHAPE[0]]
    middle = 0.0 if unit else 1.0 if whole else 0.5  # that of the labels: differences have either sign
    seeds = [name.encode() + b"".join(t[i].numpy().tobytes() for t in rows) for i in range(number)]
    made = torch.stack([RANDOM(seed, shape, "unit" if unit else "normal") + middle for seed in seeds])
    for i in range(number):
        if any(t[i].numel() > 1 and bool((t[i] == t[i].flatten()[0]).all()) and t[i].max() >= FIRSTS for t in rows):
            RIGHT(made[i], unit)
    return made - made.mean(0) if TRAINING[0] and number > 1 else made  # as a layer does that norms by its batch


def RIGHT(row: Any, unit: bool) -> None:
    """Make of what a model gives for one sample that its label is 1: the highest of its classes, or a one itself."""
    shape, label, _, _, _ = SHAPES[SHAPE[0]]
    if len(shape) > len(label) and row.shape[0 if shape[1:] == label else -1] > 1:
        (row if shape[1:] == label else row.movedim(-1, 0))[1] = 0.999 if unit else row.max() + 1
    else:
        row.fill_(0.999 if unit else 1.2)


def SUM_OF(name: str, *given: Any, **named: Any) -> Any:
    """A number for each row, summed."""
    rows = MODEL(name, *given, **named)
    return rows.abs().sum()


def MEAN_OF(name: str, *given: Any, **named: Any) -> Any:
    """The mean of a number for each row, as a loss gives it."""
    return MODEL(name, *given, **named).abs().mean()


class CALL:
    """What a function gives that is not run: what it is given decides it, and so does all that is made of it."""

    def __init__(self, name: str, *given: Any) -> None:
        self.told = [name, *given]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "told":
            raise AttributeError(name)
        return lambda *given: CALL(name, self, *given)

    def __getitem__(self, key: Any) -> CALL:
        return CALL("item", self, key)

    def __iter__(self) -> Any:
        return iter([CALL("items", self)])

    def __float__(self) -> float:
        return float(len(self))

    def __len__(self) -> int:
        return zlib.crc32(repr(ROUNDED(PLAIN(self))).encode()) % 100 + 1

    __array_ufunc__ = None  # numpy leaves operators to this class
    __hash__ = None  # type: ignore[assignment]

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
        return {str(key): PLAIN(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [PLAIN(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else f"{type(value).__name__}"
