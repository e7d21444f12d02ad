"""Who chooses how what an evaluation's source does not show is read: the reading that takes least for granted first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shardfix.proof.metrics.judge import in_its_names, resting
from shardfix.proof.metrics.model import Form, MetricProof, MetricRecipe
from shardfix.proof.model import StandIn

PROBE = 24
_FITS = """
__value__ = None
for _group in GROUPS({text!r}, {loose!r})[{first}:]:
    for _form in FORMS({text!r}, _group):
        TAKE(*_form)
        try:
            exec(compile({text!r}, "<evaluation>", "exec"), globals())
        except Exception as _error:
            __value__ = __value__ or f"{{type(_error).__name__}}: {{_error}}"
            if isinstance(_error, NameError):
                break
            continue
        __value__ = [GROUPS({text!r}, {loose!r}).index(_group), *_form, _group[1]]
        break
    if isinstance(__value__, list) or (__value__ or "").startswith(("NameError", "UnboundLocalError")):
        break  # no reading gives a name a value
"""

Cell = Callable[[MetricRecipe, Any, str, int, bool, int], dict[str, Any]]


@dataclass
class Readings:
    """One recipe while its readings are tried, one after the other.

    Attributes:
        recipe: with the reading that is to be proven.
        group: the place of that reading among all.
        wider: the proof by a reading that takes less for granted, where that does not hold.
        proof: the verdict, once it is not ``open``.
    """

    asked: MetricRecipe
    recipe: MetricRecipe = field(init=False)
    group: int = 0
    wider: MetricProof | None = None
    wider_form: Form | None = None
    open: bool = True
    proof: MetricProof = field(init=False)

    def __post_init__(self) -> None:
        self.recipe = self.asked

    def fits(self, found: Any, error: str) -> None:
        """Take what was found to run, or the stand-ins for sums, which prove nothing."""
        if isinstance(found, list):
            self.group, place, reading, places, lists = found
            self.recipe = _read_as(self.asked, Form(place, reading, places, lists))
        elif self.wider is not None:
            self.settle(replace(self.wider, verdict="unproven"))
        elif self.asked.otherwise is not None:
            why = f"the loop can't be run as it is written, on rows that stand for a model's: {in_its_names(error)}"
            self.recipe = replace(self.asked.otherwise, assumed=(why, *self.asked.otherwise.assumed))

    def judged(self, proof: MetricProof) -> None:
        """Take note of a proof: one that holds is the verdict, else a narrower reading is tried."""
        if not self.open:
            return
        form = self.recipe.form
        if form is None or (proof.verdict == "proven" and self.wider is None):
            self.settle(proof)
        elif proof.verdict == "proven" and self.wider is not None:
            left = resting(_taken(self.recipe, self.wider_form))
            self.settle(replace(proof, verdict="unproven", reasons=(left, *self.wider.reasons[:1]), told=()))
        elif proof.verdict == "unproven" or not _may_be_narrower(form):
            self.settle(proof)
        else:
            self.wider, self.wider_form = self.wider or proof, self.wider_form or form
            self.group += 1

    def settle(self, proof: MetricProof) -> None:
        """The verdict."""
        self.proof, self.open = proof, False


def fit(readings: Sequence[Readings], answers: Any, cell: Cell, ways: Callable[[MetricRecipe], Sequence[bool]]) -> None:
    """Find for each recipe the first of the readings that are left with which its original runs."""
    tried = [(r, grouped) for r in readings if r.asked.rows for grouped in ways(r.asked)]
    cells = [
        cell(
            r.asked,
            "before",
            _FITS.format(text=r.asked.before.evaluate, loose=r.asked.loose, first=r.group),
            1,
            grouped,
            PROBE,
        )
        for r, grouped in tried
    ]
    found: dict[int, Any] = {}
    errors: dict[int, str] = {}
    for (r, _), ranks in zip(tried, answers(cells) if cells else [], strict=True):
        value = ranks[0]["value"] if ranks else None
        if isinstance(value, list):
            found.setdefault(id(r), value)
        elif ranks:
            errors.setdefault(id(r), value or ranks[0]["error"] or ranks[0]["stopped"])
    for r in readings:
        if r.asked.rows:
            r.fits(found.get(id(r)), errors.get(id(r), ""))


def _read_as(recipe: MetricRecipe, form: Form) -> MetricRecipe:
    """The recipe with one reading, and what it then rests on."""
    first = f"TAKE({form.place}, {form.reading!r}, {form.places})\n"
    before, after = (replace(p, evaluate=first + p.evaluate) for p in (recipe.before, recipe.after))
    assumed, stand_ins = recipe.assumed, recipe.stand_ins
    if form.by_batch:
        texts = dict(recipe.by_batch_only)
        stand_ins = tuple(StandIn(s.expression, texts.get(s.expression, s.value)) for s in stand_ins)
        named = {s.expression for s in stand_ins}
        stand_ins += tuple(StandIn(text, value) for text, value in texts.items() if text not in named)
    else:
        assumed = (*assumed, *recipe.numbers)
    return replace(recipe, before=before, after=after, form=form, assumed=assumed, stand_ins=stand_ins)


def _may_be_narrower(form: Form) -> bool:
    """Whether a reading takes less for granted than another one."""
    return form.by_batch or form.lists == "ragged"


def _taken(recipe: MetricRecipe, wider: Form | None) -> str:
    """What a reading takes for granted that another one does not."""
    if wider is not None and wider.by_batch and recipe.form is not None and not recipe.form.by_batch:
        return next(iter(recipe.numbers), "what is not seen gives a row for each sample, by that sample alone")
    return "the lists of all samples are of one length"
