"""Give training loaders that nobody shards a DistributedSampler that keeps their shuffle."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from shardfix.codemods._findings import divided, lengths, refuse
from shardfix.codemods._sharding import one_process, shard, splits_shards
from shardfix.codemods.insert_set_epoch import Untold, tell_epoch

from shardfix.analysis.loaders.generators import seeds_alike
from shardfix.analysis.loops.accumulation import accumulated
from shardfix.analysis.model import Change, Finding, Location, Options
from shardfix.analysis.programs.joining import learn_apart
from shardfix.analysis.rules import Example, Planned, Rule
from shardfix.analysis.sites import Site
from shardfix.rewrite.edits import Edit, SetKeyword


def shuffle_of(site: Site) -> str:
    """Source of the ``shuffle`` value that keeps what the loader does today."""
    if site.kinds & {"random", "subset-random"}:
        return "True"
    if "sequential" in site.kinds:
        return "False"
    value = site.arguments.value("shuffle")
    if value is None:
        return "False"
    if isinstance(value, ast.Constant):
        return "True" if value.value else "False"
    return site.module.source.source(value)


def _unsharded(site: Site) -> Change | Finding | str | None:
    if site.owner != "ddp":
        return None
    if site.kinds & {"distributed"}:
        return _both_given(site)
    if site.own_shares:
        return None  # insert_set_epoch settles whether it is told the epoch
    if site.role != "train" or any(i.kind == "distributed" for b in site.batch_arms for i in b.inner):
        return None
    module = site.module
    guard = one_process(site)
    if guard is not None:
        return f"only one process trains on it (line {guard.lineno}), so it reads everything, as it should"
    shards = splits_shards(site)
    if shards is not None:
        return f"webdataset's split_by_node in line {shards.location.line} gives each rank shards of its own"
    if site.batch_arms or site.kinds & {"weighted", "custom"}:
        return refuse(site, "SHD915")
    if site.kinds & {"parameter", "unknown"}:
        return refuse(site, "SHD902")
    if not site.flow.of("iterate", "next", "argument") and not site.answered("epoch", "told"):
        return refuse(site, "SHD909", note="nothing in this file trains on the loader")
    if any(
        a.kind == "random" and (a.constant("num_samples") is not None or a.constant("replacement")) for a in site.arms
    ):
        return refuse(site, "SHD915")
    shuffle = shuffle_of(site)
    edits = shard(site, shuffle=shuffle, tell=True)
    if isinstance(edits, Finding):
        return edits
    division = divided(site)
    if division is not None and not site.options.unsafe:
        return refuse(site, "SHD930", evidence=(division,))
    apart = None if site.ownership.targeted else learn_apart(module)
    if apart is not None and not site.options.unsafe:
        note = "no wrapped model and no collective is seen in this program"
        return refuse(site, "SHD936", note=note, evidence=(module.home(apart).evidence(apart),))
    reasons = (
        *((_APART,) if apart is not None else ()),
        *((_OWN_DATA,) if site.ownership.started_by is not None else ()),
        *(
            (f"line {division.location.line} divides the length by the processes again",)
            if division is not None
            else ()
        ),
    )
    return Change(
        site.location,
        "distribute_train_sampler",
        ("SHD301",),
        "unsafe" if reasons else "safe",
        "give each rank its own share of the training data",
        tuple(edits),
        reason="; ".join(reasons),
        consequences=(
            "with W processes each rank reads 1/W of the samples an epoch, in 1/W of the steps; until now each read "
            "all of them",
            "the batch size of each rank stays, so the effective batch now holds W different batches instead of W "
            "equal draws",
            *(
                ()
                if shuffle == "False"
                else (
                    "the order now comes from the sampler's seed, which is 0, and the epoch: torch's seed no longer "
                    "changes it",
                )
            ),
            *(_TARGETED if site.ownership.targeted else ()),
            *_of_one_rank_now(site),
            *lengths(site, "schedules and totals made of it get W times shorter"),
        ),
        evidence=(*site.owner_evidence, module.evidence(site.call)),
    )


_APART = "nothing here joins what the ranks learn: each would train on its share alone"
_OWN_DATA = "each rank may be given data of its own: DeepSpeed asks for no sampler, and this loader has none"
_TARGETED = (
    "one process runs as before; the program makes no process group yet: init_process_group has to run before the "
    "sampler is built, else each rank goes on reading everything (the run-time check then raises under torchrun)",
    "nothing here averages the gradients of several processes yet: wrap the model in DistributedDataParallel",
)


def _of_one_rank_now(site: Site) -> tuple[str, ...]:
    """What a loop beside the training, and a split drawn anew on each rank, mean for a sharded loader."""
    module = site.module
    found: list[str] = []
    training = {loop.use.node for loop in site.epoch_loops.loops}
    for use in site.flow.of("iterate"):
        if training and use.node not in training and accumulated(use.node):
            line = module.evidence(use.node).location.line
            found.append(f"the loop in line {line} now sees its rank's share only, and so does what it adds up")
    dataset = site.dataset
    for d in module.bindings.reaching(dataset) if isinstance(dataset, ast.Name) else ():
        if not isinstance(d.value, ast.Call) or "torch.utils.data.random_split" not in module.callee(d.value):
            continue
        if not any(k.arg == "generator" for k in d.value.keywords) and not seeds_alike(module, "torch"):
            found.append(
                f"random_split in line {d.value.lineno} draws from torch's seed: ranks not seeded alike "
                "share out different subsets"
            )
    return tuple(found)


def _both_given(site: Site) -> Change | Finding | None:
    """``shuffle=True`` beside a sampler that is None in one process only: DataLoader raises in every other run."""
    value = site.arguments.value("shuffle")
    sampler = site.arguments.value("sampler")
    if not (isinstance(value, ast.Constant) and value.value is True) or not isinstance(sampler, ast.Name):
        return None
    if not site.kinds <= {"distributed", "none"}:
        return None
    module = site.module
    call = module.source.span(site.call)
    optional = "none" in site.kinds
    argument = site.arguments.bound["shuffle"]
    new = f"({sampler.id} is None)" if optional else "False"
    edits: list[Edit] = [SetKeyword(module.path, call, "shuffle", new, positional=argument.position)]
    arm = next(a for a in site.arms if a.kind == "distributed")
    assert isinstance(arm.node, ast.Call)
    if not site.told:
        told = tell_epoch(site, sampler.id, "none" if optional else "", module.source.source(arm.node.func))
        if isinstance(told, Untold):
            return refuse(site, told.code, instead=told.why)
        edits.extend(told)
    return Change(
        site.location,
        "distribute_train_sampler",
        ("SHD303",),
        "safe",
        "let the sampler shuffle in several processes, the loader in one",
        tuple(edits),
        consequences=("the run in several processes no longer raises ValueError; one process shuffles as before",),
        evidence=(module.evidence(arm.node), module.evidence(value)),
    )


def plan(sites: Sequence[Site], options: Options) -> Planned:
    """Changes for the training loaders of one module that every rank reads whole."""
    changes: list[Change] = []
    findings: list[tuple[Location, Finding]] = []
    right: list[tuple[Location, str]] = []
    for site in sites:
        if site.kind != "torch" or site.arguments.opaque:
            continue
        outcome = _unsharded(site)
        if isinstance(outcome, Change):
            changes.append(outcome)
        elif isinstance(outcome, Finding):
            findings.append((site.location, outcome))
        elif outcome is not None:
            right.append((site.location, outcome))
    return Planned(tuple(changes), tuple(findings), tuple(right))


_DDP = (
    "import torch\n"
    "import torch.distributed as dist\n"
    "from torch.nn.parallel import DistributedDataParallel as DDP\n"
    "from torch.utils.data import DataLoader\n"
)

RULE = Rule(
    name="distribute_train_sampler",
    command="DistributeTrainSampler",
    codes={
        "SHD301": "unsharded training: every rank reads all the data",
        "SHD303": "shuffle=True beside a sampler raises in several processes",
    },
    tier="safe",
    why=(
        "DistributedDataParallel averages gradients and shards nothing: with a plain loader each of W ranks reads "
        "every sample of every epoch (21 of 21 on both ranks of 2, torch 2.13), and with equal seeds even the same "
        "batches, so W processes do the work of one. With --target ddp this goes for programs of one process too: the "
        "sampler is then built where a process group runs, so one process stays as it is; the group itself, and the "
        "model's gradients, are left to be written by hand."
    ),
    refuses=(
        "Where no process group is sure to exist at the construction, where no epoch loop is seen, for weighted, "
        "custom and batch samplers, for streams, and for datasets already split by rank."
    ),
    plan=plan,
    valid=(
        Example(
            "the documented conditional form is right",
            "import os\n"
            "import torch.distributed as dist\n"
            "from torch.utils.data import DataLoader\n"
            "from torch.utils.data.distributed import DistributedSampler\n"
            "\n"
            'distributed = int(os.environ.get("WORLD_SIZE", "1")) > 1\n'
            "if distributed:\n"
            '    dist.init_process_group("gloo")\n'
            "train_set = list(range(8))\n"
            "sampler = DistributedSampler(train_set) if distributed else None\n"
            "loader = DataLoader(train_set, batch_size=2, shuffle=(sampler is None), sampler=sampler)\n"
            "for epoch in range(2):\n"
            "    if distributed:\n"
            "        sampler.set_epoch(epoch)\n"
            "    for batch in loader:\n"
            "        pass\n",
        ),
        Example(
            "the loader is built before the process group exists",
            _DDP + "\n"
            "train_loader = DataLoader(torch.arange(8.0), batch_size=2, shuffle=True)\n"
            "\n"
            "\n"
            "def main():\n"
            '    dist.init_process_group("gloo")\n'
            "    model = DDP(torch.nn.Linear(1, 1))\n"
            "    for epoch in range(2):\n"
            "        for batch in train_loader:\n"
            "            model(batch).sum().backward()\n"
            "\n"
            "\n"
            "main()\n",
            code="SHD913",
        ),
    ),
    invalid=(
        Example(
            "a plain shuffled loader under DDP",
            _DDP + "\n"
            'dist.init_process_group("gloo")\n'
            "dataset = torch.arange(8.0).view(-1, 1)\n"
            "loader = DataLoader(dataset, batch_size=2, shuffle=True, drop_last=True)\n"
            "model = DDP(torch.nn.Linear(1, 1))\n"
            "for epoch in range(2):\n"
            "    for batch in loader:\n"
            "        model(batch).sum().backward()\n",
            _DDP + "from torch.utils.data.distributed import DistributedSampler\n"
            "\n"
            'dist.init_process_group("gloo")\n'
            "dataset = torch.arange(8.0).view(-1, 1)\n"
            "train_sampler = DistributedSampler(dataset, shuffle=True)\n"
            "loader = DataLoader(dataset, batch_size=2, sampler=train_sampler, drop_last=True)\n"
            "model = DDP(torch.nn.Linear(1, 1))\n"
            "for epoch in range(2):\n"
            "    train_sampler.set_epoch(epoch)\n"
            "    for batch in loader:\n"
            "        model(batch).sum().backward()\n",
            code="SHD301",
        ),
        Example(
            "the project's own condition keeps one process as it is",
            "import torch\n"
            "import torch.distributed as dist\n"
            "from torch.utils.data import DataLoader\n"
            "\n"
            "\n"
            "def train(args, train_set, model):\n"
            "    if args.distributed:\n"
            '        dist.init_process_group("gloo")\n'
            "    train_loader = DataLoader(train_set, batch_size=2, shuffle=True)\n"
            "    for epoch in range(args.epochs):\n"
            "        for batch in train_loader:\n"
            "            model(batch).backward()\n",
            "import torch\n"
            "import torch.distributed as dist\n"
            "from torch.utils.data import DataLoader\n"
            "from torch.utils.data.distributed import DistributedSampler\n"
            "\n"
            "\n"
            "def train(args, train_set, model):\n"
            "    if args.distributed:\n"
            '        dist.init_process_group("gloo")\n'
            "    train_sampler = DistributedSampler(train_set, shuffle=True) if args.distributed else None\n"
            "    train_loader = DataLoader("
            "train_set, batch_size=2, shuffle=(train_sampler is None), sampler=train_sampler)\n"
            "    for epoch in range(args.epochs):\n"
            "        if train_sampler is not None:\n"
            "            train_sampler.set_epoch(epoch)\n"
            "        for batch in train_loader:\n"
            "            model(batch).backward()\n",
            code="SHD301",
        ),
        Example(
            "--target ddp: a program of one process that is to be run under torchrun",
            "import torch\n"
            "from torch.utils.data import DataLoader\n"
            "\n"
            "\n"
            "def main(train_set, model):\n"
            "    train_loader = DataLoader(train_set, batch_size=2, shuffle=True)\n"
            "    for epoch in range(2):\n"
            "        for batch in train_loader:\n"
            "            model(batch).backward()\n",
            "import torch\n"
            "from torch.utils.data import DataLoader\n"
            "from torch.utils.data.distributed import DistributedSampler\n"
            "\n"
            "\n"
            "def main(train_set, model):\n"
            "    train_sampler = (\n"
            "        DistributedSampler(train_set, shuffle=True)\n"
            "        if torch.distributed.is_available() and torch.distributed.is_initialized()\n"
            "        else None\n"
            "    )\n"
            "    train_loader = DataLoader("
            "train_set, batch_size=2, shuffle=(train_sampler is None), sampler=train_sampler)\n"
            "    for epoch in range(2):\n"
            "        if train_sampler is not None:\n"
            "            train_sampler.set_epoch(epoch)\n"
            "        for batch in train_loader:\n"
            "            model(batch).backward()\n",
            code="SHD301",
            target="ddp",
        ),
    ),
)


def __getattr__(name: str) -> type:
    if name != RULE.command:
        raise AttributeError(name)
    from shardfix.libcst_command import command_for

    return command_for(RULE)
