"""Which files are tests of the project's code: what they do with a loader says nothing of what it is for."""

from __future__ import annotations

import ast

from shardfix.analysis.module import Module

_FOLDERS = frozenset({"test", "tests", "testing", "unittests"})
_LIBRARIES = frozenset({"pytest", "unittest"})


def is_unit_test(module: Module) -> bool:
    """Whether a file is run by a test runner: a script called ``test_net.py`` that evaluates a model has no test."""
    *folders, name = module.path.split("/")
    if name != "conftest.py" and not name.startswith("test_") and _FOLDERS.isdisjoint(folders):
        return False
    imported = {d.module.split(".")[0] for d in module.bindings.definitions if d.kind == "import"}
    if imported & _LIBRARIES:
        return True
    return any(f.name.startswith("test_") and isinstance(module.parents[f], ast.Module) for f in module.functions)
