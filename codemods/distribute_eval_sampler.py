"""Shard evaluation loaders that every rank reads whole, where the metric stays right; keep evaluation in order."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from shardfix.codemods._all_ranks import is_offered, offer
from shardfix.codemods._findings import divided, lengths, reduces, refuse
from shardfix.codemods._half_combined import half_combined
from shardfix.codemods._in_order import made_shuffling, ordered
from shardfix.codemods._mending import Hindrance, Mended, hindrance, mended, other_loaders
from shardfix.codemods._sharding import shard

from shardfix.analysis.code.names import last_name
from shardfix.analysis.loaders.samplers import Arm
from shardfix.analysis.loops.accumulation import accumulated, same_source
from shardfix.analysis.loops.duplicates import merged_by_sample
from shardfix.analysis.loops.learning import does, evaluates
from shardfix.analysis.loops.leaving import left_early
from shardfix.analysis.loops.results import keeps_a_result, out_of_sight
from shardfix.analysis.metrics.reread import OVERWRITTEN
from shardfix.analysis.metrics.twice import reduced_later
from shardfix.analysis.model import Change, Evidence, Finding, Location, Options
from shardfix.analysis.programs.groups import alone_at
from shardfix.analysis.programs.processes import distributed_test, is_world_size
from shardfix.analysis.rules import Example, Planned, Rule
from shardfix.analysis.sites import Site
from shardfix.rewrite.edits import DropImport, ReplaceExpression


def _sharded(site: Site) -> list[Change | Finding | str]:
    """An evaluation that a sampler shards: its order, and whether its metric is whole."""
    module = site.module
    arms = [*site.arms, *(i for b in site.batch_arms for i in b.inner)]
    distributed = [*(a for a in arms if a.kind == "distributed"), *site.own_shares]
    if site.evaluation.guard is not None or site.evaluation.sometimes is not None:
        return [_of_one_rank(site, distributed)]
    metric = _metric(site, distributed)
    edits = ordered(module, arms)
    shuffling = made_shuffling(site, arms) if not edits else None
    if not edits and shuffling is None:
        sharding = "a DistributedSampler shards it" if not site.own_shares else f"{site.own_shares[0].label} shards it"
        return [metric or sharding]
    left = _left_early(site)
    if left is not None:
        # Of a dataset that is sorted, the samples at its beginning are no fair draw.
        return [
            metric or f"line {left.location.line} ends its loop early: it reads some of the samples, drawn at random"
        ]
    if may_train(site) and not site.answered("role", "eval"):
        return [metric or refuse(site, "SHD916", note="its name says evaluation, its loop does not")]
    if shuffling is not None:
        return [metric, shuffling] if metric is not None else [shuffling]
    mine = {(d.node, d.by) for d in distributed}
    shared = [s for s in site.siblings if s is not site and any((a.node, a.by) in mine for a in s.arms)]
    if any(s.role != "eval" for s in shared):
        return [refuse(site, "SHD902", note="a training loader shares the sampler")]
    written = site.evaluation.positional
    change = Change(
        site.location,
        "distribute_eval_sampler",
        ("SHD501",),
        "safe",
        "keep evaluation in the dataset's order",
        tuple(edits),
        consequences=(
            "each rank evaluates the same number of samples as before, now in the dataset's order",
            *((f"line {written.location.line} still goes by the order of each rank's own part",) if written else ()),
        ),
        evidence=tuple(module.evidence(a.node) for a in distributed),
    )
    return [change, metric] if metric is not None else [change]


def _left_early(site: Site) -> Evidence | None:
    """The line by which an evaluation reads some of its batches only."""
    loops = [u.node for u in site.flow.of("iterate")]
    left = next((n for n in map(left_early, loops) if n is not None), None)
    return None if left is None else site.module.home(left).evidence(left)


def _of_one_rank(site: Site, distributed: Sequence[Arm]) -> Change | Finding | str:
    """A sampler that deals to all ranks in an evaluation that one rank alone runs."""
    module, found = site.module, site.evaluation
    guard = found.guard or found.sometimes
    assert guard is not None
    plain = _plain_arm(site)
    if found.undistributed is not None and plain is not None:
        return f"only a run of one process evaluates (line {guard.location.line}), in which no sampler shards"
    evidence = (guard, module.evidence(distributed[0].node))
    offered = found.guard is not None and is_offered(site)
    if offered and site.options.unsafe:
        return "one rank alone reads its share of it, and the others are let in"
    if found.guard is not None and plain is not None and site.options.unsafe:
        conditional = module.parents[plain.node]
        made = [a.node for a in distributed if isinstance(a.node, ast.Call) and isinstance(a.node.func, ast.Name)]
        unused = [DropImport(module.home(call).path, module.source.source(call.func)) for call in made]
        return Change(
            site.location,
            "distribute_eval_sampler",
            ("SHD505",),
            "unsafe",
            "let the one rank that evaluates read everything",
            (
                ReplaceExpression(*module.place(conditional), module.source.source(plain.node)),
                *dict.fromkeys(unused),
            ),
            reason="it evaluates W times as many samples as before, and the other ranks wait for it where they next "
            "combine something",
            consequences=("the metric covers all samples; until now it covered the first rank's share of them",),
            evidence=evidence,
        )
    where = "" if found.guard is not None else " on one of its paths"
    remedy = "evaluate on every rank and reduce the metric, or use a plain loader on the main process"
    if offered:
        remedy += "; `--unsafe` lets all ranks evaluate"
    elif found.guard is not None and plain is not None:
        remedy += "; `--unsafe` takes the distributed sampler out"
    elif found.guard is not None:
        remedy += f"; {offer(site)}"
    message = f"a distributed sampler in an evaluation that one rank alone runs{where}: it sees 1/W of the samples"
    return Finding("SHD706", site.location, message, evidence, remedy)


def _plain_arm(site: Site) -> Arm | None:
    """The arm that runs of one process take, where the other one is a DistributedSampler and the two stand in one
    conditional expression that nothing else uses."""
    if site.batch_arms or len(site.arms) != 2:
        return None
    plain = next((a for a in site.arms if a.kind in ("sequential", "none")), None)
    other = next((a for a in site.arms if a.kind == "distributed"), None)
    if plain is None or other is None or other.by:
        return None
    module = site.module
    conditional = module.parents[plain.node]
    if not isinstance(conditional, ast.IfExp) or {conditional.body, conditional.orelse} != {plain.node, other.node}:
        return None
    several = distributed_test(conditional.test)
    if several is None or several is not (conditional.body is other.node):
        return None
    if plain.kind == "sequential":
        drawn = next(
            (v for name in ("data_source", "dataset") if plain.arguments and (v := plain.arguments.value(name))), None
        )
        if drawn is None or site.dataset is None or not same_source(drawn, site.dataset):
            return None
    inside = set(ast.walk(site.call))
    read = [r for d in plain.definitions for r in module.bindings.readers(d)]
    return plain if all(r in inside for r in read) else None


def may_train(site: Site) -> bool:
    """Whether an epoch loop drives a loader that only its name calls one for evaluation, or its loop runs backward."""
    module = site.module
    loops = [u.node for u in site.flow.of("iterate")]
    if _computes_gradients(site):
        return True
    if not loops or not (site.told or site.epoch_loops.loops) or any(evaluates(module, loop) for loop in loops):
        return False
    scopes = [module.scope(loop) for loop in loops]
    calls = [c for m in {module.home(loop) for loop in loops} for c in m.calls]
    modes = [c for c in calls if isinstance(c.func, ast.Attribute) and c.func.attr in ("eval", "train")]
    return not any(
        isinstance(c.func, ast.Attribute) and c.func.attr == "eval" and module.scope(c) in scopes for c in modes
    )


def _computes_gradients(site: Site) -> bool:
    return any(does(site.module, u.node, site.flow.aliases) == "gradients" for u in site.flow.of("iterate"))


def _metric(site: Site, distributed: Sequence[Arm]) -> Finding | None:
    """A sharded evaluation whose metric is one rank's part of it, or counts the padding."""
    found = site.evaluation
    loops = [u.node for u in site.flow.of("iterate")]
    if not any(keeps_a_result(site.module, loop) for loop in loops):
        site.answered("metric", "reduced", "exact")  # the sharding rests on it, though nothing asks for it any more
        return None
    if found.exact is not None:
        return None
    evidence = site.module.evidence(distributed[0].node)
    if found.reduction is None and not site.answered("metric", "reduced", "exact"):
        own = _combined(site)
        if own is not None:
            note = f"how the ranks' parts are combined is not followed: line {own.evidence.location.line}, {own.why}"
            return refuse(site, "SHD923", instead=note, evidence=(evidence, own.evidence))
        why, where = hindrance(site)
        files = "give each rank a file of its own, or gather the rows (dist.gather_object) and let one rank write them"
        return Finding(
            "SHD503",
            site.location,
            "the evaluation is sharded and its result is not combined: each rank's metric covers its own share only"
            + (f"; it is not put together, because {why}" if why else ""),
            (evidence, *(where or (site.module.evidence(loops[0]),))),
            files
            if why.endswith(OVERWRITTEN)
            else f"reduce the sums and counts across ranks ({reduces(site)}) before dividing",
        )
    half = half_combined(site, evidence) if found.reduction is not None and site.answers.metric is None else None
    if half is not None:
        return half
    if site.own_shares:
        return None  # whether it repeats samples is not seen
    if all(a.constant("drop_last") is True for a in distributed):
        return None  # nothing is repeated; up to W-1 samples are left out
    if site.answered("metric", "exact") or merged_by_sample(site.module, loops) is not None:
        return None
    why, where = hindrance(site)
    return Finding(
        "SHD502",
        site.location,
        "up to W-1 samples are counted twice in the reduced metric: the sampler repeats samples so that the ranks "
        "are even" + (f"; they are not left out, because {why}" if why else ""),
        (evidence, *_reduction(site), *where),
        "`--unsafe` leaves them out, and puts the metric together behind the loop"
        if isinstance(mended(site), Mended) and not site.options.unsafe and not any(True for _ in other_loaders(site))
        else "lay the gathered results in turn and cut them at len(dataset), or place them by index",
    )


def _combined(site: Site) -> Hindrance | None:
    """Where a sharded evaluation combines the ranks' parts by itself, or may, out of sight of what is known to."""
    for loop in (u.node for u in site.flow.of("iterate")):
        if isinstance(loop, ast.For):
            kept = [ast.unparse(s.target) for s in accumulated(loop)]
            later = reduced_later(site.module.home(loop), loop, kept, sharded=True)
            if later is not None:
                return Hindrance(later.why, site.module.home(later.node).evidence(later.node))
    for function in site.evaluation.functions:
        use = out_of_sight(site.module, function)
        if use is not None:
            why = f"`{getattr(function, 'name', '')}` is handed on, and what is made of its result is not seen"
            return Hindrance(why, site.module.home(use).evidence(use))
    return None


def _reduction(site: Site) -> tuple[Evidence, ...]:
    """The line that shows that the metric is reduced, or says so."""
    answer = site.answers.metric
    said = answer.evidence if answer is not None and "metric" in site.heeded else None
    return tuple(e for e in (site.evaluation.reduction, said) if e is not None)


def rest_of(site: Site) -> ast.expr | None:
    """``Subset(ds, range(len(sampler) * world_size, len(ds)))``: the samples that a sampler with drop_last leaves."""
    module, dataset = site.module, site.dataset
    if isinstance(dataset, ast.Name):
        values = [d.value for d in module.bindings.reaching(dataset)]
        dataset = values[0] if len(values) == 1 else None
    if not isinstance(dataset, ast.Call) or "torch.utils.data.Subset" not in module.callee(dataset):
        return None
    given = [*dataset.args[1:2], *(k.value for k in dataset.keywords if k.arg == "indices")]
    indices = given[0] if given else None
    if not (isinstance(indices, ast.Call) and last_name(indices.func) == "range" and len(indices.args) == 2):
        return None
    start, end = indices.args
    product = isinstance(start, ast.BinOp) and isinstance(start.op, ast.Mult)
    parts = [start.left, start.right] if isinstance(start, ast.BinOp) else []
    length = any(
        isinstance(p, ast.Call) and last_name(p.func) == "len" and "sampler" in module.source.source(p) for p in parts
    )
    whole = isinstance(end, ast.Call) and last_name(end.func) == "len"
    return dataset if product and length and whole and any(is_world_size(p) for p in parts) else None


def _unsharded(site: Site, options: Options) -> Change | Finding | str | None:
    if site.batch_arms or site.kinds & {"weighted", "custom"}:
        return refuse(site, "SHD915")
    if site.kinds & {"parameter", "unknown"}:
        return refuse(site, "SHD902")
    found = site.evaluation
    built = alone_at(site.module, site.call)
    if built is not None and found.guard is None:
        return f"only one process builds it (line {built.lineno}), so it reads everything, as it should"
    if found.guard is not None:
        line = found.guard.location.line
        more = f"; {offer(site)}" if found.undistributed is None else ""
        return f"only one rank evaluates (line {line}), so it reads everything, as it should{more}"
    if found.sometimes is not None:
        one = found.sometimes.location
        place = f"line {one.line}" if one.path == site.location.path else f"{one.path}:{one.line}"
        note = f"one way to its loop is the main process's alone ({place}), another is not"
        return refuse(site, "SHD905", note=note, evidence=(found.sometimes,))
    if rest_of(site) is not None:
        return "it holds what the sharded loader leaves out, which each rank evaluates alike"
    if not found.functions and not site.answered("metric", "reduced", "exact"):
        return refuse(site, "SHD923")
    if found.positional is not None:
        return refuse(site, "SHD921", evidence=(found.positional,))
    if found.gathers is not None:
        note = "the loop gathers through the Accelerator, which knows only prepared loaders: hand this one to prepare()"
        return refuse(site, "SHD906", note=note, evidence=(found.gathers,))
    reason = ""
    code = ""
    exact = found.exact is not None or site.answered("metric", "exact")
    if found.reduction is None and not site.answered("metric", "reduced", "exact"):
        code, reason = (
            "SHD904",
            "the metric is not reduced across ranks: sharded, each rank's covers its own share only",
        )
    elif not exact:
        code, reason = "SHD906", "up to W-1 samples are counted twice: padding reaches the reduced metric"
    elif _drops_last(site):
        code, reason = "SHD906", "drop_last leaves out other samples once the loader is sharded"
    elif any(site.module.scope(u.node) in found.functions for u in site.flow.of("length")):
        code, reason = "SHD906", "len(loader), read where the metric is made, becomes one rank's number of batches"
    division = divided(site)
    if division is not None and not reason:
        code, reason = "SHD930", f"line {division.location.line} divides the length by the processes again"
    hindered = mended(site) if code == "SHD904" else None
    # A rank that evaluates alone would have its share only; of gradients, each rank would go on with others.
    never = isinstance(hindered, Hindrance) and (hindered.alone or _computes_gradients(site))
    if reason and (never or not options.unsafe):
        evidence = (division,) if code == "SHD930" and division is not None else _reduction(site)
        why, where = hindrance(site) if code == "SHD904" or (code == "SHD906" and not exact) else ("", ())
        note = why or (reason if exact else "")
        return refuse(site, code, note=note, evidence=(*evidence, *where), unsafe=not never)
    edits = shard(site, shuffle="False", tell=False)
    if isinstance(edits, Finding):
        return edits
    return Change(
        site.location,
        "distribute_eval_sampler",
        ("SHD302",),
        "unsafe" if reason else "safe",
        "evaluate each sample on one rank",
        tuple(edits),
        reason=reason,
        consequences=(
            "with W processes each rank evaluates 1/W of the samples; until now each evaluated all of them",
            *lengths(site, "it is W times shorter now"),
        ),
        evidence=(*site.owner_evidence, *_reduction(site), *((found.exact,) if found.exact is not None else ())),
    )


def _drops_last(site: Site) -> bool:
    value = site.arguments.value("drop_last")
    return value is not None and not (isinstance(value, ast.Constant) and not value.value)


def plan(sites: Sequence[Site], options: Options) -> Planned:
    """Changes for the evaluation loaders of one module that nobody shards, or that a shuffling sampler shards."""
    changes: list[Change] = []
    findings: list[tuple[Location, Finding]] = []
    right: list[tuple[Location, str]] = []
    for site in sites:
        if site.kind != "torch" or site.arguments.opaque or site.owner != "ddp" or site.role != "eval":
            continue
        inner = {i.kind for b in site.batch_arms for i in b.inner}
        sharded = "distributed" in site.kinds | inner or bool(site.own_shares)
        for outcome in _sharded(site) if sharded else [_unsharded(site, options)]:
            if isinstance(outcome, Change):
                changes.append(outcome)
            elif isinstance(outcome, Finding):
                findings.append((site.location, outcome))
            elif outcome is not None:
                right.append((site.location, outcome))
    return Planned(tuple(changes), tuple(findings), tuple(right))


_EVAL = (
    "import torch\n"
    "import torch.distributed as dist\n"
    "from torch.utils.data import DataLoader\n"
    "{imports}"
    "\n"
    'dist.init_process_group("gloo")\n'
    "val_set = [(i, i % 2) for i in range(7)]\n"
    "{loader}"
    "\n"
    "\n"
    "@torch.no_grad()\n"
    "def evaluate(model):\n"
    "    hits = torch.zeros(len(val_set))\n"
    "    for index, label in val_loader:\n"
    "        hits[index] = (model(index) == label).float()\n"
    "    dist.all_reduce(hits, op=dist.ReduceOp.MAX)\n"
    "    return hits.mean()\n"
)

_BOTH = "from torch.utils.data import DataLoader, DistributedSampler, SequentialSampler\n"
_PLAIN = "from torch.utils.data import DataLoader, SequentialSampler\n"
_ONE_RANK = (
    "import torch\n"
    "import torch.distributed as dist\n"
    "{1}"
    "\n"
    'dist.init_process_group("gloo")\n'
    "world_size = dist.get_world_size()\n"
    "val_set = [(i, i % 2) for i in range(7)]\n"
    "val_loader = DataLoader(val_set, sampler={0})\n"
    "if dist.get_rank() == 0:\n"
    "    with torch.no_grad():\n"
    "        hits = sum((index == label).sum() for index, label in val_loader)\n"
    "    print(hits / len(val_set))\n"
)

RULE = Rule(
    name="distribute_eval_sampler",
    command="DistributeEvalSampler",
    codes={
        "SHD302": "unsharded evaluation: every rank evaluates all samples",
        "SHD501": "evaluation in shuffled order",
        "SHD502": "padding counted in a reduced metric",
        "SHD503": "sharded evaluation that is not reduced, or only in part",
        "SHD505": "one rank evaluates and reads its share only",
    },
    tier="safe",
    tiers={"SHD502": "report", "SHD503": "report", "SHD505": "unsafe"},
    why=(
        "Without a sampler each of W ranks evaluates every sample: W times the work. A DistributedSampler shuffles "
        "unless told shuffle=False, so files written in order are permuted. It pads: 7 samples on 2 ranks become 8 "
        "visits, and a reduced count of 1 in 7 becomes 2 in 8 (torch 2.13). Hence a loader is sharded only where the "
        "results are reduced and placed by sample index, cut at the dataset's length, or gathered for metrics."
    ),
    refuses=(
        "Where the metric is not reduced, where padding would reach it (both: --unsafe), where one rank evaluates, "
        "and where results are written in the loader's order."
    ),
    plan=plan,
    valid=(
        Example(
            "the main process alone evaluates",
            "import torch\n"
            "import torch.distributed as dist\n"
            "from torch.utils.data import DataLoader\n"
            "\n"
            'dist.init_process_group("gloo")\n'
            "val_loader = DataLoader(list(range(8)), batch_size=2)\n"
            "if dist.get_rank() == 0:\n"
            "    with torch.no_grad():\n"
            "        for batch in val_loader:\n"
            "            print(batch)\n",
        ),
        Example(
            "a loss scattered by sample index may be negative, and MAX would lose it",
            "import torch\n"
            "import torch.distributed as dist\n"
            "from torch.utils.data import DataLoader\n"
            "\n"
            'dist.init_process_group("gloo")\n'
            "val_loader = DataLoader(list(enumerate(range(8))), batch_size=2)\n"
            "losses = torch.zeros(8)\n"
            "with torch.no_grad():\n"
            "    for index, batch in val_loader:\n"
            "        losses[index] = -batch.float()\n"
            "dist.all_reduce(losses, op=dist.ReduceOp.MAX)\n",
            code="SHD906",
        ),
        Example(
            "len(loader) divides the metric, and it is shorter on each rank once sharded",
            "import torch\n"
            "import torch.distributed as dist\n"
            "from torch.utils.data import DataLoader\n"
            "\n"
            'dist.init_process_group("gloo")\n'
            "val_loader = DataLoader(list(enumerate(range(8))), batch_size=1)\n"
            "hits = torch.zeros(8)\n"
            "with torch.no_grad():\n"
            "    for index, label in val_loader:\n"
            "        hits[index] = (label == index).float()\n"
            "dist.all_reduce(hits, op=dist.ReduceOp.MAX)\n"
            "accuracy = hits.sum() / len(val_loader)\n",
            code="SHD906",
        ),
        Example(
            "nothing reduces the metric",
            "import torch\n"
            "import torch.distributed as dist\n"
            "from torch.utils.data import DataLoader\n"
            "\n"
            'dist.init_process_group("gloo")\n'
            "val_loader = DataLoader(list(range(8)), batch_size=2)\n"
            "total = 0\n"
            "with torch.no_grad():\n"
            "    for batch in val_loader:\n"
            "        total += batch.sum()\n",
            code="SHD904",
        ),
    ),
    invalid=(
        Example(
            "results are placed by sample index and combined, so padding can't count twice",
            _EVAL.format(imports="", loader="val_loader = DataLoader(val_set, batch_size=2)\n"),
            _EVAL.format(
                imports="from torch.utils.data.distributed import DistributedSampler\n",
                loader="val_sampler = DistributedSampler(val_set, shuffle=False)\n"
                "val_loader = DataLoader(val_set, batch_size=2, sampler=val_sampler)\n",
            ),
            code="SHD302",
        ),
        Example(
            "one rank alone evaluates, and reads its share only",
            _ONE_RANK.format("SequentialSampler(val_set) if world_size == 1 else DistributedSampler(val_set)", _BOTH),
            _ONE_RANK.format("SequentialSampler(val_set)", _PLAIN),
            code="SHD505",
            unsafe=True,
        ),
        Example(
            "a DistributedSampler that shuffles evaluation by default",
            _EVAL.format(
                imports="from torch.utils.data.distributed import DistributedSampler\n",
                loader="val_loader = DataLoader(val_set, batch_size=2, sampler=DistributedSampler(val_set))\n",
            ),
            _EVAL.format(
                imports="from torch.utils.data.distributed import DistributedSampler\n",
                loader="val_loader = DataLoader("
                "val_set, batch_size=2, sampler=DistributedSampler(val_set, shuffle=False))\n",
            ),
            code="SHD501",
        ),
    ),
)


def __getattr__(name: str) -> type:
    if name != RULE.command:
        raise AttributeError(name)
    from shardfix.libcst_command import command_for

    return command_for(RULE)
