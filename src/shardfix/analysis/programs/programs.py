"""Which programs of a project run a piece of code: entry modules, and what the code that they reach refers to."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from shardfix.analysis.code.module import Module
from shardfix.analysis.code.project import Project
from shardfix.analysis.model import Launch
from shardfix.analysis.programs.pieces import Pieces, asks_for_main
from shardfix.analysis.programs.spreading import Spread
from shardfix.analysis.programs.unit_tests import of_a_suite


@dataclass(frozen=True, slots=True)
class Program:
    """An entry module, with the lines outside of Python that start it."""

    path: str
    kind: Literal["script", "test"]
    launches: tuple[Launch, ...] = ()


@dataclass(eq=False)
class Programs:
    """The programs of a project, and for each piece of code the set of those that reach it (as bits)."""

    programs: tuple[Program, ...]
    _of_node: dict[ast.AST, int]
    _bodies: dict[str, int]
    _masks: list[int]
    _class_around: dict[int, int]
    _uncalled: frozenset[int] = frozenset()
    tests: int = 0

    def reaching(self, module: Module, node: ast.AST) -> int:
        """The programs, as bits by their place in ``programs``, that run the code around a node."""
        return self._masks[self._unit(module, node)]

    def is_uncalled(self, module: Module, node: ast.AST) -> bool:
        """Whether a node stands in a method that nothing is seen to call: all programs that use its class reach it."""
        return self._unit(module, node) in self._uncalled

    def same_code(self, module: Module, a: ast.AST, b: ast.AST) -> bool:
        """Whether two nodes of one file stand in the same function, class or top-level code."""
        units = [self._unit(module, node) for node in (a, b)]
        one, other = (self._class_around.get(unit, unit) for unit in units)
        return one == other

    def chosen(self, mask: int) -> Iterator[Program]:
        """The programs whose bits are set, in the order of their paths."""
        while mask:
            lowest = mask & -mask
            yield self.programs[lowest.bit_length() - 1]
            mask ^= lowest

    def _unit(self, module: Module, node: ast.AST) -> int:
        for outer in (node, *module.around(node)):
            found = self._of_node.get(outer)
            if found is not None:
                return found
        return self._bodies[module.path]


def find_programs(project: Project, launches: Sequence[Launch] = ()) -> Programs:
    """The programs of a project and what each reaches.

    Each file is walked once; what code refers to, by a name or an attribute that resolves to a function or class of the
    project, it reaches, and an import reaches what the file runs when it is imported. A method is reached where its
    class and its name are (see ``by_name``); one that nothing is seen to call, by all that use its class, so that what
    it refers to is not taken for another program's alone.
    """
    graph = Pieces(project)
    programs = tuple(_entries(project, launches))
    starts = [_starts(graph, project.modules[p.path], p) for p in programs]
    tests = sum(1 << i for i, p in enumerate(programs) if p.kind == "test")
    spread = Spread([u.leads_to for u in graph.units], graph.both, starts)
    uncalled = frozenset(m for m in graph.class_around if not spread.reaching(m) & ~tests)
    spread.add([(m, spread.reaching(graph.class_around[m])) for m in uncalled])
    masks = [spread.reaching(index) for index in range(len(graph.units))]
    return Programs(programs, graph.of_node, graph.bodies, masks, graph.class_around, uncalled, tests)


# -- entries ---------------------------------------------------------------------------------------------------------


def _entries(project: Project, launches: Sequence[Launch]) -> Iterator[Program]:
    named: dict[str, list[Launch]] = {}
    for launch in launches:
        named.setdefault(launch.path, []).append(launch)
    for path, module in sorted(project.modules.items()):
        mine = tuple(named.get(path, ()))
        runs = _main_guard(module) is not None or path.endswith("/__main__.py")
        if mine or runs or (not project.importers.get(path) and _acts(module)):
            yield Program(path, "test" if of_a_suite(module) and not any(m.several for m in mine) else "script", mine)
        elif of_a_suite(module):
            yield Program(path, "test")


def _main_guard(module: Module) -> ast.If | None:
    for statement in module.tree.body:
        if isinstance(statement, ast.If) and asks_for_main(statement.test):
            return statement
    return None


def _acts(module: Module) -> bool:
    """Whether a file does something when it is run: a call or loop at its top level that is no definition's part."""
    todo: list[ast.stmt] = list(module.tree.body)
    while todo:
        statement = todo.pop()
        if isinstance(statement, ast.Expr) and isinstance(statement.value, (ast.Call, ast.Await)):
            return True
        if isinstance(statement, (ast.For, ast.While, ast.With)):
            return True
        if isinstance(statement, (ast.If, ast.Try)):
            todo += statement.body + statement.orelse
    return False


def _starts(graph: Pieces, module: Module, program: Program) -> set[int]:
    """The pieces of code with which a program begins."""
    found = {graph.bodies[module.path]}
    if program.kind == "test":
        found |= set(graph.defined[module.path].values())
        found |= {m for unit in list(found) for cls in graph.classes.get(unit, ()) for m in cls.methods}
    if module.path in graph.mains:
        found.add(graph.mains[module.path])
    for launch in program.launches:
        unit = graph.defined[module.path].get(launch.function)
        if unit is not None:
            found.add(unit)
    return found


__all__ = ["Program", "Programs", "find_programs"]
