"""Whether anything joins what the ranks of a program learn: where nothing does, each trains a model of its own."""

from __future__ import annotations

import ast
import re

from shardfix.analysis.code.module import Module
from shardfix.analysis.programs.together import together

# Wrappers of models, collectives, engines, and how projects call their own: a name is enough not to say that all learn
# apart.
_JOINS = re.compile(
    r"ddp|fsdp|fully_?shard|distributed_?data_?parallel|sharded_?data_?parallel|all_?reduce|^i?reduce$|reduce_?scatter"
    r"|all_?gather|average_|avg_|sync_?(grad|model|param|weight)|zero_?redundancy|horovod|hvd|deepspeed|bagua|fairscale"
    r"|apex|parallelize|distribute_|wrap|comm_hook|engine|broadcast",
    re.IGNORECASE,
)


def learn_apart(module: Module) -> ast.Call | None:
    """The construction of the optimizer, in a program (as far as imports tell) that has nothing by which gradients or
    weights of several ranks may come together; None where something does, or no optimizer is made in sight."""
    program = together(module)
    if any(_JOINS.search(name) for m in program for name in _names(m)):
        return None
    made = [c for m in program for c in m.calls if any(q.startswith("torch.optim.") for q in m.callee(c))]
    return next((c for c in made if module.home(c) is module), made[0] if made else None)


def _names(module: Module) -> set[str]:
    loads = [n for n in ast.walk(module.tree) if isinstance(n, (ast.Name, ast.Attribute))]
    return {n.id if isinstance(n, ast.Name) else n.attr for n in loads if isinstance(n.ctx, ast.Load)}


__all__ = ["learn_apart"]
