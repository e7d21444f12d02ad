"""What runs the ranks is run by the project's own interpreter, which may be as old as Python 3.8 and has only torch."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shardfix.proof.running.launch import WORKER

ENTRIES = ("jobs", "calling")  # as launch and factory start them
LIBRARIES = {"torch", "accelerate"}  # imported inside the function that needs them


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The dots and the name of each module that is imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield node.level, node.module or ""
            if not node.module:
                yield from ((node.level, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((0, alias.name) for alias in node.names)


def modules() -> dict[str, Path]:
    """The files that an interpreter reads when it is started with ``worker.py``, by name."""
    found: dict[str, Path] = {"worker": WORKER}
    waiting = [WORKER.with_name(f"{name}.py") for name in ENTRIES]
    while waiting:
        path = waiting.pop()
        package = path.parent
        if not path.exists() or path in found.values():
            continue
        found[f"{package.name}.{path.stem}"] = path
        for level, name in imported(ast.parse(path.read_text(encoding="utf-8"))):
            if level:
                base = package.parents[level - 2] if level > 1 else package
                inner = base.joinpath(*name.split(".")) if name else base
                waiting += [inner.with_suffix(".py"), inner / "__init__.py"]
    return found


MODULES = modules()


@pytest.mark.parametrize("name", MODULES)
def test_it_is_written_in_python_3_8(name: str) -> None:
    tree = ast.parse(MODULES[name].read_text(encoding="utf-8"), feature_version=(3, 8))
    annotations = {
        id(inner)
        for node in ast.walk(tree)
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if part is not None
        for inner in ast.walk(part)
    }
    newer = {"dict", "list", "set", "tuple", "type", "frozenset"}  # which Python 3.8 can't subscript when it runs them
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "collections.abc":
            newer |= {alias.asname or alias.name for alias in node.names}
    assert [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in newer
        if id(node) not in annotations
    ] == []
    assert not any(
        isinstance(node, ast.keyword) and node.arg in ("slots", "kw_only", "strict") for node in ast.walk(tree)
    )


@pytest.mark.parametrize("name", MODULES)
def test_it_imports_nothing_that_a_bare_interpreter_lacks(name: str) -> None:
    tree = ast.parse(MODULES[name].read_text(encoding="utf-8"))
    others = {module.split(".")[0] for level, module in imported(tree) if not level} - sys.stdlib_module_names
    assert others <= LIBRARIES


@pytest.mark.parametrize("entry", ENTRIES)
def test_it_is_loaded_where_shardfix_and_its_libraries_are_not_installed(entry: str) -> None:
    command = [sys.executable, "-I", "-S", str(WORKER), entry, "fd:1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"timeout": 60}\n')
        process.stdin.flush()
        assert b"can't import torch" in process.stdout.read()  # before its standard input ends, which ends it
        process.wait(60)
    assert process.returncode == 2
