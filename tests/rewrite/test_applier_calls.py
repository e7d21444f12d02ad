"""Keyword and expression edits: the layout of the call survives, and so does every other character."""

from __future__ import annotations

import ast

import pytest

from shardfix.rewrite.applier import EditError, apply
from shardfix.rewrite.edits import DropKeyword, DropStatement, Edit, ReplaceExpression, SetKeyword, Span, WrapExpression
from shardfix.rewrite.gates import check
from shardfix.rewrite.layout import read_layout


def span(text: str, part: str) -> Span:
    """Where a part stands that occurs once in the text."""
    assert text.count(part) == 1, part
    return Span(text.index(part), text.index(part) + len(part))


def call(text: str) -> Span:
    """The call `f(...)` of the text."""
    layout = read_layout("a.py", text)
    node = next(n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call) and ast.unparse(n.func) == "f")
    end = layout.offset(node.end_lineno or 0, node.end_col_offset or 0)
    return Span(layout.offset(node.lineno, node.col_offset), end)


def drop_s(text: str) -> str:
    return applied(text, DropKeyword("a.py", call(text), "s"))


def applied(text: str, *edits: Edit) -> str:
    result = apply(text, edits, path="a.py")
    check(text, result, path="a.py")
    return result.text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("f(1, s=2, b=3)\n", "f(1, b=3)\n", id="between others on one line"),
        pytest.param("f(1, s=2)\n", "f(1)\n", id="the last one takes its comma along"),
        pytest.param("f(1, s=2,)\n", "f(1,)\n", id="a trailing comma stays"),
        pytest.param("f(s=2, b=3)\n", "f(b=3)\n", id="the first one"),
        pytest.param("f(s=2)\n", "f()\n", id="the only one"),
        pytest.param("f( 1, s = 2 )\n", "f( 1 )\n", id="white space inside the brackets stays"),
        pytest.param("f(\n    1,\n    s=2,\n    b=3,\n)\n", "f(\n    1,\n    b=3,\n)\n", id="its line goes"),
        pytest.param("f(\n    1,\n    s=2\n)\n", "f(\n    1\n)\n", id="no trailing comma appears"),
        pytest.param("f(\n    s=2,\n)\n", "f()\n", id="the only own-line argument leaves no empty line"),
        pytest.param("f(\n    # why\n    s=2,\n)\n", "f(\n    # why\n)\n", id="a comment above the only one stays"),
        pytest.param("f(1,\n  s=2,\n  b=3)\n", "f(1,\n  b=3)\n", id="aligned lines stay aligned"),
        pytest.param("f(1,\n  s=2)\n", "f(1)\n", id="the bracket goes up to the line before"),
        pytest.param("f(1,  # one\n  s=2)\n", "f(1  # one\n  )\n", id="unless that line ends in a comment"),
        pytest.param("f(1, s=2,\n  b=3)\n", "f(1,\n  b=3)\n", id="last of several on its line"),
        pytest.param("f(1,\n  s=2, b=3)\n", "f(1,\n  b=3)\n", id="first of several on its line"),
        pytest.param("f(s=2,\n  b=3,\n  c=4)\n", "f(b=3,\n  c=4)\n", id="the next one takes the place at the bracket"),
        pytest.param(
            "f(\n    1,  # one\n    s=2,  # two\n    b=3,  # three\n)\n",
            "f(\n    1,  # one\n    # two\n    b=3,  # three\n)\n",
            id="comments beside others and its own stay",
        ),
        pytest.param("f(\n    1,\n    s=2,  # noqa: E501\n)\n", "f(\n    1,\n)\n", id="its noqa goes"),
        pytest.param(
            "f(\n    1,\n    s=g(\n        2,  # two\n    ),\n    b=3,\n)\n",
            "f(\n    1,\n    # two\n    b=3,\n)\n",
            id="a comment inside its value stays",
        ),
        pytest.param("f(1, s=g(2,  # two\n  3), b=3)\n", "f(1,\n    # two\n    b=3)\n", id="also in a one-line call"),
        pytest.param("f(\n    1,\n\n    s=2,\n)\n", "f(\n    1,\n)\n", id="no blank line before the bracket"),
        pytest.param(
            "f(\n    1,\n\n    s=2,\n\n    b=3,\n)\n", "f(\n    1,\n\n    b=3,\n)\n", id="no doubled blank line"
        ),
        pytest.param("f(1\n  , s=2\n  , b=3)\n", "f(1\n  , b=3)\n", id="comma first"),
        pytest.param("f(1\n  , b=3\n  , s=2)\n", "f(1\n  , b=3)\n", id="comma first and last"),
        pytest.param("f(\n\t1,\n\ts=2,\n\tb=3,\n)\n", "f(\n\t1,\n\tb=3,\n)\n", id="tabs"),
        pytest.param("f(\r\n    1,\r\n    s=2,\r\n)\r\n", "f(\r\n    1,\r\n)\r\n", id="CRLF"),
        pytest.param(
            "f(\r\n    1,\n    s=2,\r\n    b=3,\n)", "f(\r\n    1,\n    b=3,\n)", id="mixed newlines, none at the end"
        ),
        pytest.param("x = (\n    f(1, s=2)\n)\n", "x = (\n    f(1)\n)\n", id="inside brackets"),
        pytest.param("é = 'ü'; f(1, s='ö')\n", "é = 'ü'; f(1)\n", id="non-ASCII before it"),
        pytest.param("f(*a, s=2, **k)\n", "f(*a, **k)\n", id="between unpacked ones"),
    ],
)
def test_a_dropped_keyword_leaves_the_layout(before: str, after: str) -> None:
    assert drop_s(before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("f(1, s=2)\n", "f(1, s=9)\n", id="an existing one keeps its place"),
        pytest.param("f(1, s = 2)\n", "f(1, s = 9)\n", id="and its spaces"),
        pytest.param("f(\n    1,\n    s=2,  # two\n)\n", "f(\n    1,\n    s=9,  # two\n)\n", id="and its comment"),
        pytest.param("f(s=(2  # two\n  ))\n", "f(\n    # two\n    s=9)\n", id="and the comments in the old value"),
        pytest.param("f(1)\n", "f(1, s=9)\n", id="a new one comes last"),
        pytest.param("f(1,)\n", "f(1, s=9,)\n", id="before the trailing comma"),
        pytest.param("f()\n", "f(s=9)\n", id="into an empty call"),
        pytest.param("f(1, **k)\n", "f(1, s=9, **k)\n", id="before unpacked keywords"),
        pytest.param("f(1, b = 3)\n", "f(1, b = 3, s = 9)\n", id="with the spaces of its neighbours"),
        pytest.param("f(\n    1,\n    b=3,\n)\n", "f(\n    1,\n    b=3,\n    s=9,\n)\n", id="on its own line"),
        pytest.param("f(\n    1, b=3\n)\n", "f(\n    1, b=3, s=9\n)\n", id="on the one line of arguments"),
        pytest.param("f(1,\n  b=3)\n", "f(1,\n  b=3,\n  s=9)\n", id="aligned"),
        pytest.param(
            "f(\n    1,\n    b=3  # three\n)\n", "f(\n    1,\n    b=3,  # three\n    s=9\n)\n", id="after a comment"
        ),
        pytest.param(
            "f(\n    1,\n    # rest\n    **k,\n)\n",
            "f(\n    1,\n    s=9,\n    # rest\n    **k,\n)\n",
            id="above a comment",
        ),
        pytest.param(
            "f(\r\n\t1,\r\n\tb=3\r\n)", "f(\r\n\t1,\r\n\tb=3,\r\n\ts=9\r\n)", id="CRLF, tabs, no last newline"
        ),
    ],
)
def test_a_set_keyword_takes_the_layout_of_the_call(before: str, after: str) -> None:
    assert applied(before, SetKeyword("a.py", call(before), "s", "9")) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("f(1, r=g(2), b=3)\n", "f(1, s=9, b=3)\n", id="takes the place of the other"),
        pytest.param("f(1, r=g(2), s=3)\n", "f(1, s=9)\n", id="or keeps its own"),
        pytest.param("f(\n    1,\n    r=2,  # two\n)\n", "f(\n    1,\n    s=9,  # two\n)\n", id="with its comment"),
        pytest.param("f(1, r=g(2,  # two\n  3))\n", "f(1,\n    # two\n    s=9)\n", id="and the comments inside"),
        pytest.param("f(1)\n", "f(1, s=9)\n", id="comes last where the other is not there"),
    ],
)
def test_a_keyword_that_replaces_another(before: str, after: str) -> None:
    assert applied(before, SetKeyword("a.py", call(before), "s", "9", replacing="r")) == after


def test_a_positional_argument_only_gets_a_new_value() -> None:
    text = "f(1, 2, False, r=g(2))\n"
    edit = SetKeyword("a.py", call(text), "s", "True", replacing="r", positional=2)
    assert applied(text, edit) == "f(1, 2, True)\n"


def test_edits_of_one_call_add_up_and_equal_ones_count_once() -> None:
    text = "x = f(1, a=2, b=3, c=4)\n"
    drop = DropKeyword("a.py", call(text), "a")
    keyword = SetKeyword("a.py", call(text), "c", "5")
    assert applied(text, drop, keyword, drop) == "x = f(1, b=3, c=5)\n"


def test_edits_inside_each_other() -> None:
    text = "x = f(g(1, s=2), b=h(3, s=4))\n"
    edits: list[Edit] = [
        WrapExpression("a.py", call(text), "print(", ", 7)"),
        DropKeyword("a.py", span(text, "g(1, s=2)"), "s"),
        SetKeyword("a.py", span(text, "h(3, s=4)"), "s", "None"),
        SetKeyword("a.py", call(text), "c", "5"),
    ]
    assert applied(text, *edits) == "x = print(f(g(1), b=h(3, s=None), c=5), 7)\n"
    assert applied(text, *reversed(edits)) == "x = print(f(g(1), b=h(3, s=None), c=5), 7)\n"


def test_what_lies_in_something_removed_goes_with_it() -> None:
    text = "x = f(1, s=g(2, t=3))\ny = 1\n"
    inner = DropKeyword("a.py", span(text, "g(2, t=3)"), "t")
    assert applied(text, inner, DropKeyword("a.py", call(text), "s")) == "x = f(1)\ny = 1\n"
    assert applied(text, inner, DropStatement("a.py", span(text, "x = f(1, s=g(2, t=3))"))) == "y = 1\n"


def test_an_expression_replaced_and_wrapped() -> None:
    text = "x = (1 if a else 2)  # one\n"
    wanted = span(text, "1 if a else 2")
    edits: list[Edit] = [ReplaceExpression("a.py", wanted, "2"), WrapExpression("a.py", wanted, "f(", ")")]
    assert apply(text, edits, path="a.py").text == "x = (f(2))  # one\n"


def test_a_replacement_may_bind_loosely_where_nothing_binds_tighter() -> None:
    text = "x = f(a, b)\ny = (c)\n"
    edits: list[Edit] = [
        ReplaceExpression("a.py", span(text, "b"), "b or a"),
        ReplaceExpression("a.py", span(text, "c"), "1 if b else c"),
    ]
    assert apply(text, edits, path="a.py").text == "x = f(a, b or a)\ny = (1 if b else c)\n"


def test_a_tuple_is_bracketed_before_it_is_wrapped() -> None:
    text = "x = 1, 2\n"
    assert applied(text, WrapExpression("a.py", span(text, "1, 2"), "print(", ", 3)")) == "x = print((1, 2), 3)\n"


@pytest.mark.parametrize(
    ("text", "edits", "message"),
    [
        pytest.param(
            "x = f(1)\n",
            [SetKeyword("a.py", Span(4, 8), "s", "1"), SetKeyword("a.py", Span(4, 8), "s", "2")],
            "a.py:1:5: two edits give `s` different values",
            id="two values",
        ),
        pytest.param(
            "x = f(s=1)\n",
            [SetKeyword("a.py", Span(4, 10), "s", "1"), DropKeyword("a.py", Span(4, 10), "s")],
            "a.py:1:5: one edit sets `s`, another removes it",
            id="set and dropped",
        ),
        pytest.param(
            "y = 1\nx = f(1)\n",
            [WrapExpression("a.py", Span(10, 14), "g(", ")"), WrapExpression("a.py", Span(12, 15), "g(", ")")],
            "a.py:2:7: two edits overlap here without one being inside the other",
            id="partial overlap",
        ),
        pytest.param(
            "x = f(1)\n",
            [DropKeyword("a.py", Span(4, 8), "s")],
            "a.py:1:5: the call has no keyword `s`",
            id="nothing to drop",
        ),
        pytest.param(
            "x = f + 1\n",
            [DropKeyword("a.py", Span(4, 9), "s")],
            "a.py:1:5: there is no call here",
            id="not a call",
        ),
        pytest.param(
            "x = (1 +  # one\n  2)\n",
            [ReplaceExpression("a.py", Span(5, 19), "3")],
            "a.py:1:6: the expression holds a comment that would be lost; edit it by hand",
            id="a comment in the replaced expression",
        ),
        pytest.param(
            "x = f(s=g(t=1))\n",
            [SetKeyword("a.py", Span(4, 15), "s", "2"), DropKeyword("a.py", Span(8, 14), "t")],
            "a.py:1:5: another edit lies inside the value of `s`, which is replaced",
            id="an edit inside a replaced value",
        ),
        pytest.param(
            "x = 1\n",
            [DropStatement("a.py", Span(0, 4))],
            "a.py:1:1: no statement begins and ends where the edit says",
            id="not a statement",
        ),
        pytest.param(
            "x = 1\n",
            [ReplaceExpression("a.py", Span(4, 5), "2 +")],
            "a.py:1:5: not an expression",
            id="a replacement that is no expression",
        ),
        pytest.param(
            "x = not a\n",
            [ReplaceExpression("a.py", Span(8, 9), "b or c")],
            "a.py:1:9: the new expression needs brackets here",
            id="a replacement that falls apart",
        ),
        pytest.param(
            "x = (\n", [DropKeyword("a.py", Span(0, 1), "s")], "a.py:1:1: the file does not parse", id="broken"
        ),
        pytest.param(
            "x = 1\n", [DropKeyword("b.py", Span(0, 1), "s")], "a.py:1:1: an edit of b.py", id="another file's edit"
        ),
    ],
)
def test_edits_that_do_not_fit_say_where_and_why(text: str, edits: list[Edit], message: str) -> None:
    with pytest.raises(EditError) as error:
        apply(text, edits, path="a.py")
    assert str(error.value).startswith(message)


def test_code_elsewhere_may_be_as_deep_as_it_likes() -> None:
    deep = "y = " + " + ".join(["a"] * 1200) + "\n"
    text = f"a = 1\nf = print\n{deep}x = f(1, s=2)\n"
    target = Span(text.rindex("f("), len(text) - 1)
    assert apply(text, [DropKeyword("a.py", target, "s")], path="a.py").text == text.replace(", s=2", "")


def test_only_the_changed_characters_count_as_touched() -> None:
    text = "f(\n    1,\n    s=2,\n    b=3,\n)\n"
    result = apply(text, [DropKeyword("a.py", call(text), "s")], path="a.py")
    assert [text[touched.start : touched.end] for touched in result.touched] == ["s=2,\n    "]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"a": 1, "sampler": s}', '{"a": 1}'),
        ("{'sampler': s, 'a': 1}", "{'a': 1}"),
        ("{'sampler': s}", "{}"),
        ("{\n    'sampler': s,  # ordered\n    **more,\n}", "{\n    # ordered\n    **more,\n}"),
        ("{\n    'a': 1,\n    'sampler': s,\n}", "{\n    'a': 1,\n}"),
    ],
)
def test_an_item_of_a_dict_display_goes_by_its_key(before: str, after: str) -> None:
    edit = DropKeyword("train.py", Span(5, 5 + len(before)), "sampler")
    assert apply(f"kw = {before}\n", [edit], path="train.py").text == f"kw = {after}\n"


def test_an_item_of_a_dict_display_is_not_set_as_a_keyword() -> None:
    with pytest.raises(EditError, match="an item of a dict is no keyword"):
        apply("kw = {'a': 1}\n", [SetKeyword("train.py", Span(5, 13), "a", "2")], path="train.py")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "return DataLoader(ds,\n                  batch_size=2)",
            'return sanitize(DataLoader(ds,\n                           batch_size=2), owner="ddp")',
            id="lines aligned with the bracket stay so",
        ),
        pytest.param(
            "return DataLoader(\n    ds,\n    batch_size=2,\n)",
            'return sanitize(DataLoader(\n    ds,\n    batch_size=2,\n), owner="ddp")',
            id="lines indented below stay",
        ),
        pytest.param(
            'return DataLoader(ds, """\n                           """,\n                  2)',
            'return sanitize(DataLoader(ds, """\n                           """,\n                  2), owner="ddp")',
            id="a string over several lines stays",
        ),
    ],
)
def test_an_expression_that_moves_to_the_right_keeps_its_lines_aligned(before: str, after: str) -> None:
    edit = WrapExpression("train.py", Span(7, len(before)), "sanitize(", ', owner="ddp")')
    assert apply(before + "\n", [edit], path="train.py").text == after + "\n"
