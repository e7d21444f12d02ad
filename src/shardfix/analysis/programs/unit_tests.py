"""Which files are tests of the project's code: what they do with a loader says nothing of what it is for."""

from __future__ import annotations

import ast
from dataclasses import replace

from shardfix.analysis.code.module import Module
from shardfix.analysis.loaders.uses import Flow
from shardfix.analysis.programs.pieces import asks_for_main

_FOLDERS = frozenset({"test", "tests", "testing", "unittests"})
_SUITES = frozenset({"tests", "test", "testing"})
_LIBRARIES = frozenset({"pytest", "unittest"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def is_test_path(path: str) -> bool:
    """Whether a file belongs to a test suite, as far as its name or folder tells."""
    *folders, name = path.split("/")
    return name.startswith("test_") or name.endswith("_test.py") or not _SUITES.isdisjoint(folders)


def of_a_suite(module: Module) -> bool:
    """Whether a file belongs to a test suite, by its folder or name: not one that is run by itself and has no test."""
    if not is_test_path(module.path):
        return False
    runs = any(isinstance(s, ast.If) and asks_for_main(s.test) for s in module.tree.body)
    return not runs or not _SUITES.isdisjoint(module.path.split("/")[:-1]) or is_unit_test(module)


def in_programs(module: Module, flow: Flow, reached: bool) -> Flow:
    """What becomes of a value of a file in programs: where one reads it, what tests do with it says nothing.

    Args:
        reached: whether a program makes the value, which may read it where that is not seen.
    """
    if of_a_suite(module):
        return flow
    suites: dict[Module, bool] = {}
    kept = []
    for use in flow.uses:
        home = module.home(use.node)
        if home not in suites:
            suites[home] = home is not module and of_a_suite(home)
        if not suites[home]:
            kept.append(use)
    if len(kept) == len(flow.uses) or not (reached or any(use.kind in ("iterate", "prepare") for use in kept)):
        return flow
    return replace(flow, uses=tuple(kept))


def is_unit_test(module: Module) -> bool:
    """Whether a file is run by a test runner: a script called ``test_net.py`` that evaluates a model has no test."""
    *folders, name = module.path.split("/")
    if _FOLDERS.isdisjoint(folders) and not (
        name == "conftest.py" or name.startswith("test_") or name.endswith("_test.py")
    ):
        return False
    imported = {d.module.split(".")[0] for d in module.bindings.definitions if d.kind == "import"}
    if imported & _LIBRARIES:
        return True
    return any(f.name.startswith("test_") and _is_run(module.parents[f]) for f in module.functions)


def _is_run(outer: ast.AST) -> bool:
    """Whether a runner calls the test functions that stand there."""
    if isinstance(outer, ast.ClassDef):
        return any(ast.unparse(base).endswith("TestCase") for base in outer.bases)
    return isinstance(outer, ast.Module)


def is_test(module: Module, function: ast.AST | None) -> bool:
    """Whether a function is one that a test runner calls: there ``test`` is the runner's word and says no role."""
    if not isinstance(function, _FUNCTIONS) or not function.name.startswith("test") or not is_unit_test(module):
        return False
    outer = module.parents[function]
    if not isinstance(outer, ast.ClassDef):
        return True
    bases = [ast.unparse(base) for base in outer.bases]
    return "Test" in outer.name or any(base.endswith("TestCase") for base in bases)


__all__ = ["in_programs", "is_test", "is_test_path", "is_unit_test", "of_a_suite"]
