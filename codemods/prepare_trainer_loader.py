"""Hand the loader of a transformers.Trainer override to the trainer's Accelerator: nothing else shards it."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from shardfix.codemods import remove_redundant_sampler
from shardfix.codemods._findings import refuse
from shardfix.codemods._sharding import is_streaming, split_by_hand

from shardfix.analysis.loaders.flow import follow
from shardfix.analysis.model import Change, Finding, Location, Options
from shardfix.analysis.programs.accelerators import is_trainer_hook
from shardfix.analysis.programs.owners import Ownership
from shardfix.analysis.programs.processes import main_process_guard
from shardfix.analysis.rules import Example, Planned, Rule
from shardfix.analysis.sites import Site
from shardfix.rewrite.edits import Edit, WrapExpression

# Samplers that transformers' own methods make are not rank-aware (transformers 5.24): prepare() shards them rightly.
_OWN_SAMPLERS = ("_get_train_sampler", "_get_eval_sampler", "get_train_sampler", "get_eval_sampler")


def _override(site: Site, options: Options) -> Change | Finding | str | None:
    if site.owner != "hf-trainer":
        return None
    left = _left_alone(site)
    if left is not None:
        return left
    module = site.module
    returned = _returned(site)
    if not returned:
        return refuse(site, "SHD901", note="the override does not return the loader directly")
    against = _against(site, returned)
    if against is not None:
        return against
    edits: list[Edit] = [WrapExpression(*module.place(value), "self.accelerator.prepare(", ")") for value in returned]
    redundant = _redundant(site, options)
    return Change(
        site.location,
        "prepare_trainer_loader",
        ("SHD304", *(code for change in redundant for code in change.codes)),
        "safe",
        "let the trainer's Accelerator shard the loader",
        (*edits, *(edit for change in redundant for edit in change.edits)),
        consequences=(
            "with W processes each rank reads its own share and makes 1/W of the steps; until now each read everything",
            "the trainer moves prepared batches to the device as before",
        ),
        evidence=site.owner_evidence,
    )


def _left_alone(site: Site) -> Finding | str | None:
    """Why a loader must not be prepared by itself."""
    if isinstance(site.dataset, (ast.List, ast.Tuple)) and not site.dataset.elts:
        return "its dataset is empty"
    if "distributed" in site.kinds:
        return "a DistributedSampler shards it, and the trainer uses the loader as it is"
    if split_by_hand(site):
        return refuse(site, "SHD908" if is_streaming(site) else "SHD917")
    for arm in (*site.arms, *site.batch_arms):
        own = (
            isinstance(arm.node, ast.Call)
            and isinstance(arm.node.func, ast.Attribute)
            and arm.node.func.attr in _OWN_SAMPLERS
        )
        if arm.kind in ("custom", "parameter", "unknown") and not own:
            return refuse(
                site, "SHD902" if arm.kind != "custom" else "SHD915", evidence=(site.module.evidence(arm.node),)
            )
    return None


def _returned(site: Site) -> list[ast.expr]:
    """The expressions by which the overrides return the loader, in source order."""
    module = site.module
    found = [
        alias
        for alias in site.flow.aliases
        if isinstance(module.parents[alias], ast.Return) and is_trainer_hook(module, module.function(alias))
    ]
    return sorted(found, key=module.location)


def _against(site: Site, returned: Sequence[ast.expr]) -> Finding | None:
    """What reads or returns the loader so that prepare() in the override would be half of the repair, or a fault."""
    module = site.module
    for use in site.flow.of("argument", "escape"):
        outer = module.parents.get(use.node)
        if isinstance(outer, (ast.Return, ast.Assign, ast.AnnAssign)) and use.prepared is None:
            note = f"line {module.location(use.node).line} makes something else of it, which stays unprepared"
            return _by_hand(site, note, use.node, "hand the loader to self.accelerator.prepare where it is built")
    for hook in {module.function(value) for value in returned}:
        for call in module.callers(hook) if hook is not None else ():
            for use in follow(module, call, site.options.prepare_functions).of("iterate", "next"):
                guard = next((g for n in (use.node, *use.calls) if (g := main_process_guard(module, n))), None)
                if guard is not None:
                    line = module.location(use.node).line
                    note = f"line {line} reads what the override returns on one process only, which would get a part"
                    return _by_hand(site, note, guard, "let that code build a loader of its own, then run this again")
    for other in site.siblings:
        if other is not site and set(_returned(other)) & set(returned) and _left_alone(other) is not None:
            note = f"the loader of line {other.location.line} is returned by the same expression and must stay plain"
            return _by_hand(site, note, other.call, "return the two loaders by statements of their own")
    return None


def _by_hand(site: Site, note: str, node: ast.AST, remedy: str) -> Finding:
    return replace(refuse(site, "SHD901", note=note, evidence=(site.module.evidence(node),)), remedy=remedy)


def _redundant(site: Site, options: Options) -> tuple[Change, ...]:
    """What is to be taken off the loader once it is prepared, as from any other prepared loader."""
    prepared = Site(site.module, site.call, site.kind, site.regimes, options, told_owner=Ownership("accelerate"))
    prepared.siblings = [prepared]
    return remove_redundant_sampler.plan([prepared], options).changes


def plan(sites: Sequence[Site], options: Options) -> Planned:
    """Changes for the loaders that Trainer overrides of one module return plain."""
    changes: list[Change] = []
    findings: list[tuple[Location, Finding]] = []
    right: list[tuple[Location, str]] = []
    for site in sites:
        if site.kind != "torch":
            continue
        outcome = _override(site, options)
        if isinstance(outcome, Change):
            changes.append(outcome)
        elif isinstance(outcome, Finding):
            findings.append((site.location, outcome))
        elif outcome is not None:
            right.append((site.location, outcome))
    return Planned(tuple(changes), tuple(findings), tuple(right))


_TRAINER = (
    "from torch.utils.data import DataLoader\n"
    "from transformers import Trainer\n"
    "\n"
    "\n"
    "class MyTrainer(Trainer):\n"
    "    def get_train_dataloader(self):\n"
    "        {returned}\n"
)

RULE = Rule(
    name="prepare_trainer_loader",
    command="PrepareTrainerLoader",
    codes={"SHD304": "unsharded: a Trainer override returns a plain loader"},
    tier="safe",
    why=(
        "transformers' Trainer uses what an override of get_train_dataloader, get_eval_dataloader or "
        "get_test_dataloader returns as it is; its own methods hand the loader to self.accelerator.prepare "
        "(transformers 5.24). A plain loader is read whole by every rank."
    ),
    refuses=(
        "Where the sampler is the project's own or comes from elsewhere, where the dataset is split by rank already, "
        "where the override does not return the loader itself on every path, and where what it returns is read on one "
        "process only."
    ),
    plan=plan,
    valid=(
        Example(
            "the override prepares its loader",
            _TRAINER.format(
                returned="return self.accelerator.prepare(DataLoader(self.train_dataset, batch_size=8, shuffle=True))"
            ),
        ),
    ),
    invalid=(
        Example(
            "a plain loader returned",
            _TRAINER.format(returned="return DataLoader(self.train_dataset, batch_size=8, shuffle=True)"),
            _TRAINER.format(
                returned="return self.accelerator.prepare(DataLoader(self.train_dataset, batch_size=8, shuffle=True))"
            ),
            code="SHD304",
        ),
        Example(
            "a sampler that prepare() makes redundant goes too",
            _TRAINER.format(
                returned="sampler = RandomSampler(self.train_dataset)\n"
                "        return DataLoader(self.train_dataset, batch_size=8, sampler=sampler)"
            ).replace("import DataLoader", "import DataLoader, RandomSampler"),
            _TRAINER.format(
                returned="return self.accelerator.prepare(DataLoader(self.train_dataset, batch_size=8, shuffle=True))"
            ),
            code="SHD304",
        ),
    ),
)


def __getattr__(name: str) -> type:
    if name != RULE.command:
        raise AttributeError(name)
    from shardfix.libcst_command import command_for

    return command_for(RULE)
