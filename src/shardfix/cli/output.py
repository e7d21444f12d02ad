"""Print what a command has to say: text or JSON, to standard output or beside a diff."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from shardfix.report.terminal import Page
from shardfix.result import RunResult


def print_json(results: Sequence[RunResult]) -> None:
    import json

    from shardfix.report.json import document

    json.dump(document(results), sys.stdout, indent=2)
    sys.stdout.write("\n")
    sys.stdout.flush()


def print_pages(results: Sequence[RunResult], page_of: Callable[[RunResult], Page], stream: TextIO) -> None:
    from shardfix.report.terminal import emit

    for number, result in enumerate(results):
        page = page_of(result)
        if number:
            page.lines.insert(0, ())
        emit(page, stream)


def write_patch(data: bytes, file: str) -> None:
    """Write a patch to a file. Raises PatchError if that can't be done."""
    try:
        Path(file).write_bytes(data)
    except OSError as error:
        raise PatchError(f"{file}: the patch can't be written ({error.strerror}); name another file") from None


class PatchError(Exception):
    """The patch could not be written."""
