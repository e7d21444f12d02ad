"""Functions of the project's own, translated by the same rules as the loop that calls them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from shardfix.analysis.code.bindings import parameters
from shardfix.analysis.code.names import last_name
from shardfix.proof.metrics.allowed import is_literal
from shardfix.proof.metrics.known import Known
from shardfix.proof.metrics.outputs import Outputs
from shardfix.proof.recipes.choices import text_of
from shardfix.proof.recipes.regime import name
from shardfix.proof.stop import Stop

if TYPE_CHECKING:
    from shardfix.proof.metrics.literal import Literal

_NESTED = 3  # functions in functions that are read


Kept = Callable[[ast.expr, ast.Call], ast.expr]


def inlined(literal: Literal, node: ast.Call, kept: Kept) -> ast.expr | None:
    """A call of a function of the project's own, which is translated too; None where that can't be.

    Args:
        kept: makes the call of what it is given and the original one.
    """
    known = literal.known
    lambda_ = _lambda(known, node.func)
    if lambda_ is not None:
        bound = len(known.local)
        known.local += [a.arg for a in parameters(lambda_)]
        try:
            made_of: ast.expr = ast.Lambda(lambda_.args, literal.value(lambda_.body))
        except Stop:
            return None
        finally:
            del known.local[bound:]
        return kept(made_of, node)
    found = known.module.called_functions(node)
    if len(found) != 1 or literal.depth >= _NESTED or not isinstance(found[0], ast.FunctionDef):
        return None
    function = found[0]
    plain = all(
        ast.unparse(d) in ("torch.no_grad()", "staticmethod", "torch.inference_mode()") for d in function.decorator_list
    )
    home = known.module.home(function)
    if not plain or (
        home.class_of(function) is not None and "staticmethod" not in map(ast.unparse, function.decorator_list)
    ):
        return None
    arguments = function.args
    defaults = [*arguments.defaults, *(d for d in arguments.kw_defaults if d is not None)]
    if arguments.kwarg or arguments.vararg or not all(is_literal(d) for d in defaults):
        return None
    label = f"F_{function.name}"
    if label not in literal.functions:
        stored = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        names = stored | {a.arg for a in parameters(function)}
        inner_known = replace(
            known,
            module=home,
            loaders=(),
            dataset="",
            tracked={n: n for n in names},
            meters={},
            classes={},
            weighted=set(),
            local=[],
        )
        inner = replace(
            literal,
            known=inner_known,
            outputs=Outputs(inner_known, lambda _: ""),
            own=lambda *_: None,
            untracked=lambda n: refused(inner_known, n),
            depth=literal.depth + 1,
        )
        before, stand_ins = len(known.assumed), dict(known.stand_ins)
        try:
            body = inner.block([s for s in function.body if not _is_docstring(s)])
        except Stop:
            del known.assumed[before:]
            known.stand_ins.clear()
            known.stand_ins.update(stand_ins)
            return None
        made = ast.parse(f"def {label}(): pass").body[0]
        assert isinstance(made, ast.FunctionDef)
        made.args, made.body = bare(arguments), body or [ast.Pass()]
        literal.functions[label] = made
    return kept(name(label), node)


def refused(known: Known, node: ast.Call) -> None:
    """What a call in a function of the project's does whose result nobody takes: it shows something, or is not run."""
    if last_name(node.func) != "print":
        raise known.stop(f"what `{text_of(node)}` does is not followed", node)


def _lambda(known: Known, function: ast.expr) -> ast.Lambda | None:
    if not isinstance(function, ast.Name):
        return None
    found = list(known.module.bindings.reaching(function))
    value = found[0].value if len(found) == 1 and found[0].kind == "assign" else None
    return value if isinstance(value, ast.Lambda) else None


def _is_docstring(s: ast.stmt) -> bool:
    return isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant)


def bare(arguments: ast.arguments) -> ast.arguments:
    """Parameters without their annotations."""
    plain = [[ast.arg(a.arg) for a in group] for group in (arguments.posonlyargs, arguments.args, arguments.kwonlyargs)]
    return ast.arguments(plain[0], plain[1], None, plain[2], arguments.kw_defaults, None, arguments.defaults)
