"""Take explicit samplers off loaders that something else shards: redundant ones, and those that shard a second time."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from shardfix.codemods._findings import lengths, refuse
from shardfix.codemods._unused import Taken, unused_statements

from shardfix.analysis.bindings import Definition
from shardfix.analysis.model import Change, Evidence, Finding, Location, Options, Tier
from shardfix.analysis.module import Module
from shardfix.analysis.rules import Example, Planned, Rule
from shardfix.analysis.samplers import Arm, same_expression
from shardfix.analysis.sites import Site
from shardfix.rewrite.edits import (
    DropImport,
    DropKeyword,
    DropStatement,
    Edit,
    InsertStatements,
    ReplaceExpression,
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


def _intended_shuffle(site: Site, arm: Arm) -> str | None:
    """Source of the ``shuffle=`` that keeps what one arm does; None if it can't be told."""
    if arm.kind == "sequential":
        return "False"
    if arm.kind == "random":
        return "True"
    if arm.kind == "distributed":
        value = arm.arguments.value("shuffle") if arm.arguments else None
        if value is None:
            return "True"
        return str(value.value) if isinstance(value, ast.Constant) else site.module.source.source(value)
    shuffle = site.arguments.value("shuffle")
    if shuffle is None or (isinstance(shuffle, ast.Constant) and not shuffle.value):
        return "False"
    if isinstance(shuffle, ast.Constant):
        return "True"
    return _without_sampler(site, shuffle)


def _without_sampler(site: Site, test: ast.expr) -> str | None:
    """``shuffle=(sampler is None)`` and its kin, read for the case that there is no sampler."""
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is) and _is_none(test.comparators[0]):
        return "True"
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) and isinstance(test.operand, ast.Name):
        value = site.arguments.value("sampler")
        return "True" if isinstance(value, ast.Name) and value.id == test.operand.id else None
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        rest = [v for v in test.values if not (isinstance(v, ast.Compare) and _is_none(v.comparators[0]))]
        if len(rest) == 1 and len(test.values) == 2:
            return site.module.source.source(rest[0])
    return None


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


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
    if not all(_plain(a) for a in site.arms):
        return None
    distributed = [a for a in site.arms if a.kind == "distributed"]
    if any(a.constant("num_replicas") == 1 for a in distributed):
        return "num_replicas=1 makes the sampler leave sharding to prepare()"
    if any(site.arguments.bound[name].from_dict for name in ("sampler", "shuffle") if name in site.arguments.bound):
        return refuse(site, "SHD903", note="they stand in a dict")
    module, dataset = site.module, site.dataset
    for arm in site.arms:
        if arm.kind == "none":
            continue
        own = arm.arguments.value(_DATASET[arm.kind]) if arm.arguments else None
        if not same_expression(module, own, dataset):
            return refuse(site, "SHD907", evidence=(module.evidence(arm.node),))
    wanted = {_intended_shuffle(site, a) for a in site.arms}
    if len(wanted) > 1 and site.role == "eval":
        wanted = {"False"}
    if len(wanted) != 1 or None in wanted:
        return refuse(site, "SHD922", evidence=tuple(module.evidence(a.node) for a in site.arms if a.kind != "none"))
    shuffle = wanted.pop()
    assert shuffle is not None
    generator = "generator" in site.arguments.bound or any(
        a.arguments is not None and a.arguments.value("generator") is not None for a in site.arms
    )
    reason = ""
    if generator and shuffle != "False":
        if site.owner == "single":
            return None
        if not options.unsafe:
            return refuse(site, "SHD914")
        reason = "generator= decides the order today; without the sampler the order is another"
    seeds = [a.arguments.value("seed") for a in distributed if a.arguments and a.arguments.value("seed") is not None]
    if any(not (isinstance(s, ast.Constant) and s.value == 0) for s in seeds):
        reason = "the sampler's seed= is lost: the order no longer depends on it"
    edits: list[Edit] = _loader_edits(site, shuffle)
    told = _retell(site)
    edits.extend(told)
    code = "SHD201" if distributed else "SHD101" if site.owner == "accelerate" else "SHD103"
    tier: Tier = "unsafe" if reason else "cosmetic" if code == "SHD103" else "safe"
    evidence = tuple(module.evidence(a.node) for a in site.arms if a.kind != "none")
    return _Removal(
        site,
        (code,),
        tier,
        tuple(edits),
        tuple(site.distributed_definitions),
        reason,
        _consequences(site, code),
        (*evidence, *site.owner_evidence),
    )


def _consequences(site: Site, code: str) -> tuple[str, ...]:
    if code == "SHD103":
        return ("same samples in the same order under one seed; nothing else changes",)
    if code != "SHD201":
        return ("same samples in the same order under one seed on every rank; nothing else changes",)
    found = [
        "each epoch reads the whole dataset: with W processes W times the samples of today, and W times the steps",
        "the order no longer follows the sampler's (seed, epoch); accelerate draws it from the synchronised generator",
    ]
    return (*found, *lengths(site, "schedules and totals made of it get W times longer"))


def _batch_removal(site: Site, options: Options) -> _Removal | Finding | str | None:
    """``batch_sampler=BatchSampler(RandomSampler(ds), B, d)`` says what the three plain arguments say."""
    if site.owner != "accelerate" or len(site.batch_arms) != 1 or site.batch_arms[0].kind != "batch":
        return None
    batch = site.batch_arms[0]
    module = site.module
    inner = batch.inner
    if len(inner) != 1 or not _plain(inner[0]) or inner[0].kind == "none" or batch.arguments is None:
        return None
    arm = inner[0]
    own = arm.arguments.value(_DATASET[arm.kind]) if arm.arguments else None
    size, drop = batch.arguments.value("batch_size"), batch.arguments.value("drop_last")
    if not same_expression(module, own, site.dataset) or size is None or drop is None:
        return refuse(site, "SHD907", evidence=(module.evidence(batch.node),))
    if arm.arguments is not None and arm.arguments.value("generator") is not None and not options.unsafe:
        return refuse(site, "SHD914")
    bound = site.arguments.bound
    if any(n in bound and not bound[n].keyword for n in ("batch_sampler", "batch_size", "shuffle", "drop_last")):
        return refuse(site, "SHD903", note="batch_sampler and what replaces it must be keywords of the call")
    shuffle = _intended_shuffle(site, arm)
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
    edits.extend(_retell(site))
    code = "SHD201" if arm.kind == "distributed" else "SHD102"
    return _Removal(
        site,
        (code,),
        "safe",
        tuple(edits),
        (*batch.definitions, *arm.definitions),
        "",
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
        if not (shuffle == "False" and _is_false(existing.value)):
            edits.append(SetKeyword(path, call, "shuffle", shuffle, positional=existing.position))
        edits.append(SetKeyword(path, call, "sampler", "None", positional=sampler.position))
    elif shuffle == "False":
        edits.append(DropKeyword(path, call, "sampler"))
        if existing is not None and not _is_false(existing.value):
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


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def _retell(site: Site) -> list[Edit]:
    """``sampler.set_epoch(e)`` becomes ``loader.set_epoch(e)`` on the prepared loader; where none is in sight it goes,
    since accelerate tells the epoch itself. Guards that ask about the sampler go with it."""
    module, path = site.module, site.module.path
    edits: list[Edit] = []
    for told in site.told:
        if told.receiver in site.flow.aliases and not isinstance(told.call.func, ast.Call):
            continue  # loader.set_epoch already
        loader = _prepared_name(site, told.call)
        statement: ast.stmt = module.statement(told.call)
        guard = module.parents[statement]
        dropped = statement
        while (
            isinstance(guard, ast.If) and len(guard.body) == 1 and not guard.orelse and _asks_sampler(site, guard.test)
        ):
            dropped = guard
            guard = module.parents[dropped]
        if not isinstance(statement, ast.Expr):
            continue
        if (
            loader
            and dropped is statement
            and statement.value is told.call
            and isinstance(told.call.func, ast.Attribute)
        ):
            edits.append(ReplaceExpression(path, module.source.span(told.receiver), loader))
            continue
        if loader and told.argument is not None:
            line = f"{loader}.set_epoch({module.source.source(told.argument)})"
            edits.append(InsertStatements(path, module.source.span(dropped), "before", (line,)))
        if isinstance(guard, ast.If) and module.block(dropped) == [dropped] and not guard.orelse and not loader:
            dropped = guard
        edits.append(DropStatement(path, module.source.span(dropped)))
    return edits


def _only_asks(site: Site, guard: ast.If) -> bool:
    """Whether an ``if`` does one thing, and its test asks what the sampler is."""
    return len(guard.body) == 1 and not guard.orelse and _asks_sampler(site, guard.test)


def _asks_sampler(site: Site, test: ast.expr) -> bool:
    """Whether a guard asks what the sampler is: ``isinstance``, ``hasattr``, ``is not None`` on it."""
    flows = [site.sampler_flow(a) for a in site.arms if isinstance(a.node, ast.Call)]
    for node in ast.walk(test):
        if not isinstance(node, ast.expr):
            continue
        if any(node in f.aliases for f in flows):
            return True
        if isinstance(node, ast.Attribute) and node.attr == "sampler" and node.value in site.flow.aliases:
            return True
    return False


def _prepared_name(site: Site, node: ast.AST) -> str:
    """How the prepared loader is called in the function of ``node``, at or after it."""
    module = site.module
    function = module.function(node)
    for use in site.flow.uses:
        if use.prepared is not None and isinstance(use.value, (ast.Name, ast.Attribute)):
            if module.function(use.value) is function:
                name = use.value
                loops = [n for n in module.around(node) if isinstance(n, (ast.For, ast.While))]
                inside = any(n in loops for n in module.around(name))
                if inside or getattr(name, "lineno", 0) >= getattr(node, "lineno", 0):
                    return module.source.source(name)
    return ""


def _taken(removal: _Removal) -> Taken:
    """The nodes that are gone once a removal is made: the sampler, what asks for it, and how it was told the epoch."""
    site, module = removal.site, removal.site.module
    nodes: set[ast.AST] = set()
    for name in ("sampler", "batch_sampler", "shuffle"):
        value = site.arguments.value(name)
        edited = name != "shuffle" or any(
            isinstance(e, (SetKeyword, DropKeyword)) and e.name == "shuffle" for e in removal.edits
        )
        if value is not None and edited:
            nodes.update(ast.walk(value))
    for told in site.told:
        statement: ast.AST = module.statement(told.call)
        nodes.update(ast.walk(statement))
        outer = module.parents[statement]
        while isinstance(outer, ast.If) and _only_asks(site, outer):
            nodes.update(ast.walk(outer))
            outer = module.parents[outer]
    return Taken(frozenset(nodes), removal.definitions)


def plan(sites: Sequence[Site], options: Options) -> Planned:
    """Changes for the loaders of one module that carry a sampler they should not."""
    removals: list[_Removal] = []
    findings: list[tuple[Location, Finding]] = []
    right: list[tuple[Location, str]] = []
    for site in sites:
        if site.kind != "torch" or site.arguments.opaque:
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
    return Planned(tuple(_changes(removals)), tuple(findings), tuple(right))


def _changes(removals: Sequence[_Removal]) -> list[Change]:
    """One change for each removal; removals that share an unused statement are right only together."""
    if not removals:
        return []
    module = removals[0].site.module
    unused = unused_statements(module, [_taken(r) for r in removals])
    groups = [frozenset((i,)) for i in range(len(removals))]
    for item in unused:
        joined = frozenset().union(*(g for g in groups if g & item.needs))
        groups = [g for g in groups if not g & item.needs] + ([joined] if joined else [])
    changes: list[Change] = []
    for group in sorted(groups, key=min):
        drops = [DropStatement(module.path, module.source.span(u.statement)) for u in unused if u.needs & group]
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
        "Where the sampler comes from elsewhere, draws from another dataset, shuffles on one path only, or a "
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
