"""The user's answers: what a comment or a setting says of a loader where the source does not show it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, cast, get_args

from shardfix.analysis.code.module import Module
from shardfix.analysis.model import Evidence, Owner, Role, Setting
from shardfix.analysis.programs.owners import Ownership
from shardfix.analysis.programs.regimes import ProgramRegimes

Question = Literal["owner", "role", "epoch", "metric"]

# Each question with its words, and what each says. A question's first word is the one that examples show.
VOCABULARY: Mapping[Question, Mapping[str, str]] = {
    "owner": {
        "accelerate": "`Accelerator.prepare()` gets the loader, out of sight",
        "ddp": "several processes read it, and nobody but its sampler shards it",
        "single": "one process reads it",
        "self": "it shards itself: its sampler, dataset or class gives each rank its own share",
        "hf-trainer": "a `transformers.Trainer` takes it as it is",
        **{
            word: "that framework shards it"
            for word in get_args(Owner)
            if word not in ("accelerate", "ddp", "single", "self", "hf-trainer", "other", "unknown")
        },
    },
    "role": {"train": "it is trained on", "eval": "it is evaluated on"},
    "epoch": {"told": "its sampler is told the epoch, out of sight"},
    "metric": {
        "reduced": "what is computed from it is combined across ranks, out of sight",
        "exact": "combined across ranks, and samples that a sampler repeats are left out",
    },
}


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer and where it is given; ``comment`` is False for a setting."""

    question: Question
    word: str
    evidence: Evidence
    comment: bool = True

    @property
    def where(self) -> str:
        """Its place, as messages name it."""
        place = self.evidence.location
        return f"line {place.line}" if self.comment else f"{place.path}:{place.line}"


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers that hold for one loader."""

    owner: Answer | None = None
    role: Answer | None = None
    epoch: Answer | None = None
    metric: Answer | None = None

    def all(self) -> tuple[Answer, ...]:
        """Those that are given."""
        return tuple(a for a in (self.owner, self.role, self.epoch, self.metric) if a is not None)


def answers_for(
    module: Module,
    call: ast.AST,
    comments: Mapping[int, Sequence[Answer]],
    owners: Sequence[Setting],
    roles: Sequence[Setting],
) -> Answers:
    """What holds for the loader that ``call`` builds: of each question the answer that stands nearest.

    A comment on the statement comes before one on the head of the function around it, that before one on the head of
    the class, and all comments before the settings.

    Args:
        comments: the answers in comments, by line.
    """
    found: dict[Question, Answer] = {}
    for lines in _lines_outward(module, call):
        for line in lines:
            for answer in comments.get(line, ()):
                found.setdefault(answer.question, answer)
    for question, settings in (("owner", owners), ("role", roles)):
        setting = most_specific(settings, module, call)
        if setting is not None:
            asked = cast(Question, question)
            found.setdefault(asked, Answer(asked, setting.word, setting.evidence, comment=False))
    return Answers(**found)


def lines_of(module: Module, node: ast.AST) -> range:
    """The lines of the simple statement, or of the header, that a node stands in."""
    statement = module.statement(node)
    end = getattr(node, "end_lineno", None) or statement.lineno
    if not hasattr(statement, "body"):
        end = statement.end_lineno or end
    return range(statement.lineno, end + 1)


def _lines_outward(module: Module, call: ast.AST) -> Iterable[range]:
    """The lines of a statement, then those of the heads of the functions and classes around it."""
    yield lines_of(module, call)
    for outer in module.around(call):
        if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield range(outer.lineno, max(outer.lineno + 1, outer.body[0].lineno))


def most_specific(settings: Sequence[Setting], module: Module, call: ast.AST) -> Setting | None:
    """The setting whose name reaches nearest to a loader's construction; names come before path patterns."""
    ranked = [(rank, s) for s in settings if (rank := _reach(s.name, module, call)) is not None]
    return max(ranked, key=lambda pair: pair[0])[1] if ranked else None


def _reach(name: str, module: Module, call: ast.AST) -> tuple[int, int, int] | None:
    """How near a setting's name comes to a construction; None if it is about something else.

    A pattern has a slash, a star or ``.py``. A name is dotted, as it is imported; it may leave out the packages in
    front (``make_loader`` for ``pkg.data.make_loader``) and holds for all that is built inside.
    """
    if is_pattern(name):
        return (0, 0, len(name)) if fnmatchcase(module.path, name) else None
    parts, full = name.split("."), _qualified(module, call)
    ends = [i + len(parts) for i in range(len(full) - len(parts) + 1) if full[i : i + len(parts)] == parts]
    return (1, max(ends), len(parts)) if ends else None


def is_pattern(name: str) -> bool:
    """Whether a setting names files, not code."""
    return "/" in name or "*" in name or name.endswith(".py")


def _qualified(module: Module, call: ast.AST) -> list[str]:
    """The parts of the dotted name of the place where a loader is built."""
    inside = [
        n.name for n in module.around(call) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    ]
    return [*module.name.split("."), *reversed(inside)]


def settle_owner(answer: Answer | None, shown: Ownership, regimes: ProgramRegimes) -> Ownership:
    """The owner, the user's answer taken into account.

    What the way of the loader itself shows (it reaches ``prepare()``, a Trainer's hook returns it) can't be answered
    away: a comment that says otherwise leaves the owner unknown, a setting holds for the other loaders.
    """
    if answer is None or answer.word == shown.owner:
        return shown
    # What a Trainer's hook returns is used as it is, so that it may be prepared, or shard itself, before.
    proven = shown.owner == "accelerate" or (shown.owner == "hf-trainer" and answer.word not in ("accelerate", "self"))
    if proven and not answer.comment:
        return shown
    if proven:
        line = shown.evidence[0].location.line if shown.evidence else 0
        return Ownership(
            "unknown",
            (answer.evidence, *shown.evidence),
            f"the comment in {answer.where} says {answer.word}, and line {line} shows {shown.owner}: one is wrong",
        )
    through = answer.word == "ddp" and regimes.first("accelerate") is not None
    return Ownership(cast(Owner, answer.word), (answer.evidence,), via_accelerate=through)


def settle_role(answer: Answer | None, shown: Role) -> Role:
    """The role, the user's answer taken into account: a comment is about this loader, a setting about many."""
    if answer is None or (shown != "unknown" and not answer.comment):
        return shown
    return cast(Role, answer.word)
