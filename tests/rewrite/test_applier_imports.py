"""Imports: a name is bound where a careful person would bind it, and an import goes only when nothing needs it."""

from __future__ import annotations

import pytest

from shardfix.rewrite.applier import apply
from shardfix.rewrite.edits import AddImport, DropImport, DropStatement, InsertStatements, Span
from shardfix.rewrite.gates import check


def span(text: str, part: str) -> Span:
    """Where a part stands that occurs once in the text."""
    assert text.count(part) == 1, part
    return Span(text.index(part), text.index(part) + len(part))


def applied(text: str, *edits: object, path: str = "a.py") -> str:
    result = apply(text, edits, path=path)  # type: ignore[arg-type]
    check(text, result, path=path)
    return result.text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("from m import n\n", "from m import n\n", id="already bound"),
        pytest.param("from m import (a, n)\n", "from m import (a, n)\n", id="already bound among others"),
        pytest.param("from m import n as k\n", "from m import n, n as k\n", id="bound by another name"),
        pytest.param("from m import a, z\n", "from m import a, n, z\n", id="sorted in"),
        pytest.param("from m import Z, a\n", "from m import Z, a, n\n", id="sorted as isort does"),
        pytest.param("from m import z, a\n", "from m import z, a, n\n", id="last where there is no order"),
        pytest.param("from m import o\n", "from m import n, o\n", id="first"),
        pytest.param(
            "from m import (a,\n               z)\n",
            "from m import (a,\n               n,\n               z)\n",
            id="aligned",
        ),
        pytest.param(
            "from m import (\n    a,\n    b,  # b\n)\n",
            "from m import (\n    a,\n    b,  # b\n    n,\n)\n",
            id="a line each",
        ),
        pytest.param(
            "from m import (\n    a, z,\n)\n", "from m import (\n    a, n, z,\n)\n", id="one line in brackets"
        ),
        pytest.param(
            "from m import (\n    o,\n    z\n)\n",
            "from m import (\n    n,\n    o,\n    z\n)\n",
            id="first of a line each",
        ),
        pytest.param(
            "from m import (\n    a\n)\n", "from m import (\n    a,\n    n\n)\n", id="no trailing comma appears"
        ),
        pytest.param("from m import a, \\\n    b\n", "from m import a, \\\n    b, n\n", id="backslash"),
        pytest.param("from m import a  # why\n", "from m import a, n  # why\n", id="a comment after it"),
        pytest.param(
            "from m import (\r\n\ta,\r\n\tb,\r\n)",
            "from m import (\r\n\ta,\r\n\tb,\r\n\tn,\r\n)",
            id="CRLF, tabs, no newline",
        ),
        pytest.param("from m import *\n", "from m import *\nfrom m import n\n", id="a star is not extended"),
        pytest.param(
            "from .m import a\n", "from .m import a\nfrom m import n\n", id="a relative module is another one"
        ),
        pytest.param(
            "import os\nimport torch\nimport sys\n",
            "import os\nimport torch\nfrom m import n\nimport sys\n",
            id="after torch",
        ),
        pytest.param(
            "import os\nimport sys\n\nx = 1\nimport re\n",
            "import os\nimport sys\nfrom m import n\n\nx = 1\nimport re\n",
            id="after the leading imports",
        ),
        pytest.param(
            "import sys\nsys.path.append('x')\nfrom torch import nn\n",
            "import sys\nsys.path.append('x')\nfrom torch import nn\nfrom m import n\n",
            id="after torch behind a path hack",
        ),
        pytest.param(
            "#!/bin/python\n# coding: utf-8\n\nx = 1\n",
            "#!/bin/python\n# coding: utf-8\n\nfrom m import n\n\nx = 1\n",
            id="under shebang and coding",
        ),
        pytest.param("'''doc'''\n\nx = 1\n", "'''doc'''\n\nfrom m import n\n\nx = 1\n", id="under the docstring"),
        pytest.param("'''doc'''\nx = 1\n", "'''doc'''\n\nfrom m import n\n\nx = 1\n", id="set off from the docstring"),
        pytest.param(
            "from __future__ import annotations\n\nx = 1\n",
            "from __future__ import annotations\n\nfrom m import n\n\nx = 1\n",
            id="under __future__",
        ),
        pytest.param(
            "'''doc'''\nfrom __future__ import annotations\nimport os\n",
            "'''doc'''\nfrom __future__ import annotations\nimport os\nfrom m import n\n",
            id="under docstring, __future__ and imports",
        ),
        pytest.param(
            "def f():\n    import torch\n",
            "from m import n\n\n\ndef f():\n    import torch\n",
            id="never into a function",
        ),
        pytest.param("", "from m import n\n", id="an empty file"),
        pytest.param("# only\n", "# only\nfrom m import n\n", id="only a comment"),
        pytest.param("import torch", "import torch\nfrom m import n", id="no newline at the end"),
        pytest.param("import torch; x = 1\n", "import torch\nfrom m import n\nx = 1\n", id="a shared line"),
        pytest.param("from m import a; x = 1\n", "from m import a, n; x = 1\n", id="extended on a shared line"),
    ],
)
def test_an_added_import(before: str, after: str) -> None:
    edit = AddImport("a.py", "m", "n")
    assert applied(before, edit) == after
    if after:
        assert applied(after, edit) == after


@pytest.mark.parametrize(
    ("before", "beside", "after"),
    [
        pytest.param(
            "import os\nimport torch\n", "import os", "import os\nfrom m import n\nimport torch\n", id="right after it"
        ),
        pytest.param(
            "try:\n    import a\nexcept ImportError:\n    a = None\nx = 1\n",
            "import a",
            "try:\n    import a\nexcept ImportError:\n    a = None\nfrom m import n\nx = 1\n",
            id="after the try around it",
        ),
        pytest.param(
            "import sys\nsys.path.append('x')\nimport a\nx = 1\n",
            "import a",
            "import sys\nsys.path.append('x')\nimport a\nfrom m import n\nx = 1\n",
            id="behind a path hack",
        ),
        pytest.param(
            "import os\n\n\ndef f():\n    import a\n",
            "import a",
            "import os\nfrom m import n\n\n\ndef f():\n    import a\n",
            id="not after a function around it",
        ),
        pytest.param(
            "from m import a\nfrom m import b\n",
            "from m import a",
            "from m import a, n\nfrom m import b\n",
            id="it is the one to extend",
        ),
    ],
)
def test_an_import_added_beside_another(before: str, beside: str, after: str) -> None:
    assert applied(before, AddImport("a.py", "m", "n", span(before, beside))) == after


def test_a_module_is_imported_once() -> None:
    edit = AddImport("a.py", "torch.distributed")
    assert applied("import torch\n", edit) == "import torch\nimport torch.distributed\n"
    assert (
        applied("import torch.distributed as d\n", edit) == "import torch.distributed as d\nimport torch.distributed\n"
    )
    assert applied("import torch, torch.distributed\n", edit) == "import torch, torch.distributed\n"


def test_several_imports_share_a_line_a_place_and_its_blank_lines() -> None:
    edits = [AddImport("a.py", "m", "o"), AddImport("a.py", "k", "j"), AddImport("a.py", "m", "n")]
    assert applied("'''doc'''\n\nx = 1\n", *edits) == "'''doc'''\n\nfrom k import j\nfrom m import n, o\n\nx = 1\n"
    assert applied("x = 1\n", *edits) == "from k import j\nfrom m import n, o\n\nx = 1\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("from m import n\nx = 1\n", "x = 1\n", id="alone"),
        pytest.param("from m import a, n\nx = 1\n", "from m import a\nx = 1\n", id="among others"),
        pytest.param("from m import k as n, b\nx = 1\n", "from m import b\nx = 1\n", id="by its alias"),
        pytest.param("import n, os\nx = 1\n", "import os\nx = 1\n", id="a module"),
        pytest.param(
            "from m import (\n    a,  # a\n    n,  # n\n    b,\n)\n",
            "from m import (\n    a,  # a\n    # n\n    b,\n)\n",
            id="a line each, with comments",
        ),
        pytest.param("from m import (a,\n               n)\n", "from m import (a)\n", id="aligned"),
        pytest.param("from m import a, \\\n    n\n", "from m import a\n", id="backslash before it"),
        pytest.param("from m import n, \\\n    b\n", "from m import b\n", id="backslash after it"),
        pytest.param("from m import a, n, \\\n    b\n", "from m import a, \\\n    b\n", id="backslash behind others"),
        pytest.param(
            "# samplers\nfrom m import n  # noqa: F401\nx = 1\n",
            "# samplers\nx = 1\n",
            id="comment above stays, noqa goes",
        ),
        pytest.param("from m import n  # why\nx = 1\n", "# why\nx = 1\n", id="its comment stays"),
        pytest.param("import os\nfrom m import n", "import os", id="no newline at the end"),
        pytest.param("def f():\n    from m import n\n", "def f():\n    pass\n", id="in a function"),
        pytest.param(
            "from m import n\nimport os\nfrom m import n, b\n", "import os\nfrom m import b\n", id="imported twice"
        ),
        pytest.param("from m import n\nprint('n')\n", "print('n')\n", id="a word in a string is no use"),
        pytest.param("import os; from m import n\n", "import os\n", id="on a shared line"),
    ],
)
def test_an_unused_import_goes(before: str, after: str) -> None:
    assert applied(before, DropImport("a.py", "n")) == after


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("from m import n\nx = n\n", id="used"),
        pytest.param("from m import n\nx: 'list[n]' = []\n", id="used in a quoted annotation"),
        pytest.param("from m import n\ndef f(x: 'n') -> 'n': ...\n", id="used in a quoted signature"),
        pytest.param("from m import n\nx = []  # type: list[n]\n", id="used in a type comment"),
        pytest.param("from m import n\n__all__ = ['n']\n", id="exported"),
        pytest.param("from m import n\n__all__ = []\n__all__ += ['n']\n", id="exported later"),
        pytest.param("from m import n\n__all__ = []\n__all__.extend(['n'])\n", id="exported by a call"),
        pytest.param("from m import n\ndef f():\n    global n\n", id="declared global"),
        pytest.param("from m import n\nn = n_ = 1\n", id="bound again"),
        pytest.param("try:\n    from m import n\nexcept ImportError:\n    from k import n\n", id="two alternatives"),
        pytest.param("if 1:\n    from m import n\n", id="under a condition"),
        pytest.param("from m import n\nif 1:\n    from k import n\n", id="one of two under a condition"),
        pytest.param("class A:\n    from m import n\n", id="an attribute of a class"),
        pytest.param("from m import *\n", id="only a star"),
    ],
)
def test_an_import_that_may_be_needed_stays(text: str) -> None:
    assert applied(text, DropImport("a.py", "n")) == text


def test_a_package_keeps_what_it_may_re_export() -> None:
    assert applied("from m import n\n", DropImport("p/__init__.py", "n"), path="p/__init__.py") == "from m import n\n"


def test_an_import_goes_with_the_last_use_that_another_edit_removes() -> None:
    text = "from m import a, n\ns = n()\nb = a\n"
    assert applied(text, DropImport("a.py", "n"), DropStatement("a.py", span(text, "s = n()"))) == (
        "from m import a\nb = a\n"
    )


def test_an_import_stays_for_a_use_that_another_edit_brings() -> None:
    text = "from m import n\ns = n()\n"
    edits = [
        DropImport("a.py", "n"),
        DropStatement("a.py", span(text, "s = n()")),
        InsertStatements("a.py", span(text, "s = n()"), "after", ("s = n(2)",)),
    ]
    assert applied(text, *edits) == "from m import n\ns = n(2)\n"


def test_one_import_loses_a_name_and_gains_another() -> None:
    text = "from m import (\n    a,\n    k,\n)\nx = a\n"
    edits = [AddImport("a.py", "m", "n"), DropImport("a.py", "k")]
    assert applied(text, *edits) == "from m import (\n    a,\n    n,\n)\nx = a\n"


def test_an_import_that_goes_is_not_extended() -> None:
    text = "import os\nfrom m import k\nx = os\n"
    edits = [AddImport("a.py", "m", "n"), DropImport("a.py", "k")]
    assert applied(text, *edits) == "import os\nfrom m import n\nx = os\n"


def test_an_import_of_the_project_s_own_is_set_apart_and_comes_last() -> None:
    text = "import torch\n\nx = 1\n"
    beside = span(text, "import torch")
    own = AddImport("a.py", "checks", "check", beside, apart=True)
    other = AddImport("a.py", "torch.utils.data", "Subset", beside)
    assert applied(text, own) == "import torch\n\nfrom checks import check\n\nx = 1\n"
    assert applied(text, own, other) == (
        "import torch\nfrom torch.utils.data import Subset\n\nfrom checks import check\n\nx = 1\n"
    )


def test_several_modules_of_the_project_s_own_are_one_block_in_order() -> None:
    text = "import torch\n\nx = 1\n"
    beside = span(text, "import torch")
    own = [AddImport("a.py", name, "f", beside, apart=True) for name in ("sharded", "checks")]
    assert applied(text, *own) == "import torch\n\nfrom checks import f\nfrom sharded import f\n\nx = 1\n"
