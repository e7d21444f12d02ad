"""Functions of the project whose results decide what a loader reads: their bodies become part of the recipe."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shardfix.analysis.code.bindings import ScopeNode
from shardfix.proof.recipes.regime import assign, name
from shardfix.proof.stop import DEPTH

if TYPE_CHECKING:
    from shardfix.proof.recipes.slice import Slicer

Translate = Callable[[ast.expr], ast.expr]


@dataclass(eq=False)
class _Returned:
    """A call of a project function that runs in the recipe: for each item of its result (None: the whole) the variable
    that gets it and what each ``return`` gives."""

    function: ast.FunctionDef | ast.AsyncFunctionDef
    items: dict[int | None, tuple[str, dict[ast.Return, ast.expr]]]


@dataclass(frozen=True, eq=False)
class Functions:
    """The functions that run in a recipe. ``entered``: the one call of each that does."""

    slicer: Slicer
    inlined: dict[ast.Call, _Returned] = field(default_factory=dict)
    entered: dict[ScopeNode, ast.Call] = field(default_factory=dict)

    def returned(self, node: ast.Call, translate: Translate, depth: int, item: int | None = None) -> ast.expr | None:
        """What a call of a function of the project returns, by the statements of its body that decide it.

        None where it is not one plain function, or is another call of one that runs already: then its parameters
        would have two values.

        Args:
            item: the item of the tuple that it returns.
        """
        m = self.slicer.module
        functions = m.called_functions(node)
        if self.slicer.closed or depth > DEPTH or len(functions) != 1 or m.project_classes(node.func):
            return None
        (function,) = functions
        if isinstance(function, ast.AsyncFunctionDef) or function.decorator_list or function in self._running(node):
            return None
        if self.entered.get(function, node) is not node or function in self.slicer.scopes:
            return None
        returns = [n for n in ast.walk(function) if isinstance(n, ast.Return) and m.function(n) is function]
        yields = any(
            isinstance(n, (ast.Yield, ast.YieldFrom)) and m.function(n) is function for n in ast.walk(function)
        )
        if not returns or yields:
            return None
        self.entered[function] = node
        values: dict[ast.Return, ast.expr] = {}
        for r in returns:
            value: ast.expr = r.value or ast.Constant(None)
            if item is not None:
                if not isinstance(value, ast.Tuple) or item >= len(value.elts):
                    return None
                value = value.elts[item]
            for outer in m.around(r):
                if outer is function:
                    break
                if not isinstance(outer, (ast.If, ast.With)):
                    return None
                if isinstance(outer, ast.If) and outer not in self.slicer.tests:
                    self.slicer.tests[outer] = self.slicer.conditions.boolean(outer.test, depth + 1)
            values[r] = translate(value)
        held = self.inlined.setdefault(node, _Returned(function, {}))
        variable = self.slicer.variable(function, f"what the call in {m.location(node)} gives {item}", function.name)
        held.items[item] = (variable, values)
        return name(variable)

    def _running(self, node: ast.AST) -> list[ast.AST]:
        return [n for n in self.slicer.module.around(node) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]

    def before(self, s: ast.stmt) -> list[ast.stmt]:
        """The bodies of the functions that a statement calls."""
        found: list[ast.stmt] = []
        for made, held in self.inlined.items():
            if self.slicer.module.statement(made) is s:
                found += [*self.slicer.parameters_of(held.function), *self._returning(held.function.body, held)]
        return found

    def _returning(self, body: list[ast.stmt], held: _Returned) -> list[ast.stmt]:
        """A function's body with each ``return`` an assignment, and what follows an ``if`` that returns in its arms."""
        found: list[ast.stmt] = []
        for i, s in enumerate(body):
            rest = body[i + 1 :]
            if isinstance(s, ast.Return):
                given = [assign(variable, values[s]) for variable, values in held.items.values()]
                return [*found, *self.before(s), *given]
            returns = any(isinstance(n, ast.Return) for n in ast.walk(s))
            if isinstance(s, ast.If) and returns and s in self.slicer.tests:
                arms = [self._returning([*arm, *rest], held) for arm in (s.body, s.orelse)]
                return [*found, ast.If(self.slicer.tests[s], arms[0] or [ast.Pass()], arms[1])]
            if isinstance(s, ast.With) and returns:
                return [*found, *self._returning([*s.body, *rest], held)]
            found += self.slicer.statement(s, {}, [])
        return [*found, *(assign(variable, ast.Constant(None)) for variable, _ in held.items.values())]
