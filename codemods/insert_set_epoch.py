"""Tell a shuffling DistributedSampler the epoch: without it every epoch repeats the first one's order."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from shardfix.codemods._findings import refuse

from shardfix.analysis.epochs import EpochLoop, SetEpoch, set_epoch_calls
from shardfix.analysis.evaluation import evaluates
from shardfix.analysis.model import Change, Finding, Location, Options
from shardfix.analysis.module import Module
from shardfix.analysis.processes import distributed_test, is_main_test, is_not_main_test
from shardfix.analysis.rules import Example, Planned, Rule
from shardfix.analysis.samplers import Arm
from shardfix.analysis.sites import Site
from shardfix.analysis.spelling import free_name, spell_distributed_sampler
from shardfix.rewrite.edits import Edit, InsertStatements, ReplaceExpression

_COUNTERS = ("epoch", "epoch_index")


@dataclass(frozen=True, slots=True)
class Untold:
    """Why the epoch can't be told: the refusal's code, and in words what it is here where its title says less."""

    code: str
    why: str = ""


def tell_epoch(
    site: Site, sampler: str, guard: str, class_name: str, *, sampler_is_new: bool = False
) -> list[Edit] | Untold:
    """The edits that call ``set_epoch`` first in each epoch loop of a site, or why there are none.

    Args:
        sampler: the variable that holds the sampler where the loader is built; empty if it has none.
        guard: ``""`` where the sampler is always a DistributedSampler, ``"none"`` where it may be None, ``"kind"``
            where it may be another sampler.
        class_name: how the file spells DistributedSampler.
        sampler_is_new: the variable is made by this change, so no other assignment can stand in the way.
    """
    loops = site.epoch_loops
    if loops.rebuilt:
        return Untold("SHD924")
    if not loops.loops:
        if _built_in_a_loop(site):
            return Untold("SHD924", "the loader is built anew in each turn of a loop")
        return Untold({"next-driven": "SHD911", "ambiguous": "SHD910"}.get(loops.why, "SHD909"))
    edits: list[Edit] = []
    training = [loop for loop in loops.loops if not evaluates(site.module, loop.use.node)]
    if site.role != "eval" and not training:
        return Untold("SHD909", "the epoch loop only evaluates on this loader")
    for loop in loops.loops if site.role == "eval" else training:
        counter, renamed = _counter(site, loop)
        if counter is None:
            return Untold("SHD910")
        module, function = site.module, site.module.function(loop.loop)
        sure = _runs_before(module, module.statement(site.call), loop.loop)
        # A parameter may be another loader in another call, so there the sampler is the loader's, not a variable's.
        handed = any(module.called_function(call) is function for call in loop.use.calls)
        receiver = _receiver(site, loop, sampler if sure and not handed else "", sampler_is_new)
        sure = sure and not (handed and function is not None and len(module.callers(function)) > 1)
        if receiver is None or not (sure or _always_loader(site, loop)):
            line = loop.loop.lineno
            return Untold("SHD909", f"the epoch loop in line {line} is seen, but no name at its start for this sampler")
        test = ""
        if guard == "none" and receiver == sampler:
            test = f"if {receiver} is not None:"
        elif guard or not sure:
            spelled = _spelled(site, class_name, loop)
            if spelled is None:
                return Untold("SHD910", f"the name {class_name} means nothing in the epoch loop, or something else")
            test = f"if isinstance({receiver}, {spelled[0]}):"
            edits.extend(e for e in spelled[1] if e not in edits)
        call = f"{receiver}.set_epoch({counter})"
        lines = (test, f"    {call}") if test else (call,)
        edits.extend(renamed)
        edits.append(InsertStatements(module.path, module.source.span(loop.loop), "body", lines))
    return edits


def _spelled(site: Site, class_name: str, loop: EpochLoop) -> tuple[str, tuple[Edit, ...]] | None:
    """How the class is named in an epoch loop: as where it is used, or anew where that name is another function's."""
    module = site.module
    root = class_name.partition(".")[0]
    scopes = {module.tree, *module.around(loop.loop)}
    if any(d.key == root and d.scope in scopes for d in module.bindings.definitions):
        return class_name, ()
    return spell_distributed_sampler(module, site.call, (loop.loop,))


def _runs_before(module: Module, statement: ast.stmt, loop: ast.stmt) -> bool:
    """Whether a statement has run wherever a loop runs; a loader built in a branch may be another one in the loop."""
    parent = module.parents[statement]
    same = {ast.dump(n.test) for n in module.around(loop) if isinstance(n, ast.If)}
    while isinstance(parent, (ast.With, ast.AsyncWith)) or (
        isinstance(parent, ast.If) and statement in parent.body and (_is_main(parent) or ast.dump(parent.test) in same)
    ):
        statement, parent = parent, module.parents[parent]
    if module.function(statement) is not module.function(loop):
        return not isinstance(parent, (ast.If, ast.For, ast.While, ast.Try))
    around = {loop, *module.around(loop)}
    return any(s in around for s in module.block(statement))


def _is_main(node: ast.If) -> bool:
    return any(isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(node.test))


def _always_loader(site: Site, loop: EpochLoop) -> bool:
    """Whether what the loop iterates is one of this file's DataLoaders on every path, so that it has a ``sampler``."""
    calls = {s.call for s in site.siblings if s.kind == "torch"}
    definitions = site.module.bindings.reaching(loop.use.value)
    return all(d.value in calls or d.kind == "parameter" for d in definitions)


def _counter(site: Site, loop: EpochLoop) -> tuple[str | None, list[Edit]]:
    """The loop's counter; where it is ``_`` and nothing reads it, a free name and the edit that binds it."""
    module = site.module
    if loop.counter:
        return (None if _is_rebound(module, loop) else loop.counter), []
    target = loop.loop.target if not isinstance(loop.loop, ast.While) else None
    if isinstance(target, ast.Tuple):
        target = target.elts[-1]  # (index, _) of an enumerated range
    if not isinstance(target, ast.Name):
        return None, []
    definitions = module.bindings.definitions_at(target, "_")
    if any(module.bindings.readers(d) for d in definitions):
        return None, []
    name = free_name(module, loop.loop, _COUNTERS)
    if name is None:
        return None, []
    return name, [ReplaceExpression(module.path, module.source.span(target), name)]


def _is_rebound(module: Module, loop: EpochLoop) -> bool:
    """Whether the body of a ``for`` gives the counter another value (``epoch += start``): at its top it is another."""
    if isinstance(loop.loop, ast.While):
        return False
    return any(
        d.key == loop.counter and d.statement is not loop.loop and loop.loop in module.around(d.statement)
        for d in module.bindings.definitions
    )


def _receiver(site: Site, loop: EpochLoop, sampler: str, sampler_is_new: bool) -> str | None:
    """What to call ``set_epoch`` on inside a loop: the sampler's variable where in sight, else ``loader.sampler``."""
    module = site.module
    here, there = module.function(site.call), module.function(loop.loop)
    if sampler and (here is there or (here is None and "." not in sampler)):
        scope = here or module.tree
        mine = set(site.distributed_definitions)
        others = [d for d in module.bindings.definitions if d.scope is scope and d.key == sampler and d not in mine]
        if sampler_is_new or (not others and _is_bound(module, sampler, loop)):
            return sampler
    inner = "batch_sampler.sampler" if site.batch_arms else "sampler"
    if any(b.kind != "batch" for b in site.batch_arms):
        return None  # whether a batch sampler of the project's own has .sampler is not known
    found: list[tuple[bool, int, str]] = []
    for alias in site.flow.aliases:
        if not isinstance(alias, (ast.Name, ast.Attribute)) or module.function(alias) is not there:
            continue
        around = list(module.around(alias))
        if loop.loop in around and isinstance(alias.ctx, ast.Load) and not _bound_within(module, alias, loop):
            near = loop.inside in around or alias is loop.use.value
            found.append((not near, alias.lineno, f"{module.source.source(alias)}.{inner}"))
    return min(found)[2] if found else None


def _is_bound(module: Module, name: str, loop: EpochLoop) -> bool:
    """Whether a variable still has its value where a loop starts (``del sampler``)."""
    if "." in name:
        return True
    there = module.environment(loop.loop.test if isinstance(loop.loop, ast.While) else loop.loop.iter)
    function = module.function(loop.loop)
    here = any(d.key == name and d.scope is (function or module.tree) for d in module.bindings.definitions)
    return there is None or not here or bool(there.get(name))


def _bound_within(module: Module, alias: ast.expr, loop: EpochLoop) -> bool:
    """Whether a name gets its value inside a loop, so that it has none, or an old one, at the loop's start."""
    root: ast.expr = alias
    definitions = set(module.bindings.reaching(alias))
    while isinstance(root, ast.Attribute):
        root = root.value
        definitions |= module.bindings.reaching(root)
    return any(d.statement is loop.loop or loop.loop in module.around(d.statement) for d in definitions)


def is_read_once(site: Site) -> bool:
    """Whether a loader is surely read once a run: no loop but its own is around what builds and what reads it."""
    if not site.read_once or _built_in_a_loop(site):
        return False
    return not any(_repeated(site.module, use.node) for use in site.flow.of("iterate"))


def _built_in_a_loop(site: Site) -> bool:
    return bool(site.flow.of("iterate")) and _repeated(site.module, site.call, by_calls=False)


def _repeated(module: Module, node: ast.AST, depth: int = 0, *, by_calls: bool = True) -> bool:
    """Whether a node stands in a loop, or in a function that is called in one, or more than once, or nowhere here."""
    inner = node
    for outer in module.around(node):
        if isinstance(outer, (ast.For, ast.AsyncFor, ast.While)) and inner is not getattr(outer, "iter", None):
            return True
        if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            calls = module.callers(outer)
            if depth > 4 or (by_calls and len(calls) != 1):
                return by_calls
            return any(_repeated(module, call, depth + 1, by_calls=by_calls) for call in calls)
        inner = outer
    return False


def shuffling_arms(site: Site) -> list[Arm]:
    """The DistributedSampler arms of a site that shuffle: ``shuffle`` is left at its default or not literally False."""
    arms = [*site.arms, *(i for b in site.batch_arms for i in b.inner)]
    return [a for a in arms if a.kind == "distributed" and a.constant("shuffle") is not False]


def _frozen(site: Site, options: Options) -> Change | Finding | str | None:
    """A change, a refusal, the reason why the site is right, or None if it is none of this codemod's business."""
    arms = [*site.arms, *(i for b in site.batch_arms for i in b.inner)]
    distributed = shuffling_arms(site)
    if not distributed or site.owner != "ddp":
        return None
    if site.told:
        return _told_in_vain(site) or "its sampler is told the epoch"
    if site.role == "eval" and any(a.constant("shuffle") is None for a in distributed):
        return None  # distribute_eval_sampler settles it
    if site.answers.epoch is not None and site.answered("epoch", "told"):
        return f"its sampler is told the epoch, as {site.answers.epoch.where} says"
    module = site.module
    claimed = {id(c.call) for s in site.siblings for c in s.told}
    for call in set_epoch_calls(module):
        name = call.receiver.attr if isinstance(call.receiver, ast.Attribute) else getattr(call.receiver, "id", "")
        if id(call.call) not in claimed and "dataset" not in name:
            return refuse(site, "SHD920", evidence=(module.evidence(call.call),))
    where = [u for a in distributed for u in site.sampler_flow(a).of("returned", "escape")]
    if not site.epoch_loops.loops and not site.epoch_loops.rebuilt:
        if is_read_once(site):
            return "it is read once, so there is no epoch to tell"
        if where or site.flow.of("returned", "escape", "argument"):
            return refuse(site, "SHD909", note="the loader leaves this file's sight")
    guard = (
        "" if len(distributed) == len(arms) else "none" if {a.kind for a in arms} <= {"distributed", "none"} else "kind"
    )
    value = site.arguments.value("sampler")
    name = module.source.source(value) if isinstance(value, (ast.Name, ast.Attribute)) else ""
    func = distributed[0].node.func if isinstance(distributed[0].node, ast.Call) else None
    assert func is not None
    edits = tell_epoch(site, name, guard, module.source.source(func))
    if isinstance(edits, Untold):
        if edits.code == "SHD909" and site.role == "eval":
            return "no epoch loop drives it"
        return refuse(site, edits.code, instead=edits.why)
    return Change(
        site.location,
        "insert_set_epoch",
        ("SHD401",),
        "safe",
        "tell the sampler the epoch",
        tuple(edits),
        consequences=(
            "each epoch now has an order of its own; until now every epoch repeated the order of the first",
            "visits per rank, steps and batch size stay as they are",
        ),
        evidence=tuple(module.evidence(a.node) for a in distributed),
    )


def _told_in_vain(site: Site) -> Finding | None:
    """A sampler that each call of ``set_epoch`` tells one number for good, too late, or on some ranks only."""
    module = site.module
    loops = [loop.loop for loop in site.epoch_loops.loops]
    if not loops:
        return None
    why = [_vain(site, t, loops) for t in site.told]
    if not why or not all(why):
        return None
    return Finding(
        "SHD403",
        site.location,
        why[0],
        (module.evidence(site.told[0].call), module.evidence(loops[0])),
        "call it on every rank, first in the loop over epochs, with the loop's counter",
    )


def _vain(site: Site, told: SetEpoch, loops: Sequence[ast.stmt]) -> str:
    """Why one call of ``set_epoch`` does not give each epoch an order of its own on all ranks; empty if it may."""
    module = site.module
    around = list(module.around(told.call))
    outer = next((loop for loop in loops if loop in around), None)
    if isinstance(told.argument, ast.Constant):
        return _ONE_NUMBER
    if outer is None:
        beside = module.function(told.call) in {module.function(loop) for loop in loops}
        return _ONE_NUMBER if beside else ""
    uses = [u.node for u in site.flow.of("iterate") if outer in module.around(u.node)]
    if any(use in around for use in uses):
        return "set_epoch is called within the loop over batches, whose order stands by then"
    for test in (n.test for n in around[: around.index(outer)] if isinstance(n, ast.If)):
        shared = any(n in module.around(use) for use in uses for n in [module.parents[test]])
        if not shared and distributed_test(test) is None and (is_main_test(test) or is_not_main_test(test)):
            return "set_epoch is called on some ranks only: the ranks cut different permutations, so shards overlap"
        once = isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq)
        if once and isinstance(test, ast.Compare) and told.argument is not None:
            if ast.dump(test.left) == ast.dump(told.argument) and isinstance(test.comparators[0], ast.Constant):
                return _ONE_NUMBER
    if isinstance(told.argument, ast.Name):
        definitions = module.bindings.reaching(told.argument)
        if definitions and not any(outer in (d.statement, *module.around(d.statement)) for d in definitions):
            return _ONE_NUMBER
        counter = next(loop.counter for loop in site.epoch_loops.loops if loop.loop is outer)
        line = max((module.location(use).line for use in uses), default=0)
        if uses and told.argument.id == counter and told.call.lineno > line and isinstance(outer, ast.For):
            return "set_epoch is called behind the epoch's batches, so the second epoch repeats the first one's order"
    return ""


_ONE_NUMBER = "set_epoch is told one number for all epochs, so every epoch repeats the order of the first"


def _wrong_receiver(site: Site) -> Change | None:
    """``loader.sampler.set_epoch`` on a prepared loader: the sampler there is a placeholder without ``set_epoch``."""
    if site.owner != "accelerate" or "distributed" in site.kinds:
        return None
    module = site.module
    edits: list[Edit] = []
    evidence = []
    prepared = {u.value for u in site.flow.uses if u.prepared is not None and u.kind == "attribute"}
    for told in site.told:
        receiver = told.receiver
        if isinstance(receiver, ast.Attribute) and receiver.attr == "sampler" and receiver.value in prepared:
            if isinstance(told.call.func, ast.Attribute):
                source = module.source.source(receiver.value)
                edits.append(ReplaceExpression(module.path, module.source.span(receiver), source))
                evidence.append(module.evidence(told.call))
    if not edits:
        return None
    return Change(
        site.location,
        "insert_set_epoch",
        ("SHD402",),
        "safe",
        "tell the prepared loader the epoch, not its placeholder sampler",
        tuple(edits),
        consequences=("the call no longer raises AttributeError; the prepared loader passes the epoch on",),
        evidence=tuple(evidence),
    )


def plan(sites: Sequence[Site], options: Options) -> Planned:
    """Changes for the loaders of one module whose sampler is never told the epoch."""
    changes: list[Change] = []
    findings: list[tuple[Location, Finding]] = []
    right: list[tuple[Location, str]] = []
    for site in sites:
        if site.kind != "torch" or site.arguments.opaque:
            continue
        wrong = _wrong_receiver(site)
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
        "Where no epoch loop is seen, where the loop's counter can't be named, where batches are taken with next(), "
        "where the loader is rebuilt in each epoch, and where set_epoch is called on something that may be this "
        "sampler. Prepared loaders need no call: accelerate tells the epoch itself."
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
