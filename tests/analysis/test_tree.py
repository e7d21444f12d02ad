"""Walking a tree: the order that the analysis' answers rest on."""

import ast
from pathlib import Path

import pytest

import shardfix
from shardfix.analysis.code.module import parse
from shardfix.analysis.code.tree import calls_within, walk

_SHARED = (ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop)


@pytest.mark.parametrize(
    "name", ["engine.py", "config.py", "evaluation.py", "sanitizer.py", "analysis/metrics/steps.py"]
)
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
