"""Where a node of a syntax tree stands: what is around it, and the file it belongs to.

Each node of a parsed file holds a reference to the node around it, and the root to its file. So a question about a node
can be answered whichever file it is from, and a value can be followed from one file into another.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from shardfix.analysis.code.module import Module

_T = TypeVar("_T")
_SHARED = (ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop)  # one object for all trees
_LEAVES = (ast.Name, ast.Constant)  # half of all nodes, with no other node within


class Parents:
    """The node directly around each node, in every parsed file; a root, or a node of no file, has none."""

    def __getitem__(self, node: ast.AST) -> ast.AST:
        up: ast.AST | None = getattr(node, "_up", None)
        if up is None:
            raise KeyError(node)
        return up

    def get(self, node: ast.AST) -> ast.AST | None:
        """The node around a node, or None."""
        return getattr(node, "_up", None)


def children(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes directly within a node, without those that are one object for all trees."""
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, list):
            for item in value:
                if isinstance(item, ast.AST) and not isinstance(item, _SHARED):
                    yield item
        elif isinstance(value, ast.AST) and not isinstance(value, _SHARED):
            yield value


def plant(tree: ast.Module) -> Iterator[ast.AST]:
    """Tell every node of a tree what is around it, and give the nodes, each before those within it."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if not isinstance(node, _LEAVES):
            for child in children(node):
                child._up = node  # type: ignore[attr-defined]
                stack.append(child)
        yield node


def enclosing(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes around a node, from the inside out."""
    current: ast.AST | None = getattr(node, "_up", None)
    while current is not None:
        yield current
        current = getattr(current, "_up", None)


def settle(tree: ast.Module, module: Module) -> None:
    """Tell a tree which file it is."""
    tree._home = module  # type: ignore[attr-defined]


def home(node: ast.AST, default: _T) -> Module | _T:
    """The file that a node belongs to; ``default`` for a node that was made up."""
    current = node
    while True:
        up = getattr(current, "_up", None)
        if up is None:
            return getattr(current, "_home", default)
        current = up
