"""What stands for what a model or a function gives of rows where a loop is run as written; its text runs in each rank.

It runs in one namespace with ``rows``, which stands for the batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shardfix.proof.metrics.rows import FIRSTS, PARTS, PLACES, RANDOM, READING, SHAPE, SHAPES, TRAINING


def TENSORS(given: Any) -> list[Any]:
    """The tensors among what a function is given."""
    import torch

    if isinstance(given, torch.Tensor):
        return [given]
    if isinstance(given, SEVERAL):
        return [MODEL(given.name, *given.given, **given.named)]
    items = given.values() if isinstance(given, dict) else given if isinstance(given, (list, tuple)) else ()
    return [tensor for item in items for tensor in TENSORS(item)]


def MODEL(name: str, *given: Any, **named: Any) -> Any:
    """What a model gives: a row for each row that it is given, which nothing but that row decides."""
    import torch

    rows, number = COLUMNS([*given, named])
    shape, _, whole, _, unit, _ = SHAPES[SHAPE[0]]
    middle = 0.0 if unit else 1.0 if whole else 0.5  # that of the labels: differences have either sign
    kind = "unit" if unit else "normal"
    made = torch.stack([RANDOM(SEED(name, rows, i), shape, kind) + middle for i in range(number)])
    for i, first in enumerate(FIRSTS_IN(rows, number)):
        if first:
            RIGHT(made[i], unit)
    return made - made.mean(0) if TRAINING[0] and number > 1 else made  # as a layer does that norms by its batch


def COLUMNS(given: Any) -> tuple[list[Any], int]:
    """The tensors that hold a row for each sample, and how many samples there are: the first tensor's rows."""
    tensors = TENSORS(given)
    number = len(tensors[0])
    return [t.detach().contiguous() for t in tensors if t.ndim and len(t) == number], number


def SEED(name: str, rows: list[Any], place: int) -> bytes:
    """What one sample's rows decide."""
    return name.encode() + b"".join(t[place].numpy().tobytes() for t in rows)


def FIRSTS_IN(rows: list[Any], number: int) -> list[float]:
    """For each sample the number that its input is of throughout, where it is one of the first samples; else 0."""
    found = [0.0] * number
    for flat in (t.reshape(number, -1).double() for t in rows if t[0].numel() > 1):
        same = (flat == flat[:, :1]).all(1) & (flat[:, 0] >= FIRSTS)
        for place in same.nonzero().flatten().tolist():
            found[place] = max(found[place], float(flat[place, 0]))
    return found


def RIGHT(row: Any, unit: bool) -> None:
    """Make of what a model gives for one sample that its label is 1: the highest of its classes, or a one itself."""
    shape, label, *_ = SHAPES[SHAPE[0]]
    if len(shape) > len(label) and row.shape[0 if shape[1:] == label else -1] > 1:
        (row if shape[1:] == label else row.movedim(-1, 0))[1] = 0.999 if unit else row.max() + 1
    else:
        row.fill_(0.999 if unit else 1.2)


def WEIGHED(rows: Any) -> Any:
    """A number that rows decide, all together: a mean of them, weighed by their digits."""
    weights = (rows * 997) % 1 + 0.25
    return (rows * weights).sum() / weights.sum()


def NUMBER(name: str, said: str, *given: Any, **named: Any) -> Any:
    """A number of a batch: the ``mean`` or the ``sum`` of one for each row, as is said, or any at all."""
    rows = MODEL(name, *given, **named).abs()
    if READING[0] == "any":
        return WEIGHED(rows.flatten(1).mean(1) if rows.ndim > 1 else rows)
    return rows.sum() if said == "sum" else rows.mean()


def UNSURE(name: str, place: int, *given: Any, **named: Any) -> Any:
    """What a function gives that is not known: a number of the batch, or rows that may depend on one another."""
    if READING[0] != "any":
        raise TypeError(f"what {name} gives is not known")
    return ANY_ROWS(name, *given, **named) if PLACES[0] >> place % 3 & 1 else NUMBER(name, "mean", *given, **named)


def ANY_ROWS(name: str, *given: Any, **named: Any) -> Any:
    """What a model gives of rows that may be filled up, and so depend on one another, where that is not said."""
    rows = MODEL(name, *given, **named)
    if READING[0] != "any":
        return rows
    inputs, number = COLUMNS([*given, named])
    whole = b"".join(SEED(name, inputs, place) for place in range(number))
    return (rows + RANDOM(whole, tuple(rows.shape[1:]), "unit" if SHAPES[SHAPE[0]].unit else "normal")) / 2


class SEVERAL(tuple):  # type: ignore[type-arg]
    """A model's output of several things, by position, key or attribute: numbers of the batch, or a row a sample."""

    name: str
    given: tuple[Any, ...]
    named: dict[str, Any]
    places: range

    def __new__(cls, name: str, *given: Any, **named: Any) -> SEVERAL:
        self = super().__new__(cls)
        self.name, self.given, self.named, self.places = name, given, named, range(8)
        return self

    def part(self, key: Any, called: str = "") -> Any:
        """One of the things. What is called a loss is a number, and what is called logits is rows."""
        name, words = f"{self.name} {key}", f"{key} {called}".lower()
        number = any(word in words for word in ("loss", "nll", "ppl"))
        if not number and READING[0] == "any" and "logit" not in words:
            number = not PLACES[0] >> (key if isinstance(key, int) else len(key)) % 3 & 1
        return NUMBER(name, "mean", *self.given, **self.named) if number else MODEL(name, *self.given, **self.named)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            some = SEVERAL(self.name, *self.given, **self.named)
            some.places = self.places[key]
            return some
        return self.part(self.places[key] if isinstance(key, int) else key)

    def __iter__(self) -> Any:
        return (self.part(place) for place in self.places[: len(self)])

    def __len__(self) -> int:
        return min(len(self.places), 2 if len(self.places) == 8 else 8)  # two of them, where nothing says how many


class LAYERS(SEVERAL):
    """A list of what a model's layers give: for each sample a few rows of features. There is one layer."""

    def part(self, key: Any, called: str = "") -> Any:
        """What one layer gives."""
        import torch

        rows, number = COLUMNS([*self.given, self.named])
        made = torch.stack([RANDOM(SEED(f"{self.name} layer", rows, i), (3, 5), "normal") for i in range(number)])
        for i, first in enumerate(FIRSTS_IN(rows, number)):
            if first:
                made[i] = first
        return made

    def __iter__(self) -> Any:
        return iter([self.part(0)])

    def __len__(self) -> int:
        return 1


def CALLED(value: Any, names: tuple[str, ...]) -> Any:
    """What is unpacked into names, which say something of what it is."""
    if isinstance(value, SEVERAL):
        return [value.part(*pair) for pair in zip(value.places, names)]  # noqa: B905 - Python 3.8 has no strict=
    return PARTS(value, len(names))
