"""Statements come under a condition, and out of one, line by line: what is inside of texts stays as it is."""

from __future__ import annotations

import ast

import pytest

from shardfix.rewrite.applier import EditError, apply
from shardfix.rewrite.blocks import read_tree
from shardfix.rewrite.edits import (
    DropKeyword,
    DropStatement,
    Edit,
    GuardStatements,
    InsertStatements,
    LiftGuard,
    ReplaceExpression,
    SetKeyword,
    Span,
    WrapExpression,
)
from shardfix.rewrite.layout import read_layout


def span(text: str, line: int) -> Span:
    """The statement that begins on a line (from 1)."""
    tree = read_tree(read_layout("p.py", text))
    return next(s.span for s in tree.by_span.values() if s.node.lineno == line)


def edited(text: str, *edits: Edit) -> str:
    return apply(text, edits, path="p.py").text


BODY = (
    "def f():\n"
    "    # why\n"
    "    if rank == 0:\n"
    "        # said first\n"
    "        print('''\n"
    "  a''')\n"
    "        n = count(\n"
    "            x,\n"
    "\n"
    "            y)\n"
    "        print(n)\n"
    "\n"
    "        save(n)\n"
    "        # done\n"
    "    go()\n"
)


def guard(text: str, first: int, last: int) -> GuardStatements:
    return GuardStatements("p.py", span(text, first), span(text, last), "rank == 0")


def test_a_condition_goes_and_comes_back_around_what_stays_under_it() -> None:
    lift = LiftGuard("p.py", span(BODY, 3))
    more = InsertStatements("p.py", span(BODY, 7), "after", ("n = both(n)", "if n:", "    go()"))
    assert edited(BODY, lift, guard(BODY, 5, 5), guard(BODY, 11, 13), more) == (
        "def f():\n"
        "    # why\n"
        "    if rank == 0:\n"
        "        # said first\n"
        "        print('''\n"
        "  a''')\n"
        "    n = count(\n"
        "        x,\n"
        "\n"
        "        y)\n"
        "    n = both(n)\n"
        "    if n:\n"
        "        go()\n"
        "    if rank == 0:\n"
        "        print(n)\n"
        "\n"
        "        save(n)\n"
        "        # done\n"
        "    go()\n"
    )


def test_statements_come_under_a_condition_with_the_comments_above_them() -> None:
    other = ReplaceExpression("p.py", Span(BODY.index("rank == 0"), BODY.index(":\n        # said")), "x")
    result = edited(BODY, guard(BODY, 5, 5), other)
    assert result.splitlines()[2:8] == [
        "    if x:",
        "        if rank == 0:",
        "            # said first",
        "            print('''",
        "  a''')",
        "        n = count(",
    ]


CALL = """\
if rank == 0:
    loader = Loader(
        data("test", note='''
as it is'''),
        shuffle=True,  # why
        batch_size=8,
    )
    loader.stop()
    # told
    import a
    print(loader)
"""


def of(text: str, expression: str) -> Span:
    start = text.index(expression)
    return Span(start, start + len(expression))


def call(text: str) -> Span:
    return Span(text.index("Loader("), text.index(")\n    loader.stop") + 1)


def test_a_call_of_several_lines_moves_out_with_what_is_changed_in_it() -> None:
    edits = (
        ReplaceExpression("p.py", of(CALL, "8"), "n"),
        SetKeyword("p.py", call(CALL), "sampler", "s", replacing="shuffle"),
        WrapExpression("p.py", call(CALL), "checked(", ")"),
        LiftGuard("p.py", Span(0, len(CALL) - 1)),
        DropStatement("p.py", span(CALL, 8)),
        guard(CALL, 11, 11),
    )
    assert edited(CALL, *edits) == (
        "loader = checked(Loader(\n"
        "    data(\"test\", note='''\n"
        "as it is'''),\n"
        "    sampler=s,  # why\n"
        "    batch_size=n,\n"
        "))\n"
        "# told\n"
        "import a\n"
        "if rank == 0:\n"
        "    print(loader)\n"
    )


def test_a_call_of_several_lines_moves_in_with_what_is_changed_in_it() -> None:
    text = "loader = Loader(\n    data,\n    shuffle=True,\n)\nloader.stop()  # for good\nshow(loader)\n"
    edits = (
        DropKeyword("p.py", Span(text.index("Loader("), text.index(")\nloader") + 1), "shuffle"),
        DropStatement("p.py", span(text, 5)),
        guard(text, 1, 6),
    )
    assert edited(text, *edits) == (
        "if rank == 0:\n    loader = Loader(\n        data,\n    )\n    # for good\n    show(loader)\n"
    )


def test_a_statement_that_goes_from_what_moves_leaves_no_indent() -> None:
    text = "if a:\n    f()\n    g()\n    h()\nk()\nm()\nn()\n"
    edits = (DropStatement("p.py", span(text, 3)), LiftGuard("p.py", span(text, 1)))
    more = (guard(text, 5, 7), DropStatement("p.py", span(text, 6)))
    assert edited(text, *edits, *more) == "f()\nh()\nif rank == 0:\n    k()\n    n()\n"


def test_tabs_and_carriage_returns_stay() -> None:
    text = "if rank == 0:\r\n\tn = f()\r\n\tprint(n)\r\n"
    result = edited(text, LiftGuard("p.py", span(text, 1)), guard(text, 3, 3))
    assert result == "n = f()\r\nif rank == 0:\r\n\tprint(n)\r\n"


def test_a_statement_on_the_line_of_the_condition_stays_on_that_line() -> None:
    text = "if rank == 0: n = f()\n"
    assert edited(text, LiftGuard("p.py", Span(0, len(text) - 1))) == "n = f()\n"


def test_lines_without_a_newline_at_the_end_of_the_file() -> None:
    text = "if rank == 0:\n    f()\n    print(1)"
    lift = LiftGuard("p.py", Span(0, len(text)))
    assert edited(text, lift, guard(text, 3, 3)) == "f()\nif rank == 0:\n    print(1)"


def test_what_has_another_branch_is_left() -> None:
    text = "if a:\n    f()\nelse:\n    g()\n"
    with pytest.raises(EditError, match="only an `if` without another branch"):
        edited(text, LiftGuard("p.py", Span(0, len(text) - 1)))


def test_a_comment_beside_the_condition_goes_above() -> None:
    text = "if a:  # why\n    f()  # what\n"
    assert edited(text, LiftGuard("p.py", Span(0, text.index("  # what")))) == "# why\nf()  # what\n"


def test_a_statement_that_shares_its_line_is_not_put_under_a_condition() -> None:
    text = "f(); g()\n"
    with pytest.raises(EditError, match="shares its line"):
        edited(text, GuardStatements("p.py", Span(0, 3), Span(0, 3), "a"))


def test_the_results_parse() -> None:
    lift = LiftGuard("p.py", span(BODY, 3))
    ast.parse(edited(BODY, lift, guard(BODY, 11, 11)))
