"""Conditions that let one process in, as they stand in a function, and how they are written without the rank."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from shardfix.analysis.code.module import Module
from shardfix.analysis.loops.dividing import close
from shardfix.analysis.loops.effects import HERE
from shardfix.analysis.programs.processes import (
    distributed_test,
    every_guard,
    is_main_test,
    is_not_main_test,
    is_rank,
    leaves,
)

_Functions = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, eq=False, slots=True)
class Guard:
    """A condition that lets one process in: an ``if``, or an early ``return`` of the others.

    Args:
        tests: the parts of the condition that ask for the rank.
        rest: what else is asked, as source; empty if nothing is.
        alone: the condition as source, for what stays under it.
        others: the names to which the other ranks give a value of their own, in the other branch.
    """

    module: Module
    statement: ast.If
    early: bool
    tests: tuple[ast.expr, ...]
    rest: str
    alone: str
    others: frozenset[str] = frozenset()


def guards_at(module: Module, node: ast.AST) -> list[Guard] | None:
    """The conditions of one function that let one process come to a place; None where only a run of one process does.

    Raises:
        Closed: one that can't be taken away.
    """
    found: list[Guard] = []
    previous: ast.AST = node
    for outer in module.around(node):
        if isinstance(previous, ast.stmt):
            block = module.block(previous)
            for earlier in block[: block.index(previous)] if previous in block else []:
                if isinstance(earlier, ast.If) and leaves(earlier.body):
                    if distributed_test(earlier.test) is True:
                        return None
                    if is_not_main_test(_meaning(module, earlier.test)):
                        found.append(_early(module, earlier))
        if isinstance(outer, ast.If):
            tests = conjuncts(outer.test)
            main = [t for t in tests if _asks_for_one(module, t)]
            if previous in outer.body:
                if any(distributed_test(t) is False for t in tests):
                    return None
                if main:
                    found.append(_guard(module, outer, tests, main))
                elif every_guard(module, previous, HERE)[0] is outer.test:
                    close(outer.test, "the condition on the rank is one that is not taken apart")
            elif previous is not outer.test:
                if distributed_test(outer.test) is True:
                    return None
                if main or is_not_main_test(_meaning(module, outer.test)):
                    close(outer, "it stands in the other branch of a condition on the rank")
        elif isinstance(outer, (ast.IfExp, ast.BoolOp)) and previous is not getattr(outer, "test", None):
            parts = [outer.test] if isinstance(outer, ast.IfExp) else outer.values
            if any(is_main_test(p) or is_not_main_test(p) for p in parts):
                close(outer, "the condition on the rank stands inside of an expression")
        if isinstance(outer, (*_Functions, ast.Lambda, ast.Module)):
            break
        previous = outer
    if len(found) > 1:
        close(found[0].statement, "it stands in two conditions on the rank")
    return found


def _guard(module: Module, statement: ast.If, tests: list[ast.expr], main: list[ast.expr]) -> Guard:
    others = _only_named(statement)
    if module.source.source(statement).startswith("elif"):
        close(statement, "the condition on the rank is an `elif`")
    first = tests.index(main[0])
    for before in tests[:first]:
        if any(isinstance(n, ast.NamedExpr) for n in ast.walk(before)):
            close(before, "the condition sets a name")
    rest = [_source(module, t, alone=len(tests) - len(main) == 1) for t in tests if t not in main]
    alone = [_source(module, t, alone=len(main) == 1) for t in main]
    if rest and others:
        close(statement.orelse[0], "it is what the other ranks do, and the main process at other times")
    return Guard(module, statement, False, tuple(main), " and ".join(rest), " and ".join(alone), others)


def _only_named(statement: ast.If) -> frozenset[str]:
    """The names to which the other branch gives constants, where it does nothing else: ``else: acc = None``.

    Raises:
        Closed: it does more.
    """
    names: set[str] = set()
    for s in statement.orelse:
        if isinstance(s, ast.Pass):
            continue
        targets = [t.id for t in s.targets if isinstance(t, ast.Name)] if isinstance(s, ast.Assign) else []
        if not isinstance(s, ast.Assign) or len(targets) < len(s.targets) or not _is_constant(s.value):
            close(s, "it is what the other ranks do while the main process evaluates")
        names.update(targets)
    return frozenset(names)


def _is_constant(value: ast.expr) -> bool:
    kinds = (ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.UnaryOp, ast.USub, ast.Load)
    return all(isinstance(n, kinds) for n in ast.walk(value))


def _early(module: Module, statement: ast.If) -> Guard:
    last = statement.body[-1]
    if statement.orelse or len(statement.body) > 1 or not isinstance(last, (ast.Return, ast.Continue)):
        close(statement.body[0], "the other ranks do this while the main process evaluates")
    value = last.value if isinstance(last, ast.Return) else None
    if value is not None and not isinstance(value, ast.Constant):
        close(last, "the other ranks return something else")
    return Guard(module, statement, True, (statement.test,), "", turned(module, statement.test))


def region(guard: Guard) -> list[ast.stmt]:
    """The statements that one process alone does because of a condition."""
    block = guard.module.block(guard.statement)
    behind = block[block.index(guard.statement) + 1 :]
    if guard.early:
        return behind
    body = guard.statement.body
    left = next((s for s in body if isinstance(s, ast.Return)), None)
    if left is not None and behind:
        close(left, "what follows is done by the other ranks only")
    return body


def conjuncts(test: ast.expr) -> list[ast.expr]:
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return [c for v in test.values for c in conjuncts(v)]
    return [test]


def _asks_for_one(module: Module, test: ast.expr) -> bool:
    meant = _meaning(module, test)
    if is_main_test(meant):
        return True
    return isinstance(meant, ast.UnaryOp) and isinstance(meant.op, ast.Not) and is_not_main_test(meant.operand)


def _meaning(module: Module, test: ast.expr) -> ast.expr:
    """What a condition's name stands for: ``master`` for ``rank == 0`` after ``master = rank == 0``."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _meaning(module, test.operand)
        return test if inner is test.operand else ast.UnaryOp(ast.Not(), inner)
    found = list(module.bindings.reaching(test)) if isinstance(test, ast.Name) else []
    if len(found) == 1 and found[0].kind == "assign" and found[0].index is None and found[0].value is not None:
        value = found[0].value
        asks = is_main_test(value) or is_not_main_test(value)
        return value if isinstance(value, (ast.Compare, ast.BoolOp)) or (asks and not is_rank(test)) else test
    return test


def _source(module: Module, test: ast.expr, *, alone: bool) -> str:
    text = module.source.source(test)
    if "\n" in text:
        text = ast.unparse(test)
    return f"({text})" if isinstance(test, (ast.BoolOp, ast.IfExp, ast.Lambda)) and not alone else text


def turned(module: Module, test: ast.expr) -> str:
    """The opposite of a condition on the rank, as source."""
    text = " ".join(module.source.source(test).split())
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return " ".join(module.source.source(test.operand).split())
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        left, right = (" ".join(module.source.source(n).split()) for n in (test.left, test.comparators[0]))
        word = _OPPOSITE.get(type(test.ops[0]))
        if word is not None:
            return f"{left} {word} {right}"
    if isinstance(test, (ast.Name, ast.Attribute)) and not is_main_test(test):
        return f"{text} == 0"
    return f"not {text}" if isinstance(test, (ast.Name, ast.Attribute, ast.Call)) else f"not ({text})"


_OPPOSITE: dict[type, str] = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Gt: "<=",
    ast.LtE: ">",
}


__all__ = ["Guard", "conjuncts", "guards_at", "region", "turned"]
