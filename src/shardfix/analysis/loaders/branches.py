"""Whether two places of a program can both run: two arms of one condition, or of two that ask the same, never do."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardfix.analysis.code.module import Module
from shardfix.analysis.programs.processes import leaves

Held = tuple[ast.expr, bool]  # a condition, and whether it holds


def apart(module: Module, a: ast.AST, b: ast.AST) -> bool:
    """Whether no pass through a function comes to both places: a condition that must hold at the one must not hold at
    the other, written alike of names that nothing binds anew between them."""
    module = module.home(a)
    if module.home(b) is not module or module.function(a) is not module.function(b):
        return False
    there = list(conditions(module, b))
    return any(
        holds is not other and _asks_alike(module, test, same)
        for test, holds in conditions(module, a)
        for same, other in there
    )


def conditions(module: Module, node: ast.AST) -> Iterator[Held]:
    """What must hold, or must not, where a place runs, as its function shows it: the arms that it stands in, and what
    left the function or the round of its loop before."""
    inner = node
    for outer in module.around(node):
        if isinstance(inner, ast.stmt):
            block = module.block(inner)
            for earlier in block[: block.index(inner)] if inner in block else []:
                if isinstance(earlier, ast.If) and leaves(earlier.body) and not earlier.orelse:
                    yield from _parts(earlier.test, False)
        if isinstance(outer, ast.If):
            if inner is not outer.test:
                yield from _parts(outer.test, inner in outer.body)
        elif isinstance(outer, ast.IfExp):
            if inner is not outer.test:
                yield from _parts(outer.test, inner is outer.body)
        elif isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            return
        inner = outer


def _parts(test: ast.expr, holds: bool) -> Iterator[Held]:
    """A condition by its parts: both of ``a and b`` hold where it holds, neither of ``a or b`` where it does not."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _parts(test.operand, not holds)
    elif isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) is holds:
        for value in test.values:
            yield from _parts(value, holds)
    else:
        yield test, holds


def _asks_alike(module: Module, a: ast.expr, b: ast.expr) -> bool:
    if a is b:
        return True
    if ast.dump(a) != ast.dump(b):
        return False
    read = [[n for n in ast.walk(t) if isinstance(n, (ast.Name, ast.Attribute))] for t in (a, b)]
    reaching = module.bindings.reaching
    return all(reaching(x) == reaching(y) for x, y in zip(*read, strict=True))
