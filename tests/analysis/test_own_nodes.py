"""The nodes of a scope's own come in the source's order, with what lambdas do, without what functions in it do."""

from __future__ import annotations

import ast

import pytest

from shardfix.analysis.code.own import own_nodes


def names(scope: ast.AST) -> list[str]:
    return [n.id for n in own_nodes(scope) if isinstance(n, ast.Name)]


SOURCE = """\
@a
def outer(b=c):
    d = e(f)
    for g in h:
        i(lambda j=k: l)

    @m
    def inner(n=o):
        return p

    class Q:
        r = s

    return t
"""


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(SOURCE, "d e f g h i k l t", id="a function"),
        pytest.param("x = lambda y=z: [u for v in w]", "u v w", id="a lambda"),
    ],
)
def test_names_in_order(source: str, expected: str) -> None:
    statement = ast.parse(source).body[0]
    scope = statement.value if isinstance(statement, ast.Assign) else statement
    assert names(scope) == expected.split()


def test_a_file_has_what_stands_outside_of_functions_and_they_are_one_node_each() -> None:
    tree = ast.parse("a\n" + SOURCE + "u\n")
    assert names(tree) == ["a", "u"]
    assert [type(n).__name__ for n in own_nodes(tree) if isinstance(n, ast.stmt)] == ["Expr", "FunctionDef", "Expr"]


def test_deep_code_ends_no_walk() -> None:
    scope = ast.Module([ast.Expr(ast.Name("x", ast.Load()))], [])
    for _ in range(5000):
        scope = ast.Module([ast.If(ast.Constant(True), scope.body, [])], [])
    assert names(scope) == ["x"]
