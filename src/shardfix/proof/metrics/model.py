"""What is run to prove a metric, what each rank worked out, and the verdict on it: data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shardfix.proof.model import Group, StandIn, Variant, Verdict


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A runnable slice of an evaluation: Python statements.

    ``build`` binds ``loader``, as it is iterated. ``evaluate`` reads it and binds ``VALUES``, a dict of what is
    compared by name. Both may use the names of ``worker.namespace`` and of ``stand_ins``, and ``unpadded``, ``reduced``
    and ``in_order``.
    """

    build: str
    evaluate: str


@dataclass(frozen=True, slots=True)
class Form:
    """How what is not seen is read where rows stand for it: see ``rows.FORMS``. ``lists``: the fields of samples."""

    place: int
    reading: str
    places: int
    lists: str

    @property
    def by_batch(self) -> bool:
        """Whether what is not seen is decided by its whole batch, in whatever way."""
        return self.reading == "any"


@dataclass(frozen=True, slots=True)
class MetricRecipe:
    """One evaluation to be proven: as it was and as it is.

    ``weighted`` names the values that are told to be means over batches: where the last batch is ragged, one process
    weighs it like a full one, and several ranks have other batches. Only a change that is offered as unsafe for that
    reason has any. ``group``: see ``Recipe``. ``assumed`` is what the values hold only by, in words: with any of it
    nothing is proven. ``told`` is what was not run. ``rows``: the loop is run as it is written, on rows that stand for
    a batch and for what a model gives; ``otherwise`` is then the recipe with stand-ins for its sums, for rows may not
    have the shape that its program needs. ``accelerate``: the programs need it. ``stands``: the code is judged as it
    stands, so both are the same and what it gives in one process is what it is to give on several. ``partial``: the
    change mends some of the values; what it does not touch is left open where it was wrong. ``length``: the number of
    samples, where the source says it. ``repeated``: the call that gathers a batch's mean once for each of its samples.

    ``loose``: what the source does not show may be any value of its batch, for weighted values are held against what
    one process makes of the same batches; ``numbers`` is what they hold only by where that is not so, and
    ``by_batch_only`` what stands for calls where it is. ``form``: the reading of what is not seen that was taken.
    ``on_first`` names the values that the program gives the first rank alone: on the others they may be any, or none.
    """

    site: str
    before: Evaluation
    after: Evaluation
    stand_ins: tuple[StandIn, ...] = ()
    weighted: tuple[str, ...] = ()
    group: Group = "optional"
    assumed: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    rows: bool = False
    accelerate: bool = False
    stands: bool = False
    partial: bool = False
    length: int | None = None
    repeated: str = ""
    loose: bool = False
    numbers: tuple[str, ...] = ()
    by_batch_only: tuple[tuple[str, str], ...] = ()
    form: Form | None = None
    on_first: tuple[str, ...] = ()
    otherwise: MetricRecipe | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """What one rank worked out: values by name, the indices of each batch it read; why it did not, if so."""

    rank: int
    values: Mapping[str, Any] = field(default_factory=dict)
    read: tuple[tuple[int, ...], ...] = ()
    error: str = ""
    stopped: str = ""


@dataclass(frozen=True, slots=True)
class MetricRun:
    """One run of one variant on ``size`` samples, with batches of ``batch_size``.

    ``again`` is what the original gives in one process of the batches that all its ranks read.
    """

    variant: Variant
    world: int
    grouped: bool
    size: int
    batch_size: int
    ranks: tuple[Measured, ...]
    again: Measured | None = None

    @property
    def even(self) -> bool:
        """Whether each rank's batches are all full, so that means over batches are means over samples."""
        return self.size % (self.world * self.batch_size) == 0


@dataclass(frozen=True, slots=True)
class MetricProof:
    """The verdict on one metric. ``told`` is what a reader should know beside it."""

    site: str
    verdict: Verdict
    reasons: tuple[str, ...]
    control: str = ""
    told: tuple[str, ...] = ()
    stand_ins: tuple[StandIn, ...] = ()
