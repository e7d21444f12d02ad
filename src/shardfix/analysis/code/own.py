"""What a function or a file runs itself: the nodes of its body without those of the functions and classes in it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardfix.analysis.code.tree import children

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope's body in the order of the source, each before those within it.

    A function or class that is defined there is one node. What a lambda does stands where it is used, so that counts as
    the scope's own; a decorator and a default of the scope itself are run by the one around it, and do not.

    Args:
        scope: a function, a lambda or a file.
    """
    body = getattr(scope, "body", [])
    stack: list[ast.AST] = list(reversed(body)) if isinstance(body, list) else [body]
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, _SCOPES):
            stack.extend(reversed(list(children(node))))


def own_calls(scope: ast.AST) -> tuple[ast.Call, ...]:
    """The calls that a function's or a loop's statements run themselves, by their places: looked for once, and kept.

    Args:
        scope: what has a body of statements; of anything else there are none.
    """
    found: tuple[ast.Call, ...] | None = getattr(scope, "_own_calls", None)
    if found is None:
        nodes = own_nodes(scope) if isinstance(getattr(scope, "body", None), list) else ()
        calls = (n for n in nodes if isinstance(n, ast.Call))
        found = tuple(sorted(calls, key=lambda c: (c.lineno, c.col_offset)))
        scope._own_calls = found  # type: ignore[attr-defined]
    return found


__all__ = ["own_calls", "own_nodes"]
