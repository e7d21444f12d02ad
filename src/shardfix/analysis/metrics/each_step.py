"""Values that a loop averages over the ranks in each step: ``loss = reduce_mean(loss, nprocs)``."""

from __future__ import annotations

import ast

from shardfix.analysis.code.calling import argument_of
from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name
from shardfix.analysis.programs.processes import is_world_size

_COPIES = frozenset({"clone", "detach"})


def averaged_value(module: Module, call: ast.Call) -> ast.expr | None:
    """The value that a call replaces by its mean over the ranks, where the function that it calls is read to do that
    and nothing else: it copies its argument, sums the copy over all ranks, divides by their number and returns it."""
    functions = module.called_functions(call, passed=False)
    function = functions[0] if len(functions) == 1 else None
    if not isinstance(function, ast.FunctionDef) or not function.args.args or function.decorator_list:
        return None
    home = module.home(function)
    first = function.args.args[0].arg
    steps = [s for s in function.body if not _is_text(s)]
    counts = {p.arg for p in function.args.args[1:] if _is_number(module, function, call, p.arg)}
    if steps and isinstance(steps[0], ast.If) and _asks_for_number(steps[0], counts):
        steps = steps[1:]
    copy = steps[0] if len(steps) == 4 else None
    if not isinstance(copy, ast.Assign) or not isinstance(copy.targets[0], ast.Name) or not _copies(copy.value, first):
        return None
    kept = copy.targets[0].id
    if not _sums(home, steps[1], kept) or not _divides(steps[2], kept, counts) or not _gives(steps[3], kept):
        return None
    given = argument_of(module, function, call, first)
    plain = not any(isinstance(a, ast.Starred) for a in call.args) and not any(k.arg is None for k in call.keywords)
    return given if plain else None


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_number(module: Module, function: ast.FunctionDef, call: ast.Call, name: str) -> bool:
    """Whether a parameter is the number of ranks, by what the call gives; or is left to be asked for."""
    given = argument_of(module, function, call, name)
    return given is None or is_world_size(given) or (isinstance(given, ast.Constant) and given.value is None)


def _asks_for_number(statement: ast.If, counts: set[str]) -> bool:
    """``if n is None: n = dist.get_world_size()``"""
    made = statement.body[0] if len(statement.body) == 1 and not statement.orelse else None
    if not isinstance(made, ast.Assign) or not isinstance(made.targets[0], ast.Name):
        return False
    name = made.targets[0].id
    return name in counts and is_world_size(made.value) and ast.unparse(statement.test) == f"{name} is None"


def _copies(value: ast.expr, name: str) -> bool:
    cloned = False
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _COPIES:
        cloned = cloned or value.func.attr == "clone"
        value = value.func.value
    return cloned and isinstance(value, ast.Name) and value.id == name


def _sums(module: Module, statement: ast.stmt, name: str) -> bool:
    """``dist.all_reduce(x)``, with no operation but the sum."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or "torch.distributed.all_reduce" not in module.callee(call):
        return False
    operation = [*call.args[1:2], *(k.value for k in call.keywords if k.arg == "op")]
    alone = len(call.args) <= 2 and all(k.arg == "op" for k in call.keywords)
    return alone and _named(call.args[:1], name) and all(last_name(o) == "SUM" for o in operation)


def _divides(statement: ast.stmt, name: str, counts: set[str]) -> bool:
    """``x /= n``, ``x = x / n``, ``x.div_(n)``, n being the number of ranks."""
    number: ast.expr | None = None
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Div) and _named([statement.target], name):
        number = statement.value
    elif isinstance(statement, ast.Assign) and _named(statement.targets[:1], name):
        value = statement.value
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div) and _named([value.left], name):
            number = value.right
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        func, given = statement.value.func, statement.value.args
        divided = isinstance(func, ast.Attribute) and func.attr == "div_" and _named([func.value], name)
        number = given[0] if divided and len(given) == 1 and not statement.value.keywords else None
    return number is not None and (is_world_size(number) or (isinstance(number, ast.Name) and number.id in counts))


def _gives(statement: ast.stmt, name: str) -> bool:
    return isinstance(statement, ast.Return) and statement.value is not None and _named([statement.value], name)


def _named(nodes: list[ast.expr], name: str) -> bool:
    return len(nodes) == 1 and isinstance(nodes[0], ast.Name) and nodes[0].id == name


__all__ = ["averaged_value"]
