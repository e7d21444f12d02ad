"""Whether a loader hands out its samples as a list, as they are, or collated."""

from __future__ import annotations

import ast

from shardfix.analysis.code.module import Module


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
