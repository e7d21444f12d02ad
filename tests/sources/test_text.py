"""Bytes in, bytes out; lines and newlines as ``ast`` sees them; errors of one line."""

from __future__ import annotations

import ast
import pickle
from pathlib import Path

import pytest

from shardfix.sources.text import SourceError, SourceText, decode, line_starts, newline_of


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(b"", SourceText("", "utf-8", False), id="empty"),
        pytest.param(b"x = 1\n", SourceText("x = 1\n", "utf-8", False), id="plain"),
        pytest.param(b"x = 1", SourceText("x = 1", "utf-8", False), id="no final newline"),
        pytest.param(b"a\r\nb\r\n", SourceText("a\r\nb\r\n", "utf-8", False), id="CRLF is not translated"),
        pytest.param(b"a\r\nb\nc\rd", SourceText("a\r\nb\nc\rd", "utf-8", False), id="mixed newlines"),
        pytest.param(b"\x0ca\t\n", SourceText("\x0ca\t\n", "utf-8", False), id="form feed and tab"),
        pytest.param(b"\xef\xbb\xbfx\n", SourceText("x\n", "utf-8", True), id="byte order mark"),
        pytest.param(
            b"\xef\xbb\xbf# coding: UTF_8\n", SourceText("# coding: UTF_8\n", "utf-8", True), id="mark and cookie"
        ),
        pytest.param(
            b"# -*- coding: latin-1 -*-\n'\xe9'\n",
            SourceText("# -*- coding: latin-1 -*-\n'é'\n", "iso-8859-1", False),
            id="latin-1 by cookie",
        ),
        pytest.param(
            b"#!/usr/bin/python\r\n# vim: set fileencoding=cp1252 :\r\n'\x80'",
            SourceText("#!/usr/bin/python\r\n# vim: set fileencoding=cp1252 :\r\n'€'", "cp1252", False),
            id="cookie on the second line",
        ),
        pytest.param(
            b"x = 1\n# coding: latin-1\n",
            SourceText("x = 1\n# coding: latin-1\n", "utf-8", False),
            id="no cookie below code",
        ),
        pytest.param(
            b"#\n\n# coding: latin-1\n", SourceText("#\n\n# coding: latin-1\n", "utf-8", False), id="nor on line 3"
        ),
        pytest.param(
            b"# coding: utf-8-sig\n", SourceText("# coding: utf-8-sig\n", "utf-8", False), id="utf-8-sig is utf-8"
        ),
        pytest.param(
            "# coding: gbk\n'数'\n".encode("gbk"), SourceText("# coding: gbk\n'数'\n", "gbk", False), id="gbk"
        ),
    ],
)
def test_text_turns_back_into_the_same_bytes(data: bytes, expected: SourceText) -> None:
    source = decode(data, "a.py")
    assert source == expected
    assert source.encode() == data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(
            "# über\ns = 'é".encode() + b"\xff'\n",
            "a.py:2:7: byte 0xff is not utf-8; save it as UTF-8 or name its encoding in a coding cookie",
            id="bytes that are no utf-8: columns count characters",
        ),
        pytest.param(
            b"# coding: klingon\n",
            "a.py:1:11: unknown encoding 'klingon'; correct the coding cookie",
            id="unknown encoding",
        ),
        pytest.param(
            b"# coding: rot13\n",
            "a.py:1:11: unknown encoding 'rot13'; correct the coding cookie",
            id="no text encoding",
        ),
        pytest.param(
            b"\xef\xbb\xbf# coding: latin-1\n",
            "a.py:1:11: a UTF-8 byte order mark, but the cookie says 'latin-1'; remove one of the two",
            id="mark against cookie",
        ),
        pytest.param(
            "x = 1\n".encode("utf-16"),
            "a.py:1:1: the file is UTF-16, which Python does not read; save it as UTF-8",
            id="UTF-16",
        ),
        pytest.param(
            b"x = 1\ny\0\n",
            "a.py:2:2: a NUL byte, which Python does not accept; save the file as UTF-8",
            id="NUL",
        ),
        pytest.param(
            b"# coding: utf-7\n'+AGE-'\n",
            "a.py:1:11: its bytes would change when written back as utf-7; save the file as UTF-8",
            id="not the way the encoding writes it",
        ),
    ],
)
def test_what_would_not_survive_is_refused_with_its_place(data: bytes, message: str) -> None:
    with pytest.raises(SourceError) as caught:
        decode(data, "a.py")
    assert str(caught.value) == message


def test_an_error_is_one_printable_line_and_survives_pickling() -> None:
    error = SourceError(Path("bad\n\x1b[31m\udcff.py"), 3, None, "odd", "rename it")
    assert str(error) == r"bad\n\x1b[31m\udcff.py:3:1: odd; rename it"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert str(SourceError("a.py", reason="odd")) == "a.py: odd"


@pytest.mark.parametrize(
    ("text", "offset", "expected"),
    [
        pytest.param("a\r\nb\nc\rd", 0, "\r\n", id="first line"),
        pytest.param("a\r\nb\nc\rd", 1, "\r\n", id="at the CR"),
        pytest.param("a\r\nb\nc\rd", 2, "\r\n", id="between CR and LF"),
        pytest.param("a\r\nb\nc\rd", 3, "\n", id="second line"),
        pytest.param("a\r\nb\nc\rd", 5, "\r", id="third line"),
        pytest.param("a\r\nb\nc\rd", 7, "\r", id="a last line without one: the newline before"),
        pytest.param("a\n\r\nb", 4, "\r\n", id="the nearest before"),
        pytest.param("\nb", 1, "\n", id="LF at the very start"),
        pytest.param("a", 0, "\n", id="none at all"),
        pytest.param("", 0, "\n", id="empty"),
    ],
)
def test_the_newline_is_that_of_the_line(text: str, offset: int, expected: str) -> None:
    assert newline_of(text, offset) == expected


def test_lines_start_where_ast_says() -> None:
    text = "a = 1\r\nb = 2\rc = '\u2028\x0b\x0c\x85'\n\x0cd = 4"
    assert line_starts(text) == [0, 7, 13, 24]
    starts = {node.lineno: node.col_offset for node in ast.parse(text).body}
    assert [text[line_starts(text)[line - 1] + column] for line, column in starts.items()] == ["a", "b", "c", "d"]
    assert line_starts("") == [0]
    assert line_starts("a\n") == [0, 2]
