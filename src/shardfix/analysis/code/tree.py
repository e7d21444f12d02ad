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
_LEAVES = (ast.Name, ast.Constant)  # half of all nodes, with no other node within
# Fields that hold no node, or one that is one object for all trees: a context, an operator.
_PLAIN = frozenset({"ctx", "op", "ops", "id", "attr", "arg", "kind", "type_comment", "level", "module", "simple"})


class _Inner(dict[type[ast.AST], tuple[str, ...]]):
    """Of each class of nodes the fields that hold nodes."""

    def __missing__(self, cls: type[ast.AST]) -> tuple[str, ...]:
        self[cls] = () if cls in _LEAVES else tuple(name for name in cls._fields if name not in _PLAIN)
        return self[cls]


_INNER = _Inner()


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
    for name in _INNER[node.__class__]:
        value = getattr(node, name, None)
        if value.__class__ is list:
            for item in value:
                if isinstance(item, ast.AST):
                    yield item
        elif isinstance(value, ast.AST):
            yield value


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all within it in the order of ``ast.walk``, at half its cost: without what all trees share."""
    found = [node]
    for n in found:  # grows as it is gone through
        for name in _INNER[n.__class__]:
            value = getattr(n, name, None)
            if value.__class__ is list:
                found.extend([item for item in value if isinstance(item, ast.AST)])
            elif isinstance(value, ast.AST):
                found.append(value)
        yield n


def calls_within(node: ast.AST) -> tuple[ast.Call, ...]:
    """The calls in a node, itself among them, in the order of ``ast.walk``: looked for once, and kept with the node."""
    found: tuple[ast.Call, ...] | None = getattr(node, "_calls", None)
    if found is None:
        found = tuple(n for n in walk(node) if isinstance(n, ast.Call))
        node._calls = found  # type: ignore[attr-defined]
    return found


def returns_of(function: ast.AST) -> tuple[ast.expr, ...]:
    """What a function itself returns, in the order of ``ast.walk``: looked for once, and kept with it."""
    found: tuple[ast.expr, ...] | None = getattr(function, "_returns", None)
    if found is None:
        returns = (n for n in walk(function) if isinstance(n, ast.Return))
        found = tuple(n.value for n in returns if n.value is not None and _function_of(n) is function)
        function._returns = found  # type: ignore[attr-defined]
    return found


def _function_of(node: ast.AST) -> ast.AST | None:
    return next((n for n in enclosing(node) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))), None)


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
