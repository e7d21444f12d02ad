"""A call of an item of a dict runs one of several functions, and no one of them is taken for the one."""

from __future__ import annotations

from loaders import module

KEPT = "def a(n):\n    pass\ndef b(m):\n    pass\nMAKERS = {'a': a, 'b': b}\n"


def test_of_several_functions_none_is_the_one_that_runs() -> None:
    found = module(KEPT + "MAKERS[k](1)\nMAKERS['b'](2)\n")
    either, one = found.calls
    assert [f.name for f in found.called_functions(either)] == ["a", "b"]
    assert found.called_function(either) is None
    assert getattr(found.called_function(one), "name", "") == "b"
    lines = {f.name: [c.lineno for c in found.callers(f)] for f in found.functions}
    assert lines == {"a": [6], "b": [6, 7]}
