"""Take explicit samplers off loaders that something else shards: redundant ones, and those that shard a second time."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from shardfix.codemods._entries import dropped, fed_by, given, renamed
from shardfix.codemods._findings import lengths, refuse
from shardfix.codemods._shuffling import intended_shuffle, is_none, is_one, own_argument, paired_assignments, unmovable
from shardfix.codemods._telling import Retold, asked_through, needs_telling, retell, sampler_arms
from shardfix.codemods._unused import Taken, unused_statements

from shardfix.analysis.arguments import Argument
from shardfix.analysis.bindings import Definition
from shardfix.analysis.epochs import SetEpoch
from shardfix.analysis.flow import last_name
from shardfix.analysis.model import Change, Evidence, Finding, Location, Options, Tier
from shardfix.analysis.module import Module, is_false
from shardfix.analysis.rules import Example, Planned, Rule
from shardfix.analysis.samplers import Arm, arms, same_expression
from shardfix.analysis.sites import Site
from shardfix.rewrite.edits import (
    DropImport,
    DropKeyword,
    DropStatement,
    Edit,
    SetKeyword,
)

_DATASET = {"sequential": "data_source", "random": "data_source", "distributed": "dataset"}


@dataclass(frozen=True)
class _Removal:
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


def _removal(site: Site, options: Options) -> _Removal | Finding | str | None:
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
        if arm.given is not None or module.home(arm.node) is not module:
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
    wanted = {intended_shuffle(site, a, shuffle) for path, shuffle in _paths(site) for a in path}
    if len(wanted) > 1 and site.arguments.ways:  # what is edited of a way without a sampler is nothing
        having = [(path, shuffle) for path, shuffle in _paths(site) if {a.kind for a in path} != {"none"}]
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
    edits = _loader_edits(site, shuffle) if _all_in_call(site) else _entry_edits(site, shuffle)
    if edits is None:
        return refuse(site, "SHD903", note="they stand in a dict that can't be edited alone")
    holders = _holders(site)
    fed = [fed_by(site, h) for h in holders]
    if any(calls is None for calls in fed):
        return refuse(site, "SHD903", note="the dict that holds them also goes elsewhere")
    code = "SHD201" if distributed else "SHD101" if site.owner == "accelerate" else "SHD103"
    tier: Tier = "unsafe" if reason else "cosmetic" if code == "SHD103" else "safe"
    evidence = tuple(module.evidence(a.node) for a in site.arms if a.kind != "none")
    return _Removal(
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


def _paths(site: Site) -> list[tuple[tuple[Arm, ...], ast.expr | None]]:
    """The samplers that a loader may have with what it is given for ``shuffle`` beside them, on each way."""
    if not site.arguments.ways:
        return [(site.arms, site.arguments.value("shuffle"))]
    found: list[tuple[tuple[Arm, ...], ast.expr | None]] = []
    none = tuple(a for a in site.arms if a.kind == "none" and a.node is site.call.func)
    for way in site.arguments.ways:
        sampler, shuffle = way.get("sampler"), way.get("shuffle")
        mine = arms(site.module, sampler.value) if sampler is not None else none
        found.append((mine, shuffle.value if shuffle is not None else None))
    return found


def _written(site: Site) -> list[Argument]:
    """Where ``sampler`` and ``shuffle`` are written, on whatever way."""
    found = [way[name] for way in site.arguments.paths for name in ("sampler", "shuffle") if name in way]
    return list(dict.fromkeys(found))


def _holders(site: Site) -> list[ast.AST]:
    """The dicts, and what else, that hold ``sampler`` and ``shuffle``."""
    return list(dict.fromkeys(a.holder for a in _written(site) if a.holder is not None))


def _all_in_call(site: Site) -> bool:
    return not site.arguments.ways and not _holders(site)


def _entry_edits(site: Site, shuffle: str) -> list[Edit] | None:
    """The edits where ``sampler`` and ``shuffle`` are items of a dict; None where they can't be made."""
    turned: dict[Argument, bool] = {}
    edits: list[Edit] = []
    standing = {way["shuffle"] for way in site.arguments.paths if "sampler" not in way and "shuffle" in way}
    for way in site.arguments.paths:
        sampler, existing = way.get("sampler"), way.get("shuffle")
        if shuffle not in ("True", "False"):
            return None  # its names may have other values where the dict is filled
        if sampler is not None:
            turn = shuffle == "True" and existing is None
            if turned.setdefault(sampler, turn) is not turn:
                return None
        if sampler is None:
            continue  # this way stays as it is
        if existing is not None and not (
            isinstance(existing.value, ast.Constant) and str(existing.value.value) == shuffle
        ):
            if existing in standing:
                return None  # it also is what a way without a sampler shuffles by
            changed = given(site, existing, shuffle)
            if changed is None:
                return None
            edits += changed
    for sampler, turn in turned.items():
        changed = renamed(site, sampler, "shuffle", shuffle) if turn else dropped(site, sampler)
        if changed is None:
            return None
        edits += changed
    edits += [DropImport(site.module.path, name) for name in _class_names(site.module, site.arms)]
    return list(dict.fromkeys(edits))


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
        lines = ", ".join(map(str, sorted(own)))
        found.append(
            f"len() of the sampler is read in line {lines}: it stays a W-th of the dataset; the loader draws all"
        )
    if through:
        lines = ", ".join(map(str, sorted(through)))
        found.append(f"len(loader.sampler) is read in line {lines}: it becomes the length of the dataset")
    return tuple(found)


def _batch_removal(site: Site, options: Options) -> _Removal | Finding | str | None:
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
    for name in _class_names(module, (batch, arm)):
        edits.append(DropImport(module.path, name))
    code = "SHD201" if arm.kind == "distributed" else "SHD102"
    return _Removal(
        site,
        (code,),
        "unsafe" if reason else "safe",
        tuple(edits),
        (*batch.definitions, *arm.definitions),
        reason,
        _consequences(site, code),
        (module.evidence(batch.node), *site.owner_evidence),
    )


def _class_names(module: Module, arms: Sequence[Arm]) -> list[str]:
    names = [a.node.func.id for a in arms if isinstance(a.node, ast.Call) and isinstance(a.node.func, ast.Name)]
    return list(dict.fromkeys(names))


def _loader_edits(site: Site, shuffle: str) -> list[Edit]:
    module, path = site.module, site.module.path
    call = module.source.span(site.call)
    existing = site.arguments.bound.get("shuffle")
    sampler = site.arguments.bound["sampler"]
    edits: list[Edit] = []
    if sampler.position is not None:
        assert existing is not None  # shuffle stands before the sampler
        if not (shuffle == "False" and is_false(existing.value)):
            edits.append(SetKeyword(path, call, "shuffle", shuffle, positional=existing.position))
        edits.append(SetKeyword(path, call, "sampler", "None", positional=sampler.position))
    elif shuffle == "False":
        edits.append(DropKeyword(path, call, "sampler"))
        if existing is not None and not is_false(existing.value):
            if existing.keyword:
                edits.append(DropKeyword(path, call, "shuffle"))
            else:
                edits.append(SetKeyword(path, call, "shuffle", "False", positional=existing.position))
    elif existing is None:
        edits.append(SetKeyword(path, call, "shuffle", shuffle, replacing="sampler"))
    else:
        edits.append(SetKeyword(path, call, "shuffle", shuffle, positional=existing.position))
        edits.append(DropKeyword(path, call, "sampler"))
    for name in _class_names(module, site.arms):
        edits.append(DropImport(path, name))
    return edits


def _taken(removal: _Removal) -> Taken:
    """The nodes that are gone once a removal is made: the sampler, what asks for it, and how it was told the epoch."""
    site = removal.site
    nodes: set[ast.AST] = set(removal.gone)
    values = [(a.name, a.value) for a in _written(site)]
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


def plan(sites: Sequence[Site], options: Options) -> Planned:
    """Changes for the loaders of one module that carry a sampler they should not."""
    removals: list[_Removal] = []
    findings: list[tuple[Location, Finding]] = []
    right: list[tuple[Location, str]] = []
    for site in sites:
        if site.kind != "torch" or site.unseen:
            continue
        outcome = _removal(site, options)
        if isinstance(outcome, _Removal):
            if outcome.tier == "cosmetic" and not options.cosmetic:
                continue
            if outcome.tier == "unsafe" and not options.unsafe:
                findings.append(
                    (
                        site.location,
                        Finding(
                            outcome.codes[0],
                            site.location,
                            outcome.reason,
                            outcome.evidence,
                            "`--unsafe` makes the edit",
                        ),
                    )
                )
                continue
            removals.append(outcome)
        elif isinstance(outcome, Finding):
            findings.append((site.location, outcome))
        elif outcome is not None:
            right.append((site.location, outcome))
    removals, alone = _fed_alike(removals)
    findings += alone
    kept, refused = _told(removals, sites)
    return Planned(tuple(_changes(kept)), (*findings, *refused), tuple(right))


def _fed_alike(removals: Sequence[_Removal]) -> tuple[list[_Removal], list[tuple[Location, Finding]]]:
    """The removals without those that edit a dict which also feeds another call, and a refusal for each of these."""
    kept, refused = list(removals), list[tuple[Location, Finding]]()
    while True:
        said = {r.site.call: r.shuffle for r in kept}
        for removal in kept:
            other = next((c for c in removal.fed if said.get(c) != removal.shuffle), None)
            if other is not None:
                note = f"the dict that holds them also feeds the call in line {other.lineno}"
                evidence = (removal.site.module.evidence(other),)
                refused.append((removal.site.location, refuse(removal.site, "SHD903", note=note, evidence=evidence)))
                kept.remove(removal)
                break
        else:
            return kept, refused


def _told(
    removals: Sequence[_Removal], sites: Sequence[Site]
) -> tuple[list[tuple[_Removal, frozenset[ast.Call]]], list[tuple[Location, Finding]]]:
    """The removals with the edits of the ``set_epoch`` calls that they concern, each with those calls, and refusals
    where a call also tells a sampler that stays."""
    found: dict[ast.Call, tuple[SetEpoch, list[Site]]] = {}
    for site in sites:
        for told in site.told:
            if needs_telling(site, told):
                found.setdefault(told.call, (told, []))[1].append(site)
    refused: dict[Location, Finding] = {}
    for removal in removals:
        why = asked_through(removal.site) if "SHD201" in removal.codes else ""
        if why:
            found_elsewhere = _shared(removal.site, why, removal.site.call)
            message = f"the sampler is needed elsewhere: {why}"
            refused[removal.site.location] = replace(found_elsewhere, message=message)
    while True:
        going = {r.site for r in removals if r.site.location not in refused}
        retold: dict[ast.Call, Retold] = {}
        before = len(refused)
        for call, (told, tellers) in found.items():
            mine = [s for s in tellers if s in going]
            if not mine:
                continue
            others = [s for s in tellers if s not in going]
            if others:
                lines = ", ".join(dict.fromkeys(str(s.location.line) for s in others))
                why = f"set_epoch in line {call.lineno} also tells the sampler of the loader in line {lines}"
                retold[call] = Retold(refused=why)
            else:
                retold[call] = retell(told, mine)
            why = retold[call].refused
            refused.update((s.location, _shared(s, why, call)) for s in mine if why)
        if len(refused) == before:
            break
    kept: list[tuple[_Removal, frozenset[ast.Call]]] = []
    for removal in removals:
        if removal.site not in going:
            continue
        calls = [c for c in retold if removal.site in found[c][1]]
        edits = tuple(e for c in calls for e in retold[c].edits)
        gone = frozenset(n for c in calls for n in retold[c].gone)
        kept.append((replace(removal, edits=(*removal.edits, *edits), gone=gone), frozenset(calls)))
    return kept, list(refused.items())


def _shared(site: Site, why: str, call: ast.Call) -> Finding:
    found = refuse(site, "SHD920", note=why, evidence=(site.module.evidence(call),))
    return replace(
        found, remedy="give each loader a sampler and a set_epoch of its own, or take the sampler off by hand"
    )


def _changes(told: Sequence[tuple[_Removal, frozenset[ast.Call]]]) -> list[Change]:
    """One change for each removal; removals that share an unused statement or a ``set_epoch`` are right only
    together."""
    if not told:
        return []
    removals = [r for r, _ in told]
    module = removals[0].site.module
    unused = unused_statements(module, [_taken(r) for r in removals])
    calls = {c for _, shared in told for c in shared}
    shared = [frozenset(i for i, (_, mine) in enumerate(told) if c in mine) for c in calls]
    groups = [frozenset((i,)) for i in range(len(removals))]
    shared += [frozenset(i for i, r in enumerate(removals) if r.site.call in one.fed) for one in removals if one.fed]
    for needs in (*(u.needs for u in unused), *shared):
        joined = frozenset().union(*(g for g in groups if g & needs))
        groups = [g for g in groups if not g & needs] + ([joined] if joined else [])
    changes: list[Change] = []
    for group in sorted(groups, key=min):
        drops = [DropStatement(*module.place(u.statement)) for u in unused if u.needs & group]
        changes.append(_joined([removals[i] for i in sorted(group)], drops))
    return changes


def _joined(members: Sequence[_Removal], dead: Sequence[Edit]) -> Change:
    first = members[0]
    codes = tuple(dict.fromkeys(c for m in members for c in m.codes))
    order = {"safe": 1, "cosmetic": 0, "unsafe": 2, "report": 3}
    titles = {
        "SHD101": "remove a sampler that prepare() makes redundant",
        "SHD102": "write a batch sampler as batch_size, shuffle and drop_last",
        "SHD103": "remove a sampler that says what the default says",
        "SHD201": "remove a DistributedSampler that shards the data a second time",
    }
    worst = "SHD201" if "SHD201" in codes else codes[0]
    return Change(
        first.site.location,
        "remove_redundant_sampler",
        codes,
        max((m.tier for m in members), key=lambda t: order[t]),
        titles[worst],
        tuple(dict.fromkeys([*(e for m in members for e in m.edits), *dead])),
        reason="; ".join(dict.fromkeys(m.reason for m in members if m.reason)),
        consequences=tuple(dict.fromkeys(c for m in members for c in m.consequences)),
        evidence=tuple(dict.fromkeys(e for m in members for e in m.evidence)),
        also=tuple(m.site.location for m in members[1:]),
    )


_PREPARED = (
    "from accelerate import Accelerator\n"
    "from torch.utils.data import DataLoader{imports}\n"
    "\n"
    "accelerator = Accelerator()\n"
    "dataset = list(range(16))\n"
    "{body}"
)

RULE = Rule(
    name="remove_redundant_sampler",
    command="RemoveRedundantSampler",
    codes={
        "SHD101": "redundant sampler in a prepared loader",
        "SHD102": "redundant batch sampler in a prepared loader",
        "SHD103": "sampler that says what the default says",
        "SHD201": "sharded twice: DistributedSampler in a prepared loader",
    },
    tier="safe",
    tiers={"SHD103": "cosmetic"},
    why="accelerate's prepare() wraps the batch sampler of every map-style loader, whatever its sampler is (measured "
    "on 0.5.1, 0.12, 0.20.3, 0.34.2 and 1.15). A Sequential- or RandomSampler there is redundant. A "
    "DistributedSampler shards first and prepare() shards again: of 32 samples each of 2 ranks reads 8, half of the "
    "data is never read, the shards are disjoint and nothing warns.",
    refuses=(
        "Where the sampler comes from elsewhere, draws from another dataset, shuffles on one path only, is told the "
        "epoch together with one that stays, is asked for its rank through the loader, or a "
        "generator decides the order. Weighted, subset and other sampling with a meaning of its own stays: "
        "accelerate cuts one synchronised draw."
    ),
    plan=plan,
    valid=(
        Example(
            "a WeightedRandomSampler is drawn once and shared out by prepare()",
            _PREPARED.format(
                imports=", WeightedRandomSampler",
                body="sampler = WeightedRandomSampler([1.0] * 16, num_samples=16)\n"
                "loader = accelerator.prepare(DataLoader(dataset, batch_size=2, sampler=sampler))\n"
                "for batch in loader:\n"
                "    pass\n",
            ),
        ),
        Example(
            "num_replicas=1 does not shard",
            "from accelerate import Accelerator\n"
            "from torch.utils.data import DataLoader\n"
            "from torch.utils.data.distributed import DistributedSampler\n"
            "\n"
            "accelerator = Accelerator()\n"
            "dataset = list(range(16))\n"
            "sampler = DistributedSampler(dataset, num_replicas=1, rank=0)\n"
            "loader = accelerator.prepare(DataLoader(dataset, batch_size=2, sampler=sampler))\n"
            "for batch in loader:\n"
            "    pass\n",
        ),
        Example(
            "the sampler draws from another dataset",
            _PREPARED.format(
                imports=", SequentialSampler",
                body="part = dataset[:8]\n"
                "loader = accelerator.prepare(DataLoader(dataset, batch_size=2, sampler=SequentialSampler(part)))\n"
                "for batch in loader:\n"
                "    pass\n",
            ),
            code="SHD907",
        ),
        Example(
            "a dict of keywords that also feeds a loader which keeps its sampler",
            _PREPARED.format(
                imports=", RandomSampler",
                body='options = {"batch_size": 2, "sampler": RandomSampler(dataset)}\n'
                "loader = accelerator.prepare(DataLoader(dataset, **options))\n"
                "for batch in loader:\n"
                "    pass\n"
                "mean = sum(batch.sum() for batch in DataLoader(dataset, **options))\n",
            ),
            code="SHD903",
        ),
    ),
    invalid=(
        Example(
            "a DistributedSampler handed to prepare(): half of the data is never read",
            "from accelerate import Accelerator\n"
            "from torch.utils.data import DataLoader\n"
            "from torch.utils.data.distributed import DistributedSampler\n"
            "\n"
            "accelerator = Accelerator()\n"
            "dataset = list(range(16))\n"
            "sampler = DistributedSampler(\n"
            "    dataset,\n"
            "    num_replicas=accelerator.num_processes,\n"
            "    rank=accelerator.process_index,\n"
            ")\n"
            "loader = DataLoader(dataset, batch_size=2, sampler=sampler)\n"
            "loader = accelerator.prepare(loader)\n"
            "for epoch in range(2):\n"
            "    sampler.set_epoch(epoch)\n"
            "    for batch in loader:\n"
            "        pass\n",
            "from accelerate import Accelerator\n"
            "from torch.utils.data import DataLoader\n"
            "\n"
            "accelerator = Accelerator()\n"
            "dataset = list(range(16))\n"
            "loader = DataLoader(dataset, batch_size=2, shuffle=True)\n"
            "loader = accelerator.prepare(loader)\n"
            "for epoch in range(2):\n"
            "    loader.set_epoch(epoch)\n"
            "    for batch in loader:\n"
            "        pass\n",
            code="SHD201",
        ),
        Example(
            "a SequentialSampler in a prepared loader",
            _PREPARED.format(
                imports=", SequentialSampler",
                body="sampler = SequentialSampler(dataset)\n"
                "loader = accelerator.prepare(DataLoader(dataset, sampler=sampler, batch_size=2))\n"
                "for batch in loader:\n"
                "    pass\n",
            ),
            _PREPARED.format(
                imports="",
                body="loader = accelerator.prepare(DataLoader(dataset, batch_size=2))\n"
                "for batch in loader:\n"
                "    pass\n",
            ),
            code="SHD101",
        ),
        Example(
            "a BatchSampler that says what batch_size, shuffle and drop_last say",
            _PREPARED.format(
                imports=", BatchSampler, RandomSampler",
                body="sampler = BatchSampler(RandomSampler(dataset), 2, True)\n"
                "loader = accelerator.prepare(DataLoader(dataset, batch_sampler=sampler))\n"
                "for batch in loader:\n"
                "    pass\n",
            ),
            _PREPARED.format(
                imports="",
                body="loader = accelerator.prepare(DataLoader(dataset, batch_size=2, shuffle=True, drop_last=True))\n"
                "for batch in loader:\n"
                "    pass\n",
            ),
            code="SHD102",
        ),
        Example(
            "the sampler stands in a dict of keywords, which differs by path",
            "from accelerate import Accelerator\n"
            "from torch.utils.data import DataLoader\n"
            "from torch.utils.data.distributed import DistributedSampler\n"
            "\n"
            "accelerator = Accelerator()\n"
            "dataset = list(range(16))\n"
            'options = {"batch_size": 2}\n'
            "if accelerator.num_processes > 1:\n"
            '    options["sampler"] = DistributedSampler(dataset)\n'
            "else:\n"
            '    options["shuffle"] = True\n'
            "loader = accelerator.prepare(DataLoader(dataset, **options))\n"
            "for batch in loader:\n"
            "    pass\n",
            "from accelerate import Accelerator\n"
            "from torch.utils.data import DataLoader\n"
            "\n"
            "accelerator = Accelerator()\n"
            "dataset = list(range(16))\n"
            'options = {"batch_size": 2}\n'
            "if accelerator.num_processes > 1:\n"
            '    options["shuffle"] = True\n'
            "else:\n"
            '    options["shuffle"] = True\n'
            "loader = accelerator.prepare(DataLoader(dataset, **options))\n"
            "for batch in loader:\n"
            "    pass\n",
            code="SHD201",
        ),
        Example(
            "in one process a SequentialSampler is the default",
            "from torch.utils.data import DataLoader, SequentialSampler\n"
            "\n"
            "dataset = list(range(8))\n"
            "loader = DataLoader(dataset, sampler=SequentialSampler(dataset), batch_size=2)\n",
            "from torch.utils.data import DataLoader\n"
            "\n"
            "dataset = list(range(8))\n"
            "loader = DataLoader(dataset, batch_size=2)\n",
            code="SHD103",
        ),
    ),
)


def __getattr__(name: str) -> type:
    if name != RULE.command:
        raise AttributeError(name)
    from shardfix.libcst_command import command_for

    return command_for(RULE)
