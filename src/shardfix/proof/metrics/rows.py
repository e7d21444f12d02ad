"""What stands for a batch and for what a model gives of it where a loop is run as written; its text runs in each rank.

Its names and those of ``stand_ins`` are one namespace there, so neither imports the other where it runs.
"""

from __future__ import annotations

import zlib
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from shardfix.proof.metrics.stand_ins import LOGGER, METER, PLAIN


class FORM(NamedTuple):
    """One reading of what is not seen: the shapes of one row each, and how the fields of one sample are.

    ``given`` is the shape of what a model gives, ``label`` of a label, ``taken`` of an input; ``whole``: whether labels
    are whole numbers; ``unit``: whether what is given lies between 0 and 1. ``fields`` of samples that are not collated
    are ``ragged`` lists, of unequal lengths, ``plain`` ones of equal lengths (and numbers), or tensors (``rows``).
    """

    given: tuple[int, ...]
    label: tuple[int, ...]
    whole: bool
    taken: tuple[int, ...]
    unit: bool
    fields: str


# Eleven and three classes: few batches have so many samples. Plain fields stand behind: only samples have them.
SHAPES: list[FORM] = [
    FORM(given, label, whole, taken, unit, fields)
    for fields in ("rows", "ragged", "plain")
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


READING: list[str] = ["said"]  # or "any": what is not seen is decided by the whole batch, in whatever way
PLACES: list[int] = [0]  # then: which of the things that are not seen are rows, a bit for each; else numbers
_LISTS = ("ragged", "plain", "rows")


def GROUPS(text: str, loose: bool) -> list[tuple[str, str]]:
    """How what is not seen may be read, and the fields of samples: what takes the least for granted first."""
    fields = _LISTS if "EXAMPLES(" in text else ("rows",)
    unseen = any(word in text for word in ("NUMBER(", "ANY_ROWS(", "UNSURE(", "SEVERAL(", ", 'loss')"))
    readings = ("any", "said") if loose and unseen else ("said",)
    return [(reading, lists) for reading in readings for lists in fields]


def FORMS(text: str, group: tuple[str, str]) -> list[tuple[int, str, int]]:
    """All readings of one group, to be tried in order until statements run with one."""
    reading, lists = group
    unsure = range(8) if reading == "any" and ("SEVERAL(" in text or "UNSURE(" in text) else (0,)
    shapes = [place for place, form in enumerate(SHAPES) if form.fields == lists]
    return [(place, reading, bits) for bits in unsure for place in shapes]


def TAKE(place: int, reading: str, places: int) -> None:
    """Read what is not seen like that from here on."""
    SHAPE[0], READING[0], PLACES[0] = place, reading, places


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


def ROW(key: Any, index: int) -> Any:
    """One sample's row of an input or of labels, by its place or key."""
    import torch

    if not isinstance(key, (int, str)):
        raise TypeError(f"a batch has no {key!r}")
    _, label, whole, taken, _, _ = SHAPES[SHAPE[0]]
    word = str(key).lower()
    labels = key not in (0, -2) if isinstance(key, int) else any(w in word for w in ("label", "target", "mask", "y"))
    if word in ("input_ids", "attention_mask", "token_type_ids") or (word.endswith("ids") and not labels):
        row = RANDOM(f"{key} {index}", (5,), "whole") + 1
    elif labels:
        row = RANDOM(f"label {key} {index}", label, "whole" if whole else "truth")
        return torch.ones_like(row) if index < FIRST else row
    else:
        row = RANDOM(f"{key} {index}", taken, "normal")
    return torch.full_like(row, FIRSTS + index) if index < FIRST else row


class GIVEN(dict[Any, Any]):
    """A batch, by position or by key: inputs and labels that the indices decide.

    Args:
        width: how many parts it has where all of them are taken. ``named``: keys beside those of a tokenizer.
    """

    def __init__(self, indices: Any, width: int = 8, named: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.width, self.named = width, ("input_ids", "attention_mask", "labels", *named)
        self.indices = [int(index) for index in indices]
        for key in self.named:
            self[key]

    def __missing__(self, key: Any) -> Any:
        import torch

        self[key] = torch.stack([ROW(key, index) for index in self.indices])
        return self[key]

    def __iter__(self) -> Any:
        return iter([self[place] for place in range(self.width)])

    def __getattr__(self, name: str) -> Any:
        """``x.size(0)``, ``x.shape[0]`` of a batch that is one tensor: how many samples it has."""
        if name not in ("size", "shape"):
            raise AttributeError(f"a batch that stands for samples has no `{name}`")
        shape = (len(self.indices),)
        return shape if name == "shape" else lambda dimension: shape[dimension]

    def keys(self) -> Any:
        """The keys that a tokenizer's batches have, and those that the program reads."""
        return dict.fromkeys(self.named).keys()

    def items(self) -> Any:
        """These keys and their rows."""
        return [(key, self[key]) for key in self.keys()]

    def values(self) -> Any:
        """The rows of these keys."""
        return [self[key] for key in self.keys()]

    def to(self, *where: Any) -> GIVEN:
        """The batch itself: it has no device."""
        return self


class SAMPLE(GIVEN):
    """One sample of a batch that is not collated: its fields, by position, key or attribute."""

    def __init__(self, index: int) -> None:
        super().__init__([index])

    def __missing__(self, key: Any) -> Any:
        row, fields = ROW(key, self.indices[0]), SHAPES[SHAPE[0]].fields
        if fields == "ragged" and row.ndim and self.indices[0] >= FIRST:
            row = row[: len(row) - self.indices[0] % 3]
        self[key] = row if fields == "rows" else row.tolist()
        return self[key]


def EXAMPLES(batch: Any) -> list[SAMPLE]:
    """A batch that is not collated: the list of its samples."""
    return [SAMPLE(int(index)) for index in batch]


def PARTS(value: Any, number: int) -> Any:
    """What is unpacked into so many names."""
    if isinstance(value, SEVERAL):
        return [value.part(place) for place in value.places[:number]]
    if isinstance(value, zip):  # `zip(*samples)`: as many columns as are asked for
        return list(islice(value, number))
    return [value[place] for place in range(number)] if isinstance(value, GIVEN) else value


def FITTED(value: Any, names: Any) -> Any:
    """What is unpacked into names, which may be tuples of names."""
    if not isinstance(names, tuple):
        return value
    parts = list(PARTS(value, len(names)))
    return [FITTED(*pair) for pair in zip(parts, names)] if len(parts) == len(names) else parts  # noqa: B905


def EACH(values: Any, names: Any) -> Any:
    """One item after the other, each to be unpacked into names."""
    return (FITTED(value, names) for value in values)


def FIELD(value: Any, name: str) -> Any:
    """An attribute of a batch, of what a model gives, or of a value of torch or numpy."""
    import torch

    if isinstance(value, GIVEN):
        return value[name]
    if isinstance(value, SEVERAL):
        return value.part(name)
    if isinstance(value, torch.Tensor) and name == "loss" and READING[0] == "any":
        return WEIGHED(value.detach().abs().flatten(1).mean(1) if value.ndim > 1 else value.detach().abs())
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
    for i in range(number):
        if FIRSTS_IN(rows, i):
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


def FIRSTS_IN(rows: list[Any], place: int) -> float:
    """The number that one sample's input is of throughout, where it is one of the first samples; else 0."""
    return max(
        (
            float(t[place].max())
            for t in rows
            if t[place].numel() > 1 and bool((t[place] == t[place].flatten()[0]).all()) and t[place].max() >= FIRSTS
        ),
        default=0.0,
    )


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


class LAYERS(SEVERAL):
    """A list of what a model's layers give: for each sample a few rows of features. There is one layer."""

    def part(self, key: Any, called: str = "") -> Any:
        """What one layer gives."""
        import torch

        rows, number = COLUMNS([*self.given, self.named])
        made = torch.stack([RANDOM(SEED(f"{self.name} layer", rows, i), (3, 5), "normal") for i in range(number)])
        for i in range(number):
            if FIRSTS_IN(rows, i):
                made[i] = FIRSTS_IN(rows, i)
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
