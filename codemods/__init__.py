"""One file a codemod: reading this folder tells what shardfix changes."""

from __future__ import annotations

from shardfix.codemods import (
    add_sanitizer,
    distribute_eval_sampler,
    distribute_train_sampler,
    evaluate_on_all_ranks,
    hazards,
    insert_set_epoch,
    prepare_trainer_loader,
    reduce_eval_metrics,
    remove_redundant_sampler,
)

from shardfix.analysis.rules import Rule

# In the order in which they look at a site; the first that changes it settles it.
RULES: tuple[Rule, ...] = (
    remove_redundant_sampler.RULE,
    prepare_trainer_loader.RULE,
    distribute_train_sampler.RULE,
    reduce_eval_metrics.RULE,
    evaluate_on_all_ranks.RULE,
    distribute_eval_sampler.RULE,
    insert_set_epoch.RULE,
    hazards.RULE,
    add_sanitizer.RULE,
)

__all__ = ["RULES"]
