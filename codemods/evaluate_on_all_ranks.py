"""Let all ranks share an evaluation that the main process runs alone, while it alone goes on showing and saving."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from shardfix.codemods._all_ranks import edits_of, let_all_in, unfit
from shardfix.codemods._findings import lengths, refuse
from shardfix.codemods._mending import Hindrance, Mended, mended, without_padding
from shardfix.codemods.distribute_eval_sampler import may_train, rest_of
from shardfix.codemods.reduce_eval_metrics import ROWS, TOGETHER, not_quite, sampled, together

from shardfix.analysis.code.names import last_name
from shardfix.analysis.loops.letting_in import LetIn
from shardfix.analysis.model import Change, Finding, Location, Options
from shardfix.analysis.rules import Example, Planned, Rule
from shardfix.analysis.sites import Site
from shardfix.rewrite.edits import AddImport, Edit
from shardfix.wording import numbered


def _alone(site: Site) -> bool:
    """Whether one rank alone evaluates over a loader, in a way that can be shared out."""
    if site.kind != "torch" or site.arguments.opaque or site.owner != "ddp" or site.role != "eval":
        return False
    return site.evaluation.guard is not None and not unfit(site) and not may_train(site) and rest_of(site) is None


def plan(sites: Sequence[Site], options: Options) -> Planned:
    """Changes for the evaluation loaders of one module that one rank alone goes over; with ``--unsafe`` only."""
    if not options.unsafe:
        return Planned()
    ways = {s.location: w for s in sites if _alone(s) and isinstance(w := let_all_in([s]), LetIn)}
    metrics: dict[Location, Mended] = {}
    for site in sites:
        way = ways.get(site.location)
        metric = mended(site, way.lifted) if way is not None else None
        if isinstance(metric, Mended):
            metrics[site.location] = metric
    made = [_change(group, metrics) for group in _by_guard(together(sites, metrics), ways)]
    refused = tuple((m.location, m) for m in made if isinstance(m, Finding))
    return Planned(tuple(m for m in made if isinstance(m, Change)), refused)


def _by_guard(groups: Iterable[list[Site]], ways: dict[Location, LetIn]) -> list[list[Site]]:
    """The groups of loaders, those behind one condition together."""
    joined: list[list[Site]] = []
    for group in groups:
        mine = {g.statement for site in group for g in ways[site.location].guards}
        same = [j for j in joined if mine & {g.statement for s in j for g in ways[s.location].guards}]
        joined = [j for j in joined if j not in same]
        joined.append(sorted({s.location: s for g in (*same, group) for s in g}.values(), key=lambda s: s.location))
    return joined


def _change(group: Sequence[Site], metrics: dict[Location, Mended]) -> Change | Finding | None:
    first = group[0]
    way = let_all_in(group)
    opening = edits_of(way) if isinstance(way, LetIn) else way
    if isinstance(way, Hindrance) or isinstance(opening, Hindrance):
        hindered = opening if isinstance(opening, Hindrance) else way
        assert isinstance(hindered, Hindrance)
        return refuse(first, "SHD905", note=hindered.why, evidence=(hindered.evidence,))
    edits: list[Edit] = []
    for site in group:
        dealt = sampled(site, all_ranks=True)
        if dealt is None or isinstance(dealt, Finding):
            return dealt
        edits += [*dealt, *without_padding(site)]
    found = [metrics[site.location] for site in group]
    edits += [*(e for metric in found for e in metric.edits), *opening]
    inexact = list(dict.fromkeys(why for metric in found for why in metric.inexact))
    lines = numbered(guard.statement.lineno for guard in way.guards)
    whose = f"conditions in {lines} let" if lines.startswith("lines") else f"condition in {lines} lets"
    kept = numbered(k.first.lineno for k in way.kept) if way.kept else ""
    reason = f"the {whose} one rank in, and nothing shows that the others were kept out for work"
    return Change(
        first.location,
        "evaluate_on_all_ranks",
        ("SHD306",),
        "unsafe",
        "let every rank evaluate its part and reduce",
        tuple(dict.fromkeys(edits)),
        reason="; ".join([reason, *([not_quite(inexact)] if inexact else [])]),
        consequences=(
            "with W processes each rank evaluates 1/W of the samples; until now one did all and the others waited "
            "where they next combine something",
            *_of_files(way),
            *((f"one rank alone still does what begins in {kept}",) if kept else ()),
            TOGETHER,
            "each pass over a loader draws a random number, on every rank now: dropout and augmentation in training "
            "draw others than before",
            *_seeded(group, way),
            *(line for line in [ROWS] if any(isinstance(e, AddImport) and e.name == "in_order" for e in edits)),
            *(line for site in group for line in lengths(site, "it is W times shorter now")),
        ),
        evidence=(
            *(guard.module.evidence(guard.statement) for guard in way.guards),
            *first.owner_evidence,
            *(e for metric in found for e in metric.evidence),
        ),
        also=tuple(site.location for site in group[1:]),
    )


def _seeded(group: Sequence[Site], way: LetIn) -> list[str]:
    """What a seed that the evaluation sets does to training afterwards, as consequences."""
    functions = [f for s in group for f in s.evaluation.functions if not isinstance(f, ast.Module)]
    calls = [c for f in functions for c in ast.walk(f) if isinstance(c, ast.Call)]
    seeds = {c.lineno for c in calls if last_name(c.func) in _SEEDS}
    seeds -= {n for k in way.kept for n in range(k.first.lineno, (k.last.end_lineno or k.last.lineno) + 1)}
    if not seeds:
        return []
    return [f"every rank now sets the seed of {numbered(seeds)}: in training they draw the same numbers afterwards"]


def _of_files(way: LetIn) -> list[str]:
    """What becomes of files, as consequences."""
    found: list[str] = []
    if way.loading:
        lines = numbered(s.lineno for s in way.loading)
        found.append(
            f"every rank loads what is loaded in {lines}, once all are here: all of them must see the same files"
        )
    if first := [w.statement.lineno for w in way.waits if w.first]:
        found.append(f"in {numbered(first)} the main process goes first, and the others read the file it wrote")
    if own := [statement.lineno for _, statement, _ in way.unset]:
        found.append(f"what begins to be made in {numbered(own)} stays one rank's own: the others get None")
    return found


_SEEDS = frozenset({"manual_seed", "manual_seed_all", "seed_everything", "set_seed", "fix_seed"})
_HEAD = (
    "import torch\n"
    "import torch.distributed as dist\n"
    "from torch.utils.data import DataLoader\n"
    "{imports}"
    "\n"
    'dist.init_process_group("gloo")\n'
    "val_set = [(torch.ones(2), i % 2) for i in range(7)]\n"
    "{loader}"
    "\n"
    "\n"
    "@torch.no_grad()\n"
    "def evaluate(model, loader):\n"
    "    model.eval()\n"
    "    correct = total = 0\n"
    "    for x, label in loader:\n"
    "        correct += (model(x).argmax(1) == label).sum().item()\n"
    "        total += label.size(0)\n"
    "{reduced}"
    "    return correct / total\n"
    "\n"
    "\n"
    "model = torch.nn.Linear(2, 2)\n"
)
_PLAIN = _HEAD.format(imports="", loader="val_loader = DataLoader(val_set, batch_size=2)\n", reduced="")
_SHARED = _HEAD.format(
    imports="from torch.utils.data.distributed import DistributedSampler\n"
    "\n"
    "from shardfix_evaluation import reduced, unpadded\n",
    loader="val_sampler = DistributedSampler(val_set, shuffle=False)\n"
    "val_loader = DataLoader(val_set, batch_size=2, sampler=val_sampler)\n"
    "val_loader = unpadded(val_loader)\n",
    reduced="    correct, total = reduced(correct, total)\n",
)

RULE = Rule(
    name="evaluate_on_all_ranks",
    command="EvaluateOnAllRanks",
    codes={"SHD306": "one rank evaluates everything while the others wait"},
    tier="unsafe",
    why=(
        "Under `if rank == 0: evaluate()` one of W ranks evaluates every sample, and the others wait where they next "
        "combine gradients; with many samples they wait until the group's timeout ends the job. Sharded, evaluation "
        "takes 1/W of the time, and what it gives is known on every rank. The call that evaluates, and what it needs, "
        "come out of the condition; what shows, logs or saves stays under it, in the functions that evaluate too."
    ),
    refuses=(
        "Where one rank alone comes to a collective, or decides to stop; where another condition may differ by rank; "
        "where the model or anything else that is evaluated is the main process's own (changed there, or from its "
        "memory); where one rank would read a file while another writes it; where "
        "the others do something else meanwhile; and wherever the metric is not understood. The reason says which "
        "line."
    ),
    plan=plan,
    valid=(
        Example(
            "only the main process decides to stop",
            _PLAIN
            + "for epoch in range(3):\n"
            + "    if dist.get_rank() == 0:\n"
            + "        accuracy = evaluate(model, val_loader)\n"
            + "        if accuracy == 1:\n"
            + "            break\n",
            unsafe=True,
        ),
        Example(
            "the model is filled with what the main process alone has in memory",
            _PLAIN
            + "best = {}\n"
            + "if dist.get_rank() == 0:\n"
            + "    model.load_state_dict(best)\n"
            + "    print(evaluate(model, val_loader))\n",
            unsafe=True,
        ),
        Example(
            "the others wait at a barrier, which they would not come to any more at the same time",
            _PLAIN
            + "if dist.get_rank() == 0:\n"
            + "    print(evaluate(model, val_loader))\n"
            + "    dist.barrier()\n"
            + "else:\n"
            + "    dist.barrier()\n",
            unsafe=True,
        ),
    ),
    invalid=(
        Example(
            "the evaluation comes out of the condition, what shows and saves stays",
            _PLAIN
            + "if dist.get_rank() == 0:\n"
            + "    accuracy = evaluate(model, val_loader)\n"
            + '    print("accuracy", accuracy)\n'
            + '    torch.save(model.state_dict(), "model.pt")\n',
            _SHARED
            + "accuracy = evaluate(model, val_loader)\n"
            + "if dist.get_rank() == 0:\n"
            + '    print("accuracy", accuracy)\n'
            + '    torch.save(model.state_dict(), "model.pt")\n',
            code="SHD306",
            unsafe=True,
        ),
        Example(
            "every rank loads the weights, once the main process has saved them",
            _PLAIN
            + "if dist.get_rank() == 0:\n"
            + '    model.load_state_dict(torch.load("best.pt"))\n'
            + '    print("accuracy", evaluate(model, val_loader))\n',
            _SHARED.replace("import reduced", "import all_here, reduced")
            + "all_here()\n"
            + 'model.load_state_dict(torch.load("best.pt"))\n'
            + "metric = evaluate(model, val_loader)\n"
            + "if dist.get_rank() == 0:\n"
            + '    print("accuracy", metric)\n',
            code="SHD306",
            unsafe=True,
        ),
    ),
)


def __getattr__(name: str) -> type:
    if name != RULE.command:
        raise AttributeError(name)
    from shardfix.libcst_command import command_for

    return command_for(RULE)
