"""Whether what a model gives for a sample is as wide in each batch, though its inputs are filled up to the widest."""

from __future__ import annotations

import ast
import re

from shardfix.analysis.code.bindings import Definition
from shardfix.analysis.code.calling import arguments_given
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.metrics.networks import gives_rows

# Classes of transformers whose models give a row of fixed width for each sample: scores of its classes.
_FIXED = re.compile(r"For(Sequence|Image|Video|Audio)Classification$|ForMultipleChoice$|ForNextSentencePrediction$")
_MADE_BY = frozenset({"from_pretrained", "from_config"})
_WRAPS = frozenset({"DistributedDataParallel", "DataParallel", "DDP", "compile", "unwrap_model", "prepare_model"})
_SAME = frozenset({"to", "cuda", "cpu", "eval", "train", "half", "float", "bfloat16"})
_PADS = frozenset({"pad_across_processes"})
_DEPTH = 12  # assignments and calls that a model is followed back through


def fixed_widths(module: Module, loop: ast.For) -> bool:
    """Whether all models that a loop calls are seen to give rows of one width, or rows are filled up to one width
    before they are put together."""
    calls = [n for s in loop.body for n in ast.walk(s) if isinstance(n, ast.Call)]
    if any(last_name(c.func) in _PADS for c in calls):
        return True
    named = [c for c in calls if not any(isinstance(n, ast.Call) for n in ast.walk(c.func))]
    models = [c.func for c in named if not module.called_functions(c) and gives_rows(module, c)]
    return bool(models) and all(_is_fixed(module, m, None, 0) for m in models)


def _is_fixed(module: Module, node: ast.expr, index: int | None, depth: int) -> bool:
    """Whether all that an expression may be, or the item of a place in it, is such a model."""
    if depth > _DEPTH:
        return False
    module = module.home(node)
    if isinstance(node, (ast.Tuple, ast.List)) and index is not None:
        return 0 <= index < len(node.elts) and _is_fixed(module, node.elts[index], None, depth + 1)
    if isinstance(node, ast.Call):
        return _made(module, node, index, depth)
    if isinstance(node, ast.Attribute) and node.attr == "module":
        return _is_fixed(module, node.value, index, depth + 1)
    if index is not None or not isinstance(node, ast.Name):
        return False
    found = list(module.bindings.reaching(node))
    return bool(found) and all(_bound(module, d, depth) for d in found)


def _bound(module: Module, d: Definition, depth: int) -> bool:
    if d.kind == "assign" and d.value is not None:
        return _is_fixed(module, d.value, d.index, depth + 1)
    if d.kind == "parameter":
        given = [v for _, v in arguments_given(module, d)]
        return bool(given) and all(v is not None and _is_fixed(module.home(v), v, None, depth + 1) for v in given)
    return False


def _made(module: Module, node: ast.Call, index: int | None, depth: int) -> bool:
    """A model by what makes it, or hands it on."""
    function, name = node.func, last_name(node.func)
    if isinstance(function, ast.Attribute) and name in _MADE_BY and index is None:
        names = module.qualify(function.value)
        return bool(names) and all(q.startswith("transformers.") and bool(_FIXED.search(q)) for q in names)
    if name == "prepare" and node.args:
        place = index if index is not None else 0 if len(node.args) == 1 else -1
        return 0 <= place < len(node.args) and _is_fixed(module, node.args[place], None, depth + 1)
    if name in _WRAPS and node.args and index is None:
        return _is_fixed(module, node.args[0], None, depth + 1)
    if name in _SAME and isinstance(function, ast.Attribute) and index is None:
        return _is_fixed(module, function.value, None, depth + 1)
    returned = [
        n.value
        for f in module.called_functions(node)
        for n in ast.walk(f)
        if isinstance(n, ast.Return) and module.home(f).function(n) is f and n.value is not None
    ]
    return bool(returned) and all(_is_fixed(module.home(r), r, index, depth + 1) for r in returned)


__all__ = ["fixed_widths"]
