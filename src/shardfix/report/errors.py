"""Say what went wrong in one line."""

from __future__ import annotations

from shardfix.report.terminal import visible


def line_of(error: BaseException) -> str:
    """An exception in one printable line: its own words if shardfix raised it for the user, else how to report it."""
    if told_by_shardfix(error):
        message = str(getattr(error, "message", "") or error)
        remedy = str(getattr(error, "remedy", "") or "")
        return visible(f"{message}; {remedy}" if remedy and remedy not in message else message)
    if isinstance(error, OSError) and error.filename is not None:
        return visible(f"{_name(error.filename)}: {error.strerror}")
    what = visible(str(error)) or "no message"
    return f"internal error: {type(error).__name__}: {what}; please report it (SHARDFIX_DEBUG=1 shows where)"


def told_by_shardfix(error: BaseException) -> bool:
    """Whether shardfix raised it for the user, so that its message says what to do."""
    return type(error).__module__.startswith("shardfix.")


def _name(filename: object) -> str:
    return filename.decode("utf-8", "surrogateescape") if isinstance(filename, bytes) else str(filename)
