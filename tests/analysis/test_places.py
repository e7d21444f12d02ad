"""A dotted name lies in the file that the importer would find: beside it, above it, at the top, or in a ``src``."""

from __future__ import annotations

import pytest

from shardfix.analysis.code.module import module_name
from shardfix.analysis.code.places import Places


@pytest.mark.parametrize(
    ("paths", "dotted", "package", "expected"),
    [
        pytest.param(["data.py"], "data.make", "", ("data.py", "make"), id="at the top"),
        pytest.param(["data.py"], "data", "", ("data.py", ""), id="the file itself"),
        pytest.param(["data.py"], "data.Data.make", "", ("data.py", "Data.make"), id="a name of a name"),
        pytest.param(["data.py"], ".data.make", "", ("data.py", "make"), id="from the package of the root"),
        pytest.param(["data.py"], "numpy.array", "", None, id="a library's"),
        pytest.param(["a/data.py", "data.py"], "data.make", "a", ("a/data.py", "make"), id="beside the importer first"),
        pytest.param(["a/data.py"], "data.make", "a.b", ("a/data.py", "make"), id="above the importer"),
        pytest.param(["a/data.py"], "data.make", "b", None, id="not beside another"),
        pytest.param(["a/b.py", "a/__init__.py"], "a.b.f", "", ("a/b.py", "f"), id="the longest file"),
        pytest.param(["src/pkg/a.py"], "pkg.a.f", "", ("src/pkg/a.py", "f"), id="in the root's src"),
        pytest.param(["src/pkg/a.py"], "src.pkg.a.f", "", ("src/pkg/a.py", "f"), id="src as a package"),
        pytest.param(["x/src/a.py"], "src.a.f", "x", ("x/src/a.py", "f"), id="src as a package below"),
        pytest.param(["x/src/a.py"], "a.f", "x", ("x/src/a.py", "f"), id="in a src below"),
    ],
)
def test_a_name_lies_in_the_file_that_the_importer_would_find(
    paths: list[str], dotted: str, package: str, expected: tuple[str, str] | None
) -> None:
    assert Places({module_name(p): p for p in paths}).split(dotted, package) == expected
