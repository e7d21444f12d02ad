"""The names of the libraries that matter, each under the one name it is known by here."""

from __future__ import annotations

import ast

DATA_LOADER = "torch.utils.data.DataLoader"
DISTRIBUTED_SAMPLER = "torch.utils.data.distributed.DistributedSampler"
SEQUENTIAL_SAMPLER = "torch.utils.data.SequentialSampler"
RANDOM_SAMPLER = "torch.utils.data.RandomSampler"
BATCH_SAMPLER = "torch.utils.data.BatchSampler"
ACCELERATOR = "accelerate.Accelerator"

SAMPLER_KINDS = {
    DISTRIBUTED_SAMPLER: "distributed",
    SEQUENTIAL_SAMPLER: "sequential",
    RANDOM_SAMPLER: "random",
    BATCH_SAMPLER: "batch",
    "torch.utils.data.WeightedRandomSampler": "weighted",
    "torch.utils.data.SubsetRandomSampler": "subset-random",
}

# The parameters in the order in which positional arguments bind (torch 2.13; the order has not changed since 1.2).
SIGNATURES: dict[str, tuple[str, ...]] = {
    DATA_LOADER: (
        "dataset",
        "batch_size",
        "shuffle",
        "sampler",
        "batch_sampler",
        "num_workers",
        "collate_fn",
        "pin_memory",
        "drop_last",
        "timeout",
        "worker_init_fn",
        "multiprocessing_context",
        "generator",
    ),
    DISTRIBUTED_SAMPLER: ("dataset", "num_replicas", "rank", "shuffle", "seed", "drop_last"),
    SEQUENTIAL_SAMPLER: ("data_source",),
    RANDOM_SAMPLER: ("data_source", "replacement", "num_samples", "generator"),
    BATCH_SAMPLER: ("sampler", "batch_size", "drop_last"),
    "torch.utils.data.WeightedRandomSampler": ("weights", "num_samples", "replacement", "generator"),
    "torch.utils.data.SubsetRandomSampler": ("indices", "generator"),
}

_DATA_MODULES = (
    "torch.utils.data",
    "torch.utils.data.dataloader",
    "torch.utils.data.sampler",
    "torch.utils.data.distributed",
    "torch.utils.data.dataset",
)
_CANONICAL: dict[str, str] = {}
for _module in _DATA_MODULES:
    for _known in (DATA_LOADER, *SAMPLER_KINDS):
        _CANONICAL[f"{_module}.{_known.rsplit('.', 1)[1]}"] = _known
    for _name in ("IterableDataset", "Subset", "random_split", "TensorDataset", "ConcatDataset", "Dataset"):
        _CANONICAL[f"{_module}.{_name}"] = f"torch.utils.data.{_name}"
# MONAI's class adds a collate function and seeds for its workers, and samples as torch's does (MONAI 1.x); its
# second argument by position is num_workers.
MONAI_LOADERS = ("monai.data.DataLoader", "monai.data.dataloader.DataLoader")
_CANONICAL |= dict.fromkeys(MONAI_LOADERS, DATA_LOADER)
_CANONICAL["accelerate.accelerator.Accelerator"] = ACCELERATOR
for _prefix in ("accelerate.data_loader", "accelerate"):
    _CANONICAL[f"{_prefix}.prepare_data_loader"] = "accelerate.data_loader.prepare_data_loader"
for _prefix in ("torch.distributed.distributed_c10d",):
    for _name in ("init_process_group", "get_rank", "get_world_size", "is_initialized", "all_reduce"):
        _CANONICAL[f"{_prefix}.{_name}"] = f"torch.distributed.{_name}"


def canonical(qualified: str) -> str:
    """The one name under which a re-exported class or function is known; any other name comes back as it is.

    >>> canonical("torch.utils.data.dataloader.DataLoader")
    'torch.utils.data.DataLoader'
    """
    return _CANONICAL.get(qualified, qualified)


WRAPPERS_DDP = frozenset(
    {
        "torch.nn.parallel.DistributedDataParallel",
        "torch.nn.parallel.distributed.DistributedDataParallel",
        "torch.distributed.fsdp.FullyShardedDataParallel",
        "torch.distributed.fsdp.fully_shard",
        "torch.distributed._composable.fsdp.fully_shard",
        "apex.parallel.DistributedDataParallel",
        "torch.nn.parallel.DistributedDataParallelCPU",
    }
)
INIT_PROCESS_GROUP = "torch.distributed.init_process_group"
# What makes torch's default process group; deepspeed.initialize does where none is (deepspeed 0.16).
GROUP_MAKERS = frozenset(
    {
        INIT_PROCESS_GROUP,
        "deepspeed.initialize",
        "deepspeed.init_distributed",
        "deepspeed.comm.init_distributed",
        "deepspeed.comm.comm.init_distributed",
    }
)


def last_name(func: ast.expr) -> str:
    """The last component of a callee: ``a.b.c`` gives ``c``."""
    if isinstance(func, ast.Attribute):
        return func.attr
    return func.id if isinstance(func, ast.Name) else ""


def first_name(node: ast.AST | None) -> str:
    """``model`` for ``model.net(x).data[0]``: the name that all of it starts from; empty without one."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def arguments_of(call: ast.Call) -> list[ast.expr]:
    """The values that a call is given."""
    return [*call.args, *(k.value for k in call.keywords)]


def is_none(node: ast.AST | None) -> bool:
    """Whether an expression is ``None`` as it is written."""
    return isinstance(node, ast.Constant) and node.value is None
