"""What a handler of a way catches, and whether all ranks come to it or none does."""

from __future__ import annotations

import ast
import re

from shardfix.analysis.code.module import Module
from shardfix.analysis.ranks.steps import Step


def fails_everywhere(module: Module, step: Step) -> bool:
    """Whether an exception is caught of an import that all ranks fail in or none does."""
    outer, caught = caught_by(module, step)
    body: list[ast.stmt] = getattr(outer, "body", [])
    plain = bool(body) and all(isinstance(s, (ast.Import, ast.ImportFrom)) or _is_constant(s) for s in body)
    return plain and bool(caught) and caught <= {"ImportError", "ModuleNotFoundError", "Exception", "AttributeError"}


def caught_by(module: Module, step: Step) -> tuple[ast.AST | None, set[str]]:
    """The ``try`` of a handler, and the names of what it catches."""
    handler = step.node
    if not isinstance(handler, ast.ExceptHandler) or handler.type is None:
        return None, set()
    return module.parents.get(handler), set(re.findall(r"\w+", ast.unparse(handler.type)))


def _is_constant(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)
