"""Hand the loader of a transformers.Trainer override to the trainer's Accelerator: nothing else shards it."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from shardfix.codemods import remove_redundant_sampler
from shardfix.codemods._findings import refuse

from shardfix.analysis.model import Change, Finding, Location, Options
from shardfix.analysis.owners import Ownership
from shardfix.analysis.rules import Example, Planned, Rule
from shardfix.analysis.sites import Site
from shardfix.rewrite.edits import Edit, WrapExpression

# Samplers that transformers' own methods make are not rank-aware (transformers 5.24): prepare() shards them rightly.
_OWN_SAMPLERS = ("_get_train_sampler", "_get_eval_sampler", "get_train_sampler", "get_eval_sampler")


def _override(site: Site, options: Options) -> Change | Finding | str | None:
    if site.owner != "hf-trainer":
        return None
    if isinstance(site.dataset, (ast.List, ast.Tuple)) and not site.dataset.elts:
        return "its dataset is empty"
    if "distributed" in site.kinds:
        return "a DistributedSampler shards it, and the trainer uses the loader as it is"
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
    module = site.module
    edits: list[Edit] = []
    if isinstance(module.parents[site.call], ast.Return):
        edits.append(WrapExpression(module.path, module.source.span(site.call), "self.accelerator.prepare(", ")"))
    else:
        function = module.function(site.call)
        for alias in site.flow.aliases:
            if isinstance(module.parents[alias], ast.Return) and module.function(alias) is function:
                edits.append(WrapExpression(module.path, module.source.span(alias), "self.accelerator.prepare(", ")"))
    if not edits:
        return refuse(site, "SHD901", note="the override does not return the loader directly")
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
        "Where the sampler is the project's own or comes from elsewhere, and where the override does not return the "
        "loader itself."
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
