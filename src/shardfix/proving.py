"""From sites to proofs: the recipe that shows a change right, the fault its original must show, one launch for all."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from shardfix.analysis.code.names import last_name
from shardfix.analysis.code.project import Project
from shardfix.analysis.loops.evaluation import find_reduction, is_reduction
from shardfix.analysis.model import Change, Location
from shardfix.analysis.programs.processes import main_process_guard
from shardfix.analysis.programs.unit_tests import is_unit_test
from shardfix.analysis.sites import Site
from shardfix.planning import Plan, sites_of
from shardfix.proof.metrics.build import metric_recipes, standing_recipes
from shardfix.proof.metrics.model import MetricRecipe
from shardfix.proof.metrics.run import with_metrics, with_standing_metrics
from shardfix.proof.model import CONDITIONS, Kind, Proof, Recipe
from shardfix.proof.recipes.recipe import Unproven, recipe
from shardfix.proof.recipes.stronger import stronger
from shardfix.proof.running.launch import Verifier, VerifierError, torch_available
from shardfix.staging import Staged

# The fault that the original of a change must show in the same run.
_EXPECTED = {
    "SHD201": "sharded-twice",
    "SHD301": "unsharded",
    "SHD302": "unsharded",
    "SHD303": "raises",
    "SHD304": "unsharded",
    "SHD401": "frozen-epoch",
    "SHD402": "raises",
    "SHD305": "unsharded",
    "SHD306": "unsharded",
    "SHD501": "shuffled-eval",
    "SHD506": "shuffled-eval",
}
# Changes that put a metric together from all ranks: it is run too.
_METRICS = ("SHD305", "SHD306", "SHD506", "SHD507", "SHD508", "SHD509")
# Those that mend some of the values of a loop only.
_PARTIAL = ("SHD507", "SHD509")
# Those that leave a metric as it is: why one is unsafe is what becomes of it.
_APART = ("SHD302",)
_REDUNDANT = ("SHD101", "SHD102", "SHD103")


def open_verifier(
    verify: Literal["auto", "yes", "no"], python: str | None, nproc: int, timeout: float
) -> tuple[Verifier | None, str]:
    """A verifier, started so that its imports overlap other work; or None and why there is none.

    Raises:
        EngineError: torch is not there and ``verify`` is ``yes``, or the interpreter named can't be run.
    """
    from shardfix.engine import EngineError

    try:
        version = torch_available(python)
    except VerifierError as error:
        raise EngineError(str(error)) from None
    if version is None:
        where = python or "the environment that shardfix runs in"
        reason = f"not verified: torch is not installed in {where}"
        if verify == "yes" or python is not None:
            raise EngineError(reason, "install shardfix[verify], or name an interpreter that has torch with --python")
        return None, reason
    verifier = Verifier(python=python, nproc=nproc, timeout=timeout)
    verifier.start()
    return verifier, ""


def prove_changes(before: Project, staged: Staged, verifier: Verifier, root: str = "") -> list[Proof]:
    """A proof for every site that a change settles, the original put through the same run.

    Args:
        root: the project's folder where its own modules may be imported and run; empty where they may not.
    """
    options = next(iter(staged.plan.sites.values())).options if staged.plan.sites else None
    if options is None:
        return []
    paths = {location.path for c in staged.plan.changes for location in c.sites}
    old = sites_of(before, paths, options)
    new = sites_of(staged.after, paths, options)
    recipes: list[Recipe] = []
    proofs: list[Proof] = []
    run: dict[str, Site] = {}
    metrics: dict[str, list[MetricRecipe] | Unproven] = {}
    for change in staged.plan.changes:
        for location in change.sites:
            pair = _pair(old, new, location)
            if pair is None:
                proofs.append(_unproven(location, "the rewritten loader was not found again in its file"))
                continue
            if change.codes[0] in _METRICS:
                unsafe, partial = change.tier == "unsafe", change.codes[0] in _PARTIAL
                metrics[str(location)] = metric_recipes(*pair, unsafe=unsafe, partial=partial)
            made = _recipe_of(change, *pair, root)
            if isinstance(made, Unproven):
                proofs.append(_unproven(location, str(made), stronger(pair[0], project=made.project)))
            else:
                recipes.append(made)
                run[made.site] = pair[0]
    proofs.extend(_run(recipes, run, verifier))
    parts = {str(loc): c.reason for c in staged.plan.changes if c.codes[0] in _APART for loc in c.sites}
    proofs = [_of_a_part(proof, parts.get(proof.site, "")) for proof in with_metrics(proofs, metrics, verifier)]
    order = {str(location): i for i, location in enumerate(loc for c in staged.plan.changes for loc in c.sites)}
    return sorted(proofs, key=lambda p: order.get(p.site, len(order)))


def _of_a_part(proof: Proof, reason: str) -> Proof:
    """A proof of a loader whose metric is, by the change's own words, not that of one process: that is not proven."""
    if not reason or proof.verdict != "proven":
        return proof
    return replace(proof, verdict="unproven", reasons=(f"its metric is not proven: {reason}", *proof.reasons))


def prove_sites(plan: Plan, verifier: Verifier, root: str = "") -> list[Proof]:
    """A proof for every loader as it stands; loaders of one process and of other frameworks are not run.

    Args:
        root: as in ``prove_changes``.
    """
    recipes: list[Recipe] = []
    proofs: list[Proof] = []
    run: dict[str, Site] = {}
    metrics: dict[str, list[MetricRecipe] | Unproven] = {}
    for location, site in plan.sites.items():
        ours = site.owner in ("accelerate", "ddp", "hf-trainer")
        if site.kind != "torch" and not (ours and site.kind == "subclass"):
            proofs.append(_unproven(location, "not a torch DataLoader"))
            continue
        if not ours and not _shows_groups(site):
            why = {
                "single": "one process reads everything; there is nothing to shard",
                "unknown": f"its owner is not shown: {site.ownership.missing}",
            }.get(site.owner, f"left to {site.owner}, which has rules of its own for loaders")
            if site.owner != "single":
                proofs.append(_unproven(location, why, stronger(site, project=False)))
            continue
        if _of_one_process(site):
            continue
        made = recipe(
            None,
            site,
            kind="stands",
            expect="shuffled-eval" if _to_be_ordered(site) else "",
            feeds_metric=_feeds_metric(site),
            padding_removed=_exact(site),
            doubts=_doubts(site),
            root=root,
        )
        if isinstance(made, Unproven):
            proofs.append(_unproven(location, str(made), stronger(site, project=made.project)))
        else:
            recipes.append(made)
            run[made.site] = site
            if site.role == "eval" and site.owner in ("ddp", "accelerate") and site.flow.of("iterate"):
                metrics[made.site] = standing_recipes(site)
    proofs.extend(_run(recipes, run, verifier))
    proofs = with_standing_metrics(proofs, metrics, verifier)
    order = {str(location): i for i, location in enumerate(plan.sites)}
    return sorted(proofs, key=lambda p: order.get(p.site, len(order)))


def _run(recipes: Sequence[Recipe], sites: Mapping[str, Site], verifier: Verifier) -> list[Proof]:
    """The proofs of recipes; one that is unproven says what would be stronger."""
    found: list[Proof] = []
    for proof, made in zip(verifier.prove(recipes) if recipes else [], recipes, strict=True):
        site = sites[proof.site]
        meant = any(reason.endswith(why) for reason in proof.reasons for _, why in made.doubts)
        if proof.verdict == "unproven" and not proof.padded and not meant:
            proof = replace(proof, stronger=stronger(site, project=False))
        found.append(proof)
    return found


def _doubts(site: Site) -> tuple[tuple[str, str], ...]:
    """Causes that may be meant in what a loader is for: a right program is never refuted."""
    if is_unit_test(site.module):
        return (("", "a test makes it, and may be made to see just that"),)
    found: list[tuple[str, str]] = []
    evaluation = site.evaluation
    if site.role == "eval" and site.owner == "ddp" and evaluation.gathers is None:
        why = "each rank evaluates all of it for itself: the number is the same, the work is done on every rank"
        if evaluation.reduction is not None and evaluation.exact is None:
            line = f"{evaluation.reduction.location.path}:{evaluation.reduction.location.line}"
            why = f"right where {line} makes a mean of what the ranks count; the work is done N times"
        found.append(("unsharded", why))
    elif site.shards_sometimes:
        why = "the program chooses that sampler there, by a condition that says nothing of processes"
        found.append(("unsharded", why))
    elif site.role == "unknown" and not site.kinds - {"none"} and not site.batch_arms and not _trains_too(site):
        found.append(("unsharded", "whether that is meant is not shown, since nothing shows what it is for"))
    if site.role == "eval" and not _waits(site):
        found.append(("uneven", "right while nothing in the loop waits for the other ranks, and none is seen to"))
    if site.role == "unknown" and not _trains_too(site):
        found.append(("frozen-epoch", "whether it trains is not shown, and an evaluation may keep its order"))
    if site.role == "eval" and site.shown_role.guessed:
        found.append(("shuffled-eval", "that it evaluates is not shown but guessed"))
    return tuple(found)


def _waits(site: Site) -> bool:
    """Whether a rank waits for the others in a loop over a loader: for values, or for the gradients of all."""
    for use in site.flow.of("iterate"):
        home = site.module.home(use.node)
        for call in (n for n in ast.walk(use.node) if isinstance(n, ast.Call)):
            if last_name(call.func) in ("backward", "barrier") or is_reduction(home, call):
                return True
            if any(find_reduction(home.home(f), f) is not None for f in home.called_functions(call)):
                return True
    return not site.flow.of("iterate")


def _trains_too(site: Site) -> bool:
    """Whether a loader without a role is one for training on some of its ways."""
    return "serves training" in site.shown_role.why


def _to_be_ordered(site: Site) -> bool:
    """Whether an evaluation's DistributedSampler shuffles because nothing tells it not to."""
    dealt = [a for a in site.arms if a.kind == "distributed"]
    shuffles = bool(dealt) and all(a.arguments is not None and a.arguments.value("shuffle") is None for a in dealt)
    return site.role == "eval" and not site.shown_role.guessed and shuffles


def _shows_groups(site: Site) -> bool:
    """Whether a loader of a device mesh says itself which ranks share what they read."""
    made = recipe(None, site, kind="stands") if site.owner == "mesh" and site.kind == "torch" else None
    return isinstance(made, Recipe) and bool(made.worlds)


def _pair(old: dict[str, list[Site]], new: dict[str, list[Site]], location: Location) -> tuple[Site, Site] | None:
    """The same loader before and after: no edit adds or removes a construction, so its number in the file stays."""
    before, after = old.get(location.path, []), new.get(location.path, [])
    if len(before) != len(after):
        return None
    for a, b in zip(before, after, strict=True):
        if a.location == location:
            return a, b
    return None


def _feeds_metric(site: Site) -> bool:
    return site.role == "eval" and site.owner == "ddp" and site.evaluation.reduction is not None


def _exact(site: Site) -> bool:
    answer = site.answers.metric
    return site.evaluation.exact is not None or (answer is not None and answer.word == "exact")


def padding_is_counted(site: Site) -> bool:
    """Whether padded samples of a loader would reach a metric that is put together from all ranks."""
    return _feeds_metric(site) and not _exact(site)


def _recipe_of(change: Change, before: Site, after: Site, root: str) -> Recipe | Unproven:
    code = change.codes[0]
    if code == "SHD505":
        return Unproven("one rank alone reads it: there are no shares to compare", before.location)
    swallowed = code == "SHD402" and any(_in_try(before, told.call) for told in before.told)
    shuffles = any(a.kind == "distributed" and a.constant("shuffle") is not False for a in before.arms)
    as_it_was = code in ("SHD507", "SHD508", "SHD509") or (
        code == "SHD506" and not shuffles
    )  # what is made of the loader's batches was wrong
    if as_it_was and after.flow.of("unpadded") and not before.flow.of("unpadded"):
        # its last batches are other ones now, on purpose; that the same comes of them is shown with the metric
        made = recipe(None, after, kind="stands", padding_removed=True, root=root)
        return replace(made, site=str(before.location)) if isinstance(made, Recipe) else made
    kind: Kind = "redundant" if code in _REDUNDANT or swallowed or as_it_was else "fault"
    feeds = _feeds_metric(after) and code == "SHD302"
    expect = _EXPECTED.get(code, "")
    return recipe(
        before,
        after,
        kind=kind,
        expect=expect,
        feeds_metric=feeds,
        padding_removed=_exact(after),
        root=root,
        everyone=code == "SHD306",
    )


def _of_one_process(site: Site) -> bool:
    """Whether one process alone builds the loader, or reads it: there is nothing to share."""
    if main_process_guard(site.module, site.call) is not None:
        return True
    readers = site.flow.of("iterate", "next") or site.flow.of("argument")
    return bool(readers) and all(main_process_guard(site.module, use.node) is not None for use in readers)


def _in_try(site: Site, node: ast.AST) -> bool:
    """Whether an error at a node is caught: the fault then shows nowhere."""
    return any(isinstance(n, ast.Try) for n in site.module.around(node))


def _unproven(location: Location, reason: str, way: str = "") -> Proof:
    conditions = dict.fromkeys(CONDITIONS, f"not judged: {reason}")
    return Proof(str(location), "unproven", (reason,), conditions, stronger=way)


__all__: Sequence[str] = ["open_verifier", "prove_changes", "prove_sites"]
