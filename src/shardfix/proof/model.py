"""The proof's data: what is run (recipes), what was read (observations), and what follows from it (proofs)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from shardfix.analysis.model import Check

Kind = Literal["fault", "redundant", "stands"]
Group = Literal["always", "optional"]
Variant = Literal["before", "after"]
Verdict = Literal["proven", "refuted", "unproven"]

CONDITIONS = ("disjoint", "covered", "same steps", "epochs", "preserved", "one process", "control")


@dataclass(frozen=True, slots=True)
class Program:
    """A runnable slice of a training script: Python statements.

    ``build`` binds ``loader``, as it is iterated (the statements call ``accelerator.prepare`` themselves).
    ``each_epoch`` runs before each epoch's pass with ``epoch`` bound. The names that both may use are those of
    ``program_names.namespace``.
    """

    build: str
    each_epoch: str = ""


@dataclass(frozen=True, slots=True)
class StandIn:
    """A value that the source does not decide and that the recipe had to choose."""

    expression: str
    value: str


@dataclass(frozen=True, slots=True)
class Recipe:
    """One site to be proven: the program as it was, as it is now, and what is claimed about them.

    ``expect`` is the fault that ``before`` must show: ``unsharded``, ``sharded-twice``, ``frozen-epoch``,
    ``shuffled-eval``, ``per-rank-seed``, ``raises``, or empty for any. ``unknown`` names the booleans of
    ``UNKNOWN`` that are tried both ways. ``group`` says whether the program always runs in a process group
    (one process is then a group of one, where it needs one), or must also run without. ``single_pass``: the program
    reads the loader once, so there is no second epoch whose order could differ. ``guards`` are those of ``unknown``
    that decide only whether the epoch is told. ``doubts`` says of causes (an empty code: of all) why a loader that
    shows them may be meant so: then it is left open. ``several``: it is built in several processes only.

    ``imports`` makes the programs trusted: they may import, and use every builtin, with these folders first on
    ``sys.path`` (the last one is the folder they run in). None: only the names of ``program_names.namespace``.
    ``uneven``: the ranks may make other numbers of steps, since nothing that the loop runs may wait for the others.
    ``worlds`` are the numbers of ranks to run it in, where its data-parallel groups are smaller than the world.
    ``prelude`` holds the statements that must run before ``build`` can be asked anything (imports): what they raise
    says nothing about the loader.
    """

    site: str
    owner: str
    role: str
    kind: Kind
    before: Program | None
    after: Program
    needs_accelerate: bool = False
    unknown: tuple[str, ...] = ()
    stand_ins: tuple[StandIn, ...] = ()
    expect: str = ""
    feeds_metric: bool = False
    padding_removed: bool = False
    group: Group = "always"
    single_pass: bool = False
    guards: tuple[str, ...] = ()
    doubts: tuple[tuple[str, str], ...] = ()
    several: bool = False
    imports: tuple[str, ...] | None = None
    prelude: str = ""
    worlds: tuple[int, ...] = ()
    uneven: bool = False


@dataclass(frozen=True, slots=True)
class RankRun:
    """What one rank read: epochs x batches x dataset indices; why it ended early, if it did.

    ``where`` is the last line of the folders in ``Recipe.imports`` that an error went through (``path:line``).
    ``share`` is the number of shares that its sampler makes, and which of them it takes.
    """

    rank: int
    epochs: tuple[tuple[tuple[int, ...], ...], ...] = ()
    error: str = ""
    stopped: str = ""
    where: str = ""
    share: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Declared:
    """What the built loader says of itself on the first rank that built it; ``None`` where it says nothing.

    ``draws`` is the length of its sampler, ``prepared`` whether accelerate made it. ``even`` and ``dispatched`` are
    accelerate's ``even_batches`` and ``dispatch_batches``; ``own_sampler`` says that its sampler is the program's own
    class, which may fill its batches.
    """

    batch_size: int | None = None
    drop_last: bool = False
    sampler: str = ""
    draws: int | None = None
    shuffled: bool | None = None
    replacement: bool = False
    sampler_drop_last: bool = False
    prepared: bool = False
    even: bool = True
    dispatched: bool = False
    own_sampler: bool = False


@dataclass(frozen=True, slots=True)
class Observation:
    """One run of one variant. ``world`` is 1 for a single process, ``grouped`` says if it had a process group."""

    variant: Variant
    world: int
    grouped: bool
    size: int
    unknown: tuple[tuple[str, bool], ...]
    ranks: tuple[RankRun, ...]
    declared: Declared = field(default_factory=Declared)


@dataclass(frozen=True, slots=True)
class ShardMap:
    """What every rank read in the first epoch (ranks x batches x indices), and what there was to read.

    ``padding`` is the number of repeated visits that the owner's rule accounts for, ``dropped`` the number of
    samples that ``drop_last`` leaves out. ``orders`` holds the first indices that rank 0 reads in each epoch, for a
    loader that shuffles. ``epoch`` is the one that is shown; ``names`` are those of the rows where these are not ranks
    0, 1, ..; the items of a ``stream`` are numbered in the order in which they were first seen.
    """

    world: int
    size: int
    ranks: tuple[tuple[tuple[int, ...], ...], ...]
    expected: tuple[int, ...]
    padding: int = 0
    dropped: int = 0
    orders: tuple[tuple[int, ...], ...] = ()
    epoch: int = 0
    names: tuple[str, ...] = ()
    stream: bool = False


@dataclass(frozen=True, slots=True)
class Proof:
    """The verdict on one site.

    ``conditions`` maps each of ``CONDITIONS`` to ``held``, ``held: ..``, ``failed: ..`` or ``not judged: ..``.
    ``padded`` counts the repeated visits of one epoch at the ragged size. ``control`` says what the original did in
    the same run. The maps show the size at which the result first fails, else a multiple of ranks times batch size.
    ``cause`` is a code of ``causes.CAUSES`` where the site is refuted. ``told`` is what a reader of a watched loader
    should know beside the verdict: who reads it, and what was not consumed. ``stronger`` is the command that would
    prove an unproven site in a stronger way; empty where none is known. ``checklist`` holds the answers to the seven
    questions where the loader was watched; those of a recipe stand in its site's report.
    """

    site: str
    verdict: Verdict
    reasons: tuple[str, ...]
    conditions: Mapping[str, str]
    padded: int = 0
    control: str = ""
    stand_ins: tuple[StandIn, ...] = ()
    map_before: ShardMap | None = None
    map_after: ShardMap | None = None
    cause: str = ""
    told: tuple[str, ...] = ()
    stronger: str = ""
    checklist: tuple[Check, ...] = ()


def recipe_to_json(recipe: Recipe) -> dict[str, Any]:
    return asdict(recipe)


def observation_from_json(data: Mapping[str, Any]) -> Observation:
    return Observation(
        variant=data["variant"],
        world=data["world"],
        grouped=data["grouped"],
        size=data["size"],
        unknown=tuple((name, value) for name, value in data["unknown"]),
        ranks=tuple(
            RankRun(
                rank=run["rank"],
                epochs=tuple(tuple(tuple(batch) for batch in epoch) for epoch in run["epochs"]),
                error=run["error"],
                stopped=run["stopped"],
                where=run.get("where", ""),
                share=tuple(run["share"]) if run.get("share") else None,
            )
            for run in data["ranks"]
        ),
        declared=Declared(**data["declared"]),
    )


def proof_to_json(proof: Proof) -> dict[str, Any]:
    data = asdict(proof)
    data["conditions"] = dict(proof.conditions)
    if not proof.checklist:
        del data["checklist"]
    return data
