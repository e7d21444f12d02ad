"""A file that does not parse is told with the place and the reason, and with the Python that could read it."""

from __future__ import annotations

import sys

import pytest

from shardfix.analysis.code.module import ParseFailure, parse
from shardfix.analysis.code.syntax import explain_syntax_error


def failure(text: str) -> tuple[str, str]:
    with pytest.raises(ParseFailure) as caught:
        parse("train.py", text)
    return str(caught.value.location), caught.value.reason


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        pytest.param('print "hello"\n', "train.py:1:1", "not parsed: Python 2 syntax (", id="Python 2's print"),
        pytest.param(
            "try:\n    pass\nexcept IOError, e:\n    print e\n",
            "train.py:3:8",
            "not parsed: Python 2 syntax (",
            id="its except",
        ),
        pytest.param("x = 1\n%matplotlib inline\n", "train.py:2:1", "not parsed: IPython magic", id="a magic"),
        pytest.param("x = 1\n!pip install torch\n", "train.py:2:1", "not parsed: IPython magic", id="a shell line"),
        pytest.param("x = 1\ny = (\n", "train.py:2:5", "not parsed by Python ", id="a bracket left open"),
    ],
)
def test_where_and_why(text: str, place: str, reason: str) -> None:
    where, why = failure(text)
    assert where == place
    assert why.startswith(reason)


@pytest.mark.parametrize(
    ("line", "what", "version"),
    [
        ("type X = int", "a type statement needs", (3, 12)),
        ("def f[T](x: T): pass", "type parameters need", (3, 12)),
        ("x = t'{a}'", "a t-string needs", (3, 14)),
    ],
)
def test_newer_syntax_names_the_version_that_reads_it(line: str, what: str, version: tuple[int, int]) -> None:
    error = SyntaxError("invalid syntax", ("train.py", 1, 1, line))
    running, needed = f"{sys.version_info[0]}.{sys.version_info[1]}", f"{version[0]}.{version[1]}"
    leave = "leave the file out by `exclude` in [tool.shardfix]"
    expected = (
        (
            f"not parsed: {what} Python {needed}, shardfix runs on {running}",
            f"run shardfix by Python {needed} or later, or {leave}",
        )
        if sys.version_info < version
        else (f"not parsed by Python {running}: invalid syntax", f"correct it, or {leave}")
    )
    assert explain_syntax_error(line, error) == expected


def test_code_nested_too_deeply_is_refused_not_a_crash() -> None:
    where, why = failure("x = " + "(" * 5000 + ")" * 5000 + "\n")
    assert where.startswith("train.py:1:")
    assert "pars" in why


def test_a_file_that_warns_parses_in_silence(recwarn: pytest.WarningsRecorder) -> None:
    parse("train.py", 'x = "\\d"\nif x is 1:\n    pass\n')
    assert not recwarn.list
