"""Whether one loader's sampler may go, and what goes with it: the reason why not, or its removal."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

from shardfix.codemods._entries import fed_by
from shardfix.codemods._findings import lengths, refuse
from shardfix.codemods._plain_loader import (
    all_in_call,
    class_names,
    entry_edits,
    holders_of,
    loader_edits,
    paths,
    written,
)
from shardfix.codemods._shuffling import intended_shuffle, is_one, own_argument, paired_assignments, unmovable
from shardfix.codemods._telling import sampler_arms
from shardfix.codemods._unused import Taken

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.module import is_false
from shardfix.analysis.code.names import is_none, last_name
from shardfix.analysis.loaders.samplers import Arm, same_expression
from shardfix.analysis.model import Evidence, Finding, Options, Tier
from shardfix.analysis.sites import Site
from shardfix.rewrite.edits import DropImport, DropKeyword, Edit, SetKeyword
from shardfix.wording import numbered

_DATASET = {"sequential": "data_source", "random": "data_source", "distributed": "dataset"}


@dataclass(frozen=True)
class Removal:
    """One site's removal, before removals that share a statement are joined into one change."""

    site: Site
    codes: tuple[str, ...]
    tier: Tier
    edits: tuple[Edit, ...]
    definitions: tuple[Definition, ...]
    reason: str
    consequences: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    gone: frozenset[ast.AST] = field(default=frozenset())
    shuffle: str = ""
    fed: frozenset[ast.Call] = field(default=frozenset())  # the calls that unpack a dict which is edited


def removal_of(site: Site, options: Options) -> Removal | Finding | str | None:
    if site.batch_arms:
        return _batch_removal(site, options)
    if not site.arms or site.kinds == {"none"}:
        return None
    if site.owner == "single":
        if len(site.arms) != 1 or site.arms[0].kind not in ("sequential", "random"):
            return None
    elif site.owner != "accelerate":
        return None
    if site.kinds & {"parameter", "unknown"}:
        return refuse(site, "SHD902") if site.owner == "accelerate" else None
    told = _told_processes(site)
    if told is not None:
        return told
    distributed = [a for a in site.arms if a.kind == "distributed"]
    whole = [a for a in distributed if is_one(site.module, own_argument(a, "num_replicas"))]
    if whole and len(whole) == len(distributed):
        return "num_replicas=1 makes the sampler leave sharding to prepare()"
    if whole:
        return _twice_on_a_path(site, [a for a in site.arms if a not in whole])
    if not all(_plain(a) for a in site.arms):
        return _twice_on_a_path(site, site.arms)
    module, dataset = site.module, site.dataset
    if dataset is None and site.arguments.opaque:
        return refuse(site, "SHD903", note=site.arguments.opaque)
    for arm in site.arms:
        if arm.kind == "none":
            continue
        if arm.given is not None or arm.by or module.home(arm.node) is not module:
            line = arm.given or arm.node
            if distributed:
                return _handed_in(site, distributed)
            return refuse(site, "SHD902", note="another function builds it", evidence=(module.evidence(line),))
        own = own_argument(arm, _DATASET[arm.kind])
        if not same_expression(module, own, dataset):
            return refuse(site, "SHD907", evidence=(module.evidence(arm.node),))
    refusal = unmovable(site, *(own_argument(a, "shuffle") for a in distributed))
    if refusal is not None:
        return refusal
    wanted = {intended_shuffle(site, a, shuffle) for path, shuffle in paths(site) for a in path}
    if len(wanted) > 1 and site.arguments.ways:  # what is edited of a way without a sampler is nothing
        having = [(path, shuffle) for path, shuffle in paths(site) if {a.kind for a in path} != {"none"}]
        wanted = {intended_shuffle(site, a, shuffle) for path, shuffle in having for a in path}
    if len(wanted) > 1 and site.role == "eval":
        wanted = {"False"}
    if len(wanted) != 1 or None in wanted:
        return refuse(site, "SHD922", evidence=tuple(module.evidence(a.node) for a in site.arms if a.kind != "none"))
    shuffle = wanted.pop()
    assert shuffle is not None
    if site.arguments.opaque and not site.arguments.ways and shuffle != "False":
        return refuse(site, "SHD903", note=f"{site.arguments.opaque} may hold shuffle= or generator=")
    generator = any("generator" in path for path in site.arguments.paths) or any(
        a.arguments is not None and a.arguments.value("generator") is not None for a in site.arms
    )
    reason = ""
    if generator and shuffle != "False":
        if site.owner == "single":
            return None
        if not options.unsafe:
            return refuse(site, "SHD914")
        reason = "generator= decides the order today; without the sampler the order is another"
    reason = _lost_seed(distributed) or reason
    edits = loader_edits(site, shuffle) if all_in_call(site) else entry_edits(site, shuffle)
    if edits is None:
        return refuse(site, "SHD903", note="they stand in a dict that can't be edited alone")
    holders = holders_of(site)
    fed = [fed_by(site, h) for h in holders]
    if any(calls is None for calls in fed):
        return refuse(site, "SHD903", note="the dict that holds them also goes elsewhere")
    code = "SHD201" if distributed else "SHD101" if site.owner == "accelerate" else "SHD103"
    tier: Tier = "unsafe" if reason else "cosmetic" if code == "SHD103" else "safe"
    evidence = tuple(module.evidence(a.node) for a in site.arms if a.kind != "none")
    return Removal(
        site,
        (code,),
        tier,
        tuple(edits),
        (*site.distributed_definitions, *paired_assignments(site)),
        reason,
        _consequences(site, code),
        (*evidence, *site.owner_evidence),
        shuffle=shuffle,
        fed=frozenset(c for calls in fed for c in calls or ()),
    )


def _told_processes(site: Site) -> Finding | str | None:
    """``prepare_data_loader(loader, num_processes=n)`` shards by its own number, whatever the program runs with."""
    for use in site.flow.of("prepare"):
        call = use.node
        if not isinstance(call, ast.Call) or last_name(call.func) != "prepare_data_loader":
            continue
        if "accelerate.data_loader.prepare_data_loader" not in site.module.callee(call):
            continue
        number = next((k.value for k in call.keywords if k.arg == "num_processes"), None)
        if number is None and len(call.args) > 2:
            number = call.args[2]
        if number is None or is_none(number):
            continue
        if is_one(site.module, number):
            return "prepare_data_loader(num_processes=1) leaves sharding to the sampler"
        evidence = (site.module.evidence(call),)
        return refuse(
            site, "SHD901", note="prepare_data_loader is told how many processes there are", evidence=evidence
        )
    return None


def _twice_on_a_path(site: Site, arms: Sequence[Arm]) -> Finding | None:
    """A finding where only one of several samplers is one that shards, so that the others have to stay."""
    sharding = [a for a in arms if a.kind == "distributed"]
    if not sharding:
        return None
    others = " or ".join(dict.fromkeys(a.label for a in arms if a.kind != "distributed"))
    return Finding(
        "SHD201",
        site.location,
        f"sharded twice on one path: the sampler is {others} or a DistributedSampler, and prepare() shards either"
        if others
        else "sharded twice on one path: a DistributedSampler in a prepared loader",
        tuple(site.module.evidence(a.node) for a in sharding),
        "use a RandomSampler in the place of the DistributedSampler: prepare() shards it",
    )


def _handed_in(site: Site, distributed: Sequence[Arm]) -> Finding:
    """A finding where the DistributedSampler is made out of the loader's function, for others too perhaps."""
    made = [site.module.evidence(a.given or a.node) for a in distributed]
    first = made[0].location
    line = f"line {first.line}" if first.path == site.location.path else f"{first.path}:{first.line}"
    return Finding(
        "SHD201",
        site.location,
        f"sharded twice: {line} makes a DistributedSampler for this loader, and prepare() shards again",
        (*made, *site.owner_evidence),
        "hand it no sampler, prepare() shards any loader; where the sampler shuffled, give the loader shuffle=True",
    )


def _plain(arm: Arm) -> bool:
    """A sampler that only orders or splits: no replacement, no number of samples."""
    if arm.kind == "random":
        return arm.constant("replacement") in (None, False) and arm.constant("num_samples") is None
    return arm.kind in ("none", "sequential", "distributed")


def _batch_removal(site: Site, options: Options) -> Removal | Finding | str | None:
    """``batch_sampler=BatchSampler(RandomSampler(ds), B, d)`` says what the three plain arguments say."""
    if site.owner != "accelerate":
        return None
    if len(site.batch_arms) != 1 or site.batch_arms[0].kind != "batch":
        return _twice_on_a_path(site, [i for b in site.batch_arms for i in b.inner or (b,)])
    told = _told_processes(site)
    if told is not None:
        return told
    batch = site.batch_arms[0]
    module = site.module
    inner = batch.inner
    if any(is_one(module, own_argument(i, "num_replicas")) for i in inner if i.kind == "distributed"):
        return "num_replicas=1 makes the sampler leave sharding to prepare()"
    if len(inner) != 1 or not _plain(inner[0]) or inner[0].kind == "none" or batch.arguments is None:
        return _twice_on_a_path(site, inner)
    arm = inner[0]
    own = own_argument(arm, _DATASET[arm.kind])
    size, drop = batch.arguments.value("batch_size"), batch.arguments.value("drop_last")
    if not same_expression(module, own, site.dataset) or size is None or drop is None:
        return refuse(site, "SHD907", evidence=(module.evidence(batch.node),))
    if arm.arguments is not None and arm.arguments.value("generator") is not None and not options.unsafe:
        return refuse(site, "SHD914")
    refusal = unmovable(site, size, drop, own_argument(arm, "shuffle"))
    if refusal is not None:
        return refusal
    reason = _lost_seed((arm,))
    if own_argument(arm, "generator") is not None:
        reason = "generator= decides the order today; without the sampler the order is another"
    bound = site.arguments.bound
    if site.arguments.opaque:
        return refuse(site, "SHD903", note=site.arguments.opaque)
    if any(n in bound and not bound[n].keyword for n in ("batch_sampler", "batch_size", "shuffle", "drop_last")):
        return refuse(site, "SHD903", note="batch_sampler and what replaces it must be keywords of the call")
    shuffle = intended_shuffle(site, arm, None)
    call = module.source.span(site.call)
    edits: list[Edit] = [
        SetKeyword(module.path, call, "batch_size", module.source.source(size), replacing="batch_sampler")
    ]
    if shuffle != "False":
        edits.append(SetKeyword(module.path, call, "shuffle", str(shuffle)))
    if not (isinstance(drop, ast.Constant) and drop.value is False):
        edits.append(SetKeyword(module.path, call, "drop_last", module.source.source(drop)))
    for name in class_names(module, (batch, arm)):
        edits.append(DropImport(module.path, name))
    code = "SHD201" if arm.kind == "distributed" else "SHD102"
    return Removal(
        site,
        (code,),
        "unsafe" if reason else "safe",
        tuple(edits),
        (*batch.definitions, *arm.definitions),
        reason,
        _consequences(site, code),
        (module.evidence(batch.node), *site.owner_evidence),
    )


def _lost_seed(arms: Sequence[Arm]) -> str:
    seeds = [own_argument(a, "seed") for a in arms if a.kind == "distributed"]
    if all(s is None or (isinstance(s, ast.Constant) and s.value == 0) for s in seeds):
        return ""
    return "the sampler's seed= is lost: the order no longer depends on it"


def _consequences(site: Site, code: str) -> tuple[str, ...]:
    if code == "SHD103":
        return ("same samples in the same order under one seed; nothing else changes",)
    if code != "SHD201":
        return ("same samples in the same order under one seed on every rank; nothing else changes",)
    found = [
        "each epoch reads the whole dataset: with W processes W times the samples of today, and W times the steps",
        "the order no longer follows the sampler's (seed, epoch); accelerate draws it from the synchronised generator",
    ]
    arms = list(sampler_arms(site))
    dropping = [own_argument(a, "drop_last") for a in arms if a.kind == "distributed"]
    if any(d is not None and not is_false(d) for d in dropping):
        found.append(
            "the sampler's drop_last goes: prepare() repeats samples to fill the last batches where the sampler left "
            "out the tail"
        )
    return (*found, *lengths(site, "schedules and totals made of it get W times longer"), *_sampler_lengths(site, arms))


def _sampler_lengths(site: Site, arms: Sequence[Arm]) -> tuple[str, ...]:
    """The lines that read ``len(sampler)`` or ``len(loader.sampler)``, as a consequence."""
    samplers = {n for arm in arms for n in site.sampler_flow(arm).aliases}
    own: set[int] = set()
    through: set[int] = set()
    for call in site.module.calls:
        if last_name(call.func) != "len" or len(call.args) != 1:
            continue
        asked = call.args[0]
        if isinstance(asked, ast.Attribute) and asked.attr == "sampler" and asked.value in site.flow.aliases:
            through.add(call.lineno)
        elif asked in samplers:
            own.add(call.lineno)
    found: list[str] = []
    if own:
        found.append(
            f"len() of the sampler is read in {numbered(own)}: it stays a W-th of the dataset; the loader draws all"
        )
    if through:
        found.append(f"len(loader.sampler) is read in {numbered(through)}: it becomes the length of the dataset")
    return tuple(found)


def taken(removal: Removal) -> Taken:
    """The nodes that are gone once a removal is made: the sampler, what asks for it, and how it was told the epoch."""
    site = removal.site
    nodes: set[ast.AST] = set(removal.gone)
    values = [(a.name, a.value) for a in written(site)]
    batch = site.arguments.value("batch_sampler")
    for name, value in [*values, ("batch_sampler", batch)]:
        edited = name != "shuffle" or any(
            isinstance(e, (SetKeyword, DropKeyword)) and e.name == "shuffle" for e in removal.edits
        )
        if value is not None and edited:
            nodes.update(ast.walk(value))
    made = {n for b in site.batch_arms for n in ast.walk(b.node)} | {a.node for a in sampler_arms(site)}
    loaders = {n for s in site.siblings for n in s.flow.aliases}
    return Taken(frozenset(nodes), removal.definitions, frozenset(made), frozenset(loaders))
