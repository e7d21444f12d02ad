"""Whether a loader hands out its samples as a list, as they are, or collated, and whether padded for one another."""

from __future__ import annotations

import ast

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name

# Of these a batch has the same shape whichever samples it holds.
_STACKS = frozenset(
    {"stack", "tensor", "as_tensor", "LongTensor", "FloatTensor", "Tensor", "array", "asarray", "from_numpy", "zip"}
    | {"list", "tuple", "len", "map", "default_collate", "default_convert", "default_data_collator", "items", "keys"}
    | {"to", "float", "long", "int", "double", "unsqueeze", "numpy", "append", "values", "get", "isinstance", "dict"}
    | {"range", "enumerate", "type", "partial", "ToTensor", "filter", "bool", "str", "view", "contiguous", "permute"}
)


def may_pad(module: Module, collate: ast.expr | None) -> bool:
    """Whether the shape of a batch may depend on which samples are in it: the function given as ``collate_fn`` is not
    seen only to stack them."""
    if collate is None or (isinstance(collate, ast.Constant) and collate.value is None):
        return False
    if isinstance(collate, ast.Lambda):
        return not _stacks(collate.body)
    if isinstance(collate, ast.Call) and last_name(collate.func) == "partial" and collate.args:
        return may_pad(module, collate.args[0])
    if last_name(collate) in ("default_collate", "default_data_collator", "default_convert"):
        return False
    made = list(module.bindings.reaching(collate))
    functions = [d.node for d in made if d.kind == "function"]
    if not made:
        functions = [d.node for name in module.qualify(collate) for d in module.named(name) if d.kind == "function"]
    imported = [d for d in made if d.kind == "import"]
    if imported:
        names = module.qualify(collate)
        functions = [d.node for name in names for d in module.named(name) if d.kind == "function"]
    values = [d.value for d in made if d.kind == "assign" and d.index is None and d.value is not None]
    if values and len(values) == len(made):
        return any(v is collate or may_pad(module, v) for v in values)
    return not functions or any(not _stacks(f) for f in functions)


def _stacks(node: ast.AST) -> bool:
    calls = [n for n in ast.walk(node) if isinstance(n, ast.Call)]
    return all(last_name(c.func) in _STACKS for c in calls)


def gives_lists(module: Module, collate: ast.expr | None) -> bool:
    """Whether batches are lists of samples: the function given as ``collate_fn`` gives back what it is given."""
    if collate is None:
        return False
    if isinstance(collate, ast.Lambda):
        arguments = collate.args.args
        return len(arguments) == 1 and isinstance(collate.body, ast.Name) and collate.body.id == arguments[0].arg
    made = [d.node for d in module.bindings.reaching(collate) if d.kind == "function"]
    if len(made) != 1 or not isinstance(made[0], ast.FunctionDef):
        return False
    function = made[0]
    body = [s for s in function.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    if len(body) != 1 or not isinstance(body[0], ast.Return) or len(function.args.args) != 1:
        return False
    given = body[0].value
    return isinstance(given, ast.Name) and given.id == function.args.args[0].arg


__all__ = ["gives_lists", "may_pad"]
