"""The words of the analysis, as data: locations, owners, samplers, findings, changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from shardfix.rewrite.edits import Edit

Role = Literal["train", "eval", "unknown"]
Owner = Literal[
    "accelerate",
    "ddp",
    "hf-trainer",
    "single",
    "fabric",
    "lightning",
    "ray",
    "ignite",
    "composer",
    "deepspeed",
    "horovod",
    "xla",
    "jax",
    "mesh",
    "mmengine",
    "pyg",
    "torchdata",
    "webdataset",
    "dgl",
    "dali",
    "other",
    "self",
    "unknown",
]
Tier = Literal["safe", "cosmetic", "unsafe", "report"]
Target = Literal["auto", "accelerate", "ddp"]
Verdict = Literal["edit", "right", "refused", "not-ours", "kept"]


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A place in a file: path relative to the project root, 1-based line, 1-based column in characters."""

    path: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Evidence:
    """A line of the source and what it shows."""

    location: Location
    text: str


@dataclass(frozen=True, slots=True)
class Launch:
    """A line outside of Python that starts a script.

    Args:
        path: the script's project-relative path.
        function: the function that a console script calls, else empty: the file is run as a script.
        several: whether the line starts it in several processes (torchrun, ``accelerate launch``, ``srun``, ...).
        evidence: the line.
    """

    path: str
    function: str
    several: bool
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong or noteworthy at a site; a refusal or a hazard carries what the user can do."""

    code: str
    location: Location
    message: str
    evidence: tuple[Evidence, ...] = ()
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """Edits, in one or more files, that are right only together: the unit of proof, refusal and selection.

    ``otherwise`` is the part of them that is right by itself, and made where the whole is not wanted or not kept.
    """

    site: Location
    codemod: str
    codes: tuple[str, ...]
    tier: Tier
    title: str
    edits: tuple[Edit, ...]
    reason: str = ""
    consequences: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    also: tuple[Location, ...] = ()
    otherwise: Change | None = None

    @property
    def sites(self) -> tuple[Location, ...]:
        """Every site that the change settles."""
        return (self.site, *self.also)

    @property
    def id(self) -> str:
        """A name for this change that stays the same from run to run."""
        return f"{self.site}:{self.codes[0]}"


@dataclass(frozen=True, slots=True)
class Step:
    """One line on a loader's way from its construction to what reads it, and what happens there."""

    location: Location
    text: str
    what: str


@dataclass(frozen=True, slots=True)
class Check:
    """One row of a loader's checklist: the question, its answer in a word or a value, and why or where.

    ``answer`` is "unknown" where the source does not show it, and "-" where the question does not arise.
    """

    question: str
    answer: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class SiteReport:
    """What became of one site: every site is edited, right, refused, kept by the user, or not ours."""

    location: Location
    role: Role
    owner: Owner
    owner_evidence: tuple[Evidence, ...]
    sampler: str
    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    changes: tuple[Change, ...] = ()
    why: str = ""
    chain: tuple[Step, ...] = ()  # only where it was asked for
    checklist: tuple[Check, ...] = ()  # only where it was asked for


@dataclass(frozen=True, slots=True)
class Setting:
    """An answer in the settings: a word for the loaders that a function, class, module or path pattern builds."""

    name: str
    word: str
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Options:
    """What the user asked of the analysis and the codemods."""

    target: Target = "auto"
    unsafe: bool = False
    cosmetic: bool = True
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    sanitizer: Literal["changed", "all", "off"] = "changed"
    sanitizer_from: Literal["vendor", "package"] = "vendor"
    eval_set_epoch: bool = True
    prepare_functions: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = field(default=())
    owners: tuple[Setting, ...] = ()
    roles: tuple[Setting, ...] = ()
    old_accelerate: Evidence | None = None  # where the project asks for an accelerate from 0.24 to 0.29
    installed_accelerate: Evidence | None = None  # the metadata of such a one that its environment holds
    launches: tuple[Launch, ...] = ()  # what starts the scripts of the project
