"""How a loop makes a list, an array or a sum longer: the forms in which that is written."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.names import last_name

_JOINS = frozenset({"cat", "concat", "concatenate", "vstack", "append"})
# What gives a tensor or a list with one row for each row of what it is given.
_ROWWISE = frozenset({"cpu", "numpy", "tolist", "detach", "argmax", "squeeze", "batch_decode", "cuda", "to", "round"})
_HOPS = 3  # names that an expression is followed back through


@dataclass(frozen=True, eq=False, slots=True)
class Joined:
    """An array and what is joined to its end along its first dimension."""

    statement: ast.stmt
    array: ast.expr
    added: ast.expr


def joined(module: Module, value: ast.expr, name: str, statement: ast.stmt) -> Joined | None:
    """``torch.cat((x, e))``, ``np.append(x, e, axis=0)`` for an array of a name."""
    if not isinstance(value, ast.Call) or last_name(value.func) not in _JOINS or not value.args:
        return None
    if not any(q.startswith(("torch.", "numpy.")) for q in module.callee(value)):
        return None
    display = value.args[0] if isinstance(value.args[0], (ast.Tuple, ast.List)) else None
    parts = list(display.elts) if display is not None else value.args[:2]
    along = value.args[1 if display is not None else 2 :]
    along = [*along, *(k.value for k in value.keywords if k.arg in ("dim", "axis"))]
    if any(not (isinstance(a, ast.Constant) and a.value in (0, None)) for a in along):
        return None
    if len(parts) != 2 or ast.unparse(parts[0]) != name:
        return None
    return Joined(statement, parts[0], parts[1])


def chosen(module: Module, value: ast.expr, name: str, statement: ast.stmt) -> Joined | None:
    """``new if x is None else torch.cat([x, new])``"""
    if not isinstance(value, ast.IfExp) or none_test(value.test) != name:
        return None
    for first, later in ((value.body, value.orelse), (value.orelse, value.body)):
        found = joined(module, later, name, statement)
        if found is not None and ast.unparse(found.added) == ast.unparse(first):
            return found
    return None


def first_or_joined(module: Module, branch: ast.If) -> tuple[list[ast.stmt], list[Joined]] | None:
    """``if preds is None: preds = new`` with ``else: preds = np.append(preds, new, axis=0)``, for several arrays too.

    Returns:
        The statements that begin the arrays, and what makes them longer.
    """
    if not none_test(branch.test) or not branch.orelse:
        return None
    begins = isinstance(branch.test, ast.Compare) and isinstance(branch.test.ops[0], ast.Is)
    first, later = (branch.body, branch.orelse) if begins else (branch.orelse, branch.body)
    starts = {ast.unparse(t.targets[0]): t.value for t in first if isinstance(t, ast.Assign)}
    ends = {ast.unparse(t.targets[0]): t for t in later if isinstance(t, ast.Assign)}
    if len(starts) != len(first) or len(ends) != len(later) or starts.keys() != ends.keys():
        return None
    found: list[Joined] = []
    for name, statement in ends.items():
        more = joined(module, statement.value, name, statement)
        if more is None or ast.unparse(more.added) != ast.unparse(starts[name]):
            return None
        found.append(more)
    return first, found


def summands(value: ast.expr, name: str) -> tuple[ast.expr, list[ast.expr]] | None:
    """``x`` and the rest of ``x + a - b``, for the sum of a name."""
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, (ast.Add, ast.Sub)):
        return None
    first, *rest = _terms(value)
    if ast.unparse(first) != name or any(name in _names(part) for part in rest):
        return None
    return first, rest


def rowwise(module: Module, statement: ast.stmt, inside: set[ast.AST]) -> bool:
    """Whether what a statement adds is a tensor, or a list as long as one: by what is done with it."""
    nodes: list[ast.AST] = list(ast.walk(statement))
    for _ in range(_HOPS):
        if any(isinstance(n, ast.Call) and last_name(n.func) in _ROWWISE for n in nodes):
            return True
        made = [d.value for n in nodes if isinstance(n, ast.Name) for d in module.bindings.reaching(n)]
        nodes = [n for value in made if value is not None and value in inside for n in ast.walk(value)]
    return False


def squeezed(module: Module, statement: ast.AST, inside: set[ast.AST]) -> ast.Call | None:
    """The ``squeeze()`` of what a statement adds, which takes every dimension of length one away, the samples' too."""
    nodes: list[ast.AST] = list(ast.walk(statement))
    for _ in range(_HOPS):
        for n in nodes:
            if isinstance(n, ast.Call) and last_name(n.func) == "squeeze":
                of_library = any(q.startswith(("torch.", "numpy.")) for q in module.callee(n))
                if len(n.args) == int(of_library) and not n.keywords:
                    return n
        made = [d.value for n in nodes if isinstance(n, ast.Name) for d in module.bindings.reaching(n)]
        nodes = [n for value in made if value is not None and value in inside for n in ast.walk(value)]
    return None


def joined_later(module: Module, target: ast.expr) -> bool:
    """Whether the pieces of a list are joined to one array anywhere."""
    made = [d for d in module.bindings.definitions if d.key == ast.unparse(target)]
    calls = [module.parents[r] for d in made for r in module.bindings.readers(d)]
    return any(isinstance(c, ast.Call) and last_name(c.func) in _JOINS | {"hstack"} for c in calls)


def none_test(test: ast.expr) -> str:
    """``x`` for ``x is None``, ``x is not None``."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (ast.Is, ast.IsNot)):
        right = test.comparators[0]
        if isinstance(right, ast.Constant) and right.value is None:
            return ast.unparse(test.left)
    return ""


def _terms(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        return [*_terms(node.left), node.right]
    return [node]


def _names(node: ast.AST) -> set[str]:
    return {ast.unparse(n) for n in ast.walk(node) if isinstance(n, (ast.Name, ast.Attribute))}


__all__ = [
    "Joined",
    "chosen",
    "first_or_joined",
    "joined",
    "joined_later",
    "none_test",
    "rowwise",
    "squeezed",
    "summands",
]
