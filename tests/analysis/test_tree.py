"""Walking a tree: the order that the analysis' answers rest on."""

import ast
from pathlib import Path

import pytest

import shardfix
from shardfix.analysis.code.module import parse
from shardfix.analysis.code.own import own_calls
from shardfix.analysis.code.tree import calls_within, returns_of, walk

_SHARED = (ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop)


@pytest.mark.parametrize("name", ["engine.py", "config.py", "evaluation.py", "sanitizer.py", "analysis/ranks/steps.py"])
def test_what_is_walked_is_what_the_standard_library_walks_but_for_what_trees_share(name: str) -> None:
    tree = ast.parse((Path(shardfix.__file__).parent / name).read_text("utf-8"))
    assert list(walk(tree)) == [n for n in ast.walk(tree) if not isinstance(n, _SHARED)]


def test_nodes_of_every_form_are_walked() -> None:
    tree = ast.parse(
        "import a.b as c\n"
        "@d(1)\n"
        "async def f(x: int = g(), *y: h(), k=j(), **z) -> l():\n"
        "    global m\n"
        "    async with n() as o, p():\n"
        "        yield f'{q()!r:>{r()}}'\n"
        "    match s():\n"
        "        case T(1, u=v.w) | [*_, {'x': y}] if t():\n"
        "            del x[g():]\n"
        "    try:\n"
        "        x: int = not -y\n"
        "    except (E, F()) as e:\n"
        "        x += (lambda *a, b=g(): a < b)(1, *c, **d)\n"
        "    return [i async for i in j if k() and 1 < l() <= 2]\n"
    )
    assert list(walk(tree)) == [n for n in ast.walk(tree) if not isinstance(n, _SHARED)]


def test_calls_within_a_node_are_itself_and_those_inside_from_the_outside_in() -> None:
    statement = parse("train.py", "f(g(1), h.k(a())(b()))\n").tree.body[0]
    texts = [ast.unparse(call) for call in calls_within(statement)]
    assert texts == ["f(g(1), h.k(a())(b()))", "g(1)", "h.k(a())(b())", "h.k(a())", "b()", "a()"]
    assert calls_within(statement) is calls_within(statement)


def test_a_function_returns_what_it_says_itself_not_what_is_defined_in_it() -> None:
    function = parse(
        "train.py", "def f(x):\n    def g():\n        return 1\n    if x:\n        return 2\n    return\n"
    ).tree
    assert [ast.unparse(value) for value in returns_of(function.body[0])] == ["2"]


def test_own_calls_stand_by_their_places_without_those_of_what_is_defined_there() -> None:
    text = "def f():\n    a(b())\n    class C:\n        c()\n    def g():\n        d()\n    e(lambda: h())\n"
    function = parse("train.py", text).tree.body[0]
    assert [ast.unparse(call) for call in own_calls(function)] == ["a(b())", "b()", "e(lambda: h())", "h()"]
    assert own_calls(ast.parse("lambda: h()", mode="eval").body) == ()
