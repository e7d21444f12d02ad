"""Tell a shuffling DistributedSampler the epoch: without it every epoch repeats the first one's order."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from shardfix.codemods._epochs import Sampler, Untold, given_epoch, is_read_once, tell_epoch, tell_in
from shardfix.codemods._findings import refuse
from shardfix.codemods._in_vain import asks_for_another, may_run, never_run, told_another, told_in_vain
from shardfix.codemods._own_shares import derives, kept_in_order, own_untold, shuffling_arms
from shardfix.codemods._placeholder import wrong_receiver

from shardfix.analysis.code.module import Module
from shardfix.analysis.loaders.samplers import Arm
from shardfix.analysis.loops.epochs import set_epoch_calls, untold
from shardfix.analysis.loops.evaluation import evaluates
from shardfix.analysis.model import Change, Finding, Location, Options
from shardfix.analysis.rules import Example, Planned, Rule
from shardfix.analysis.sites import Site
from shardfix.rewrite.edits import Edit


def _frozen(site: Site, options: Options) -> Change | Finding | str | None:
    """A change, a refusal, the reason why the site is right, or None if it is none of this codemod's business."""
    own = [a for a in site.own_shares if not kept_in_order(site.module, a)]
    distributed = [*shuffling_arms(site), *own]
    if not distributed or site.owner != "ddp":
        return None
    told = [t for t in site.told if not asks_for_another(site.module, t)]
    if told:
        training = [loop for loop in site.epoch_loops.loops if not evaluates(site.module, loop.use.node)]
        forgotten = untold(site.module, training, told)
        if not forgotten:
            running = [t for t in told if may_run(site, t)]
            if not running:
                return never_run(site, told[0])
            return told_another(site, running) or told_in_vain(site) or "its sampler is told the epoch"
        if any(not derives(site, a) for a in own):
            line = forgotten[0].loop.lineno
            return refuse(site, "SHD909", instead=f"told the epoch in one loop, but not in that of line {line}")
        sampler = _sampler(site, distributed)
        parts = [tell_in(site, loop, sampler) for loop in forgotten]
        found = next((part for part in parts if isinstance(part, Untold)), None)
        if found is not None:
            line = forgotten[0].loop.lineno
            return refuse(site, found.code, instead=f"told the epoch in one loop, but not in that of line {line}")
        return _change(site, distributed, [e for part in parts if not isinstance(part, Untold) for e in part])
    if site.role == "eval" and any(a.constant("shuffle") is None for a in distributed):
        return None  # distribute_eval_sampler settles it
    if site.role == "eval" and any(a.constant("shuffle") is ... for a in distributed):
        return None  # whether this evaluation shuffles is the user's to set, and no epoch of it is anybody's
    if site.role == "eval" and not own:
        # Told the epoch, its sampler would repeat other samples each time, and one model's metric would change.
        return "an evaluation that shuffles, and in each epoch alike: its metrics can be compared"
    if site.answers.epoch is not None and site.answered("epoch", "told"):
        return f"its sampler is told the epoch, as {site.answers.epoch.where} says"
    module = site.module
    claimed = {id(c.call) for s in site.siblings for c in s.told}
    near = {module.function(loop.loop) for loop in site.epoch_loops.loops} - {None}
    kept = _kept_as(site)
    for call in set_epoch_calls(module):
        elsewhere = module.home(call.call) is not module and module.function(call.call) not in near
        if elsewhere and not _may_be_kept(module, call.receiver, kept):
            continue
        name = call.receiver.attr if isinstance(call.receiver, ast.Attribute) else getattr(call.receiver, "id", "")
        if id(call.call) not in claimed and "dataset" not in name:
            return refuse(site, "SHD920", evidence=(module.evidence(call.call),))
    if _seeded_by_epoch(site, distributed):
        return "each epoch makes a sampler with a seed of its own"
    settled = own_untold(site, own)
    if settled is not None:
        return settled
    where = [u for a in distributed for u in site.sampler_flow(a).of("returned", "escape")]
    if not site.epoch_loops.loops and not site.epoch_loops.rebuilt:
        if is_read_once(site):
            return "it is read once, so there is no epoch to tell"
        leaves = where or site.flow.of("returned", "escape", "argument")
        if leaves and site.epoch_loops.why != "next-driven":
            return refuse(site, "SHD909", note="the loader leaves this file's sight")
    sampler = _sampler(site, distributed)
    edits = tell_epoch(site, sampler.variable, sampler.guard, sampler.class_name)
    if isinstance(edits, Untold):
        if edits.code == "SHD909" and site.role == "eval":
            return "no epoch loop drives it"
        refused = refuse(site, edits.code, instead=edits.why)
        return replace(refused, remedy=edits.remedy) if edits.remedy else refused
    return _change(site, distributed, edits)


def _kept_as(site: Site) -> set[str]:
    """The attributes of objects that are set to the loader."""
    statements = [site.module.parents[alias] for alias in site.flow.aliases]
    targets = [t for s in statements if isinstance(s, ast.Assign) for t in s.targets]
    return {t.attr for t in targets if isinstance(t, ast.Attribute)}


def _may_be_kept(module: Module, receiver: ast.expr, kept: set[str]) -> bool:
    """Whether an attribute of an object that is not known has the name of one that is set to the loader."""
    while isinstance(receiver, ast.Attribute):
        if receiver.attr in kept and not module.instances(receiver.value):
            return True
        receiver = receiver.value
    return False


def _sampler(site: Site, distributed: Sequence[Arm]) -> Sampler:
    """The sampler that a site has, as it is to be told."""
    every = (*site.arms, *(i for b in site.batch_arms for i in b.inner))
    kinds = {"distributed" if a in distributed else a.kind for a in every}
    module, value = site.module, site.arguments.value("sampler")
    func = next((a.node.func for a in distributed if a.kind == "distributed" and isinstance(a.node, ast.Call)), None)
    here = value is not None and module.home(value) is module and module.function(value) is module.function(site.call)
    return Sampler(
        variable=module.source.source(value) if here and isinstance(value, (ast.Name, ast.Attribute)) else "",
        guard="" if kinds == {"distributed"} else "none" if kinds <= {"distributed", "none"} else "kind",
        class_name=module.source.source(func) if func is not None and module.home(func) is module else "",
    )


def _change(site: Site, distributed: Sequence[Arm], edits: Sequence[Edit]) -> Change:
    return Change(
        site.location,
        "insert_set_epoch",
        ("SHD401",),
        "safe",
        "tell the sampler the epoch",
        tuple(dict.fromkeys(edits)),
        consequences=(
            "each epoch now has an order of its own; until now every epoch repeated the order of the first",
            *_counted_again(site),
            "visits per rank, steps and batch size stay as they are",
        ),
        evidence=tuple(site.module.evidence(a.node) for a in distributed),
    )


def _counted_again(site: Site) -> tuple[str, ...]:
    """What is said of epochs that an outer loop counts from their first on again, with the loader that it was."""
    module = site.module
    for loop in site.epoch_loops.loops:
        for outer in module.home(loop.loop).around(loop.loop):
            if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef)):
                break
            if isinstance(outer, (ast.For, ast.AsyncFor, ast.While)) and site.call not in set(ast.walk(outer)):
                line = module.location(outer).line
                return (f"each pass of the loop of line {line} counts the epochs anew, and has the same orders again",)
    return ()


def _seeded_by_epoch(site: Site, distributed: Sequence[Arm]) -> bool:
    """Whether the sampler of each epoch is made anew with a seed that its counter is in."""
    seeds = [s for a in distributed if a.arguments for s in [a.arguments.value("seed")] if s is not None]
    loops = site.epoch_loops.rebuilding
    if not loops or len(seeds) != len(distributed):
        return False
    for loop in loops:
        counter = loop.counter if loop.built is site.call else given_epoch(site, loop)
        if not counter or not all(_mentions(site.module, seed, counter) for seed in seeds):
            return False
    return True


def _mentions(module: Module, node: ast.expr, source: str) -> bool:
    return any(isinstance(n, (ast.Name, ast.Attribute)) and module.source.source(n) == source for n in ast.walk(node))


def plan(sites: Sequence[Site], options: Options) -> Planned:
    """Changes for the loaders of one module whose sampler is never told the epoch."""
    changes: list[Change] = []
    findings: list[tuple[Location, Finding]] = []
    right: list[tuple[Location, str]] = []
    for site in sites:
        if site.kind != "torch" or site.unseen:
            continue
        wrong = wrong_receiver(site)
        if wrong is not None:
            changes.append(wrong)
            continue
        outcome = _frozen(site, options)
        if isinstance(outcome, Change):
            changes.append(outcome)
        elif isinstance(outcome, Finding):
            findings.append((site.location, outcome))
        elif outcome is not None:
            right.append((site.location, outcome))
    return Planned(tuple(changes), tuple(findings), tuple(right))


__all__ = ["RULE", "Untold", "is_read_once", "plan", "tell_epoch"]

RULE = Rule(
    name="insert_set_epoch",
    command="InsertSetEpoch",
    codes={
        "SHD401": "every epoch repeats one order",
        "SHD402": "set_epoch on a prepared loader's placeholder sampler",
        "SHD403": "set_epoch told one number, too late, or on some ranks",
    },
    tier="safe",
    tiers={"SHD403": "report"},
    why=(
        "DistributedSampler draws its permutation from seed + epoch. Nobody tells it the epoch but set_epoch, so "
        "without the call epoch 1 has exactly epoch 0's order on every rank (torch 2.13, two gloo ranks). After "
        "accelerate's prepare() the attribute loader.sampler is a placeholder SequentialSampler: "
        "loader.sampler.set_epoch raises AttributeError, loader.set_epoch works (accelerate 1.15)."
    ),
    refuses=(
        "Where no epoch loop is seen, or none whose counter can be named; where no name at the loop's start is sure to "
        "be the loader; where batches are taken with next() and nothing counts the passes; where a loader that is "
        "built anew in each epoch has no name or is not given the epoch; and where set_epoch is called on something "
        "that may be this sampler. Prepared loaders need no call: accelerate tells the epoch itself."
    ),
    plan=plan,
    valid=(
        Example(
            "the sampler is told the epoch",
            "import torch.distributed as dist\n"
            "from torch.utils.data import DataLoader\n"
            "from torch.utils.data.distributed import DistributedSampler\n"
            "\n"
            'dist.init_process_group("gloo")\n'
            "dataset = list(range(8))\n"
            "sampler = DistributedSampler(dataset)\n"
            "loader = DataLoader(dataset, batch_size=2, sampler=sampler)\n"
            "for epoch in range(3):\n"
            "    sampler.set_epoch(epoch)\n"
            "    for batch in loader:\n"
            "        pass\n",
        ),
        Example(
            "told at the top of the loop, whose batches a comprehension reads",
            "import torch.distributed as dist\n"
            "from torch.utils.data import DataLoader\n"
            "from torch.utils.data.distributed import DistributedSampler\n"
            "\n"
            'dist.init_process_group("gloo")\n'
            "dataset = list(range(8))\n"
            "sampler = DistributedSampler(dataset)\n"
            "loader = DataLoader(dataset, batch_size=2, sampler=sampler)\n"
            "for epoch in range(3):\n"
            "    sampler.set_epoch(epoch)\n"
            "    seen = [i for batch in loader for i in batch.tolist()]\n",
        ),
        Example(
            "told through the loader, guarded by hasattr",
            "import torch.distributed as dist\n"
            "from torch.utils.data import DataLoader\n"
            "from torch.utils.data.distributed import DistributedSampler\n"
            "\n"
            'dist.init_process_group("gloo")\n'
            "dataset = list(range(8))\n"
            "loader = DataLoader(dataset, batch_size=2, sampler=DistributedSampler(dataset))\n"
            "for epoch in range(3):\n"
            '    if hasattr(loader.sampler, "set_epoch"):\n'
            "        loader.sampler.set_epoch(epoch)\n"
            "    for batch in loader:\n"
            "        pass\n",
        ),
        Example(
            "set_epoch is called once, before the loop",
            "import torch.distributed as dist\n"
            "from torch.utils.data import DataLoader\n"
            "from torch.utils.data.distributed import DistributedSampler\n"
            "\n"
            'dist.init_process_group("gloo")\n'
            "dataset = list(range(8))\n"
            "sampler = DistributedSampler(dataset)\n"
            "loader = DataLoader(dataset, batch_size=2, sampler=sampler)\n"
            "start = 0\n"
            "sampler.set_epoch(start)\n"
            "for epoch in range(3):\n"
            "    for batch in loader:\n"
            "        pass\n",
            code="SHD403",
        ),
        Example(
            "two counting loops surround the loader: which one counts epochs is not said",
            "import torch.distributed as dist\n"
            "from torch.utils.data import DataLoader\n"
            "from torch.utils.data.distributed import DistributedSampler\n"
            "\n"
            'dist.init_process_group("gloo")\n'
            "train_set = list(range(8))\n"
            "train_loader = DataLoader(train_set, batch_size=2, sampler=DistributedSampler(train_set))\n"
            "for i in range(3):\n"
            "    for j in range(2):\n"
            "        for batch in train_loader:\n"
            "            pass\n",
            code="SHD910",
        ),
    ),
    invalid=(
        Example(
            "a plain loop over epochs",
            "import torch.distributed as dist\n"
            "from torch.utils.data import DataLoader\n"
            "from torch.utils.data.distributed import DistributedSampler\n"
            "\n"
            'dist.init_process_group("gloo")\n'
            "dataset = list(range(8))\n"
            "sampler = DistributedSampler(dataset)\n"
            "loader = DataLoader(dataset, batch_size=2, sampler=sampler)\n"
            "for epoch in range(3):\n"
            "    for batch in loader:\n"
            "        pass\n",
            "import torch.distributed as dist\n"
            "from torch.utils.data import DataLoader\n"
            "from torch.utils.data.distributed import DistributedSampler\n"
            "\n"
            'dist.init_process_group("gloo")\n'
            "dataset = list(range(8))\n"
            "sampler = DistributedSampler(dataset)\n"
            "loader = DataLoader(dataset, batch_size=2, sampler=sampler)\n"
            "for epoch in range(3):\n"
            "    sampler.set_epoch(epoch)\n"
            "    for batch in loader:\n"
            "        pass\n",
            code="SHD401",
        ),
        Example(
            "the loop binds `_`, and the sampler may be another one in a single process",
            "import argparse\n"
            "\n"
            "from torch.utils.data import DataLoader, RandomSampler\n"
            "from torch.utils.data.distributed import DistributedSampler\n"
            "from tqdm import trange\n"
            "\n"
            "\n"
            "def train(args, train_set, model):\n"
            "    sampler = RandomSampler(train_set) if args.local_rank == -1 else DistributedSampler(train_set)\n"
            "    loader = DataLoader(train_set, sampler=sampler, batch_size=8)\n"
            "    train_iterator = trange(int(args.epochs))\n"
            "    for _ in train_iterator:\n"
            "        for batch in loader:\n"
            "            model(batch).backward()\n",
            "import argparse\n"
            "\n"
            "from torch.utils.data import DataLoader, RandomSampler\n"
            "from torch.utils.data.distributed import DistributedSampler\n"
            "from tqdm import trange\n"
            "\n"
            "\n"
            "def train(args, train_set, model):\n"
            "    sampler = RandomSampler(train_set) if args.local_rank == -1 else DistributedSampler(train_set)\n"
            "    loader = DataLoader(train_set, sampler=sampler, batch_size=8)\n"
            "    train_iterator = trange(int(args.epochs))\n"
            "    for epoch in train_iterator:\n"
            "        if isinstance(sampler, DistributedSampler):\n"
            "            sampler.set_epoch(epoch)\n"
            "        for batch in loader:\n"
            "            model(batch).backward()\n",
            code="SHD401",
        ),
        Example(
            "the loader is an attribute that another method reads",
            "import torch.distributed as dist\n"
            "from torch.utils.data import DataLoader\n"
            "from torch.utils.data.distributed import DistributedSampler\n"
            "\n"
            "\n"
            "class Trainer:\n"
            "    def __init__(self, train_set, model):\n"
            '        dist.init_process_group("gloo")\n'
            "        self.model = model\n"
            "        self.loader = DataLoader(train_set, batch_size=2, sampler=DistributedSampler(train_set))\n"
            "\n"
            "    def fit(self, epochs):\n"
            "        for _ in range(epochs):\n"
            "            self.train_epoch()\n"
            "\n"
            "    def train_epoch(self):\n"
            "        for batch in self.loader:\n"
            "            self.model(batch).backward()\n",
            "import torch.distributed as dist\n"
            "from torch.utils.data import DataLoader\n"
            "from torch.utils.data.distributed import DistributedSampler\n"
            "\n"
            "\n"
            "class Trainer:\n"
            "    def __init__(self, train_set, model):\n"
            '        dist.init_process_group("gloo")\n'
            "        self.model = model\n"
            "        self.loader = DataLoader(train_set, batch_size=2, sampler=DistributedSampler(train_set))\n"
            "\n"
            "    def fit(self, epochs):\n"
            "        for epoch in range(epochs):\n"
            "            self.loader.sampler.set_epoch(epoch)\n"
            "            self.train_epoch()\n"
            "\n"
            "    def train_epoch(self):\n"
            "        for batch in self.loader:\n"
            "            self.model(batch).backward()\n",
            code="SHD401",
        ),
        Example(
            "a loader built anew in each epoch is told behind its construction",
            "import torch.distributed as dist\n"
            "from torch.utils.data import DataLoader\n"
            "from torch.utils.data.distributed import DistributedSampler\n"
            "\n"
            'dist.init_process_group("gloo")\n'
            "dataset = list(range(8))\n"
            "for epoch in range(3):\n"
            "    loader = DataLoader(dataset, batch_size=2, sampler=DistributedSampler(dataset))\n"
            "    for batch in loader:\n"
            "        pass\n",
            "import torch.distributed as dist\n"
            "from torch.utils.data import DataLoader\n"
            "from torch.utils.data.distributed import DistributedSampler\n"
            "\n"
            'dist.init_process_group("gloo")\n'
            "dataset = list(range(8))\n"
            "for epoch in range(3):\n"
            "    loader = DataLoader(dataset, batch_size=2, sampler=DistributedSampler(dataset))\n"
            "    loader.sampler.set_epoch(epoch)\n"
            "    for batch in loader:\n"
            "        pass\n",
            code="SHD401",
        ),
        Example(
            "after prepare() the loader itself takes the epoch",
            "from accelerate import Accelerator\n"
            "from torch.utils.data import DataLoader\n"
            "\n"
            "accelerator = Accelerator()\n"
            "loader = DataLoader(list(range(12)), batch_size=3, shuffle=True)\n"
            "loader = accelerator.prepare(loader)\n"
            "for epoch in range(2):\n"
            "    loader.sampler.set_epoch(epoch)\n"
            "    for batch in loader:\n"
            "        pass\n",
            "from accelerate import Accelerator\n"
            "from torch.utils.data import DataLoader\n"
            "\n"
            "accelerator = Accelerator()\n"
            "loader = DataLoader(list(range(12)), batch_size=3, shuffle=True)\n"
            "loader = accelerator.prepare(loader)\n"
            "for epoch in range(2):\n"
            "    loader.set_epoch(epoch)\n"
            "    for batch in loader:\n"
            "        pass\n",
            code="SHD402",
        ),
    ),
)


def __getattr__(name: str) -> type:
    if name != RULE.command:
        raise AttributeError(name)
    from shardfix.libcst_command import command_for

    return command_for(RULE)
