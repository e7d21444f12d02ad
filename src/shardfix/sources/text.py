"""Source files as text that turns back into the same bytes: encodings, byte order marks, newlines, positions."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from os import PathLike, fspath

from shardfix.analysis.code.old_names import as_written

_NEWLINE = re.compile(r"\r\n?|\n")
_BYTE_NEWLINE = re.compile(rb"\r\n?|\n")
# PEP 263. Only blanks and a comment may stand before a cookie on the second line.
_COOKIE = re.compile(rb"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_BLANK = re.compile(rb"[ \t\f]*(?:#.*)?\Z", re.DOTALL)
_LATIN_1 = ("latin-1", "iso-8859-1", "iso-latin-1")


class SourceError(Exception):
    """What keeps a file or folder from being read or written, told in one line that says what to do about it.

    ``line`` and ``column`` are 1-based (columns in characters) and None where the trouble has no position.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        line: int | None = None,
        column: int | None = None,
        reason: str = "",
        remedy: str = "",
    ) -> None:
        super().__init__(path, line, column, reason, remedy)  # the same order, so that it pickles
        self.path = path
        self.line = line
        self.column = column
        self.reason = reason
        self.remedy = remedy

    def __str__(self) -> str:
        place = fspath(self.path)
        if self.line is not None:
            place += f":{self.line}:{1 if self.column is None else self.column}"
        message = f"{place}: {self.reason}; {self.remedy}" if self.remedy else f"{place}: {self.reason}"
        # A file name may hold newlines, terminal control or undecodable bytes; a message is one printable line.
        return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in message)


@dataclass(frozen=True, slots=True)
class SourceText:
    """A source file's text with its newlines untouched, and what is needed to write it back byte for byte.

    A name that is a keyword since Python 3.7 may stand in ``text`` in the form that ``old_names`` makes readable.
    """

    text: str
    encoding: str
    bom: bool

    def encode(self) -> bytes:
        """The bytes of the file.

        Raises UnicodeEncodeError when the text has come to hold a character that the file's encoding lacks.
        """
        data = as_written(self.text).encode(self.encoding)
        return codecs.BOM_UTF8 + data if self.bom else data


def decode(data: bytes, path: str | PathLike[str]) -> SourceText:
    """Read a file's bytes as Python does (PEP 263: byte order mark, cookie, else UTF-8), without newline translation.

    ``path`` is only named in errors. Raises SourceError when the bytes are no text in that encoding, or when the
    text would not turn back into the very same bytes.
    """
    bom = data.startswith(codecs.BOM_UTF8)
    body = data[len(codecs.BOM_UTF8) :] if bom else data
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise SourceError(path, 1, 1, "the file is UTF-16, which Python does not read", "save it as UTF-8")
    cookie = _cookie(body)
    if cookie is None:
        encoding = "utf-8"
    else:
        line, column, name = cookie
        encoding = _normal(name)
        if bom and encoding != "utf-8":
            reason = f"a UTF-8 byte order mark, but the cookie says {name!r}"
            raise SourceError(path, line, column, reason, "remove one of the two")
    nul = body.find(b"\0")
    if nul >= 0:
        line, column = _position(body[:nul].decode("latin-1"))
        raise SourceError(path, line, column, "a NUL byte, which Python does not accept", "save the file as UTF-8")
    try:
        text = body.decode(encoding)
        exact = text.encode(encoding) == body
    except UnicodeDecodeError as error:
        line, column = _position(body[: error.start].decode(encoding, "replace"))
        reason = f"byte 0x{body[error.start]:02x} is not {encoding}" if error.start < len(body) else str(error)
        raise SourceError(path, line, column, reason, "save it as UTF-8 or name its encoding in a coding cookie")
    except LookupError:
        line, column, name = cookie or (1, 1, encoding)
        raise SourceError(path, line, column, f"unknown encoding {name!r}", "correct the coding cookie")
    except ValueError as error:  # includes UnicodeEncodeError, and codecs that fail in their own way
        line, column, _ = cookie or (1, 1, "")
        raise SourceError(path, line, column, f"not readable as {encoding}: {error}", "save the file as UTF-8")
    if not exact:
        line, column, _ = cookie or (1, 1, "")
        reason = f"its bytes would change when written back as {encoding}"
        raise SourceError(path, line, column, reason, "save the file as UTF-8")
    return SourceText(text, encoding, bom)


def newline_of(text: str, offset: int = 0) -> str:
    r"""The newline that ends the line at a character offset: ``\r\n``, ``\r`` or ``\n``.

    On a last line that has none it is the newline before it, in a text of one line ``\n``: so what is inserted
    beside a line ends as that line does, in files of mixed endings too.
    """
    if text[offset : offset + 1] == "\n" and text[offset - 1 : offset] == "\r":
        return "\r\n"
    after = _NEWLINE.search(text, offset)
    if after is not None:
        return after.group()
    end = max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset))
    if end < 0:
        return "\n"
    return "\r\n" if text[end - 1 : end + 1] == "\r\n" else text[end]


def line_starts(text: str) -> list[int]:
    """The character offset at which each line starts, as ``ast`` counts lines.

    Lines end at CR LF, CR and LF only: not at form feeds nor at U+2028 as ``str.splitlines`` has it. A text that
    ends in a newline has an empty last line, so the list is never empty.
    """
    return [0, *(found.end() for found in _NEWLINE.finditer(text))]


def _cookie(body: bytes) -> tuple[int, int, str] | None:
    """Line, column and name of the coding cookie in the first two lines."""
    start = 0
    for line in (1, 2):
        end = _BYTE_NEWLINE.search(body, start)
        row = body[start : end.start() if end else len(body)]
        found = _COOKIE.match(row)
        if found:
            return line, found.start(1) + 1, found.group(1).decode("latin-1")
        if end is None or not _BLANK.match(row):
            return None
        start = end.end()
    return None


def _normal(name: str) -> str:
    """The cookie's encoding as CPython understands it (``get_normal_name``): utf-8-sig and the like are utf-8."""
    folded = name[:12].lower().replace("_", "-")
    if folded == "utf-8" or folded.startswith("utf-8-"):
        return "utf-8"
    if folded in _LATIN_1 or folded.startswith(tuple(f"{known}-" for known in _LATIN_1)):
        return "iso-8859-1"
    return name


def _position(before: str) -> tuple[int, int]:
    """The 1-based line and column that follow a text."""
    starts = line_starts(before)
    return len(starts), len(before) - starts[-1] + 1
