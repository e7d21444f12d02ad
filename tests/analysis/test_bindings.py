"""A use of a name sees every assignment that may be its value, and no other."""

from __future__ import annotations

import ast

import pytest
from loaders import expression, module, uses


def lines_reaching(text: str, name: str = "x") -> list[int]:
    """The lines of the definitions that reach the last load of a name (or of ``base.attribute``)."""
    found = module(text)
    use = expression(found, name)
    return sorted(d.node.lineno for d in found.bindings.reaching(use))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param("x = 1\nx = 2\nprint(x)\n", [2], id="the later of two"),
        pytest.param("x = 1\nif a:\n    x = 2\nprint(x)\n", [1, 3], id="if without else keeps what was before"),
        pytest.param("x = 1\nif a:\n    x = 2\nelse:\n    x = 3\nprint(x)\n", [3, 5], id="if and else"),
        pytest.param(
            "if a:\n    x = 1\nelif b:\n    x = 2\nelse:\n    x = 3\nprint(x)\n", [2, 4, 6], id="an elif chain"
        ),
        pytest.param(
            "x = 1\nif a:\n    x = 2\n    assert False, 'no'\nprint(x)\n", [1], id="a branch that asserts nothing true"
        ),
        pytest.param("x = 1\nif a:\n    x = 2\n    assert a\nprint(x)\n", [1, 3], id="a branch that asserts"),
        pytest.param(
            "x = 1\nif a:\n    x = 2\n    raise SystemExit\nprint(x)\n", [1], id="a branch that raises does not go on"
        ),
        pytest.param("x = 1\nfor i in y:\n    x = 2\nprint(x)\n", [1, 3], id="a loop may not run"),
        pytest.param("x = 1\nfor i in y:\n    print(x)\n    x = 2\n", [1, 4], id="a loop's end reaches its start"),
        pytest.param("x = 1\nwhile True:\n    x = 2\n    break\nprint(x)\n", [3], id="an endless loop ends by break"),
        pytest.param(
            "x = 1\nfor i in y:\n    if a:\n        x = 2\n        break\n    x = 3\nprint(x)\n",
            [1, 4, 6],
            id="break leaves with its own value",
        ),
        pytest.param(
            "for i in y:\n    if a:\n        x = 1\n        continue\n    x = 2\nprint(x)\n",
            [3, 5],
            id="continue leads on",
        ),
        pytest.param(
            "x = 1\nfor i in y:\n    x = 2\n    break\nelse:\n    x = 3\nprint(x)\n",
            [3, 6],
            id="else without break",
        ),
        pytest.param(
            "for i in y:\n    x = 1\n    break\nelse:\n    raise E\nprint(x)\n",
            [2],
            id="a search that must find",
        ),
        pytest.param("for x in y:\n    print(x)\n", [1], id="the loop's target"),
        pytest.param("try:\n    x = 1\nexcept E:\n    x = 2\nprint(x)\n", [2, 4], id="try or handler"),
        pytest.param(
            "x = 1\ntry:\n    x = 2\nexcept E:\n    pass\nprint(x)\n",
            [1, 3],
            id="the try may fail at once",
        ),
        pytest.param(
            "try:\n    x = 1\nexcept E:\n    x = 2\nelse:\n    x = 3\nprint(x)\n", [4, 6], id="else follows the try"
        ),
        pytest.param("try:\n    x = 1\nfinally:\n    x = 2\nprint(x)\n", [4], id="finally has the last word"),
        pytest.param("with open(p) as x:\n    print(x)\n", [1], id="with"),
        pytest.param("with a:\n    x = 1\nprint(x)\n", [2], id="a with block runs"),
        pytest.param(
            "match a:\n    case 1:\n        x = 1\n    case 2:\n        x = 2\n    case _:\n        x = 3\nprint(x)\n",
            [3, 5, 7],
            id="every case",
        ),
        pytest.param("match a:\n    case [x, *_]:\n        print(x)\n", [2], id="a captured name"),
        pytest.param("x = 1\ny = [x for x in z]\nprint(x)\n", [1], id="a comprehension keeps its target to itself"),
        pytest.param("x = 1\ny = [x for x in z]\n", [2], id="a comprehension's own target"),
        pytest.param("x = 1\nif (x := f()):\n    print(x)\n", [2], id="walrus"),
        pytest.param("x = 1\ndel x\nx = 2\nprint(x)\n", [3], id="del"),
        pytest.param("x = 1\ndel x\nprint(x)\n", [], id="nothing after del"),
        pytest.param("x = [1]\nx += [2]\nprint(x)\n", [2], id="augmented assignment"),
        pytest.param("x = 1\ndef f():\n    print(x)\n", [1], id="a free name sees the module"),
        pytest.param("def f():\n    print(x)\nx = 1\nx = 2\n", [4], id="a free name sees how the module ends"),
        pytest.param("x = 1\ndef f(x):\n    print(x)\n", [2], id="a parameter shadows the module"),
        pytest.param("x = 1\ndef f():\n    x = 2\nprint(x)\n", [1], id="a local stays local"),
        pytest.param("x = 1\ndef f():\n    global x\n    x = 2\ndef g():\n    print(x)\n", [1, 4], id="global"),
        pytest.param("def f():\n    x = 1\n    def g():\n        return x\n", [2], id="a closure"),
        pytest.param("x = 1\nclass C:\n    x = 2\n    def f(self):\n        return x\n", [1], id="not a class body"),
        pytest.param("x = 1\nf = lambda x: x\n", [2], id="a lambda's parameter"),
        pytest.param("x, y = f()\nprint(x)\n", [1], id="unpacking"),
    ],
)
def test_definitions_that_reach_the_last_use(text: str, lines: list[int]) -> None:
    assert lines_reaching(text) == lines


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param("def f(self):\n    self.a = 1\n    self.a = 2\n    return self.a\n", [3], id="the later of two"),
        pytest.param(
            "def f(self):\n    self.a = 1\n    if b:\n        self.a = 2\n    return self.a\n", [2, 4], id="branches"
        ),
        pytest.param(
            "def f(self):\n    self.a = 1\n    self = g()\n    return self.a\n", [], id="a new base is a new attribute"
        ),
    ],
)
def test_attributes_of_a_name_are_followed_like_names(text: str, lines: list[int]) -> None:
    assert lines_reaching(text, "self.a") == lines


def test_unpacking_a_tuple_that_is_written_out_gives_each_name_its_own_value() -> None:
    found = module("x, y = 1, 2\nprint(x, y)\n")

    def value(name: str) -> object:
        (d,) = found.bindings.reaching(uses(found, name)[-1])
        assert d.index is None
        assert isinstance(d.value, ast.Constant)
        return d.value.value

    assert (value("x"), value("y")) == (1, 2)


def test_unpacking_a_call_gives_each_name_its_position() -> None:
    found = module("x, y = f()\nprint(y)\n")
    (d,) = found.bindings.reaching(uses(found, "y")[-1])
    assert d.index == 1


def test_readers_of_a_definition() -> None:
    found = module("x = 1\nprint(x)\nx = 2\nprint(x)\nprint(x)\n")
    (first,) = found.bindings.reaching(uses(found, "x")[0])
    (second,) = found.bindings.reaching(uses(found, "x")[1])
    assert [r.lineno for r in found.bindings.readers(first)] == [2]
    assert [r.lineno for r in found.bindings.readers(second)] == [4, 5]


def test_unreachable_code_is_answered_for_and_leads_nowhere() -> None:
    assert lines_reaching("def f():\n    return 1\n    x = 2\n    print(x)\n") == [3]
    assert lines_reaching("x = 1\nfor i in y:\n    continue\n    x = 2\n    break\nprint(x)\n") == [1]


def test_a_long_elif_chain_needs_no_recursion() -> None:
    chain = "if a:\n    x = 0\n" + "".join(f"elif b == {n}:\n    x = {n}\n" for n in range(300)) + "print(x)\n"
    assert len(lines_reaching(chain)) == 301


def test_what_a_name_may_be_at_a_place_is_told_without_its_being_read_there() -> None:
    found = module("def f(x):\n    y = 1\n    for i in x:\n        g()\n        y = 2\n    h(lambda q: k())\n")
    calls = {getattr(c.func, "id", ""): c for c in found.calls}

    def lines(call: str) -> dict[str, list[int]]:
        here = found.environment(calls[call]) or {}
        return {name: sorted(getattr(d.node, "lineno", 0) for d in definitions) for name, definitions in here.items()}

    assert lines("g") == {"x": [1], "y": [2, 5], "i": [3]}
    assert lines("k") == {"q": [6]}
