"""Share out an evaluation together with its metric: each sample on one rank, sums and results from all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shardfix.codemods._findings import divided, lengths
from shardfix.codemods._gathered_rows import gathered_rows
from shardfix.codemods._gathers import gathered_for_metrics
from shardfix.codemods._in_order import ordered
from shardfix.codemods._mending import Mended, mended, other_loaders, without_padding
from shardfix.codemods._own_means import averaged_over_ranks, right_but_for
from shardfix.codemods._sharding import shard
from shardfix.codemods.distribute_eval_sampler import may_train, rest_of

from shardfix.analysis.metrics.single import takes_one
from shardfix.analysis.model import Change, Finding, Location, Options
from shardfix.analysis.programs.processes import main_process_guard
from shardfix.analysis.rules import Example, Planned, Rule
from shardfix.analysis.sites import Site
from shardfix.rewrite.edits import AddImport, Edit


def _open(site: Site) -> bool:
    """Whether a loader is one of an evaluation that all ranks run, and whose metric is not that of one process yet."""
    if site.kind != "torch" or site.arguments.opaque or site.owner != "ddp" or site.role != "eval":
        return False
    found = site.evaluation
    one = found.guard is not None or found.sometimes is not None
    if one or site.batch_arms or not found.functions or found.exact is not None:
        return False
    if found.positional is not None or found.gathers is not None or site.answers.metric is not None:
        return False
    if main_process_guard(site.module, site.call) is not None or may_train(site):
        return False
    return rest_of(site) is None and divided(site) is None


def sampled(site: Site, *, all_ranks: bool = False) -> list[Edit] | Finding | None:
    """The edits of the sampler: a new one, or the order of the one that is there; None where it deals out otherwise.

    Args:
        all_ranks: whether every rank will come, conditions on the rank or not.
    """
    if "distributed" not in site.kinds:
        if site.own_shares or site.kinds & {"weighted", "custom", "parameter", "unknown"}:
            return None
        return shard(site, shuffle="False", tell=False, all_ranks=all_ranks)
    arms = [a for a in site.arms if a.kind == "distributed"]
    if site.shards_sometimes or any(a.constant("drop_last") is True for a in arms):
        return None
    mine = {(a.node, a.by) for a in arms}
    if any(s is not site and any((a.node, a.by) in mine for a in s.arms) for s in site.siblings):
        return None
    edits = ordered(site.module, arms)
    settled = {id(a.node) for a in arms if a.constant("shuffle") is False}
    return edits if len(settled) + len(edits) == len(arms) else None


def together(sites: Sequence[Site], found: dict[Location, Mended]) -> Iterable[list[Site]]:
    """The sites whose metrics are understood, those of one loop together; none where a loop also goes over another."""
    by_location = {s.location: s for s in sites}
    groups: list[set[Location]] = []
    hindered: set[Location] = set()
    for location in found:
        group = {location}
        site = by_location[location]
        for other in other_loaders(site):
            sibling = next((s for s in sites if s is not site and other.node in s.flow.aliases), None)
            if sibling is None or sibling.location not in found:
                hindered.add(location)
            else:
                group.add(sibling.location)
        joined = [g for g in groups if g & group]
        groups = [g for g in groups if g not in joined]
        groups.append(group.union(*joined))
    return [[by_location[loc] for loc in sorted(group)] for group in groups if not group & hindered]


def _understood(sites: Sequence[Site], options: Options) -> dict[Location, Mended]:
    """The sites whose metrics are put together; what is alike on all ranks by one may lead all of them to another."""
    found: dict[Location, Mended] = {}
    for unsafe in (False, True) if options.unsafe else (False,):
        more = True
        while more:
            changed = {s.location for g in together(sites, found) if isinstance(_change(g, found), Change) for s in g}
            reduced = frozenset(loop for location in changed for loop in found[location].loops)
            new = {s.location: mended(s, reduced=reduced) for s in sites if s.location not in found}
            sure = {k: m for k, m in new.items() if isinstance(m, Mended) and (unsafe or not (m.inexact or m.doubts))}
            found |= sure
            more = bool(sure)
    return {s.location: found[s.location] for s in sites if s.location in found}


def plan(sites: Sequence[Site], options: Options) -> Planned:
    """Changes for the evaluation loaders of one module whose metric is understood and reduced by nothing."""
    found = _understood([s for s in sites if _open(s)], options)
    made = [_change(group, found) for group in together(sites, found)]
    refused = tuple((m.location, m) for m in made if isinstance(m, Finding))
    loops = {s: frozenset(use.node for use in s.flow.of("iterate")) for s in sites}
    prepared = [s for s in sites if s.owner == "accelerate" and s.kind == "torch" and s.role == "eval"]
    gathered = [(s, gathered_for_metrics(s, frozenset().union(*loops.values()) - loops[s])) for s in prepared]
    means = [averaged_over_ranks(s, g if isinstance(g, Change) else None) for s, g in gathered]
    told = [gathered_rows(s) for s in prepared]
    alone = [g for (_, g), mean in zip(gathered, means, strict=True) if mean is None]
    changes = [m for m in (*made, *means, *alone, *told) if isinstance(m, Change)]
    right = [(s.location, right_but_for(s, g if isinstance(g, str) else "")) for s, g in gathered]
    return Planned(tuple(changes), refused, tuple(right))


def _change(group: Sequence[Site], found: dict[Location, Mended]) -> Change | Finding | None:
    first = group[0]
    edits: list[Edit] = []
    sharded: list[bool] = []
    for site in group:
        dealt = sampled(site)
        if dealt is None or isinstance(dealt, Finding):
            return dealt
        sharded.append("distributed" in site.kinds)
        edits += [*dealt, *without_padding(site)]
    metrics = [found[site.location] for site in group]
    if any(set(a.loops) & set(b.loops) and a.edits != b.edits for a in metrics for b in metrics):
        return None  # a loop over one loader of batches and one of single samples
    edits += [edit for metric in metrics for edit in metric.edits]
    inexact = list(dict.fromkeys(why for metric in metrics for why in metric.inexact))
    doubts = list(dict.fromkeys(why for metric in metrics for why in metric.doubts))
    consequences = (
        "each rank evaluates its own share without the samples that only fill it up, and all ranks get the whole metric"
        if all(sharded)
        else "with W processes each rank evaluates 1/W of the samples, and all ranks get the whole metric",
        TOGETHER,
        *(line for line in [UNEVEN] if any(takes_one(site.arguments.value("batch_size")) for site in group)),
        *(line for name, line in (("in_order", ROWS), ("all_here", WAITS)) if _imports(edits, name)),
        *(line for site in group for line in lengths(site, "it is W times shorter now") if not all(sharded)),
    )
    return Change(
        first.location,
        "reduce_eval_metrics",
        ("SHD506",) if all(sharded) else ("SHD305",),
        "unsafe" if inexact or doubts else "safe",
        _title(all(sharded), summed=not any(metric.edits for metric in metrics)),
        tuple(dict.fromkeys(edits)),
        reason="; ".join([*doubts[:1], *([not_quite(inexact)] if inexact else [])]),
        consequences=consequences,
        evidence=(*first.owner_evidence, *(e for metric in metrics for e in metric.evidence)),
        also=tuple(site.location for site in group[1:]),
    )


# What an evaluation that is put together from all ranks rests on, told with each such change.
TOGETHER = (
    "every rank must come to the end of the loop, where the results are put together; fewer samples than processes are "
    "an error"
)
UNEVEN = "a rank may make one step more than the others: nothing is seen in the loop that waits for them"
ROWS = (
    "the results must be one for each sample: where a model gives more or fewer, in_order() is an error on every rank"
)

WAITS = (
    "all_here() makes every rank wait until all have written the file that is read behind it: one that opens it for "
    "writing empties it, and now all come there at the same time"
)


def _imports(edits: Sequence[Edit], name: str) -> bool:
    return any(isinstance(e, AddImport) and e.name == name for e in edits)


def _title(sharded: bool, *, summed: bool) -> str:
    if sharded:
        return "leave the padding out of the metric" if summed else "put the metric together from all ranks"
    return "evaluate each sample on one rank" if summed else "evaluate each sample on one rank and reduce"


def not_quite(inexact: Sequence[str]) -> str:
    if not inexact:
        return ""
    more = f" (and {len(inexact) - 1} more)" if len(inexact) > 1 else ""
    return f"the value is not quite that of one process: {inexact[0]}{more}; the ranks' batches are other ones"


_HEAD = (
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
    "def evaluate(model, loader):\n"
)
_COUNTS = (
    "    correct = total = 0\n"
    "    for x, label in loader:\n"
    "        correct += (model(x).argmax(1) == label).sum().item()\n"
    "        total += label.size(0)\n"
    "{reduced}"
    "    return correct / total\n"
    "\n"
    "\n"
    "print(evaluate(torch.nn.Linear(1, 2), val_loader))\n"
)
_PLAIN = "val_loader = DataLoader(val_set, batch_size=2)\n"
_IMPORTS = "from torch.utils.data.distributed import DistributedSampler\n\nfrom shardfix_evaluation import {}\n"
_SHARED = (
    "val_sampler = DistributedSampler(val_set, shuffle=False)\n"
    "val_loader = DataLoader(val_set, batch_size=2, sampler=val_sampler)\n"
    "val_loader = unpadded(val_loader)\n"
)
_SHARDED = (
    "import torch\n"
    "import torch.distributed as dist\n"
    "from torch.utils.data import DataLoader, DistributedSampler\n"
    "{imports}"
    "\n"
    'dist.init_process_group("gloo")\n'
    "val_set = list(range(7))\n"
    "val_loader = DataLoader(val_set, batch_size=2, sampler=DistributedSampler(val_set, shuffle=False))\n"
    "{unpadded}"
    "preds = []\n"
    "with torch.no_grad():\n"
    "    for batch in val_loader:\n"
    "        preds.extend((batch * 2).tolist())\n"
    "{ordered}"
    "print(preds)\n"
)
_PREPARED = (
    "from accelerate import Accelerator\n"
    "from torch.utils.data import DataLoader\n"
    "\n"
    "accelerator = Accelerator()\n"
    "val_loader = DataLoader(list(range(10)), batch_size=4)\n"
    "val_loader = accelerator.prepare(val_loader)\n"
    "preds = []\n"
    "for batch in val_loader:\n"
    "    preds += accelerator.{}(batch).tolist()\n"
)

_TOLD = (
    "import evaluate\n"
    "from accelerate import Accelerator\n"
    "from torch.utils.data import DataLoader\n"
    "\n"
    "accelerator = Accelerator()\n"
    'metric = evaluate.load("accuracy")\n'
    "val_loader = DataLoader(list(range(10)), batch_size=4)\n"
    "val_loader = accelerator.prepare(val_loader)\n"
    "for batch in val_loader:\n"
    "    preds = (batch % 2).tolist()\n"
    "{}"
    "    metric.add_batch(predictions=preds)\n"
    "print(metric.compute())\n"
)

RULE = Rule(
    name="reduce_eval_metrics",
    command="ReduceEvalMetrics",
    codes={
        "SHD305": "unsharded evaluation whose metric can be put together from all ranks",
        "SHD506": "sharded evaluation whose metric can be put together from all ranks",
        "SHD507": "gather() of samples that gather_for_metrics() would count once",
        "SHD508": "prepared evaluation whose metric can be told of the samples of all ranks",
        "SHD509": "prepared evaluation whose mean over batches is that of one rank's batches",
    },
    tier="safe",
    tiers={"SHD509": "unsafe"},
    why=(
        "An evaluation that every rank runs whole costs W times the work, and one that is sharded and not reduced "
        "reports one rank's part. The loop's accumulators are followed: counts, sums over samples, averaging objects, "
        "lists and arrays of results. Loader and metric change together: a DistributedSampler, unpadded() that leaves "
        "out the samples which only make the ranks even (7 samples on 2 ranks are 8 visits), and behind the loop "
        "reduced() for sums, in_order() for results, which come back in the dataset's order, and of_all_batches() for "
        "lists with one number for each batch. Every rank has the value of one process: exactly for counts and "
        "results, to rounding for float sums. In a prepared loop gather() becomes gather_for_metrics(), which drops "
        "what prepare() repeats, and stands before a metric of evaluate is told of samples (accelerate 1.15, map-style "
        "data and streams, 2 and 3 ranks, ragged sizes: the samples of one process, in order). A mean over one "
        "rank's batches (`eval_loss / steps`), which nothing gathers there, becomes that over the batches of all ranks "
        "with --unsafe (SHD509): the samples that prepare() repeats to fill the last batches count in it."
    ),
    refuses=(
        "Where a statement of the loop is not understood, which is named: gradients, break, a store, an object that is "
        "told of the batches, a name of the last batch that is read afterwards; where batches hold one sample and a "
        "rank may wait for others in the loop, or drop_last is set; where the number of batches is read, the program "
        "sums by itself later on, or the dataset changes with its reads. Means over batches weigh the last batch like "
        "a full one, so their reduced value is another, results that are read by their order come in another where the "
        "original shuffles, items may be drawn anew, and a condition that may differ between ranks keeps some from "
        "the reduction for which all must come: --unsafe."
    ),
    plan=plan,
    valid=(
        Example(
            "a running minimum can't be added up",
            _HEAD.format(imports="", loader=_PLAIN)
            + "    best = 1.0\n"
            + "    for x, label in loader:\n"
            + "        best = min(best, model(x).min())\n"
            + "    return best\n"
            + "\n"
            + "\n"
            + "print(evaluate(torch.nn.Linear(1, 2), val_loader))\n",
            code="SHD904",
        ),
        Example(
            "a mean of the batches' means weighs a short last batch like a full one",
            _HEAD.format(imports="", loader=_PLAIN)
            + "    loss_sum, steps = 0.0, 0\n"
            + "    for x, label in loader:\n"
            + "        loss_sum += torch.nn.functional.cross_entropy(model(x), label).item()\n"
            + "        steps += 1\n"
            + "    return loss_sum / steps\n"
            + "\n"
            + "\n"
            + "print(evaluate(torch.nn.Linear(1, 2), val_loader))\n",
            code="SHD904",
        ),
    ),
    invalid=(
        Example(
            "counts are summed over the ranks, and no sample is counted twice",
            _HEAD.format(imports="", loader=_PLAIN) + _COUNTS.format(reduced=""),
            _HEAD.format(imports=_IMPORTS.format("reduced, unpadded"), loader=_SHARED)
            + _COUNTS.format(reduced="    correct, total = reduced(correct, total)\n"),
            code="SHD305",
        ),
        Example(
            "a sharded evaluation loses its padding and gets its results in the dataset's order",
            _SHARDED.format(imports="", unpadded="", ordered=""),
            _SHARDED.format(
                imports="\nfrom shardfix_evaluation import in_order, unpadded\n",
                unpadded="val_loader = unpadded(val_loader)\n",
                ordered="    preds = in_order(preds, val_loader)\n",
            ),
            code="SHD506",
        ),
        Example(
            "what prepare() repeats to fill the last batch is dropped",
            _PREPARED.format("gather"),
            _PREPARED.format("gather_for_metrics"),
            code="SHD507",
        ),
        Example(
            "a metric that each rank would compute of its own part",
            _TOLD.format(""),
            _TOLD.format("    preds = accelerator.gather_for_metrics(preds, use_gather_object=True)\n"),
            code="SHD508",
        ),
    ),
)


def __getattr__(name: str) -> type:
    if name != RULE.command:
        raise AttributeError(name)
    from shardfix.libcst_command import command_for

    return command_for(RULE)
