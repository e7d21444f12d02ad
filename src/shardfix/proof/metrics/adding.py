"""The statement that adds to an accumulator, of translated parts."""

from __future__ import annotations

import ast
from collections.abc import Callable

from shardfix.analysis.metrics.gathering import Write
from shardfix.proof.metrics.loop import Loop, text_of_statement
from shardfix.proof.recipes.regime import call, name


def changed_by(
    loop: Loop, write: Write, part: Callable[[ast.expr], ast.expr], target: ast.Name | ast.Subscript
) -> list[ast.stmt]:
    """The statement that adds, of translated parts."""
    s = write.statement
    variable = loop.known.tracked[write.name]
    made: list[ast.stmt]
    if isinstance(s, ast.AugAssign):
        made = [ast.AugAssign(target, s.op, part(s.value))]
    elif isinstance(s, ast.Expr) and isinstance(s.value, ast.Call) and isinstance(s.value.func, ast.Attribute):
        parts = [part(a) for a in s.value.args]
        keywords = [ast.keyword(k.arg, part(k.value)) for k in s.value.keywords]
        if write.meter is not None and write.meter.held_in:
            receiver = _held(loop, write, s.value.func.value)
            made = [ast.Expr(ast.Call(ast.Attribute(receiver, "update", ast.Load()), parts, keywords))]
        elif write.meter is not None:
            order = {write.meter.value: 0, write.meter.weight: 1}
            parts += [k.value for k in sorted(keywords, key=lambda k: order.get(k.arg or "", 0))]
            made = [ast.Expr(call(ast.Attribute(name(variable), "update", ast.Load()), *parts))]
        else:
            method = ast.Attribute(name(variable), s.value.func.attr, ast.Load())
            made = [ast.Expr(call(method, *parts))]
    else:
        raise loop.known.stop(f"how `{text_of_statement(s)}` adds is not followed", s)
    return made


def _held(loop: Loop, write: Write, receiver: ast.expr) -> ast.expr:
    """``logger`` or ``logger.meters["acc1"]``, by the variable of the logger."""
    variable = name(loop.known.tracked[write.name])
    if ast.unparse(receiver) == write.name:
        return variable
    if isinstance(receiver, ast.Subscript) and isinstance(receiver.value, ast.Attribute):
        base, key = receiver.value, receiver.slice
        if ast.unparse(base.value) == write.name and isinstance(key, ast.Constant):
            return ast.Subscript(ast.Attribute(variable, base.attr, ast.Load()), key, ast.Load())
    raise loop.known.stop(f"which average of `{write.name}` is told is not followed", write.statement)
