"""The gates: each stops the one thing it is there for, whatever made the edited text."""

from __future__ import annotations

import pytest

from shardfix.rewrite.applier import Applied
from shardfix.rewrite.edits import Span
from shardfix.rewrite.gates import GateError, check
from shardfix.rewrite.patches import Patch, splice


def edited(text: str, old: str, new: str) -> Applied:
    start = text.index(old)
    patches = (Patch(Span(start, start + len(old)), new),)
    return Applied(splice(text, patches), patches)


@pytest.mark.parametrize(
    ("text", "old", "new", "gate"),
    [
        pytest.param("x = f(1)\n", "f(1)", "f(", "parses", id="a bracket is missing"),
        pytest.param("x = 1\ny = x\n", "x = 1\n", "", "names", id="the only binding went"),
        pytest.param("x = 1\n", "1", "dist.rank", "names", id="a new name that nothing binds"),
        pytest.param("def f():\n    s = 1\n    return s\n", "s = 1", "pass", "names", id="a local's only binding went"),
        pytest.param("def f():\n    import k\n\n\nx = 1\n", "1", "k", "names", id="bound in another scope only"),
        pytest.param("x = 1  # why\n", "1  # why", "1", "comments", id="a comment went"),
        pytest.param("# a\nx = 1  # a\n", "  # a", "", "comments", id="one of two equal comments went"),
        pytest.param("x = 1\n", "1\n", "1", "untouched", id="the last newline went"),
        pytest.param("x = 1\r\n", "1", "1\n", "untouched", id="a newline the file does not use"),
    ],
)
def test_a_gate_closes(text: str, old: str, new: str, gate: str) -> None:
    with pytest.raises(GateError) as error:
        check(text, edited(text, old, new), path="a.py")
    assert error.value.gate == gate
    assert str(error.value).startswith("a.py: not written, ")


def test_a_change_outside_the_patches_is_seen() -> None:
    result = Applied("x = 2\ny = 2\n", (Patch(Span(4, 5), "2"),))
    with pytest.raises(GateError, match="outside the edited stretches"):
        check("x = 1\ny = 1\n", result, path="a.py")


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        pytest.param("x = 1  # noqa\n", "1  # noqa", "2", id="a noqa may go"),
        pytest.param("x = 1  # why\n", "x = 1  # why", "# why\nx = 2", id="a comment may move"),
        pytest.param("x = '# no'\n", "'# no'", "2", id="a hash in a string is no comment"),
        pytest.param("x = y\n", "x = y", "x = y + 1", id="what was unbound before may stay so"),
        pytest.param("x = 1\n", "1", "len(__file__)", id="builtins and the module's own names"),
        pytest.param("def f(a):\n    def g():\n        return 1\n", "1", "a", id="an enclosing function binds it"),
        pytest.param("x = 1\n", "1", "[i for i in 'ab']", id="a comprehension binds it"),
        pytest.param(
            "def f():\n    global k\n    k = 1\n\n\nx = 1\n", "x = 1", "x = k", id="a function binds it globally"
        ),
    ],
)
def test_a_gate_lets_right_edits_through(text: str, old: str, new: str) -> None:
    check(text, edited(text, old, new), path="a.py")
