"""Report what reads the wrong data and can't be edited safely: the fact, the line, and the way out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from shardfix.codemods._gathers import gathers, kept
from shardfix.codemods._in_one_process import of_other_ranks
from shardfix.codemods._read_alone import read_alone
from shardfix.codemods._schedules import schedules
from shardfix.codemods._sharding import is_streaming, split_by_hand
from shardfix.codemods._split_data import reads_rank, split_twice, streams, whole_stream

from shardfix.analysis.code.module import Module, is_false
from shardfix.analysis.code.names import ACCELERATOR
from shardfix.analysis.loaders.branches import conditions
from shardfix.analysis.loaders.caches import cache_by_step
from shardfix.analysis.loaders.generators import seeds_alike, unsynchronised
from shardfix.analysis.loaders.samplers import Arm
from shardfix.analysis.loops.accumulation import accumulated
from shardfix.analysis.loops.evaluation import gathers_itself
from shardfix.analysis.model import Finding, Location, Options
from shardfix.analysis.programs.groups import group_at
from shardfix.analysis.programs.processes import distributed_test
from shardfix.analysis.programs.together import together
from shardfix.analysis.programs.unit_tests import is_test
from shardfix.analysis.rules import Example, Planned, Rule
from shardfix.analysis.sites import Site

_ALIKE = re.compile(r"(?:==|~=|Version:) *0\.2[5-9]\b")  # releases that shuffle by what torch draws on each rank


def _class_of(module: Module, arm: Arm) -> ast.ClassDef | None:
    return module.class_definition(arm.node.func) if isinstance(arm.node, ast.Call) else None


def _may_give_another(module: Module, arm: Arm) -> bool:
    """Whether the function that makes a sampler may give one that shards nothing in a run of several processes too."""
    return any(_may_give_another(module, m) if m.made else _of_several(module, m) for m in arm.made if not m.rank_aware)


def _of_several(module: Module, arm: Arm) -> bool:
    if arm.kind == "distributed":
        return False
    asked = list(conditions(module.home(arm.node), arm.node))
    return not any(distributed_test(test) is not None and distributed_test(test) is not holds for test, holds in asked)


def _ordered(site: Site) -> bool:
    """Whether a loader reads its dataset in order: it has no sampler but one that does, and does not shuffle."""
    shuffle = site.arguments.value("shuffle")
    inner = [arm for batch in site.batch_arms for arm in batch.inner or (batch,)]
    ordered = all(arm.kind in ("none", "sequential") for arm in (*site.arms, *inner))
    return ordered and (shuffle is None or is_false(shuffle))


def _prepared_hazards(site: Site) -> Iterator[Finding]:
    module, where = site.module, site.location
    yield from _old_accelerate(site)
    setting = _shuffles_by_own_seed(site)
    if setting is not None:
        yield Finding(
            "SHD718",
            where,
            "use_seedable_sampler shuffles by torch's seed, which each rank draws for itself here: shards overlap and "
            "samples are missed",
            (module.evidence(setting), *site.owner_evidence),
            "call accelerate.utils.set_seed(..) on every rank before prepare(), or give DataLoaderConfiguration a "
            "data_seed=",
        )
    for arm in (*site.arms, *site.batch_arms):
        if arm.rank_aware:
            if _may_give_another(module, arm):
                continue  # on which way it is made is not seen
            yield Finding(
                "SHD702",
                where,
                f"{arm.label} already takes its rank's part, and prepare() shards again: each epoch reads 1/W of the "
                "data",
                (module.evidence(arm.node), *site.owner_evidence),
                "do not hand this loader to prepare(); move its batches with accelerator.device",
            )
            continue
        if arm.kind != "custom":
            continue
        cls = _class_of(module, arm)
        draw = unsynchronised(module, cls, batches=arm in site.batch_arms) if cls is not None else None
        if draw is not None and not (draw.kind == "global" and seeds_alike(module, draw.family)):
            yield Finding(
                "SHD701",
                where,
                f"{arm.label} shuffles with {'the global' if draw.kind == 'global' else 'a'} generator"
                f"{'' if draw.kind == 'global' else ' of its own'}, which differs by rank: shards overlap and samples "
                "are missed",
                (module.evidence(draw.node), *site.owner_evidence),
                "seed it alike on every rank"
                if arm in site.batch_arms
                else "keep a torch.Generator in self.generator and draw from it: accelerate synchronises an attribute "
                "of that name",
            )
    size = site.arguments.value("batch_size")
    batches = bool(site.arms) and all(arm.kind == "batch" for arm in site.arms)  # which prepare() shards as such
    if isinstance(size, ast.Constant) and size.value is None and not batches and not is_streaming(site):
        yield Finding(
            "SHD712",
            where,
            "batch_size=None leaves prepare() no batch sampler to shard: the loader raises at its first use in "
            "several processes",
            (module.evidence(site.call), *site.owner_evidence),
            "DataLoader(ds, batch_size=1, collate_fn=lambda batch: batch[0]) keeps the dataset's own batches",
        )
    of_streams = list(streams(site))
    yield from of_streams
    if not any(f.code == "SHD703" for f in of_streams):
        yield from split_twice(site, "prepare() shards it")
    yield from _main_only(site)
    yield from _gathered(site)
    yield from _not_gathered(site)
    yield from schedules(site)


def _old_accelerate(site: Site) -> Iterator[Finding]:
    """A release whose shuffled loaders overlap, or repeat one order: installed, or asked for."""
    pin, held = site.options.old_accelerate, site.options.installed_accelerate
    if (pin is None and held is None) or _ordered(site):
        return
    if all(_ALIKE.search(e.text) for e in (pin, held) if e is not None):
        if any(seeds_alike(module, "torch") for module in together(site.module)):
            return  # each rank draws the same order, and takes its part of it
    whose, way_out = "", "ask for accelerate>=0.30"
    if held is not None:
        release = held.text.removeprefix("Version: ")
        whose, way_out = f"the project's environment holds accelerate {release}", "install accelerate>=0.30 there"
    if pin is not None:
        whose = f"{whose}, and the project asks for {pin.text}" if whose else f"the project asks for {pin.text}"
        way_out = "ask for accelerate>=0.30, and install it" if held is not None else way_out
    yield Finding(
        "SHD709",
        site.location,
        f"{whose}: from 0.24 to 0.29 the ranks of a shuffled loader overlap, or repeat one order",
        (*(evidence for evidence in (held, pin) if evidence is not None), *site.owner_evidence),
        way_out,
    )


def _shuffles_by_own_seed(site: Site) -> ast.Call | None:
    """The setting by which accelerate shuffles a loader in an order of each rank's own: its seedable sampler, where the
    program has one Accelerator and seeds nothing alike."""
    kinds = {arm.kind for arm in (*site.arms, *site.batch_arms, *(i for b in site.batch_arms for i in b.inner))}
    if _ordered(site) or not kinds <= {"none", "random", "distributed", "batch", "sequential"}:
        return None
    speaking = [m for m in site.module.fellows if "use_seedable_sampler" in m.text]
    settings = [
        call
        for m in speaking
        for call in m.calls
        if any(
            k.arg == "use_seedable_sampler" and isinstance(k.value, ast.Constant) and k.value.value is True
            for k in call.keywords
        )
        and not any(k.arg in ("data_seed", None) for k in call.keywords)
    ]
    if len(settings) != 1:
        return None
    made = [call for m in site.module.fellows for call in m.calls if ACCELERATOR in m.callee(call)]
    if len(made) != 1 or any(seeds_alike(m, "torch") for m in site.module.fellows):
        return None
    return settings[0]


def _main_only(site: Site) -> Iterator[Finding]:
    """A prepared loader that the main process alone reads, or reads beside all ranks where the order is drawn."""
    guard = read_alone(site)
    if guard is None:
        return
    yield Finding(
        "SHD716",
        site.location,
        "the main process alone reads a prepared loader: it sees 1/W of the samples"
        if _ordered(site)
        else "the main process alone reads a prepared loader that shuffles: it waits for the other ranks for good",
        (site.module.evidence(guard), *site.owner_evidence),
        "read it on every rank, or keep a loader for the main process out of prepare()",
    )


def _not_gathered(site: Site) -> Iterator[Finding]:
    """A prepared evaluation whose result is one rank's."""
    module = site.module
    if site.role != "eval" or "gather" in module.text:
        return
    found = site.evaluation
    if found.reduction is not None or found.gathers is not None or found.guard is not None:
        return
    if found.sometimes is not None or not found.functions:
        return
    for use in site.flow.of("iterate"):
        if use.prepared is None:
            continue
        for sum_ in accumulated(use.node):
            parent = module.parents[sum_.target]
            method = parent.attr if isinstance(parent, ast.Attribute) else ""
            if isinstance(sum_.added, ast.Constant) or method == "update" or gathers_itself(module, sum_.target):
                continue
            if site.answered("metric", "reduced", "exact"):
                return
            yield Finding(
                "SHD504",
                site.location,
                "prepare() shards the evaluation and nothing gathers its results: each rank's metric covers its own "
                "share only",
                (module.evidence(sum_.target), *site.owner_evidence),
                "gather_for_metrics() what goes into the metric, or reduce its sums and counts",
            )
            return


def _gathered(site: Site) -> Iterator[Finding]:
    if site.role == "train":
        return
    for gather in gathers(site):
        if gather.trimmed is None:
            counted = f", and what line {gather.counted.lineno} counts with them must go" if gather.counted else ""
            stays = kept(site, gather)
            yield Finding(
                "SHD707",
                site.location,
                "gather() keeps the samples that prepare() repeats to fill the last batch: they are counted twice"
                + (f"; {stays.why}" if stays else ""),
                (site.module.evidence(gather.call),),
                (stays.remedy if stays else "accelerator.gather_for_metrics drops them") + counted,
            )
            return


def _cached(site: Site) -> Iterator[Finding]:
    """What is kept of a pass over the raw loader by its batch's number, which a rank's share numbers otherwise."""
    cache = cache_by_step(site.module, site.flow)
    if cache is None:
        return
    yield Finding(
        "SHD717",
        site.location,
        f"{cache.name} is filled from the whole loader in line {cache.filled.location.line} and read by the prepared "
        f"loader's step in line {cache.read.location.line}: step k of a rank is another batch than the k-th that was "
        "kept, and all ranks read the first 1/W of what was kept, the rest never",
        (cache.filled, cache.read, *site.owner_evidence),
        "keep what is computed by the sample's own index, which the dataset gives with each sample",
    )


def _ddp_hazards(site: Site) -> Iterator[Finding]:
    module, where = site.module, site.location
    if any(a.kind == "distributed" for a in site.arms):
        yield from split_twice(site, "a DistributedSampler shards it")
    for arm in site.own_shares:
        yield from split_twice(site, f"{arm.label} shards it")
        cls = _class_of(module, arm)
        draw = unsynchronised(module, cls, batches=True) if cls is not None else None
        if draw is not None and not (draw.kind == "global" and seeds_alike(module, draw.family)):
            yield Finding(
                "SHD701",
                where,
                f"{arm.label} cuts an order that each rank draws for itself: shards overlap and samples are missed",
                (module.evidence(draw.node), *site.owner_evidence),
                "draw from a generator that is seeded alike on every rank",
            )
    for arm in site.arms:
        if arm.kind != "distributed" or arm.arguments is None:
            continue
        replicas, seed = arm.arguments.value("num_replicas"), arm.arguments.value("seed")
        in_test = is_test(module, module.function(arm.node))  # which plays one rank of several
        if replicas is not None and _constant(module, replicas) and not in_test:
            yield Finding(
                "SHD705",
                where,
                f"num_replicas={module.source.source(replicas)} is a constant: with any other number of processes "
                "samples are missed or read twice",
                (module.evidence(arm.node),),
                "leave num_replicas and rank out, or pass torch.distributed.get_world_size()",
            )
        rank = arm.arguments.value("rank")
        alone = rank is not None and not (replicas is not None and _constant(module, replicas))
        if rank is not None and alone and _constant(module, rank) and not in_test:
            yield Finding(
                "SHD705",
                where,
                f"rank={module.source.source(rank)} is a constant: all ranks read one part, the others are never read",
                (module.evidence(arm.node),),
                "leave num_replicas and rank out, or pass torch.distributed.get_rank()",
            )
        if seed is not None and reads_rank(seed):
            yield Finding(
                "SHD704",
                where,
                "the sampler's seed differs by rank: the ranks cut different permutations, so shards overlap and "
                "samples are missed",
                (module.evidence(arm.node),),
                "give every rank the same seed",
            )
        explicit = arm.arguments.value("num_replicas") is not None and arm.arguments.value("rank") is not None
        if not explicit and arm.test is None and site.regimes.own and not _under_condition(module, arm.node):
            makes = [r for r in site.regimes.own if r.what == "init"]
            group = group_at(module, arm.node)
            if makes and group.exists == "unknown" and module.function(arm.node) is None:
                yield Finding(
                    "SHD710",
                    where,
                    "the sampler is built at import, before init_process_group: DistributedSampler raises",
                    (module.evidence(arm.node), makes[0].evidence),
                    "build dataset, sampler and loader after init_process_group",
                )
    workers = site.arguments.value("persistent_workers")
    if isinstance(workers, ast.Constant) and workers.value is True and site.dataset is not None:
        source = module.source.source(site.dataset)
        for call in module.calls:
            if (
                isinstance(call.func, ast.Attribute)
                and call.func.attr == "set_epoch"
                and module.source.source(call.func.value) == source
            ):
                yield Finding(
                    "SHD708",
                    where,
                    "persistent workers keep the copy of the dataset they started with: its set_epoch never reaches "
                    "them",
                    (module.evidence(call), module.evidence(site.call)),
                    "persistent_workers=False, or let the dataset read the epoch from shared memory",
                )


def _under_condition(module: Module, node: ast.AST) -> bool:
    return any(isinstance(n, (ast.If, ast.IfExp)) for n in module.around(node))


def _constant(module: Module, node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int)
    if isinstance(node, ast.Name):
        values = [d.value for d in module.bindings.reaching(node)]
        return bool(values) and all(isinstance(v, ast.Constant) and isinstance(v.value, int) for v in values)
    return isinstance(node, ast.Call) and "torch.cuda.device_count" in module.callee(node)


def plan(sites: Sequence[Site], options: Options) -> Planned:
    """Hazards of the loaders of one module."""
    findings: list[tuple[Location, Finding]] = []
    for site in sites:
        if site.kind != "torch":
            continue
        if site.owner in ("accelerate", "unknown"):
            findings.extend((site.location, f) for f in _cached(site))
        if site.owner == "accelerate":
            findings.extend((site.location, f) for f in _prepared_hazards(site))
        elif site.owner == "single":
            findings.extend((site.location, f) for f in of_other_ranks(site))
        elif site.owner == "ddp":
            findings.extend((site.location, f) for f in _ddp_hazards(site))
            if site.dataset is not None and is_streaming(site) and split_by_hand(site) is None:
                findings.append((site.location, whole_stream(site)))
    return Planned(findings=tuple(findings))


_ACC = "from accelerate import Accelerator\nfrom torch.utils.data import DataLoader\n\naccelerator = Accelerator()\n"

RULE = Rule(
    name="hazards",
    command="ReportHazards",
    codes={
        "SHD504": "prepared evaluation that nothing gathers",
        "SHD701": "custom sampler draws from an unsynchronised generator",
        "SHD702": "rank-aware sampler in a prepared loader",
        "SHD703": "self-sharding stream in a prepared loader",
        "SHD704": "sampler seed differs by rank",
        "SHD705": "num_replicas or rank is a constant",
        "SHD706": "distributed sampler in a main-process evaluation",
        "SHD707": "gather() counts repeated samples",
        "SHD708": "dataset.set_epoch with persistent workers",
        "SHD709": "accelerate below 0.30",
        "SHD710": "sampler built before the process group",
        "SHD711": "stream that nobody splits",
        "SHD712": "batch_size=None in a prepared loader",
        "SHD713": "schedule length from a prepared loader",
        "SHD714": "dispatched batches of different widths",
        "SHD715": "data split by rank and sharded again",
        "SHD716": "prepared loader read by the main process only",
        "SHD717": "results kept by step from before prepare()",
        "SHD718": "prepared loader shuffled by each rank's own seed",
        "SHD719": "sampler for several ranks in a program of one process",
    },
    tier="report",
    why=(
        "Each was run with two gloo processes (torch 2.13, accelerate 1.15): data lost or read twice, a wrong "
        "metric, or a crash that only several processes see. The right repair depends on what the author meant."
    ),
    refuses="Nothing is edited.",
    plan=plan,
    valid=(
        Example(
            "a rank for each GPU of one process",
            "import torch\n"
            "from torch.utils.data import DataLoader\n"
            "from torch.utils.data.distributed import DistributedSampler\n"
            "\n"
            "model = torch.nn.DataParallel(torch.nn.Linear(1, 1))\n"
            "dataset = list(range(16))\n"
            "sampler = DistributedSampler(dataset, torch.cuda.device_count(), 0)\n"
            "loader = DataLoader(dataset, batch_size=2, sampler=sampler)\n"
            "for batch in loader:\n"
            "    model(batch).sum().backward()\n",
            code="SHD719",
        ),
        Example(
            "num_replicas written by hand",
            "import torch.distributed as dist\n"
            "from torch.utils.data import DataLoader\n"
            "from torch.utils.data.distributed import DistributedSampler\n"
            "\n"
            'dist.init_process_group("gloo")\n'
            "dataset = list(range(16))\n"
            "sampler = DistributedSampler(dataset, 4, dist.get_rank(), shuffle=False)\n"
            "loader = DataLoader(dataset, batch_size=2, sampler=sampler)\n"
            "seen = [i for batch in loader for i in batch.tolist()]\n",
            code="SHD705",
        ),
        Example(
            "a sampler that derives from DistributedSampler takes its rank's part as well",
            _ACC + "from torch.utils.data.distributed import DistributedSampler\n"
            "\n"
            "\n"
            "class Repeated(DistributedSampler):\n"
            "    pass\n"
            "\n"
            "\n"
            "dataset = list(range(16))\n"
            "loader = accelerator.prepare(DataLoader(dataset, batch_size=2, sampler=Repeated(dataset)))\n"
            "for batch in loader:\n"
            "    pass\n",
            code="SHD702",
        ),
        Example(
            "repeated samples counted in what gather() collects",
            _ACC + "val_loader = accelerator.prepare(DataLoader(list(range(10)), batch_size=4))\n"
            "losses = []\n"
            "for batch in val_loader:\n"
            "    losses.append(accelerator.gather(batch.float().mean()))\n",
            code="SHD707",
        ),
        Example(
            "what the whole loader gave at a step is not what a rank's share gives there",
            _ACC + "import torch\n"
            "\n"
            "loader = DataLoader(list(range(16)), batch_size=2)\n"
            "kept = []\n"
            "with torch.no_grad():\n"
            "    for batch in loader:\n"
            "        kept.append(batch * 2)\n"
            "loader = accelerator.prepare(loader)\n"
            "weight = torch.ones(1, requires_grad=True)\n"
            "for step, batch in enumerate(loader):\n"
            "    accelerator.backward((weight * kept[step] - batch).sum())\n",
            code="SHD717",
        ),
        Example(
            "torch draws its seed anew in each process, and the seedable sampler shuffles by it",
            "from accelerate import Accelerator\n"
            "from accelerate.utils import DataLoaderConfiguration\n"
            "from torch.utils.data import DataLoader\n"
            "\n"
            "accelerator = Accelerator(dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True))\n"
            "loader = accelerator.prepare(DataLoader(list(range(16)), batch_size=2, shuffle=True))\n"
            "for batch in loader:\n"
            "    pass\n",
            code="SHD718",
        ),
        Example(
            "a batch size of None can't be prepared",
            _ACC + "loader = accelerator.prepare(DataLoader(list(range(10)), batch_size=None))\n"
            "for batch in loader:\n"
            "    pass\n",
            code="SHD712",
        ),
    ),
)


def __getattr__(name: str) -> type:
    if name != RULE.command:
        raise AttributeError(name)
    from shardfix.libcst_command import command_for

    return command_for(RULE)
