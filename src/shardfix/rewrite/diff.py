"""Unified diffs that a bare ``git apply`` takes, of any bytes."""

from __future__ import annotations

from collections.abc import Iterable

_CONTEXT = 3
_ESCAPES = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}


def unified_diff(path: str, before: bytes | None, after: bytes) -> bytes:
    """The change of one file as git writes it.

    Args:
        path: relative to the root of the repository, with forward slashes.
        before: None for a new file.
        after: what the file will hold.

    Returns:
        The diff, empty if nothing changes.
    """
    if before == after:
        return b""
    old, new = _lines(before or b""), _lines(after)
    a, b = _quoted("a/" + path), _quoted("b/" + path)
    parts = [b"diff --git " + a + b" " + b + b"\n"]
    if before is None:
        parts.append(b"new file mode 100644\n")
    if old or new:
        # A tab ends a name with a space in it: else GNU patch and git take what follows the space for a date.
        end = b"\t\n" if b" " in a else b"\n"
        parts += [b"--- " + (b"/dev/null\n" if before is None else a + end), b"+++ " + b + end]
    for hunk in _hunks(old, new):
        first, last = hunk[0], hunk[-1]
        parts.append(b"@@ -%s +%s @@\n" % (_range(first[1], last[2]), _range(first[3], last[4])))
        for tag, old_start, old_end, new_start, new_end in hunk:
            if tag == "equal":
                parts += (_marked(b" ", line) for line in old[old_start:old_end])
                continue
            parts += (_marked(b"-", line) for line in old[old_start:old_end])
            parts += (_marked(b"+", line) for line in new[new_start:new_end])
    return b"".join(parts)


def _lines(data: bytes) -> list[bytes]:
    """Lines as git counts them: only a line feed ends one."""
    lines = [line + b"\n" for line in data.split(b"\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _hunks(old: list[bytes], new: list[bytes]) -> Iterable[list[tuple[str, int, int, int, int]]]:
    """The grouped opcodes of difflib, over the stretch between the first and the last change.

    Files are long, changes few, and difflib's time grows with the square of the lines. Its guess at lines too common to
    matter (``autojunk``) is off: with it a hunk can end in lines that are taken out and put back, and git refuses it.
    """
    import difflib

    shorter = min(len(old), len(new))
    head = next((index for index in range(shorter) if old[index] != new[index]), shorter)
    tail = next((index for index in range(shorter - head) if old[-1 - index] != new[-1 - index]), shorter - head)
    head, tail = max(0, head - _CONTEXT), max(0, tail - _CONTEXT)
    matcher = difflib.SequenceMatcher(None, old[head : len(old) - tail], new[head : len(new) - tail], autojunk=False)
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        yield [(tag, a + head, b + head, c + head, d + head) for tag, a, b, c, d in group]


def _range(start: int, end: int) -> bytes:
    """Lines of a hunk: first line (from 1; the line before where there is none) and count."""
    return b"%d,%d" % (start + 1 if end > start else start, end - start)


def _marked(mark: bytes, line: bytes) -> bytes:
    return mark + line if line.endswith(b"\n") else mark + line + b"\n\\ No newline at end of file\n"


def _quoted(name: str) -> bytes:
    """A file name as git writes it: in C quotes if it holds a quote, backslash, control or non-ASCII character."""
    raw = name.encode("utf-8", "surrogateescape")
    if all(32 <= byte < 127 and byte not in b'"\\' for byte in raw):
        return raw
    escaped = []
    for byte in raw:
        if byte in _ESCAPES:
            escaped.append("\\" + _ESCAPES[byte])
        else:
            escaped.append(chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}")
    return ('"' + "".join(escaped) + '"').encode("ascii")
