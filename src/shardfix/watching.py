"""Judge the loaders that a run made: what they read, what one process reads, and what the source says of them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from shardfix.analysis.model import Check
from shardfix.proof.judging.endings import came_to_its_end
from shardfix.proof.judging.verdicts import judge_observed
from shardfix.proof.model import Proof
from shardfix.proof.observed import Observed, Watched

FACTORY = "shardfix verify --loader pkg.mod:function, which also runs it in one process, to its end"
MOST_FILES = 1000  # of a project that is read for this; a run says enough without


@dataclass(frozen=True, slots=True)
class Spoken:
    """The role of a loader, whether padded samples are kept out of what is measured, and the checklist's answers."""

    role: str = "unknown"
    padding_removed: bool = False
    checklist: tuple[Check, ...] = ()


def judge_watched(
    watched: Watched, script: Path | None = None, control: Watched | None = None, *, again: str = ""
) -> list[Proof]:
    """A proof for each loader of a run, in the order in which they were made.

    Args:
        watched: the run on several ranks.
        script: the program that ran, where it is a file: what its source says counts too.
        control: the same program in one process, if it was run so: what it reads is what there is to read.
        again: the command that runs it so too, for loaders of which that would show more.
    """
    finished = came_to_its_end(watched.endings)
    spoken = spoken_of(watched, script) if script is not None else {}
    proofs = []
    for observed in with_control(watched.loaders, control):
        said = spoken.get(observed.loader, Spoken())
        proof = judge_observed(observed, role=said.role, padding_removed=said.padding_removed, finished=finished)
        stronger = ""
        if proof.verdict == "unproven" and proof.cause != "never-read" and observed.alone is None:
            stronger = again if control is None and again and _lacks_control(observed, proof) else FACTORY
        proofs.append(replace(proof, stronger=stronger, checklist=_answered(proof, said)))
    return proofs


def _lacks_control(observed: Observed, proof: Proof) -> bool:
    """Whether it stays open what there was to read although passes came to their end."""
    whole = all(any(one.complete for one in reader.passes) for reader in observed.readers if reader.passes)
    return whole and any(proof.conditions[name].startswith("not judged") for name in ("disjoint", "covered"))


def with_control(loaders: Sequence[Observed], control: Watched | None) -> Sequence[Observed]:
    """The loaders with those of the same line that one process read.

    A line that makes another number of loaders in one process is left out: which of them are the same is not known.
    """
    if control is None:
        return loaders
    alone = {one.loader: one.readers[0] for one in control.loaders if one.readers}
    made, made_alone = (Counter(map(_line, names)) for names in ((one.loader for one in loaders), alone))
    same = {line for line, count in made.items() if made_alone[line] == count}
    return [replace(one, alone=alone.get(one.loader)) if _line(one.loader) in same else one for one in loaders]


def _line(name: str) -> str:
    """``train.py:41`` of ``train.py:41#2``."""
    return name.partition("#")[0]


def _answered(proof: Proof, said: Spoken) -> tuple[Check, ...]:
    """The checklist as the run answers it, and the source where only that can."""
    source = {check.question: check for check in said.checklist}
    answers = []
    for check in proof.checklist:
        written = source.get(check.question, check)
        by_source = check.question == "sanitizer"
        if written.answer != "unknown":
            by_source |= check.question == "epoch told" and check.answer == "unknown"
            # what is read twice or never is wrong in every metric; the rest is up to the loop
            by_source |= check.question == "counted once" and not (proof.cause and check.note == proof.cause)
        answers.append(written if by_source else check)
    return tuple(answers)


def spoken_of(watched: Watched, script: Path) -> Mapping[str, Spoken]:
    """What the source says, by the names of the loaders; those whose line shows no loader are left out.

    ``script``: the program that ran; the facts come from the project that it lies in.
    """
    from shardfix.analysis.checklist import checklist
    from shardfix.config import load
    from shardfix.planning import make_plan
    from shardfix.proving import padding_is_counted
    from shardfix.reading import read_project
    from shardfix.sources.discover import discover, project_root

    root = project_root(script)
    lines = {name: place for name in (one.loader for one in watched.loaders) if (place := _place(name, root))}
    config = load(root)
    if not lines or len(discover([root], root=root, exclude=config.exclude).files) > MOST_FILES:
        return {}
    reading = read_project((), config)
    paths = {path for path, _ in lines.values()}
    plan = make_plan(reading.project, paths, reading.options, files=reading.files)
    reports = {(one.location.path, one.location.line): one for one in plan.reports}
    spoken = {}
    for name, place in lines.items():
        if (report := reports.get(place)) is not None:
            site = plan.sites[report.location]
            spoken[name] = Spoken(site.role, not padding_is_counted(site), checklist(site, report))
    return spoken


def _place(name: str, root: Path) -> tuple[str, int] | None:
    """The file below the project's root and the line of ``train.py:41 (fn)#2``; None for what lies elsewhere."""
    path, _, rest = name.partition(".py:")
    digits = rest.partition(" ")[0].partition("#")[0]
    if not digits.isdigit():
        return None
    relative = os.path.relpath(os.path.abspath(f"{path}.py"), root)
    return None if relative.startswith(os.pardir) else (relative.replace(os.sep, "/"), int(digits))
