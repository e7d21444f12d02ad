"""From source to recipe: the runnable slice of a loader, as it was and as it is, or the reason why there is none."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from shardfix.analysis.code.names import DATA_LOADER, INIT_PROCESS_GROUP
from shardfix.analysis.programs.processes import distributed_test, main_process_guard
from shardfix.analysis.sites import Site
from shardfix.proof.model import Group, Kind, Program, Recipe, StandIn
from shardfix.proof.recipes.choices import Choices, listed, named, text_of
from shardfix.proof.recipes.groups import worlds_of
from shardfix.proof.recipes.imported import Imports
from shardfix.proof.recipes.kept import conditions_of, folded, needed, reads, unset
from shardfix.proof.recipes.prepared import accelerator, prepare_steps, seeding, splits_batches
from shardfix.proof.recipes.regime import assign, name, tells_regime
from shardfix.proof.recipes.slice import Slicer
from shardfix.proof.recipes.told import Told
from shardfix.proof.recipes.unpadding import FUNCTION, asks_uneven, evaluation_prelude, may_be_uneven, unpadding_steps
from shardfix.proof.recipes.whitelist import dotted_name, violation
from shardfix.proof.stop import Stop, Unproven

_ATTEMPTS = 6  # slices of one site, each taking one more condition as it must be


@dataclass(frozen=True, slots=True)
class Sliced:
    """A site's program and what it rests on.

    ``worlds``: the numbers of ranks that show its data-parallel groups.
    ``guarded``: the construction itself tells one process from several, so the program must run in one too.
    ``guards``: what is unknown of the conditions under which the epoch is told, of this loader or of others that the
    same function makes. ``ranked``: where the dataset is given the rank. ``several``: the construction is reached in
    several processes only.
    """

    program: Program
    needs_accelerate: bool
    unknown: tuple[str, ...]
    stand_ins: tuple[StandIn, ...]
    guarded: bool
    guards: tuple[str, ...] = ()
    worlds: tuple[int, ...] = ()
    ranked: str = ""
    several: bool = False


def recipe(
    before: Site | None,
    after: Site,
    *,
    kind: Kind,
    expect: str = "",
    feeds_metric: bool = False,
    padding_removed: bool = False,
    group: Group | None = None,
    doubts: tuple[tuple[str, str], ...] = (),
    root: str = "",
    everyone: bool = False,
) -> Recipe | Unproven:
    """The recipe of one site, from where it stands in the original and in the rewritten source.

    Args:
        before: the site in the original; None for what is only verified as it stands.
        after: the site in the rewritten source.
        kind: what is claimed: see Recipe.
        expect: the fault that the original must show: see Recipe.
        feeds_metric, padding_removed: whether padding would reach a metric.
        group: whether the program always has a process group; by default what the file shows.
        doubts: causes, and why a loader that shows them may be meant so: see Recipe.
        root: the project's folder, absolute, where its own code may be imported and run; empty where it may not.
        everyone: whether all ranks run what a condition on the rank let one into: see Choices.
    """
    # Of one sample a step what is made of a batch may be made of its only sample: that size is kept as it is.
    choices = Choices(split=bool(after.flow.of("unpadded")) and not asks_uneven(after), everyone=everyone)
    imports = Imports(root, (before or after).module.path) if root else None
    sliced_before: Sliced | None = None
    if before is not None:
        made = program(before, choices, imports)
        if isinstance(made, Unproven):
            return made
        sliced_before = made
    sliced_after = program(after, choices, imports)
    if isinstance(sliced_after, Unproven):
        return sliced_after
    parts = [s for s in (sliced_before, sliced_after) if s is not None]
    trusted = imports is not None and bool(imports.lines)
    preludes = [imports.prelude] if imports is not None and trusted else []
    if any(f"{FUNCTION}(" in s.program.build for s in parts):  # it is shardfix's own, which may import what it needs
        preludes.insert(0, evaluation_prelude())
    first = before or after
    return Recipe(
        site=str(first.location),
        owner=first.owner,
        role=first.role,
        kind=kind,
        before=sliced_before.program if sliced_before else None,
        after=sliced_after.program,
        needs_accelerate=any(s.needs_accelerate for s in parts),
        unknown=tuple(dict.fromkeys(text for s in parts for text in s.unknown)),
        stand_ins=tuple(dict.fromkeys(item for s in parts for item in s.stand_ins)),
        expect=expect,
        feeds_metric=feeds_metric,
        padding_removed=padding_removed,
        group=group or group_of(first, parts[0].guarded),
        single_pass=after.read_once or (kind == "stands" and _shuffled_as_asked(after)),
        guards=tuple(dict.fromkeys(text for s in parts for text in s.guards)),
        doubts=(*_doubts(sliced_after, after), *doubts) if kind == "stands" else doubts,
        several=sliced_after.several,
        worlds=sliced_after.worlds,
        uneven=may_be_uneven(after),
        imports=imports.entries if imports is not None and trusted else () if preludes else None,
        prelude="\n".join(preludes),
    )


# Causes that say which indices a rank reads: of a dataset that is split by rank they are its own, not the whole's.
_SHARES = ("unsharded", "wrong-rank", "wrong-replicas", "per-rank-subset", "overlap", "missing", "uneven")


def _doubts(sliced: Sliced, site: Site) -> tuple[tuple[str, str], ...]:
    """What a recipe leaves out that may be why the program is right."""
    found: list[tuple[str, str]] = []
    if sliced.ranked:
        why = f"its dataset is made with the rank ({sliced.ranked}), and may be split by it"
        found += [(code, why) for code in _SHARES]
    seeds = [a.arguments.value("seed") for a in site.arms if a.kind == "distributed" and a.arguments is not None]
    counters = {loop.counter for loop in site.epoch_loops.rebuilding} | {"epoch"}
    if site.epoch_loops.rebuilding and any(
        isinstance(n, ast.Name) and n.id in counters for seed in seeds if seed is not None for n in ast.walk(seed)
    ):
        found.append(("frozen-epoch", "each epoch makes a sampler with a seed of its own"))
    return tuple(found)


def _shuffled_as_asked(site: Site) -> bool:
    """Whether an evaluation shuffles because its sampler is told to: that each pass has the same order is no fault."""
    dealt = [a for a in site.arms if a.kind == "distributed" and a.arguments is not None]
    return site.role == "eval" and any(a.arguments.value("shuffle") is not None for a in dealt if a.arguments)


def group_of(site: Site, guarded: bool) -> Group:
    """Whether a site's program always runs in a process group: it makes one and asks nothing first."""
    if guarded or site.owner in ("accelerate", "hf-trainer", "single") or site.ownership.via_accelerate:
        return "optional"
    if site.ownership.started_by == "horovod":
        return "optional"  # torch's group is none of its own
    module = site.module
    for made in module.calls:
        if INIT_PROCESS_GROUP not in module.callee(made):
            continue
        for outer in module.around(made):
            if isinstance(outer, ast.If) and distributed_test(outer.test) is not None:
                return "optional"
    return "always"


def program(site: Site, choices: Choices | None = None, imports: Imports | None = None) -> Sliced | Unproven:
    """The runnable slice of a site, or what stops it.

    Args:
        site: a loader construction of torch's DataLoader.
        choices: the values chosen so far for what the source does not decide; shared by before and after.
        imports: what is imported of the project so far; None where nothing may be.
    """
    chosen = choices if choices is not None else Choices()
    chosen.split = chosen.split or splits_batches(site)
    if site.kind != "torch" and imports is None:
        return Unproven(
            f"`{text_of(site.call.func)}` is not torch's DataLoader, and is not imported", site.location, True
        )
    assumed: dict[str, bool] = {}
    try:
        for _ in range(_ATTEMPTS):
            found = _slice(site, chosen, assumed, imports)
            if isinstance(found, Sliced):
                return found
            assumed |= found
    except Stop as stop:
        return stop.unproven
    except RecursionError:
        return Unproven("the expressions around the loader are nested too deeply to follow", site.location)
    return Unproven("what the loader is made of is not set on every path to it", site.location)


def _slice(site: Site, choices: Choices, assumed: dict[str, bool], imports: Imports | None) -> Sliced | dict[str, bool]:
    """One slice; or the conditions that must hold, since without them a name of it has no value."""
    slicer = Slicer(site.module, site.call, choices, assumed, imports)
    guard = main_process_guard(site.module, site.call) if not (slicer.twins or choices.everyone) else None
    if guard is not None:
        raise slicer.stopped("the loader is built by one process only", guard)
    guards = [main_process_guard(site.module, use.node) for use in site.flow.of("iterate")]
    if guards and guards[0] is not None and None not in guards and not choices.everyone:
        raise slicer.stopped("the loader is read by one process only", guards[0])
    statements = slicer.statements()
    steps = prepare_steps(site, slicer)
    epochs = Told(site, slicer)
    told = epochs.statements()
    head: list[ast.stmt] = []
    if steps or slicer.uses_accelerator:
        made = accelerator(site, slicer)
        head += [*seeding(site, slicer, made), assign("accelerator", made)]
    raw = [assign("raw_loader", name("loader"))] if steps else []
    body = folded([*head, *statements, *raw, *steps, *unpadding_steps(site)])
    told = folded(told)
    body = needed(body, reads(told))
    missing = unset(body)
    if missing is not None:
        conditions = {text: value for text, value in conditions_of(body, missing).items() if text not in assumed}
        if not conditions:
            raise slicer.stopped(f"`{missing}` is not set on every path to the loader", site.call)
        return conditions
    away = epochs.elsewhere(body)
    if away is not None:
        raise slicer.stopped(
            "the loader leaves this file here: whether its sampler is told the epoch is not seen", away
        )
    parted = _parted(body)
    if parted:
        raise slicer.stopped(parted, site.call)
    build, each_epoch = _unparsed(body), _unparsed(told)
    trusted = imports is not None and bool(imports.lines)
    for code in () if trusted else (build, f"{build}\n{each_epoch}"):
        wrong = violation(code)
        if wrong:
            raise slicer.stopped(f"the construction needs more than a recipe may do: {wrong}", site.call)
    trees = [*body, *told]
    unknown = tuple(dict.fromkeys(text for tree in trees for text in named(tree, "UNKNOWN")))
    deciding = {text for tree in body for text in named(tree, "UNKNOWN")}
    return Sliced(
        program=Program(build, each_epoch),
        needs_accelerate=bool(head),
        unknown=unknown,
        stand_ins=listed(choices, *trees),
        guards=tuple(text for text in unknown if text not in deciding or text in epochs.guards),
        worlds=worlds_of(slicer, body),
        ranked=next(
            (slicer.ranked[text] for tree in body for text in named(tree, "DATASET") if text in slicer.ranked), ""
        ),
        several=slicer.several,
        guarded=any(_tests_regime(tree) for tree in body if isinstance(tree, (ast.If, ast.Assign))),
    )


def _parted(body: list[ast.stmt]) -> str:
    """What is wrong where a sampler draws from another dataset than the loader reads: no index would show it."""
    calls = [n for s in body for n in ast.walk(s) if isinstance(n, ast.Call)]
    read = [c.args[0] for c in calls if dotted_name(c.func) == DATA_LOADER]
    for keyword in (k for c in calls for k in c.keywords if k.arg in ("dataset", "data_source")):
        if read and all(ast.dump(keyword.value) != ast.dump(data) for data in read):
            drawn, other = _words(keyword.value), _words(read[0])
            return f"the sampler is made for `{drawn}`, the loader reads `{other}`: whether they match is not seen"
    return ""


def _words(data: ast.expr) -> str:
    return " ".join(named(data, "DATASET")) or ast.unparse(data)


def _unparsed(body: list[ast.stmt]) -> str:
    return ast.unparse(ast.fix_missing_locations(ast.Module(body, [])))


def _tests_regime(tree: ast.AST) -> bool:
    """Whether a condition tells one process from several where there may be no group: one that asks it needs it."""
    tests = [n.test for n in ast.walk(tree) if isinstance(n, (ast.If, ast.IfExp))]
    return any(tells_regime(test) and not _needs_group(test) for test in tests)


def _needs_group(test: ast.expr) -> bool:
    asked = {n.attr for n in ast.walk(test) if isinstance(n, ast.Attribute)}
    return bool(asked & {"get_rank", "get_world_size"}) and not asked & {"is_initialized", "is_available"}


__all__ = ["Sliced", "Unproven", "group_of", "program", "recipe"]
