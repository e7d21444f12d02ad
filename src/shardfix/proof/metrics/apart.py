"""What is not run may speak to other ranks: what of it is known to make one value of others, or only to show them."""

from __future__ import annotations

import ast

from shardfix.analysis.code.calling import Function, arguments_given
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.metrics.showing import shows
from shardfix.analysis.metrics.values import Values
from shardfix.analysis.programs.processes import is_main_test, is_not_main_test, is_rank, is_world_size
from shardfix.proof.metrics.allowed import BUILTINS
from shardfix.proof.metrics.closed import is_own, strange
from shardfix.proof.metrics.texts import reads_text, text_of_ids

# Libraries whose functions make one value of what they are given.
_LIBRARIES = frozenset(
    {
        *(
            "numpy",
            "scipy",
            "sklearn",
            "math",
            "statistics",
            "collections",
            "itertools",
            "json",
            "re",
            "copy",
            "pandas",
        ),
        *("torch", "torchmetrics", "evaluate", "datasets", "nltk", "sacrebleu", "rouge", "rouge_score", "seqeval"),
        *(
            "datetime",
            "time",
            "string",
            "functools",
            "operator",
            "os",
            "pathlib",
            "textwrap",
            "tabulate",
            "torchvision",
        ),
        *("pycocotools", "bert_score", "jiwer", "editdistance", "Levenshtein", "matplotlib", "csv", "logging", "sys"),
    }
)
# Of transformers, seen in its source (data/metrics): they work out scores of what they are given, and no more.
_SCORES = frozenset(
    {"glue_compute_metrics", "xnli_compute_metrics", "squad_evaluate", "simple_accuracy", "acc_and_f1"}
    | {"pearson_and_spearman", "compute_predictions_logits", "compute_predictions_log_probs"}
)
_NAMES = frozenset({"print", "str", "repr", "isinstance", "hasattr", "type", "format", "hash", "iter", "next"})
# Methods that make a value of their object and of what they are given.
_METHODS = frozenset(
    {
        *("decode", "batch_decode", "convert_ids_to_tokens", "format", "join", "compute", "items", "keys", "values"),
        *("get", "strip", "split", "lower", "upper", "replace", "encode", "tolist", "item", "numpy", "cpu", "detach"),
        *("named_parameters", "parameters", "numel", "view", "kthvalue"),
        *("state_dict", "get_lr", "get_last_lr", "most_common", "astype", "is_integer", "copy", "index", "count"),
    }
)
# Methods that keep, show or write down what they are given.
_KEEPS = frozenset(
    {
        *("append", "extend", "info", "debug", "warning", "error", "log", "add_scalar", "add_scalars", "write", "step"),
        *("add_row", "writerow", "log_metrics", "set_postfix", "set_description", "critical", "exception", "dump"),
        *(
            "save",
            "close",
            "flush",
            "update",
            "add",
            "add_figure",
            "add_text",
            "log_metric",
            "log_dict",
            "scalar_summary",
        ),
        *("save_checkpoint", "title", "plot", "display", "print", "setdefault", "insert", "sort", "add_histogram"),
    }
)
# Libraries whose objects have such methods only.
_OBJECTS = frozenset({"pandas", "numpy", "collections", "csv", "io", "pathlib", "tabulate", "matplotlib", "decimal"})
# Libraries whose objects write down what they are told.
_LOGGING = frozenset(
    {"tensorboard_logger", "tensorboardX", "wandb", "mlflow", "comet_ml", "neptune", "visdom", "clearml", "swanlab"}
    | {"aim", "dllogger", "loguru", "tensorboard"}
)
_SPEAKS = ("torch.distributed", "multiprocessing", "torch.multiprocessing", "mpi4py", "horovod", "getattr")
_DEPTH = 4  # functions in functions that are looked into


def speaks(module: Module, node: ast.AST, depth: int = 0) -> ast.AST | None:
    """What in some code may be of other ranks: torch's collectives, the rank; None where nothing is."""
    guards = {
        n
        for outer in ast.walk(node)
        if isinstance(outer, (ast.If, ast.IfExp)) and (is_main_test(outer.test) or is_not_main_test(outer.test))
        for n in ast.walk(outer.test)
    }
    for n in ast.walk(node):
        if n in guards:
            continue  # it decides who says it
        if isinstance(n, (ast.Name, ast.Attribute)):
            known = module.qualify(n)
            if any(q.startswith(_SPEAKS) and not q.endswith(("ReduceOp.SUM", ".barrier")) for q in known):
                return n
            if is_rank(n) or is_world_size(n):
                return n
        if isinstance(n, ast.Call) and depth < _DEPTH:
            for function in module.called_functions(n):
                found = speaks(module.home(function), function, depth + 1)
                if found is not None:
                    return found
    return None


def makes_a_value(module: Module, node: ast.Call) -> bool:
    """Whether what a call is given decides what it gives, as far as is known of who is called."""
    if any(speaks(module, a) is not None for a in [*node.args, *(k.value for k in node.keywords)]):
        return False
    if any(_handed_on(module, a) for a in node.args):
        return False
    if is_own(module, node):
        return not strange(module, node)
    heads = {q.partition(".")[0] for q in module.callee(node)}
    if heads == {"transformers"} and all(q.rpartition(".")[2] in _SCORES for q in module.callee(node)):
        return True
    if isinstance(node.func, ast.Name):
        plain = node.func.id in BUILTINS | _NAMES and "builtins" in heads
        return plain or bool(heads & _LIBRARIES)
    if heads & _LIBRARIES:
        return not any(q.startswith(_SPEAKS) for q in module.callee(node))
    if reads_text(node):
        return text_of_ids(module, node, lambda ids: ids) is not None
    if last_name(node.func) in _METHODS and not module.instances(node.func):
        return True
    return isinstance(node.func, ast.Attribute) and _of_library(module, node.func.value)


def only_keeps(values: Values, node: ast.Call) -> bool:
    """Whether a call, whose result nobody takes, shows, logs or keeps what it is given."""
    module = values.module
    if any(speaks(module, a) is not None for a in [*node.args, *(k.value for k in node.keywords)]):
        return last_name(node.func) == "print"
    if shows(values, node):
        return True
    functions = module.called_functions(node)
    if functions:
        return all(speaks(module.home(f), f, 1) is None for f in functions)
    if isinstance(node.func, ast.Attribute):
        heads = {q.partition(".")[0] for q in module.callee(node)}
        if node.func.attr in _KEEPS or bool(heads & (_LIBRARIES | _LOGGING)):
            return True
        return _of_library(module, node.func.value) or _is_logger(module, node.func.value)
    return makes_a_value(module, node)


def _is_logger(module: Module, node: ast.expr, depth: int = 0) -> bool:
    """Whether an object, or what all callers give a parameter, is made by a library that logs; or is None."""
    if isinstance(node, ast.Call):
        heads = {q.partition(".")[0] for q in module.callee(node)}
        return bool(heads) and heads <= _LOGGING
    found = list(module.bindings.reaching(node)) if isinstance(node, ast.Name) else []
    given: list[ast.expr | None] = [node.body, node.orelse] if isinstance(node, ast.IfExp) else []
    if not (found or given) or depth >= _DEPTH:
        return False
    for d in found:
        if d.kind == "assign" and d.index is None:
            given.append(d.value)
        elif d.kind == "parameter":
            given += [value for _, value in arguments_given(module, d)] or [node]
        else:
            return False
    some = [v for v in given if v is not None and not (isinstance(v, ast.Constant) and v.value is None)]
    return bool(some) and all(v is not node and _is_logger(module.home(v), v, depth + 1) for v in some)


def _of_library(module: Module, node: ast.expr, depth: int = 0) -> bool:
    """Whether an object is seen to be one of a library that knows no ranks: a table of pandas, an array."""
    if isinstance(node, ast.Call):
        heads = {q.partition(".")[0] for q in module.callee(node)}
        if heads or not isinstance(node.func, ast.Attribute) or depth >= _DEPTH:
            return bool(heads) and heads <= _OBJECTS
        return _of_library(module, node.func.value, depth + 1)
    if not isinstance(node, ast.Name) or depth >= _DEPTH:
        return False
    made = list(module.bindings.reaching(node))
    return bool(made) and all(
        d.kind == "assign" and d.index is None and d.value is not None and _of_library(module, d.value, depth + 1)
        for d in made
    )


def _handed_on(module: Module, node: ast.expr) -> bool:
    """Whether a function of the project is handed on, to be called out of sight."""
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return False
    return any(isinstance(d.node, Function) for q in module.qualify(node) for d in module.named(q))


__all__ = ["makes_a_value", "only_keeps", "speaks"]
