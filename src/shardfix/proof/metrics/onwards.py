"""What is run after a loop: the rest of its function, and what the callers in the same file make of its result."""

from __future__ import annotations

import ast

from shardfix.analysis.code.names import last_name
from shardfix.proof.metrics.granted import following
from shardfix.proof.metrics.loop import Loop
from shardfix.proof.recipes.slice import assign

_CALLERS = 3  # callers of callers that are followed


def run_on(loop: Loop, begin: ast.stmt, run: list[ast.stmt], returned: str) -> ast.expr | None:
    """Add what follows a statement to what is run; what its function returns, bound to the name, if it does."""
    for block, at in following(loop.module, begin):
        for statement in block[at + 1 :]:
            if _begins_anew(loop, statement):
                return None
            value = _returned(loop, statement, run, returned)
            run += loop.after.statement(statement)
            if isinstance(statement, ast.Return):
                return value
    return None


def _returned(loop: Loop, s: ast.stmt, run: list[ast.stmt], variable: str) -> ast.expr | None:
    if not isinstance(s, ast.Return) or s.value is None or not loop.known.follows(s.value):
        return None
    run.append(assign(variable, loop.outside.value(s.value)))
    return s.value


def run_callers(loop: Loop, run: list[ast.stmt], value: ast.expr | None) -> tuple[str, ...]:
    """Add what the callers in the same file make of what is returned; what of it was not run."""
    returned = "RETURNED"
    site: ast.AST = loop.node
    for depth in range(_CALLERS):
        function = loop.module.scope(site)
        if value is None or not isinstance(function, ast.FunctionDef):
            return ()
        calls = list(loop.module.callers(function))
        own = [c for c in calls if loop.module.home(c) is loop.module and loop.module.scope(c) is not function]
        texts = {c: loop.elsewhere(loop.module.scope(c)) for c in own}
        given = [
            c for c in own if any(ast.unparse(a) in texts[c][0] for a in [*c.args, *(k.value for k in c.keywords)])
        ]
        own = given or own
        if not own:
            return (f"what calls `{function.name}` is not run",)
        drifts, on_first = loop.known.drifts(value), loop.known.is_of_first(value)
        following: list[ast.expr] = []
        for c in own[:_CALLERS]:
            text = ast.unparse(c)
            loop.known.tracked, loop.known.meters, loop.known.classes = {text: returned}, {}, {}
            loop.known.weighted = {text} if drifts else set()
            loop.known.of_first = {text} if on_first else set()
            loop.after.unchanged = set()
            loop.known.loaders, loop.known.dataset = texts[c]
            statement = loop.module.statement(c)
            variable = f"RETURNED{depth}"
            made = _returned(loop, statement, run, variable)
            run += loop.after.statement(statement)
            if not isinstance(statement, ast.Return):
                made = run_on(loop, statement, run, variable)
            following += [made] if made is not None else []
        if len(own) > 1 or not following:
            return (f"what calls `{function.name}` elsewhere is not run",) if len(own) < len(calls) else ()
        site, value, returned = own[0], following[0], variable
    return ()


def _begins_anew(loop: Loop, statement: ast.stmt) -> bool:
    """Whether a statement gives the loader's name another value, or goes over it again: another evaluation."""
    for n in ast.walk(statement):
        if isinstance(n, (ast.Name, ast.Attribute)) and isinstance(n.ctx, ast.Store):
            if ast.unparse(n) in loop.known.loaders:
                return True
        if isinstance(n, ast.For) and any(
            ast.unparse(i) in loop.known.loaders for i in ast.walk(n.iter) if _is_named(i)
        ):
            return not any(isinstance(i, ast.Call) and last_name(i.func) == "len" for i in ast.walk(n.iter))
    return False


def _is_named(node: ast.AST) -> bool:
    return isinstance(node, (ast.Name, ast.Attribute))
