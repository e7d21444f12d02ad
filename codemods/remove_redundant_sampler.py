"""Take explicit samplers off loaders that something else shards: redundant ones, and those that shard a second time."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from shardfix.codemods._findings import refuse
from shardfix.codemods._removal import Removal, removal_of, taken
from shardfix.codemods._telling import Retold, asked_through, needs_telling, retell
from shardfix.codemods._unused import unused_statements

from shardfix.analysis.loops.epochs import SetEpoch
from shardfix.analysis.model import Change, Finding, Location, Options
from shardfix.analysis.rules import Example, Planned, Rule
from shardfix.analysis.sites import Site
from shardfix.rewrite.edits import DropStatement, Edit


def plan(sites: Sequence[Site], options: Options) -> Planned:
    """Changes for the loaders of one module that carry a sampler they should not."""
    removals: list[Removal] = []
    findings: list[tuple[Location, Finding]] = []
    right: list[tuple[Location, str]] = []
    for site in sites:
        if site.kind != "torch" or site.unseen:
            continue
        outcome = removal_of(site, options)
        if isinstance(outcome, Removal):
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


def _fed_alike(removals: Sequence[Removal]) -> tuple[list[Removal], list[tuple[Location, Finding]]]:
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
    removals: Sequence[Removal], sites: Sequence[Site]
) -> tuple[list[tuple[Removal, frozenset[ast.Call]]], list[tuple[Location, Finding]]]:
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
    kept: list[tuple[Removal, frozenset[ast.Call]]] = []
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


def _changes(told: Sequence[tuple[Removal, frozenset[ast.Call]]]) -> list[Change]:
    """One change for each removal; removals that share an unused statement or a ``set_epoch`` are right only
    together."""
    if not told:
        return []
    removals = [r for r, _ in told]
    module = removals[0].site.module
    unused = unused_statements(module, [taken(r) for r in removals])
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


def _joined(members: Sequence[Removal], dead: Sequence[Edit]) -> Change:
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
