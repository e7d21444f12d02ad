"""Calls that know of no other process: of libraries, and methods of tensors, arrays, texts and containers."""

from __future__ import annotations

import ast
import re

from shardfix.analysis.code.module import Module

_LIBRARIES = frozenset(
    {"torch", "torchvision", "torchaudio", "timm", "transformers", "tokenizers", "numpy", "scipy", "sklearn", "pandas"}
    | {"PIL", "cv2", "skimage", "imageio", "matplotlib", "seaborn", "einops", "nltk", "sacrebleu", "rouge", "jiwer"}
    | {"rouge_score", "bert_score", "editdistance", "pycocotools", "seqeval", "albumentations", "kornia", "tqdm"}
    | {"builtins", "math", "json", "os", "sys", "time", "re", "string", "collections", "itertools", "functools"}
    | {"operator", "copy", "pathlib", "logging", "warnings", "datetime", "csv", "pickle", "io", "statistics", "typing"}
    | {"dataclasses", "enum", "contextlib", "gc", "glob", "random", "argparse", "types", "traceback", "shapely"}
)
# Of torch, what sends something to other processes, or may. Of the last the harmless questions are taken out.
_SENDS = (
    *("torch.distributed", "torch.nn.parallel", "torch.multiprocessing", "torch.cuda.nccl", "torch.futures"),
    *("torch.nn.SyncBatchNorm", "torch.nn.modules.batchnorm.SyncBatchNorm", "torch._C", "torch.ops", "torch.utils.ffi"),
)
_HIDES = frozenset({f"builtins.{name}" for name in ("getattr", "eval", "exec", "vars", "globals", "locals", "next")})
_ASKED = frozenset({"is_available", "is_initialized", "get_rank", "get_world_size", "get_backend"})
_METHODS = frozenset(
    {"size", "dim", "ndimension", "numel", "nelement", "item", "tolist", "numpy", "cpu", "cuda", "to", "type", "clone"}
    | {"detach", "long", "int", "float", "double", "half", "bool", "bfloat16", "byte", "contiguous", "view", "reshape"}
    | {"view_as", "flatten", "ravel", "squeeze", "unsqueeze", "permute", "transpose", "t", "expand", "repeat", "chunk"}
    | {
        "split",
        "argmax",
        "argmin",
        "argsort",
        "topk",
        "sort",
        "max",
        "min",
        "amax",
        "amin",
        "sum",
        "mean",
        "std",
        "var",
    }
    | {"median", "norm", "abs", "exp", "log", "sqrt", "pow", "clamp", "clip", "round", "sigmoid", "softmax", "tanh"}
    | {"log_softmax", "eq", "ne", "ge", "gt", "le", "lt", "masked_fill", "masked_select", "index_select"}
    | {"nonzero", "any", "all", "unique", "cumsum", "astype", "copy", "dot", "matmul", "new_zeros", "new_tensor"}
    | {"append", "extend", "insert", "items", "keys", "values", "get", "pop", "count", "index", "setdefault", "add_"}
    | {"strip", "lstrip", "rstrip", "replace", "lower", "upper", "format", "startswith", "endswith", "encode"}
    | {"splitlines", "isdigit", "zfill", "write", "flush", "mul", "div", "sub", "eval", "requires_grad_", "pin_memory"}
)
# Texts that show models of which a rank may wait for the others in each step, or hooks that run with them.
_WAITING_MODELS = re.compile(
    r"\b(fully_shard|FullyShardedDataParallel|FSDP|deepspeed|horovod|parallelize_module|distribute_module|DTensor|tp_plan"
    r"|fairscale|colossalai|bagua|hivemind|torch_xla|smdistributed|megatron|RemoteModule|pipelining|synced_gpus"
    r"|register_comm_hook|join_hook)\b|apex\.parallel|torch\.distributed\.(rpc|tensor|_composable|fsdp)"
    r"|\bregister_\w*hook\b"
)


def of_library(names: frozenset[str]) -> bool:
    """Whether all that a name may stand for is of libraries that know of no other process."""
    return bool(names) and all(n.partition(".")[0] in _LIBRARIES and not sends(n) for n in names)


def hides(names: frozenset[str]) -> bool:
    """Whether a call gives or runs something that its arguments do not show."""
    return bool(names & _HIDES)


def runs_text(names: frozenset[str]) -> bool:
    """Whether a call runs a text as Python."""
    return bool(names & {"builtins.eval", "builtins.exec"})


def sends(name: str) -> bool:
    """Whether a qualified name is of what sends something to other processes."""
    inside = any(name == s or name.startswith(s + ".") for s in _SENDS)
    return inside and name.rpartition(".")[2] not in _ASKED


def is_plain_method(call: ast.Call) -> bool:
    """Whether a call is of a method that tensors, arrays, texts and containers have, whatever it is called on."""
    if not isinstance(call.func, ast.Attribute):
        return False
    text = isinstance(call.func.value, (ast.Constant, ast.JoinedStr))  # `join()` of a process waits for it
    return call.func.attr in _METHODS or (text and call.func.attr == "join")


def waiting_model(module: Module) -> str:
    """What a file names of models that wait for the other ranks in each step, or of hooks; empty if it is nothing."""
    found = _WAITING_MODELS.search(module.text)
    return found.group() if found else ""


def shows_synced_norm(module: Module) -> bool:
    """Whether a file names the batch norm whose layers ask all ranks while they train."""
    return "SyncBatchNorm" in module.text or "sync_batchnorm" in module.text


__all__ = ["hides", "is_plain_method", "of_library", "runs_text", "sends", "shows_synced_norm", "waiting_model"]
