"""Statements taken out and put in: blocks stay blocks, comments blank lines are what a careful person leaves."""

from __future__ import annotations

import pytest

from shardfix.rewrite.applier import EditError, apply
from shardfix.rewrite.edits import DropKeyword, DropStatement, InsertStatements, Span
from shardfix.rewrite.gates import check


def span(text: str, part: str) -> Span:
    """Where a part stands that occurs once in the text."""
    assert text.count(part) == 1, part
    return Span(text.index(part), text.index(part) + len(part))


def applied(text: str, *edits: object) -> str:
    result = apply(text, edits, path="a.py")  # type: ignore[arg-type]
    check(text, result, path="a.py")
    return result.text


def without(text: str, *parts: str) -> str:
    return applied(text, *(DropStatement("a.py", span(text, part)) for part in parts))


def inserted(text: str, anchor: str, where: str, *lines: str) -> str:
    return applied(text, InsertStatements("a.py", span(text, anchor), where, lines))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("a = 1\ns = 2\nb = 3\n", "a = 1\nb = 3\n", id="its line goes"),
        pytest.param("s = 2\n", "", id="the only line of the file"),
        pytest.param("a = 1\ns = 2", "a = 1", id="last line, no newline at the end"),
        pytest.param("a = 1\r\ns = 2", "a = 1", id="last line, no newline at the end, CRLF"),
        pytest.param("a = 1\ns = 2  # two", "a = 1\n# two", id="its comment, no newline at the end"),
        pytest.param("a = 1\r\ns = 2\r\nb = 3\r\n", "a = 1\r\nb = 3\r\n", id="CRLF"),
        pytest.param("# why\ns = 2\nb = 3\n", "# why\nb = 3\n", id="the comment above stays"),
        pytest.param("if 1:\n    s = 2  # two\n    b = 3\n", "if 1:\n    # two\n    b = 3\n", id="its comment stays"),
        pytest.param("s = 2  # noqa\nb = 3\n", "b = 3\n", id="its noqa goes"),
        pytest.param("s = 2  # type: int\nb = 3\n", "b = 3\n", id="its type comment goes"),
        pytest.param("s = 2  # pylint: disable=x\nb = 3\n", "b = 3\n", id="its pylint comment goes"),
        pytest.param(
            "s = 2  # noqa: E501  two\nb = 3\n", "# noqa: E501  two\nb = 3\n", id="a noqa that says more stays"
        ),
        pytest.param("a = 1; s = 2; b = 3\n", "a = 1; b = 3\n", id="middle of a shared line"),
        pytest.param("s = 2; b = 3  # x\n", "b = 3  # x\n", id="start of a shared line"),
        pytest.param("a = 1; s = 2  # x\n", "a = 1  # x\n", id="end of a shared line"),
        pytest.param("s = 2;\nb = 3\n", "b = 3\n", id="a lone semicolon goes"),
        pytest.param("if 1: s = 2\n", "if 1: pass\n", id="one-line suite"),
        pytest.param("if 1: s = 2; b = 3\n", "if 1: b = 3\n", id="one-line suite with more"),
        pytest.param("if 1:\n\ts = 2  # two\nb = 3\n", "if 1:\n\t# two\n\tpass\nb = 3\n", id="an emptied block, tabs"),
        pytest.param(
            "if 1:\n    # why\n    s = 2\n", "if 1:\n    # why\n    pass\n", id="an emptied block with a comment"
        ),
        pytest.param("if 1:\n    b = 3\nelse:\n    s = 2\n", "if 1:\n    b = 3\n", id="an emptied else goes"),
        pytest.param(
            "if 1:\n    b = 3\n\nelse:\n\n    s = 2\n\nc = 4\n",
            "if 1:\n    b = 3\n\nc = 4\n",
            id="an emptied else with blank lines",
        ),
        pytest.param(
            "if 1:\n    b = 3\nelse:  # why\n    s = 2\n",
            "if 1:\n    b = 3\nelse:  # why\n    pass\n",
            id="an emptied else with a comment",
        ),
        pytest.param(
            "if 1:\n    b = 3\nelif 2:\n    s = 2\n", "if 1:\n    b = 3\nelif 2:\n    pass\n", id="an emptied elif"
        ),
        pytest.param(
            "if 1:\n    s = 2\nelif 2:\n    b = 3\n", "if 1:\n    pass\nelif 2:\n    b = 3\n", id="before an elif"
        ),
        pytest.param("if a:\n    s = 2\nelse: b = 3\n", "if a:\n    pass\nelse: b = 3\n", id="before a one-line else"),
        pytest.param(
            "if 1:\n    b = 3\nelif a:\n    s = 2\nelse:\n    c = 4\n",
            "if 1:\n    b = 3\nelif not a:\n    c = 4\n",
            id="an elif turns round",
        ),
        pytest.param(
            "try:\n    b = 3\nexcept E:\n    s = 2\n".replace("E", "OSError"),
            "try:\n    b = 3\nexcept OSError:\n    pass\n",
            id="an emptied handler",
        ),
        pytest.param(
            "def f():\n    '''doc'''\n    s = 2\n", "def f():\n    '''doc'''\n", id="a docstring fills a block"
        ),
        pytest.param("a = 1\n\ns = 2\n\nb = 3\n", "a = 1\n\nb = 3\n", id="no doubled blank line"),
        pytest.param("a = 1\n\ns = 2\n\n\ndef b(): ...\n", "a = 1\n\n\ndef b(): ...\n", id="the larger gap stays"),
        pytest.param("a = 1\n\ns = 2\n", "a = 1\n", id="no blank line at the end of the file"),
        pytest.param("s = 2\n\na = 1\n", "a = 1\n", id="no blank line at the start of the file"),
        pytest.param("def f():\n    s = 2\n\n    b = 3\n", "def f():\n    b = 3\n", id="no blank line under a header"),
        pytest.param("a = 1\ns = 2\n\nb = 3\n", "a = 1\n\nb = 3\n", id="a gap after it stays"),
        pytest.param("a = 1\n\ns = 2\nb = 3\n", "a = 1\n\nb = 3\n", id="a gap before it stays"),
        pytest.param("ä = 1; s = 2\n", "ä = 1\n", id="non-ASCII"),
    ],
)
def test_a_dropped_statement(before: str, after: str) -> None:
    assert without(before, "s = 2") == after


@pytest.mark.parametrize(
    ("test", "turned"),
    [
        ("a", "not a"),
        ("a.b[0]()", "not a.b[0]()"),
        ("not a", "a"),
        ("not (a or b)", "(a or b)"),
        ("a == -1", "a != -1"),
        ("a is not  None", "a is None"),
        ("a in (b, c)", "a not in (b, c)"),
        ("(a) == b", "not ((a) == b)"),
        ("a < b", "not (a < b)"),
        ("a and b", "not (a and b)"),
        ("(a or\n    b)", "(not (a or\n    b))"),
    ],
)
def test_the_condition_turns_round_where_the_first_branch_goes(test: str, turned: str) -> None:
    before = f"if {test}:\n    s = 2\nelse:\n    # why\n    b = 3\nc = 4\n"
    assert without(before, "s = 2") == f"if {turned}:\n    # why\n    b = 3\nc = 4\n"


def test_an_if_that_loses_both_branches_keeps_its_condition() -> None:
    assert without("if a():\n    s = 2\nelse:\n    t = 3\n", "s = 2", "t = 3") == (
        "if a():\n    pass\nelse:\n    pass\n"
    )


def test_a_dropped_compound_statement_leaves_its_comments() -> None:
    block = (
        "if n == 1:  # one process\n"
        "        s = 1  # plain\n"
        "    else:\n"
        "        # one part each\n"
        "        s = 2  # noqa: E501"
    )
    text = f"def f(n):\n    # the sampler\n    {block}\n    return n\n"
    assert without(text, block.removesuffix("  # noqa: E501")) == (
        "def f(n):\n    # the sampler\n    # one process\n    # plain\n    # one part each\n    return n\n"
    )


def test_a_dropped_definition_takes_its_decorators() -> None:
    text = "a = 1\n\n\n@staticmethod\ndef f():\n    pass\n\n\nb = 2\n"
    assert without(text, "@staticmethod\ndef f():\n    pass") == "a = 1\n\n\nb = 2\n"
    assert without(text, "def f():\n    pass") == "a = 1\n\n\nb = 2\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("if 1:\n    s = 1\n    t = 2\n", "if 1:\n    pass\n", id="one pass for an emptied block"),
        pytest.param(
            "if 1:\n    s = 1  # x\n    # y\n    t = 2\n", "if 1:\n    # x\n    # y\n    pass\n", id="comments between"
        ),
        pytest.param("if 1: s = 1; t = 2\n", "if 1: pass\n", id="one-line suite"),
        pytest.param("s = 1; t = 2\nb = 3\n", "b = 3\n", id="all of a shared line"),
        pytest.param("a = 1; s = 1; t = 2\n", "a = 1\n", id="the end of a shared line"),
        pytest.param("s = 1; b = 3; t = 2\n", "b = 3\n", id="both ends of a shared line"),
        pytest.param("a = 1\n\ns = 1\nt = 2\n\nb = 3\n", "a = 1\n\nb = 3\n", id="a paragraph"),
        pytest.param("a = 1\n\ns = 1\n\nt = 2\n\nb = 3\n", "a = 1\n\nb = 3\n", id="two paragraphs"),
        pytest.param("a = 1\ns = 1\n\nt = 2\nb = 3\n", "a = 1\n\nb = 3\n", id="the gap between them stays"),
        pytest.param("a = 1\n\ns = 1\nt = 2", "a = 1", id="no newline at the end"),
    ],
)
def test_two_dropped_statements(before: str, after: str) -> None:
    assert without(before, "s = 1", "t = 2") == after


def test_a_drop_swallows_every_edit_inside() -> None:
    text = "if 1:\n    x = f(s=1)\nf = print\n"
    edits = [
        DropStatement("a.py", span(text, "if 1:\n    x = f(s=1)")),
        DropStatement("a.py", span(text, "x = f(s=1)")),
        DropKeyword("a.py", span(text, "f(s=1)"), "s"),
        InsertStatements("a.py", span(text, "x = f(s=1)"), "after", ("y = 1",)),
        InsertStatements("a.py", span(text, "if 1:\n    x = f(s=1)"), "body", ("y = 1",)),
    ]
    assert applied(text, *edits) == "f = print\n"


LOOP = "for e in r:\n    t(e)"


@pytest.mark.parametrize(
    ("before", "anchor", "where", "after"),
    [
        pytest.param("a = 1\nb = 2\n", "b = 2", "before", "a = 1\nn = 1\nb = 2\n", id="before"),
        pytest.param("a = 1\nb = 2\n", "a = 1", "after", "a = 1\nn = 1\nb = 2\n", id="after"),
        pytest.param("a = 1  # one\nb = 2\n", "a = 1", "after", "a = 1  # one\nn = 1\nb = 2\n", id="after a comment"),
        pytest.param(
            "a = 1\n# two\nb = 2\n", "b = 2", "before", "a = 1\n# two\nn = 1\nb = 2\n", id="under the comment above"
        ),
        pytest.param("a = 1; b = 2\n", "a = 1", "after", "a = 1\nn = 1\nb = 2\n", id="between two on a line"),
        pytest.param(
            "a = 1; b = 2  # x\n", "b = 2", "before", "a = 1\nn = 1\nb = 2  # x\n", id="before the second on a line"
        ),
        pytest.param(
            "a = 1; b = 2  # x\n", "b = 2", "after", "a = 1; b = 2  # x\nn = 1\n", id="after the last on a line"
        ),
        pytest.param("a = 1;\nb = 2\n", "a = 1", "after", "a = 1;\nn = 1\nb = 2\n", id="after a lone semicolon"),
        pytest.param("a = 1", "a = 1", "after", "a = 1\nn = 1", id="no newline at the end"),
        pytest.param("a = 1", "a = 1", "before", "n = 1\na = 1", id="before, no newline at the end"),
        pytest.param("b = 2\r\na = 1", "a = 1", "after", "b = 2\r\na = 1\r\nn = 1", id="no newline at the end, CRLF"),
        pytest.param(
            "a = 1\r\nb = 2\n", "a = 1", "after", "a = 1\r\nn = 1\r\nb = 2\n", id="mixed newlines: as its neighbour"
        ),
        pytest.param(
            "a = 1\r\nb = 2\nc = 3\r\n",
            "b = 2",
            "after",
            "a = 1\r\nb = 2\nn = 1\nc = 3\r\n",
            id="mixed newlines, the other",
        ),
        pytest.param("if 1:\n\ta = 1\n", "a = 1", "after", "if 1:\n\ta = 1\n\tn = 1\n", id="tabs"),
        pytest.param("if 1: a = 1\n", "a = 1", "after", "if 1:\n    a = 1\n    n = 1\n", id="after a one-line suite's"),
        pytest.param(
            "if 1: a = 1  # x\n",
            "a = 1",
            "before",
            "if 1:\n    n = 1\n    a = 1  # x\n",
            id="before a one-line suite's",
        ),
        pytest.param(
            "if 1: a = 1; b = 2\n",
            "b = 2",
            "before",
            "if 1:\n    a = 1\n    n = 1\n    b = 2\n",
            id="inside a one-line suite",
        ),
        pytest.param("if 1: a = 1", "a = 1", "after", "if 1:\n    a = 1\n    n = 1", id="one-line suite, no newline"),
        pytest.param(
            "@d\ndef f(): ...\nd = 1\n",
            "@d\ndef f(): ...",
            "before",
            "n = 1\n@d\ndef f(): ...\nd = 1\n",
            id="before a decorator",
        ),
        pytest.param(
            "if 1:\n    b = 2\n    # b\n# c\n",
            "if 1:\n    b = 2",
            "after",
            "if 1:\n    b = 2\n    # b\nn = 1\n# c\n",
            id="after a block and its comments",
        ),
        pytest.param("for e in r:\n    t(e)\n", LOOP, "body", "for e in r:\n    n = 1\n    t(e)\n", id="body"),
        pytest.param(
            "for e in r:  # x\n    # y\n    t(e)\n",
            "for e in r:  # x\n    # y\n    t(e)",
            "body",
            "for e in r:  # x\n    n = 1\n    # y\n    t(e)\n",
            id="body, above its comments",
        ),
        pytest.param(
            "for e in (\n    # x\n    1,\n):\n    t(e)\n",
            "for e in (\n    # x\n    1,\n):\n    t(e)",
            "body",
            "for e in (\n    # x\n    1,\n):\n    n = 1\n    t(e)\n",
            id="body under a long header",
        ),
        pytest.param(
            "for e in r: t(e)\n",
            "for e in r: t(e)",
            "body",
            "for e in r:\n    n = 1\n    t(e)\n",
            id="body of a one-line suite",
        ),
        pytest.param(
            "if 1:\n\tfor e in r: t(e)",
            "for e in r: t(e)",
            "body",
            "if 1:\n\tfor e in r:\n\t\tn = 1\n\t\tt(e)",
            id="body of a one-line suite, tabs, no newline",
        ),
        pytest.param(
            "def f():\n  '''doc'''\n  a = 1\n",
            "def f():\n  '''doc'''\n  a = 1",
            "body",
            "def f():\n  '''doc'''\n  n = 1\n  a = 1\n",
            id="body after the docstring",
        ),
        pytest.param(
            "def f():\n    '''doc'''\n",
            "def f():\n    '''doc'''",
            "body",
            "def f():\n    '''doc'''\n    n = 1\n",
            id="body that is a docstring",
        ),
        pytest.param(
            "if 1:\n    a = 1\nelif 2:\n    b = 2\n",
            "elif 2:\n    b = 2",
            "body",
            "if 1:\n    a = 1\nelif 2:\n    n = 1\n    b = 2\n",
            id="body of an elif",
        ),
    ],
)
def test_an_inserted_statement(before: str, anchor: str, where: str, after: str) -> None:
    names = "from x import r, t\n" if "t(e)" in before else ""
    newline = "\r\n" if "\r\n" in before else "\n"
    head = names.replace("\n", newline)
    assert inserted(head + before, anchor, where, "n = 1") == head + after


def test_several_lines_get_the_indent_of_the_file() -> None:
    text = "for e in range(2):\n\tprint(e)\n"
    lines = ("if e:", "    if 1:", "        print(1)")
    assert inserted(text, "for e in range(2):\n\tprint(e)", "body", *lines) == (
        "for e in range(2):\n\tif e:\n\t\tif 1:\n\t\t\tprint(1)\n\tprint(e)\n"
    )


def test_inserts_at_one_place_keep_their_order() -> None:
    text = "a = 1\nb = 2\n"
    edits = [
        InsertStatements("a.py", span(text, "b = 2"), "before", ("three = 3",)),
        InsertStatements("a.py", span(text, "a = 1"), "after", ("one = 1",)),
        InsertStatements("a.py", span(text, "a = 1"), "after", ("two = 2",)),
    ]
    assert applied(text, *edits) == "a = 1\none = 1\ntwo = 2\nthree = 3\nb = 2\n"
    assert applied("a = 1; b = 2\n", *(_shifted(edit) for edit in edits)) == (
        "a = 1\none = 1\ntwo = 2\nthree = 3\nb = 2\n"
    )


def _shifted(edit: InsertStatements) -> InsertStatements:
    start = {0: 0, 6: 7}[edit.anchor.start]
    return InsertStatements("a.py", Span(start, start + 5), edit.where, edit.lines)


@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("a = 1\n\ns = 2\n\nb = 3\n", "a = 1\n\nn = 1\n\nb = 3\n", id="between blank lines"),
        pytest.param("if 1:\n    s = 2\n", "if 1:\n    n = 1\n", id="alone in its block"),
        pytest.param("a = 1\ns = 2", "a = 1\nn = 1", id="no newline at the end"),
    ],
)
def test_a_statement_exchanged_for_another(where: str, before: str, after: str) -> None:
    anchor = span(before, "s = 2")
    edits = [DropStatement("a.py", anchor), InsertStatements("a.py", anchor, where, ("n = 1",))]  # type: ignore[arg-type]
    assert applied(before, *edits) == after


def test_an_edit_in_a_one_line_suite_that_is_split() -> None:
    text = "from x import r, t\nfor e in r: t(e, s=1)\n"
    edits = [
        InsertStatements("a.py", span(text, "for e in r: t(e, s=1)"), "body", ("n = 1",)),
        DropKeyword("a.py", span(text, "t(e, s=1)"), "s"),
    ]
    assert applied(text, *edits) == "from x import r, t\nfor e in r:\n    n = 1\n    t(e)\n"


@pytest.mark.parametrize(
    ("text", "edit", "message"),
    [
        pytest.param(
            "if 1:\n    a = 1\nelif 2:\n    b = 2\n",
            InsertStatements("a.py", Span(16, 33), "before", ("n = 1",)),
            "a.py:3:1: nothing can be inserted before or after an `elif`",
            id="before an elif",
        ),
        pytest.param(
            "a = 1\n",
            InsertStatements("a.py", Span(0, 5), "body", ("n = 1",)),
            "a.py:1:1: the statement has no body to insert into",
            id="into a simple statement",
        ),
        pytest.param(
            "a = 1; s = [  # two\n    2]\n",
            DropStatement("a.py", Span(7, 26)),
            "a.py:1:6: a comment inside this statement has no other place to go; remove it by hand",
            id="a comment that has no place",
        ),
    ],
)
def test_statement_edits_that_do_not_fit(text: str, edit: DropStatement | InsertStatements, message: str) -> None:
    with pytest.raises(EditError) as error:
        apply(text, [edit], path="a.py")
    assert str(error.value) == message
