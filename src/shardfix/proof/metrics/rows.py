"""What stands for a batch where a loop is run as written, and how what is not seen is read; its text runs in each rank.

Its names and those of ``stand_ins`` and ``modelled`` are one namespace there, so none imports the others where it runs.
"""

from __future__ import annotations

import functools
import zlib
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from shardfix.proof.metrics.modelled import SEVERAL, WEIGHED
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
    return DRAWN(seed if isinstance(seed, bytes) else seed.encode(), shape, kind).clone()


@functools.lru_cache(maxsize=1 << 14)  # the same samples come in each run, and a generator for each is what takes long
def DRAWN(seed: bytes, shape: tuple[int, ...], kind: str) -> Any:
    """These numbers, which nobody may change."""
    import torch

    generator = torch.Generator().manual_seed(zlib.crc32(seed))
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
    if isinstance(value, ENTRY):
        return ENTRY(f"{value}.{name}")
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


class ENTRY(str):
    """What a table that is not run holds for a key: its fields, and the number it may be, go by that."""

    __slots__ = ()

    def __int__(self) -> int:
        return zlib.crc32(self.encode()) % 1000

    def __float__(self) -> float:
        return float(int(self))


def LOOKUP(name: str, key: Any) -> ENTRY:
    """What a table that is not run holds for a key."""
    return ENTRY(f"{name}[{PLAIN(key)}]")
